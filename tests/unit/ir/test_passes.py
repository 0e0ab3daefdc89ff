"""The contract of passes, how they are run, and the recipe by which one is added."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from passes_harness import D1, assert_same, lowered

import diffkern as dk
from diffkern.compiler import passes
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir import verify as verifier
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.passes import Pass, PassOptions, run
from diffkern.ir.stages import PRIMAL, Stage


def doubled(x, y):
    i = dk.tid()
    y[i] = x[i] * 2.0


DOCS = (Path(__file__).parents[3] / "docs" / "recipes_operations.rst").read_text(encoding="utf-8")
FUNCTION, LINE = (
    textwrap.dedent(block)
    for block in re.findall(r"code-block:: python\n\n((?:   .*\n|\n)+)", DOCS[DOCS.index("**A pass**") :])[:2]
)


def test_a_pass_is_added_by_its_line_in_a_list() -> None:
    """The recipe in the documentation, in a copy of a pipeline."""
    names = {"walk": walk, "Pass": Pass, "PRIMAL": PRIMAL}
    exec(FUNCTION, names)
    (added,) = eval(f"({LINE.strip()})", names)
    changed = [*passes.OPTIMISE[:2], added, *passes.OPTIMISE[2:]]
    fn = lowered(doubled, D1, D1)
    seen: list[tuple[str, Stage]] = []

    def watch(name: str, stage: Stage, after: Function) -> None:
        seen.append((name, stage))
        assert any(op.name == "mul" for op in walk(after.body)) == (name in ("rules", "fold"))

    after = run(changed, clone_function(fn), PassOptions(verify=True, watch=watch))
    assert [name for name, _ in seen] == ["rules", "fold", "twice", "unroll-components", "cse", "ranges", "dce"]
    assert not any(op.name == "const" and op.attrs["value"] == 2.0 for op in walk(after.body))
    assert_same(fn, after, (8,), [[float(k) for k in range(8)], [0.0] * 8])


def test_a_pass_returns_the_function_it_is_given() -> None:
    fn = lowered(doubled, D1, D1)
    with pytest.raises(verifier.InvalidIR, match="pass copy returned another function"):
        run([Pass("copy", PRIMAL, PRIMAL, clone_function)], fn)


def broken(fn: Function) -> Function:
    """Use a value that is defined nowhere."""
    other = Builder().i32(3)
    fn.body.ops[-1].operands = (fn.params[1], other, fn.body.ops[-1].operands[-1])
    return fn


def test_what_a_pass_leaves_is_verified_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [Pass("broken", PRIMAL, PRIMAL, broken)]
    monkeypatch.setattr(verifier, "ALWAYS", False)
    run(passes, lowered(doubled, D1, D1))
    with pytest.raises(verifier.InvalidIR, match="never defined"):
        run(passes, lowered(doubled, D1, D1), PassOptions(verify=True))
    monkeypatch.setattr(verifier, "ALWAYS", True)
    with pytest.raises(verifier.InvalidIR, match="never defined"):
        run(passes, lowered(doubled, D1, D1))


def test_debug_mode_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "ALWAYS", False)
    verified: list[str] = []
    monkeypatch.setattr(verifier, "verify", lambda fn, stage=None: verified.append(stage.name))
    kernel = dk.kernel(doubled)
    types = kernel.argument_types(dk.array(dtype=float), dk.array(dtype=float))
    assert Compilation(kernel.func, types).lowered()
    assert verified == []
    assert Compilation(kernel.func, types, Variant(mode="debug")).lowered()
    assert verified[0] == "written"
    assert verified[-1] == "cpu"
