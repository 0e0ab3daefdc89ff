"""Run time: loads compiled kernels, packs their arguments and launches them. Knows no IR and no compiler."""
