"""Augmented assignments on a GPU: ``red`` where threads may meet, one for each component that is meant."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from compiling import compile_function
from conftest import require

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant

require("cuda.bindings.nvjitlink", "nvidia")


@dk.kernel
def gathered(at: dk.array(dtype=int), x: dk.array(dtype=float), h: dk.array(dtype=float)):
    i = dk.tid()
    h[at[i]] += x[i]
    h[at[i]] -= 2.0 * x[i]


@dk.kernel
def own(x: dk.array(dtype=float), h: dk.array(dtype=float)):
    i = dk.tid()
    h[i] += x[i]


@dk.kernel
def written_out(x: dk.array(dtype=float), h: dk.array(dtype=float)):
    i = dk.tid()
    h[i] = h[i] + x[i]


@dk.kernel
def components(at: dk.array(dtype=int), v: dk.array(dtype=dk.vec3), m: dk.array(dtype=dk.mat22)):
    i = dk.tid()
    v[at[i]].y += 1.5
    m[at[i]][1, 0] -= 2.5


@dk.kernel
def bits(at: dk.array(dtype=int), a: dk.array(dtype=dk.uint32), b: dk.array(dtype=dk.int64)):
    i = dk.tid()
    a[at[i]] |= dk.uint32(i)
    a[at[i]] ^= dk.uint32(3)
    b[at[i]] &= dk.int64(i)


@dk.kernel
def small_bits(at: dk.array(dtype=int), a: dk.array(dtype=dk.uint8), b: dk.array(dtype=bool)):
    i = dk.tid()
    a[at[i]] |= dk.uint8(i)
    b[at[i]] &= i < 7


@dk.kernel
def in_a_block(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.thread_index()
    s = dk.shared_array(shape=64, dtype=float)
    s[t] = x[i]
    s[t] += 1.0
    dk.syncthreads()
    s[0] += x[i]
    dk.syncthreads()
    y[i] += s[t]


@dk.kernel
def scattered(
    at: dk.array(dtype=int), x: dk.array(dtype=dk.vec3), m: dk.array(dtype=dk.mat22), h: dk.array(dtype=dk.vec3)
):
    i = dk.tid()
    dk.atomic_add(h, at[i], x[i])
    m[at[i]] += m[i] * x[i][0]


@dk.kernel
def one_sum(x: dk.array(dtype=dk.vec3), h: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    dk.atomic_add(h, 0, 2.0 * x[i])


@dk.kernel
def old_component(
    at: dk.array(dtype=int), x: dk.array(dtype=dk.vec3), h: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)
):
    i = dk.tid()
    old = dk.atomic_add(h, at[i], x[i])
    y[i] = old[1]


@dk.kernel
def extrema(at: dk.array(dtype=int), x: dk.array(dtype=float), h: dk.array(dtype=float), g: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_max(h, at[i], x[i])
    dk.atomic_min(g, at[i], dk.float64(x[i]))


def ptx_of(kernel: Any) -> str:
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90")).forward
    return str(compile_function(fn, "k", "sm_90").assembly())


def atomics(ptx: str) -> Counter[str]:
    return Counter(re.findall(r"\b((?:red|atom)[.a-z0-9:]+)", ptx))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (gathered, {"red.relaxed.gpu.global.add.f32": 2}),
        (own, {}),
        (components, {"red.relaxed.gpu.global.add.f32": 2}),
        (
            scattered,
            {
                "red.relaxed.gpu.global.add.v2.f32": 1,  # the components of an augmented assignment are told apart
                "red.relaxed.gpu.global.add.f32": 5,
            },
        ),
        (one_sum, {"red.relaxed.gpu.global.add.f32": 3}),
        (old_component, {"atom.relaxed.gpu.global.add.f32": 3}),
        (
            bits,
            {
                "red.relaxed.gpu.global.or.b32": 1,
                "red.relaxed.gpu.global.xor.b32": 1,
                "red.relaxed.gpu.global.and.b64": 1,
            },
        ),
    ],
)
def test_instructions(kernel: Any, expected: dict[str, int]) -> None:
    assert atomics(ptx_of(kernel)) == Counter(expected)


def test_bits_of_small_numbers_take_the_word_around_them() -> None:
    assert all(name.startswith("atom") and "cas" in name for name in atomics(ptx_of(small_bits)))


def test_what_is_proved_is_the_code_of_a_plain_update() -> None:
    assert ptx_of(own) == ptx_of(written_out)


def test_shared_memory() -> None:
    found = atomics(ptx_of(in_a_block))
    assert sum(found.values()) == 1
    assert all("shared" in name for name in found)


def test_components_of_one_sum_are_added_up_over_the_block() -> None:
    """Three sums, each by the shuffles of a warp, and one addition to memory for each block."""
    ptx = ptx_of(one_sum)
    assert ptx.count("shfl.sync") >= 3 * 5
    assert ptx.rindex("bar.sync") < ptx.index("red.relaxed")


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_libnvvm_takes_the_first_read(arch: str) -> None:
    text = dk.compile(extrema, target=arch, compiler="numba").ptx
    assert len(re.findall(r"ld\.volatile\.b(?:32|64)", text)) == 2
    assert text.count(".cas.") == 2


def test_an_extremum_that_changes_nothing_is_not_written() -> None:
    """Between the read, which no cache answers, and the exchange stands a way out; so it does before each new try."""
    ptx = ptx_of(extrema)
    for width in ("b32", "b64"):
        first = ptx.index(f"ld.relaxed.gpu.global.{width}")
        exchange = ptx.index(f"atom.relaxed.gpu.global.cas.{width}")
        loop = re.search(r"\$L\w+:", ptx[first:exchange])
        assert loop is not None
        assert re.search(r"@!?%p\d+ bra", ptx[first + loop.end() : exchange])
    assert ".sys." not in ptx


@dk.kernel
def doubled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def test_printed_source_clears_a_cotangent_at_once():
    """Nobody looks at whether the arrays of a printed program overlap; in a launch's program it comes later."""
    lines = [line.strip() for line in doubled.adjoint_source(target="cuda").splitlines() if "ct_" in line]
    cleared = next(k for k, line in enumerate(lines) if line.startswith("ct_y[i] = float32(0.0)"))
    added = next(k for k, line in enumerate(lines) if line.startswith("ct_x["))
    assert cleared < added, lines
