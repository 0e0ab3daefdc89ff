"""How faults are put in on purpose: text of a function replaced, an entry of a table, a derivative rule.

If the text is not there any more the fault is out of date, and applying it fails.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from diffkern.ad.rules import RULES
from diffkern.ad.rules import scalar as scalar_rules
from diffkern.ad.rules.formula import Formula
from diffkern.lang.func import Func

Apply = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """A fault: what it is, how to put it in, and which tests must notice it if they are not those of the corpus."""

    name: str
    apply: Apply
    tests: tuple[str, ...] = ()


def edit(where: ModuleType, path: str, old: str, new: str) -> Apply:
    """Replace text in the source of ``where.path`` (a function, or a method as ``Class.method``)."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        owner: Any = where
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = inspect.getattr_static(owner, name)
        original = getattr(original, "__func__", original)
        source = textwrap.dedent(inspect.getsource(original))
        assert source.count(old) == 1, f"{path} has {source.count(old)} times: {old}"
        changed = _compiled(source.replace(old, new), name, where, owner)
        if _is_plain(original) and _is_plain(changed):
            # Whoever has imported the function, or holds it in a table, runs the changed code.
            patch.setattr(original, "__code__", changed.__code__)
        else:
            patch.setattr(owner, name, changed)

    return apply


def _is_plain(function: Any) -> bool:
    """Whether a function's code is its own, and needs nothing from around it but its class."""
    is_function = inspect.isfunction(function) and not hasattr(function, "__wrapped__")
    return is_function and set(function.__code__.co_freevars) <= {"__class__"}


def func_edit(where: ModuleType, name: str, old: str, new: str) -> Apply:
    """Replace text in the source of a func, which kernels and other funcs call."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original: Func = getattr(where, name)
        source = inspect.getsource(original.pyfunc)
        source = source[source.index("def ") :]
        assert source.count(old) == 1, f"{name} has {source.count(old)} times: {old}"
        source, file = source.replace(old, new), f"<fault in {name}>"
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        namespace: dict[str, Any] = {}
        exec(compile(source, file, "exec", dont_inherit=True), where.__dict__, namespace)
        made = Func(namespace[name])
        made.rules = original.rules
        patch.setattr(original, "pyfunc", made.pyfunc)

    return apply


def _compiled(source: str, name: str, module: ModuleType, owner: Any) -> Any:
    """A function from source that sees its module's names and, for ``super()``, its class."""
    body = textwrap.indent(source.replace(f"def {name}(", "def changed(", 1), "    ")
    text = f"from __future__ import annotations\ndef made(__class__):\n{body}\n    return changed\n"
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<fault in {name}>", "exec"), dict(module.__dict__), namespace)
    return namespace["made"](owner)


def formula(name: str, *partials: str) -> Apply:
    """Give a scalar operation other partial derivatives."""
    return lambda patch: patch.setitem(RULES, name, scalar_rules._formula_rule(tuple(map(Formula, partials))))


def rule_edit(module: ModuleType, function: str, ops: tuple[str, ...], old: str, new: str) -> Apply:
    """Replace text in the source of a rule."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        source = inspect.getsource(getattr(module, function))
        assert source.count(old) == 1, f"{function} has {source.count(old)} times: {old}"
        changed = _compiled(source.replace(old, new), function, module, None)
        for op in ops:
            patch.setitem(RULES, op, changed)

    return apply


def constant(where: ModuleType, name: str, value: Any) -> Apply:
    """Give a constant of a module another value."""
    return lambda patch: patch.setattr(where, name, value)


def entry(table: MutableMapping[str, Any], name: str, value: Any) -> Apply:
    """Give an entry of a table another value."""
    return lambda patch: patch.setitem(table, name, value)
