"""Everything that a developer can run on a commit, in pieces that can be resumed: ``.ci/nightly SECONDS``.

The pieces are the files of tests with the cases marked ``full``, the tests for a GPU on executed PTX by both compilers,
random programs, wrong programs and programs of remembered launches drawn from the commit, the suite with lanes forced
on and off, published benchmarks of which ``DIFFKERN_OUTSIDE`` has checkouts, and a part of the suite with the least
versions of all dependencies.
What a piece found stays in ``.nightly/COMMIT``; the next call on the same tree goes on with the pieces that are left.
The exit status is 1 if anything has failed so far.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RANDOM_PROGRAMS = 10_000
WRONG_PROGRAMS = 4_000
REMEMBERED_PROGRAMS = 1_000
"""On each device."""
_PROGRAMS_OF_A_PIECE = 250
_FILES_OF_A_PIECE = 6
_FAULTS = "tests/mutation/test_faults.py"
"""Takes as long as all the others together: each seeded fault runs tests in processes."""
_PARTS_OF_FAULTS = 16
_LANES = ("tests/e2e", "tests/grad", "tests/natural", "tests/interop", "tests/unit/runtime", "tests/unit/targets")
_EXAMPLES = 100
"""Of each property of random kernels."""
_LONGEST = 3600
"""Seconds after which a piece counts as hanging."""
_NO_TESTS = 5
"""Pytest's exit status where no test was selected."""


@dataclass(frozen=True)
class Piece:
    """A command and its name, which is that of the file with its result."""

    name: str
    command: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()


@dataclass
class Result:
    """Result of a piece: its exit status, its seconds, its counts by outcome, and the lines that say what failed."""

    status: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether the piece did not end as it should."""
        return self.status not in (0, _NO_TESTS)


def test_files() -> list[str]:
    """The files of tests, relative to the root."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def pieces(seed: int) -> Iterator[Piece]:
    """All pieces, those of which a failure says most first."""
    yield from _suite("full", [f for f in test_files() if f != _FAULTS], "--full")
    yield from _executed()
    for k in range(_PARTS_OF_FAULTS):
        yield Piece(f"faults-{k:03}", _tests("--full", "--part", f"{k}/{_PARTS_OF_FAULTS}", _FAULTS))
    for device in ("cpu", "cuda:0"):
        for k in range(REMEMBERED_PROGRAMS // _PROGRAMS_OF_A_PIECE):
            drawn = ("--count", str(_PROGRAMS_OF_A_PIECE), "--seed", str(seed + k), "--device", device)
            yield Piece(f"remembered-{device[:4].rstrip(':')}-{k:03}", (*_module("remembered_programs"), *drawn))
    for name, module, total in (
        ("random", "random_programs", RANDOM_PROGRAMS),
        ("wrong", "wrong_programs", WRONG_PROGRAMS),
    ):
        for k in range(total // _PROGRAMS_OF_A_PIECE):
            drawn = ("--count", str(_PROGRAMS_OF_A_PIECE), "--seed", str(seed + k))
            yield Piece(f"{name}-{k:03}", (*_module(module), *drawn))
    for way in ("on", "off"):
        yield from _suite(f"lanes-{way}", [f for f in test_files() if f.startswith(_LANES)], "--lanes", way)
    yield from _outside()
    yield Piece("minimum-000", (sys.executable, "-m", "tox", "-q", "-e", "minimum"))


def _executed() -> Iterator[Piece]:
    """The tests for a GPU where PTX is interpreted, each file by each compiler."""
    for compiler in ("llvm", "numba"):
        settings = (("DIFFKERN_FAKE_GPU", "ptx"), ("DIFFKERN_CUDA_COMPILER", compiler))
        for file in test_files():
            if file.startswith("tests/gpu/"):
                name = Path(file).stem.removeprefix("test_")
                yield Piece(f"executed-{compiler}-{name}", _tests("-m", "gpu", file), settings)


def _outside() -> Iterator[Piece]:
    """Published benchmarks, small, beside their committed results: those of which a checkout is given."""
    given = os.environ.get("DIFFKERN_OUTSIDE")
    for path in sorted((ROOT / "benchmarks" / "outside" / "results").glob("*.json") if given else ()):
        if (source := Path(given or "", path.stem)).is_dir():
            command = (sys.executable, "-m", "benchmarks.outside.rerun", path.stem, str(source.resolve()))
            yield Piece(f"outside-{path.stem}", command)


def _suite(name: str, files: Sequence[str], *options: str) -> Iterator[Piece]:
    for k in range(0, len(files), _FILES_OF_A_PIECE):
        part = files[k : k + _FILES_OF_A_PIECE]
        yield Piece(f"{name}-{k // _FILES_OF_A_PIECE:03}", _tests(*options, *part))


def _module(name: str) -> tuple[str, ...]:
    return sys.executable, "-m", f"tests.support.{name}"


def _tests(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *arguments)


def tree() -> tuple[str, int]:
    """A name for the tree as it is, and the seed that its commit gives."""
    commit = _git("rev-parse", "HEAD").strip()
    changes = _git("diff", "HEAD")
    name = commit[:12] if not changes else f"{commit[:12]}-{hashlib.sha256(changes.encode()).hexdigest()[:8]}"
    return name, int(commit[:6], 16)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def run(piece: Piece, seed: int) -> Result:
    """Run a piece."""
    begin = time.monotonic()
    env = {**os.environ, "DIFFKERN_FUZZ_SEED": str(seed), "DIFFKERN_FUZZ_EXAMPLES": str(_EXAMPLES)}
    env |= {"DIFFKERN_REQUIRE_ALL": "1", "MPLBACKEND": "agg", **dict(piece.settings)}
    try:
        done = subprocess.run(
            piece.command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=_LONGEST, check=False,
        )  # fmt: skip
        status, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, text = 124, str(error)
    return read_result(status, text, time.monotonic() - begin)


def read_result(status: int, text: str, seconds: float) -> Result:
    """What the output of pytest or of a campaign of programs says.

    The last line of pytest has the counts of tests; a campaign of programs ends with ``counts`` and JSON.
    """
    lines = text.splitlines()
    found = Result(status, round(seconds, 1))
    if lines and (counts := re.findall(r"(\d+) (passed|failed|skipped|errors?|xfailed|deselected)", lines[-1])):
        found.counts = {what: int(n) for n, what in counts}
        found.failures = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    elif lines and lines[-1].startswith("counts "):
        found.counts = json.loads(lines[-1].removeprefix("counts "))
        found.failures = [line for line in lines if re.match(r"program \d+\b", line)]
    if found.failed and not found.failures:
        found.failures = lines[-5:]
    return found


def summary(results: dict[str, Result], left: int) -> str:
    """The counts by group of pieces, and what failed."""
    lines = []
    for group in dict.fromkeys(name.rpartition("-")[0] for name in results):
        own = [r for name, r in results.items() if name.rpartition("-")[0] == group]
        counts: Counter[str] = Counter()
        for r in own:
            counts.update(r.counts)
        told = ", ".join(f"{n} {what}" for what, n in counts.most_common() if ": " not in what)
        lines.append(f"{group}: {len(own)} pieces, {sum(r.seconds for r in own):.0f} s: {told}")
        lines += [f"  {n:6} {what}" for what, n in counts.most_common() if ": " in what]
    failed = [f"{name}: {line}" for name, r in results.items() if r.failed for line in r.failures]
    return "\n".join([*lines, *failed, f"{left} pieces left, {sum(r.failed for r in results.values())} failed"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run pieces until the time is up."""
    parser = argparse.ArgumentParser(prog=".ci/nightly", description=__doc__)
    parser.add_argument("seconds", type=float, help="after which no piece is begun; 0 prints what is known")
    parser.add_argument("--only", default="", metavar="PREFIX", help="pieces whose names begin so, as full or random")
    parser.add_argument("--again", action="store_true", help="run pieces that have failed once more")
    args = parser.parse_args(arguments)
    end = time.monotonic() + args.seconds
    name, seed = tree()
    folder = ROOT / ".nightly" / name
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = {}
    left = 0
    for piece in pieces(seed):
        if not piece.name.startswith(args.only):
            continue
        place = folder / f"{piece.name}.json"
        known = Result(**json.loads(place.read_text())) if place.exists() else None
        if known is None or (args.again and known.failed):
            if time.monotonic() >= end:
                left += 1
                continue
            known = run(piece, seed)
            place.write_text(json.dumps(asdict(known)))
            print(f"{piece.name}: {known.counts} in {known.seconds} s", *known.failures, sep="\n  ", flush=True)
        results[piece.name] = known
    print(f"\n{name}, seed {seed}\n{summary(results, left)}")
    return int(any(r.failed for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
