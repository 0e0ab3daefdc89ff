"""Sums, inner products, scans, casts, sorts and run lengths of arrays.

Everything is computed by kernels (``diffkern.utils.kernels``), so it runs on the device of the arrays, takes part in
streams, records and graphs, and is recorded on a tape: sums, inner products, scans and casts into a given array have
derivatives. Results are numbers, or are written to an output array.
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
