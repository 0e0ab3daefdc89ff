"""Launches that print as native steps of sequences: what is shown, when, and what that must not change."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable

import pytest

import diffkern as dk


@dk.kernel
def talk(x: dk.array(dtype=float), left: dk.array(dtype=int)):
    i = dk.tid()
    x[i] = x[i] + 1.0
    if i == 0:
        left[0] = left[0] - 1
    if x[i] > 2.0:
        print(i, x[i])


class Watched(io.StringIO):
    """A text that does something whenever it is written to."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self.then = then

    def write(self, text: str) -> int:
        count = super().write(text)
        self.then()
        return count


def shown(run: Callable[[], object], to: io.StringIO | None = None) -> str:
    with contextlib.redirect_stdout(to or io.StringIO()) as out:
        run()
    return out.getvalue()


@pytest.fixture(name="talking")
def _talking():
    """A sequence of a launch that prints nothing at first, a fill, and a launch that prints; its array."""
    x, left = dk.zeros(2), dk.zeros(1, dtype=int)
    with dk.record(run=False) as sequence:
        dk.launch(talk, 2, [x, left])
        x.fill_(2.0)
        dk.launch(talk, 2, [x, left])
    return sequence, x


def test_what_several_launches_print_is_in_their_order(talking):
    sequence, _ = talking
    assert all(row["native"] for row in sequence.table())
    assert shown(sequence.replay) == "0 3.0\n1 3.0\n"
    assert shown(sequence.replay) == "0 4.0\n1 4.0\n0 3.0\n1 3.0\n"
    assert shown(lambda: sequence.replay(timed=True)) == "0 4.0\n1 4.0\n0 3.0\n1 3.0\n"
    assert all(row["seconds"] > 0.0 for row in sequence.table())


def test_rounds_of_a_loop_print():
    x, left = dk.zeros(1), dk.full(1, 4, dtype=int)
    with dk.record(run=False) as sequence:
        dk.capture_while(left, lambda: dk.launch(talk, 1, [x, left]))
    assert all(row["native"] for row in sequence.table())
    assert shown(sequence.replay) == "0 3.0\n0 4.0\n"


def test_room_for_texts_can_be_changed_between_replays(talking):
    sequence, _ = talking
    shown(sequence.replay)
    before = dk.config.output_bytes
    try:
        dk.config.output_bytes = 4 * 8
        assert shown(sequence.replay).splitlines()[0::2] == ["0 4.0", "0 3.0"]
        assert shown(sequence.replay).count("did not fit into 32 bytes") == 2
    finally:
        dk.config.output_bytes = before
    assert shown(sequence.replay) == "0 4.0\n1 4.0\n0 3.0\n1 3.0\n"


def test_a_replay_while_another_one_shows_its_texts(talking):
    """It finds the buffer claimed, and has one of its own."""
    sequence, _ = talking
    y, left = dk.full(1, 5.0), dk.zeros(1, dtype=int)
    with dk.record(run=False) as inner:
        dk.launch(talk, 1, [y, left])
    shown(sequence.replay)
    within = io.StringIO()
    assert shown(sequence.replay, Watched(lambda: shown(inner.replay, within))) == "0 4.0\n1 4.0\n0 3.0\n1 3.0\n"
    assert within.getvalue() == "0 6.0\n0 7.0\n"


def test_an_error_of_the_output_ends_the_replay_and_is_all(talking):
    sequence, x = talking

    def fail() -> None:
        raise BrokenPipeError

    shown(sequence.replay)
    with pytest.raises(BrokenPipeError):
        shown(sequence.replay, Watched(fail))
    assert x.list() == [4.0, 4.0]  # the fill has not run
    assert not sequence._program.plan.running
    assert shown(sequence.replay) == "0 5.0\n1 5.0\n0 3.0\n1 3.0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:os.fork")  # JAX warns of it
def test_a_fork_while_texts_are_shown(talking):
    sequence, x = talking
    children = []

    def fork() -> None:
        if not children:
            children.append(os.fork())

    shown(sequence.replay)
    try:
        text = shown(sequence.replay, Watched(fork))
        right = text == "0 4.0\n1 4.0\n0 3.0\n1 3.0\n" and not sequence._program.plan.running
        right = right and shown(sequence.replay) == text and x.list() == [3.0, 3.0]
    finally:
        if children == [0]:
            os._exit(0 if sys.exc_info()[0] is None and right else 1)
    assert right
    assert os.waitpid(children[0], 0)[1] == 0


def test_a_stream_that_changes_the_record_that_runs_is_an_error():
    @dk.kernel
    def tagged(x: dk.array(dtype=float), tag: int):
        print(tag, x[dk.tid()])

    with dk.record(run=False) as sequence:
        dk.launch(tagged, 1, [dk.zeros(1), 1])
    out = Watched(lambda: sequence.set_param("tag", 2))
    with pytest.raises(dk.LaunchError, match="changes a record or a sequence while one runs"):
        shown(sequence.replay, out)
    sequence.set_param("tag", 3)
    assert shown(sequence.replay) == "3 0.0\n"


def test_a_buffer_that_there_is_no_memory_for_leaves_the_one_before(talking):
    sequence, _ = talking
    before = dk.config.output_bytes
    with pytest.raises(MemoryError):
        dk.config.output_bytes = 1 << 62
    assert dk.config.output_bytes == before
    assert shown(sequence.replay) == "0 3.0\n1 3.0\n"


def test_streams_that_fail_and_none_at_all(talking, monkeypatch):
    sequence, x = talking

    class Failing(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("nobody reads")

    for run in (sequence.replay, lambda: dk.launch(talk, 2, [x, dk.zeros(1, dtype=int)])):
        with pytest.raises(BrokenPipeError, match="nobody reads"):
            shown(run, Failing())
    monkeypatch.setattr(sys, "stdout", None)
    sequence.replay()
    dk.launch(talk, 2, [x, dk.zeros(1, dtype=int)])
