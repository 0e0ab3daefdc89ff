"""The store: what is written comes back; what is damaged, foreign or unwritable does no harm."""

from __future__ import annotations

import json
import os
import random
import stat
import sys
import threading
import warnings

import pytest

from diffkern.cache.entries import contents
from diffkern.cache.key import digest, key
from diffkern.cache.manifest import StoredArtifact, parse
from diffkern.cache.store import NoDirectoryError, Store, default_directory
from diffkern.contracts.manifest import Manifest

ENTRY = StoredArtifact(
    b"\x7fELF object", ("dk_a", "dk_a_finish"), "def f(): …\n", Manifest(1, 2.5, (), sites=1), {"types": "float32"}
)
KEY = key([("a", b"b")])
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
not_as_root = pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root may write anywhere")


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "cache"


def test_what_is_put_is_got_also_by_another_process(directory):
    Store(directory).put(KEY, ENTRY)
    assert Store(directory).get(KEY) == ENTRY
    assert [entry.key for entry in contents(directory).entries] == [KEY]


def test_nothing_there(directory):
    assert Store(directory).get(KEY) is None
    assert not directory.exists()


CUBIN = StoredArtifact(
    b"\x7fELF cubin",
    ("dk_a",),
    "",
    Manifest(1, 1.0, (), target="sm_90"),
    {},
    "kernel.cubin",
    {"kernel.ptx": b".ptx", "kernel.ltoir": b"l"},
)


def test_a_cubin_and_what_it_was_made_of(directory):
    Store(directory).put(KEY, CUBIN)
    assert Store(directory).get(KEY) == CUBIN
    place = directory / KEY[:2] / KEY
    assert {path.name for path in place.iterdir()} == {
        "kernel.cubin",
        "kernel.ltoir",
        "kernel.ptx",
        "manifest.json",
        "source.py",
    }
    (place / "kernel.ptx").write_bytes(b".ptY")
    assert Store(directory).get(KEY) is None


def test_a_manifest_cannot_name_other_files(directory, tmp_path):
    Store(directory).put(KEY, ENTRY)
    (tmp_path / "secret").write_text("secret")
    path = directory / KEY[:2] / KEY / "manifest.json"
    content = json.loads(path.read_text())
    content["sha256"]["../../../secret"] = digest(b"secret")
    del content["digest"]
    text = json.dumps(content, indent=1).removesuffix("\n}")
    path.write_text(f'{text},\n "digest": "{digest(text.encode())}"\n}}\n')
    assert parse(path.read_bytes())["key"] == KEY
    assert Store(directory).get(KEY) is None


@posix_only
def test_the_directory_is_private(directory):
    Store(directory).put(KEY, ENTRY)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_manifest_is_readable_json(directory):
    Store(directory).put(KEY, ENTRY)
    content = json.loads((directory / KEY[:2] / KEY / "manifest.json").read_text())
    assert content["key"] == KEY
    assert content["ingredients"] == {"types": "float32"}
    assert content["program"] == {"tid_arity": 1, "cost": 2.5, "params": [], "sites": 1}
    assert set(content["sha256"]) == {"kernel.o", "source.py"}


@pytest.mark.parametrize("name", ["manifest.json", "kernel.o", "source.py"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "missing"])
def test_damage_is_noticed_and_repaired(directory, name, damage):
    store = Store(directory)
    store.put(KEY, ENTRY)
    path = directory / KEY[:2] / KEY / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flip":
        position = data.index(b":") if name == "manifest.json" else 3
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "truncate" else b"")
    assert Store(directory).get(KEY) is None
    store.put(KEY, ENTRY)
    assert Store(directory).get(KEY) == ENTRY
    assert not list(directory.glob("**/.new-*"))


def test_an_entry_under_another_key_is_foreign(directory):
    Store(directory).put(KEY, ENTRY)
    other = KEY[:2] + "0" * 62
    os.rename(directory / KEY[:2] / KEY, directory / KEY[:2] / other)
    assert Store(directory).get(other) is None


@pytest.mark.parametrize("content", ["[]", "{}", "null", '{"format": 4}', "\xff"])
def test_a_manifest_of_another_kind(directory, content):
    Store(directory).put(KEY, ENTRY)
    (directory / KEY[:2] / KEY / "manifest.json").write_text(content, encoding="latin-1")
    assert Store(directory).get(KEY) is None


def test_a_directory_that_cannot_be_made_costs_one_warning(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = Store(blocked / "cache")
    with pytest.warns(RuntimeWarning, match="kept in memory"):
        store.put(KEY, ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(key([]), ENTRY)
        assert store.get(KEY) == ENTRY


@posix_only
@not_as_root
def test_a_read_only_directory_is_read(directory):
    Store(directory).put(KEY, ENTRY)
    directory.chmod(0o500)
    try:
        store = Store(directory)
        assert store.get(KEY) == ENTRY
        with pytest.warns(RuntimeWarning, match="kept in memory"):
            store.put(key([]), ENTRY)
        assert store.get(key([])) == ENTRY
    finally:
        directory.chmod(0o700)


@posix_only
def test_a_directory_that_others_can_write_to_is_not_used(directory):
    Store(directory).put(KEY, ENTRY)
    directory.chmod(0o777)
    store = Store(directory)
    with pytest.warns(RuntimeWarning, match="others can write"):
        assert store.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY


def test_many_writers_of_one_key(directory):
    stores = [Store(directory) for _ in range(8)]
    threads = [threading.Thread(target=store.put, args=(KEY, ENTRY)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Store(directory).get(KEY) == ENTRY
    assert not list(directory.glob("**/.new-*"))


def test_the_default_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("DIFFKERN_CACHE_DIR")
    assert "diffkern" in default_directory().parts


def test_no_flipped_bit_is_believed(directory):
    """Thousands of single and double bit flips in every file: what is returned is the entry or nothing."""
    rng = random.Random(11)
    for entry in (ENTRY, CUBIN):
        Store(directory).put(KEY, entry)
        for path in sorted((directory / KEY[:2] / KEY).iterdir()):
            data = path.read_bytes()
            flips = [(bit,) for bit in range(8 * len(data))]
            flips += [(rng.randrange(8 * len(data)), rng.randrange(8 * len(data))) for _ in range(300) if data]
            for bits in flips:
                changed = bytearray(data)
                for bit in bits:
                    changed[bit // 8] ^= 1 << bit % 8
                path.write_bytes(changed)
                assert Store(directory).get(KEY) == (entry if changed == data else None), (path.name, bits)
            path.write_bytes(data)
        assert Store(directory).get(KEY) == entry


@pytest.mark.parametrize("more", [b"x", b"\n", b"\x00"])
def test_nothing_may_follow_or_precede_a_manifest(directory, more):
    Store(directory).put(KEY, ENTRY)
    path = directory / KEY[:2] / KEY / "manifest.json"
    data = path.read_bytes()
    for changed in (data + more, more + data):
        path.write_bytes(changed)
        assert Store(directory).get(KEY) is None


PARTS = ["", KEY[:2], f"{KEY[:2]}/{KEY}", *(f"{KEY[:2]}/{KEY}/{n}" for n in ("manifest.json", "kernel.o", "source.py"))]


@posix_only
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_what_others_can_write_to_is_not_loaded(directory, part, mode):
    Store(directory).put(KEY, ENTRY)
    (directory / part).chmod(mode)
    store = Store(directory)
    with pytest.warns(RuntimeWarning, match="others can write"):
        assert store.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY
    if part.count("/"):  # the entry itself was replaced, by one that is private
        assert Store(directory).get(KEY) == ENTRY


@posix_only
@pytest.mark.parametrize("part", PARTS[1:])
def test_what_belongs_to_others_is_not_loaded(directory, part, monkeypatch):
    Store(directory).put(KEY, ENTRY)
    theirs, fstat = (directory / part).stat().st_ino, os.fstat

    def owned(descriptor):
        status = fstat(descriptor)
        if status.st_ino != theirs:
            return status
        return os.stat_result([*status[:4], os.geteuid() + 1, *status[5:]])

    monkeypatch.setattr(os, "fstat", owned)
    with pytest.warns(RuntimeWarning, match="others can write"):
        assert Store(directory).get(KEY) is None


@posix_only
def test_the_directory_may_be_a_link(directory, tmp_path):
    Store(directory).put(KEY, ENTRY)
    (tmp_path / "link").symlink_to(directory)
    assert Store(tmp_path / "link").get(KEY) == ENTRY


@posix_only
@pytest.mark.parametrize("part", PARTS[1:])
def test_links_inside_of_the_directory_are_not_followed(directory, tmp_path, part):
    Store(directory).put(KEY, ENTRY)
    elsewhere = tmp_path / "elsewhere"
    (directory / part).rename(elsewhere)
    (directory / part).symlink_to(elsewhere)
    store = Store(directory)
    assert store.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY
    assert elsewhere.exists()
    assert elsewhere.is_file() or list(elsewhere.iterdir())


@posix_only
def test_a_pipe_in_the_place_of_a_file_does_not_block(directory):
    Store(directory).put(KEY, ENTRY)
    path = directory / KEY[:2] / KEY / "kernel.o"
    path.unlink()
    os.mkfifo(path)
    assert Store(directory).get(KEY) is None


@posix_only
def test_files_are_private_whatever_the_umask(directory):
    before = os.umask(0)
    try:
        Store(directory).put(KEY, ENTRY)
    finally:
        os.umask(before)
    assert Store(directory).get(KEY) == ENTRY
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in directory.rglob("*")} == {0}


def test_building_leaves_nothing_behind(directory):
    with Store(directory).building(KEY):
        assert list(directory.iterdir())
    assert not list(directory.iterdir())


def test_a_relative_directory_is_found_once(monkeypatch, tmp_path):
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", f"relative-{tmp_path.name}")
    monkeypatch.chdir(tmp_path)
    first = default_directory()
    assert first == tmp_path / f"relative-{tmp_path.name}"
    monkeypatch.chdir("/")
    assert default_directory() == first


def test_a_home_that_is_not_there(monkeypatch):
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", "~no-such-user-as-this/cache")
    with pytest.raises(NoDirectoryError, match="no-such-user-as-this"):
        default_directory()


def test_memory_alone():
    store = Store(None)
    assert store.get(KEY) is None
    with store.building(KEY):
        store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY
    assert not store.is_writable()
