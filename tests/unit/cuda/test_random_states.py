"""Random numbers of ``diffkern.cuda.random``: the bits of Numba's generators, and gradients through them."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.cuda import random

MASK = 2**64 - 1


def rotated(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & MASK


def steps(s0: int, s1: int, count: int) -> tuple[list[int], tuple[int, int]]:
    """The published algorithm with Python's numbers."""
    out = []
    for _ in range(count):
        out.append((s0 + s1) & MASK)
        s1 ^= s0
        s0, s1 = rotated(s0, 55) ^ s1 ^ (s1 << 14) & MASK, rotated(s1, 36)
    return out, (s0, s1)


def test_states_are_those_of_numba() -> None:
    """As ``numba.cuda.random`` makes them with the same arguments."""
    states = random.create_xoroshiro128p_states(3, seed=42, subsequence_start=2).copy_to_host()
    assert [tuple(map(int, s)) for s in states] == [
        (11993970802556713180, 5368778761872700062),
        (17249457156002458569, 895864088961879842),
        (10833148214898112945, 14266798641763014822),
    ]
    assert states.dtype == random.xoroshiro128p_dtype


@pytest.mark.parametrize("seed", [0, 1, -1, 2**64 - 1, 2**63])
def test_seeds_of_64_bits(seed: int) -> None:
    states = random.create_xoroshiro128p_states(2, seed=seed).copy_to_host()
    assert states["s0"][0] == states["s1"][0]
    assert states["s0"][1] != states["s0"][0]


def test_numbers_in_kernels() -> None:
    @dk.kernel
    def draw(states, bits, single, double, normal):  # type: ignore[no-untyped-def]
        i = dk.tid()
        bits[i] = random.xoroshiro128p_next(states, i)
        single[i] = random.xoroshiro128p_uniform_float32(states, i)
        double[i] = random.xoroshiro128p_uniform_float64(states, i)
        normal[i] = random.xoroshiro128p_normal_float64(states, i)

    n = 8
    states = random.create_xoroshiro128p_states(n, seed=7)
    before = states.copy_to_host()
    bits, single = dk.zeros(n, dtype=dk.uint64), dk.zeros(n, dtype=dk.float32)
    double, normal = dk.zeros(n, dtype=dk.float64), dk.zeros(n, dtype=dk.float64)
    draw[n](states, bits, single, double, normal)
    after = states.copy_to_host()
    for i in range(n):
        expected, last = steps(int(before["s0"][i]), int(before["s1"][i]), 5)
        unit = [(x >> 11) * 2.0**-53 for x in expected]
        u1, u2 = np.float32(unit[3]), np.float32(unit[4])
        assert int(bits.numpy()[i]) == expected[0]
        assert single.numpy()[i] == np.float32(unit[1])
        assert double.numpy()[i] == unit[2]
        box_muller = np.sqrt(-2.0 * np.log(float(u1))) * np.cos(2.0 * np.pi * float(u2))
        np.testing.assert_allclose(normal.numpy()[i], box_muller, rtol=1e-12)
        assert (int(after["s0"][i]), int(after["s1"][i])) == last


def test_none_and_many() -> None:
    assert random.create_xoroshiro128p_states(100, seed=3).copy_to_host().shape == (100,)
    first = random.create_xoroshiro128p_states(3, seed=3)
    again = random.create_xoroshiro128p_states(2, seed=3, subsequence_start=1)
    assert again.copy_to_host().tolist() == first.copy_to_host().tolist()[1:]


def test_gradients_of_what_is_drawn() -> None:
    """Of a mean of ``exp(sigma * z)`` the derivative is that of ``z * exp(sigma * z)``, with the same numbers."""

    @dk.kernel
    def price(states, sigma, out):  # type: ignore[no-untyped-def]
        i = dk.tid()
        total = dk.float64(0.0)
        for _ in range(4):
            total += dk.exp(sigma[0] * random.xoroshiro128p_normal_float64(states, i))
        out[i] = total

    def run(value: float) -> tuple[float, float]:
        states = random.create_xoroshiro128p_states(16, seed=5)
        sigma = dk.array([value], dtype=dk.float64, requires_grad=True)
        out = dk.zeros(16, dtype=dk.float64)
        with dk.Tape() as tape:
            price[16](states, sigma, out)
        tape.backward(grads={out: np.ones(16)})
        return float(out.numpy().sum()), float(sigma.grad.numpy()[0])

    h = 1e-5
    difference = (run(0.3 + h)[0] - run(0.3 - h)[0]) / (2 * h)
    assert run(0.3)[1] == pytest.approx(difference, rel=1e-7)
