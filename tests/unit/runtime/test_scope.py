"""Blocks that make something current: in native code from the first one on, and in Python where there is none."""

import contextlib
import subprocess
import sys

import pytest

import diffkern as dk
from diffkern.runtime.memory import scope
from diffkern.runtime.memory.state import current
from diffkern.runtime.native.slow_path import slow_path_flags

PROGRAM = """
import contextlib
import diffkern as dk
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.state import current
from diffkern.runtime.native.slow_path import slow_path_flags

tape, stream = dk.Tape(), dk.Stream()
with contextlib.ExitStack() as stack:
    assert stack.enter_context(tape) is tape
    assert current.tape is tape and slow_path_flags.word[0] != 0
    with dk.ScopedStream(stream) as inner:
        assert inner is stream is dk.get_stream()
assert current.tape is current.stream is None and slow_path_flags.word[0] == 0
for name in ("__enter__", "__exit__"):
    assert type(vars(Scope)[name]).__name__ == "method_descriptor"
"""


def test_the_first_block_of_a_process():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["native", "python"])
def either_way(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(scope.pool, "functions", dict)
        monkeypatch.setattr(scope, "_native_put", None)
        monkeypatch.setattr(scope.Scope, "__enter__", scope._First("__enter__", scope._enter))
        monkeypatch.setattr(scope.Scope, "__exit__", scope._First("__exit__", scope._leave))


@pytest.mark.usefixtures("either_way")
class TestBlocks:
    def test_nested(self):
        tape, first, second = dk.Tape(), dk.Stream(), dk.Stream()
        again = dk.ScopedStream(first)
        with tape as entered, again, dk.ScopedStream(second), again:
            assert current.tape is entered is tape
            assert current.stream is first
            assert slow_path_flags.word[0] == 2
        assert current.tape is current.stream is None
        assert slow_path_flags.word[0] == 0

    def test_errors_pass(self):
        tape = dk.Tape()
        with pytest.raises(ZeroDivisionError), tape:
            1 / 0
        with pytest.raises(RuntimeError, match="recording already"), tape, dk.Tape():
            pass
        assert current.tape is None
        assert slow_path_flags.word[0] == 0

    def test_put(self):
        stream = dk.Stream()
        dk.set_stream(stream)
        assert dk.get_stream() is stream
        with dk.ScopedStream(None), contextlib.ExitStack() as stack:
            stack.enter_context(dk.ScopedStream(dk.Stream()))
            assert slow_path_flags.word[0] == 1
        assert dk.get_stream() is stream
        scope.put("stream", None)
        assert slow_path_flags.word[0] == 0

    def test_methods_of_the_class(self):
        tape = dk.Tape()
        assert dk.Tape.__enter__(tape) is tape is current.tape
        dk.Tape.__exit__(tape, None, None, None)
        assert current.tape is None
