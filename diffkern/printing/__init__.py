"""The readable Python spelling of a function, its primitives, and its thread-by-thread execution."""
