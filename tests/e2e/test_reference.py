"""The reference entries of built-in functions: every parameter is named, every example runs."""

from __future__ import annotations

import doctest
import importlib.util
import math
import re
from typing import Any

import numpy as np
import pytest
from builtin_kinks import KINKS

import diffkern as dk
from diffkern.ir.ops.table import all_ops
from diffkern.ir.ops.tile_functions import TILE_FUNCTIONS
from diffkern.lang.function_rows import ROWS
from diffkern.lang.intrinsics import INTRINSICS, Intrinsic
from diffkern.lang.library import COMPOSED, Composed
from diffkern.lang.reference import PRELUDE
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.schedule import Blocks

ENTRIES = {row.name: row.entry for row in (*ROWS, *TILE_FUNCTIONS.values())}
IN_ROWS = {row.built_in.name or row.name: row.built_in.entry for row in all_ops().values() if row.built_in}
IN_LIBRARY = {name: function.entry for name, function in COMPOSED.items()}
STATED = ENTRIES | {name: entry for name, entry in IN_ROWS.items() if entry} | IN_LIBRARY

FUNCTIONS = {
    name: getattr(math, name) for name in ("cos", "sin", "cosh", "sinh", "exp", "log", "sqrt", "floor", "pow", "pi")
}
FUNCTIONS |= {"rsqrt": lambda x: 1 / math.sqrt(x), "abs": abs, "digamma": dk.digamma}

HEAD = f"\n\n{PRELUDE}"


def text(built_in: Intrinsic | Composed) -> str:
    return str(built_in.__doc__)


def section(built_in: Intrinsic | Composed, title: str) -> str:
    return text(built_in).partition(f"{title}\n{'-' * len(title)}\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize("built_in", INTRINSICS.values(), ids=lambda b: b.name)
def test_an_entry_names_the_parameters_of_the_signature(built_in):
    stated = [
        name for line in section(built_in, "Parameters").splitlines() for name in line.split(" : ")[0].split(", ")
    ]
    signature = re.sub(r"=[^,]+", "", built_in.signature.replace("[j, ...]", ""))
    named = re.findall(r"(\w+|\.\.\.)(?= |=|,|$|\])", signature.replace("[", "").replace("]", ""))
    assert [n for n in stated if n != "..."] == [n for n in named if n != "..."]


def test_entries_are_of_built_ins():
    assert set(STATED) <= set(INTRINSICS)
    assert not set(ENTRIES) & set(IN_ROWS)


@pytest.mark.parametrize("built_in", [b for b in INTRINSICS.values() if ">>>" in text(b)], ids=lambda b: b.name)
def test_examples_on_the_host_print_what_they_say(built_in):
    example = doctest.DocTestParser().get_doctest(text(built_in), {"dk": dk}, built_in.name, None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Any:
    """A module with a kernel for each example of one."""
    path = tmp_path_factory.mktemp("reference") / "reference_examples.py"
    bodies = (
        HEAD.replace("def example", f"def {name}_example")
        + "".join(f"    {line}\n" for line in entry.example.split("; "))
        for name, entry in STATED.items()
    )
    path.write_text("import diffkern as dk\n" + "".join(bodies), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", STATED)
def test_examples_of_kernels_run(name, examples):
    x, y = np.linspace(0.25, 1.0, 4, dtype=np.float32), np.zeros(4, np.float32)
    p, q = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    w = dk.array(np.ones((4, 3), np.float32), dtype=dk.vec3)
    e = dk.zeros(4, dtype=dk.mat33)
    a = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    b, c = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32)
    corners = dk.array(np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), dtype=dk.vec3)
    mesh = dk.Mesh(corners, dk.array([0, 1, 2], dtype=int), velocities=dk.zeros(3, dtype=dk.vec3))
    tree = dk.Bvh(corners, corners)
    of_vectors = name in ("volume_lookup_v", "volume_sample_v", "volume_store_v")
    kind = dk.vec3 if of_vectors else dk.int32 if name.endswith("_i") else float
    volume = dk.Volume.allocate((0, 0, 0), (7, 7, 7), 1.0, dk.vec3(0.0) if of_vectors else kind(0))
    arguments = [x, y, p, q, w, e, a, b, c, 0, tree.id, mesh.id, volume.id]
    run(getattr(examples, f"{name}_example"), 1, arguments, blocks=Blocks(1))  # threads, or blocks of tiles
    assert all(np.isfinite(out).all() for out in (x, y, w.numpy(), e.numpy(), a, b, c))


@pytest.mark.parametrize("name", STATED)
def test_examples_are_differentiated_in_both_modes_and_for_gpus(name, examples):
    kernel = getattr(examples, f"{name}_example")
    assert "def " in kernel.adjoint_source(target="cuda")
    assert "def " in kernel.jvp.source()


@pytest.mark.parametrize("name", sorted({kink.row.name for kink in KINKS if kink.derivative}))
def test_entries_say_what_holds_at_kinks(name):
    said = INTRINSICS[name].entry
    assert said.kinks or " where " in said.derivative


@pytest.mark.parametrize(
    "row", [row for row in all_ops().values() if row.partials and row.built_in], ids=lambda r: r.name
)
def test_a_stated_derivative_is_that_of_the_value(row):
    """Where neither is special: the formula as it is printed, against differences of the host's function."""
    built_in = INTRINSICS[row.built_in.name or row.name]
    if built_in.name in STATED:
        return
    said = text(built_in).partition("Derivative: ")[2].partition("\n")[0].rstrip(".")
    said = said.removesuffix(", where r is the result")
    names = built_in.signature.split(", ")
    formulas = (
        [said] if len(names) == 1 else [f.strip(", ") for f in re.split(r" with respect to \w+", said)[: len(names)]]
    )
    at = [1.25, 1.75][: len(names)] if built_in.name == "acosh" else [0.625, 1.75][: len(names)]
    for k, formula in enumerate(formulas):
        usual = re.sub(r" \(\S+ where .*\)$", "", formula)
        here = dict(zip(names, at, strict=True)) | {"r": built_in(*at)} | FUNCTIONS
        above, below = ([v + (h if j == k else 0.0) for j, v in enumerate(at)] for h in (1e-6, -1e-6))
        assert eval(usual, {}, here) == pytest.approx((built_in(*above) - built_in(*below)) / 2e-6, rel=1e-6)
