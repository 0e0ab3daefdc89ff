"""Augmented assignments on a GPU: ``red`` where threads may meet, one for each component that is meant."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from compiling import compile_function
from conftest import require

import diffkern as dk
from diffkern.compilation import Compilation
from diffkern.options import Variant

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
