"""What is refused: at which characters, why, and what to write instead."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern import frontend
from diffkern.errors import KernelError, KernelSyntaxError, KernelTypeError
from diffkern.frontend.statements import lowering
from diffkern.ir.types import FLOAT32, Array

from .sources import function_from, marked, mistakes


def plain(x):
    return x


@dk.func
def recursive(x):
    return recursive(x)


@dk.func
def typed(x: float, k: int = 1):
    return x * float(k)


@dk.func
def sometimes(x):
    if x > 0.0:
        return x


class Particle:
    mass: float


@dk.kernel
def other_kernel(x):
    x[0] = 1.0


@dk.struct
class Holder:
    a: dk.array(dtype=float)


def holder() -> Holder:
    made = Holder()
    made.a = dk.zeros(1, dtype=float)
    return made


NAMES: dict[str, Any] = {
    "plain": plain,
    "recursive": recursive,
    "typed": typed,
    "other_kernel": other_kernel,
    "ARRAY": np.zeros(3),
    "LIST": [1, 2],
    "PAIR": (1, 2.0),
    "MIXED": (1, None),
    "NOTHING": None,
    "SimpleNamespace": SimpleNamespace,
    "holder": holder,
}

# statement, what the caret marks, the reason, the remedy ("" where the reason says it all)
SYNTAX = [
    ("try:\n    pass\nexcept ValueError:\n    pass", "try:", "try is not supported", "if"),
    ("with x:\n    pass", "with x:", "with is not supported", "around the launch"),
    ("raise ValueError", "raise ValueError", "raise is not supported", "error code"),
    ("def f(q):\n    return f(q)\ny[i] = f(a)", "f(q)", "f calls itself", "a loop"),
    ("def g(*q):\n    pass", "q", "a fixed list of parameters", "name each parameter"),
    ("@typed\ndef g(q):\n    pass", "typed", "a decorator is not supported", "a func already"),
    ("v = dk.vec2(a, a)\ndef g():\n    v.x = 1.0\ng()", "v", "belongs to the function around", "return the new value"),
    ("g = lambda q: q\ny[i] = g(1.0, 2.0)", "g(1.0, 2.0)", "too many positional arguments", "its parameters are q"),
    ("def g(q: int):\n    return q\ny[i] = g(0.5)", "0.5", "the float 0.5 cannot become int32", "int"),
    ("class C:\n    pass", "class C:", "a class inside a kernel", "outside"),
    ("import math", "import math", "import is not supported", "top of the file"),
    ("global G", "global G", "global is not supported", "parameters"),
    ("del i", "del i", "del is not supported", "leave it out"),
    ("q = [a for _ in range(3)]", "[a for _ in range(3)]", "a list comprehension", "for loop"),
    ("q = {1: a}", "{1: a}", "a dict is not supported", "array"),
    ("q = [1, 2]", "[1, 2]", "a list is not supported", "vec3"),
    ('q = "text"', '"text"', "a string is not supported", "numbers"),
    ('q = f"{n}"', 'f"{n}"', "an f-string", "host"),
    ('print("%f" % a)', '"%f" % a', "not formatted by %", "print"),
    ('print("{}".format(a))', '"{}".format(a)', r"or format\(\)", "print"),
    ("q = 1j < 2j", "1j < 2j", "< of complex", "compare abs"),
    ("p, *q = 1, 2", "*q", "a starred target is not supported", "a variable for each"),
    ("y[i] = dk.length(dk.vec4(*x))", r"*x", "of an array of float32 with 1 axis", "between constants"),
    ("y[i] = dk.length(dk.vec4(*x[0:n]))", "0:n", "how many elements", "constants"),
    ("y[i] = typed(**PAIR)", "PAIR", r"\*\* in a call", "name the arguments"),
    ("for q, r in range(3):\n    pass", "q, r", "cannot be unpacked", "only tuples and vectors"),
    ("for q in abs(3):\n    pass", "abs(3)", "cannot be looped over", "range"),
    ("for q in zip((1, 2), x):\n    pass", "(1, 2)", "a length known at run time", "range"),
    ("dk.static(1, 2)", "dk.static(1, 2)", "takes one expression", "a tuple"),
    ("dk.static(1 / 0)", "dk.static(1 / 0)", "cannot be evaluated: ZeroDivisionError", "known where"),
    ("dk.static(i)", "dk.static(i)", "known only where the kernel runs", "constant bounds"),
    ("dk.static(None)", "dk.static(None)", r"static\(...\) is None", "a number"),
    ("dk.static(object())", "dk.static(object())", r"static\(...\) is a object", "a number"),
    ("dk.static(SimpleNamespace())", "dk.static(SimpleNamespace())", "is a SimpleNamespace", "a number"),
    ("dk.static(holder())", "dk.static(holder())", "whose field a is an array", "as a parameter"),
    ("return a", "return a", "a kernel returns nothing", "array parameter"),
    ("y[i] = a in x", "a in x", "in an array of float32", "a tuple"),
    ("y[i] = x[None]", "None", "new axes", "one index per axis"),
    ("q = range(3)", "range(3)", "stands outside a for", "for i in range"),
]

TYPES = [
    ("y[i] = missing", "missing", "'missing' is not defined", ""),
    ("ARRAY[0] = 1.0", "ARRAY[0]", "ARRAY is an array outside the kernel, whose elements are constants", "parameters"),
    ("ARRAY[0] += a", "ARRAY[0]", "ARRAY is an array outside the kernel, whose elements are constants", "parameters"),
    ("dk.mesh_get(x)", "dk.mesh_get(x)", "of an array of float32", "an object made outside, as mesh.id"),
    ("count = n\ny[i] = float(cuont)", "cuont", "did you mean 'count'", ""),
    ("y[i] = dk.sinn(a)", "dk.sinn", "has no attribute 'sinn'; did you mean 'sin'", ""),
    ("y[i] = d[i]", "y[i]", "takes float32, not float64", r"float\(\.\.\.\)"),
    ("index[i] = a", "index[i]", "takes int32, not float32", r"int\(\.\.\.\)"),
    ("index[i] = 0.5", "index[i]", "the float 0.5 cannot become int32", "write 0"),
    ("index[i] = wide[i]", "index[i]", "takes int32, not int64", "int"),
    ("bytes8[i] = 256", "bytes8[i]", "256 does not fit in uint8", "wider"),
    ("x[i] = 10 ** 400", "x[i]", "an integer beyond all floats", "math.inf"),
    ("y[i] = n > 0", "y[i]", "takes float32, not bool", "float"),
    ("for j in range(n / 2):\n    y[i] = a", "n / 2", "range takes integers", "//"),
    ("y[n / 2] = a", "n / 2", "an index must be an integer", "//"),
    ("y[i] = grid[i] + a", "grid[i] + a", r"\+ of an array of float32", r"index every axis, as in grid\[i, j\]"),
    ("y[i] = a * grid[i, 0:2]", "a * grid[i, 0:2]", r"\* of float32 and an array", r"index the array, as in a\[i\]"),
    ("y[i] = a + (n > 0)", "a + (n > 0)", r"\+ of float32 and bool", "int"),
    ("y[i] = -(n > 0)", "-(n > 0)", "- of a bool", "not"),
    ("y[i] = a & n", "a & n", "& of float32", "integers"),
    ("index[i] = n ** n", "n ** n", "known only at run time", "float"),
    ("index[i] = n ** -1", "n ** -1", "an integer to the power -1", "float"),
    ("y[i] = 1 / 0", "1 / 0", "division by zero", ""),
    ("y[i] = x + 1", "x + 1", "an array of float32 with 1 axis", "index the array"),
    ("y[i] = x", "y[i]", "not an array of float32", ""),
    ("y[a] = 1.0", "a", "an index must be an integer, not float32", "int"),
    ("y[i, 0] = 1.0", "y[i, 0]", "2 indices for an array with 1 axis", ""),
    ("v[i, 0] = 1.0", "v[i, 0]", "2 indices for an array with 1 axis", "second pair of brackets"),
    ("y[:] = 1.0", "y[:]", "is assigned as a whole", "single elements"),
    ("grid[i] = 1.0", "grid[i]", "is assigned as a whole", "single elements"),
    ("y[i] = grid[::n, i][0]", "n", "step of a slice must be a constant", ""),
    ("y[i] = plain(a)", "plain", "is a plain Python function", "@dk.func"),
    ("other_kernel(x)", "other_kernel", "is a kernel", "@dk.func"),
    ("y[i] = np.linalg.det(a)", "np.linalg.det(a)", "cannot be called", "@dk.func"),
    ("y[i] = typed(d[i])", "d[i]", "the parameter x of typed takes float32, not float64", "float"),
    ("y[i] = typed(a, 1.5)", "1.5", "the float 1.5 cannot become int32", "int"),
    ("y[i] = typed(a, q=1)", "typed(a, q=1)", "unexpected keyword argument 'q'", "x, k"),
    ("y[i] = typed()", "typed()", "missing a required argument: 'x'", "x, k"),
    ("y[i] = LIST[0]", "LIST", "LIST is a list", "tuples"),
    ("y[i] = MIXED[n]", "n", "indexed by a constant", "array"),
    ("y[i] = PAIR[2]", "PAIR[2]", "index 2 of a tuple of 2", ""),
    ("y[i] = NOTHING", "y[i]", "not None", ""),
    ("p, q, r = PAIR", "p, q, r", "2 values for 3 targets", ""),
    ("p, q = a", "p, q", "float32 cannot be unpacked", "tuples and vectors"),
    ("PAIR[0] = 1", "PAIR[0]", "part of a tuple of 2 cannot be assigned", ""),
    ("y[i] = v[i].q", "v[i].q", "has no component 'q'", "x, y, z"),
    ("y[i] = v[i][3]", "v[i][3]", "component 3 of 3", "0 to 2"),
    ("y[i] = a.x", "a.x", "float32 has no attribute 'x'", ""),
    ("y[i] = x.foo", "x.foo", "an array has no attribute 'foo'", ""),
    ("v[i] = v[i] * v[i]", "v[i] * v[i]", r"\* of vec3<float32> and vec3<float32>", "dot"),
    ("v[i] = v[i] + 1.0", "v[i] + 1.0", r"\+ of vec3<float32> and float32", r"vec3\(s\)"),
    ("v[i] = dk.vec3(1.0, 2.0)", "dk.vec3(1.0, 2.0)", "has 3 components, not 2", ""),
    ("v[i] = 1.0", "v[i]", "takes vec3<float32>, not the number 1.0", r"dk\.vec3\(\.\.\.\)"),
    ("y[i] = v[i]", "y[i]", "takes float32, not vec3<float32>", "component"),
    ("v[i] = dk.cross(v[i], dk.vec2(1.0))", "dk.cross(v[i], dk.vec2(1.0))", "cross of vec3<float32> and vec2", ""),
    ("v[i] = m[i] @ dk.vec2(1.0)", "m[i] @ dk.vec2(1.0)", "@ of mat3x3<float32> and vec2<float32>", "sizes"),
    ("y[i] = dk.length(a)", "dk.length(a)", "takes a vector or matrix, not float32", ""),
    ("y[i] = dk.clamp(a, 0.0)", "dk.clamp(a, 0.0)", "takes 3 arguments, not 2", ""),
    ("y[i] = dk.sin(y=a)", "a", "has no parameter 'y'", "its parameters are x"),
    ("dk.atomic_add(y, 1.0)", "dk.atomic_add(y, 1.0)", "an index for each axis, and a value", ""),
    ("dk.atomic_add(y, 0, 0, 1.0)", "dk.atomic_add(y, 0, 0, 1.0)", "2 indices for an array with 1 axis", ""),
    ("p, q = dk.tid()", "dk.tid()", "tid\\(\\) gives 2 here and 1 in line 2", "same number"),
    ("y[i] = a if a > 0 else v[i]", "a if a > 0 else v[i]", "float32 on one side and vec3", ""),
    ("for j in range(a):\n    pass", "a", "range takes integers, not float32", "int"),
    ("for j in range(0, n, 0):\n    pass", "0", "the step of range is 0", ""),
    ("q: str = 1", "str", "is not an element type", ""),
    ("y[i] = q\nq = 1.0", "q", "read before it is set", "set it before"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "mark", "reason", "remedy"), SYNTAX + TYPES)
def test_refused(statement: str, mark: str, reason: str, remedy: str) -> None:
    found = mistakes(statement, **NAMES)
    assert len(found) == 1, [str(e) for e in found]
    error = found[0]
    assert re.search(reason, error.message), error.message
    assert marked(error) == mark
    assert error.loc.line >= 3
    assert re.search(remedy, error.remedy or ""), error.remedy
    assert isinstance(error, (KernelSyntaxError, KernelTypeError))
    assert "^" in str(error)


def test_several_mistakes_are_reported_together() -> None:
    found = mistakes("y[i] = missing\nif n @ 2 > 1:\n    y[i] = d[i]\nfor j in range(3):\n    y[i] = dk.sinn(a)")
    assert [e.loc.line for e in found] == [3, 4, 5, 7]


def test_a_mistake_is_not_reported_again_where_its_result_is_used() -> None:
    found = mistakes("q = missing\nr = q + 1.0\ny[i] = r\nfor j in range(n):\n    q += r\ny[i] = q")
    assert len(found) == 1


def test_a_mistake_in_a_loop_is_reported_once_though_the_loop_is_lowered_twice() -> None:
    found = mistakes("s = 0\nfor j in range(n):\n    s += x[j]\n    y[i] = d[j]\ny[i] = s")
    assert len(found) == 1


@pytest.mark.parametrize(
    ("statements", "reason", "line"),
    [
        ("if n > 1:\n    t = 1.0\ny[i] = t", "not set where the condition in line 3 does not hold", 5),
        ("if n > 1:\n    pass\nelse:\n    t = 1.0\ny[i] = t", "not set where the condition in line 3 holds", 7),
        ("for j in range(n):\n    t = 1.0\ny[i] = t", "the loop in line 3 may make no trip", 5),
        ("while n > i:\n    t = 1.0\n    break\ny[i] = t", "the loop in line 3 may make no trip", 6),
        ("while True:\n    if n > 1:\n        break\n    t = 1.0\ny[i] = t", "a break of the loop in line 3", 7),
    ],
)
def test_variables_that_may_not_be_set(statements: str, reason: str, line: int) -> None:
    (error,) = mistakes(statements)
    assert reason in error.message
    assert error.loc.line == line
    assert marked(error) == "t"


@pytest.mark.parametrize(
    "statements",
    [
        "if n > 1:\n    t = x[i]\nelse:\n    t = n\ny[i] = t",
        "t = n\nfor j in range(n):\n    t = t + 0.5\ny[i] = t",
        "t = d[i]\nif n > 1:\n    t = x[i]\nd[i] = t",
        "t = n > 1\nif n > 2:\n    t = 1\ny[i] = t",
    ],
)
def test_a_variable_has_one_type_and_both_places_are_named(statements: str) -> None:
    (error,) = mistakes(statements)
    assert "one variable has one type" in error.message
    assert re.search(r"in line \d", error.message)


def test_a_variable_cannot_stand_for_different_arrays() -> None:
    (error,) = mistakes("q = x\nif n > 1:\n    q = y\ny[i] = q[0]")
    assert "different arrays" in error.message


def test_recursion_is_refused_in_the_func() -> None:
    (error,) = mistakes("y[i] = recursive(a)", **NAMES)
    assert "calls itself" in error.message
    assert error.loc.file.endswith("test_refusals.py")


def test_a_func_must_return_on_all_paths() -> None:
    (error,) = mistakes("y[i] = sometimes(a)", sometimes=sometimes)
    assert "ends without a value on some path" in error.message


def test_a_func_of_the_same_name_is_not_a_built_in() -> None:
    (error,) = mistakes("y[i] = sin(a)", sin=plain)
    assert "plain Python function" in error.message


def test_missing_source() -> None:
    namespace: dict[str, Any] = {}
    exec("def kernel(x):\n    x[0] = 1.0", namespace)
    with pytest.raises(KernelSyntaxError, match="source of kernel cannot be found"):
        lowering.lower(namespace["kernel"], [Array(FLOAT32, 1)])


def test_lambda_and_star_arguments() -> None:
    with pytest.raises(KernelError, match="a lambda cannot be compiled"):
        lowering.lower(lambda x: None, [Array(FLOAT32, 1)])
    with pytest.raises(KernelError, match="variable number of parameters"):
        frontend.signature(lambda *args: None)


def test_columns_count_characters_not_bytes() -> None:
    (error,) = mistakes("größe = 1.0; y[i] = missing + größe")
    assert marked(error) == "missing"


def test_positions_are_those_of_the_file_also_in_nested_functions() -> None:
    kernel = function_from(
        """
        def outer():
            K = 2

            @dk.kernel
            def kernel(x):
                i = dk.tid()
                x[i] = K * nope
            return kernel
        """
    )()
    with pytest.raises(KernelError) as caught:
        lowering.lower(kernel.func, [Array(FLOAT32, 1)])
    assert caught.value.loc.line == 8
    assert marked(caught.value) == "nope"


def test_a_conflict_is_reported_once_at_the_later_place() -> None:
    (error,) = mistakes("if n > 3:\n    x = 1.0\ny[i] = x[i]")
    assert error.loc.line == 4
    (error,) = mistakes("for x in range(n):\n    y[i] += x\ny[i] = x")
    assert error.loc.line == 3


def test_a_class_that_is_no_struct_as_an_annotation() -> None:
    @dk.kernel
    def weigh(p: Particle, y: dk.array[float]):
        y[0] = p.mass

    with pytest.raises(KernelTypeError, match="the annotation of p in weigh is no kernel type: Particle") as caught:
        dk.launch(weigh, dim=1, inputs=[Particle(), dk.zeros(1)])
    assert "@dk.struct above class Particle:" in str(caught.value.remedy)
