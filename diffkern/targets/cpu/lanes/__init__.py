"""Lanes: neighbouring threads of a launch in one vector register, forward and adjoint."""
