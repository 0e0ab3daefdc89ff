"""Roll-outs and checkpoints: loops of steps whose states are recomputed."""
