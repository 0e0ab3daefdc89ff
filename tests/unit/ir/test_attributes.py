"""Attributes are declared in the operation's row; the builder and the verifier refuse all others."""

from __future__ import annotations

import pytest

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function
from diffkern.ir.ops.row import TypeRuleError
from diffkern.ir.types import FLOAT64
from diffkern.ir.verify import InvalidIR, verify


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        ("const", {"value": 1.0}, "has no attribute 'type'"),
        ("const", {"value": "1", "type": FLOAT64}, "as attribute 'value', not '1'"),
        ("tid", {"axis": 0, "speed": 1}, "declares no attribute 'speed'"),
        ("tid", {"axis": 0, "guarded": True}, "declares no attribute 'guarded'"),
    ],
)
def test_refused(name: str, attrs: dict[str, object], message: str) -> None:
    with pytest.raises(TypeRuleError, match=message):
        Builder().op(name, **attrs)


def test_optional_ones() -> None:
    b = Builder()
    x = b.const(2.0, FLOAT64)
    root = b.one("sqrt", x, guarded=True)
    b.one("add", x, root, reassoc=True)
    assert b.region.ops[1].attrs == {"guarded": True}


def test_the_verifier_looks_as_well() -> None:
    b = Builder()
    b.one("tid", axis=0)
    fn = Function("f", (), b.region)
    verify(fn)
    b.region.ops[0].attrs = {"axis": 0, "uniform": True}
    with pytest.raises(InvalidIR, match="declares no attribute 'uniform'"):
        verify(fn)
