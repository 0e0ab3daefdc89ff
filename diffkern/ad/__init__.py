"""Automatic differentiation on the IR: activity, reverse mode, derivative rules."""
