import numpy as np

import diffkern as dk


@dk.kernel
def block_sums(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.thread_index()
    part = dk.shared_array(256, float)
    part[t] = x[i]
    dk.syncthreads()
    half = dk.block_dim() // 2
    while half > 0:
        if t < half:
            part[t] = part[t] + part[t + half]
        dk.syncthreads()
        half = half // 2
    if t == 0:
        total[dk.block_index()] = part[0]


x = np.arange(256, dtype=np.float32)
total = np.zeros(4, np.float32)
dk.launch(block_sums, dim=256, inputs=[x], outputs=[total], block_dim=64)
print(total)
