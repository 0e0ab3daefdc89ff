"""Debug programs: run with a record for the first error, and say what it was.

In: an executable whose manifest has ``checks``. Out: launches that raise :class:`KernelRuntimeError` when a thread made
an error, with its place in the source, the thread, and the access. All other threads have run by then.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffkern import abi
from diffkern.errors import KernelRuntimeError
from diffkern.ir.types import parse_array_type
from diffkern.manifest import Checks, Manifest, Site
from diffkern.runtime.block import with_status
from diffkern.runtime.grid import Grid
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.program import Executable

__all__ = ["CheckedExecutable", "error_of", "stamp_counts"]

_TWICE = "two threads of a launch must not store to one element; use dk.atomic_add or another atomic where threads meet"


class CheckedExecutable(Executable):
    """A debug program in memory."""

    __slots__ = ()

    def steps(self, grid: Grid, arguments: bytes, colours: int = 1) -> Steps | None:
        """Return None: what it finds has to be looked at after each launch."""
        return None

    def run(self, grid: Grid, arguments: bytes) -> None:
        """Run all threads of a launch."""
        if grid.n:
            self.run_blocks(grid, [arguments], colours=1)

    def run_blocks(self, grid: Grid, arguments: list[bytes], colours: int) -> None:
        """Run with a fresh record.

        Raises
        ------
        KernelRuntimeError
            If a thread caused an error.
        """
        buffers = self._stamps(arguments[0], grid.dims)
        record = np.zeros(abi.RECORD_STAMPS + len(buffers), np.int64)
        record[abi.RECORD_STAMPS :] = [0 if b is None else b.ctypes.data for b in buffers]
        super().run_blocks(replace(grid, header=with_status(grid.header, record.ctypes.data)), arguments, colours)
        if record[abi.RECORD_CODE]:
            raise error_of(self.manifest, [int(field) for field in record], grid.dims)

    def _stamps(self, arguments: bytes, dims: Sequence[int]) -> list[np.ndarray[Any, Any] | None]:
        """A stamp per element of each array in which two threads of this launch could store to one element."""
        counts = stamp_counts(self.manifest, arguments, dims)
        return [np.zeros(count, np.int64) if count else None for count in counts]


def stamp_counts(manifest: Manifest, arguments: bytes, dims: Sequence[int]) -> list[int]:
    """Return how many stamps each array with plain stores needs in a launch; 0 where nothing is to be checked."""
    repeated = any(extent > 1 for extent in dims[manifest.tid_arity :])
    counts = []
    for stamp in _checks(manifest).stamps:
        if stamp.proved and not repeated:
            counts.append(0)
            continue
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
    text, remedy = _describe(manifest, record, site, dims)
    name = f"kernel {checks.kernel!r}"
    kernel = f"adjoint of {name}" if manifest.is_adjoint else name
    where = f"{kernel}, thread {_shown(_components(thread, dims))}"
    return KernelRuntimeError(f"{where}: {text}", loc=site.loc, remedy=remedy)


def _describe(manifest: Manifest, record: Sequence[int], site: Site, dims: Sequence[int]) -> tuple[str, str]:
    """What happened, and what to do instead."""
    code = record[abi.RECORD_CODE]
    if code == abi.ZERO_DIVISION:
        return "an integer is divided by zero", "test the divisor first; a release program takes 0 as the result"
    if code == abi.ZERO_STEP:
        return "the step of range is zero", "test the step first; a release program does not enter the loop"
    if site.shared is not None:
        ndim, name = site.shared.ndim, f"shared array {site.shared.name!r}"
    else:
        assert site.array is not None
        ndim, name = _ndim(manifest, site.array), _name(manifest, site.array)
    index = record[abi.RECORD_INDEX : abi.RECORD_INDEX + ndim]
    shape = record[abi.RECORD_SHAPE : abi.RECORD_SHAPE + ndim]
    described = f"{name} with shape {tuple(shape)}"
    if code == abi.TWO_WRITERS:
        other = _shown(_components(record[abi.RECORD_OTHER], dims))
        return f"thread {other} has stored to the same element, index {_shown(index)} of {described}", _TWICE
    outside = [k for k, (i, n) in enumerate(zip(index, shape, strict=True)) if not -n <= i < n]
    # An unsigned number of 2**63 or more is no negative index, though it looks like one here.
    axis = outside[0] if outside else next(k for k, i in enumerate(index) if i < 0)
    whole = f" (index {_shown(index)})" if ndim > 1 else ""
    text = f"index {index[axis]} is out of bounds for axis {axis} of {described}{whole}"
    if shape[axis] == 0:
        return text, "that axis has no elements"
    return text, f"indices of that axis go from {-shape[axis]} to {shape[axis] - 1}"


def _ndim(manifest: Manifest, parameter: int) -> int:
    return parse_array_type(manifest.params[parameter].type).ndim


def _name(manifest: Manifest, parameter: int) -> str:
    p = manifest.params[parameter]
    name = repr(manifest.params[p.of].name)
    return f"the gradient of {name}" if p.role == "cotangent" else f"array {name}"


def _components(thread: int, dims: Sequence[int]) -> list[int]:
    """The components of a thread index; those of trailing axes of one thread are left out."""
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
