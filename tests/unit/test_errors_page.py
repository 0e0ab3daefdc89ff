"""The page about errors lists exactly what is raised, and what it says of untaken branches is so."""

import ast
import functools
import re
from pathlib import Path

import numpy as np

import diffkern as dk
from diffkern import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.rst").read_text(encoding="utf-8")

# Raised inside of diffkern, where another part catches them or a fault of diffkern's own ends; with the reason.
INTERNAL = {
    "AssertionError": "a fault of diffkern's own",
    "Cascade": "caught by the frontend",
    "FrozenInstanceError": "a change of an object that stays as it was made",
    "InvalidEntryError": "caught by the cache",
    "InvalidIR": "a fault of diffkern's own",
    "LookupError": "caught where targets and kernels are named",
    "NoDirectoryError": "caught by the cache, which warns",
    "ObjectLoadError": "caught where programs are loaded",
    "OneThreadError": "a LaunchError, which gets its line where it is caught",
    "AxesError": "a LaunchError, which launches in Warp's dialect catch",
    "SeveralDevicesError": "caught where arguments are packed, which says for which parameter",
    "ComponentsError": "a TypeError and a ValueError",
    "KeyOfComponentsError": "a KeyError and an IndexError",
    "OtherTextError": "caught where texts in C++ are translated",
    "StructMet": "caught by the frontend",
    "SyntaxError": "caught by the frontend",
    "SystemExit": "the command line's",
    "TypeRuleError": "caught by the frontend, which says where",
    "UnsafeError": "caught by the cache, which warns",
    "UsageError": "caught by the command line",
}


@functools.cache
def raised() -> frozenset[str]:
    """Return the names of the classes that are raised, except private ones and those of the fakes for tests."""
    found = set()
    for path in (ROOT / "diffkern").rglob("*.py"):
        if path.name.startswith("fake_"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
                if re.fullmatch(r"[A-Z]\w+", name):
                    found.add(name)
    return frozenset(found)


def listed() -> set[str]:
    """Return the names of the classes in the tables of the page."""
    rows = re.findall(r"^   \* - (.*)$", PAGE, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"``([\w.]+)``|`~?([\w.]+)`", row)]
    return {part.rpartition(".")[2] for pair in names for part in pair if part}


def test_the_page_lists_what_is_raised():
    of_kernels = {name for name in errors.__all__ if name.endswith("Error")}
    # Those of a subclass that only a function makes, and that Python itself raises.
    made = of_kernels | {"KeyboardInterrupt"}
    assert listed() == (raised() | made) - INTERNAL.keys() - {"KernelError"}


def test_every_class_has_a_program():
    """What they raise, and that what is to be written instead runs, is checked where the texts are made."""
    programs = {path.stem for path in (ROOT / "docs" / "errors").glob("*.py")}
    needs_a_gpu, base = "CudaError", "KernelError"
    assert programs == {name for name in errors.__all__ if name.endswith("Error")} - {needs_a_gpu, base}


def test_internal_errors_are_raised():
    assert INTERNAL.keys() <= raised()


@dk.kernel
def before(a: dk.array(dtype=float), b: dk.array(dtype=float), m: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    p = a[i] * b[i]
    y[i] = dk.where(m[i] > 0.0, p, 0.0)


@dk.kernel
def inside(a: dk.array(dtype=float), b: dk.array(dtype=float), m: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.where(m[i] > 0.0, a[i] * b[i], 0.0)


def gradient(kernel: dk.Kernel) -> float:
    one = np.ones(1, np.float32)
    a, b = dk.array(one, requires_grad=True), dk.array(np.inf * one)
    y = dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        kernel[1](a, b, dk.array(-one), y)
    tape.backward(grads={y: one})
    return float(a.grad.numpy()[0])


def test_a_product_with_infinity_before_an_untaken_branch_is_as_documented():
    assert gradient(before) == 0.0
    assert gradient(inside) == 0.0
