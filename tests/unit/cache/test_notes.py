"""Notes are found again by their names; what is damaged, foreign or not there is none, and costs nothing but time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from diffkern.cache.key import digest
from diffkern.cache.maintenance import artifacts, prune
from diffkern.cache.notes import FOLDER, Notes, sweep_notes
from diffkern.cache.store import Store

KEY, OTHER = digest(b"a text"), digest(b"another")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    notes = Notes(Store(tmp_path / "cache"))
    notes.keep(KEY, b"f", b"first")
    notes.keep(KEY, b"g", b"second one")
    notes.keep(OTHER, b"f", b"third")
    return tmp_path / "cache"


def found(place: Path) -> list[bytes | None]:
    notes = Notes(Store(place))
    return [notes.find(KEY, b"f"), notes.find(KEY, b"g"), notes.find(OTHER, b"f"), notes.find(OTHER, b"g")]


def test_other_processes_find_them(place: Path) -> None:
    assert found(place) == [b"first", b"second one", b"third", None]
    if sys.platform != "win32":
        assert (place / FOLDER).stat().st_mode & 0o777 == 0o700
        assert (place / FOLDER / KEY).stat().st_mode & 0o777 == 0o600
    assert artifacts(place) == []


def test_what_is_cut_off_or_changed_is_none(place: Path) -> None:
    file = place / FOLDER / KEY
    text = file.read_bytes()
    file.write_bytes(text[:-5])  # as a process leaves it that is killed while it writes
    assert found(place)[:2] == [b"first", None]
    Notes(Store(place)).keep(KEY, b"g", b"second one")
    assert found(place)[:2] == [b"first", b"second one"]
    file.write_bytes(text.replace(b"first", b"fIrst"))
    assert found(place)[:2] == [None, b"second one"]
    lines = text.split()
    lines[1], lines[4] = lines[4], lines[1]  # names of each other
    file.write_bytes(b" ".join(lines[:3]) + b"\n" + b" ".join(lines[3:]))
    assert found(place)[:2] == [None, None]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_what_others_can_write_to_is_none(place: Path, tmp_path: Path) -> None:
    (place / FOLDER / KEY).chmod(0o666)
    assert found(place) == [None, None, b"third", None]
    Notes(Store(place)).keep(KEY, b"h", b"x")
    assert b"x" not in (place / FOLDER / KEY).read_bytes().split()
    (place / FOLDER).rename(tmp_path / "elsewhere")
    (place / FOLDER).symlink_to(tmp_path / "elsewhere")
    assert found(place) == [None] * 4


def test_what_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / FOLDER).write_text("a file of somebody")
    for store in (Store(tmp_path / "cache"), Store(None)):
        notes = Notes(store)
        notes.keep(KEY, b"f", b"first")
        assert notes.find(KEY, b"f") == b"first"
    assert (tmp_path / "cache" / FOLDER).read_text() == "a file of somebody"


def test_they_are_removed_by_age(place: Path) -> None:
    os.utime(place / FOLDER / KEY, (1e9, 1e9))
    (place / FOLDER / "mine").write_text("somebody's")
    prune(place, None, 3600.0)
    assert found(place) == [None, None, b"third", None]
    sweep_notes(place, 0.0)
    assert found(place) == [None] * 4
    assert (place / FOLDER / "mine").exists()
    (place / FOLDER / "mine").unlink()
    sweep_notes(place, 0.0)
    assert not (place / FOLDER).exists()
    sweep_notes(place / "nowhere", 0.0)


def test_they_count_as_used_when_they_are_read(place: Path) -> None:
    os.utime(place / FOLDER / KEY, (1e9, 1e9))
    assert found(place)[0] == b"first"
    assert (place / FOLDER / KEY).stat().st_mtime > 1e9
