"""What programs do to arrays, in order, is as ``traces`` has it; and the trace tells programs apart."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_driver.driver import fake_cuda
from support.traces import operations_of_package, traced

import diffkern as dk
from diffkern.runtime.arrays.operation import Operation
from diffkern.runtime.native import pool
from diffkern.runtime.native.slow_path import slow_path_flags

from .golden import ROOT, check_golden
from .traced import devices, functions, kernels, objects, records, rollouts, streams, tapes

MODULES = (tapes, functions, rollouts, objects, records, streams, devices)
TRACES = ROOT / "traces"
PROGRAMS = {
    f"{module.__name__.rpartition('.')[2]}_{name}": f for module in MODULES for name, f in module.PROGRAMS.items()
}


@pytest.fixture(scope="module")
def devices_of_all() -> Iterator[None]:
    """Two fake GPUs, once for all programs: programs are loaded anew by each driver."""
    with fake_cuda(devices=2):
        yield


@pytest.mark.skipif(not pool.functions(), reason="there is no native pool: replays do one step after the other")
@pytest.mark.parametrize("name", PROGRAMS)
def test_trace(name: str, request: pytest.FixtureRequest) -> None:
    if name.startswith("devices_"):
        request.getfixturevalue("devices_of_all")
    with traced() as trace:
        PROGRAMS[name](trace)
        text = trace.text
    check_golden(f"traces/{name}", text)


KINDS = {
    "_Application": r"custom [\w.]+ +reads",
    "_HostStep": r"the symmetry of dk\.linear_solve +reads",
    "AdjointLaunch": r"adjoint of \w",
    "CheckedCall": r"call \w",
    "Add": r"add( on cuda:0)? +reads",
    "FunctionCall": r"call \w",
    "Assign": r"fill( on cuda:0)? +writes",
    "Conditional": r"(while|if)( on cuda:0)?( \(captured\))? +reads",
    "Copy": r"copy( on cuda:0)? +reads",
    "Count": r"count for \w+ +reads",
    "CompiledLaunch": r"launch square on cuda:0 +reads",
    "PackedLaunch": r"launch square +reads",
}
"""What lines of each kind of operation look like."""

OTHERS = (
    r"call \w", r"replay of a sequence$", r"the sweep again$", r"launch a graph of .* on stream \d", r".*\(folded\)$",
    r"stream 2: wait for event 1$", r".*x\[\d+:\d+\]",
)  # fmt: skip


def have_a_test_of_their_own(kinds: Iterable[type[Operation]]) -> bool:
    """Return whether there is a test for each that traces it: with its label, or its name if it has several labels."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.parent.rglob("test_*.py") if path != Path(__file__)]
    told = [label if isinstance(label := kind.label, str) else kind.__name__ for kind in kinds]
    return all(any("import traced" in text and words in text for text in texts) for words in told)


def test_each_kind_of_operation_is_in_a_trace() -> None:
    found = operations_of_package()
    assert not {*KINDS} - {*found}
    others = [kind for name, kind in found.items() if name not in KINDS]
    assert have_a_test_of_their_own(others), f"trace {others} in tests of their own, or add programs that do them"
    lines = {line.strip() for file in TRACES.glob("*.txt") for line in file.read_text(encoding="utf-8").splitlines()}
    missing = [like for like in (*KINDS.values(), *OTHERS) if not any(re.match(like, line) for line in lines)]
    assert not missing


def test_every_trace_has_a_program() -> None:
    assert {file.stem for file in TRACES.glob("*.txt")} == {*PROGRAMS}


def of(program: Callable[[Any, Any], None]) -> list[str]:
    """The lines of a program of two arrays, without the columns."""
    x, y = dk.ones(4), dk.zeros(4)
    with traced() as trace:
        trace.arrays(x=x, y=y)
        program(x, y)
        return [" ".join(line.split()) for line in trace.text.splitlines()]


def test_a_trace_tells_order_arrays_and_bytes() -> None:
    def forwards(x: Any, y: Any) -> None:
        dk.copy(x, y)
        y[1:3].fill_(2.0)

    def backwards(x: Any, y: Any) -> None:
        y[1:3].fill_(2.0)
        dk.copy(x, y)

    copied, filled = "copy reads y writes x", "fill writes y[4:12]"
    assert of(forwards) == [copied, filled]
    assert of(backwards) == [filled, copied]
    assert of(lambda x, y: dk.copy(y, dk.clone(x[:2]), count=2)) == [
        "copy reads x[0:8] writes t1", "copy reads t1 writes y[0:8]",
    ]  # fmt: skip


def test_nothing_is_traced_behind_the_block() -> None:
    x = dk.ones(4)
    with traced() as trace:
        x.fill_(2.0)
    before = trace.text
    x.fill_(3.0)
    kernels.square[4](x, x, 1.0)
    assert trace.text == before
    assert not slow_path_flags.word[0]


def test_work_of_a_stream_stands_where_the_stream_was_given_it() -> None:
    def program(x: Any, y: Any) -> None:
        stream, go_on = dk.Stream("cpu"), threading.Event()
        stream.enqueue(go_on.wait)
        dk.copy(x, y, stream=stream)
        event = stream.record_event()
        go_on.set()
        event.synchronize()
        y.fill_(1.0)

    assert of(program) == [
        "stream 1:", "stream 1:", "copy reads y writes x", "stream 1: record event 1", "fill writes y",
    ]  # fmt: skip
