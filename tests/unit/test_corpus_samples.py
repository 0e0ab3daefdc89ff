"""What the corpus says by hand of each kernel agrees with the compiler's analyses."""

from __future__ import annotations

import inspect

import pytest
from corpus import SAMPLES, Sample
from grad.build import values

from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import walk
from diffkern.kernels.kernel import Kernel


def test_size() -> None:
    assert len(SAMPLES) >= 30
    assert sum("for " in _source(s) or "while " in _source(s) for s in SAMPLES.values()) >= 20


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_shared_cotangents_and_atomics(name: str) -> None:
    sample = SAMPLES[name]
    types = Kernel(sample.function).argument_types(*values(sample.case))
    active = frozenset(range(len(types)))
    d = Compilation(sample.function, types, Variant(active=active), **sample.options).adjoint
    shared = {b.name for b, c in zip(d.buffers, d.conflicts, strict=True) if c.kind != "none"}
    shared |= {op.operands[0].name for op in walk(d.fn.body) if op.attrs.get("mode") == "reduce"}
    assert shared == {f"ct_{name}" for name in sample.shared}
    forward = Compilation(sample.function, types).forward
    assert any(op.name == "atomic" for op in walk(forward.body)) == sample.forward_atomic


def _source(sample: Sample) -> str:
    return inspect.getsource(sample.function)
