"""Run a script in a process of its own, and read its figures: rows beside other libraries, and what has none."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import resource

from .figures import LeftOut, Part, Row
from .scripts import Script

ROOT = Path(__file__).parents[2]
OWN = ("diffkern", "torch_function")
"""What stands for diffkern in the rows of scripts."""
ALONE = ("-", "limit")
"""What stands beside diffkern where no other library does."""
PEERS = {
    "warp": "Warp", "jax": "JAX", "torch": "PyTorch", "operations by hand": "PyTorch", "numpy": "NumPy",
    "copy": "NumPy's copy", "scipy": "SciPy", "drjit": "Dr.Jit", "by hand": "by hand",
}  # fmt: skip
"""Other libraries by their names in rows of scripts; rows beside anything else compare diffkern with itself."""
PATIENCE = 900.0
"""Seconds that a script may take."""


def run(script: Script, *, quick: bool, patience: float = PATIENCE) -> Part:
    """Run a script and return its part; if it fails, the reason stands in place of what it did not write."""
    begin, busy = time.monotonic(), _busy()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, str(script.path), *script.arguments(quick=quick), "--json", str(out)]
        reason = _reason(command, patience)
        found, unread = _read(out)
    reason = reason or unread
    rows, left_out = figures_of(script, found)
    if reason and not (rows or left_out):
        left_out = [LeftOut(script.name, reason)]
    elif reason and not any(row.get("error") for row in found):
        left_out = [LeftOut(script.name, f"not all of it: {reason}"), *left_out]
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    took = round(time.monotonic() - begin, 1), round(_busy() - busy, 1)
    return Part(today, *took, quick, tuple(rows), tuple(left_out))


def _busy() -> float:
    """Return the processor time of all children so far; none is known where the system does not tell."""
    if sys.platform == "win32":
        return 0.0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reason(command: list[str], patience: float) -> str:
    """Run a command and return why it failed, "" if it did not."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {patience:g} seconds"
    lines = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
    return f"{lines[-1] if lines else 'no output'} (exit status {done.returncode})" if done.returncode else ""


def _read(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the rows that a script wrote, and why there are none."""
    if not path.exists():
        return [], "it wrote no figures"
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    except (ValueError, KeyError) as wrong:
        return [], f"its figures cannot be read: {wrong}"
    return rows, ""


def figures_of(script: Script, rows: Iterable[dict[str, Any]]) -> tuple[list[Row], list[LeftOut]]:
    """Return what the table has of the rows that a script wrote, and what it leaves out."""
    found: list[Row] = []
    left_out: list[LeftOut] = []
    for row in rows:
        sides = {row["top"], row["bottom"]}
        own = [side for side in OWN if side in sides]
        beside = sides.difference(own)
        if not own or not beside or not beside <= {*PEERS, *ALONE}:
            continue
        peer = PEERS.get(beside.pop(), "")
        reason = row.get("error") or row.get("unlike")
        if reason:
            left_out.append(LeftOut(f"{script.case(row['name'])}, beside {peer}", " ".join(str(reason).split())))
        else:
            found.append(_row(script, row, peer, is_top=row["top"] in OWN))
    return found, left_out


def _row(script: Script, row: dict[str, Any], peer: str, *, is_top: bool) -> Row:
    """Bring a row of a script to the form of the table: the peer's time over diffkern's."""
    command = script.command(row.get("only") or row["name"])
    own_s, peer_s = (row["top_s"], row["bottom_s"]) if is_top else (row["bottom_s"], row["top_s"])
    ratios = [row["ratio_median"], row["ratio_min"], row["ratio_max"]]
    if not peer or None in ratios:
        return Row(script.case(row["name"]), "", None, own_s, None, None, None, script.clock, command)
    middle, low, high = [1 / ratios[0], 1 / ratios[2], 1 / ratios[1]] if is_top else ratios
    return Row(script.case(row["name"]), peer, peer_s, own_s, middle, low, high, script.clock, command)
