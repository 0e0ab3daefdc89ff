"""The run time on NVIDIA's GPUs: driver, devices, memory, streams, programs and graphs."""
