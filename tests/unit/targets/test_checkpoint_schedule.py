"""The schedule of snapshots in compiled code: that of its twin in Python, on processors and by executed PTX."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import require
from cpu_harness import kernel, load, store, tids
from support.ptx.programs import PtxProgram

from diffkern.ir.types import INT32, Array
from diffkern.printing.prims import schedule
from diffkern.testing.programs import CompiledFunction

MOST = 2**31 - 1


def program():
    def body(b, n, s, out):
        (i,) = tids(b)
        store(b, out, i, b.one("next_checkpoint", b.i32(0), b.sub(load(b, n, i), b.i32(1)), load(b, s, i)))

    return kernel({"n": Array(INT32, 1), "s": Array(INT32, 1), "out": Array(INT32, 1)}, body)


def agrees(made, pairs) -> None:
    n, s = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    out = np.zeros(len(n), np.int32)
    made.run((len(n),), [n, s, out])
    expected = [schedule(0, int(a) - 1, int(b)) for a, b in zip(n, s, strict=True)]
    np.testing.assert_array_equal(out, expected)


def boundaries():
    """Lengths around every number of steps that so many slots and sweeps reach, and the largest there are."""
    slots = [1, 2, 3, 4, 5, 7, 16, 31, 83, 100, 511, 1000, 46340, 46341, 65535, 65536, 2**20, 2**30, MOST - 1, MOST]
    for s in slots:
        lengths = {1, 2, s - 1, s, s + 1, s + 2, MOST - 1, MOST}
        for r in range(1, 70):
            reach = math.comb(s + r, s) if s < 2**20 or r < 3 else MOST + 1
            if reach > MOST:
                break
            lengths |= {reach - 1, reach, reach + 1}
        yield from ((n, s) for n in lengths if 1 <= n <= MOST)


def test_every_short_length():
    agrees(CompiledFunction(program()), [(n, s) for n in range(1, 400) for s in range(42)])


def test_lengths_at_which_the_number_of_sweeps_changes():
    agrees(CompiledFunction(program()), list(boundaries()))


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_on_a_gpu(compiler):
    """Nothing is called: a call takes the registers of all that is alive around it."""
    require("cuda.bindings.nvjitlink", "nvidia", *(["numba.cuda"] if compiler == "numba" else []))
    made = PtxProgram(program(), compiler, block_dim=256)
    assert "call" not in made.text
    assert "div.s64" not in made.text
    assert "div.u64" not in made.text
    few_sweeps = [(n, s) for n, s in boundaries() if n < 3000 or s > 500]
    agrees(made, [(n, s) for n in range(1, 40) for s in range(0, 20, 3)] + few_sweeps)
