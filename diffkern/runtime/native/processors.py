"""The number of processors this process may use: those it may run on, and no more than its control groups pay for.

A container with a quota of 2 processors on a machine of 64 has 2: with 64 threads the kernel would stop all of them for
most of every period.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["processors", "quota"]


def processors() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    paid = _paid()
    return available if paid is None else max(1, min(available, paid))


@functools.cache
def _paid() -> int | None:
    """Return the quota at the time of the first call."""
    found = quota()
    return None if found is None else max(1, -int(-found // 1))


def quota(root: Path = Path("/")) -> float | None:
    """Return the number of processors that the control groups pay for: the least, of the own and surrounding groups.

    Parameters
    ----------
    root : Path, optional
        The root of the system's files.

    Returns
    -------
    float or None
        None without a limit, or where nothing is known of one.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except (OSError, ValueError):
        return None
    limits = [limit for folder, is_unified in _folders(groups, mounts, root) for limit in _limits(folder, is_unified)]
    return min(limits, default=None)


def _folders(groups: list[str], mounts: list[str], root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of the group of this process and of surrounding ones, each with whether it is of version 2."""
    paths = [
        (names.split(","), path) for _, names, path in (line.split(":", 2) for line in groups if line.count(":") > 1)
    ]
    for line in mounts:
        fields, _, described = line.partition(" - ")
        parts, kind = fields.split(), described.split()
        if len(parts) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        is_unified = kind[0] == "cgroup2"
        if not is_unified and "cpu" not in kind[2].split(","):
            continue
        wanted = "" if is_unified else "cpu"
        for names, path in paths:
            if wanted in names:
                yield from ((folder, is_unified) for folder in _around(root, parts[3], parts[4], path))


def _around(root: Path, mounted: str, at: str, path: str) -> Iterator[Path]:
    """Yield the folder of a group and of surrounding ones, as far as they are mounted; the mounted one is the last."""
    try:
        own = PurePosixPath(path).relative_to(mounted)
    except ValueError:  # the group is outside of what is mounted here, as in a container without a namespace
        own = PurePosixPath()
    # A limit of any surrounding group holds for this one too.
    top = root / at.lstrip("/")
    yield from (top / folder for folder in (own, *own.parents) if ".." not in folder.parts)


def _limits(folder: Path, is_unified: bool) -> Iterator[float]:
    try:
        if is_unified:
            most, period = (folder / "cpu.max").read_text().split()
        else:
            most, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        if most != "max" and int(most) > 0 and int(period) > 0:
            yield int(most) / int(period)
    except (OSError, ValueError):  # the topmost group has none
        return
