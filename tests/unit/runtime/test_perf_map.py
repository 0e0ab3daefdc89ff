"""The map of machine code that perf reads."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import diffkern as dk
from diffkern.runtime.native import perf_map

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux's")


def new_kernel() -> dk.Kernel:
    """A kernel whose program is not in memory yet."""

    @dk.kernel
    def sum_of_squares(x: dk.array(dtype=float), total: dk.array(dtype=float)):
        i = dk.tid()
        dk.atomic_add(total, 0, x[i] * x[i])

    dk.launch(sum_of_squares, dim=100, inputs=[dk.ones(100, dtype=float)], outputs=[dk.zeros(1, dtype=float)])
    return sum_of_squares


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(perf_map, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(perf_map, "_written", [])
    monkeypatch.setattr(dk.config, "perf_map", True)
    return tmp_path


def entries(folder: Path) -> dict[str, tuple[int, int]]:
    text = (folder / f"perf-{os.getpid()}.map").read_text()
    found = {}
    for line in text.splitlines():
        address, size, name = line.split(" ", 2)
        found[name] = int(address, 16), int(size, 16)
    return found


def test_kernels_stand_in_the_map_with_address_and_size(folder: Path) -> None:
    (program,) = new_kernel().programs.values()
    found = entries(folder)
    title = program.manifest.title
    assert "sum_of_squares" in title
    address, size = found[f"diffkern {title}"]
    assert address == program.address
    assert 16 < size < 100_000
    finish, _ = found[f"diffkern {title}_finish"]
    assert finish == program.finish


def test_functions_do_not_overlap(folder: Path) -> None:
    new_kernel()
    spans = sorted(entries(folder).values())
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(spans))


def test_without_the_setting_nothing_is_written(folder: Path) -> None:
    dk.config.perf_map = False
    new_kernel()
    assert not list(folder.iterdir())


def test_a_map_that_cannot_be_written_is_said_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_map, "_FOLDER", str(folder / "missing"))
    with pytest.warns(UserWarning, match="no map for perf"):
        perf_map.note(b"", {}, "")
    assert not dk.config.perf_map


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_map_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_map, "_written", ["10 20 diffkern f\n"])
    monkeypatch.setattr(os, "getpid", lambda: 77)
    perf_map._after_fork()
    assert (folder / "perf-77.map").read_text() == "10 20 diffkern f\n"


def pipe(path: Path, other: Path) -> None:
    os.mkfifo(path)


def read_pipe(path: Path, other: Path) -> None:
    """A pipe that somebody reads, so that it could be written to."""
    os.mkfifo(path)
    os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def hard_link(path: Path, other: Path) -> None:
    other.write_text("mine")
    path.hardlink_to(other)


def link(path: Path, other: Path) -> None:
    other.write_text("mine")
    path.symlink_to(other)


def folder_in_its_place(path: Path, other: Path) -> None:
    path.mkdir()


def of_another_user(path: Path, other: Path) -> None:
    path.write_text("theirs")
    os.chown(path, 54321, -1)


OBSTACLES = [
    (pipe, "cannot be written"), (read_pipe, "is no regular file"), (hard_link, "other names as well"),
    (link, "cannot be written"), (folder_in_its_place, "cannot be written"),
    pytest.param(
        of_another_user, "belongs to another user",
        marks=pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("put", "reason"), OBSTACLES)
def test_what_others_have_put_there_is_neither_written_to_nor_waited_for(folder: Path, put: Any, reason: str) -> None:
    path, other = folder / f"perf-{os.getpid()}.map", folder / "other"
    put(path, other)
    before = path.lstat()
    with pytest.warns(UserWarning, match=f"no map for perf: .*{reason}"):
        perf_map._append("10 20 diffkern f\n")
    assert not dk.config.perf_map
    after = path.lstat()
    assert (after.st_mode, after.st_size, after.st_ino) == (before.st_mode, before.st_size, before.st_ino)
    assert not other.exists() or other.read_text() == "mine"
