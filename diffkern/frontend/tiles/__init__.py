"""Lowering of tile functions."""
