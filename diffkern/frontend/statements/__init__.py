"""Lowering of statements, expressions and calls."""
