"""Sorts by radix, and runs of equal elements. Integers come out, so there is no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.types import INT32, UINT32, UINT64, Kind, Scalar
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.create import full
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.utils import kernels

__all__ = ["radix_sort_pairs", "runlength_encode", "segmented_sort_pairs"]


def radix_sort_pairs(keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None) -> None:
    """Sort the first elements of an array, and those of another along with them; equal keys keep their order.

    Parameters
    ----------
    keys : array
        Integers or floats of 32 or 64 bits, with room for ``2 * count``: the second half is used meanwhile.
    values : array
        Elements that are moved with the keys, with as much room.
    count : int
        The number of elements to sort.
    begin_bit, end_bit : int, optional
        The bits of the keys by which they are sorted; all by default.

    Raises
    ------
    LaunchError
        If the arrays are too short, not contiguous, or of another type.
    """
    bits = _check(keys, values, count)
    last = bits if end_bit is None else end_bit
    if not 0 <= begin_bit <= last <= bits:
        raise LaunchError(
            f"the bits from {begin_bit} to {last} are none of keys of {bits} bits",
            remedy="give 0 <= begin_bit <= end_bit, up to the bits of a key, or leave them out",
        )
    if count:
        starts, ends = _bounds(keys, 0), _bounds(keys, count)
        _sort(keys, values, count, starts, ends, begin_bit, last)


def segmented_sort_pairs(
    keys: array,
    values: array,
    count: int,
    segment_start_indices: array,
    segment_end_indices: array | None = None,
) -> None:
    """Sort segments of an array, and those of another along with them; equal keys keep their order.

    Parameters
    ----------
    keys, values, count
        As of :func:`radix_sort_pairs`.
    segment_start_indices : array of int32
        The start of each segment; without ends also the end of the last one.
    segment_end_indices : array of int32, optional
        The end of each segment; by default the start of the next one.

    Raises
    ------
    LaunchError
        If the arrays do not fit together, or a segment on the CPU is not within what is sorted.
    """
    bits = _check(keys, values, count)
    starts, ends = segment_start_indices, segment_end_indices
    for name, bound in (("begin", starts), ("end", ends)):
        if bound is not None and (bound._element != INT32 or bound.ndim != 1):
            raise LaunchError(
                f"where segments {name} is an array of int32 with one axis, not {described(bound)}",
                remedy="make it with dk.array(bounds, dtype=dk.int32)",
            )
    # Without ends each segment ends where the next one begins, and the last start is an end only.
    if ends is None:
        starts, ends = starts[: max(starts.size - 1, 0)], starts[1:]
    if starts.size != ends.size:
        raise LaunchError(f"{starts.size} segments begin and {ends.size} end", remedy="pass as many starts as ends")
    _check_ranges(starts, ends, count)
    if count and starts.size:
        _sort(keys, values, count, starts, ends, 0, bits)


def _check_ranges(starts: array, ends: array, count: int) -> None:
    """Refuse segments that are not within what is sorted, where they can be read without waiting for a GPU."""
    # While operations are recorded or captured, the bounds may not have been computed yet.
    if slow_path_flags.word[0] or not (starts._memory.is_host and ends._memory.is_host):
        return
    begins, stops = starts.numpy(), ends.numpy()
    wrong = np.flatnonzero((begins < 0) | (stops > count) | (stops < begins))
    if wrong.size:
        k = int(wrong[0])
        raise LaunchError(
            f"Invalid segment range at index {k}: from {begins[k]} to {stops[k]}, and {count} elements are sorted",
            remedy="give 0 <= start <= end <= count for each segment",
        )


def runlength_encode(
    values: array, run_values: array, run_lengths: array, run_count: array | None = None, value_count: int | None = None
) -> Any:
    """Replace runs of equal elements by one element and a length each.

    Parameters
    ----------
    values : array
        The elements.
    run_values : array
        Takes the element of each run, of the type of `values`.
    run_lengths : array of int32
        Takes the length of each run.
    run_count : array of int32, optional
        Takes the number of runs.
    value_count : int, optional
        The number of elements to encode, from the first.

    Returns
    -------
    int or array
        The number of runs, or `run_count`.

    Raises
    ------
    LaunchError
        If the arrays do not fit together.
    """
    n = values.size if value_count is None else value_count
    lengths_fit = run_lengths._element == INT32 and (run_count is None or run_count._element == INT32)
    if run_values._element != values._element or not lengths_fit:
        raise LaunchError(
            f"runs of {values._element} are {values._element}, and their lengths and number int32; given are "
            f"{described(run_values)} and {described(run_lengths)}",
            remedy="make them with dk.empty_like(values) and dk.zeros(n, dtype=dk.int32)",
        )
    if min(run_values.size, run_lengths.size, values.size) < n:
        raise LaunchError(f"there may be {n} runs, more than the arrays hold", remedy="make them as long as the values")
    counted = run_count if run_count is not None else new((1,), INT32, False, values._memory.device)
    if n:
        launch(kernels.run_lengths, dim=1, inputs=[values, run_values, run_lengths, counted, n])
    else:
        counted.zero_()
    return run_count if run_count is not None else int(counted.numpy()[0])


# -- parts -------------------------------------------------------------------------------------------------------------


def _check(keys: array, values: array, count: int) -> int:
    """Check keys and values; return the bits of a key."""
    t = keys._element
    if not isinstance(t, Scalar) or t.bits not in (32, 64) or keys.ndim != 1 or values.ndim != 1:
        raise LaunchError(
            f"keys are integers or floats of 32 or 64 bits along one axis, not {described(keys)}",
            remedy="convert them with dk.utils.array_cast, or flatten them",
        )
    for what, given in (("keys", keys), ("values", values)):
        if not given.is_contiguous:
            raise LaunchError(
                f"the {what} of a sort are a contiguous array, not {described(given)}", remedy="pass a copy"
            )
        if given.size < 2 * count:
            raise LaunchError(
                f"a sort of {count} needs {2 * count} {what}, and there are {given.size}",
                remedy="make the arrays twice as long as what is sorted",
            )
    return t.bits


def _bounds(keys: array, value: int) -> array:
    return full(1, value, dtype=int, device=keys.device)


def _sort(keys: array, values: array, count: int, starts: array, ends: array, begin: int, last: int) -> None:
    """Sort by digits from the lowest; each pass goes from one half of the arrays to the other."""
    t = keys._element
    assert isinstance(t, Scalar)
    # Keys are sorted by their bits as unsigned integers, over the same memory.
    element = UINT32 if t.bits == 32 else UINT64
    plain = keys.view(element)
    # The second halves are scratch: a pass cannot sort in place and stay stable.
    halves = [(plain[:count], values[:count]), (plain[count : 2 * count], values[count : 2 * count])]
    word = np.dtype(element.name).type
    sign = word(1 << (t.bits - 1))
    # Signed integers are ordered by flipping the sign bit; negative floats by flipping all bits.
    if t.kind is not Kind.UINT:
        launch(kernels.make_ordered, dim=count, inputs=[plain, sign, int(t.is_float), 0])
    counts = new((starts.size, kernels.RADIX), INT32, False, keys._memory.device)
    # From the lowest digit: each pass is stable, and so keeps the order that the earlier ones made.
    for shift in range(begin, last, 8):
        # The last digit may have fewer bits.
        mask = (1 << min(8, last - shift)) - 1
        source, target = halves
        launch(kernels.radix_pass, dim=starts.size, inputs=[*source, *target, counts, starts, ends, word(shift), mask])
        halves.reverse()
    # After an odd number of passes the result is in the scratch half.
    if len(range(begin, last, 8)) % 2:
        launch(kernels.copy_segments, dim=starts.size, inputs=[*halves[0], *halves[1], starts, ends])
    if t.kind is not Kind.UINT:
        launch(kernels.make_ordered, dim=count, inputs=[plain, sign, int(t.is_float), 1])
