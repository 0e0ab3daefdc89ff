"""The ``diffkern`` command, run in this process."""

from __future__ import annotations

import subprocess
import sys

import pytest

import diffkern as dk
from diffkern.cli import command as cli

MODEL = """\
import diffkern as dk
from neighbour import FACTOR

@dk.kernel
def scale(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = FACTOR * x[i]

@dk.kernel
def smooth(x, y, a):
    i = dk.tid()
    y[i] = a * x[i]

number = 3
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "neighbour.py").write_text("FACTOR = 2.0\n")
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def refused(capsys, *argv):
    """Run a command that must fail with status 2 and one message, and return that message."""
    assert cli.main([str(arg) for arg in argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("diffkern: error: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"diffkern {dk.__version__}\n"


def test_no_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_inspect_forward(capsys, model):
    assert cli.main(["inspect", f"{model}:scale"]) == 0
    out = capsys.readouterr().out
    assert "scale" in out
    compile(out, "<generated>", "exec")


def test_inspect_adjoint(capsys, model):
    assert cli.main(["inspect", f"{model}:scale", "--adjoint"]) == 0
    out = capsys.readouterr().out
    assert "ct_x" in out
    compile(out, "<generated>", "exec")


def test_inspect_ir(capsys, model):
    assert cli.main(["inspect", f"{model}:scale", "--ir"]) == 0
    assert "store" in capsys.readouterr().out


def listed(capsys, *argv):
    """Names and stages of the passes that a kernel goes through."""
    assert cli.main(["inspect", *argv, "--passes"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert all(int(count) > 0 for _, _, count, _ in rows)
    return [(name, stage) for name, stage, _, _ in rows]


def test_passes_are_listed(capsys, model):
    forward = listed(capsys, f"{model}:scale")
    assert forward[0] == ("lower", "written")
    assert forward[-1] == ("as-written", "cpu")
    adjoint = listed(capsys, f"{model}:scale", "--adjoint", "--target", "sm_90")
    assert {("sink", "normal"), ("reverse", "adjoint"), ("accumulations", "program")} <= set(adjoint)
    assert adjoint[-1][1] == "cuda"
    assert len({name for name, _ in adjoint}) == len(adjoint)


def test_inspect_after_a_pass(capsys, model):
    texts = {}
    for name in ("lower", "reverse", "dce:2"):
        assert cli.main(["inspect", f"{model}:scale", "--adjoint", "--after", name]) == 0
        texts[name] = capsys.readouterr().out
    assert "ct_" in texts["reverse"]
    assert "ct_" not in texts["lower"] + texts["dce:2"]


def test_inspect_after_a_pass_of_a_kernel_that_is_refused_later(capsys, tmp_path):
    path = tmp_path / "refused.py"
    path.write_text(
        "import diffkern as dk\n\n\n@dk.kernel\ndef f(x: dk.array(dtype=float)):\n"
        "    i = dk.tid()\n    x[i] = x[i + 1] * x[i]\n"
    )
    refused(capsys, "inspect", f"{path}:f", "--adjoint", "--passes")
    assert cli.main(["inspect", f"{path}:f", "--adjoint", "--after", "sink"]) == 0
    assert "store" in capsys.readouterr().out


def test_inspect_after_an_unknown_pass(capsys, model):
    message = refused(capsys, "inspect", f"{model}:scale", "--after", "flod")
    assert "goes through no pass 'flod'; those it goes through are lower, thread-arrays, barriers, updates" in message


@pytest.mark.parametrize(
    "types",
    [
        ["array1d(float32)", "array1d(float32)", "float32"],
        ["a=float", "x=array(float, ndim=1)", "y=array(dtype=dk.float32)"],
    ],
)
def test_inspect_with_types(capsys, model, types):
    assert cli.main(["inspect", f"{model}:smooth", "--types", *types]) == 0
    assert "smooth" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["float32"], "no type for y, a"),
        (["q=float32"], "no parameter 'q'"),
        (["x=float32", "x=float32"], "two types"),
        (["float32"] * 4, "4 types for the 3 parameters"),
        (["x=flot32"], "no type 'flot32'"),
        (["x=__import__('os')"], "is not a type"),
        (["x=1 +"], "is not a type"),
    ],
)
def test_inspect_refuses_wrong_types(capsys, model, types, expected):
    assert expected in refused(capsys, "inspect", f"{model}:smooth", "--types", *types)


def test_inspect_without_types_for_a_kernel_that_needs_them(capsys, model):
    refused(capsys, "inspect", f"{model}:smooth")


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        ("", "does not name a kernel"),
        (":nothing", "has no kernel 'nothing'; its kernels are scale, smooth"),
        (":number", "'number' in"),
    ],
)
def test_inspect_refuses_wrong_targets(capsys, model, suffix, expected):
    assert expected in refused(capsys, "inspect", f"{model}{suffix}")


def test_inspect_of_a_missing_file(capsys, tmp_path):
    assert "there is no file" in refused(capsys, "inspect", f"{tmp_path / 'absent.py'}:f")


def test_inspect_of_a_file_that_fails(capsys, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    assert "ZeroDivisionError" in refused(capsys, "inspect", f"{path}:f")


def test_kernel_errors_are_shown_with_their_line(capsys, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(
        "import diffkern as dk\n\n@dk.kernel\ndef f(x: dk.array(dtype=float)):\n    x[0] = [1.0 for i in range(3)]\n"
    )
    message = refused(capsys, "inspect", f"{path}:f")
    assert "wrong.py:5" in message
    assert "^" in message


def test_cache_info_and_clear(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path))
    assert cli.main(["cache", "info"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    assert cli.main(["cache", "clear"]) == 0
    assert "removed 0" in capsys.readouterr().out


@pytest.fixture
def filled(capsys, model, tmp_path, monkeypatch):
    """A cache with the forward and the adjoint of one kernel, and of its changed form."""
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path / "cache"))
    argv = ["compile", str(model), "--programs", "least", "--out", str(tmp_path / "cache")]
    assert cli.main(argv) == 0
    (tmp_path / "neighbour.py").write_text("FACTOR = 2.5\n")
    monkeypatch.delitem(sys.modules, "neighbour")
    assert cli.main([*argv, "--kernel", "scale"]) == 0
    monkeypatch.delitem(sys.modules, "neighbour")
    out = capsys.readouterr().out
    assert "left out, because parameters without annotations have no known types: smooth" in out
    assert "compiled 2 programs of 1 kernel for native" in out
    return tmp_path / "cache"


def printed(capsys, *argv):
    assert cli.main(list(argv)) == 0
    return capsys.readouterr().out


def test_cache_list_and_why(capsys, filled):
    lines = printed(capsys, "cache", "list").splitlines()
    assert len(lines) == 4
    keys = [line.split()[0] for line in lines if "forward of scale" in line]
    for out in (printed(capsys, "cache", "why", *keys), printed(capsys, "cache", "why", keys[0])):
        assert "captured 0 FACTOR:" in out
        assert "f64:2.0" in out
        assert "f64:2.5" in out
    assert "captured 0 dk.tid: builtin:tid" in out
    assert "no artifact's key begins with 0zz" in refused(capsys, "cache", "why", "0zz")
    assert "one key or two" in refused(capsys, "cache", "why", *keys, keys[0])


def test_cache_export_import_and_prune(capsys, filled, tmp_path, monkeypatch):
    assert "copied 4" in printed(capsys, "cache", "export", str(tmp_path / "shipped"))
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path / "other"))
    assert "copied 4" in printed(capsys, "cache", "import", str(tmp_path / "shipped"))
    assert "removed 0" in printed(capsys, "cache", "prune", "--age", "1d", "--size", "1GB")
    assert "removed 4" in printed(capsys, "cache", "prune", "--size", "0")
    assert "there is no directory" in refused(capsys, "cache", "import", str(tmp_path / "absent"))
    assert "give --size 500MB, --age 30d, or both" in refused(capsys, "cache", "prune")
    assert "write one like 30d" in refused(capsys, "cache", "prune", "--age", "long")
    assert "write one like 500MB" in refused(capsys, "cache", "prune", "--size", "5 apples")


def test_compile_refuses_what_it_cannot_do(capsys, model, tmp_path):
    out = str(tmp_path / "out")
    assert "no target" in refused(capsys, "compile", model, "--target", "z80", "--out", out)
    assert "has no kernel 'absent'" in refused(capsys, "compile", model, "--kernel", "absent", "--out", out)
    (tmp_path / "empty.py").write_text("")
    assert "has no kernel whose" in refused(capsys, "compile", tmp_path / "empty.py", "--out", out)


def test_compile_for_chosen_parameters(capsys, tmp_path, monkeypatch):
    path = tmp_path / "chosen.py"
    path.write_text(
        "import diffkern as dk\n\n\n@dk.kernel\n"
        "def scale(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):\n"
        "    i = dk.tid()\n    y[i] = a * x[i]\n\n\n@dk.kernel\n"
        "def fill(y: dk.array(dtype=float)):\n    y[dk.tid()] = 1.0\n"
    )
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path / "cache"))
    out = ["--out", str(tmp_path / "cache")]
    assert "compiled 6 programs" in printed(capsys, "compile", str(path), "--active", "a, y", *out)
    listed = printed(capsys, "cache", "list")
    assert "adjoint of scale" in listed
    key = next(line.split()[0] for line in listed.splitlines() if "adjoint of scale" in line)
    assert "adjoint [1, 2] plain" in printed(capsys, "cache", "why", key)
    assert "no kernel has a parameter 'q'" in refused(capsys, "compile", path, "--active", "q", *out)


def test_runs_as_a_module():
    out = subprocess.run([sys.executable, "-m", "diffkern", "--version"], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("diffkern ")


@pytest.mark.parametrize(("count", "text"), [(0, "0 artifacts"), (1, "1 artifact"), (2, "2 artifacts")])
def test_one_artifact_is_no_plural(count, text):
    from diffkern.cli.cache import _counted

    assert _counted(count) == text


def test_the_help_of_a_demo_without_its_packages(monkeypatch, capsys):
    monkeypatch.setattr("diffkern.cli.demo._missing", lambda path: ["matplotlib"])
    assert cli.main(["demo", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: diffkern demo [--list | NAME]")
    assert "install matplotlib" in shown
    assert cli.main(["demo"]) == 2
