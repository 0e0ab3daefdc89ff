"""DiffTaichi's simulators as kernels, beside the published programs in Taichi."""
