"""Warnings name the user's line, errors come without our frames, and a closed pipe is no fault."""

import os
import re
import subprocess
import sys
import traceback
import warnings

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda
from diffkern.errors import REPORT
from diffkern.process.tracebacks import place_of, warn

HERE = __file__
ONE_BEFORE_3_11 = int(sys.version_info < (3, 11))
"""Python 3.10 shows the function that was called as well."""


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
        wrong.report,
        lambda: dk.Tape().backward(1.0),
        lambda: dk.launch(right, 4, [X, X], record_cmd=True).set_param_by_name("z", X),
        lambda: dk.launch(right, 4, [X, X], record_cmd=True).set_dim("many"),
        lambda: dk.launch_tiled(right, 4, [X], block_dim=64),
        lambda: dk.kernel(3),
        lambda: dk.kernel(block_dims=64)(right.func),
        lambda: dk.func(3),
        lambda: dk.struct(3),
        lambda: dk.func_grad(3),
        lambda: dk.compile(wrong, target="cpu"),
        lambda: dk.map(3, X),
        lambda: dk.capture_launch(3),
        lambda: dk.jax_kernel(3),
        lambda: wp.kernel(3),
        lambda: wp.func(3),
        lambda: wp.struct(3),
        lambda: wp.launch(wrong, 4, [X]),
        lambda: cuda.jit(3),
        lambda: cuda.jit(wrong.func)[1, 4](X),
        lambda: dk.testing.gradcheck(wrong, 4, [np.ones(4)]),  # of float64
    ],
)
def test_a_traceback_shows_no_frame_of_ours(call, monkeypatch):
    monkeypatch.setattr(dk.config, "full_traceback", False)
    assert ours(frames(call)) <= ONE_BEFORE_3_11
    monkeypatch.setattr(dk.config, "full_traceback", True)
    assert ours(frames(call)) >= 1


def test_what_the_user_handles_stays_and_what_diffkern_handled_goes(monkeypatch):
    monkeypatch.setattr(dk.config, "full_traceback", False)

    def call():
        try:
            X.shape[3]
        except IndexError:
            wrong[4](X)

    with pytest.raises(dk.KernelError) as info:
        call()
    error, seen = info.value, []
    while (error := error.__cause__ or error.__context__) is not None:
        seen.append(type(error))
        assert ours([f.filename for f in traceback.extract_tb(error.__traceback__)]) == 0
    assert seen == [IndexError]


class Odd:
    """Something that a launch asks, and that fails."""

    def __getattr__(self, name):
        raise ZeroDivisionError("of a test")


def test_a_launch_raises_nothing_but_our_errors():
    for call in (
        lambda: right[4](X, Odd()),
        lambda: dk.launch(right, 4, [X, Odd()]),
        lambda: dk.launch(right, Odd(), [X, X]),
    ):
        with pytest.raises(dk.LaunchError, match="right") as info:
            call()
        if info.value.remedy == REPORT:
            assert isinstance(info.value.__cause__, ZeroDivisionError)
            assert info.value.loc.file == HERE


def test_what_nobody_foresaw_is_an_error_of_ours_with_its_cause(monkeypatch):
    def fails(*args):
        raise LookupError("of a test")

    monkeypatch.setattr(sys.modules["diffkern.kernels.kernel"], "resolve_static", fails)
    with pytest.raises(dk.MisuseError, match=r"took right for @dk.kernel \(LookupError: of a test\)") as info:
        dk.kernel(right.func)
    assert info.value.loc == place_of(right.func)
    assert isinstance(info.value.__cause__, LookupError)
    monkeypatch.setattr(sys.modules["diffkern.kernels.kernel"], "resolve_static", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dk.kernel(right.func)


def interrupted(*args):
    raise KeyboardInterrupt


SCRIPT = """
import diffkern as dk
@dk.kernel
def k(x: dk.array(dtype=float)):
    x[dk.tid()] = "a"
def main():
    k[4](dk.zeros(4))
main()
"""


def test_what_the_user_sees_of_an_error_is_their_program_and_the_message(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for shown, least, most in (("0", 0, ONE_BEFORE_3_11), ("1", 2, 100)):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False,
            env={**os.environ, "DIFFKERN_FULL_TRACEBACK": shown},
        )  # fmt: skip
        files = re.findall(r'File "(.*)", line', done.stderr)
        assert files.count(str(script)) == 2
        assert least <= len(files) - 2 <= most, done.stderr
        assert f"{script}:5: " in done.stderr
        assert "Traceback" not in done.stderr[10:], done.stderr


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


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
@pytest.mark.parametrize("arguments", [["demo", "--list"], ["cache", "info"]])
def test_output_that_nobody_reads_at_all_is_no_fault(arguments: list[str]):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "diffkern", *arguments]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
