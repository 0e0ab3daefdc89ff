"""What generated CUDA source calls besides numba-cuda itself: every primitive under one name, in two forms.

In numba's CUDA simulator (``NUMBA_ENABLE_CUDASIM=1``) a name is the pure Python twin of ``diffkern.printing.prims``
(:mod:`~diffkern.targets.cuda.device_simulated`), in compiled kernels a device function
(:mod:`~diffkern.targets.cuda.device_compiled`). Both follow the operation table: a zero divisor gives 0, a cast to an
integer saturates, NaN is passed on by ``min`` and ``max``.

Generated source that is looked at but not run does not need this module.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float32, float64 = np.float32, np.float64
inf, nan = math.inf, math.nan


def _primitives() -> dict[str, Any]:
    simulated = importlib.import_module("numba").config.ENABLE_CUDASIM
    form = importlib.import_module(f"diffkern.targets.cuda.device_{'simulated' if simulated else 'compiled'}")
    found: dict[str, Any] = form.primitives()
    return found


globals().update(_primitives())
