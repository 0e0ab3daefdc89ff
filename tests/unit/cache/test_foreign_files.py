"""What is not diffkern's stays as it is, whatever lies in a cache directory; what is diffkern's goes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import stat
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from diffkern.cache.entries import LOCK_PREFIX, WORK_PREFIX, contents, publish, remove, sweep
from diffkern.cache.key import digest, key
from diffkern.cache.lock import exclusive
from diffkern.cache.maintenance import artifacts, copy_artifacts, prune
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.place import UnsafeError
from diffkern.cache.store import Store
from diffkern.cli.command import main
from diffkern.compiler.stores import clear_kernel_cache
from diffkern.contracts.manifest import Manifest
from diffkern.runtime.observe.config import config
from diffkern.shipping.ship import load_directory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and links")
is_root = hasattr(os, "geteuid") and os.geteuid() == 0
as_root = pytest.mark.skipif(not is_root, reason="only root gives files away")

OTHER = 54321
LONG_AGO = 1e9


def entry(title: str) -> StoredArtifact:
    return StoredArtifact(
        b"object of " + title.encode(), ("f",), "source", Manifest(1, 1.0, (), title=title), {"types": title}
    )


def snapshot(*roots: Path) -> dict[str, object]:
    """What each file, link and directory is: owner, mode, contents."""
    found: dict[str, object] = {}
    for root in roots:
        for path in (root, *root.rglob("*")):
            status = path.lstat()
            facts: list[object] = [status.st_mode, status.st_uid]
            if stat.S_ISLNK(status.st_mode):
                facts.append(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                facts += [path.read_bytes(), status.st_mtime, status.st_ino]
            found[str(path)] = facts
    return found


class Directory:
    """A cache directory with entries, and whatever else may lie there."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.path, self.outside = folder / "cache", folder / "outside"
        self.outside.mkdir(parents=True)
        self.keys: list[str] = []
        self.own: list[Path] = []
        store = Store(self.path)
        for k in range(self.rng.randrange(1, 5)):
            self.keys.append(key([("k", b"%d %d" % (seed, k))]))
            store.put(self.keys[-1], entry(f"kernel {k}"))
        self.own += [self.place(name) for name in self.keys]
        makers: list[Callable[[], None]] = [
            self.other_manifest, self.other_key, self.short_names, self.entry_elsewhere, self.linked_entry,
            self.linked_parent, self.linked_manifest, self.linked_file, self.inside_of_an_entry, self.similar_names,
            self.leftover, self.leftover_with_more, self.lock, self.similar_locks, self.pipe, self.damaged,
            self.link_as_leftover,
        ]  # fmt: skip
        if is_root:
            makers += [self.entry_of_others, self.file_of_others, self.parent_of_others, self.leftover_of_others]
        makers.append(self.writable_by_others)
        for make in self.rng.sample(makers, self.rng.randrange(3, len(makers))):
            make()
        self.age()

    def place(self, name: str) -> Path:
        return self.path / name[:2] / name

    def fresh(self) -> Path:
        """The path of an entry that is not there."""
        place = self.place(digest(self.rng.randbytes(8)))
        place.parent.mkdir(mode=0o700, exist_ok=True)
        return place

    def put(self, place: Path, name: str) -> Path:
        """An entry of diffkern's for a key, in some place."""
        apart = self.outside / self.rng.randbytes(4).hex()
        Store(apart).put(name, entry("moved"))
        (apart / name[:2] / name).rename(place)
        return place

    def pick(self) -> Path:
        return self.place(self.rng.choice(self.keys))

    def age(self) -> None:
        """Nothing is in use: all of it was last changed long ago."""
        for folder, _, files in os.walk(self.path):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)

    # -- what is somebody else's

    def other_manifest(self) -> None:
        place = self.fresh()
        place.mkdir()
        text = self.rng.choice(["{}", "[]", '{"name": "foreign"}', "", '{"key": 3}', "[" * 5000])
        (place / "manifest.json").write_text(text)
        (place / "data.bin").write_bytes(b"mine")

    def other_key(self) -> None:
        self.put(self.fresh(), key([("other", self.rng.randbytes(4))]))

    def short_names(self) -> None:
        for name in ("ab/theirs", "AB/" + "A" * 64, "zz/" + "z" * 64, "ab/" + "c" * 64, "ab/abc", "ab"):
            place = self.path / name
            place.mkdir(parents=True, exist_ok=True)
            (place / "manifest.json").write_text(json.dumps({"key": place.name}))
            (place / "kernel.o").write_bytes(b"theirs")

    def entry_elsewhere(self) -> None:
        self.put(self.path / key([("top", self.rng.randbytes(4))]), key([]))

    def linked_entry(self) -> None:
        place = self.fresh()
        place.symlink_to(self.put(self.outside / place.name, place.name))

    def linked_parent(self) -> None:
        name = key([("linked", self.rng.randbytes(4))])
        if not (self.path / name[:2]).exists():
            parent = self.outside / f"parent {name[:2]}"
            parent.mkdir(mode=0o700)
            self.put(parent / name, name)
            (self.path / name[:2]).symlink_to(parent)

    def linked_manifest(self) -> None:
        place = self.fresh()
        self.put(place, place.name)
        (place / "manifest.json").rename(self.outside / place.name)
        (place / "manifest.json").symlink_to(self.outside / place.name)

    def similar_names(self) -> None:
        (self.path / "README").write_text("mine")
        (self.path / "ab").mkdir(exist_ok=True)
        for name in ("manifest.json", f"{WORK_PREFIX}file", f"{WORK_PREFIX}{'0' * 16}"):
            if not (self.path / "ab" / name).exists():
                (self.path / "ab" / name).write_text("mine")
        (self.path / "ab" / f"{WORK_PREFIX}notes").mkdir()
        (self.path / "ab" / f"{WORK_PREFIX}notes" / "source.py").write_text("mine")

    def similar_locks(self) -> None:
        (self.path / f"{LOCK_PREFIX}mine").write_text("")
        (self.path / f"{LOCK_PREFIX}{'a' * 64}").mkdir()
        (self.path / f"{LOCK_PREFIX}{'b' * 64}").symlink_to(self.outside)

    def pipe(self) -> None:
        place = self.fresh()
        place.mkdir()
        os.mkfifo(place / "manifest.json")

    def link_as_leftover(self) -> None:
        (self.outside / "work").mkdir()
        (self.outside / "work" / "kernel.o").write_bytes(b"theirs")
        (self.fresh().parent / f"{WORK_PREFIX}{self.rng.randbytes(8).hex()}").symlink_to(self.outside / "work")

    # -- what launches refuse

    def entry_of_others(self) -> None:
        place = self.fresh()
        os.chown(self.put(place, place.name), OTHER, -1)

    def file_of_others(self) -> None:
        place = self.fresh()
        self.put(place, place.name)
        os.chown(place / self.rng.choice(["manifest.json", "kernel.o", "source.py"]), OTHER, -1)

    def parent_of_others(self) -> None:
        place = self.fresh()
        if place.parent not in [own.parent for own in self.own]:
            self.put(place, place.name)
            os.chown(place.parent, OTHER, -1)

    def leftover_of_others(self) -> None:
        work = self.fresh().parent / f"{WORK_PREFIX}{self.rng.randbytes(8).hex()}"
        work.mkdir()
        (work / "kernel.o").write_bytes(b"theirs")
        os.chown(work, OTHER, -1)

    def writable_by_others(self) -> None:
        place = self.fresh()
        self.put(place, place.name).chmod(0o777)

    # -- what is diffkern's, with something else about it

    def inside_of_an_entry(self) -> None:
        place = self.pick()
        (place / "notes.txt").write_text("mine")
        (place / "more").mkdir(exist_ok=True)
        (place / "more" / "kernel.o").write_bytes(b"mine")

    def linked_file(self) -> None:
        file = self.pick() / "kernel.o"
        if not file.is_symlink():
            file.rename(self.outside / f"kernel of {file.parent.name}")
            file.symlink_to(self.outside / f"kernel of {file.parent.name}")

    def damaged(self) -> None:
        file = self.pick() / "manifest.json"
        file.write_bytes(file.read_bytes()[:200])

    def leftover(self) -> None:
        work = self.fresh().parent / f"{WORK_PREFIX}{self.rng.randbytes(8).hex()}{self.rng.choice(['', '.old'])}"
        work.mkdir()
        for name in self.rng.sample(["kernel.o", "source.py", "manifest.json"], self.rng.randrange(3)):
            (work / name).write_text("half")
        self.own.append(work)

    def leftover_with_more(self) -> None:
        work = self.fresh().parent / f"{WORK_PREFIX}{self.rng.randbytes(8).hex()}"
        work.mkdir()
        (work / "kernel.o").write_text("half")
        (work / "notes.txt").write_text("mine")
        self.own.append(work)

    def lock(self) -> None:
        lock = self.path / f"{LOCK_PREFIX}{digest(self.rng.randbytes(4))}"
        lock.touch(mode=0o600)
        self.own.append(lock)

    # -- what there is

    def foreign(self) -> dict[str, object]:
        """All that is not diffkern's. A directory inside of which something else lies stays for that."""
        names = {"kernel.o", "source.py", "manifest.json"}
        gone = {str(path) for own in self.own for path in (own, *(own / name for name in names))}
        return {
            path: facts for path, facts in snapshot(self.path, self.outside).items()
            if path not in gone and not self.is_parent(path)
        }  # fmt: skip

    def is_parent(self, path: str) -> bool:
        """Directories of entries go with the last one, and are shared with whatever else lies there."""
        return path in {str(own.parent) for own in self.own if own.parent != self.path} and not os.path.islink(path)

    def left(self) -> list[Path]:
        """What is diffkern's and should be gone."""
        own = {file for own in self.own for file in (own, own / "kernel.o", own / "source.py", own / "manifest.json")}
        return [path for path in own if os.path.lexists(path) and not (path.is_dir() and any(path.iterdir()))]


@pytest.fixture
def run(monkeypatch, capsys):
    def run(directory: Path, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(directory))
        monkeypatch.setattr(config, "cache_dir", None)
        status = main(["cache", *arguments])
        out, err = capsys.readouterr()
        return status, out + err

    return run


COMMANDS = (("clear",), ("prune", "--age", "1d"), ("prune", "--size", "0B"))


@pytest.mark.parametrize("seeds", [range(k, 100, 4) for k in range(4)], ids=str)
def test_nothing_foreign_is_touched_and_all_else_is_cleared(seeds, tmp_path, run):
    for seed in seeds:
        directory = Directory(tmp_path / str(seed), seed)
        before = directory.foreign()
        status, said = run(directory.path, *COMMANDS[seed % 3])
        assert status == 0, said
        assert f"removed {len(directory.keys)} artifact" in said, (seed, said)
        assert directory.foreign() == before, seed
        assert directory.left() == [], seed


@pytest.mark.parametrize("seed", range(4))
def test_what_is_published_is_diffkerns(seed, tmp_path):
    directory = Directory(tmp_path, seed)
    before = directory.foreign()
    publish(directory.path, False)
    assert directory.foreign() == before
    for name in directory.keys:
        modes = {file.name: file.lstat().st_mode & 0o777 for file in directory.place(name).iterdir()}
        assert modes["manifest.json"] == 0o644
        assert directory.place(name).stat().st_mode & 0o777 == 0o755


def test_the_mode_of_a_file_that_has_another_name_stays(tmp_path):
    directory = Directory(tmp_path, 0)
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    theirs.chmod(0o600)
    (directory.place(directory.keys[0]) / "kernel.ptx").hardlink_to(theirs)
    publish(directory.path, False)
    assert theirs.stat().st_mode & 0o777 == 0o600


def unused(path: Path) -> None:
    path.chmod(0o777)


def given_away(path: Path) -> None:
    os.chown(path, OTHER, -1)


REFUSED = [unused, pytest.param(given_away, marks=as_root)]


@pytest.mark.parametrize("spoil", REFUSED)
@pytest.mark.parametrize("command", [*COMMANDS, ("info",), ("list",), ("why", "a")], ids=" ".join)
def test_directories_that_launches_refuse_are_refused(spoil, command, tmp_path, run):
    directory = Directory(tmp_path, 0)
    spoil(directory.path)
    before = snapshot(tmp_path)
    status, said = run(directory.path, *command)
    assert status == 2
    assert "others can write to it; make it yours" in said
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("spoil", REFUSED)
def test_functions_refuse_them_too(spoil, tmp_path, monkeypatch):
    directory = Directory(tmp_path, 0)
    spoil(directory.path)
    before = snapshot(tmp_path)
    for call in (
        lambda: artifacts(directory.path),
        lambda: remove(directory.place(directory.keys[0])),
        lambda: sweep(directory.path, 0.0),
        lambda: prune(directory.path, 0, None),
        lambda: publish(directory.path, True),
        lambda: copy_artifacts(directory.path, Store(tmp_path / "copy")),
        lambda: load_directory(directory.path),
    ):
        with pytest.raises(PermissionError, match="others can write to it"):
            call()
    monkeypatch.setattr(config, "cache_dir", directory.path)
    with pytest.warns(RuntimeWarning, match="others can write to it"):
        assert clear_kernel_cache() == 0
    assert snapshot(tmp_path) == before


@as_root
@pytest.mark.parametrize("above", [False, True])
def test_a_link_of_another_user_does_not_lead_to_what_is_removed(above, tmp_path, run):
    directory = Directory(tmp_path / "real", 0)
    link = tmp_path / "link"
    link.symlink_to(directory.path.parent if above else directory.path)
    place = link / "cache" if above else link
    os.chown(link, OTHER, -1, follow_symlinks=False)
    before = snapshot(tmp_path)
    for call in (lambda: remove(place / directory.keys[0][:2] / directory.keys[0]), lambda: publish(place, True)):
        with pytest.raises(UnsafeError, match=f"the link {link} belongs to another user"):
            call()
    status, said = run(place, "clear")
    assert (status, snapshot(tmp_path)) == (2, before)
    assert "belongs to another user" in said
    os.chown(link, 0, -1, follow_symlinks=False)
    assert run(place, "clear")[0] == 0
    assert not [name for name in directory.keys if directory.place(name).joinpath("manifest.json").exists()]


@as_root
def test_an_entry_of_another_user_is_named(tmp_path, run):
    directory = Directory(tmp_path, 1)
    for name in directory.keys:
        os.chown(directory.place(name), OTHER, -1)
    status, said = run(directory.path, "clear")
    assert status == 0
    assert "removed 0 artifacts" in said
    assert f"left as it is: {directory.place(directory.keys[0])} is not used, because others can write to it" in said
    with pytest.raises(PermissionError, match=rf"{directory.path}.*others can write to it"):
        load_directory(directory.path)


def test_a_lock_that_is_held_is_left(tmp_path):
    directory = Directory(tmp_path, 0)
    path = directory.path / f"{LOCK_PREFIX}{'d' * 64}"
    with exclusive(str(path), 0.0) as held:
        assert held
        sweep(directory.path, -1.0)
        assert path.exists()
    assert not path.exists()


def test_a_lock_file_is_no_pipe_and_no_link(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("pipe", "link"):
        with exclusive(str(tmp_path / name), 0.0) as held:
            assert not held
    assert not (tmp_path / "target").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY], ids=errno.errorcode.get)
def test_what_others_do_meanwhile_is_tried_again(tmp_path, monkeypatch, number):
    """Another process may put its entry there between a look and a rename."""
    store, name, failures = Store(tmp_path), key([("k", b"1")]), [True, True]
    store.put(name, entry("old"))

    def replaced(source: str, goal: str) -> None:
        if failures:
            failures.pop()
            raise OSError(number, os.strerror(number), source, None, goal)
        replace(source, goal)

    replace = os.replace
    monkeypatch.setattr(os, "replace", replaced)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put(name, entry("new"))
    assert not store._memory
    assert Store(tmp_path).get(name) == entry("new")


def test_a_cache_is_cleared_while_others_write(tmp_path):
    """Nothing fails or warns, and what is there at the end is whole."""
    names = [key([("k", b"%d" % k)]) for k in range(6)]
    names = [names[0][:2] + name[2:] for name in names]  # in one directory, that is made and removed again and again
    done, errors = threading.Event(), []

    def write(seed: int) -> None:
        rng, store = random.Random(seed), Store(tmp_path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                while not done.is_set():
                    name = rng.choice(names)
                    store.put(name, entry("written"))
                    assert store.get(name) in (None, entry("written"))
                assert not store._memory
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            for found in contents(tmp_path).entries:
                remove(found.place)
            sweep(tmp_path, -1.0)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []
    for found in contents(tmp_path).entries:
        assert Store(tmp_path).get(found.key) is not None
    sweep(tmp_path, -1.0)
    assert not list(tmp_path.glob(f"??/{WORK_PREFIX}*"))


def test_a_directory_that_is_removed_is_made_again(tmp_path):
    """While the process runs, between any two of its calls."""
    store, name = Store(tmp_path / "a" / "cache"), key([])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(3):
            with store.building(name):
                assert list(store.directory.glob(f"{LOCK_PREFIX}*")), "there is a lock again"
                store.put(name, entry(f"kernel {k}"))
            assert Store(store.directory).get(name) == entry(f"kernel {k}")
            assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
            for part in (store.directory.parent, store.directory)[k % 2 :]:
                _remove_tree(part)
                assert store.get(name) is None
        store.put(name, entry("kernel"))
    assert not store._memory
    _remove_tree(store.directory)
    store.directory.mkdir()
    store.directory.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others can write to it"):
        store.put(name, entry("kernel"))
    assert not list(store.directory.iterdir())


def _remove_tree(path: Path) -> None:
    for folder, _, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder, name))
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(folder)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, '{"format": 4, "key": ' + "[" * 100_000])
def test_a_manifest_of_many_brackets_is_a_damaged_one(text, tmp_path):
    store, name = Store(tmp_path), key([])
    store.put(name, entry("kernel"))
    file = tmp_path / name[:2] / name / "manifest.json"
    text += f'"key": "{name}"'
    file.write_text(f'{text},\n "digest": "{digest(text.encode())}"\n}}\n')
    assert store.get(name) is None
    assert [artifact.title for artifact in artifacts(tmp_path)] == ["damaged"]
    store.put(name, entry("kernel"))
    assert store.get(name) == entry("kernel")
