"""Sums, inner products, scans, casts, sorts and run lengths of arrays.

In: arrays. Out: numbers, or arrays that are written. Everything is done by kernels (``diffkern.utils.kernels``), so
that it runs where the arrays are, takes part in streams, records and graphs, and is recorded on a tape: sums, inner
products, scans and casts into an array that is given have derivatives.
"""

from __future__ import annotations

from diffkern.utils.sorts import radix_sort_pairs, runlength_encode, segmented_sort_pairs
from diffkern.utils.sums import array_cast, array_inner, array_scan, array_sum

__all__ = [
    "array_cast",
    "array_inner",
    "array_scan",
    "array_sum",
    "radix_sort_pairs",
    "runlength_encode",
    "segmented_sort_pairs",
]
