"""The errors that a debug program can find, as formats for numbers that are known when the error occurs.

For each code and site of a debug program's manifest there is a C format, and the numbers among the sixteen that it
shows: the components of the thread (0 to 3), of the other thread (4 to 7), the index (8 to 11) and the shape (12 to
15).
"""

from __future__ import annotations

from collections.abc import Iterator

from diffkern.contracts import abi
from diffkern.contracts.manifest import Checks, Manifest, Site
from diffkern.ir.types import parse_array_type

__all__ = ["messages"]

_THREAD, _OTHER, _INDEX, _SHAPE = 0, 4, 8, 12


def messages(manifest: Manifest, dims: int) -> Iterator[tuple[str, list[int]]]:
    """Yield a format and its numbers for each site of each code, code by code.

    Parameters
    ----------
    manifest : Manifest
        The facts of a debug program.
    dims : int
        Axes of the launch.
    """
    checks = manifest.checks
    assert checks is not None
    for code in (abi.OUT_OF_BOUNDS, abi.ZERO_DIVISION, abi.ZERO_STEP, abi.TWO_WRITERS, abi.ASSERTION):
        for site in checks.sites or (Site(None, None),):
            yield _message(manifest, checks, dims, code, site)


def _message(manifest: Manifest, checks: Checks, dims: int, code: int, site: Site) -> tuple[str, list[int]]:
    # The text goes through snprintf, so percent signs of the user's are escaped.
    where = "" if site.loc is None else f"{site.loc}: ".replace("%", "%%")
    name = f"kernel '{checks.kernel}'"
    kernel = f"adjoint of {name}" if manifest.is_adjoint else name
    text = f"{where}{kernel}, thread {_numbers(dims)}: "
    order = [*range(_THREAD, _THREAD + dims)]
    if code == abi.ZERO_DIVISION:
        return f"{text}an integer is divided by zero", order
    if code == abi.ZERO_STEP:
        return f"{text}the step of range is zero", order
    if code == abi.ASSERTION and site.assertion is not None:
        fails = "" if site.number else "the assertion fails: "
        return f"{text}{fails}{site.assertion.replace('%', '%%')}", order
    if site.array is None:
        return f"{text}an error without a place", order
    entry = manifest.params[site.array]
    t = parse_array_type(entry.type)
    called = manifest.params[entry.of].name
    array = f"the gradient of '{called}'" if entry.role == "cotangent" else f"array '{called}'"
    index, shape = ([*range(base, base + t.ndim)] for base in (_INDEX, _SHAPE))
    if code == abi.TWO_WRITERS:
        text += f"thread {_numbers(dims)} has stored to the same element, index {_numbers(t.ndim)} of {array}"
        return text, [*order, *range(_OTHER, _OTHER + dims), *index]
    text += f"index {_numbers(t.ndim)} is out of bounds for {array} with shape ({_listed(t.ndim)})"
    return text, [*order, *index, *shape]


def _numbers(count: int) -> str:
    return "%lld" if count == 1 else f"({_listed(count)})"


def _listed(count: int) -> str:
    return ", ".join(["%lld"] * count) + ("," if count == 1 else "")
