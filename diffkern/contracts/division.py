"""Division of 32-bit numbers by an extent that the host knows: a multiplication, an addition and a shift.

With ``s`` the bits of ``extent - 1`` and ``m`` the multiplier of :func:`divider`, the quotient of ``n`` is
``(m * n // 2**32 + n) >> s``, for every ``n`` below 2**32; below 2**31 the sum has 32 bits. (T. Granlund and
P. L. Montgomery, "Division by invariant integers using multiplication", 1994.)
"""

from __future__ import annotations

__all__ = ["LARGEST_DIVISOR", "divider"]

LARGEST_DIVISOR = 2**31
"""The largest extent that has a multiplier of 32 bits here: launches have smaller ones."""


def divider(extent: int) -> tuple[int, int]:
    """Return the multiplier and the shift that divide by an extent.

    Parameters
    ----------
    extent : int
        From 1 to 2**31.

    Returns
    -------
    int
        The multiplier, from 1 to 2**32 - 1.
    int
        The shift, from 0 to 31.
    """
    if not 1 <= extent <= LARGEST_DIVISOR:
        raise ValueError(f"an extent from 1 to 2**31 is divided by, not {extent}")
    shift = (extent - 1).bit_length()
    return (((1 << shift) - extent) << 32) // extent + 1, shift
