"""Tiles lowered to loops and memory, for targets that run a block as one thread (``serial``), and for ``block``s."""
