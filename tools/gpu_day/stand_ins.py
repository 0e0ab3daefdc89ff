"""Stand-ins for programs of NVIDIA's toolkit, for a day on the fake driver: ``python stand_ins.py ncu … PROGRAM …``.

``ncu`` runs the program and writes of the launches that its options choose what the real one writes: messages, a header
and a row for each metric, whose values are made up. ``compute-sanitizer`` runs it and finds nothing. With
``DIFFKERN_STAND_IN`` they fail as the real ones do: ``permission``, ``nothing``, ``error``.
"""

from __future__ import annotations

import argparse
import collections
import csv
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

__all__ = ["FAILURE", "LAUNCHES"]

LAUNCHES = "DIFFKERN_FAKE_LAUNCHES"
"""The file to which a program on the fake driver writes the names of the kernels that it has launched."""
FAILURE = "DIFFKERN_STAND_IN"
"""How the stand-ins fail."""
_PERMISSION = (
    "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target "
    "device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
_COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
)  # fmt: skip
_VALUES = {
    "gpu__time_duration.sum": ("ns", "5,120"), "dram__bytes.sum": ("byte", "50,331,648"),
    "smsp__inst_executed.sum": ("inst", "1,048,576"), "launch__registers_per_thread": ("register/thread", "24"),
}  # fmt: skip


def ncu(arguments: Sequence[str]) -> int:
    """Run a program and write what its kernels did."""
    parser = argparse.ArgumentParser(prog="ncu", allow_abbrev=False)
    parser.add_argument("--csv", action="store_true", required=True)
    parser.add_argument("--log-file", type=Path, required=True)
    parser.add_argument("--metrics", required=True, type=lambda text: text.split(","))
    parser.add_argument("--print-units", choices=("auto", "base"), required=True)
    parser.add_argument("--kernel-id", required=True, type=re.compile(r"::regex:(.+):(.+)").fullmatch)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    names, number = map(re.compile, given.kernel_id.groups())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "launches"
        status = subprocess.run(given.program, env={**os.environ, LAUNCHES: str(file)}, check=False).returncode
        launched = file.read_text().split() if file.exists() else []
    counts = collections.Counter[str]()
    chosen = []
    for name in launched:
        counts[name] += 1
        if names.search(name) and number.fullmatch(str(counts[name])):
            chosen.append(name)
    failure = os.environ.get(FAILURE)
    with given.log_file.open("w", newline="") as out:
        out.write("==PROF== Connected to process 7 (/usr/bin/python)\n")
        if failure == "permission":
            out.write(f"==ERROR== {_PERMISSION}\n")
            return 1
        if failure == "nothing" or not chosen:
            out.write("==PROF== Disconnected from process 7\n==WARNING== No kernels were profiled.\n")
            return status
        out.writelines(f'==PROF== Profiling "{name}": 0%....50%....100% - 2 passes\n' for name in chosen)
        out.write("==PROF== Disconnected from process 7\n")
        _write(out, chosen, given.metrics)
    return status


def _write(out: TextIO, chosen: Sequence[str], metrics: Sequence[str]) -> None:
    rows = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for k, name in enumerate(chosen):
        for metric in metrics:
            unit, value = _VALUES.get(metric, ("%", "98.76"))
            place = (k, 7, "python", "127.0.0.1", name, 1, 7, "(256, 1, 1)", "(64, 1, 1)", 0, "9.0")
            rows.writerow((*place, "Command line profiler metrics", metric, unit, value))


def compute_sanitizer(arguments: Sequence[str]) -> int:
    """Run a program, and say that there is nothing wrong with its kernels."""
    parser = argparse.ArgumentParser(prog="compute-sanitizer", allow_abbrev=False)
    parser.add_argument("--tool", choices=("memcheck", "racecheck", "synccheck", "initcheck"), required=True)
    parser.add_argument("--error-exitcode", type=int, required=True)
    parser.add_argument("--report-api-errors", choices=("no", "all", "explicit"))
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    print("========= COMPUTE-SANITIZER", flush=True)
    status = subprocess.run(given.program, check=False).returncode
    if os.environ.get(FAILURE) == "error":
        print("========= Invalid __global__ read of size 4 bytes\n========= ERROR SUMMARY: 1 error", flush=True)
        return int(given.error_exitcode)
    print("========= ERROR SUMMARY: 0 errors", flush=True)
    return status


if __name__ == "__main__":
    sys.exit({"ncu": ncu, "compute-sanitizer": compute_sanitizer}[sys.argv[1]](sys.argv[2:]))
