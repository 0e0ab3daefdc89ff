"""Programs of NPBench as kernels, beside the published NumPy, Numba and JAX versions."""
