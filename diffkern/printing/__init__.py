"""The readable Python form of a function, its primitives, and its thread-by-thread execution."""
