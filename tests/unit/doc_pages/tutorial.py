from pathlib import Path

import diffkern as dk
from diffkern.shipping.ship import compile_ahead


@dk.kernel
def other(x: dk.array(dtype=float)):
    x[dk.tid()] *= 2.0


compile_ahead([other], ["native"], Path("kernels"), progress=False)
