"""What is compiled is the text that Python runs: taken when a kernel is decorated, and compared with its code."""

from __future__ import annotations

import ast
import doctest
import importlib
import linecache
import os
import sys
import types
import zipfile

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelSyntaxError
from diffkern.frontend.syntax.code import likeness
from diffkern.frontend.syntax.source import get_source

KERNEL = """
import diffkern as dk

SCALE = 1.0

@dk.kernel
def k(y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = {value}
"""

FACTORY = """
import diffkern as dk

def make(scale):
    @dk.kernel
    def k(y: dk.array(dtype=dk.float64)):
        '''A text
             of several lines.'''
        i = dk.tid()
        y[i] = scale * {value}
    return k
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module and import it; the same name again changes the file alone."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        if name not in made:
            made.append(name)
            importlib.invalidate_caches()
            return importlib.import_module(name)
        return sys.modules[name]

    yield write
    for name in made:
        sys.modules.pop(name, None)


def _run(kernel):
    y = dk.zeros(1, dtype=dk.float64)
    kernel[1](y)
    return y.list()[0]


def test_a_file_edited_before_the_first_launch(module):
    found = module("text_edited", KERNEL.format(value="2.0"))
    module("text_edited", "# one more line\n" + KERNEL.format(value="3.0"))
    assert _run(found.k) == 2.0
    assert "2.0" in found.k.source()


def test_a_func_of_an_edited_file(module):
    text = "import diffkern as dk\n\n@dk.func\ndef f():\n    return {value}\n"
    found = module("text_func", text.format(value="dk.float64(2.0)"))
    module("text_func", text.format(value="dk.float64(3.0)"))
    f = found.f

    @dk.kernel
    def k(y: dk.array(dtype=dk.float64)):
        y[dk.tid()] = f()

    assert _run(k) == 2.0


def test_reload_takes_the_new_text(module):
    found = module("text_reload", KERNEL.format(value="2.0"))
    module("text_reload", KERNEL.format(value="3.0"))
    assert _run(importlib.reload(found).k) == 3.0


def test_reload_of_a_file_of_the_same_size_and_time(module):
    found = module("text_same_time", KERNEL.format(value="2.0"))
    before = os.stat(found.__file__)
    module("text_same_time", KERNEL.format(value="3.0"))
    os.utime(found.__file__, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _run(importlib.reload(found).k) == 3.0


LARGE = """import diffkern as dk
import math as tools

def made(c):
    @dk.func
    def f(v: float):
        return tools.sqrt(v) * c
    return f

{funcs}
"""


def test_a_file_is_parsed_once_for_all_of_its_functions_and_only_if_need_be(module, monkeypatch):
    whole = []
    parse = ast.parse

    def counted(text, *args, **kwargs):
        whole.append(text.strip().count("\n") > 100)  # empty lines in front of a function make its positions right
        return parse(text, *args, **kwargs)

    funcs = "\n".join(f"@dk.func\ndef f{k}(v: float):\n    return {k} * tools.sqrt(v)\n" for k in range(40))
    lambdas = "\n".join(f"g{k} = dk.func(lambda v: {k} * v)" for k in range(20))
    found = module("text_large", LARGE.format(funcs=funcs))
    monkeypatch.setattr(ast, "parse", counted)
    for k in range(40):
        get_source(getattr(found, f"f{k}").pyfunc)
    assert sum(whole) == 0
    found = module("text_large_lambdas", LARGE.format(funcs=funcs + lambdas))
    for k in range(20):
        assert get_source(getattr(found, f"g{k}").pyfunc).node.body[0].value.left.value == k
    assert sum(whole) == 1


PAGES = """import diffkern as dk
\f
\f@dk.func
def f(v: float):
    if v > 0.0:
        return v
\f
    return 2.0
\f  \f@dk.kernel
\f
def k(y: dk.array(dtype=dk.float64)):
    y[0] = dk.float64(f(-1.0))
\f@dk.kernel
\fdef g(y: dk.array(dtype=dk.float64)): y[0] = 3.0
"""


def test_form_feeds_between_definitions(module):
    found = module("text_pages", PAGES)
    assert _run(found.k) == 2.0
    assert _run(found.g) == 3.0


def test_a_form_feed_before_an_indented_decorator(module):
    text = FACTORY.replace("    @dk.kernel", "\f    @dk.kernel")
    assert _run(module("text_inner_page", text.format(value="2.0")).make(2.0)) == 4.0


def test_reload_with_another_local_annotation(module):
    text = KERNEL.replace("    y[i]", "    a: {type} = 0.1\n    y[i]")
    found = module("text_annotation", text.format(type="dk.float32", value="dk.float64(a)"))
    old = found.k
    assert _run(old) == np.float32(0.1)
    module("text_annotation", text.format(type="dk.float64", value="dk.float64(a)"))
    assert _run(importlib.reload(found).k) == 0.1
    assert _run(old) == np.float32(0.1)


def test_a_kernel_made_after_an_edit_is_that_of_the_imported_text(module):
    found = module("text_factory", FACTORY.format(value="2.0"))
    assert _run(found.make(1.0)) == 2.0
    module("text_factory", "# one more line\n" + FACTORY.format(value="3.0"))
    assert _run(found.make(10.0)) == 20.0
    assert _run(importlib.reload(found).make(10.0)) == 30.0


@pytest.mark.parametrize("other", ["scale * 3.0", "scale + 2.0", "scale * 2", "2.0 * scale", "-scale * 2.0"])
def test_a_text_that_python_does_not_run_is_refused(module, other):
    found = module("text_unknown", FACTORY.format(value="2.0"))
    module("text_unknown", FACTORY.format(value="2.0").replace("scale * 2.0", other))
    with pytest.raises(KernelSyntaxError, match="is not what Python runs: the file was changed") as info:
        _run(found.make(1.0))
    assert info.value.loc.line == 5


def test_a_text_that_lost_the_function_is_refused(module):
    found = module("text_lost", FACTORY.format(value="2.0"))
    module("text_lost", "nothing = 1\n")
    with pytest.raises(KernelSyntaxError):
        _run(found.make(1.0))


def test_from_an_archive(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("text_zipped.py", KERNEL.format(value="4.0"))
    monkeypatch.syspath_prepend(str(tmp_path / "some.zip"))
    assert _run(importlib.import_module("text_zipped").k) == 4.0


def _execute(text, file):
    namespace = {}
    exec(compile(text, file, "exec"), namespace)
    return namespace["k"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_text_registered_with_linecache(when):
    """As notebooks do it, and as whoever makes code does it."""
    file, text = f"<cell {when}>", KERNEL.format(value="5.0")
    entry = (len(text), None, text.splitlines(keepends=True), file)
    if when == "before":
        linecache.cache[file] = entry
    kernel = _execute(text, file)
    if when == "after":
        linecache.cache[file] = entry
    else:
        del linecache.cache[file]
    assert _run(kernel) == 5.0


def test_no_text_at_all():
    with pytest.raises(KernelSyntaxError, match="cannot be found"):
        _run(_execute(KERNEL.format(value="5.0"), "<nowhere>"))


EXAMPLE = """
>>> @dk.kernel
... def k(y: dk.array(dtype=dk.float64)):
...     y[dk.tid()] = 6.0
>>> kept.append(k)
"""


def test_in_a_doctest():
    kept = []
    runner = doctest.DocTestRunner(verbose=False)
    test = doctest.DocTestParser().get_doctest(EXAMPLE, {"kept": kept, "dk": dk}, "text", "text", 0)
    assert runner.run(test, clear_globs=False).failed == 0
    assert _run(kept[0]) == 6.0


def test_two_kernels_of_one_function():
    def plain(y: dk.array(dtype=dk.float64)):
        y[dk.tid()] = 7.0

    assert _run(dk.kernel(plain)) == _run(dk.kernel(plain, enable_backward=False)) == 7.0


def test_assertions_that_the_test_runner_rewrote():
    @dk.func
    def f(a: dk.float64):
        assert a > 0.0, "positive"
        return a

    assert get_source(f.pyfunc).node.name == "f"
    other = types.FunctionType(_other(f.pyfunc.__code__), {}, "f")
    lines = linecache.getlines(__file__)
    assert likeness(get_source(f.pyfunc).node, f.pyfunc, lines)
    assert not likeness(get_source(f.pyfunc).node, other, lines)


def _other(code):
    return code.replace(co_varnames=("b", *code.co_varnames[1:]))


def test_private_names_of_a_class():
    class Holder:
        @dk.kernel
        def k(y: dk.array(dtype=dk.float64)):
            __value = 8.0
            y[dk.tid()] = __value

    assert _run(Holder.k) == 8.0


def test_what_a_name_means_is_noticed_at_any_launch(module):
    text = "from diffkern import sin\nimport math as shelf\nT = dk.float32\n"
    found = module("text_names", KERNEL.format(value="dk.float64(T(abs(sin(-0.1))))").replace("SCALE = 1.0", text))
    assert _run(found.k) == pytest.approx(0.1, abs=1e-3)
    first = _run(found.k)

    found.T = dk.float64
    assert 0 < abs(_run(found.k) - first) < 1e-6
    found.sin = dk.cos
    assert _run(found.k) == pytest.approx(np.cos(0.1))

    @dk.func
    def ten(x: dk.float64):
        return dk.float64(10.0)

    found.abs = ten  # a built-in of Python that a global shadows
    assert _run(found.k) == 10.0
    del found.abs
    assert _run(found.k) == pytest.approx(np.cos(0.1))


def test_a_module_that_is_exchanged(module):
    module("text_shelf", "import diffkern as dk\nT = dk.float32\n")
    head = "import text_shelf as shelf\n"
    found = module("text_user", KERNEL.format(value="dk.float64(shelf.T(0.1))").replace("SCALE = 1.0", head))
    assert _run(found.k) == np.float32(0.1)
    found.shelf = types.SimpleNamespace()
    other = types.ModuleType("other")
    other.T = dk.float64
    found.shelf = other
    assert _run(found.k) == 0.1
    other.T = dk.float32
    assert _run(found.k) == np.float32(0.1)
