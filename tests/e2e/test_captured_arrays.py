"""NumPy arrays from outside of a kernel, of every type, order of bytes and class: read as they are, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda
from diffkern.frontend.syntax.canonical import fingerprint

DTYPES = [np.dtype(name) for name in ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
TYPES = [dtype.newbyteorder(order) for dtype in DTYPES for order in ("<>" if dtype.itemsize > 1 else "|")]
VALUES = np.array([[1.0, 0.0, 2.0], [3.0, 100.0, 7.0]])


class Derived(np.ndarray):
    def __getitem__(self, index: Any) -> Any:
        return 0.0


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], (2, 3)),
    "read-only": lambda a: _read_only(a.copy()),
    "matrix": lambda a: a.view(np.matrix),
    "derived": lambda a: a.view(Derived),
}


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def native(table: Any) -> Any:
    @dk.kernel
    def k(y: dk.array2d(dtype=dk.float64)):
        i, j = dk.tid()
        y[i, j] = dk.float64(table[i, j])

    return k


def static(table: Any) -> Any:
    @dk.kernel
    def k(y: dk.array2d(dtype=dk.float64)):
        i, j = dk.tid()
        y[i, j] = dk.float64(dk.static(table)[i, j])

    return k


def warp(table: Any) -> Any:
    @wp.kernel
    def k(y: wp.array2d(dtype=wp.float64)):
        i, j = wp.tid()
        y[i, j] = wp.float64(table[i, j])

    return k


def numba(table: Any) -> Any:
    @cuda.jit
    def k(y):
        i, j = cuda.grid(2)
        constants = cuda.const.array_like(table)
        if i < 2 and j < 3:
            y[i, j] = np.float64(constants[i, j])

    return k


def read(make: Callable[[Any], Any], table: Any) -> np.ndarray:
    if make is numba:
        y = np.zeros((2, 3))
        numba(table)[(1, 1), (2, 4)](y)
        return y
    y = dk.zeros((2, 3), dtype=dk.float64)
    dk.launch(make(table), (2, 3), [], [y])
    return y.numpy()


@pytest.mark.parametrize("form", FORMS)
def test_every_type_and_order_of_bytes_natively(form: str) -> None:
    """All of one form in one kernel."""
    tables = tuple(FORMS[form](VALUES.astype(t)) for t in TYPES)

    @dk.kernel
    def k(y: dk.array3d(dtype=dk.float64)):
        i, j = dk.tid()
        for n in range(dk.static(len(TYPES))):
            y[n, i, j] = dk.float64(dk.static(tables[n])[i, j])

    y = dk.zeros((len(TYPES), 2, 3), dtype=dk.float64)
    dk.launch(k, (2, 3), [], [y])
    for table, found in zip(tables, y.numpy(), strict=True):
        np.testing.assert_array_equal(found, np.asarray(table).astype(float), err_msg=str(table.dtype))


@pytest.mark.parametrize("make", [native, warp, numba])
@pytest.mark.parametrize("code", [">f4", ">i2", ">u8", "<f8"])
def test_by_name_in_each_dialect(make: Callable[[Any], Any], code: str) -> None:
    table = FORMS["strided"](VALUES.astype(code))
    np.testing.assert_array_equal(read(make, table), VALUES)


@pytest.mark.full
@pytest.mark.parametrize("make", [native, static, warp, numba])
@pytest.mark.parametrize("form", FORMS)
def test_all_of_them(make: Callable[[Any], Any], form: str) -> None:
    for t in TYPES:
        table = FORMS[form](VALUES.astype(t))
        np.testing.assert_array_equal(read(make, table), np.asarray(table).astype(float), err_msg=str(t))


REFUSED: dict[str, tuple[Any, str]] = {
    "masked": (np.ma.array(VALUES, mask=VALUES > 5.0), "masked array"),
    "masked, of the other order": (np.ma.array(VALUES.astype(">f8"), mask=VALUES > 5.0), "masked array"),
    "masked, without a mask": (np.ma.array(VALUES), "masked array"),
    "no axis": (np.array(1.0), "0 axes"),
    "five axes": (np.zeros((1,) * 5), "5 axes"),
    "structured": (np.zeros((2, 3), "f4,f4"), "an array of"),
    "structured, of the other order": (np.zeros((2, 3), ">f4,>f4"), "an array of"),
    "records": (np.zeros((2, 3), "f4,f4").view(np.recarray), "an array of"),
    "half": (np.zeros((2, 3), "f2"), "float16"),
    "half of the other order": (np.zeros((2, 3), ">f2"), "float16"),
    "complex": (np.zeros((2, 3), ">c8"), "complex64"),
    "long double": (np.zeros((2, 3), np.longdouble), "an array of"),
    "text": (np.zeros((2, 3), "U1"), "an array of"),
    "dates": (np.zeros((2, 3), ">M8[s]"), "an array of"),
    "objects": (np.zeros((2, 3), object), "an array of object"),
    "empty": (np.zeros((0, 3)), "0 bytes"),
    "memory": (memoryview(bytes(6)), "memoryview"),
    "writable memory": (memoryview(bytearray(6)), "memoryview"),
    "memory of numbers": (memoryview(VALUES), "memoryview"),
}


@pytest.mark.parametrize("make", [native, static, warp, numba])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(make: Callable[[Any], Any], name: str) -> None:
    table, message = REFUSED[name]
    with pytest.raises(dk.KernelError) as info:
        read(make, table)
    text = str(info.value)
    assert message in text
    assert "test_captured_arrays.py:" in text
    assert "report it" not in text


def test_equal_bytes_of_other_types_have_other_keys() -> None:
    base = np.arange(1, 5, dtype="<i4")
    same = [base.view(t) for t in ("<i4", ">i4", "<u4", "<f4", ">f4", "<i8", ">i8", "<f8")]
    assert len({table.tobytes() for table in same}) == 1
    found = {tuple(value for label, value in fingerprint(native(table).func) if "table" in label) for table in same}
    assert len(found) == len(same)
    swapped = base.astype(">i4")  # the same numbers
    one, other = (fingerprint(native(table).func) for table in (base, swapped))
    assert one == other


def test_a_change_in_place_of_one_of_the_other_order_is_noticed() -> None:
    table = VALUES.astype(">f8")
    k = native(table)
    y = dk.zeros((2, 3), dtype=dk.float64)
    for value in (1.0, 2.0, 256.0):
        table[0, 0] = value
        k[2, 3](y)
        assert y.numpy()[0, 0] == value
