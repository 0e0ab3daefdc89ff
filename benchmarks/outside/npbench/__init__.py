"""Programs of NPBench as kernels, beside the published NumPy, Numba and JAX versions.

Each program's published size S on one processor, in time of that processor, tool after tool in turns. Rows of
``azimint_hist``, ``azimint_naive``, ``crc16``, ``jacobi_1d``, ``seidel_2d``, ``stockham_fft`` and ``trisolv`` were
measured again after the others, when the compiler or these ports had changed, on the same machine and day, with other
work on it.
"""
