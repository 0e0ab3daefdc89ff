"""What readers type into the search of the pages leads to the page that answers it, by an entry of the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
DIRECTIVE = re.compile(r"^\.\. index::\n((?:   .+\n)+)", re.MULTILINE)


def found(query: str) -> set[str]:
    """The pages with a main entry of the index that Sphinx's ``searchtools.js`` takes for an answer to a query."""
    return {
        page.stem
        for page in DOCS.glob("*.rst")
        for block in DIRECTIVE.findall(page.read_text(encoding="utf-8"))
        for entry in re.findall(r"! single: (.+)", block)
        if query.lower() in entry.lower() and len(query) >= len(entry) / 2
    }


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("rollout", "roll_outs"),
        ("rollouts", "roll_outs"),
        ("roll-out", "roll_outs"),
        ("checkpoint", "roll_outs"),
        ("gradient checkpointing", "roll_outs"),
        ("out of memory", "roll_outs"),
        ("trajectory", "tapes"),
        ("trajectories", "tapes"),
        ("gradient of nan", "differentiation_kinks"),
        ("nan gradient", "debugging"),
        ("gradient of max", "differentiation_kinks"),
        ("tape memory", "adjoint_memory"),
        ("memory of gradient", "adjoint_memory"),
        ("recomputation", "adjoint_memory"),
        ("second order", "forward_mode"),
        ("causal", "tiles_operations"),
        ("mask", "tiles_operations"),
        ("attention", "tiles_operations"),
        ("softmax", "tiles_operations"),
        ("volume render", "questions"),
        ("transmittance", "questions"),
        ("ray march", "questions"),
    ],
)
def test_a_query_finds_its_page(query, page):
    assert page in found(query)
