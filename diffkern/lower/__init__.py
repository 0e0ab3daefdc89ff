"""From what a kernel says to what a target has: vectors to scalars, blocks to threads, tiles to loops and memory."""
