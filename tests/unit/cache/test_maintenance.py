"""Looking after a cache directory, and telling why keys differ."""

from __future__ import annotations

import os
import sys
import time

import pytest

from diffkern.cache.entries import publish, sweep
from diffkern.cache.key import key
from diffkern.cache.maintenance import artifacts, copy_artifacts, find, prune, remove
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.cli.cache import differences, nearest, shown
from diffkern.contracts.manifest import Manifest


def entry(title: str, size: int = 1000) -> StoredArtifact:
    return StoredArtifact(
        b"o" * size, ("f",), "source", Manifest(1, 1.0, (), title=title, target="native"), {"types": title}
    )


@pytest.fixture
def directory(tmp_path):
    store = Store(tmp_path / "cache")
    for k in range(4):
        name = key([("k", b"%d" % k)])
        store.put(name, entry(f"kernel {k}"))
        used = time.time() - 3600 * (10 - k)
        os.utime(tmp_path / "cache" / name[:2] / name / "manifest.json", (used, used))
    return tmp_path / "cache"


def titles(directory):
    return [artifact.title for artifact in artifacts(directory)]


def test_a_list(directory):
    found = artifacts(directory)
    assert [a.title for a in found] == [f"kernel {k}" for k in range(4)]
    assert all(a.size > 1000 and a.target == "native" and a.ingredients == {"types": a.title} for a in found)
    assert find(directory, found[2].key[:10]) == found[2]
    with pytest.raises(LookupError, match="no artifact"):
        find(directory, "zz")
    with pytest.raises(LookupError, match="more digits"):
        find(directory, "")


def test_a_damaged_manifest_is_listed_and_can_be_removed(directory):
    artifact = artifacts(directory)[0]
    for content in ("{KEY", "[{KEY}]", "{KEY}", '{KEY, "program": 3, "ingredients": {}}'):
        text = content.replace("KEY", f'"key": "{artifact.key}"')
        (artifact.place / "manifest.json").write_text(text)
        assert titles(directory)[0] == "damaged"
    assert remove(artifacts(directory))[0] == 4
    assert titles(directory) == []


def test_prune_by_age(directory):
    assert prune(directory, None, 8.5 * 3600)[0] == 2
    assert titles(directory) == ["kernel 2", "kernel 3"]


def test_prune_by_size_takes_the_least_recently_used(directory):
    size = artifacts(directory)[0].size
    assert prune(directory, 2 * size + 10, None)[0] == 2
    assert titles(directory) == ["kernel 2", "kernel 3"]
    assert prune(directory, 0, None)[0] == 2


def test_use_is_recorded(directory):
    oldest = artifacts(directory)[0]
    assert Store(directory).get(oldest.key) is not None
    assert artifacts(directory)[0].used > oldest.used + 3600


def test_leftovers_are_swept(directory):
    leftover = directory / "ab"
    leftover.mkdir()
    (leftover / ".new-x").mkdir()
    sweep(directory, 3600.0)
    assert (leftover / ".new-x").exists()
    sweep(directory, -1.0)
    assert not (leftover / ".new-x").exists()


def test_an_artifact_that_is_still_being_written_is_none_yet(directory, tmp_path):
    place = artifacts(directory)[0].place
    place.rename(place.with_name(".new-x"))
    assert titles(directory) == ["kernel 1", "kernel 2", "kernel 3"]
    assert prune(directory, 0, None)[0] == 3
    assert copy_artifacts(directory, Store(tmp_path / "copy")) == (0, 0)
    assert (place.with_name(".new-x") / "kernel.o").exists()


def test_copies_are_verified(directory, tmp_path):
    (artifacts(directory)[1].place / "kernel.o").write_bytes(b"other")
    destination = Store(tmp_path / "copy")
    assert copy_artifacts(directory, destination) == (3, 1)
    assert titles(tmp_path / "copy") == ["kernel 0", "kernel 2", "kernel 3"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_published_artifacts_can_be_read_by_all_and_written_by_the_owner(directory):
    publish(directory, True)
    modes = {path.stat().st_mode & 0o777 for path in [directory, *directory.glob("??/**/*")]}
    assert modes == {0o755, 0o644}
    assert Store(directory).get(artifacts(directory)[0].key) is not None


def test_differences_name_the_ingredient_and_show_the_place():
    a = {"types": "float32", "tree": "x" * 200 + "0.1" + "y" * 200, "gone": "1"}
    b = {"types": "float32", "tree": "x" * 200 + "0.2" + "y" * 200, "new": "2"}
    lines = differences(a, b)
    assert lines[0] == "tree:"
    assert "0.1yyy" in lines[1]
    assert "0.2yyy" in lines[2]
    assert lines[3:] == ["gone:", "  - 1", "  + (not there)", "new:", "  - (not there)", "  + 2"]
    assert differences(a, a) == []


def test_the_nearest_artifact_has_the_fewest_differences():
    of = {"a": "1", "b": "2", "c": "3", "d": "4"}
    assert nearest(of, {"far": {**of, "a": "0", "b": "0"}, "near": {**of, "a": "0"}}) == "near"
    assert nearest(of, {"other": {"x": "1"}}) is None


def test_long_values_are_cut():
    assert shown("short") == "short"
    assert shown("x" * 500).endswith("… (500 characters)")
