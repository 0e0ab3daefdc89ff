"""A session of GradBench: an eval and a tool as processes, and what goes between them, kept for the times."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_BUILT = "from gradbench import cpp; cpp.define = lambda **_: {'success': True}; cpp.main()"
"""Their tool for programs in C++, without building each of them again before it is asked."""


@dataclass
class Answer:
    """A tool's answer to one question of an eval."""

    function: str
    size: str
    seconds: float | None
    valid: bool = False
    error: str = ""


@dataclass
class Session:
    """All answers of a tool to an eval, in order; ``error`` says why it ended early."""

    answers: list[Answer] = field(default_factory=list)
    error: str = ""


def run(source: Path, eval_command: Sequence[str], tool_command: Sequence[str], limit: float) -> Session:
    """Let an eval question a tool, both in the checkout, each with one thread.

    ``limit`` is how many seconds it may take; after that what was answered counts.
    """
    session = Session()
    with _started(source, eval_command) as asking, _started(source, tool_command) as answering:
        timer = threading.Timer(limit, lambda: (asking.kill(), answering.kill()))
        timer.start()
        try:
            _talk(session, asking, answering)
            if not timer.is_alive():
                session.error = f"not done after {limit:.0f} s"
        finally:
            timer.cancel()
            asking.kill()
            answering.kill()
    return session


def _talk(session: Session, asking: subprocess.Popen[str], answering: subprocess.Popen[str]) -> None:
    questions, answers = _pipes(asking), _pipes(answering)
    asked: dict[int, Answer] = {}
    for line in questions[0]:
        try:
            message = json.loads(line)
        except json.JSONDecodeError:  # it was ended within a line
            session.error = "the eval ended"
            return
        if message["kind"] == "analysis" and message["of"] in asked:
            asked[message["of"]].valid = message["valid"]
            asked[message["of"]].error = message.get("error") or ""
        try:
            answers[1].write(line)
            answers[1].flush()
            reply = answers[0].readline()
            response = json.loads(reply)
            questions[1].write(reply)
            questions[1].flush()
        except (BrokenPipeError, json.JSONDecodeError):
            session.error = "the tool ended" if answering.poll() is not None else "the eval ended"
            return
        if message["kind"] == "evaluate":
            found = _answer(message, response)
            asked[message["id"]] = found
            session.answers.append(found)
        elif message["kind"] == "define" and not response["success"]:
            session.error = (response.get("error") or "it does not have the eval").strip().splitlines()[-1]


def _answer(message: dict[str, Any], response: dict[str, Any]) -> Answer:
    """Return the shortest time of all calls, or the error."""
    size = message.get("description") or json.dumps(message["input"])
    if not response["success"]:
        return Answer(message["function"], size, None, False, (response.get("error") or "failed").strip())
    times = [each["nanoseconds"] for each in response["timings"] if each["name"] == "evaluate"]
    return Answer(message["function"], size, 1e-9 * min(times))


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdout is not None
    assert process.stdin is not None
    return process.stdout, process.stdin


def _started(source: Path, command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a process in the checkout, with its modules and ours, and with one thread."""
    ours = Path(__file__).resolve().parents[3]
    paths = [str(source / "python" / "gradbench"), str(ours), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.Popen(
        command, cwd=source, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def eval_command(name: str, options: str) -> list[str]:
    """Return the command of an eval of the checkout."""
    return [sys.executable, f"python/gradbench/gradbench/evals/{name}/run.py", *shlex.split(options)]


def tools(source: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the names and commands of tools that run an eval without a container."""
    yield "diffkern", [sys.executable, "-m", "benchmarks.outside.gradbench.tool"]
    for tool, shown in (("jax", "JAX"), ("pytorch", "PyTorch")):
        folder = source / "python" / "gradbench" / "gradbench" / "tools" / tool
        if (folder / f"{name}.py").is_file():
            waits = ("-m", "benchmarks.outside.gradbench.jax_tool") if tool == "jax" else ()
            yield shown, [sys.executable, *waits, str(folder / "run.py")]
    for tool in ("finite", "manual"):
        if (source / "tools" / tool / "bin" / name).is_file() and (tool == "manual" or name in NESTED):
            yield tool, [sys.executable, "-c", _BUILT, tool]


NESTED = ("saddle", "particle")
"""Evals that neither JAX nor PyTorch has there: finite differences are the only other tool."""
