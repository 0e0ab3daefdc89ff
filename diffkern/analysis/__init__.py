"""Analyses of IR functions: values that threads share, accesses that overlap, and the cost of operations."""
