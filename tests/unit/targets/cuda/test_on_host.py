"""The CUDA emitter's modules, run on the host, against the Python twin of every operation.

The tests are those of the CPU back end, with another compiler in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from on_host import HostCuda, cpu_harness
from test_cpu_control import *  # noqa: F403
from test_cpu_memory import *  # noqa: F403
from test_cpu_ops import *  # noqa: F403
from test_cpu_random import *  # noqa: F403


class _Compiled(HostCuda):
    def __init__(self, fn: Any, **options: Any) -> None:
        super().__init__(fn, **options)
        self.fn = fn

    def __call__(self, args: Sequence[Any], dim: int | tuple[int, ...], *, chunk: int | None = None) -> None:
        dims = (dim,) if isinstance(dim, int) else dim
        if np.prod(dims):
            self.launch(cpu_harness.pack(self.fn, args, dims, 0, 0))


@pytest.fixture(autouse=True)
def _cuda_in_place_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_harness, "Compiled", _Compiled)
