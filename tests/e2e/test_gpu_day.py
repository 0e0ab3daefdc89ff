"""``tools/gpu_day``: what a GPU machine gets and gives back, rehearsed on the fake driver."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import require

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "gpu_day"
pytestmark = pytest.mark.skipif(not TOOL.is_dir(), reason="the tools are not beside the tests")

TESTS = (
    "test_streams or test_shared_memory_that or memory.gather or (width and float32) or int8-plain-elements-forward"
    " or infinite_components or losers_in_loops or sizes_are_compared or structs or test_texts"
)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(TOOL))
    names = ("packing", "report", "steps")
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        sys.modules.pop(name)


def gpu_day(*arguments: object, cwd: Path, tool: Path = TOOL, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, tool, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **more}, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_the_day_is_rehearsed(tmp_path: Path) -> None:
    """Packed here, unpacked there, and run from there: the suite, the checker's sample, benchmarks and profiles."""
    packed = gpu_day("pack", "day.tar.gz", "--packages", "packaging,pluggy", cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    assert "2 packages" in packed.stdout
    assert gpu_day("unpack", "day.tar.gz", "there", cwd=tmp_path).stdout.strip() == str(Path("there/project"))
    there = tmp_path / "there" / "project"
    ran = gpu_day(
        "run", "--fake", "--tests", TESTS, "--seconds", "5", "--minutes", "60", "--out", tmp_path / "report.json",
        cwd=there, tool=there / "tools/gpu_day",
    )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text())
    failed = [(step["name"], step.get("printed", step.get("missing"))) for step in report["steps"] if step["status"]]
    assert (ran.returncode, failed) == (0, []), ran.stdout
    assert report["fake"] is True
    assert report["packed"]["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(report["packed"]["packages"]) == {"packaging", "pluggy"}
    steps = {step["name"]: step for step in report["steps"]}
    assert [device["name"] for device in steps["machine"]["results"]["devices"]] == ["fake GPU 0", "fake GPU 1"]
    assert steps["suite"]["results"]["passed"] >= 3
    checked = [step for name, step in steps.items() if name.startswith("sanitizer")]
    assert len(checked) == 5
    assert all(step["results"]["passed"] >= 1 and step["results"]["failed"] == {} for step in checked)
    assert steps["host"]["results"]["rows"]
    for name in ("gpu", "tiles_gpu"):
        assert steps[f"benchmark {name}"]["results"]["rows"]
    for name in ("wave", "laplacian", "nbody"):
        names = steps[f"profile {name}"]["results"]["kernels"]
        assert sorted({kernel.rpartition("_")[0] for kernel in names}) == [f"{name}_adjoint", f"{name}_forward"]
    # What ran is what was unpacked.
    assert str(there) in steps["benchmark gpu"]["command"][1]
    assert not list((there / "diffkern").rglob("*.pyo"))


PROFILED = """
import os, sys
names = ["wave_forward_1", "wave_adjoint_2", "wave_forward_1", "other_forward_3", *["wave_forward_1"] * 3]
with open(os.environ["DIFFKERN_FAKE_LAUNCHES"], "w") as out:
    out.write("\\n".join(names))
sys.exit(int(os.environ.get("STATUS", "0")))
"""
"""Stands for a program on the fake driver."""


def profiled(tool: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> tuple[int, Any, str]:
    """Return the exit status of the day, the record of a profile, and the summary."""
    (step, *others) = tool.steps.steps("profile", folder, tool.steps.Wish(fake=True))
    assert [other.name for other in others] == ["profile laplacian", "profile nbody"]
    at = step.command.index(next(word for word in step.command if word.endswith("on_fake_driver.py"))) - 1
    command = (*step.command[:at], sys.executable, "-I", "-S", "-c", PROFILED)
    step = dataclasses.replace(step, command=command, settings=(*step.settings, *settings.items()))
    monkeypatch.setattr(tool.report, "steps", lambda name, work, wish: [step])
    status = tool.report.run(ROOT, folder / "report.json", ["profile"], tool.steps.Wish(fake=True), minutes=5.0)
    report = json.loads((folder / "report.json").read_text())
    return status, report["steps"][0], tool.report.summary(report)


def test_what_the_profiler_counts_is_read(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each kernel that is asked for the first launches, however often another one runs before."""
    status, record, _ = profiled(tool, tmp_path, monkeypatch)
    assert (status, record["status"]) == (0, 0)
    found = record["results"]["kernels"]
    assert {name: len(of["gpu__time_duration.sum, ns"]) for name, of in found.items()} == {
        "wave_forward_1": 3, "wave_adjoint_2": 1
    }  # fmt: skip
    assert found["wave_forward_1"]["dram__bytes.sum, byte"] == [50331648.0] * 3
    assert found["wave_adjoint_2"]["sm__throughput.avg.pct_of_peak_sustained_elapsed, %"] == [98.76]
    assert tool.steps._number("n/a") == "n/a"


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    [
        ("permission", 1, "ERR_NVGPUCTRPERM"),
        ("nothing", "no results", "==WARNING== No kernels were profiled."),
        ("", 3, "--- profile wave"),
    ],
)
def test_a_profile_that_fails_says_why(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, status: Any, said: str
) -> None:
    how = {"DIFFKERN_STAND_IN": failure} if failure else {"STATUS": "3"}
    code, record, summary = profiled(tool, tmp_path, monkeypatch, **how)
    assert (code, record["status"]) == (1, status)
    assert said in summary


def test_a_checker_that_finds_something_fails(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = tool.steps.steps("sanitizer", tmp_path, tool.steps.Wish(fake=True))[0]
    at = step.command.index("pytest") - 2
    step = dataclasses.replace(step, command=(*step.command[:at], sys.executable, "-c", "print('ran')"))
    monkeypatch.setattr(tool.report, "steps", lambda name, work, wish: [step])
    out = tmp_path / "report.json"
    for failure, status, said in (("", 0, "0 errors"), ("error", 86, "read of size 4 bytes")):
        monkeypatch.setenv("DIFFKERN_STAND_IN", failure)
        assert tool.report.run(ROOT, out, ["any"], tool.steps.Wish(fake=True), minutes=5.0) == int(status > 0)
        (record,) = json.loads(out.read_text())["steps"]
        assert record["status"] == status
        assert "ran" in record["printed"]
        assert said in record["printed"]


def test_programs_of_a_toolkit_are_looked_for(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the path, and in the folders of a toolkit; without them their steps are left out, and say so."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    wish = tool.steps.Wish()
    for name, where in (("profile", "cuda/nsight-compute/ncu"), ("sanitizer", "bin/compute-sanitizer")):
        assert {step.missing[-29:] for step in tool.steps.steps(name, tmp_path, wish)} == {
            "d; set CUDA_HOME to a toolkit"
        }
        (tmp_path / where).parent.mkdir(parents=True)
        (tmp_path / where).touch(0o755)
        assert {step.command[0] for step in tool.steps.steps(name, tmp_path, wish)} == {str(tmp_path / where)}
        assert not any(step.missing for step in tool.steps.steps(name, tmp_path, wish))


def test_the_time_is_shared_out(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one step leaves the next ones have; a day of 15 minutes has time for each step."""
    given = []

    def record(step: Any, *_: Any) -> dict[str, Any]:
        given.append((step.name, round(step.minutes, 2)))
        return {"name": step.name, "command": [], "status": None if step.missing else 0}

    monkeypatch.setattr(tool.report, "_record", record)
    monkeypatch.setattr(tool.report, "summary", lambda report: "")
    made = {
        name: [tool.steps.Step(f"{name}{k}", (), minutes, dict, missing) for k, (minutes, missing) in enumerate(rows)]
        for name, rows in {"a": [(2, ""), (6, "absent")], "b": [(1, ""), (1, "")], "c": [(3, "")]}.items()
    }
    monkeypatch.setattr(tool.report, "steps", lambda name, work, wish: made[name])
    tool.report.run(ROOT, tmp_path / "report.json", ["a", "b+c"], tool.steps.Wish(), minutes=10.0)
    assert dict(given) == {"a0": 4.0, "a1": 6, "b0": 5.0, "b1": 10.0, "c0": 10.0}
    total = sum(s.minutes for name in tool.steps.NAMES for s in tool.steps.steps(name, tmp_path, tool.steps.Wish(True)))
    assert 12 < total < 18


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    ran = gpu_day("run", "--steps", "machine", "--out", "report.json", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    report = json.loads((tmp_path / "report.json").read_text())
    (step,) = report["steps"]
    assert ran.returncode == 1
    assert "FAILED" in ran.stdout
    assert step["results"]["devices"] == []
    assert step["printed"].strip() == step["results"]["driver"]
    assert gpu_day("run", "--steps", "dance", cwd=tmp_path).returncode == 2


def test_steps_that_take_too_long_are_ended(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = tool.steps.Step(
        "sleep", (sys.executable, "-I", "-S", "-c", "import time; print(1, flush=True); time.sleep(60)"), 0.05, dict
    )
    quick = tool.steps.Step("quick", (sys.executable, "-c", "raise SystemExit(3)"), 1, lambda: {"found": 5})
    absent = tool.steps.Step("absent", ("no-such-program",), 1, dict)
    monkeypatch.setattr(tool.report, "steps", lambda name, work, wish: [sleep, quick, absent])
    out = tmp_path / "report.json"
    assert tool.report.run(ROOT, out, ["any"], tool.steps.Wish(), minutes=2.0) == 1
    first, second, third = json.loads(out.read_text())["steps"]
    assert (first["status"], first["printed"].split()[0]) == ("timeout", "1")
    assert "KeyboardInterrupt" in first["printed"]  # it could have written what it has
    assert (second["status"], second["results"]) == (3, {"found": 5})
    assert third["status"] == "not found"
    assert tool.report.run(ROOT, out, ["any"], tool.steps.Wish(), minutes=0.0) == 0
    assert {step["missing"] for step in json.loads(out.read_text())["steps"]} == {"the time was up"}


def test_groups_run_side_by_side(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two steps waits for what the other one writes."""
    code = (
        "import os, sys, time; open(sys.argv[1], 'w').close()\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.01)"
        "\nprint(os.environ['SET'])"
    )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    made = {
        name: tool.steps.Step(name, (sys.executable, "-c", code, *files), 1, dict, settings=(("SET", name),))
        for name, files in (("first", (a, b)), ("second", (b, a)))
    }
    monkeypatch.setattr(tool.report, "steps", lambda name, work, wish: [made[name]])
    out = tmp_path / "report.json"
    assert tool.report.run(ROOT, out, ["first+second"], tool.steps.Wish(), minutes=1.0) == 0
    records = json.loads(out.read_text())["steps"]
    assert {r["name"]: r["printed"].strip() for r in records} == {"first": "first", "second": "second"}


def test_the_summary_names_failures(tool: Any) -> None:
    good = {"name": "suite", "status": 0, "seconds": 3.0, "results": {"tests": 2, "passed": 2, "failed": {}}}
    bad = {**good, "name": "numba", "status": 1, "results": {"tests": 2, "passed": 1, "failed": {"f::t": "assert 1"}}}
    dead = {"name": "random", "status": -11, "seconds": 1.0, "results": None, "printed": "Segmentation fault"}
    late = {"name": "late", "status": None, "missing": "the time was up"}
    said = tool.report.summary({"steps": [good, bad, dead, late]})
    for line in ("--- numba: f::t\nassert 1", "--- random\nSegmentation fault", "the time was up", "'passed': 2"):
        assert line in said
    assert "--- suite" not in said


def test_results_of_the_suite(tool: Any, tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text("import pytest\n@pytest.mark.parametrize('x', [1, 2, 3])\ndef test_one(x):\n    assert x < 3\n")
    (tmp_path / "test_other.py").write_text("import pytest\npytest.skip('no such thing', allow_module_level=True)\n")
    out = tmp_path / "out.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}", tmp_path]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    found = tool.steps._counts(out)
    assert (found["tests"], found["passed"], found["skipped"]) == (4, 2, {"no such thing": 1})
    ((name, message),) = found["failed"].items()
    assert name == "test_some::test_one[3]"
    assert "assert 3 < 3" in message
    assert tool.steps._counts(tmp_path / "absent.xml") is None


def test_packages_of_another_python_are_refused(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "packed.json").write_text(json.dumps({"python": "3.9"}))
    with pytest.raises(SystemExit, match=r"packages are for Python 3\.9.*python3\.9"):
        tool.report.run(tmp_path / "project", tmp_path / "out.json", ["machine"], tool.steps.Wish(), 1.0)


def test_all_that_is_needed_comes_along(tool: Any) -> None:
    require("cuda.bindings")
    found = tool.packing.needed(tool.packing.requirements())
    wanted = (
        "numpy numba llvmlite numba-cuda cuda-bindings cuda-pathfinder nvidia-nvjitlink nvidia-nvvm pytest hypothesis"
    )
    assert set(wanted.split()) <= set(found)
    assert not {"diffkern", "sphinx", "jax", "torch"} & set(found)
    with pytest.raises(SystemExit, match="no-such-thing is not installed: install it, or pack with --from pip"):
        tool.packing.needed(["no-such-thing>=1"])


def test_pip_is_asked_for_another_machine(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []

    def download(command: list[str], check: bool) -> None:
        commands.append(command)
        with zipfile.ZipFile(Path(command[command.index("-d") + 1]) / "Some_Thing-1.5-py3-none-any.whl", "w") as wheel:
            wheel.writestr("some_thing/__init__.py", "")

    monkeypatch.setattr(tool.packing.subprocess, "run", download)
    monkeypatch.setattr(tool.packing, "_commit", lambda project: "abc")
    facts = tool.packing.pack(ROOT, tmp_path / "day.tar", "pip", "3.12", "aarch64", wanted=["some-thing>=1"])
    (command,) = commands
    assert {"--only-binary=:all:", "--python-version=3.12", "--platform=manylinux_2_28_aarch64", "some-thing>=1"} <= {
        *command
    }
    assert facts == {"python": "3.12", "machine": "aarch64", "packages": {"some-thing": "1.5"}, "commit": "abc"}
    with tarfile.open(tmp_path / "day.tar") as archive:
        names = set(archive.getnames())
    assert {
        "packed.json",
        "site/some_thing/__init__.py",
        "project/diffkern/__init__.py",
        "project/pyproject.toml",
    } <= names
    assert {name.split("/")[1] for name in names if name.count("/")} >= {"tests", "benchmarks", "tools"}
    assert not any("__pycache__" in name or ".venv" in name for name in names)
