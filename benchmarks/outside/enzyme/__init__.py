"""The applications of Enzyme's papers as kernels.

Published overheads are the time of the gradient over that of the primal, on the machines of the papers. A gradient here
is that of a whole run of time steps; Enzyme's LULESH takes the gradient of each step by itself. Rows of kernels count
the instructions of the machine code that NVIDIA's assembler makes of them, without a GPU.
"""
