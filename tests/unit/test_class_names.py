"""One name for one idea: no two classes of the package have the same name, but for those listed here."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import diffkern

PACKAGE = Path(diffkern.__file__).parent

# Names that several classes have. The list may become shorter: give a new class a name of its own.
SHARED = frozenset(
    """
    Access Adjoint Along Argument Bound Buffer Call Checks Code Comparison Compiled Constant Context Copied Copy
    Cotangents CpuModule Cut Device Driver Element Entry Event Facts Family Field Form Frame Gpu Kernel Launch
    Layout Leaf Library Linear Liveness Logged LoggedLaunch Memory Module Needs Notes Output Parameter Part Parts
    Place Places Plan Printed Program Recorder Row Run Scope ScopedCapture Shape Side Signature Slot
    Source Span Stack Stamp Step Stream Taken Transformation Uniformity Update Use Value Variable View Work
    _Accesses _Body _Call _Change _Classes _Emitter _Entry _Expander _Finder _Forward _HoldsPrograms _Key _Known
    _Loop _Loops _Numbers _Order _Place _Reading _Returns _Search _Segment _Sums _System _View _Watch _Whole
    _Writing array
    """.split()
)


def names() -> Counter[str]:
    """How many classes of the package have each name."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py")))
    return Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_each_class_has_a_name_of_its_own():
    shared = {name for name, count in names().items() if count > 1}
    assert not shared - SHARED, "there is a class of that name already"
    assert not SHARED - shared, "take what is no longer shared from the list"
