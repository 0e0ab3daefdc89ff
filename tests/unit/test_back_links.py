"""Links from the pages of source text: those that lead to an entry stay, others are mended or left out."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "docs" / "_ext" / "back_links.py"
ENTRIES = {("reference/derivatives", "diffkern.Tape"), ("reference/warp", "diffkern.warp.Adam")}


def _mended(page: str, anchor: str) -> str:
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("back_links", PATH)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.mended(_link(page, anchor), ENTRIES)
    return text


def _link(page: str, anchor: str) -> str:
    return f'<a class="viewcode-back" href="../../{page}.html#{anchor}">[docs]</a>'


def test_a_link_that_leads_to_an_entry_stays() -> None:
    assert _mended("reference/derivatives", "diffkern.Tape") == _link("reference/derivatives", "diffkern.Tape")


def test_a_link_under_another_modules_name_is_mended() -> None:
    assert _mended("reference/warp", "diffkern.optim.Adam") == _link("reference/warp", "diffkern.warp.Adam")


def test_a_link_to_nothing_is_left_out() -> None:
    assert _mended("reference/warp", "diffkern.optim.Nothing") == ""
