"""Adjoints accumulate as ``choices.txt`` says: launches, replays of sequences, and calls from JAX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import diffkern as dk
from diffkern.interop.jax import cuda
from diffkern.runtime.launch import partition, schedule
from diffkern.runtime.native import pool
from diffkern.targets.cpu import object_code

from .choice_kernels import CASES
from .choices import CORES, choices
from .golden import check_golden

pytestmark = pytest.mark.skipif(not pool.functions(), reason="there is no native pool: nothing is sorted or replayed")


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Decide for a known number of processors and for several threads, with programs that are not optimised."""
    monkeypatch.setattr(schedule, "processors", lambda: CORES)
    monkeypatch.setattr(object_code, "_run_passes", lambda *args, **options: None)
    monkeypatch.setattr(cuda, "present", lambda: None)  # where JAX has a GPU it is not asked
    cache, threads = dk.config.cache_dir, pool.num_threads()
    dk.config.cache_dir = tmp_path
    pool.set_num_threads(2)
    yield
    pool.set_num_threads(threads)
    dk.config.cache_dir = cache


def test_each_way_shows_what_it_decides(nothing_runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["gathered"]
    (before,) = choices("gathered", case._replace(dims=((30_000,),)))
    monkeypatch.setattr(partition, "_groups", lambda *facts: 1)
    (after,) = choices("gathered", case._replace(dims=((30_001,),)))  # other dimensions, as decisions are remembered
    assert before.endswith("launch private x; replay private x, fused, keeps what it takes; JAX private x")
    assert after.endswith("launch atomic; replay atomic; JAX atomic"), after


def test_choices(nothing_runs: None) -> None:
    lines = [line for name, case in CASES.items() for line in choices(name, case)]
    check_golden("choices", "\n".join(lines) + "\n")
    for way in ("plain", "coloured", "private", "atomic", "sorted", "gathered", "fused", "stores", "keeps"):
        assert any(way in line for line in lines), way
