"""The fingerprint: equal for the same program, different for any other, the same in every process."""

from __future__ import annotations

import ast
import enum
import inspect
import linecache
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend import fingerprint
from diffkern.frontend.syntax.encoding import encode_value

from .sources import function_from

BASE = """
def kernel(x, y):
    i = dk.tid()
    y[i] = K * x[i]
"""


def fields(source: str, **names: Any) -> list[tuple[str, bytes]]:
    return fingerprint(function_from(source, **names))


def test_comments_blank_lines_docstrings_and_positions_do_not_count() -> None:
    other = """



# a comment
@dk.kernel
def kernel(x, y):
    '''What it does.'''

    i = dk.tid()  # the thread

    y[i] = (K
            * x[i])
"""
    kernel = function_from(other, K=2.0)
    assert fingerprint(kernel.func) == fields(BASE, K=2.0)


@pytest.mark.parametrize(
    "changed",
    [
        BASE.replace("K * x[i]", "x[i] * K"),
        BASE.replace("K * x[i]", "K * x[i + 0]"),
        BASE.replace("K *", "K +"),
        BASE.replace("y[i] =", "y[i] +="),
        BASE.replace("(x, y)", "(y, x)"),
        BASE.replace("(x, y)", "(x: float, y)"),
        BASE.replace("(x, y)", "(x, y=1)"),
        BASE + "    y[i] = 0.0\n",
        BASE.replace("kernel", "other"),
    ],
)
def test_a_changed_program_has_another_fingerprint(changed: str) -> None:
    assert fields(changed, K=2.0) != fields(BASE, K=2.0)


class Level(enum.IntEnum):
    ONE = 1


class Colour(enum.Enum):
    RED = 1


CONSTANTS = [
    *(0, 0.0, -0.0, False, True, 1, 1.0, 5, 5 + 2**32, 2**63, -(2**63), 0.1, 0.1000000001, math.nan, math.inf),
    *(np.float32(1), np.float64(1), np.int32(1), np.int64(1), np.bool_(True)),
    *((1,), (1, 1), ((1,), 1), (1, (1,)), (1.0, 1), (), None, Colour.RED, Level.ONE, "text", [1]),
    *(dk.float32, dk.float64, dk.vec3, dk.vec3d, dk.mat22, dk.sin, dk.cos),
    *(dk.vec3(1, 1, 1), dk.vec3d(1, 1, 1), dk.vec3(1, 1, 2)),
]


def test_captured_constants_are_told_apart_by_type_and_full_width() -> None:
    codes = [dict(fields(BASE, K=k))["captured 0 K"] for k in CONSTANTS]
    assert len(set(codes)) == len(CONSTANTS)


def test_one_dtype_has_one_spelling() -> None:
    assert fields(BASE, K=dk.float32) == fields(BASE, K=np.float32)


def test_the_same_meaning_by_another_name() -> None:
    assert encode_value(math.nan) == encode_value(-math.nan)
    source = "def kernel(x):\n    x[0] = f(x[0])\n"
    assert fields(source, f=math.sin) == fields(source, f=dk.sin) == fields(source, f=np.sin)


def test_a_changed_global_is_noticed() -> None:
    kernel = function_from(BASE, K=2.0)
    before = fingerprint(kernel)
    assert fingerprint(kernel) == before
    kernel.__globals__["K"] = 3.0
    assert fingerprint(kernel) != before
    kernel.__globals__["K"] = 2.0
    assert fingerprint(kernel) == before


def test_funcs_are_part_of_it_once_and_through_each_other() -> None:
    source = """
    @dk.func
    def inner(x):
        return x * SCALE
    @dk.func
    def outer(x, k=2):
        return inner(x) + inner(x) * k
    def kernel(x):
        x[0] = outer(x[0]) + inner(x[1])
    """
    kernel = function_from(source, SCALE=2.0)
    found = dict(fingerprint(kernel))
    assert [label for label in found if label.startswith("tree")] == ["tree 0", "tree 1", "tree 2"]
    assert found["captured 0 outer"] == b"func:1"
    assert found["captured 0 inner"] == b"func:2"
    assert found["default 1 k"] == b"i64:2"
    before = fingerprint(kernel)
    kernel.__globals__["SCALE"] = 3.0
    assert fingerprint(kernel) != before


def test_recursive_funcs_do_not_loop() -> None:
    kernel = function_from("@dk.func\ndef f(x):\n    return f(x)\ndef kernel(x):\n    x[0] = f(x[0])\n")
    assert len([1 for label, _ in fingerprint(kernel) if label.startswith("tree")]) == 2


def test_closures_and_attributes() -> None:
    def make(k: Any) -> Any:
        def kernel(x):
            x[0] = k * math.pi

        return kernel

    one, two = make(1.0), make(2.0)
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(one) == fingerprint(make(1.0))
    assert dict(fingerprint(one))["captured 0 math.pi"].startswith(b"f64:")


SCRIPT = """
import hashlib, diffkern as dk
from diffkern.frontend import fingerprint
from tests.golden.ir_kernels import KERNELS
h = hashlib.sha256()
for name, (function, types) in KERNELS.items():
    for label, data in fingerprint(function):
        h.update(label.encode() + b":%d:" % len(data) + data)
print(h.hexdigest())
"""


def test_the_same_in_every_process() -> None:
    def digest(seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        return done.stdout.strip()

    assert digest("1") == digest("2")


def test_no_paths_and_no_addresses() -> None:
    kernel = function_from(BASE, K=object())
    text = b"".join(data for _, data in fingerprint(kernel))
    assert b"0x" not in text
    assert b"/" not in text
    assert b"<test" not in text


def test_the_source_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = function_from(BASE, K=2.0)
    first = list(fingerprint(kernel))
    for module, name in ((ast, "parse"), (inspect, "getsourcelines"), (linecache, "checkcache")):
        monkeypatch.delattr(module, name)
    assert list(fingerprint(kernel)) == first
