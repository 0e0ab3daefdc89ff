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
    Code Context Device Event Kernel Layout Module Plan ScopedCapture Stack Stream _Entry _HoldsPrograms array
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
