"""Work on streams changes arrays as work without does: versions rise when it is given, and a tape notices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import diffkern as dk
from tests.unit.runtime.test_records import floats, scale

Work = Callable[[dk.array, dk.array, "dk.Stream | None"], None]


def _record(x: dk.array, other: dk.array, stream: dk.Stream | None) -> None:
    dk.launch(scale, 3, [other, 2.0], [x], record_cmd=True).launch(stream=stream)


def _replay(x: dk.array, other: dk.array, stream: dk.Stream | None) -> None:
    with dk.record(run=False) as sequence:
        dk.launch(scale, 3, [other, 2.0], [x])
    sequence.replay(stream=stream)


GIVEN: dict[str, Work] = {
    "launch": lambda x, other, stream: dk.launch(scale, 3, [other, 2.0], [x], stream=stream),
    "copy": lambda x, other, stream: dk.copy(x, other, stream=stream),
    "record": _record,
    "replay": _replay,
}
CURRENT: dict[str, Callable[[dk.array, dk.array], None]] = {
    **{name: (lambda x, other, work=work: work(x, other, None)) for name, work in GIVEN.items()},
    "fill": lambda x, other: x.fill_(7.0),
    "zero": lambda x, other: x.zero_(),
    "assign": lambda x, other: x.assign(np.full(3, 7.0, np.float32)),
    "assign an array": lambda x, other: x.assign(other),
    "item": lambda x, other: x.__setitem__(slice(0, 2), 7.0),
    "part": lambda x, other: x[1:].fill_(7.0),
}


def _check(work: Callable[[dk.array, dk.array, dk.Stream], None]) -> None:
    stream = dk.Stream()
    x, y, other = floats(1, 2, 3, grad=True), dk.zeros(3, requires_grad=True), floats(7, 8, 9)
    with dk.Tape() as tape:
        dk.launch(scale, 3, [x, 1.0], [y])
    before = x._memory.now
    work(x, other, stream)
    assert x._memory.now != before
    assert other._memory.now == 0
    stream.synchronize()
    with pytest.raises(dk.LaunchError, match="changed outside"):
        tape.backward(grads={y: np.ones(3, np.float32)})


@pytest.mark.parametrize("name", GIVEN)
def test_a_tape_notices_work_given_to_a_stream(name: str) -> None:
    _check(GIVEN[name])


@pytest.mark.parametrize("name", CURRENT)
def test_a_tape_notices_work_on_the_current_stream(name: str) -> None:
    def work(x: dk.array, other: dk.array, stream: dk.Stream) -> None:
        with dk.ScopedStream(stream):
            CURRENT[name](x, other)

    _check(work)


@pytest.mark.parametrize("name", CURRENT)
def test_a_tape_keeps_what_work_on_a_stream_overwrites(name: str) -> None:
    stream = dk.Stream()
    x, y, other = floats(1, 2, 3, grad=True), dk.zeros(3, requires_grad=True), floats(7, 8, 9)
    with dk.ScopedStream(stream), dk.Tape() as tape:
        dk.launch(scale, 3, [x, 1.0], [y])
        if name != "replay":
            CURRENT[name](x, other)
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_allclose(x.grad.numpy(), [2, 4, 6])
