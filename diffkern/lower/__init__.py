"""Lowering from the kernel language to targets: vectors to scalars, blocks to threads, tiles to loops and memory."""
