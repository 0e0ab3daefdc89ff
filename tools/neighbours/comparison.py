"""One program under both, side by side: its outputs, its first step cold and warm, and its steps in turns."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from conversation import Conversation, Ended

__all__ = ["UNDER", "compare", "differences"]

UNDER = ("warp", "diffkern")
_TURNS = 5


def compare(python: Path, program: Path, wish: dict[str, Any], folder: Path, limit: float) -> dict[str, Any]:
    """Run a program under both and return what came of it.

    Parameters
    ----------
    python : Path
        The interpreter of the environment with the packages.
    program : Path
        Its file.
    wish : dict
        Its constants: ``STEPS`` are done in all, and its outputs are to agree to ``TOLERANCE``.
    folder : Path
        Empty; for compiled programs and outputs.
    limit : float
        Seconds of processor time that one request may take.
    """
    found: dict[str, Any] = {"package": wish["PACKAGE"], "tolerance": wish["TOLERANCE"], "steps": wish["STEPS"]}
    sides: dict[str, dict[str, Any]] = {under: {} for under in UNDER}
    for under in UNDER:
        _first(python, program, under, folder, limit, sides[under], "cold")
    with ExitStack() as stack:
        running = {}
        for under in UNDER:
            if "error" not in sides[under]:
                process = stack.enter_context(Conversation(python, under, "program", folder, limit))
                if _asked(process, sides[under], "warm", {"do": "first", "with": {"path": str(program)}}):
                    running[under] = process
        _in_turns(running, sides, wish["STEPS"] - 1)
        for under, process in running.items():
            if "error" not in sides[under]:
                to = {"to": str(folder / f"{under}.npz")}
                _asked(process, sides[under], "", {"do": "outputs", "with": to})
    found.update(sides)
    if all("error" not in side for side in sides.values()):
        found["differences"] = differences(folder, UNDER[1], UNDER[0], "output")
    for under in UNDER:
        if "error" not in sides[under]:
            sides[under]["from reference"] = differences(folder, under, under, "reference")
    return found


def _first(
    python: Path, program: Path, under: str, folder: Path, limit: float, side: dict[str, Any], what: str
) -> None:
    with Conversation(python, under, "program", folder, limit) as process:
        _asked(process, side, what, {"do": "first", "with": {"path": str(program)}})


def _asked(process: Conversation, side: dict[str, Any], what: str, request: dict[str, Any]) -> bool:
    """Ask, and keep the seconds, or what went wrong; return whether it went well."""
    try:
        reply = process.tell(request)
    except Ended as error:
        side.update(error=str(error), trace=error.trace)
        return False
    if what:
        side[what] = reply["seconds"]
    return True


def _in_turns(running: dict[str, Conversation], sides: dict[str, dict[str, Any]], steps: int) -> None:
    """Do as many steps under each, a few at a time: what else the machine does meets both alike."""
    times: dict[str, list[float]] = {under: [] for under in running}
    each = max(1, steps // _TURNS)
    for begin in range(0, steps, each):
        count = min(each, steps - begin)
        for under, process in running.items():
            side = sides[under]
            if "error" not in side and _asked(process, side, "last", {"do": "steps", "with": {"count": count}}):
                times[under].append(side.pop("last") / count)
    for under, seconds in times.items():
        if seconds:
            sides[under]["step"] = statistics.median(seconds)


def differences(folder: Path, ours: str, theirs: str, kind: str) -> dict[str, float | str]:
    """Return by name how far outputs are from the others, relative to the largest of these.

    Parameters
    ----------
    folder : Path
        Where the outputs are.
    ours, theirs : str
        Under what they were written.
    kind : str
        ``output`` for the other's outputs, ``reference`` for what they are to be.
    """
    import numpy as np

    found: dict[str, float | str] = {}
    with np.load(folder / f"{ours}.npz") as mine, np.load(folder / f"{theirs}.npz") as other:
        for key in other.files:
            of, _, name = key.partition(" ")
            if of != kind:
                continue
            have = mine.get(f"output {name}")
            if have is None or have.shape != other[key].shape:
                found[name] = f"shape {getattr(have, 'shape', None)} instead of {other[key].shape}"
                continue
            found[name] = _difference(have.astype(float), other[key].astype(float))
    return found


def _difference(ours: Any, theirs: Any) -> float | str:
    import numpy as np

    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
        return "not finite where the other is"
    scale = max(float(np.max(np.abs(theirs[finite]), initial=0.0)), float(np.finfo(float).tiny))
    return float(np.max(np.abs(ours[finite] - theirs[finite]), initial=0.0)) / scale
