"""How many processors a process may use, from files of a system that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffkern.runtime.native import processors as module
from diffkern.runtime.native.processors import processors, quota

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
OTHER = "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
DISK = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"


def system(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    all_files = {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts, **files}
    for name, text in all_files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


CASES = {
    "version 2": ("0::/a", [V2], {"a/cpu.max": "150000 100000"}, 1.5),
    "no limit": ("0::/a", [V2], {"a/cpu.max": "max 100000"}, None),
    "one around it has less": ("0::/a/b", [V2], {"a/cpu.max": "200000 100000", "a/b/cpu.max": "800000 100000"}, 2.0),
    "the mounted one, as in a container": ("0::/", [V2], {"cpu.max": "50000 100000"}, 0.5),
    "outside of what is mounted": (
        "0::/../b", ["30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw"], {"cpu.max": "300000 100000"}, 3.0,
    ),
    "part of a hierarchy is mounted": (
        "0::/docker/1/x", ["30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw"],
        {"x/cpu.max": "400000 100000"}, 4.0,
    ),
    "nothing to read": ("0::/a", [V2], {}, None),
    "nonsense": ("0::/a", [V2], {"a/cpu.max": "much"}, None),
    "no groups": ("", [DISK], {}, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_quotas_of_version_2(tmp_path: Path, case: str) -> None:
    groups, mounts, limits, expected = CASES[case]
    files = {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    assert quota(system(tmp_path, groups, "\n".join([DISK, *mounts]), files)) == expected


@pytest.mark.parametrize(("most", "expected"), [("-1", None), ("250000", 2.5)])
def test_quotas_of_version_1(tmp_path: Path, most: str, expected: float | None) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct/job"
    files = {f"{folder}/cpu.cfs_quota_us": most, f"{folder}/cpu.cfs_period_us": "100000"}
    groups = "5:memory:/job\n3:cpuacct,cpu:/job\n0::/"
    assert quota(system(tmp_path, groups, f"{DISK}\n{OTHER}\n{V1}", files)) == expected


def test_without_files_there_is_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path) is None


@pytest.mark.parametrize(("paid", "expected"), [(None, 8), (3.2, 4), (0.3, 1), (20.0, 8)])
def test_the_quota_counts_and_the_affinity(monkeypatch: pytest.MonkeyPatch, paid: float | None, expected: int) -> None:
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(module, "quota", lambda: paid)
    module._paid.cache_clear()
    try:
        assert processors() == expected
    finally:
        module._paid.cache_clear()
