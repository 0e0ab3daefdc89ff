"""Random kernels that scatter by arrays of indices: sums by sorted destinations are those of the plain program."""

from __future__ import annotations

import random
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from support.fuzz import load_module
from support.seeds import run_seed

import diffkern as dk
from diffkern.runtime.accumulate import sorting
from diffkern.runtime.launch import partition, schedule

PROGRAMS = 8
N, COUNT = 777, 150
ELEMENTS = {"{f}": (), "dk.vec3{d}": (3,), "dk.vec2{d}": (2,), "dk.mat22{d}": (2, 2)}
SCALARS = {"{f}": "{v}", "dk.vec3{d}": "dk.dot({v}, {v})", "dk.vec2{d}": "{v}[0] * {v}[1]", "dk.mat22{d}": "{v}[1, 0]"}
INDICES = ("int", "dk.int64", "dk.uint16")
PLACES = ("a[t]", "a[t + 1]", "a[2 * t]", "a[5]", "t", "b[t, 0]", "b[t, 1]", "b[t, -1]", "b[t + 1, 2]", "b[3, 1]")
OTHERS = ("a[t] // 2", "a[t % 7]", "dk.max(a[t], 3)")  # which are not sorted


class Program:
    """A kernel, and what it is launched with."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.double = rng.random() < 0.5
        names = {"f": "dk.float64" if self.double else "dk.float32", "d": "d" if self.double else ""}
        self.elements = [rng.choice([*ELEMENTS]) for _ in range(rng.randint(1, 3))]
        self.indices = rng.choice(INDICES), rng.choice(INDICES)
        self.lanes = rng.choice((None, True))
        self.is_plain = rng.random() < 0.8
        text = [f"x{k}: dk.array(dtype={e.format(**names)})" for k, e in enumerate(self.elements)]
        text += [f"a: dk.array(dtype={self.indices[0]})", f"b: dk.array2d(dtype={self.indices[1]})"]
        lines = [
            f"@dk.kernel(lanes={self.lanes})",
            f"def scatter({', '.join(text)}, out: dk.array(dtype={names['f']})):",
        ]
        lines += ["    t = dk.tid()", f"    s = {names['f']}(1.0)"]
        for k, element in enumerate(self.elements):
            for j, place in enumerate(rng.sample(PLACES[:4], 1) + rng.sample(PLACES, rng.randint(0, 3))):
                chosen = place if self.is_plain or j else rng.choice(OTHERS)
                value = SCALARS[element].format(v=f"x{k}[{chosen}]")
                lines.append(f"    s = s * {names['f']}(0.5) + s * {value}" if j % 2 else f"    s += {value}")
        self.text = "\n".join(["import diffkern as dk", "", "", *lines, "    out[t] = s * s", ""])

    def arguments(self) -> list[dk.array]:
        """New arrays, the same each time."""
        rng, real = np.random.default_rng(5), np.float64 if self.double else np.float32
        made = []
        for element in self.elements:
            data = rng.uniform(0.2, 0.8, (COUNT + N * (element == "{f}"), *ELEMENTS[element])).astype(real)
            name = element.format(f="float64" if self.double else "float32", d="d" if self.double else "")
            dtype = getattr(dk, name.removeprefix("dk."))
            made.append(dk.array(np.resize(data, (N + COUNT, *ELEMENTS[element])), dtype=dtype, requires_grad=True))
        for name, shape in zip(self.indices, ((2 * N,), (N + 1, 3)), strict=True):
            t = {"int": np.int32, "dk.int64": np.int64, "dk.uint16": np.uint16}[name]
            made.append(dk.array(rng.integers(0 if t is np.uint16 else -COUNT, COUNT, shape).astype(t)))
        return [*made, dk.zeros(N, dtype=real, requires_grad=True)]


def gradients(kernel: dk.Kernel, made: list[dk.array]) -> list[np.ndarray]:
    active = [a for a in made[:-1] if a.grad is not None]
    for a in active:
        a.grad.zero_()
    with dk.Tape() as tape:
        dk.launch(kernel, dim=N, inputs=made)
    tape.backward(grads={made[-1]: dk.ones(N, dtype=made[-1].dtype)})
    return [a.grad.numpy().copy() for a in active]


@pytest.fixture
def threads():
    before = dk.config.num_threads
    dk.config.num_threads = 2
    yield
    dk.config.num_threads = before


@pytest.mark.usefixtures("threads")
def test_sorted_sums_are_those_of_the_plain_program(tmp_path: Path) -> None:
    ran: list[bool] = []
    run = sorting.Sorting.run

    def noted(self, pack):
        ran.append(run(self, pack))
        return ran[-1]

    first = run_seed()
    for seed in range(first, first + PROGRAMS):
        program = Program(seed)
        kernel = load_module(program.text, str(tmp_path)).scatter
        expected = gradients(kernel, program.arguments())
        for x in kernel._current.adjoints.values():
            x.accumulations.clear()
        with (
            mock.patch.object(partition, "_groups", return_value=1),
            mock.patch.object(schedule, "_CHUNK_WORK", 100.0),
            mock.patch.object(sorting, "_FEWEST", 1),
            mock.patch.object(sorting.Sorting, "run", noted),
        ):
            made = program.arguments()
            for _ in range(3):
                found = gradients(kernel, made)
                for a, b in zip(found, expected, strict=True):
                    rtol = 1e-10 if program.double else 1e-3
                    np.testing.assert_allclose(a, b, rtol, rtol * np.abs(b).max(), err_msg=f"{seed}\n{program.text}")
    assert ran.count(True) >= PROGRAMS / 2
