"""Code that Python runs while a kernel is compiled: each edit of it is noticed, by every process and within one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import edited_classes
from support.edited_classes import CHOSEN, PAIRS, keys, loaded, programs, wrong

import diffkern
import diffkern as dk
from diffkern.frontend.syntax.frozen import frozen

# Within one process there would be two structs of one name.
NOT_TWICE = {name for name in PAIRS if "struct" in name and "method" in name}


def start(path: Path, constant: str, wanted: str, seed: str = "0", **environment: str) -> tuple[Any, str]:
    """What a process prints, and what it says."""
    packages = str(Path(diffkern.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": packages, "PYTHONHASHSEED": seed, "DIFFKERN_VERBOSE": "1", **environment}
    command = [sys.executable, edited_classes.__file__, str(path), constant, wanted]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_there_are_many() -> None:
    assert len(PAIRS) >= 200
    assert set(CHOSEN) <= set(PAIRS)


def test_every_edit_has_a_key_of_its_own(tmp_path: Path) -> None:
    before, after = (keys(tmp_path / f"edited_{constant}.py", constant) for constant in ("1.0", "2.0"))
    assert [name for name in PAIRS if name not in NOT_TWICE and before[name] == after[name]] == []


@pytest.mark.full
def test_keys_are_those_of_every_process(tmp_path: Path) -> None:
    one, other = (start(tmp_path / f"{seed}.py", "1.0", "keys", seed)[0] for seed in "17")
    assert one == other


@pytest.mark.parametrize("wanted", ["chosen", pytest.param("all", marks=pytest.mark.full)])
def test_edits_between_processes(tmp_path: Path, wanted: str) -> None:
    path, cache = tmp_path / "edited.py", str(tmp_path / "cache")
    for constant, seed, known in (("1.0", "0", False), ("2.0", "1", False), ("1.0", "2", True)):
        (bad, different), said = start(path, constant, wanted, seed, DIFFKERN_CACHE_DIR=cache)
        assert bad == []
        assert said.count("diffkern: compiled") == (0 if known else different)


@pytest.mark.parametrize("names", [CHOSEN, pytest.param(tuple(PAIRS), marks=pytest.mark.full)], ids=["chosen", "all"])
def test_edits_within_a_process(tmp_path: Path, names: tuple[str, ...]) -> None:
    names = tuple(name for name in names if name not in NOT_TWICE)
    for constant in ("1.0", "2.0", "1.0"):
        assert wrong(programs(loaded(tmp_path / f"edited_{constant}.py", names, constant), names)) == []


class Gain:
    w = 2.0


class Loss:
    w = 0.5


PAIR = (Gain, Loss)


@dk.func
def times(c, x: float):
    return c.w * x


@dk.kernel
def weighed(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = times(Gain, x[i]) * x[i]
    for c in PAIR:
        y[i] += c.w


def test_an_attribute_of_a_class_that_has_no_name_in_the_kernel_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = dk.ones(1, dtype=float, requires_grad=True), dk.zeros(1, dtype=float, requires_grad=True)
    weighed[1](x, y)
    assert y.list() == [4.5]
    with dk.Tape() as tape:
        weighed[1](x, y)
    monkeypatch.setattr(Loss, "w", 1.0)
    weighed[1](x, y)
    assert y.list() == [5.0]
    monkeypatch.setattr(Gain, "w", 3.0)
    weighed[1](x, y)
    assert y.list() == [7.0]
    tape.backward(grads={y: np.ones(1, np.float32)})
    assert x.grad.list() == [4.0]


def test_what_is_not_known_any_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed[1](dk.ones(1, dtype=float), dk.zeros(1, dtype=float))
    before = weighed.current()
    assert frozen(weighed.func, weighed._meaning, weighed._reads) is not weighed.func
    monkeypatch.setattr(Gain, "w", 4.0)
    weighed[1](dk.ones(1, dtype=float), dk.zeros(1, dtype=float))
    with pytest.raises(dk.KernelError, match="reads 'w' of Gain by way of a variable, and what it captures has"):
        weighed.function_of(before)
