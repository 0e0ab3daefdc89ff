"""Errors found by debug programs: the exception for the first error of a launch, from the record its threads left.

From the manifest of a debug program and the error record comes a :class:`KernelRuntimeError` with the place in the
source, the thread, and the access.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from diffkern.contracts import abi
from diffkern.contracts.manifest import Checks, Manifest, Site
from diffkern.errors import KernelRuntimeError, NonFiniteError
from diffkern.ir.types import parse_array_type

__all__ = ["error_of", "stamp_counts"]

_NUMBER = "where what it is computed from is finite, test these numbers first, in a branch around the operation"
_TWICE = "two threads of a launch must not store to one element; use dk.atomic_add or another atomic where threads race"


def stamp_counts(manifest: Manifest, arguments: bytes, dims: Sequence[int]) -> list[int]:
    """Return how many stamps each array with plain stores needs in a launch; 0 where nothing has to be checked."""
    if manifest.checks is None:
        return []
    # The compiler proves that threads of different index store to different elements. Threads that share an index, as
    # axes behind those of tid() make them, are not covered by the proof.
    repeated = any(extent > 1 for extent in dims[manifest.tid_arity :])
    counts = []
    for stamp in manifest.checks.stamps:
        if stamp.proved and not repeated:
            counts.append(0)
            continue
        # The extents are read from the packed arguments: after an exchange of parameters only these are current.
        shape = struct.unpack_from(f"{_ndim(manifest, stamp.array)}q", arguments, stamp.offset + 8)
        counts.append(max(1, int(np.prod(shape))))
    return counts


def _checks(manifest: Manifest) -> Checks:
    assert manifest.checks is not None
    return manifest.checks


# -- messages ----------------------------------------------------------------------------------------------------------


def error_of(manifest: Manifest, record: Sequence[int], dims: Sequence[int]) -> KernelRuntimeError:
    """Return the exception for the error that a record describes."""
    checks = _checks(manifest)
    site = checks.sites[record[abi.RECORD_SITE]]
    thread = record[abi.RECORD_THREAD]
    # Codes and sites are numbers in the record; the texts are in the manifest, so that device code carries none.
    text, remedy = _describe(manifest, record, site, dims)
    name = f"kernel {checks.kernel!r}"
    kernel = f"adjoint of {name}" if manifest.is_adjoint else name
    components = _components(thread, dims)
    where = f"{kernel}, thread {_shown(components)}"
    if site.number:
        return NonFiniteError(
            f"{where}: {text}", loc=site.loc, remedy=remedy, kernel=checks.kernel, is_adjoint=manifest.is_adjoint,
            thread=tuple(components), text=text,
        )  # fmt: skip
    return KernelRuntimeError(f"{where}: {text}", loc=site.loc, remedy=remedy)


def _describe(manifest: Manifest, record: Sequence[int], site: Site, dims: Sequence[int]) -> tuple[str, str]:
    """Return the description of an error, and the remedy."""
    code = record[abi.RECORD_CODE]
    if code == abi.ZERO_DIVISION:
        return "an integer is divided by zero", "test the divisor first; a release program takes 0 as the result"
    if code == abi.ZERO_STEP:
        return "the step of range is zero", "test the step first; a release program does not enter the loop"
    if code == abi.ASSERTION and site.number:
        return str(site.assertion), _NUMBER
    if code == abi.ASSERTION:
        return f"the assertion fails: {site.assertion}", "a release program does not check it"
    if site.shared is not None:
        ndim, name = site.shared.ndim, f"shared array {site.shared.name!r}"
        if site.shared.in_element:
            name = f"array {site.shared.name!r} of an element"
    else:
        assert site.array is not None
        ndim, name = _ndim(manifest, site.array), _name(manifest, site.array)
    index = record[abi.RECORD_INDEX : abi.RECORD_INDEX + ndim]
    shape = record[abi.RECORD_SHAPE : abi.RECORD_SHAPE + ndim]
    described = f"{name} with shape {tuple(shape)}"
    if code == abi.TWO_WRITERS:
        other = _shown(_components(record[abi.RECORD_OTHER], dims))
        return f"thread {other} has stored to the same element, index {_shown(index)} of {described}", _TWICE
    # Negative indices count from the end, as in Python, as far as -n.
    outside = [k for k, (i, n) in enumerate(zip(index, shape, strict=True)) if not -n <= i < n]
    # An unsigned number of 2**63 or more is no negative index, though it looks like one here.
    axis = outside[0] if outside else next(k for k, i in enumerate(index) if i < 0)
    whole = f" (index {_shown(index)})" if ndim > 1 else ""
    text = f"index {index[axis]} is out of bounds for axis {axis} of {described}{whole}"
    if shape[axis] == 0 and site.shared is not None and site.shared.in_element:
        return f"{name} is None, or has no elements", "test for it, as in if a[i].x:"
    if shape[axis] == 0:
        return text, "that axis has no elements"
    return text, f"indices of that axis go from {-shape[axis]} to {shape[axis] - 1}"


def _ndim(manifest: Manifest, parameter: int) -> int:
    t = parse_array_type(manifest.params[parameter].type)
    # Of arrays in elements of an array, the parameter has the outer axes.
    return t.outer or t.ndim


def _name(manifest: Manifest, parameter: int) -> str:
    p = manifest.params[parameter]
    name = repr(manifest.params[p.of].name)
    return f"the gradient of {name}" if p.role == "cotangent" else f"array {name}"


def _components(thread: int, dims: Sequence[int]) -> list[int]:
    """Return the components of a thread index without trailing axes of extent 1."""
    components = []
    for extent in reversed(dims):
        thread, k = divmod(thread, extent)
        components.append(k)
    components.reverse()
    while len(components) > 1 and dims[len(components) - 1] == 1:
        components.pop()
    return components


def _shown(index: Sequence[int]) -> str:
    return str(index[0]) if len(index) == 1 else str(tuple(index))
