"""A function's part of the key is the same whether its text is parsed or remembered from an earlier process."""

from __future__ import annotations

import ast
import enum
import importlib.util
import itertools
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelTypeError
from diffkern.frontend.syntax.canonical import fingerprint
from diffkern.frontend.syntax.contents import OPAQUE
from diffkern.lang.remembered import memory, set_memory

TEXT = '''
import diffkern as dk
from outlined_meaning import settled

SCALE = 2.0

@dk.func
def weight(v: float, *, more: float = 1.0):
    """A text."""
    for w in (0.5, v, 1.5):
        v += w
    match int(v):
        case 1 | 2:
            v *= dk.static("é" != "e") + 1.0
        case _:
            v = settled(SCALE)
    return v

square = dk.func(lambda v: {of_lambda}v * v)

def make(kinds, add):
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        s = SCALE * square(x[i])
        for j in range(dk.static(len(kinds))):
            s += float(dk.static(kinds[j])) * dk.where(dk.static("é" != "e"), 1.0, 0.0) * dk.static(
                    # several lines
                add * 0.5 ** (1 +
            1)
            )
        y[i] = s + weight(x[i]) + dk.static((lambda v: dk.static(v))(add))
    return k

def wrong(n):
    @dk.kernel
    def k(y: dk.array(dtype=float)):
        y[0] = "é" and dk.static(1.0
            / n)
    return k
'''


class Remembered:
    """A memory that counts what it finds."""

    def __init__(self) -> None:
        self.notes: dict[tuple[bytes, bytes], bytes] = {}
        self.found = 0

    def find(self, text: bytes, name: bytes) -> bytes | None:
        note = self.notes.get((text, name))
        self.found += note is not None
        return note

    def keep(self, text: bytes, name: bytes, found: bytes) -> None:
        assert b"\n" not in found
        self.notes[text, name] = found


@pytest.fixture
def remembered() -> Any:
    before, made = memory(), Remembered()
    set_memory(made)
    yield made
    set_memory(before)


numbers = itertools.count()


def load(path: Path) -> ModuleType:
    """Import a file as a new process would."""
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(f"outlined_{next(numbers)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def meaning(monkeypatch: Any) -> ModuleType:
    made = ModuleType("outlined_meaning")
    made.settled = dk.sqrt  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def written(path: Path, of_lambda: str = "") -> Path:
    path.write_text(TEXT.replace("{of_lambda}", of_lambda), encoding="utf-8")
    return path


def kernels(module: ModuleType) -> list[Any]:
    return [module.make((1.0, 2.0), 4.0), module.make((1.0,), 8.0)]


def prints(module: ModuleType) -> list[list[tuple[str, bytes]]]:
    return [fingerprint(kernel.func) for kernel in kernels(module)]


def test_parsed_and_remembered_are_the_same(tmp_path: Path, remembered: Remembered, monkeypatch: Any) -> None:
    path = written(tmp_path / "m.py", of_lambda="dk.static(2.0) * ")
    first = prints(load(path))
    parsed: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, *args, **given: parsed.append(text) or parse(text, *args, **given))
    remembered.found = 0
    assert prints(load(path)) == first
    assert remembered.found == 4
    assert all(text.startswith("(dk.static(") for text in parsed)
    set_memory(Remembered())
    assert prints(load(path)) == first
    x, y = dk.ones(1), dk.zeros(1)
    set_memory(remembered)
    kernels(load(path))[0][1](x, y)
    assert y.numpy()[0] == np.float32(2.0 * 2.0 + (1.0 + 2.0) * 1.0) + np.float32(2.0**0.5) + np.float32(4.0)


def test_errors_say_the_same_place(tmp_path: Path, remembered: Remembered) -> None:
    path = written(tmp_path / "m.py")
    load(path).wrong(2.0)
    errors = []
    for memory_ in (remembered, Remembered()):
        set_memory(memory_)
        with pytest.raises(KernelTypeError) as caught:
            load(path).wrong(0)
        errors.append((str(caught.value), caught.value.loc))
    assert errors[0] == errors[1]


def test_what_stands_for_static_counts(tmp_path: Path, remembered: Remembered, meaning: Any) -> None:
    """The same text, of which one import makes a static expression and another a call."""
    path = written(tmp_path / "m.py")
    found = []
    for meaning.settled in (dk.static, dk.sqrt, dk.static):
        found.append(prints(load(path)))
    assert found[0] == found[2] != found[1]
    set_memory(Remembered())
    meaning.settled = dk.sqrt
    assert prints(load(path)) == found[1]


@pytest.mark.parametrize(("old", "new"), [("SCALE * square", "square"), ("(1 +", "(2 +"), ("(0.5, v", "(0.25, v")])
def test_another_text_counts(tmp_path: Path, remembered: Remembered, old: str, new: str) -> None:
    path = written(tmp_path / "m.py")
    first = prints(load(path))
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert prints(load(path)) != first


class Plain(enum.Enum):
    A = 1
    B = 2


class Number(enum.IntEnum):
    A = 1
    B = 2


class Text(str, enum.Enum):
    A = "1"


class Flags(enum.Flag):
    A = 1
    B = 2


class Compared(enum.IntEnum):
    A = 1

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = enum.IntEnum.__hash__


class Borrowed(enum.IntEnum):
    A = 1
    __add__ = int.__sub__


class Other(enum.IntEnum):
    A = 1

    def __new__(cls, value: int) -> Other:
        made = int.__new__(cls, 7)
        made._value_ = value
        return made


class Objects(enum.Enum):
    A = object()


def of(kinds: Any) -> list[tuple[str, bytes]]:
    @dk.kernel
    def k(y: dk.array(dtype=float)):
        for j in range(1):
            if dk.static(kinds[j] == Number.A):
                y[0] = 1.0

    return fingerprint(k.func)


@pytest.mark.parametrize("member", [Plain.A, Number.A, Text.A])
def test_members_of_plain_enums_are_data(member: enum.Enum) -> None:
    assert not any(value.startswith(OPAQUE) for _, value in of([member]))
    assert of([member]) == of([member])


@pytest.mark.parametrize("member", [Flags.A, Compared.A, Borrowed.A, Other.A, Objects.A])
def test_members_whose_class_has_operators_are_not(member: enum.Enum) -> None:
    assert any(value.startswith(OPAQUE) for _, value in of([member]))


def test_the_kind_of_a_member_counts() -> None:
    plain, number = (enum_class("Kind", {"A": 1}) for enum_class in (enum.Enum, enum.IntEnum))
    assert of([plain.A]) != of([number.A])
    assert of([Number.A]) != of([Number.B])
