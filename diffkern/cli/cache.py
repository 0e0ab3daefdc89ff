"""``diffkern cache``: show, copy and clear the artifact cache.

Each action prints a report on standard output, or raises :class:`UsageError`.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from diffkern.cache.entries import contents, publish, sweep
from diffkern.cache.maintenance import artifacts, artifacts_of, copy_artifacts, find, prune, remove
from diffkern.cache.notes import sweep_notes
from diffkern.cache.place import UnsafeError
from diffkern.cache.store import NoDirectoryError, Store
from diffkern.cli.files import UsageError
from diffkern.compiler.stores import cache_directory

__all__ = ["add_cache_command", "differences", "nearest", "shown"]

_DAY = 86400.0
# In small letters, which texts are made before they are looked up.
_AGES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": _DAY, "w": 7 * _DAY}
_SIZES = {"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9}


def add_cache_command(commands: Any) -> None:
    """Add ``cache`` to the commands of the parser."""
    parser = commands.add_parser("cache", help="show, copy or clear the cache of compiled kernels")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        # Any action may meet a directory that others can write to.
        added.set_defaults(run=lambda options: _refusing(run, options))
        return added

    action("info", "show the cache's location and size", _info)
    action("list", "list the artifacts, one per line", _list)
    why = action("why", "show what a key was computed from, or why two keys differ", _why)
    why.add_argument("keys", nargs="+", metavar="KEY", help="the first digits of one or two keys")
    action("clear", "remove all compiled kernels", _clear)
    less = action("prune", "remove artifacts by age or down to a total size", _prune)
    less.add_argument(
        "--size", metavar="SIZE", help="total size to keep, for example 500MB; the most recently used stay"
    )
    less.add_argument(
        "--age", metavar="AGE", help="remove artifacts not used for this long, for example 30d (s, m, h, d, w)"
    )
    out = action("export", "copy the artifacts to a directory that can be shipped and loaded with dk.load", _export)
    out.add_argument("directory", metavar="DIR", type=Path)
    take = action("import", "copy the artifacts of such a directory into the cache", _import)
    take.add_argument("directory", metavar="DIR", type=Path)


def _refusing(run: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> None:
    try:
        run(options)
    except UnsafeError as error:
        raise UsageError(f"{error}; make it yours (chmod go-w), or name another directory") from error


def _directory() -> Path:
    try:
        return cache_directory()
    except NoDirectoryError as error:
        raise UsageError(f"{error}; set DIFFKERN_CACHE_DIR") from error


def _info(_: argparse.Namespace) -> None:
    directory = _directory()
    found = artifacts(directory)
    size = sum(artifact.size for artifact in found)
    print(f"directory  {directory}\nartifacts  {len(found)}\nsize       {size / 1e6:.1f} MB")


def _list(_: argparse.Namespace) -> None:
    now = time.time()
    for a in artifacts(_directory()):
        print(f"{a.key[:12]}  {a.size / 1e3:8.1f} kB  {_ago(now - a.used):>9}  {a.target:10}  {a.title}")


def _why(options: argparse.Namespace) -> None:
    if len(options.keys) > 2:
        raise UsageError(f"why takes one key or two, not {len(options.keys)}")
    directory = _directory()
    try:
        chosen = [find(directory, prefix) for prefix in options.keys]
    except LookupError as error:
        raise UsageError(f"{error} (in {directory}; see diffkern cache list)") from error
    first = chosen[0]
    if len(chosen) == 1:
        print(f"{first.key}\n{first.title}")
        for label, value in first.ingredients.items():
            print(f"  {label}: {shown(value)}")
        # With one key, the artifact that differs least explains best why the kernel was compiled again.
        # Adjoints and forwards are compared among themselves, whatever their types.
        others = {a.key: a for a in artifacts(directory) if a.key != first.key and _kind(a.title) == _kind(first.title)}
        closest = nearest(first.ingredients, {key: a.ingredients for key, a in others.items()})
        if closest is None:
            return
        print("the nearest other artifact of this kernel:")
        chosen.append(others[closest])
    second = chosen[1]
    print(f"- {first.key[:12]}  {first.title}\n+ {second.key[:12]}  {second.title}")
    for line in differences(first.ingredients, second.ingredients) or ["no ingredient differs"]:
        print(line)


def _kind(title: str) -> str:
    """Return the kernel and the direction, without the types."""
    return title.partition("(")[0]


def _clear(_: argparse.Namespace) -> None:
    directory = _directory()
    # Only files that are recognized as diffkern's are removed: the directory may hold others.
    there = contents(directory)
    count, _size = remove(artifacts_of(there))
    sweep(directory, 0.0)
    sweep_notes(directory, 0.0)
    print(f"removed {_counted(count)} from {directory}")
    for error in there.refused:
        print(f"left as it is: {error}")


def _prune(options: argparse.Namespace) -> None:
    if options.size is None and options.age is None:
        raise UsageError("give --size 500MB, --age 30d, or both")
    size = None if options.size is None else int(_number(options.size, _SIZES, "size", "500MB"))
    age = None if options.age is None else _number(options.age, _AGES, "age", "30d")
    directory = _directory()
    count, removed = prune(directory, size, age)
    print(f"removed {_counted(count)} ({removed / 1e6:.1f} MB) from {directory}")


def _export(options: argparse.Namespace) -> None:
    source = _directory()
    # Asked before Store makes it: a directory of the user's keeps its permissions.
    is_new = not options.directory.exists()
    destination = Store(options.directory)
    if not destination.is_writable():
        raise UsageError(f"cannot write to {options.directory}, or others can")
    copied, damaged = copy_artifacts(source, destination)
    publish(options.directory, is_new)
    print(_copied(copied, damaged, options.directory))


def _import(options: argparse.Namespace) -> None:
    if not options.directory.is_dir():
        raise UsageError(f"there is no directory {options.directory}")
    directory = _directory()
    destination = Store(directory)
    if not destination.is_writable():
        raise UsageError(f"cannot write to {directory}, or others can")
    # Damaged ones are left out and counted, so that one bad file does not stop the others.
    print(_copied(*copy_artifacts(options.directory, destination), directory))


def _counted(count: int) -> str:
    return "1 artifact" if count == 1 else f"{count} artifacts"


def _copied(copied: int, damaged: int, where: Path) -> str:
    left_out = f"; left out {damaged} that are damaged" if damaged else ""
    return f"copied {_counted(copied)} to {where}{left_out}"


def _number(text: str, units: dict[str, float] | dict[str, int], what: str, example: str) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in units:
        raise UsageError(f"{text!r} is not a {what}; write one like {example}")
    return float(match[1]) * units[match[2]]


def _ago(seconds: float) -> str:
    for unit, length in (("d", _DAY), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "now"


# -- comparison of keys ------------------------------------------------------------------------------------------------
# Comparison of the ingredients of two artifact keys.
#
# The ingredients of two keys, as their manifests give them, make the lines of a report that names each ingredient that
# differs and shows where.


_WIDTH = 96
_BEFORE = 24


def differences(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Return the report: for each ingredient that differs its name, and both values from where they differ."""
    return [line for label in _labels(a, b) if a.get(label) != b.get(label) for line in _difference(label, a, b)]


def nearest(of: Mapping[str, str], among: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return the name of the set of ingredients with the fewest differences, None unless these are fewer than half."""
    best, fewest = None, len(of) // 2 + 1
    # A set that shares too little is about another kernel, and a report about it would be as long as both.
    for name, other in among.items():
        count = sum(of.get(label) != other.get(label) for label in _labels(of, other))
        if count < fewest:
            best, fewest = name, count
    return best


def shown(text: str) -> str:
    """Return `text` on one line, cut where it is long."""
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"


def _labels(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    yield from a
    yield from (label for label in b if label not in a)


def _difference(label: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    yield f"{label}:"
    if label not in a or label not in b:
        yield f"  - {shown(a[label]) if label in a else '(not there)'}"
        yield f"  + {shown(b[label]) if label in b else '(not there)'}"
        return
    x, y = a[label], b[label]
    start = 0
    while start < min(len(x), len(y)) and x[start] == y[start]:
        start += 1
    # Long values, such as sources, are shown from shortly before the first difference.
    start = max(0, start - _BEFORE) if max(len(x), len(y)) > _WIDTH else 0
    mark = "…" if start else ""
    yield f"  - {mark}{shown(x[start:])}"
    yield f"  + {mark}{shown(y[start:])}"
