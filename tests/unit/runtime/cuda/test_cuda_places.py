"""Where launches run that write nothing, by the device that is named, the current one, and that of the arrays."""

import itertools

import pytest

import diffkern as dk

G = "cuda:0"


@dk.struct
class Held:
    a: dk.array(dtype=float)
    n: int


@dk.kernel
def reads(a: dk.array(dtype=float), n: int):
    i = dk.tid()
    b = a[i] * float(n)  # noqa: F841


@dk.kernel
def reads_field(h: Held):
    i = dk.tid()
    b = h.a[i] * float(h.n)  # noqa: F841


@dk.kernel
def no_arrays(n: int):
    i = dk.tid() + n  # noqa: F841


@dk.kernel
def writes(a: dk.array(dtype=float)):
    a[dk.tid()] = 1.0


def held_on(place: str) -> Held:
    held = Held()
    held.a, held.n = dk.zeros(4, device=place), 2
    return held


def test_every_combination_of_places(driver):
    cases = itertools.product((reads, reads_field, no_arrays, writes), (None, "cpu", G), ("cpu", G), ("cpu", G))
    for kernel, named, current, of_arrays in cases:
        inputs = {
            reads: lambda: [dk.zeros(4, device=of_arrays), 2],
            reads_field: lambda: [held_on(of_arrays)],
            no_arrays: lambda: [2],
            writes: lambda: [dk.zeros(4, device=of_arrays)],
        }[kernel]()
        expected = (named or current) if kernel is no_arrays else of_arrays
        for _ in range(2):  # the first compiles
            before = len(driver.launches)
            with dk.ScopedDevice(current):
                if kernel is not no_arrays and named not in (None, of_arrays):
                    with pytest.raises(dk.LaunchError, match="array is on"):
                        dk.launch(kernel, 4, inputs=inputs, device=named)
                    continue
                dk.launch(kernel, 4, inputs=inputs, device=named)
            dk.synchronize()
            assert len(driver.launches) - before == (expected == G), (kernel.name, named, current, of_arrays)
