"""The ``diffkern`` command with GPU targets; no GPU is needed."""

from __future__ import annotations

import pytest
from conftest import require
from test_cli import MODEL, refused

from diffkern.cache.maintenance import artifacts
from diffkern.cli import command as cli
from diffkern.compiler import specialize

require("cuda.bindings.nvjitlink", "nvidia")


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(specialize, "_entries", {})
    (tmp_path / "neighbour.py").write_text("FACTOR = 2.0\n")
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def shown(capsys, *argv):
    assert cli.main(["inspect", *map(str, argv)]) == 0
    return capsys.readouterr().out


def test_inspect_machine_code(capsys, model):
    kernel = f"{model}:scale"
    assert "STG.E" in shown(capsys, kernel, "--target", "sm_90", "--sass")
    assert "scale_adjoint_" in shown(capsys, kernel, "--target", "sm_80", "--ptx", "--adjoint")
    assert ".target sm_90" in shown(capsys, kernel, "--ptx")
    assert "ret" in shown(capsys, kernel, "--asm")
    assert "def scale" in shown(capsys, kernel, "--target", "sm_90", "--source")


def test_inspect_resources(capsys, model):
    rows = dict(line.rsplit("  ", 1) for line in shown(capsys, f"{model}:scale", "--target", "sm_90").splitlines())
    rows = {name.strip(): value for name, value in rows.items()}
    assert rows["target"] == "sm_90"
    assert rows["arrays"] == "do not overlap"
    assert int(rows["registers"]) > 3
    assert rows["global loads"] == rows["global stores"] == "2"  # of several elements, and of one
    assert "atomics" not in rows
    assert int(rows["instructions"]) > 10
    assert "registers" in shown(capsys, f"{model}:scale", "--target", "cpu")


def test_inspect_types_and_mistakes(capsys, model):
    types = ("--types", "array(float32)", "array(float32)", "float")
    assert "FMUL" in shown(capsys, f"{model}:smooth", "--target", "sm_75", "--sass", *types)
    fast = shown(capsys, f"{model}:smooth", "--target", "sm_75", "--ptx", "--fast-math", *types)
    assert ".target sm_75" in fast
    assert "cpu has no sass" in refused(capsys, "inspect", f"{model}:scale", "--target", "cpu", "--sass")
    assert "no CUDA target" in refused(capsys, "inspect", f"{model}:scale", "--target", "sm_71")


def test_compile_for_cpus_and_gpus_at_once(capsys, model, tmp_path):
    assert cli.main(["compile", str(model), "--target", "x86-64-v3,sm_80,sm_90", "--out", str(tmp_path / "out")]) == 0
    # Of the kernel three for the CPU, for each GPU six, and seven for copies and sums of its arrays.
    assert "compiled 29 programs of 1 kernel" in capsys.readouterr().out
    found = artifacts(tmp_path / "out")
    assert sorted(a.target for a in found) == ["sm_80"] * 13 + ["sm_90"] * 13 + ["x86-64-v3"] * 3
    titles = sorted(a.title for a in found if a.target == "sm_90" and "scale" in a.title)
    types = "array1d<float32,C>, array1d<float32,C>"
    assert titles == [
        f"adjoint of scale({types})",
        f"adjoint of scale({types}), arrays may overlap",
        f"adjoint of scale({types}), arrays may overlap, with atomics",
        f"adjoint of scale({types}), with atomics",
        f"forward of scale({types})",
        f"forward of scale({types}), arrays may overlap",
    ]
    argv = ["compile", str(model), "--target", "sm_90", "--programs", "least", "--out", str(tmp_path / "less")]
    assert cli.main(argv) == 0
    assert "compiled 2 programs" in capsys.readouterr().out
    assert {a.key for a in artifacts(tmp_path / "less")} < {a.key for a in found}


def test_the_cache_shows_gpu_programs(capsys, model):
    shown(capsys, f"{model}:scale", "--target", "sm_90")
    shown(capsys, f"{model}:scale", "--target", "sm_80")
    assert cli.main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in lines] == ["sm_80", "sm_90"]
    keys = [line.split()[0] for line in lines]
    assert cli.main(["cache", "why", *keys]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["target:", "  - sm_80", "  + sm_90"]
    assert cli.main(["cache", "why", keys[0]]) == 0
    assert "nvidia_nvjitlink: " in capsys.readouterr().out
    assert "may overlap" in shown(capsys, f"{model}:scale", "--target", "sm_90", "--may-alias")
    assert cli.main(["cache", "list"]) == 0
    careful = next(line for line in capsys.readouterr().out.splitlines() if line.endswith(", arrays may overlap"))
    sm_90 = next(line.split()[0] for line in lines if " sm_90 " in line)
    assert cli.main(["cache", "why", sm_90, careful.split()[0]]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["options:", '  - {"may_alias": false}', "  + {}"]
