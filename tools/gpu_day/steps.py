"""The steps of a day on a GPU machine: what is run, and what of its outcome goes into the report.

In: the name of a group, and whether a GPU is there. Out: a list of :class:`Step`, each a command with a limit of time,
and what reads its results.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

__all__ = ["NAMES", "Step", "Wish", "steps"]

NAMES = ("machine", "suite", "numba", "values", "random", "sanitizer", "benchmarks", "host", "profile")
"""The groups of steps, in their order."""

_VALUES = (
    ("ranges", "tests/e2e/test_ranges.py", "some_ranges or left or shortest or least_number"),
    ("magnitudes", "tests/e2e/test_extreme_magnitudes.py", ""),
    ("singular points", "tests/grad/test_singular.py tests/grad/test_singular_modes.py", "not every_operation"),
    ("indices", "tests/e2e/test_wraparound.py tests/e2e/test_bits.py", "not judged"),
)
"""Tests of values that are the CPU's by default: a name, files, and a choice."""

_SAMPLES = (
    ("memcheck", "test_gpu_runtime.py", "not large"),
    ("racecheck", "test_gpu_blocks.py", ""),
    ("synccheck", "test_gpu_blocks.py", ""),
    ("memcheck", "test_gpu_corpus.py", "tiles or memory"),
    ("memcheck", "test_gpu_values.py", "width or meet or hold"),
)
"""Tool, tests and choice: a checker makes everything slow, so a sample is enough."""
_BENCHMARKS = ("gpu", "tiles_gpu")
_SMALL = {"gpu": ("--only", "launch"), "tiles_gpu": ("--size", "64")}
"""Of each benchmark what a processor can do in seconds."""
_PROFILED = (("wave", "wave"), ("laplacian", "mesh Laplacian"), ("nbody", "n-body"))
"""Kernels whose launches are profiled, by the beginning of their names, and the cases of ``benchmarks/gpu.py``."""
_METRICS = (
    "gpu__time_duration.sum", "dram__bytes.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed", "smsp__inst_executed.sum", "launch__registers_per_thread",
)  # fmt: skip
_PROFILED_LAUNCHES = 3
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """A command and what it leaves.

    Attributes
    ----------
    name : str
        In the report.
    command : tuple of str
        What is run, in the project.
    minutes : float
        Its share of a day of 15 minutes: it is ended when it has had so much of the time that is left.
    read : callable
        Returns what goes into the report besides the exit status.
    missing : str
        Why it cannot be run; empty if it can.
    settings : tuple of (str, str)
        Variables of its environment.
    wants : bool
        Whether it has failed without results, whatever its program says.
    """

    name: str
    command: tuple[str, ...]
    minutes: float
    read: Callable[[], Any]
    missing: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    wants: bool = False


@dataclass(frozen=True)
class Wish:
    """What is to be run.

    Attributes
    ----------
    fake : bool
        On the fake driver, instead of a GPU.
    quick : bool
        With few repetitions in benchmarks.
    tests : str
        Which tests, as pytest's ``-k``; all if empty.
    workers : int
        How many processes run tests and random programs side by side.
    seconds : float
        After which no random program is begun.
    """

    fake: bool = False
    quick: bool = False
    tests: str = ""
    workers: int = 1
    seconds: float = 45.0


def steps(name: str, work: Path, wish: Wish) -> list[Step]:
    """Return the steps of a group; their results lie in the folder `work`."""
    python = [sys.executable]
    if wish.fake and name != "suite":
        python.append(str(_HERE / "on_fake_driver.py"))
    if name == "machine":
        out = work / "machine.json"
        return [Step("machine", (*python, str(_HERE / "facts.py"), str(out)), 0.5, lambda: _json(out))]
    if name in ("suite", "numba"):
        compiler = "llvm" if name == "suite" else name
        made = _suite(name, (), ("tests/gpu",), wish.tests, work / f"{name}.xml", 3, wish.workers)
        return [replace(made, settings=(("DIFFKERN_CUDA_COMPILER", compiler),))]
    if name == "values":
        return [_values(*row, wish, work / f"values{k}.xml") for k, row in enumerate(_VALUES)]
    if name == "random":
        return [_random(wish, work / "random.json")]
    if name == "sanitizer":
        return [_sanitizer(*sample, wish, work / f"sanitizer{k}.xml") for k, sample in enumerate(_SAMPLES)]
    if name == "host":
        # Its driver costs nothing, so that it is the same with a GPU and without one.
        out = work / "host.json"
        command = (sys.executable, "benchmarks/cuda_hosts.py", "--quick", "--json", str(out))
        return [Step("host", command, 0.5, lambda: _json(out), wants=True)]
    if name == "profile":
        return [_profile(*row, python, wish.fake, work / f"profile{k}.csv") for k, row in enumerate(_PROFILED)]
    return [_benchmark(one, python, wish, work / f"{one}.json") for one in _BENCHMARKS]


def _suite(
    name: str, before: Sequence[str], places: Sequence[str], choice: str, out: Path, minutes: float, workers: int = 1
) -> Step:
    return _pytest(name, before, ("-m", "gpu", *places), choice, out, minutes, workers)


def _pytest(
    name: str, before: Sequence[str], what: Sequence[str], choice: str, out: Path, minutes: float, workers: int
) -> Step:
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}")
    chosen = ("-k", choice) if choice else ()
    beside = ("-n", str(workers)) if workers > 1 else ()
    return Step(name, (*before, *pytest, *beside, *chosen, *what), minutes, lambda: _counts(out))


def _values(name: str, files: str, choice: str, wish: Wish, out: Path) -> Step:
    """Tests of values with their arrays on the GPU, or where PTX is interpreted."""
    both = f"({choice}) and ({wish.tests})" if choice and wish.tests else choice or wish.tests
    made = _pytest(f"values {name}", (), ("-p", "support.on_device", *files.split()), both, out, 0.4, wish.workers)
    driver = (("DIFFKERN_TEST_DRIVER", "ptx"),) if wish.fake else ()
    return replace(made, settings=(("DIFFKERN_TEST_DEVICE", "cuda:0"), *driver))


def _random(wish: Wish, out: Path) -> Step:
    command = (sys.executable, "-m", "tests.support.random_programs", "--device", "cpu" if wish.fake else "cuda:0")
    limits = ("--workers", str(wish.workers), "--time-limit", f"{wish.seconds:g}", "--json", str(out))
    return Step("random", (*command, *limits), wish.seconds / 60 + 0.25, lambda: _json(out))


def _sanitizer(tool: str, file: str, choice: str, wish: Wish, out: Path) -> Step:
    place = _toolkit_program("compute-sanitizer", "compute-sanitizer", wish.fake)
    # To ask the driver whether memory of the host is page-locked is no error, though its answer is one.
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    before = (*place, "--tool", tool, "--error-exitcode", "86", *quiet)
    both = f"({choice}) and ({wish.tests})" if choice and wish.tests else choice or wish.tests
    made = _suite(f"sanitizer {tool} {Path(file).stem}", before, (f"tests/gpu/{file}",), both, out, 0.5)
    return made if place else replace(made, missing="compute-sanitizer was not found; set CUDA_HOME to a toolkit")


def _profile(kernel: str, case: str, python: Sequence[str], fake: bool, out: Path) -> Step:
    """Count what some launches of a kernel do, forward and adjoint, of diffkern and of Warp where it is installed."""
    place = _toolkit_program("ncu", "nsight-compute", fake)
    profiler = (*place, "--csv", "--log-file", str(out), "--print-units", "base", "--metrics", ",".join(_METRICS))
    # By the number of each kernel's own launches: the first ones of all would be those of one forward program.
    chosen = ("--kernel-id", f"::regex:^{kernel}_:[1-{_PROFILED_LAUNCHES}]")
    program = (*python, "benchmarks/gpu.py", "--quick", "--only", case)
    missing = "" if place else "ncu was not found; set CUDA_HOME to a toolkit"
    made = Step(f"profile {kernel}", (*profiler, *chosen, *program), 0.4, lambda: _metrics(out), missing, wants=True)
    return replace(made, settings=(("LC_ALL", "C"),))  # numbers are written as there


def _metrics(path: Path) -> dict[str, Any] | None:
    """Return by kernel the values of each metric, one for each launch; or what the profiler says if there are none."""
    if not path.exists():
        return None
    lines = path.read_text(errors="replace").splitlines()
    found: dict[str, dict[str, list[float | str]]] = {}
    for row in csv.DictReader(line for line in lines if line.startswith('"')):
        if metric := row.get("Metric Name"):
            name = f"{metric}, {row['Metric Unit']}" if row["Metric Unit"] else metric
            found.setdefault(row["Kernel Name"], {}).setdefault(name, []).append(_number(row["Metric Value"]))
    said = [line for line in lines if line.startswith(("==ERROR==", "==WARNING=="))]
    return {"kernels": found, "said": said} if found else {"failed": {"ncu": "\n".join(said)}}


def _number(text: str | None) -> float | str:
    """Return a number, of which thousands are set off; the text if it is none, as where a GPU does not count it."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return text or ""


def _toolkit_program(name: str, folder: str, fake: bool) -> tuple[str, ...]:
    """Return how a program of NVIDIA's toolkit is called, which may have a folder of its own there; empty without."""
    if fake:
        return sys.executable, str(_HERE / "stand_ins.py"), name
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ] + ["/usr/local/cuda"]
    folders = [os.environ.get("PATH", ""), *(f"{root}/{sub}" for root in roots for sub in ("bin", folder))]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return (found,) if found else ()


def _benchmark(name: str, python: Sequence[str], wish: Wish, out: Path) -> Step:
    more = ("--quick",) if wish.quick or wish.fake else ()
    if wish.fake:
        more += _SMALL[name]
    return Step(
        f"benchmark {name}",
        (*python, f"benchmarks/{name}.py", "--json", str(out), *more),
        1.5,
        lambda: _json(out),
        wants=True,
    )


def _json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def _counts(path: Path) -> dict[str, Any] | None:
    """Return how many tests passed, and which failed and why the others were skipped."""
    if not path.exists():
        return None
    cases = list(ET.parse(path).iter("testcase"))
    failed, skipped = {}, {}
    for case in cases:
        name = f"{case.get('classname', '')}::{case.get('name')}"
        for outcome in case:
            if outcome.tag in ("failure", "error"):
                failed[name] = (outcome.get("message") or "")[:2000]
            elif outcome.tag == "skipped":
                reason = outcome.get("message") or ""
                if reason == "collection skipped":  # a whole file, whose reason stands elsewhere
                    reason = (outcome.text or reason).rpartition("Skipped: ")[2].strip("'\")")
                skipped[reason] = skipped.get(reason, 0) + 1
    passed = len(cases) - len(failed) - sum(skipped.values())
    return {"tests": len(cases), "passed": passed, "failed": failed, "skipped": skipped}
