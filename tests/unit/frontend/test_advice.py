"""What a newcomer from Warp, Numba, NumPy or PyTorch writes: the message says what is wrong and what to write."""

import linecache
import math
import random
import re
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend.syntax import advice

ARRAYS = "x: dk.array(dtype=float), y: dk.array(dtype=float)"
ROWS = "x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float)"


@dk.func
def nothing(a: float):
    a + 1.0


@dk.kernel
def other(x: dk.array(dtype=float)):
    x[dk.tid()] = 1.0


def plain(a):
    return a


NAMES = {
    "dk": dk, "np": np, "math": math, "random": random, "time": time, "nothing": nothing, "other": other,
    "cfg": SimpleNamespace(dt=0.1), "numbers": [1.0, 2.0], "table": {"dt": 0.1}, "outer": dk.zeros(4), "mode": "a",
    "weights": np.ones(4, np.float32), "plain": plain,
}  # fmt: skip
COUNT = iter(range(1000))


def message(body: str, signature: str = ARRAYS) -> str:
    """Return the message that a kernel with this body gets."""
    file = f"<advice {next(COUNT)}>"
    text = f"@dk.kernel\ndef kernel({signature}):\n    i = dk.tid()\n{textwrap.indent(body, '    ')}\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = dict(NAMES)
    exec(compile(text, file, "exec"), module)
    with pytest.raises(dk.KernelError) as info:
        module["kernel"].source()
    return str(info.value)


# What is written, what the message says of it, and what it says to write.
MISTAKES = [
    ("t = np.zeros(4)", "np.zeros makes an array", "pass it as a parameter"),
    ("t = np.linspace(0.0, 1.0, 4)", "makes an array", "pass it as a parameter"),
    ("dk.synchronize()", "is a function of the host", "outside the kernel"),
    ("y[i] = float('inf')", "no number of a string", "math.inf"),
    ("y[i] = float('-inf')", "no number of a string", "-math.inf"),
    ("y[i] = float('nan')", "no number of a string", "math.nan"),
    ("y[i] = float('1.5')", "no number of a string", "the number itself"),
    ("y[i] = cfg.dt", r"cfg is an object \(SimpleNamespace\)", r"dt = cfg.dt"),
    ("y[i] = cfg.dx", "cfg has no attribute 'dx'", "modules and classes"),
    ("y[i] = table['dt']", "a dict is not read", "a name outside the kernel"),
    ("y[i] = numbers[0]", "numbers is a list", "tuples of numbers"),
    ("y[i] = outer[i]", "outer is an array outside", "pass arrays as parameters"),
    ("y[i] = nothing(x[i])", r"not None: nothing\(...\) returns nothing", "return"),
    ("y[i] = dk.exp(nothing(x[i]))", "must be a number", "a function returns"),
    ("dk.printf('%q', x[i])", "does not know the field '%q'", "%d %i %u"),
    ("dk.printf('%d', x[i])", "%d prints an integer, not float32", r"%g, or int\(x\)"),
    ("dk.printf('%f %f', x[i])", "2 fields in its text, and 1 value", "one for each"),
    ("dk.printf(x[i])", "the first argument of dk.printf is a constant string", "outside of the kernel"),
    ("print(x)", "an array of float32 with 1 axis is printed", r"print\(a\[i\]\)"),
    ("print(f'{x[i]:>8}')", "the form '>8' of a printed value", "printf"),
    ("dk.expect_eq(x[i], dk.vec2(1.0))", "expect_eq of float32 and vec2", "values of one type"),
    ("y[i] = x.sum()", "no attribute 'sum'", "atomic_add"),
    ("y[i] = x.mean()", "no attribute 'mean'", "atomic_add"),
    ("y[i] = x.max()", "no attribute 'max'", "loop"),
    ("y[i] = x.T[0]", "no attribute 'T'", "exchange the indices"),
    ("y[i] = x.grad[i]", "no attribute 'grad'", r"x\.grad\]"),
    ("y[i] = x.numpy()[i]", "no attribute 'numpy'", r"as in x\[i\]"),
    ("y[i] = x.reshape(2, 2)[0, 0]", "no attribute 'reshape'", "on the host"),
    ("x.append(1.0)", "no attribute 'append'", "keep their size"),
    ("x.fill_(1.0)", "no attribute 'fill_'", "assign the elements"),
    ("y[i] = x.shap[0]", "no attribute 'shap'", None),
    ("y[i] = x[i].item()", "no attribute 'item'", "a number already"),
    ("y[i] = x[i].astype(float)", "no attribute 'astype'", r"float\(...\)"),
    ("y[i] = x[i].foo", "no attribute 'foo'", "no attributes"),
    ("v = dk.matrix(x[i])", "needs a shape", r"shape=\(2, 2\)"),
    ("y[i] = dk.relu(x[i])", "no attribute 'relu'", r"dk\.max\(x, 0\.0\)"),
    ("y[i] = dk.softmax(x[i])", "no attribute 'softmax'", "loops"),
    ("y[i] = dk.grid(1)", "no attribute 'grid'", r"dk\.tid"),
    ("y[i] = dk.frobnicate(x[i])", "no attribute 'frobnicate'", "the kernel language"),
    ("y[i] = dk.sqr(x[i])", "did you mean 'sqrt'", None),
    ("y[i] = math.qqqq(x[i])", "no attribute 'qqqq'", "check the name"),
    ("y[i] = dk.exp(dk.vec3(x[i]))[0]", "must be a number", r"dk\.vec3\(f\(v\[0\]\)"),
    ("y[i] = dk.sin(dk.mat22(x[i]))[0, 0]", "must be a number", r"v\[0, 0\]"),
    ("y[i] = dk.vec4(dk.vec3(x[i]), 1.0, 2.0)[0]", "4 components, not 5", "vectors count with their components"),
    ("y[i] = dk.vec3(x[i], x[i])[0]", "3 components, not 2", "3 numbers"),
    ("y[i] = sum(x)", "sum cannot be called", "loop"),
    ("y[i] = sorted(x)[0]", "sorted cannot be called", "loop"),
    ("y[i] = np.dot(x, x)", "dot takes a vector", "loop over its elements"),
    ("y[i] = np.cumsum(x)[0]", "works on whole arrays", "add up"),
    ("y[i] = np.interp(x[i], x, x)", "works on whole arrays", "one element"),
    ("y[i] = random.random()", "cannot be called", "dk.randf"),
    ("y[i] = np.random.rand()", "cannot be called", "dk.randf"),
    ("y[i] = time.time()", "cannot be called", "around the launch"),
    ("y[i] = plain(x[i])", "plain Python function", "@dk.func"),
    ("other(x)", "cannot call another", "@dk.func"),
    ("y[i] = max(x)", "takes a vector or matrix", "loop over its elements"),
    ("y[i] = x", "takes float32, not an array", "index the array"),
    ("y[i] = x[i, 0]", "2 indices for an array with 1 axis", "ndim=2"),
    ("y[i] = round(x[i], 2)", "takes 1 argument", "decimals"),
    ("dk.atomic_add(y, x[i])", "an index for each axis", r"dk\.atomic_add\(a, i, value\)"),
    ("dk.atomic_add(y[0], x[i])", "an index for each axis", r"dk\.atomic_add\(a, i, value\)"),
    ("if x[i] == 'a':\n    y[i] = x[i]", "strings are not compared", "on the host"),
    ("for k in plain(4):\n    y[i] = x[k]", "plain Python function", "@dk.func"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "wrong", "instead"), MISTAKES, ids=[case[0] for case in MISTAKES])
def test_the_message_says_what_to_write(body, wrong, instead):
    text = message(body)
    assert re.search(wrong, text), text
    if instead is not None:
        remedy = text.partition("help: ")[2]
        assert re.search(instead, remedy), text


@pytest.mark.parametrize("body", ["y[i] = dk.dot(x[i], x[i])", "y[i] = dk.length(x[i, :])"])
def test_rows_are_no_vectors(body):
    assert "is no vector: loop over its elements" in message(body, ROWS)


def test_an_element_of_an_array_with_two_axes():
    assert "help: index the array, one index for each axis" in message("y[i] = x[i]", ROWS)


@pytest.mark.parametrize("annotation", ["list", "np.ndarray", "'torch.Tensor'", "dk.array", "tuple", "'list[float]'"])
def test_annotations_of_other_libraries(annotation):
    text = message("y[i] = x[i]", f"x: {annotation}, y: dk.array(dtype=float)")
    assert "help: write dk.array(dtype=float)" in text
    assert len(text) < 400


@pytest.mark.parametrize("annotation", ["str", "dict", "np.complex128"])
def test_annotations_that_mean_nothing(annotation):
    assert "help: " in message("y[i] = x[i]", f"x: {annotation}, y: dk.array(dtype=float)")


def test_names_of_the_advice_are_not_those_of_the_language():
    """Whoever adds a function to the language takes its name out of the advice."""
    assert not [name for name in advice._NAMES if hasattr(dk, name)]


@dk.kernel
def update(x: dk.array(dtype=float), places: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    for k in range(2):
        y[places[i] + k] *= x[i]


def test_an_update_is_not_called_a_read():
    with pytest.raises(dk.AutodiffError) as info:
        update.adjoint_source()
    text = str(info.value)
    assert "this update reads the element of y that it writes, which another thread" in text
    assert text.splitlines()[2].strip() == "^" * len("y[places[i] + k]")
