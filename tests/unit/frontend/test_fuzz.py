"""Random programs: the lowered IR does what Python does, bit by bit."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.seeds import run_seed

import diffkern as dk

from .fuzz import write_program
from .hostrun import assert_same


def compiled(source: str, name: str) -> Callable[..., Any]:
    """The function ``kernel`` of a source text that inspect can find."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"dk": dk}
    exec(compile(source, name, "exec"), namespace)
    return namespace["kernel"]


@pytest.mark.parametrize("block", range(10))
def test_random_programs_do_what_python_does(block: int) -> None:
    first = run_seed() * 400 + block * 40
    generator = np.random.default_rng(first)
    for seed in range(first, first + 40):
        source = write_program(seed)
        kernel = compiled(source, f"<random kernel {seed}>")
        x, y = generator.normal(size=6), generator.normal(size=6)
        try:
            with np.errstate(all="ignore"):  # products may grow until they overflow, on both sides alike
                assert_same(kernel, [x, y, 3])
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{source}") from error
