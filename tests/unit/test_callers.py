"""Warnings name the user's line, errors come without our frames, and a closed pipe is no fault."""

import os
import subprocess
import sys
import traceback
import warnings

import numpy as np
import pytest

import diffkern as dk
from diffkern.callers import warn

HERE = __file__


@dk.kernel
def wrong(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = [1.0]


@dk.kernel
def right(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


def frames(call) -> list[str]:
    """Return the files of the frames that a traceback shows below the call."""
    with pytest.raises(dk.KernelError) as info:
        call()
    return [frame.filename for frame in traceback.extract_tb(info.value.__traceback__)]


def ours(files: list[str]) -> int:
    return sum("/diffkern/" in file.replace("\\", "/") for file in files)


X = dk.zeros(4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: wrong[4](X),
        lambda: dk.launch(wrong, 4, [X]),
        lambda: dk.launch(wrong, 4, [X], record_cmd=True),
        lambda: right[4](X, 1.0),
        lambda: dk.launch(right, 4, [X]),
        wrong.source,
        wrong.ir,
        wrong.adjoint_source,
        wrong.adjoint_report,
        lambda: dk.Tape().backward(1.0),
        lambda: dk.testing.gradcheck(wrong, 4, [np.ones(4)]),  # of float64
    ],
)
def test_a_traceback_shows_at_most_one_frame_of_ours(call, monkeypatch):
    monkeypatch.delenv("DIFFKERN_FULL_TRACEBACK", raising=False)
    assert ours(frames(call)) == 1
    monkeypatch.setenv("DIFFKERN_FULL_TRACEBACK", "1")
    assert ours(frames(call)) > 1


def test_a_warning_names_the_line_of_the_user(tmp_path, monkeypatch):
    file = tmp_path / "not-a-directory"
    file.write_text("")
    monkeypatch.setattr(dk.config, "cache_dir", file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @dk.kernel
        def fresh(x: dk.array(dtype=float)):
            x[dk.tid()] = 41.5

        fresh[4](X)
    assert [w.filename for w in caught] == [HERE]


def test_a_warning_of_a_module_of_nobody_names_what_warns():
    with pytest.warns(UserWarning, match="of a test") as caught:
        warn("of a test", UserWarning)
    assert caught[0].filename == HERE


def test_the_number_of_threads_is_complained_about_in_the_line_that_launches(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import diffkern as dk\n@dk.kernel\ndef k(x: dk.array(dtype=float)):\n    x[dk.tid()] = 1.0\n"
        "x = dk.zeros(4)\nk[4](x)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True,
        env={**os.environ, "DIFFKERN_NUM_THREADS": "many"},
    )  # fmt: skip
    assert f"{script}:6: RuntimeWarning" in done.stderr, done.stderr


def test_output_that_nobody_reads_on_is_no_fault():
    code = (
        "import sys, diffkern.cli.cache as cache\n"
        "from diffkern.cli import command\n"
        "def many(options):\n    for _ in range(100_000): print('artifact')\n"
        "cache._list = many\n"
        "sys.exit(command.main(['cache', 'list']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141
