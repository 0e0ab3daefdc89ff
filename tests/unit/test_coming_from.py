"""The pages for those who come from another tool: its program and ours agree, and what is said of ours is so."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.stem.removeprefix("coming_from_") for path in DOCS.glob("coming_from_*.rst"))
BLOCK = re.compile(r"^\.\. code-block:: python\n(   :class: theirs\n)?\n((?:(?: +.*)?\n)+)", re.MULTILINE)
MODULES = {"warp": "warp", "numba": "numba", "jax": "jax", "taichi": "taichi", "pytorch": "torch"}
LEAST_WORDS, MOST_WORDS = 300, 900
# What names of instances in the tables are.
OWNERS: dict[str, Any] = {"tape": dk.Tape, "x": dk.array, "y": dk.array, "kernel": dk.Kernel}


def text_of(page: str) -> str:
    return (DOCS / f"coming_from_{page}.rst").read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[tuple[bool, str]]:
    """The programs of a page, each with whether it is the other tool's."""
    for theirs, code in BLOCK.findall(text_of(page)):
        yield bool(theirs), textwrap.dedent(code)


def run(page: str, code: str, names: dict[str, Any], folder: Path) -> str:
    """Run a program, of which a kernel's text has to be in a file; return what it prints."""
    path = folder / f"{page}_{len(list(folder.iterdir()))}.py"
    path.write_text(code, encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(path), "exec"), names)
    return printed.getvalue()


def in_numpy() -> dict[str, Any]:
    """What the programs compute, written for NumPy: Newton's and the chain rule by hand."""
    return {"warp": thrown(), "numba": heated(), "jax": recurred(), "taichi": swung(), "pytorch": relaxed()}


def thrown() -> Any:
    # The end is x + n dt v plus what gravity adds, whatever the velocity is.
    v, n, dt = np.array([[1.0, 5, 0], [2, 4, 0]]), 30, 0.02
    end = n * dt * v + np.array([0.0, -9.81, 0.0]) * dt**2 * n * (n + 1) / 2
    return 2.0 * (end - np.array([3.0, 0.0, 0.0])) * n * dt


def heated() -> Any:
    t = np.zeros((40, 30))
    t[10:20, 10:20] = 1.0
    for _ in range(50):
        inner = t[1:-1, 1:-1]
        around = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]
        t[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
    return t


def recurred() -> Any:
    x, slope = np.linspace(0.1, 0.9, 5), np.ones(5)
    for _ in range(7):
        x, slope = 3.2 * x * (1.0 - x), slope * 3.2 * (1.0 - 2.0 * x)
    return slope


def swung() -> Any:
    # A step is linear in positions and velocities, so its transpose carries the gradient back.
    n, k, dt = 20, 10.0, 0.02
    forces = np.diag(np.full(n, -2.0)) + np.eye(n, k=1) + np.eye(n, k=-1)
    forces[0, 0] = forces[-1, -1] = -1.0
    pull = dt * k * forces
    step = np.block([[np.eye(n) + dt * pull, dt * np.eye(n)], [pull, np.eye(n)]])
    many = np.linalg.matrix_power(step, 50)
    start = np.concatenate([np.sin(np.linspace(0.0, 3.0, n)), np.zeros(n)])
    return (many.T @ np.concatenate([2.0 * (many @ start)[:n], np.zeros(n)]))[:n]


def relaxed() -> Any:
    p, edges = np.array([[0.0, 0, 0], [2, 0, 0], [0, 3, 1]]), [(0, 1), (1, 2), (2, 0)]
    for _ in range(20):
        slope = np.zeros_like(p)
        for a, b in edges:
            d = p[a] - p[b]
            length = np.linalg.norm(d)
            slope[a] += 2.0 * (length - 1.0) * d / length
            slope[b] -= 2.0 * (length - 1.0) * d / length
        p = p - 0.1 * slope
    return p


@pytest.mark.parametrize("page", PAGES)
def test_our_program_and_what_surprises(page: str, tmp_path: Path) -> None:
    ours = [code for theirs, code in blocks(page) if not theirs]
    names: dict[str, Any] = {"__name__": f"coming_from_{page}"}
    run(page, ours[0], names, tmp_path)
    np.testing.assert_allclose(names["result"], in_numpy()[page], rtol=1e-4, atol=1e-5)
    assert len(ours) >= 4  # the program, and an example of each of three surprises
    for code in ours[1:]:
        shown = " ".join(re.findall(r"print\(.*?# (.*)$", code, re.MULTILINE))
        assert run(page, code, names, tmp_path).split() == shown.split()


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES)
def test_their_program(page: str, tmp_path: Path) -> None:
    pytest.importorskip(MODULES[page])
    (theirs,) = [code for theirs, code in blocks(page) if theirs]
    names: dict[str, Any] = {"__name__": f"coming_from_{page}_theirs"}
    run(page, theirs, names, tmp_path)
    np.testing.assert_allclose(names["result"], in_numpy()[page], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("page", PAGES)
def test_names_in_the_table(page: str) -> None:
    table = text_of(page).partition("Names\n-----")[2]
    right = re.findall(r"^     - (.*)$", table, re.MULTILINE)[1:]
    assert len(right) >= 12
    for cell in right:
        for path in re.findall(r"(?<![\w.])((?:dk|tape|x|y|kernel)(?:\.[a-z]\w*)+)", cell, re.IGNORECASE):
            owner, *parts = path.split(".")
            found = dk if owner == "dk" else OWNERS[owner]
            for part in parts:
                if found is dk and part == "testing":
                    found = importlib.import_module("diffkern.testing")
                else:
                    found = getattr(found, part)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_at_once(page: str) -> None:
    assert LEAST_WORDS < len(text_of(page).split()) <= MOST_WORDS
