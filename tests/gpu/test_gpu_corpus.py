"""The language and gradient corpus on a GPU: results and gradients are those of the CPU."""

from __future__ import annotations

import pytest
from device_checks import check_case
from grad.corpus import CASES

import diffkern as dk

pytestmark = pytest.mark.gpu

TOO_LARGE = "tiles.large_tiles"
"""Its adjoint keeps more than a GPU's block has."""
NAMES = [
    name for name in sorted(CASES) if not CASES[name].options and name not in ("loops.long_contraction", TOO_LARGE)
]


@pytest.mark.parametrize("name", NAMES)
def test_case(name):
    check_case(CASES[name], "cuda:0")


@pytest.mark.real_gpu
def test_tiles_that_a_block_has_no_room_for():
    with pytest.raises(dk.CompileError, match=r"the tiles of kernel large_tiles take \d+ bytes of shared memory"):
        check_case(CASES[TOO_LARGE], "cuda:0")
