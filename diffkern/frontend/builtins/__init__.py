"""Lowering of built-in functions."""
