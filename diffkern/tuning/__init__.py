"""Options of kernels chosen by measuring: candidates, readings on the arrays given, and what the cache keeps."""
