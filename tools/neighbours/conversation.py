"""A process of ``child.py`` and what is said with it: requests, replies, a limit of time for each."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Conversation", "Ended", "processor_time", "replies_about"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_LONGEST, _TAIL = 240, 6000
_PATIENCE = 10.0
"""How many times the limit may pass where a process waits, or others have the processors."""


class Ended(Exception):
    """The process has died or was ended because it took too long, or what was asked for has failed.

    Attributes
    ----------
    trace : str
        What the process has said of it.
    """

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


class Conversation:
    """A process that answers.

    Parameters
    ----------
    python : Path
        The interpreter of the environment.
    under : str
        ``warp`` or ``diffkern``.
    work : str
        What it does, as ``child.py`` has it.
    cache : Path
        Where compiled programs are kept.
    limit : float
        Seconds of processor time between two lines that it says, as other work of the machine shall not decide; of time
        ten times as many.
    """

    def __init__(self, python: Path, under: str, work: str, cache: Path, limit: float) -> None:
        caches = {"WARP_CACHE_PATH": str(cache / "warp"), "DIFFKERN_CACHE_DIR": str(cache / "diffkern")}
        behind = os.environ.get("PYTHONPATH")
        settings = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{behind}" if behind else str(ROOT),
            "PYTHONWARNINGS": "ignore",
            "CUDA_VISIBLE_DEVICES": "",
            "MPLBACKEND": "agg",
        }
        self.limit = limit
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            [python, HERE / "child.py", under, work], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, env={**os.environ, **caches, **settings}, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._process.stdout, selectors.EVENT_READ)
        self._read = b""

    def ask(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the replies to a request.

        Raises
        ------
        Ended
            If the process ends, or says nothing for longer than the limit.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        while "end" not in (reply := json.loads(self._line())):
            if "failed" in reply:
                raise Ended(reply["failed"], reply["trace"])
            yield reply

    def tell(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the only reply to a request."""
        (reply,) = self.ask(request)
        return reply

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        end, begin = time.monotonic() + _PATIENCE * self.limit, processor_time(self._process.pid)
        while b"\n" not in self._read:
            if not self._waiting.select(min(1.0, self.limit)):
                self._check_time(end, begin)
                continue
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                raise self._ended()
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _check_time(self, end: float, begin: float | None) -> None:
        """Raise what says that a line has taken too long."""
        now = processor_time(self._process.pid)
        if begin is None or now is None:  # which this system does not tell
            late, used = time.monotonic() - end + (_PATIENCE - 1) * self.limit, "of time"
        else:
            late, used = now - begin - self.limit, "of processor time"
        if late > 0.0:
            raise Ended(f"Timeout: longer than {self.limit:g} seconds {used}", self._said())
        if time.monotonic() > end:
            raise Ended(f"Timeout: longer than {_PATIENCE * self.limit:g} seconds of time", self._said())

    def _ended(self) -> Ended:
        status = self._process.wait()
        said = self._said()
        lines = [line for line in said.splitlines() if line.strip()]
        return Ended((lines[-1].strip() if lines and status == 1 else f"Died: exit status {status}")[:_LONGEST], said)

    def _said(self) -> str:
        """Return the end of what the process has written to its standard error."""
        self._errors.seek(0)
        return self._errors.read()[-_TAIL:].decode(errors="replace")

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._waiting.close()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()


def processor_time(pid: int) -> float | None:
    """Return the processor time of a process and of its children that have ended; None if it is not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def replies_about(
    python: Path, under: str, work: str, cache: Path, limit: float, request: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the replies about each of several things, in as many processes as it takes.

    A process that dies or takes too long has died of the last thing it has begun; the next one goes on behind it.
    """
    found: list[dict[str, Any]] = []
    names: list[str] = list(request["names"])
    while True:
        begun = None
        done = [reply["name"] for reply in found if "name" in reply]
        found = [reply for reply in found if "name" in reply]  # what is said of a whole module is said again
        left = [name for name in names if name not in done] if work == "modules" else names
        with Conversation(python, under, work, cache, limit) as process:
            try:
                for reply in process.ask({**request, "names": left, "done": done}):
                    if "started" in reply:
                        begun = reply["started"]
                    else:
                        found.append(reply)
                        begun = None
                return found
            except Ended as error:
                if begun is None:
                    found.append({"module": names[0], "error": str(error)})
                    return found
                found.append({"name": begun, "error": str(error)})
