"""Targets: what turns the IR into machine code. The only part of diffkern that imports numba and llvmlite's compiler."""
