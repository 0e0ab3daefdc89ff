"""Transformations of the IR that keep its meaning: each takes a function and returns one. None knows a target."""
