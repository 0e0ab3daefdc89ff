"""Programs in pairs: before and after an edit of code that Python runs while a kernel is compiled.

In: nothing. Out: :data:`PAIRS`, each the text of a function that makes a kernel and says what it computes, with a place
for a constant. The edit is another constant there: in a method, a property, a base class, a helper, a default, data, …
``python edited_classes.py FILE CONSTANT keys`` prints their keys; ``chosen`` or ``all`` launches them, and prints what
was wrong, and how many different programs they are.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.compiler.specialize import Specialization, artifact_key

HEAD = """
import array, collections, functools, math, operator, types
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple
import numpy as np
import diffkern as dk
"""

# How instances of a class are made; {bases} come in front of the class's own.
KINDS = {
    "class": ("class C({bases}object):\n    f = 1.0", "C()"),
    "slots": ("class C({bases}object):\n    __slots__ = ('f',)", "C()"),
    "dataclass": ("@dataclass\nclass C({bases}object):\n    f: float = 1.0", "C()"),
    "frozen": ("@dataclass(frozen=True)\nclass C({bases}object):\n    f: float = 1.0", "C(2.0)"),
    "namedtuple": ("class C({bases}collections.namedtuple('N', 'f g h')):\n    __slots__ = ()", "C(1.0, 2.0, 3.0)"),
    "enum": ("class C({bases}Enum):\n    A = 1.0", "C.A"),
    "intenum": ("class C({bases}IntEnum):\n    A = 1", "C.A"),
    "list": ("class C({bases}list):\n    f = 1.0", "C([1.0, 2.0, 3.0])"),
    "dict": ("class C({bases}dict):\n    f = 1.0", "C({{0: 1.0, 1: 2.0, 2: 3.0}})"),
    "tuple": ("class C({bases}tuple):\n    f = 1.0", "C((1.0, 2.0, 3.0))"),
    "ndarray": ("class C({bases}np.ndarray):\n    f = 1.0", "np.ones(3).view(C)"),
    "float": ("class C({bases}float):\n    f = 1.0", "C(1.0)"),
    "str": ("class C({bases}str):\n    f = 1.0", "C('text')"),
}

# What the class has, what stands outside of it, and an expression with the loop's variable.
USES = {
    "method": ("def w(self, j): return {c} * (j + 1)", "", "obj.w(j)"),
    "helper": ("def w(self, j): return helper(j)", "def helper(j): return {c} * (j + 1)", "obj.w(j)"),
    "default": ("def w(self, j, c={c}): return c * (j + 1)", "", "obj.w(j)"),
    "closure": ("def w(self, j): return c * (j + 1)", "c = {c}", "obj.w(j)"),
    "property": ("@property\ndef p(self): return {c}", "", "obj.p * (j + 1)"),
    "classmethod": ("@classmethod\ndef w(cls, j): return {c} * (j + 1)", "", "C.w(j)"),
    "staticmethod": ("@staticmethod\ndef w(j): return {c} * (j + 1)", "", "C.w(j)"),
    "getitem": ("def __getitem__(self, j): return {c} * (j + 1)", "", "obj[j]"),
    "call": ("def __call__(self, j): return {c} * (j + 1)", "", "obj(j)"),
    "operator": ("def __matmul__(self, j): return {c} * (j + 1)", "", "obj @ (j + 1)"),
    "length": ("def __len__(self): return int({c})", "", "len(obj) * (j + 1.0)"),
    "bound": ("def w(self, j): return {c} * (j + 1)", "", "bound(j)"),
    "in a list": ("def w(self, j): return {c} * (j + 1)", "", "boxes[0].w(j)"),
    "in a dict": ("def w(self, j): return {c} * (j + 1)", "", "named['a'].w(j)"),
    "partial": ("def w(self, j): return {c} * (j + 1)", "", "later(j)"),
    "inherited method": ("pass", "base: def w(self, j): return {c} * (j + 1)", "obj.w(j)"),
    "inherited property": ("pass", "base: @property\ndef p(self): return {c}", "obj.p * (j + 1)"),
    "at once": ("def w(self, j): return {c} * (j + 1)", "", "obj.w(1)"),
}
AROUND = """
bound = getattr(obj, 'w', None)
boxes, named, later = [obj], dict(a=obj), functools.partial(bound or len)
"""

# Python's and NumPy's own objects, and what is computed without a class of one's own.
OTHERS = {
    "dict.get": ("get = {{0: {c}, 1: 2.0}}.get", "get(j, 3.0)"),
    "dict.get of a name": ("table = {{0: {c}, 1: 2.0}}", "table.get(j, 3.0)"),
    "dict.__getitem__": ("get = {{0: {c}, 1: 2.0, 2: 3.0}}.__getitem__", "get(j)"),
    "list.index": ("index = [{c}, 1.5, 2.5].index", "index(j + 0.5 if j else {c}) + 0.25"),
    "list.count": ("count = [{c}, 1.0, 1.0, 1.0].count", "count(1.0) * (j + 1.0)"),
    "ndarray.item": ("item = np.array([{c}, 2.0, 3.0]).item", "item(j)"),
    "ndarray.item of a name": ("table = np.array([{c}, 2.0, 3.0])", "table.item(j)"),
    "ndarray.sum": ("table = np.array([{c}, 2.0, 3.0])", "table[: j + 1].sum()"),
    "str.count": ("text = 'a' * int({c})", "text.count('a') * (j + 1.0)"),
    "bytes.count": ("count = (b'a' * int({c})).count", "count(b'a') * (j + 1.0)"),
    "lambda": ("f = lambda j: {c} * (j + 1)", "f(j)"),
    "lambda in a dict": ("table = dict(f=lambda j: {c} * (j + 1))", "table['f'](j)"),
    "namespace": ("n = types.SimpleNamespace(f=lambda j: {c} * (j + 1))", "n.f(j)"),
    "namespace of data": ("n = types.SimpleNamespace(f={c})", "n.f * (j + 1)"),
    "defaultdict": ("table = collections.defaultdict(lambda: {c})", "table[j]"),
    "chain": ("table = collections.ChainMap(dict(), {{0: {c}, 1: 2.0, 2: 3.0}})", "table[j]"),
    "deque": ("table = collections.deque([{c}, 2.0, 3.0])", "table[j]"),
    "counter": ("table = collections.Counter('a' * int({c}))", "table['a'] * (j + 1.0)"),
    "array.array": ("table = array.array('d', [{c}, 2.0, 3.0])", "table[j]"),
    "memoryview": ("table = memoryview(np.array([{c}, 2.0, 3.0]))", "table[j]"),
    "operator.itemgetter": ("f = operator.itemgetter(0)\ntable = [{c}, 2.0]", "f(table) * (j + 1)"),
    "operator.mul": ("c = {c}", "operator.mul(c, j + 1)"),
    "polynomial": ("p = np.poly1d([{c}, 1.0])", "p(j)"),
    "vectorize": ("f = np.vectorize(lambda j: {c} * (j + 1))", "float(f(j))"),
    "cached": ("@functools.lru_cache\ndef f(j): return {c} * (j + 1)", "f(j)"),
    "dispatched": ("@functools.singledispatch\ndef f(j): return {c} * (j + 1)", "f(j)"),
    "method of a metaclass": (
        "class M(type):\n    def w(cls, j): return {c} * j\nclass C(metaclass=M): pass", "C.w(j)"),
    "getattr of a class": (
        "class M(type):\n    def __getattr__(cls, name): return {c}\nclass C(metaclass=M): pass",
        "C.anything * (j + 1)"),
    "class attribute": ("class C:\n    w = {c}", "C.w * (j + 1)"),
    "list in a class": ("class C:\n    w = [{c}, 2.0, 3.0]", "C.w[j]"),
    "class in a list": ("class C:\n    w = {c}\ntable = [C, C, C]", "table[j].w"),
    "class that is called": ("class C:\n    def __init__(self, j): self.w = {c} * j", "C(j).w"),
    "struct that is called": (
        "@dk.struct\nclass S:\n    a: float\ndef made(j):\n    s = S()\n    s.a = {c} * (j + 1)\n    return s",
        "made(j).a"),
    "func on the host": ("@dk.func\ndef f(j):\n    return {c} * (j + 1)", "f(j)"),
    "func over a helper": ("def g(j): return {c} * (j + 1)\n@dk.func\ndef f(j):\n    return g(j)", "f(j)"),
    "set": ("table = {{{c}, 5.0}}", "min(table) * (j + 1)"),
    "comprehension": ("table = [{c}, 2.0, 3.0]", "sum([v for v in table]) * (j + 1)"),
    "nested data": ("table = dict(a=[(0.0, {c}), (1.0, 2.0), (2.0, 3.0)])", "table['a'][j][1]"),
    "vector": ("table = dk.vec3({c}, 2.0, 3.0)", "table[j]"),
    "array": ("table = np.array([{c}, 2.0, 3.0], np.float32)", "table[j]"),
    "conditional": ("c = {c}", "(c if c > 1.5 else 0.5) * (j + 1)"),
    "logarithm": ("c = {c}", "math.log(c + j)"),
}  # fmt: skip

FUNCS = "@dk.func\ndef f(x: float):\n    return x\n@dk.func\ndef g(x: float):\n    return 2.0 * x\n"
STRUCT = "@dk.struct\nclass S:\n    a: float\n    def w(self):\n        return {c} * self.a\n"
# Whole bodies of kernels, whose results in y[0], y[1], y[2] are said behind them.
BODIES = {
    "classes looped over": (
        "class C:\n    w = {c}\nclass D:\n    w = 3.0\nPAIR = (C, D)",
        "for c in PAIR:\n    y[0] += c.w", "[C.w + D.w, 0, 0]"),
    "class as an argument": (
        "class C:\n    w = {c}\n@dk.func\ndef f(c, x: float):\n    return c.w * x",
        "y[0] = f(C, 2.0)", "[C.w * 2, 0, 0]"),
    "attribute of a result": (
        "class C:\n    w = {c}\ntable = dict(a=C)", "y[0] = dk.static(table['a']).w", "[C.w, 0, 0]"),
    "attribute of a result in a condition": (
        "class C:\n    w = {c} > 1.5\ntable = dict(a=C)",
        "if dk.static(table['a']).w:\n    y[0] = 1.0", "[float(C.w), 0, 0]"),
    "attribute of a result item": (
        "class C:\n    w = {c}\ntable = [C, C]",
        "for c in dk.static(table):\n    y[0] += c.w", "[2 * C.w, 0, 0]"),
    "bound of a loop": (
        "class C:\n    def n(self): return int({c})\nobj = C()",
        "for j in range(dk.static(obj.n())):\n    y[0] += 1.0", "[obj.n(), 0, 0]"),
    "bound of a loop, later": (
        "class C:\n    def n(self, j): return int({c}) + j\nobj = C()",
        "for j in range(2):\n    for k in range(dk.static(obj.n(j))):\n        y[j] += 1.0", "[obj.n(0), obj.n(1), 0]"),
    "condition": (
        "class C:\n    def on(self, j): return {c} > 1.5\nobj = C()",
        "for j in range(2):\n    if dk.static(obj.on(j)):\n        y[j] = 1.0",
        "[float(obj.on(0)), float(obj.on(1)), 0]"),
    "func chosen by a method": (
        "@dk.func\ndef f(x: float):\n    return {c} * x\nclass C:\n    def f(self, j): return f\nobj = C()",
        "for j in range(2):\n    y[j] = dk.static(obj.f(j))(1.0 + float(j))", "[f(1.0), f(2.0), 0]"),
    "which func a method chooses": (
        f"{FUNCS}class C:\n    def f(self, j): return f if {{c}} > 1.5 else g\nobj = C()",
        "for j in range(2):\n    y[j] = dk.static(obj.f(j))(1.0 + float(j))", "[obj.f(0)(1.0), obj.f(1)(2.0), 0]"),
    "method of a struct that is a result": (
        f"{STRUCT}def made():\n    s = S()\n    s.a = 2.0\n    return s",
        "s = dk.static(made())\ny[0] = s.w()", "[{c} * 2.0, 0, 0]"),
    "method of a struct that is a later result": (
        f"{STRUCT}def made(j):\n    s = S()\n    s.a = j + 1.0\n    return s",
        "for j in range(2):\n    s = dk.static(made(j))\n    y[j] = s.w()", "[{c}, 2 * {c}, 0]"),
    "flag of a derived class": (
        "class F(int):\n    pass\nFLAG = F(int({c}) - 1)", "if FLAG:\n    y[0] = 1.0", "[float(int(FLAG)), 0, 0]"),
    "number of a derived class": ("class F(float):\n    pass\nW = F({c})", "y[0] = W", "[float(W), 0, 0]"),
    "member by identity": (
        "class K(IntEnum):\n    A = 1\nM = K.A if {c} > 1.5 else None",
        "if M is K.A:\n    y[0] = 1.0", "[float(M is K.A), 0, 0]"),
    "value of a member": ("class K(Enum):\n    A = {c}", "y[0] = K.A.value", "[K.A.value, 0, 0]"),
    "member": ("class K(Enum):\n    A = {c}", "y[0] = K.A", "[K.A.value, 0, 0]"),
    "field of a named tuple": (
        "class P(NamedTuple):\n    a: float\n    b: float\nW = P({c}, 3.0)",
        "a, b = W\ny[0] = a\ny[1] = b", "[W.a, W.b, 0]"),
    "items of a result of a derived class": (
        "class L(list):\n    def __iter__(self): return iter([{c}, 2.0])\nW = L()",
        "for w in dk.static(W):\n    y[0] += w", "[sum(W), 0, 0]"),
    "default of an argument": (
        "class C:\n    w = {c}\n@dk.func\ndef f(x: float, c=C):\n    return c.w * x",
        "y[0] = f(2.0)", "[2 * C.w, 0, 0]"),
}  # fmt: skip


def _skipped(kind: str, use: str) -> bool:
    """What Python does not have: an enumeration's members are called by its class, NumPy's arrays have ``@``, …"""
    return (kind, use) in {("intenum", "operator"), ("namedtuple", "length")}


def _class(kind: str, use: str) -> str:
    head, made = KINDS[kind]
    members, outside, expression = USES[use]
    base = outside.partition("base: ")[2]
    text = f"class Base:\n{textwrap.indent(base, '    ')}\n" if base else outside + "\n"
    text += head.format(bases="Base, " if base else "") + "\n" + textwrap.indent(members, "    ") + "\n"
    text += f"obj = {made.format()}\n{AROUND}"
    return _loop(text, expression)


def _loop(text: str, expression: str) -> str:
    body = f"for j in range(3):\n    y[j] = dk.static({expression})"
    return _whole(text, body, f"[{expression} for j in range(3)]")


def _whole(text: str, body: str, expected: str) -> str:
    kernel = f"@dk.kernel\ndef k(y: dk.array(dtype=dk.float64)):\n{textwrap.indent(body, '    ')}"
    return f"{text}\n{kernel}\nreturn k, {expected}"


PAIRS = {
    **{f"{use} of {kind}": _class(kind, use) for kind in KINDS for use in USES if not _skipped(kind, use)},
    **{name: _loop(text, expression) for name, (text, expression) in OTHERS.items()},
    **{name: _whole(*parts) for name, parts in BODIES.items()},
}
CHOSEN = (
    "method of dataclass", "property of frozen", "bound of enum", "inherited method of list", "getitem of ndarray",
    "dict.get", "nested data", "class in a list", "which func a method chooses", "class as an argument",
    "method of a struct that is a later result", "items of a result of a derived class",
)  # fmt: skip
"""Those that are launched where time is short."""


def text_of(names: Iterable[str], constant: str) -> str:
    """A module with the programs of some pairs before (``1.0``) or after (``2.0``) their edit."""
    order = list(PAIRS)
    parts = []
    for name in names:
        number = order.index(name)
        body = PAIRS[name].replace("{{", "{").replace("}}", "}").replace("{c}", constant)
        # Structs of one name whose methods differ are refused.
        body = re.sub(r"\bS\b", f"S{number}", body)
        parts.append(f"def pair_{number}():\n{textwrap.indent(body, '    ')}\n")
    return HEAD + "\n".join(parts)


def loaded(path: Path, names: Iterable[str], constant: str) -> ModuleType:
    """That module."""
    path.write_text(text_of(names, constant), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("edited", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(module: ModuleType, names: Iterable[str]) -> dict[str, tuple[Any, list[float]]]:
    """Kernels, and what they compute."""
    order = list(PAIRS)
    return {name: getattr(module, f"pair_{order.index(name)}")() for name in names}


def wrong(made: dict[str, tuple[Any, list[float]]]) -> list[str]:
    """Launch kernels; what those have computed that compute something else than Python."""
    found = []
    for name, (kernel, expected) in made.items():
        y = dk.zeros(3, dtype=dk.float64)
        kernel[1](y)
        if not np.allclose(y.numpy(), np.asarray(expected, float), rtol=1e-6):
            found.append(f"{name}: {y.numpy().tolist()} for {expected}")
    return found


def keys(path: Path, constant: str) -> dict[str, str]:
    """The keys of all programs."""
    return keys_of(programs(loaded(path, PAIRS, constant), PAIRS))


def keys_of(made: dict[str, tuple[Any, list[float]]]) -> dict[str, str]:
    """The keys of programs."""
    every = {name: Specialization(kernel.func, kernel.argument_types()) for name, (kernel, _) in made.items()}
    return {name: artifact_key(one.fields(), "native") for name, one in every.items()}


def main(place: str, constant: str, wanted: str) -> None:
    """Print keys, or what is wrong."""
    if wanted == "keys":
        print(json.dumps(keys(Path(place), constant)))
        return
    names = PAIRS if wanted == "all" else CHOSEN
    made = programs(loaded(Path(place), names, constant), names)
    print(json.dumps([wrong(made), len(set(keys_of(made).values()))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
