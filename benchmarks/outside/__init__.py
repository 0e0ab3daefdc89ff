"""Programs that others published as yardsticks, as kernels beside the best tools that run on the same machine."""
