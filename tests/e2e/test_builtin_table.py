"""The table of built-in functions: each form, over each scalar type, has the right value and the right derivative.

Values in float64 and of integers are compared with functions of NumPy, or with those of warp-lang that are stored
beside the table; derivatives in float64 with central differences along a random direction. What narrower floats give is
compared with float64 at the same numbers, and calls from Python with the same oracles.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import builtin_table as table
import numpy as np
import pytest
from builtin_kinks import KINKS
from builtin_refusals import REFUSED
from builtin_rows import FLOATS, NUMBERS, SIZES, Row

import diffkern as dk
from diffkern.lang.intrinsics import INTRINSICS

TESTS = Path(__file__).parents[1]
STORED = json.loads((TESTS / "support" / "builtin_vectors.json").read_text(encoding="utf-8"))
EVERY = [(group, dtype) for group in table.GROUPS for dtype in NUMBERS if table.of_type(group, dtype)]
STEP = 1e-5
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}
OF_DERIVATIVES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 0.15}

ELSEWHERE = (
    "atomic_", "tile", "untile", "expect_", "printf", "rand", "sample_", "poisson", "noise", "pnoise", "curlnoise",
    "lower_bound", "hash_grid_", "bvh_", "mesh_", "texture_", "volume_", "intersect_tri_tri", "complex", "conj",
    "angle", "tid", "block_", "thread_index", "shared_array", "syncthreads",
)  # fmt: skip
"""How the names of built-ins begin that other tests call: they change memory, draw, ask for threads, or are of complex
numbers."""


def wide(a: dk.array) -> np.ndarray:
    """The numbers of an array, of floats in double precision."""
    found = a.numpy()
    if a.dtype is dk.bfloat16:
        return (found.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return found.astype(np.float64) if found.dtype.kind == "f" else found


@dataclass(frozen=True)
class Found:
    """What a kernel gives at the numbers ``x``: arrays of results by name, and the gradient at a cotangent of ``y``."""

    x: np.ndarray
    results: dict[str, np.ndarray]
    gradient: np.ndarray

    def of(self, places: table.Places) -> np.ndarray:
        """The results of a row."""
        return np.concatenate([self.results[name][:, columns] for name, columns in places.given], axis=1)


class Calls:
    """The kernel of some rows over a scalar type."""

    def __init__(self, rows: list[Row], dtype: str, folder: Path) -> None:
        text = table.source(rows, dtype)
        self.kernel = table.load(text, folder / f"calls_{dtype}_{zlib.crc32(text.encode())}.py").calls
        self.rows, self.dtype, self.widths = rows, getattr(dk, dtype), table.widths(rows)
        self.places = table.parts(rows)

    def at(self, x: np.ndarray, cotangent: np.ndarray | None = None) -> Found:
        """Launch it; with a cotangent of ``y``, its adjoint too."""
        differentiated = cotangent is not None
        given = dk.array(x, dtype=self.dtype, requires_grad=differentiated)
        y = dk.zeros((len(x), self.widths["y"]), dtype=self.dtype, requires_grad=differentiated)
        q = dk.zeros((len(x), self.widths["q"]), dtype=dk.int32)
        w = dk.zeros((len(x), self.widths["w"]), dtype=dk.float64)
        with dk.Tape() as tape:
            dk.launch(self.kernel, len(x), [given], [y, q, w])
        if differentiated:
            tape.backward(grads={y: dk.array(cotangent, dtype=self.dtype)})
        results = {"y": wide(y), "q": q.numpy(), "w": w.numpy()}
        return Found(wide(given), results, wide(given.grad) if differentiated else np.zeros_like(x))

    def __iter__(self) -> Iterator[tuple[Row, table.Places]]:
        return iter(zip(self.rows, self.places, strict=True))


def compared(what: str, ours: np.ndarray, right: np.ndarray, tolerance: float) -> list[str]:
    """Nothing, or what is wrong."""
    with np.errstate(invalid="ignore"):
        close = np.allclose(ours, right, tolerance, tolerance, equal_nan=True)
    return [] if close else [f"{what}: {ours.ravel()[:6]} instead of {np.asarray(right).ravel()[:6]}"]


def expected(entry: Row, x: np.ndarray) -> np.ndarray:
    return np.array([np.concatenate([r.ravel() for r in entry.expected(line)]) for line in x])


def against_oracles(calls: Calls, found: Found, dtype: str) -> list[str]:
    """Values of integers and of float64."""
    wrong = []
    for entry, places in calls:
        if entry.oracle is not None:
            right, precision = expected(entry, found.x[:, places.taken]), dtype
        elif entry.own:
            continue
        else:
            precision = next(key for key in STORED if entry.id in STORED[key])
            right = np.array(STORED[precision][entry.id])
        wrong += compared(entry.id, found.of(places), right, TOLERANCE.get(precision, 1e-6) * entry.loose)
    return wrong


def against_differences(calls: Calls, x: np.ndarray, rng: np.random.Generator) -> list[str]:
    """Derivatives in float64: the dot product of the gradient and a direction, and that of cotangent and change."""
    cotangent, direction = rng.normal(size=(len(x), calls.widths["y"])), rng.normal(size=x.shape)
    gradient = calls.at(x, cotangent).gradient
    above, below = (calls.at(x + s * STEP * direction).results["y"] for s in (1.0, -1.0))
    by_row, wrong = cotangent * (above - below) / (2.0 * STEP), []
    for entry, places in calls:
        products = (gradient * direction)[:, places.taken].sum(axis=1)
        right = np.zeros(len(x)) if entry.constant else by_row[:, places.of_y].sum(axis=1)
        wrong += compared(f"derivative of {entry.id}", products, right, 1e-7 * max(1.0, entry.loose))
    return wrong


def against_float64(calls: Calls, folder: Path, dtype: str, rng: np.random.Generator | None) -> list[str]:
    """Values of narrower floats, with random numbers derivatives too."""
    x = table.numbers(calls.rows, dtype)
    cotangent = None if rng is None else np.rint(4.0 * rng.normal(size=(len(x), calls.widths["y"]))) / 4.0
    found = calls.at(x, cotangent)
    reference = Calls(calls.rows, "float64", folder).at(found.x, cotangent)
    wrong = []
    for entry, places in calls:
        wrong += compared(entry.id, found.of(places), reference.of(places), TOLERANCE[dtype] * entry.loose)
        ours, right = found.gradient[:, places.taken], reference.gradient[:, places.taken]
        wrong += compared(f"derivative of {entry.id}", ours, right, OF_DERIVATIVES[dtype] * entry.loose)
    return wrong


def is_quick(group: str, dtype: str, entry: Row) -> bool:
    """Whether the derivative of a row is asked for without ``--full``: of narrow floats only where it compiles fast."""
    slow = ("decompositions", "of vectors", "of matrices", "quaternions", "transforms")
    few = group == "of matrices" or (group in slow and dtype != "float32")
    return not few or entry.id.endswith(("vec3", "mat22"))


@pytest.mark.parametrize(("group", "dtype"), EVERY)
def test_values_and_derivatives_are_right(group, dtype, tmp_path, request):
    rng, wrong, full = np.random.default_rng(7), [], request.config.getoption("--full")
    for rows in table.of_type(group, dtype):
        if dtype in FLOATS[:3]:
            quick = [entry for entry in rows if full or is_quick(group, dtype, entry)]
            for some, random in ((quick, rng), ([entry for entry in rows if entry not in quick], None)):
                wrong += against_float64(Calls(some, dtype, tmp_path), tmp_path, dtype, random) if some else []
            continue
        calls = Calls(rows, dtype, tmp_path)
        x = table.numbers(rows, dtype)
        wrong += against_oracles(calls, calls.at(x), dtype)
        if dtype == "float64":
            wrong += against_differences(calls, x, rng)
    assert not wrong, "\n".join(wrong)


# -- calls from Python -------------------------------------------------------------------------------------------------


def made(t: str, dtype: str) -> Any:
    """The type of an argument, called on the host."""
    if t == "number":
        return getattr(dk, dtype)
    space: dict[str, Any] = {"dk": dk, "number": getattr(dk, dtype)}
    exec(table.type_of(t), space)
    return space[t]


def given_to(entry: Row, x: np.ndarray, dtype: str) -> dict[str, Any]:
    """The arguments of a row as values of the host, by name."""
    space, taken = {"dk": dk, "number": getattr(dk, dtype)}, 0
    for letter, t in zip("abcdef", entry.takes, strict=False):
        part = [v.item() for v in x[taken : taken + SIZES[t]]]
        space[letter] = part[0] > 0 if t == "bool" else made(t, dtype)(*part)
        taken += SIZES[t]
    return space


def numbers_of(result: Any) -> np.ndarray:
    parts = result if isinstance(result, tuple) else (result,)
    return np.concatenate([np.ravel(np.asarray(getattr(part, "value", part), dtype=float)) for part in parts])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_calls_from_python_are_right(dtype):
    wrong = []
    for group in table.GROUPS:
        for entry in (entry for rows in table.of_type(group, dtype) for entry in rows):
            if entry.oracle is None or "dk." not in entry.call:
                continue
            x = entry.points(dtype)[0] if entry.inputs else np.zeros(0)
            with np.errstate(over="ignore"):
                ours = numbers_of(eval(entry.call, given_to(entry, x, dtype)))
            right = np.concatenate([r.ravel() for r in entry.expected(x)]).astype(float)
            wrong += compared(entry.id, ours, right, TOLERANCE.get(dtype, 2e-6) * entry.loose)
    assert not wrong, "\n".join(wrong)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS)
def test_refusals_state_their_reasons(dtype, tmp_path):
    listed = [entry for entry in REFUSED if dtype in entry.row.of]
    text = table.source([entry.row for entry in listed], dtype)
    calls = table.load(text, tmp_path / "refused.py").calls
    arrays = [dk.zeros((1, 1), dtype=t) for t in (getattr(dk, dtype),) * 2 + (dk.int32, dk.float64)]
    with pytest.raises(dk.KernelError) as caught:
        dk.launch(calls, 1, arrays)
    lines = text.splitlines()
    where = {k: 1 + n for n, line in enumerate(lines) for k in range(len(listed)) if line.startswith(f"    r{k} = ")}
    messages = {error.loc.line: str(error) for error in caught.value.errors}
    wrong = [
        f"{entry.row.id}: {messages.get(where[k], 'accepted')}"
        for k, entry in enumerate(listed)
        if entry.reason not in messages.get(where[k], "")
    ]
    assert not wrong, "\n".join(wrong)


# -- kinks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kinks_are_as_stated(dtype, tmp_path):
    calls = Calls([kink.row for kink in KINKS], dtype, tmp_path)
    x = np.concatenate([np.asarray(kink.at, float) for kink in KINKS])[None]
    found = calls.at(x, np.ones((1, calls.widths["y"])))
    wrong = []
    for kink, (entry, places) in zip(KINKS, calls, strict=True):
        if kink.value is not None:
            wrong += compared(entry.id, found.of(places)[0], np.array(kink.value, float), 1e-6)
        if kink.derivative is not None:
            ours = found.gradient[0, places.taken]
            wrong += compared(f"derivative of {entry.id} at {kink.at}", ours, np.array(kink.derivative, float), 1e-6)
    assert not wrong, "\n".join(wrong)


def along(calls, x, y, w, tangents, tape=None):
    """The tangents of ``y``, on a tape if one is given."""
    changes = [dk.array(tangents, dtype=calls.dtype), dk.zeros_like(y), dk.zeros_like(w)]
    changes[1].requires_grad = tape is not None
    with tape or contextlib.nullcontext():
        q = dk.zeros((len(tangents), calls.widths["q"]), dtype=dk.int32)
        dk.launch(calls.kernel.jvp, len(tangents), [x, y, q, w, *changes])
    return changes[1]


def test_kinks_are_as_stated_in_forward_mode_and_finite_in_second_order(tmp_path):
    kinks = [kink for kink in KINKS if kink.derivative is not None and "quat_" not in kink.row.call]
    calls = Calls([kink.row for kink in kinks], "float64", tmp_path)
    at = np.concatenate([np.asarray(kink.at, float) for kink in kinks])
    count, wrong = len(at), []
    x = dk.array(np.tile(at, (count, 1)), requires_grad=True)
    y, w = (dk.zeros((count, calls.widths[name]), dtype=dk.float64) for name in "yw")
    jacobian = along(calls, x, y, w, np.eye(count)).numpy()
    y.requires_grad = True
    with np.errstate(invalid="ignore"):
        tape = dk.Tape()
        change = along(calls, x, y, w, np.ones((count, count)), tape)
        tape.backward(grads={change: dk.ones(change.shape, dtype=dk.float64)})
    second = x.grad.numpy()[0]
    for kink, (entry, places) in zip(kinks, calls, strict=True):
        tangents = jacobian[places.taken, places.of_y].sum(axis=1)
        wrong += compared(f"tangents of {entry.id} at {kink.at}", tangents, np.array(kink.derivative, float), 1e-12)
        if not np.isfinite(second[places.taken]).all():
            wrong.append(f"second derivatives of {entry.id} at {kink.at}: {second[places.taken]}")
    assert not wrong, "\n".join(wrong)


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_every_built_in_has_a_row():
    names = {entry.name for rows in table.GROUPS.values() for entry in rows}
    tests = "\n".join(file.read_text(encoding="utf-8") for file in TESTS.glob("*/**/*.py"))
    called = {*re.findall(r"\w+", tests)}
    missing = [name for name in INTRINSICS.keys() - names if not name.startswith("tile_")]
    assert not [name for name in missing if not name.startswith(ELSEWHERE) or name not in called]
    ids = [entry.id for rows in table.GROUPS.values() for entry in rows]
    assert not [name for name, count in Counter(ids).items() if count > 1]


def test_counts(capsys):
    right = Counter(dtype for group, dtype in EVERY for rows in table.of_type(group, dtype) for _ in rows)
    reasons = Counter(entry.reason for entry in REFUSED for _ in entry.row.of)
    names = {entry.name for rows in table.GROUPS.values() for entry in rows}
    with capsys.disabled():
        print(f"\n{len(names)} functions and operators: {right.total()} combinations are right")
        print("\n".join(f"{count:7} of {dtype}" for dtype, count in right.items()))
        print(f"{reasons.total()} are refused")
        print("\n".join(f"{count:7} {reason}" for reason, count in reasons.most_common()))
    stored = {name for kind in STORED.values() for name in kind}
    listed = {entry.id for rows in table.GROUPS.values() for entry in rows if entry.oracle is None and not entry.own}
    assert stored == listed
    assert right.total() + reasons.total() >= 1900


OF_THE_LIBRARY = [g for g in table.GROUPS if g not in ("of vectors", "of matrices", "of larger matrices", "bools")]


@pytest.mark.parametrize("group", OF_THE_LIBRARY)
def test_all_compile_for_cuda(group, tmp_path):
    (rows,) = [[entry for entry in table.GROUPS[group] if "float64" in entry.of]]
    calls = Calls(rows, "float64", tmp_path).kernel
    for adjoint in (False, True):
        assert ".visible .entry" in dk.compile(calls, target="sm_90", adjoint=adjoint).ptx


@pytest.mark.full
@pytest.mark.parametrize("group", ["of vectors", "of matrices"])
def test_vectors_and_matrices_compile_for_cuda(group, tmp_path):
    for rows in table.of_type(group, "float64"):
        calls = Calls(rows, "float64", tmp_path).kernel
        for adjoint in (False, True):
            assert ".visible .entry" in dk.compile(calls, target="sm_90", adjoint=adjoint).ptx
