"""Random numbers in kernels, under the names of ``numba.cuda.random`` and with the same bits.

An array on the device holds the states of a number of generators, made from a seed, and functions for kernels take it
and the number of a generator. The generator is xoroshiro128+ and its seed goes through SplitMix64 (Blackman and Vigna,
*Scrambled linear pseudorandom number generators*, 2018); each state is 2**64 steps behind the one before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffkern.cuda.arrays import DeviceArray, device_array
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.runtime.arrays.array import new
from diffkern.runtime.arrays.structs import struct

__all__ = [
    "create_xoroshiro128p_states", "init_xoroshiro128p_states", "xoroshiro128p_dtype", "xoroshiro128p_jump",
    "xoroshiro128p_next", "xoroshiro128p_normal_float32", "xoroshiro128p_normal_float64",
    "xoroshiro128p_uniform_float32", "xoroshiro128p_uniform_float64",
]  # fmt: skip

_float32, _float64, _uint64 = SCALARS["float32"], SCALARS["float64"], SCALARS["uint64"]
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1
_JUMP_LOW, _JUMP_HIGH = np.uint64(0xBEAC0467EBA5FACB), np.uint64(0xD86B048B86AA9922)
_UNIT = 2.0**-53
_TWO_PI_32, _TWO_PI_64 = float(np.float32(2.0 * math.pi)), 2.0 * math.pi


@struct
class Xoroshiro128p:
    """The state of a generator."""

    s0: _uint64  # type: ignore[valid-type]
    s1: _uint64  # type: ignore[valid-type]


xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
"""NumPy's type of a state."""


@func
def xoroshiro128p_next(states, index):  # type: ignore[no-untyped-def]
    """Return the next random uint64 of a generator."""
    s0 = states[index].s0
    s1 = states[index].s1
    mixed = s1 ^ s0
    turned = (s0 << _uint64(55)) | (s0 >> _uint64(9))
    states[index].s0 = turned ^ mixed ^ (mixed << _uint64(14))
    states[index].s1 = (mixed << _uint64(36)) | (mixed >> _uint64(28))
    return s0 + s1


@func
def xoroshiro128p_jump(states, index):  # type: ignore[no-untyped-def]
    """Advance a generator by 2**64 steps."""
    s0 = _uint64(0)
    s1 = _uint64(0)
    for bit in range(128):
        word = _JUMP_LOW if bit < 64 else _JUMP_HIGH
        if (word >> _uint64(bit % 64)) & _uint64(1) != _uint64(0):
            s0 = s0 ^ states[index].s0
            s1 = s1 ^ states[index].s1
        xoroshiro128p_next(states, index)
    states[index].s0 = s0
    states[index].s1 = s1


@func
def xoroshiro128p_uniform_float64(states, index):  # type: ignore[no-untyped-def]
    """Return a uniformly distributed float64 from 0 to below 1."""
    return _float64(xoroshiro128p_next(states, index) >> _uint64(11)) * _float64(_UNIT)


@func
def xoroshiro128p_uniform_float32(states, index):  # type: ignore[no-untyped-def]
    """Return a uniformly distributed float32 from 0 to 1; rounding may give 1."""
    return _float32(xoroshiro128p_uniform_float64(states, index))


@func
def xoroshiro128p_normal_float32(states, index):  # type: ignore[no-untyped-def]
    """Return a normally distributed float32 of mean 0 and deviation 1; it takes two steps of the generator."""
    u1 = xoroshiro128p_uniform_float32(states, index)
    u2 = xoroshiro128p_uniform_float32(states, index)
    # Box-Muller; the angle is in single precision as in Numba.
    return math.sqrt(_float32(-2.0) * math.log(u1)) * math.cos(_float32(_TWO_PI_32) * u2)


@func
def xoroshiro128p_normal_float64(states, index):  # type: ignore[no-untyped-def]
    """Return a normally distributed float64, made as in Numba of two uniformly distributed float32."""
    u1 = _float64(xoroshiro128p_uniform_float32(states, index))
    u2 = _float64(xoroshiro128p_uniform_float32(states, index))
    return math.sqrt(_float64(-2.0) * math.log(u1)) * math.cos(_float64(_TWO_PI_64) * u2)


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0) -> DeviceArray:
    """Return the states of `n` generators on the device.

    Parameters
    ----------
    n : int
        Number of generators.
    seed : int
        A number of 64 bits.
    subsequence_start : int, optional
        Number of times 2**64 steps that the first generator is ahead of the seed's.
    stream : diffkern.cuda.streams.Stream, optional
        The stream on which they are copied to the device.
    """
    states = device_array(n, Xoroshiro128p, stream=stream)
    init_xoroshiro128p_states(states, seed, subsequence_start, stream)
    return states


def init_xoroshiro128p_states(states: DeviceArray, seed: int, subsequence_start: int = 0, stream: Any = 0) -> None:
    """Set the states of generators; parameters as of :func:`create_xoroshiro128p_states`."""
    # One step of SplitMix64, which Numba puts into both words.
    z = (int(seed) + _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    z ^= z >> 31
    made = new(states.shape, Xoroshiro128p.__diffkern_struct__.type, True)  # type: ignore[attr-defined]
    if made.size:
        made._data[0] = (z, z)
        # Each state follows from the one before, so that one thread on the CPU makes all of them.
        _spread[1](made, int(subsequence_start))
    # The states are made on the CPU with wrapping 64-bit arithmetic, so that they are the same with every device.
    states.copy_to_device(made, stream)


_tid = INTRINSICS["tid"]


@Kernel
def _spread(states, start):  # type: ignore[no-untyped-def]
    _tid()
    for _ in range(start):
        xoroshiro128p_jump(states, 0)
    for i in range(1, states.shape[0]):
        states[i].s0 = states[i - 1].s0
        states[i].s1 = states[i - 1].s1
        xoroshiro128p_jump(states, i)
