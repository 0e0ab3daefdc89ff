"""A CUDA driver in host memory, for tests of the run time where there is no GPU."""
