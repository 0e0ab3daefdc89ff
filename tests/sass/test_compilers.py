"""The corpus by numba-cuda for three architectures, held against what LLVM makes of it. No GPU is needed."""

from __future__ import annotations

import pytest
from conftest import require
from corpus import SAMPLES
from support.selection import is_usual

from .compilers import Pair, compare, mean
from .programs import DIRECTIONS

require("cuda.bindings.nvjitlink", "cuda.bindings.nvvm", "nvidia", "numba_cuda")

MOST, MEAN = 4.0, 1.6


def problems(pair: Pair) -> list[str]:
    """What a program breaks of the rules that hold for those by LLVM, and of those beside it."""
    made = pair.numba
    found = []
    if pair.ratio > MOST:
        found.append(f"{made.size} instructions for {pair.llvm.size}")
    if made.parameter_bytes != pair.llvm.parameter_bytes:
        found.append(f"parameters of {made.parameter_bytes} bytes, not {pair.llvm.parameter_bytes}")
    if made.atomics != pair.llvm.atomics:
        found.append(f"atomics {dict(made.atomics)}, not {dict(pair.llvm.atomics)}")
    if pair.sample.real == "float32" and made.code.count("float64"):
        found.append(f"{made.code.count('float64')} float64 instructions")
    if made.resources.spill_bytes > pair.llvm.resources.spill_bytes:
        found.append(f"{made.resources.spill_bytes} bytes spilled")
    return [f"{pair.arch} {pair.name}: {text}" for text in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch", ["sm_90", *(pytest.param(arch, marks=pytest.mark.full) for arch in ("sm_80", "sm_120"))]
)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_numba_makes_what_llvm_makes(direction: str, every: int, arch: str) -> None:
    samples = [sample for name, sample in SAMPLES.items() if is_usual(f"{direction} {name}", every)]
    assert len(samples) > 10
    made = compare(samples, direction, (arch,))
    assert len(made) == len(samples)
    found = [text for pair in made for text in problems(pair)]
    ratio = mean(made)
    if ratio > MEAN:
        found.append(f"{arch}: {ratio:.2f} times the instructions in the geometric mean")
    assert not found, "\n".join(found)
