"""The page on the memory of adjoints: loops that it calls accepted and refused are, for the reasons that it gives."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import diffkern as dk

PAGE = (Path(__file__).parents[2] / "docs" / "adjoint_memory.rst").read_text(encoding="utf-8")
(HEAD,) = (textwrap.dedent(text) for text in re.findall(r"   @dk\.kernel\n   def loop.*\n +i = dk\.tid\(\)\n", PAGE))
ROW = re.compile(r"^   \* - ::\n\n((?: {10}.*\n)+)     - (.*)\n", re.MULTILINE)


def rows(label: str) -> list[tuple[str, str]]:
    """The loops below a label, each with the last quoted words of its cell."""
    below = PAGE.partition(f".. _{label}:\n")[2].partition("\n.. _")[0]
    return [(textwrap.dedent(loop), re.findall("``(.+?)``", cell)[-1]) for loop, cell in ROW.findall(below)]


ACCEPTED, REFUSED = rows("accepted-loops"), rows("refused-loops")


def kernel_of(loop: str, tmp_path: Path) -> dk.Kernel:
    path, space = tmp_path / "kernel_of_page.py", {"dk": dk, "__name__": "kernel_of_page"}
    path.write_text(HEAD + textwrap.indent(loop, "    "), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), path, "exec", dont_inherit=True), space)
    return space["loop"]


def test_the_page_has_loops():
    assert len(ACCEPTED) == PAGE.count("   * - ::") - len(REFUSED)
    assert len(ACCEPTED) > 10
    assert len(REFUSED) > 6


@pytest.mark.parametrize(("loop", "said"), ACCEPTED)
def test_a_loop_is_accepted(loop, said, tmp_path):
    assert said in kernel_of(loop, tmp_path).adjoint_report()


def differentiate(kernel: dk.Kernel) -> None:
    """Compile the adjoint, and run it if it has one."""
    kernel.adjoint_report()
    x, y = dk.ones(4, requires_grad=True), dk.zeros(4, requires_grad=True)
    t, k = dk.ones((4, 4), dtype=float, requires_grad=True), dk.zeros(4, dtype=int)
    with dk.Tape() as tape:
        kernel[4](x, t, k, y, 4)
    tape.backward(grads={t: dk.ones((4, 4), dtype=float), y: dk.ones(4)})


@pytest.mark.parametrize(("loop", "said"), REFUSED)
def test_a_loop_is_refused(loop, said, tmp_path):
    kernel = kernel_of(loop, tmp_path)
    with pytest.raises(dk.AutodiffError) as error:
        differentiate(kernel)
    assert said in str(error.value)
