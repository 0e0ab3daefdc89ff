"""Load kernels that are all in the cache, and say how long that took.

In: a module ``many_kernels`` on the path. Out: a line of JSON: seconds of the set-up (importing diffkern after NumPy,
and what the first launch takes over another one), seconds of each launch that loads a kernel, heavy modules imported.
"""

import json
import sys
import time

import numpy as np

clock = time.perf_counter
start = clock()
import diffkern as dk  # noqa: E402

imported = clock() - start
import many_kernels  # noqa: E402

x = dk.array(np.zeros(4, dtype=np.float32))
y = dk.zeros(4)
loads = []
for kernel in many_kernels.KERNELS:
    start = clock()
    dk.launch(kernel, dim=4, inputs=[x, y, 1.0])
    loads.append(clock() - start)
first, *others = loads
heavy = [name for name in ("numba", "sympy", "diffkern.compiler.pipeline") if name in sys.modules]
others.append(sum(others) / len(others))
print(json.dumps({"set_up": imported + first - others[-1], "loads": others, "heavy": heavy}))
