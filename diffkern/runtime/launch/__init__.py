"""Launches of kernels: arguments, checks, grids, schedules, programs."""
