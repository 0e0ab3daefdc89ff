"""Constant tables of float64, computed with exact integer arithmetic when first needed.

:data:`TABLES` maps a name to a function that returns the table. The tables are the same on every machine, because no
floating-point function of the machine is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

from diffkern.vecmath.coefficients import TWO_OVER_PI_BITS

PAYNE_HANEK_FIRST = 1021
"""The stored exponent of the first row: rows begin at magnitude 1/4."""
PAYNE_HANEK_PARTS = 4
_FRACTION_BITS = 1344


@functools.cache
def payne_hanek() -> tuple[float, ...]:
    """Return 2/pi times the power of two of each stored exponent, modulo a full turn, in four parts.

    Row ``e`` stands for ``m * 2^(e-1023)`` with ``1 <= m < 2`` and 53 bits of m. Its parts add up to ``2^52 *
    (2^(e-1075) * 2/pi mod 4)``, with the residue taken in [-2, 2): m times the sum is congruent, modulo 4, to the
    argument in quarter turns.
    """
    modulus = 1 << (_FRACTION_BITS + 2)
    rows: list[float] = []
    for stored in range(PAYNE_HANEK_FIRST, 2048):
        shift = stored - 1075
        # 2^shift * 2/pi in units of 2^-(1344 + 64): the 64 keeps the bits of the rows with a negative shift.
        scaled = TWO_OVER_PI_BITS << (64 + shift)
        residue = scaled % (modulus << 64)
        if residue >= modulus << 63:
            residue -= modulus << 64
        rest = Fraction(residue, 1 << (_FRACTION_BITS + 64 - 52))
        for _ in range(PAYNE_HANEK_PARTS):
            part = float(rest)
            rows.append(part)
            rest -= Fraction(part)
    return tuple(rows)


TABLES: dict[str, Callable[[], tuple[float, ...]]] = {"payne_hanek": payne_hanek}
