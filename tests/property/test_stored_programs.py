"""Random stores through tables and computed indices: each gradient is right or refused, and refused for a reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.seeds import run_seed
from support.stored_programs import checked, made

SAMPLE, ALL, AT_ONCE = 10, 300, 20


def compared(first: int, count: int, folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for begin in range(first, first + count, AT_ONCE):
        programs = [made(seed) for seed in range(begin, min(begin + AT_ONCE, first + count))]
        for program, verdict in checked(programs, folder):
            assert verdict in ("right", "refused"), f"seed {program.seed}: {verdict}\n{program.text}"
            found[verdict] += 1
    return found


def test_a_sample(tmp_path: Path) -> None:
    assert min(compared(run_seed() % 10**6, SAMPLE, tmp_path).values()) > 1


@pytest.mark.full
def test_many(tmp_path: Path) -> None:
    assert min(compared(run_seed() % 10**6, ALL, tmp_path).values()) > ALL // 5
