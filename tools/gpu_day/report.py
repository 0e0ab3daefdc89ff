"""Runs the steps, one after the other or groups of them side by side, and writes what came of them.

In: the project, with the packages beside it or in this environment. Out: a JSON file with a record for each step: its
command, exit status, seconds, results, and the end of what it printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from steps import Step, Wish, steps

__all__ = ["FORMAT", "run", "summary"]

FORMAT = 1
"""Of the report."""
_TAIL = 20_000
_SHOWN, _MESSAGE, _END = 12, 300, 1200
"""Of the failures of a step: how many the summary shows, how much of a message, and of what a step printed."""
_GRACE = 8.0
"""Seconds in which an interrupted step can end by itself."""
_TOO_LATE = "the time was up"
_writing = threading.Lock()


def run(project: Path, out: Path, names: Sequence[str], wish: Wish, minutes: float) -> int:
    """Run steps and write the report anew after each; return 0 if all that ran did well.

    Parameters
    ----------
    project : Path
        Where the project is; the folder ``site`` beside it has the packages, if it is there.
    out : Path
        The report.
    names : sequence of str
        Groups of steps; those joined by ``+`` run side by side, which is for tests and not for benchmarks.
    wish : Wish
        How they are run.
    minutes : float
        Steps that have not begun by then are left out.

    Raises
    ------
    SystemExit
        If the packages are for another Python.
    """
    packed = project.parent / "packed.json"
    facts = json.loads(packed.read_text()) if packed.exists() else None
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if facts is not None and facts["python"] != here:
        sys.exit(
            f"the packages are for Python {facts['python']}, and this is {here}: run it with python{facts['python']}"
        )
    report: dict[str, Any] = {"format": FORMAT, "fake": wish.fake, "started": _now(), "packed": facts, "steps": []}
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="gpu_day-") as folder:
        environment = _environment(project, Path(folder), wish.fake)
        waiting = [[steps(one, Path(folder), wish) for one in name.split("+")] for name in names]
        while waiting:
            groups = waiting.pop(0)
            later = sum(max(map(_shares, each)) for each in waiting)
            with ThreadPoolExecutor(len(groups)) as pool:
                running = [
                    pool.submit(_run_group, group, project, environment, (end, later), report, out) for group in groups
                ]
                for one in running:
                    one.result()
    report["finished"] = _now()
    _write(out, report)
    print(summary(report), flush=True)
    return int(any(record["status"] not in (0, None) for record in report["steps"]))


def _run_group(
    group: Sequence[Step], project: Path, environment: dict[str, str], times: tuple[float, float],
    report: dict[str, Any], out: Path,
) -> None:  # fmt: skip
    """Run the steps of a group, each for its share of the time that is left, and add what came of them to the report.

    The times are when all is to end, and the shares of the groups that come later.
    """
    end, later = times
    for k, step in enumerate(group):
        left = (end - time.monotonic()) / 60
        chosen = step if left > 0 or step.missing else replace(step, missing=_TOO_LATE)
        if not chosen.missing:
            chosen = replace(step, minutes=left * step.minutes / (_shares(group[k:]) + later))
        record = _record(chosen, project, environment)
        with _writing:
            report["steps"].append(record)
            _write(out, report)
            print(f"{_outcome(record):>8}  {step.name}  {record.get('seconds', '')}", flush=True)


def _shares(group: Sequence[Step]) -> float:
    """Return the shares of steps together, of those that can be run."""
    return sum(step.minutes for step in group if not step.missing)


def summary(report: dict[str, Any]) -> str:
    """What came of each step in a line, and the failures with the beginnings of their messages."""
    lines = []
    for record in report["steps"]:
        results = record.get("results")
        counts = results if isinstance(results, dict) and "failed" in results else {}
        said = {k: len(v) if k == "failed" else v for k, v in counts.items()} or record.get("missing", "")
        lines.append(f"{_outcome(record):>8}  {record['name']}  {record.get('seconds', '')} s  {said}")
    for record in report["steps"]:
        failed = (record.get("results") or {}).get("failed", {}) if _outcome(record) not in ("ok", "missing") else {}
        for name, message in list(failed.items())[:_SHOWN]:
            lines.append(f"--- {record['name']}: {name}\n{message[:_MESSAGE]}")
        if not failed and _outcome(record) not in ("ok", "missing"):
            lines.append(f"--- {record['name']}\n{record.get('printed', '')[-_END:]}")
    return "\n".join(lines)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _environment(project: Path, folder: Path, fake: bool) -> dict[str, str]:
    """Return the environment of the steps: the packages that came along first, a cache of their own."""
    found = dict(os.environ)
    site = project.parent / "site"
    known = [str(project), str(project / "tests"), *([str(site)] if site.is_dir() else []), found.get("PYTHONPATH", "")]
    found["PYTHONPATH"] = os.pathsep.join(filter(None, known))
    found["DIFFKERN_CACHE_DIR"] = str(folder / "cache")
    if fake:
        found["DIFFKERN_FAKE_GPU"] = "1"
    return found


def _record(step: Step, project: Path, environment: dict[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {"name": step.name, "command": list(step.command), "status": None}
    if step.missing:
        return {**record, "missing": step.missing}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+b") as printed:
        try:
            process = subprocess.Popen(
                step.command, cwd=project, env={**environment, **dict(step.settings)}, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=printed,
            )  # fmt: skip
            record["status"] = _ended(process, 60 * step.minutes)
        except FileNotFoundError:
            record["status"] = "not found"
        printed.seek(0, os.SEEK_END)
        printed.seek(max(0, printed.tell() - _TAIL))
        record["printed"] = printed.read().decode(errors="replace")
    record["seconds"] = round(time.monotonic() - started, 1)
    results = record["results"] = step.read()
    if record["status"] == 0 and step.wants and (not results or "failed" in results):
        record["status"] = "no results"
    return record


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | str:
    """Wait for a process; one that takes too long is interrupted, so that it can write what it has, and then killed."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return "timeout"


def _outcome(record: dict[str, Any]) -> str:
    if "missing" in record:
        return "missing"
    return {0: "ok", "timeout": "timeout"}.get(record["status"], "FAILED")


def _write(out: Path, report: dict[str, Any]) -> None:
    """Write the report in one move, so that it is whole whenever the machine goes away."""
    waiting = out.with_name(f".{out.name}.new")
    waiting.write_text(json.dumps(report, indent=1))
    os.replace(waiting, out)
