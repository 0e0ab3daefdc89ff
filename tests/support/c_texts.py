"""Random texts in C++ for ``wp.func_native``, and what a compiler makes of them.

The texts have no behaviour that C++ leaves open: divisors are literals, shifts are by less than the width of ``int``,
and numbers that become integers are small before. Signed integers wrap.
"""

from __future__ import annotations

import ctypes
import json
import random
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short", "int32": "int",
    "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long", "bool": "bool",
    "float32": "float", "float64": "double",
}  # fmt: skip
_LITERALS = ["0", "1", "2", "7", "3u", "200", "010", "0x7fffffff", "0x80000000", "5ll", "4294967295", "9ull", "true"]
_SIGNS = ["+", "-", "*", "&", "|", "^"]


@dataclass
class Text:
    """A body with the types of its result and of the parameters x and y."""

    result: str
    x: str
    y: str
    body: str

    def plain(self) -> dict[str, str]:
        """The text as data for a file."""
        return asdict(self)


class _Writer:
    """Writes one body."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        kinds = [self._random.choice(list(TYPES)) for _ in range(3)]
        self._names = {"x": kinds[1], "y": kinds[2]}
        self._here: set[str] = set()
        self._made = 0
        lines = [line for _ in range(5) for line in self._statement(2)]
        value = self._value(3, kinds[0].startswith("float"))
        self.text = Text(*kinds, "\n".join([*lines, f"return {value};"]))

    def _pick(self, floats: bool) -> str | None:
        found = [name for name, kind in self._names.items() if kind.startswith("float") is floats]
        return self._random.choice(found) if found else None

    def _value(self, depth: int, floats: bool) -> str:
        return self._number(depth) if floats else self._integer(depth)

    def _integer(self, depth: int) -> str:
        r, choice = self._random, self._random.randrange(14)
        if depth == 0 or choice == 0:
            return self._pick(False) or r.choice(_LITERALS)
        a, b = self._integer(depth - 1), self._integer(depth - 1)
        if choice < 5:
            return f"({a} {r.choice(_SIGNS)} {b})"
        if choice == 5:
            return f"({a} {r.choice('/%')} {r.choice(['3', '7u', '5', '11ll', '6ull'])})"
        if choice == 6:
            return f"({a} {r.choice(['<<', '>>'])} {r.randrange(32)})"
        if choice == 7:
            floats = r.random() < 0.4
            left, right = self._value(depth - 1, floats), self._value(depth - 1, floats)
            return f"({left} {r.choice(['<', '>', '<=', '>=', '==', '!='])} {right})"
        if choice == 8:
            return f"({r.choice(['-', '~', '!', '+'])}{a})"
        if choice == 9:
            return f"({self._integer(depth - 1)} ? {a} : {b})"
        if choice == 10:
            return f"({a} {r.choice(['&&', '||'])} {b})"
        if choice == 11:
            kind = r.choice([k for k in TYPES if not k.startswith("float")])
            return f"(({TYPES[kind]})({a}))" if r.random() < 0.5 else f"static_cast<{TYPES[kind]}>({a})"
        if choice == 12:
            return f"{r.choice(['__builtin_popcount', '__builtin_popcountll', '__builtin_ffsll'])}({a})"
        return f"(int)fminf(fmaxf({self._number(depth - 1)}, -90), 90.0f)"

    def _number(self, depth: int) -> str:
        r, choice = self._random, self._random.randrange(8)
        if depth == 0 or choice == 0:
            return self._pick(True) or r.choice(["0.5f", "1.25", "3.f", "1e-2"])
        a = self._number(depth - 1)
        b = self._value(depth - 1, r.random() < 0.6)
        if choice < 4:
            return f"({a} {r.choice('+-*')} {b})"
        if choice == 4:
            return f"({b} / {r.choice(['2.0f', '0.3', '4'])})" if "." in b else f"({a} / 3)"
        if choice == 5:
            return f"{r.choice(['fabsf', 'fabs', 'floorf'])}({b})"
        if choice == 6:
            return f"sqrt{r.choice(['', 'f'])}(fabs({b}))"
        return f"({self._integer(depth - 1)} ? {a} : {b})"

    def _statement(self, depth: int) -> list[str]:
        r, choice = self._random, self._random.randrange(8)
        kind = r.choice(list(TYPES))
        if choice < 2:
            return self._declared(kind, r.choice(["t", "u", "v", "is", "lambda", "x_2"]))
        if choice == 2 and (name := self._pick(False)) and self._names[name] != "bool":
            return [r.choice([f"{name}++;", f"--{name};"])]
        if choice == 3 and (name := self._pick(False)) and self._names[name] != "bool":
            step = r.choice([f"++{name}", f"{name}--", f"{name}++ * 3", f"5 - --{name}"])
            return self._declared("int32", f"w{len(self._names)}", step)
        if choice == 4:
            if (name := self._pick(True)) is not None and r.random() < 0.5:
                return [f"{name} {r.choice(['', '+', '-', '*'])}= {self._value(2, r.random() < 0.7)};"]
            name = self._pick(False)
            return [f"{name} {r.choice(['', *_SIGNS])}= {self._integer(2)};"] if name else []
        if depth == 0:
            return []
        before = dict(self._names)
        if choice == 5:
            lines = [
                f"if ({self._integer(2)}) {{",
                *self._block(depth, before),
                "} else {",
                *self._block(depth, before),
            ]
        elif choice == 6:
            self._made += 1
            i = r.choice(["i", "i", f"n{self._made}"])
            lines = [f"for (int {i} = 0; {i} < {r.randrange(2, 5)}; {i}++) {{", *self._block(depth, before)]
        else:
            lines = ["{", *self._block(depth, before)]
        return [*lines, "}"]

    def _block(self, depth: int, before: dict[str, str]) -> list[str]:
        here, self._here = self._here, set()
        lines = [line for _ in range(2) for line in self._statement(depth - 1)]
        self._names, self._here = dict(before), here
        return lines

    def _declared(self, kind: str, name: str, value: str | None = None) -> list[str]:
        if name in self._here:
            return []
        value = value or self._value(2, kind.startswith("float"))
        if re.search(rf"\b{name}\b", value):
            return []
        self._here.add(name)
        self._names[name] = kind
        return [f"{TYPES[kind]} {name} = {value};"]


def texts(first: int, count: int) -> list[Text]:
    """Texts by their numbers."""
    return [_Writer(number).text for number in range(first, first + count)]


def inputs(kind: str, place: int) -> np.ndarray[Any, Any]:
    """Values of a parameter: small ones, and those at the ends of what it can hold."""
    if kind.startswith("float"):
        return np.array([[0.0, 1.5, -2.75, 7.0, 0.3, -0.625], [1.0, -0.5, 3.25, 0.1, -8.0, 2.0]][place], kind)
    if kind == "bool":
        return np.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1]][place], bool)
    ends = np.iinfo(kind)
    values = [[0, 1, 77, ends.max, ends.min, 5], [ends.max, 3, ends.min, 100, 1, 9]][place]
    return np.array(values, kind)


def compiled_values(found: list[Text], folder: Path) -> list[list[float | int]]:
    """What g++ makes of texts."""
    source = '#include <cmath>\nusing std::fabs; using std::sqrt;\nextern "C" {\n'
    for k, text in enumerate(found):
        source += f"{TYPES[text.result]} f{k}({TYPES[text.x]} x, {TYPES[text.y]} y) {{\n{text.body}\n}}\n"
    file, library = folder / "texts.cpp", folder / "texts.so"
    file.write_text(source + "}\n")
    options = ["-O1", "-w", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["g++", *options, "-o", str(library), str(file)], check=True)
    loaded = ctypes.CDLL(str(library))
    values = []
    for k, text in enumerate(found):
        function = getattr(loaded, f"f{k}")
        function.restype, *function.argtypes = (
            np.ctypeslib.as_ctypes_type(np.dtype(kind)) for kind in (text.result, text.x, text.y)
        )
        rows = zip(inputs(text.x, 0).tolist(), inputs(text.y, 1).tolist(), strict=True)
        values.append([function(x, y) for x, y in rows])
    return values


SHAPES = [
    Text("float32", "float32", "int32", "float t = x; if (x > 0.0f) { float t = 100.0f; t = t + 1.0f; } return t;"),
    Text("int32", "int32", "int32",
         "int r = 0; for (int i = 0; i < 5; i++) for (int i = 0; i < 2; i++) r += 1; return r + x;"),
    Text("int32", "int32", "int32", "int i = 7; for (int i = 0; i < 3; i++) x += i; return x + i;"),
    Text("int32", "int32", "int32", "int n = 3; return --n;"),
    Text("int32", "int32", "int32", "int k = ++x; return k * 3 + x;"),
    Text("int32", "uint8", "int32", "int k = x++; return k * 3 + x;"),
    Text("int32", "int32", "int32", "return x - --y;"),
    Text("int32", "int32", "int32", "return x+++y;"),
    Text("int32", "float32", "int32", "return x * 2.5f;"),
    Text("int32", "uint8", "uint8", "return (x + y) / 2;"),
    Text("bool", "uint32", "int32", "return x > y;"),
    Text("int32", "int32", "int32", "x /= 2u; return x;"),
    Text("int32", "int32", "int32", "return ~(x > 2);"),
    Text("float32", "int32", "int32", "return fmaxf(x % 9, 2) / 4;"),
    Text("int32", "int64", "int32", "return __builtin_popcount(x);"),
    Text("int32", "int32", "int32", "return __builtin_popcountll(x);"),
    Text("int64", "uint8", "int32", "long long r = 1 << (x & 31); return r;"),
    Text("int32", "int32", "int32", "return x + 010;"),
    Text("int32", "int32", "int32", "int lambda = x; { int None = 3; lambda -= None; } return lambda;"),
    Text("float64", "int32", "float32", "return sqrt(fabs(x % 7)) + sqrt(fabs(y));"),
]  # fmt: skip
"""Each rule of C++ by itself."""


def write(file: Path, folder: Path) -> None:
    """Store texts with what g++ makes of them."""
    found = [*SHAPES, *texts(0, 30)]
    rows = [
        json.dumps({"text": text.plain(), "values": values})
        for text, values in zip(found, compiled_values(found, folder), strict=True)
    ]
    file.write_text("[\n" + ",\n".join(rows) + "\n]\n")
