"""What XSBench and RSBench share: random numbers, and the materials of a reactor of Hoogenboom and Martin."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import Any

import numpy as np

import diffkern as dk

Array = np.ndarray[Any, Any]
U = dk.uint64
FACTOR, MASK = 2806196910506780709, 2**63 - 1
LOOKUP_SEED = 1070
SMALL = 68
"""Nuclides of the small reactor."""


@dk.func
def following(seed: U):
    """The next state of a linear congruential generator modulo 2**63."""
    return (U(FACTOR) * seed + U(1)) & U(MASK)


@dk.func
def uniform(seed: U):
    """The state as a number from 0 to 1."""
    return dk.float64(seed) / dk.float64(2.0**63)


@dk.func
def skipped(seed: U, count: U):
    """The state after a number of steps, by squaring a step."""
    a, c = U(FACTOR), U(1)
    factor, shift = U(1), U(0)
    while count > U(0):
        if count & U(1) != U(0):
            factor *= a
            shift = shift * a + c
        c *= a + U(1)
        a *= a
        count = count >> U(1)
    return (factor * seed + shift) & U(MASK)


@dk.func
def material(share: dk.array[dk.float64], roll: dk.float64):
    """The material of which a drawn number is the share; fuel if it is none of the others."""
    found = 0
    for k in range(1, len(share)):
        if found == 0 and roll < share[k]:
            found = k
    return found


@dk.func
def sample(share: dk.array[dk.float64], i: int):
    """Energy and material of the lookup i."""
    seed = following(skipped(U(LOOKUP_SEED), U(2 * i)))
    return uniform(seed), material(share, uniform(following(seed)))


WATER, CLADDING = [24, 41, 4, 5], [63, 64, 65, 66, 67]
IRON = [19, 20, 21, 22, 35, 36, 37, 38, 39, 25]
VESSEL = [*IRON, 27, 28, 29, 30, 31, 32, 26, 49, 50, 51, 11, 12, 13, 14, 6, 16, 17]
REFLECTOR = [*WATER, *IRON, 49, 50, 51, 11, 12, 13, 14]
FUEL = [58, 59, 60, 61, 40, *range(42, 47), 1, 2, 3, *range(7, 11), 29, 57, 47, 48, 0, 62, 15, 33, 34]
FUEL += [*range(52, 57), 18, 23, 41]
MATERIALS = [FUEL, CLADDING, WATER, WATER, VESSEL, *[REFLECTOR] * 5, *[WATER + CLADDING] * 2]
VOLUMES = [0.140, 0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013]


def shares() -> Array:
    """The upper ends of the intervals of the materials' volumes, without the fuel's, summed from the last one down."""
    return np.array([sum(reversed(VOLUMES[1 : k + 1])) for k in range(len(VOLUMES))])


def compositions() -> tuple[Array, Array]:
    """The number of nuclides of each material, and which they are."""
    counts = np.array([len(m) for m in MATERIALS], np.int32)
    table = np.zeros((len(MATERIALS), counts.max()), np.int32)
    for row, nuclides in zip(table, MATERIALS, strict=True):
        row[: len(nuclides)] = nuclides
    return counts, table


class Draws:
    """The generator on the host: the same states, many at a time."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def states(self, count: int) -> Array:
        """Return the next states; what is known is doubled by a jump over as many steps."""
        found = np.empty(max(count, 1), np.uint64)
        found[0] = (FACTOR * self.state + 1) & MASK
        factor, shift, known = FACTOR, 1, 1
        with np.errstate(over="ignore"):
            while known < count:
                more = min(known, count - known)
                found[known : known + more] = found[:more] * np.uint64(factor) + np.uint64(shift) & np.uint64(MASK)
                factor, shift, known = factor * factor & MASK, (factor + 1) * shift & MASK, known + more
        if count:
            self.state = int(found[count - 1])
        return found[:count]

    def uniform(self, *shape: int) -> Array:
        """Return the next states as numbers from 0 to 1."""
        return (self.states(int(np.prod(shape))).astype(np.float64) / 2.0**63).reshape(shape)


def concentrations(draws: Draws) -> Array:
    """The concentration of each nuclide in each material."""
    counts, table = compositions()
    made = np.zeros(table.shape)
    for row, count in zip(made, counts, strict=True):
        row[:count] = draws.uniform(count)
    return made
