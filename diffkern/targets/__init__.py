"""Targets: what turns the IR into machine code. Nothing else in diffkern imports numba or LLVM's compiler."""
