"""Which of the texts that are known is the one that Python runs: private names, assertions, local annotations."""

from __future__ import annotations

import ast
import importlib
import linecache
import os
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

import diffkern as dk
from diffkern.errors import KernelSyntaxError
from diffkern.frontend.syntax.code import likeness
from diffkern.frontend.syntax.source import get_source
from diffkern.lang import remembered

MAKER = """
import diffkern as dk
{head}
def make():
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        {body}
    return k
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a module and import it; the same name again changes the file alone."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = []

    def write(name: str, text: str) -> Any:
        (tmp_path / f"{name}.py").write_text(text)
        if name not in made:
            made.append(name)
            importlib.invalidate_caches()
            return importlib.import_module(name)
        return sys.modules[name]

    yield write
    for name in made:
        sys.modules.pop(name, None)


def run(kernel: Any, at: float = 10.0) -> float:
    x, y = dk.full(1, at, dtype=float), dk.zeros(1, dtype=float)
    kernel[1](x, y)
    return float(y.numpy()[0])


def edited(module: Any, name: str, old: str, new: str, head: str = "") -> Any:
    """A module whose file was changed after it was imported, and before any of it was decorated."""
    found = module(name, MAKER.format(head=head, body=old))
    return module(name, MAKER.format(head=head, body=new)) or found


# -- private names -----------------------------------------------------------------------------------------------------


def test_two_lambda_expressions_with_private_names_on_one_line(module: Any) -> None:
    found = module(
        "alike_lambdas",
        "import diffkern as dk\n__a = 2.0; __b = 3.0\n"
        "f, g = dk.func(lambda x: x * __a + 1.0), dk.func(lambda x: x - __b)\n"
        "class H: p, q = dk.func(lambda x: x * __a + 1.0), dk.func(lambda x: x - __b)\n",
    )
    found._H__a, found._H__b = 5.0, 7.0
    values = []
    for f in (found.f, found.g, found.H.p, found.H.q):

        @dk.kernel
        def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
            y[0] = f(x[0])

        values.append(run(k))
    assert values == [21.0, 7.0, 51.0, 3.0]


@pytest.mark.parametrize("old", ["y[0] = x[0] + __K", "__t = x[0]\n        y[0] = __t + 1.0"])
def test_an_edited_text_with_private_names_is_refused(module: Any, old: str) -> None:
    head = "__K = 2.0"
    assert run(module("alike_private", MAKER.format(head=head, body=old)).make()) in (11.0, 12.0)
    name = f"alike_private_{old[:2].strip('_ []')}"
    with pytest.raises(KernelSyntaxError, match="is not what Python runs"):
        run(edited(module, name, old, old.replace("+", "-"), head).make())


OWNED = """
import diffkern as dk
__gain, _Owner__gain = 2.0, 3.0
class Box: _Owner__w = 5.0
class __Owner:
    @dk.kernel
    def k(x: dk.array(dtype=float), __y: dk.array(dtype=float)):
        def __g(__v): return __v * __gain
        __s = dk.static(__gain + 1.0)
        __y[0] = __g(x[0]) * Box.__w + __s
k = _made = __Owner.k
"""


def test_private_names_are_those_of_their_class(module: Any) -> None:
    found = module("alike_owner", OWNED)
    assert run(found.k) == 10.0 * 3.0 * 5.0 + 4.0
    found._Owner__gain = 4.0
    assert run(found.k) == 10.0 * 4.0 * 5.0 + 4.0


def test_private_names_in_static_expressions_that_are_remembered(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: dict[tuple[bytes, bytes], bytes] = {}
    kept = types.SimpleNamespace(
        find=lambda text, name: notes.get((text, name)),
        keep=lambda text, name, found: notes.update({(text, name): found}),
    )
    monkeypatch.setattr(remembered, "_memory", kept)
    for name in ("alike_noted", "alike_noted_again"):
        found = module(name, OWNED)
        assert run(found.k) == 10.0 * 3.0 * 5.0 + 4.0
        assert not notes


# -- assertions --------------------------------------------------------------------------------------------------------

OLD = ["assert x[0] > 0.0", "y[0] = x[0] + K"]


@pytest.mark.parametrize("new", [["assert x[0] > 0.0", "y[0] = x[0] - K"], ["assert x[0] > 1.0", "y[0] = x[0] + K"]])
def test_an_edited_text_with_assertions_is_refused(module: Any, new: list[str]) -> None:
    old, other = ("; ".join(body) for body in (OLD, new))
    name = f"alike_asserts_{'-' in other}"
    with pytest.raises(KernelSyntaxError, match="is not what Python runs"):
        run(edited(module, name, old, other, "K = 2.0").make())


ASSERTING = """
def f(x, y, n):
    a = x * n
    assert a > -1.0 and y in (1, 2), f"{a} is too small"
    for k in range(n):
        if k > 2:
            assert k < 2**10 - 1
            a += 3.0
        else:
            a -= y
    assert (lambda b: b)(a) > 0
    def g(b):
        assert b
        return b * a
    return g(a)
"""


def rewritten(text: str) -> Any:
    tree = ast.parse(text)
    rewrite_asserts(tree, text.encode(), "asserting.py", None)
    namespace: dict[str, Any] = {}
    exec(compile(tree, "asserting.py", "exec"), namespace)
    return namespace["f"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("x * n", "x / n"), ("k > 2", "k > 3"), ("a += 3.0", "a += n"), ("a -= y", "a -= n"), ("b * a", "b - a"),
     ("a -= y", "a -= y\n            a += 3.0"), ("-1.0 and", "-2.0 and")],
)  # fmt: skip
def test_assertions_that_pytest_rewrites(old: str, new: str) -> None:
    f = rewritten(ASSERTING)
    for text, is_like in ((ASSERTING, True), (ASSERTING.replace(old, new, 1), False)):
        definition = ast.parse(text).body[0]
        assert isinstance(definition, ast.FunctionDef)
        like = likeness(definition, f, text.splitlines(keepends=True))
        assert (like is not None and not like.is_exact) == is_like


def test_other_assertions_are_refused_where_pytest_has_rewritten_none() -> None:
    text = ASSERTING.replace("a > -1.0", "a >= -1.0")
    definition = ast.parse(text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    namespace: dict[str, Any] = {}
    exec(ASSERTING, namespace)
    assert likeness(definition, namespace["f"], text.splitlines(keepends=True)) is None


# -- local annotations -------------------------------------------------------------------------------------------------

LOCAL = "a: dk.{t} = 16777217.0; b: dk.{t} = a - 16777216.0; y[0] = x[0] * float(b + 1.0)"
FLOAT, DOUBLE = LOCAL.format(t="float32"), LOCAL.format(t="float64")


def test_positions_tell_that_an_annotation_was_changed(module: Any) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("codes of Python 3.10 know lines alone")
    with pytest.raises(KernelSyntaxError, match="is not what Python runs"):
        run(edited(module, "alike_longer", LOCAL.format(t="float16"), LOCAL.format(t="bfloat16")).make())


def test_cached_code_tells_that_an_annotation_was_changed(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name = "alike_cached"
    found = module(name, MAKER.format(head="", body=FLOAT))
    os.utime(found.__file__, (1e9, 1e9))
    importlib.reload(found)
    module(name, MAKER.format(head="", body=DOUBLE))
    with pytest.raises(KernelSyntaxError, match="may not be what Python runs: the file was changed"):
        run(found.make())
    assert run(importlib.reload(found).make()) == 20.0


def test_several_texts_that_fit_are_refused(module: Any) -> None:
    """One kernel is made of each, and then a third one: of which, Python's code does not tell."""
    name = "alike_several"
    head = "k = None"
    found = module(name, MAKER.format(head=head, body=FLOAT))
    assert run(found.make()) == 10.0
    module(name, MAKER.format(head=head, body=DOUBLE))
    with pytest.raises(KernelSyntaxError, match=r"is the same for 'a: dk\.float.. = .*' and 'a: dk\.float..") as caught:
        run(found.make())
    assert caught.value.loc.line == 7
    assert "restart Python" in str(caught.value)
    reloaded = importlib.reload(found)
    with pytest.raises(KernelSyntaxError, match="is the same for"):
        run(reloaded.make())


def test_what_is_made_while_the_module_is_imported_is_from_its_text(module: Any) -> None:
    name = "alike_imported"
    text = MAKER.format(head="", body="{body}") + "\nk = make()\n"
    found = module(name, text.format(body=FLOAT))
    old = found.k
    module(name, text.format(body=DOUBLE))
    assert run(importlib.reload(found).k) == 20.0
    assert run(old) == 10.0


def test_an_annotation_edited_within_the_resolution_of_the_clock(module: Any) -> None:
    name = "alike_at_once"
    text = MAKER.format(head="", body="{body}") + "\nk = make()\n"
    found = module(name, text.format(body=FLOAT))
    old, before = found.k, os.stat(found.__file__)
    module(name, text.format(body=DOUBLE))
    os.utime(found.__file__, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(importlib.reload(found).k) == 20.0
    assert run(old) == 10.0


def test_a_kernel_that_is_made_after_an_edit_within_the_resolution_of_the_clock(module: Any) -> None:
    name = "alike_made_at_once"
    found = module(name, MAKER.format(head="", body="y[0] = 2.0 * x[0]"))
    assert run(found.make()) == 20.0
    before = os.stat(found.__file__)
    module(name, MAKER.format(head="", body="y[0] = 3.0 * x[0]"))
    os.utime(found.__file__, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(importlib.reload(found).make()) == 30.0


def test_an_annotation_edited_back(module: Any) -> None:
    name = "alike_back"
    found = module(name, MAKER.format(head="", body=FLOAT))
    assert run(found.make()) == 10.0
    module(name, MAKER.format(head="# a line\n", body=FLOAT))
    module(name, MAKER.format(head="", body=FLOAT))
    os.utime(found.__file__, (1e9, 1e9))
    assert run(found.make()) == 10.0


def test_an_archive_that_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.zip"
    monkeypatch.syspath_prepend(str(path))
    values = []
    for body in (FLOAT, DOUBLE, FLOAT):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("alike_zipped.py", MAKER.format(head="", body=body) + "k = make()\n")
        monkeypatch.delitem(sys.modules, "alike_zipped", raising=False)
        sys.path_importer_cache.pop(str(path), None)
        importlib.invalidate_caches()
        values.append(run(importlib.import_module("alike_zipped").k))
    monkeypatch.delitem(sys.modules, "alike_zipped")
    assert values == [10.0, 20.0, 10.0]


def test_a_function_that_is_given_the_code_of_another_one() -> None:
    def f(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        y[0] = x[0] * dk.static(2.0)

    def g(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        y[0] = dk.static(3.0) * x[0]

    assert run(dk.kernel(f)) == 20.0
    f.__code__ = g.__code__
    assert run(dk.kernel(f)) == 30.0


# -- form feeds --------------------------------------------------------------------------------------------------------

PAGES = (
    "import diffkern as dk\n@dk.kernel\ndef k(x: dk.array(dtype=float), y: dk.array(dtype=float)):\n"
    "    a = x[0]\n  \f    if a > 0.0:\n\f        a *= 2.0\n    y[0] = a\n"
    "def make():\n\f    @dk.kernel\n    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):\n"
    "        y[0] = x[0]\n\f        y[0] *= 3.0\n    return k\n"
)


def test_form_feeds_in_a_body(module: Any) -> None:
    found = module("alike_pages", PAGES)
    assert run(found.k) == 20.0
    assert run(found.make()) == 30.0


def test_a_generic_function_is_compared_as_well() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("generic functions are of Python 3.12")
    texts = [
        "def f[T](x: T, y):\n    a: T = x\n    return a + T(y)\n",
        "def f[T](x: T, y):\n    a: T = x\n    return a - T(y)\n",
    ]
    namespace: dict[str, Any] = {}
    exec(compile(texts[0], "generic.py", "exec", dont_inherit=True), namespace)
    found = [
        likeness(ast.parse(text).body[0], namespace["f"], text.splitlines(keepends=True)) is not None for text in texts
    ]
    assert found == [True, False]


def test_lambda_expressions_on_one_line_that_python_computes_alike() -> None:
    text = "f, g = (lambda x: x * (1.0 + 1.0)), (lambda x: x * 2.0)\n"
    linecache.cache["<alike>"] = len(text), None, [text], "<alike>"
    namespace: dict[str, Any] = {}
    exec(compile(text, "<alike>", "exec"), namespace)
    if sys.version_info < (3, 11):
        with pytest.raises(KernelSyntaxError, match="is the same for"):
            get_source(namespace["f"])
        return
    said = [ast.unparse(get_source(namespace[name]).node.body[0]) for name in "fg"]
    assert said == ["return x * (1.0 + 1.0)", "return x * 2.0"]
