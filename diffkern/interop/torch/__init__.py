"""PyTorch: its tensors in kernels, arrays as tensors, and kernels as functions that its autograd differentiates."""
