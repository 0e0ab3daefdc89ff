"""The names of ``numba.cuda``: each is there, or a message says what to write instead."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern import cuda
from diffkern.cuda.names import DIFFERENT, INSTEAD, INTERNAL, OWN
from diffkern.cuda.types import TYPES


def test_every_public_name_of_numba_is_accounted_for() -> None:
    require("numba.cuda")
    numba_cuda = importlib.import_module("numba.cuda")
    public = {
        name
        for name in dir(numba_cuda)
        if not name.startswith("_") and not isinstance(getattr(numba_cuda, name), ModuleType)
    }
    ours = set(cuda.__all__)
    assert public - ours - set(INSTEAD) - INTERNAL == set()
    assert {name for name in ours if not hasattr(numba_cuda, name)} == OWN
    assert ours & (set(INSTEAD) | INTERNAL) == set()
    assert set(INSTEAD) & INTERNAL == set()


def test_what_differs_is_there() -> None:
    assert set(DIFFERENT) <= set(cuda.__all__)


def test_every_name_is_there() -> None:
    for name in cuda.__all__:
        assert getattr(cuda, name) is not None


def test_absent_names_say_what_to_write() -> None:
    with pytest.raises(AttributeError, match="has no 'grid_group'; there is no barrier of a whole grid"):
        _ = cuda.grid_group
    with pytest.raises(AttributeError, match="belongs to Numba's compiler"):
        _ = cuda.ffi
    with pytest.raises(AttributeError, match=r"^module 'diffkern\.cuda' has no attribute 'nonsense'$"):
        _ = cuda.nonsense
    with pytest.raises(ImportError, match="In"):
        from diffkern.cuda import In  # noqa: F401


def test_types_are_those_of_diffkern() -> None:
    assert (cuda.float32, cuda.f8, cuda.float3, cuda.int32x2) == (dk.float32, dk.float64, dk.vec3, dk.vec2i)
    assert cuda.types.TYPES is TYPES
    for name, t in TYPES.items():
        if isinstance(t, type(dk.float32)) and t != dk.bfloat16 and name not in ("char", "long_", "byte"):
            numpy = getattr(np, name, None)
            assert numpy is None or not isinstance(numpy, type) or np.dtype(numpy) == t.numpy, name


@cuda.jit
def waits_for_the_grid(x):  # type: ignore[no-untyped-def]
    cuda.cg.this_grid().sync()


def test_kernels_say_what_to_write() -> None:
    with pytest.raises(dk.KernelError, match="cuda has no attribute 'cg'") as caught:
        waits_for_the_grid[1, 1](np.zeros(1))
    assert INSTEAD["cg"] in str(caught.value)
