"""Tiles taken apart, for a target that runs a block as one thread (``serial``) and for blocks (``block``)."""
