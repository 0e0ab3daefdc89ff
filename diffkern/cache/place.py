"""Directories and files that only this user or root can have put there.

The checks are on what was opened, not on what a path meant a moment before: the directory, each one inside of it and
every file belong to this user or to root, and no group and no other user can write to them. The first directory may be
a symbolic link, because the place of the cache is the user's choice; inside of it no links are followed. Where
something is removed or its permissions change, no link of another user may lead to the first directory either.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Folder", "UnsafeError", "check_links", "is_private", "opened"]

_MOST_LINKS = 40  # as Linux


class UnsafeError(PermissionError):
    """Others can write to a directory or a file, or it is theirs."""

    def __init__(self, path: str, reason: str = "others can write to it") -> None:
        super().__init__(f"{path} is not used, because {reason}")


def is_private(status: os.stat_result) -> bool:
    """Return whether only this user or root can change an object, and one of them owns it."""
    if sys.platform == "win32":  # permissions of another kind, which the user's profile directory already has
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Folder:
    """A directory that was found to be safe.

    Parameters
    ----------
    path : str
        Its path.
    descriptor : int or None
        The open directory; None on systems that cannot open files relative to one.
    """

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def read(self, name: str) -> tuple[bytes, float]:
        """Return the contents of a file, and the time of its last change.

        Raises
        ------
        OSError
            If it cannot be read; :class:`UnsafeError` if others can write to it.
        """
        descriptor = _open(self._path(name), os.O_RDONLY | _NO_LINK | _BINARY, self._descriptor)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            # A pipe or a device under this name would block, or never end.
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(f"{self.path}/{name} is no file")
            if not is_private(status):
                raise UnsafeError(f"{self.path}/{name}")
            return file.read(), status.st_mtime

    def append(self, name: str, data: bytes) -> None:
        """Append to a file, in one step; a new one is for its owner alone.

        Raises
        ------
        OSError
            If it cannot be written; :class:`UnsafeError` if others can write to it.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | _BINARY
        with _closing(_open(self._path(name), flags, self._descriptor, 0o600)) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(f"{self.path}/{name} is no file")
            if not is_private(status):
                raise UnsafeError(f"{self.path}/{name}")
            # One call: appends of several processes do not mix.
            os.write(descriptor, data)

    def touch(self, name: str) -> None:
        """Note that a file was used."""
        # Pruning then goes by older times, which costs a compilation at worst.
        with contextlib.suppress(OSError, NotImplementedError):  # a read-only directory has no record of use
            os.utime(self._path(name), dir_fd=self._descriptor)

    def names(self) -> list[str]:
        """Return the names of its contents, sorted."""
        return sorted(os.listdir(self.path if self._descriptor is None else self._descriptor))

    def status(self, name: str) -> os.stat_result:
        """Return the status of a file, a directory or a link in it."""
        return os.stat(self._path(name), dir_fd=self._descriptor, follow_symlinks=False)

    @contextlib.contextmanager
    def inner(self, name: str) -> Iterator[Folder]:
        """Open a directory in it.

        Raises
        ------
        OSError
            If there is none, or a link; :class:`UnsafeError` if others can write to it.
        """
        # Without descriptors (Windows) the path is checked as well as it can be.
        if self._descriptor is None:
            if not stat.S_ISDIR(self.status(name).st_mode):
                raise FileNotFoundError(f"{self.path}/{name} is no directory")
            yield Folder(f"{self.path}/{name}", None)
            return
        opened = _open(name, os.O_RDONLY | _DIRECTORY | _NO_LINK, self._descriptor)
        with _closing(_checked(f"{self.path}/{name}", opened)) as descriptor:
            yield Folder(f"{self.path}/{name}", descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file or a link, if there is one of that name and it can be removed."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(name), dir_fd=self._descriptor)

    def rmdir(self, name: str) -> None:
        """Remove a directory in it, if it is there and empty."""
        with contextlib.suppress(OSError):
            os.rmdir(self._path(name), dir_fd=self._descriptor)

    def rename(self, name: str, to: str) -> None:
        """Rename a directory in it."""
        os.rename(self._path(name), self._path(to), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def publish(self, *names: str) -> None:
        """Make it readable by everybody, and those of these files that have no other name."""
        # The directory first: what it lets others read then is still private to the owner.
        self._allow(0o755)
        for name in names:
            with contextlib.suppress(OSError):
                descriptor = _open(self._path(name), os.O_RDONLY | _NO_LINK, self._descriptor)
                with _closing(descriptor):
                    status = os.fstat(descriptor)
                    # A file with a second name elsewhere could be somebody's secret that was linked here.
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_private(status):
                        _change_mode(f"{self.path}/{name}", descriptor, 0o644)

    def _allow(self, mode: int) -> None:
        _change_mode(self.path, self._descriptor, mode)

    def _path(self, name: str) -> str:
        return name if self._descriptor is not None else f"{self.path}/{name}"


_BINARY: int = getattr(os, "O_BINARY", 0)
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)


def _open(path: str, flags: int, within: int | None, mode: int = 0o777) -> int:
    # Without waiting, should a pipe lie there.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), mode, dir_fd=within)


def _change_mode(path: str, descriptor: int | None, mode: int) -> None:
    if descriptor is None or sys.platform == "win32":
        os.chmod(path, mode)
    else:
        os.fchmod(descriptor, mode)


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _checked(path: str, descriptor: int) -> int:
    if is_private(os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise UnsafeError(path)


@contextlib.contextmanager
def opened(directory: Path, *names: str) -> Iterator[Folder]:
    """Open a directory inside of another one.

    Parameters
    ----------
    directory : Path
        The outermost one that is checked.
    names : str
        The directories on the way.

    Raises
    ------
    OSError
        If one is not there or is a link; :class:`UnsafeError` if others can write to one.
    """
    path = str(directory)
    with contextlib.ExitStack() as stack:
        if sys.platform == "win32":
            folder = Folder(path, None)
        else:
            # The first directory may be a link: its place is the user's choice, and what it leads to is checked.
            outer = _checked(path, _open(path, os.O_RDONLY | _DIRECTORY, None))
            folder = Folder(path, stack.enter_context(_closing(outer)))
        for name in names:
            folder = stack.enter_context(folder.inner(name))
        yield folder


def check_links(directory: Path) -> None:
    """Raise if a symbolic link on the way to a directory belongs to neither this user nor root.

    Raises
    ------
    UnsafeError
        If one does: its owner decides which directory the path names.
    """
    if sys.platform == "win32":
        return
    for path, status in _links(str(directory.absolute())):
        if status.st_uid not in (0, os.geteuid()):
            raise UnsafeError(str(directory), f"the link {path} belongs to another user")


def _links(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the symbolic links that a path leads through."""
    # Components still to be resolved form a stack, onto which the target of a link is pushed.
    at, ahead, links = "/", path.split("/")[::-1], 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        there = os.path.join(at, name) if name not in ("", ".") else at
        status = os.lstat(there)
        if not stat.S_ISLNK(status.st_mode):
            at = there
            continue
        links += 1
        # A circle of links would be followed for ever.
        if links > _MOST_LINKS:  # nor can it be opened
            return
        yield there, status
        target = os.readlink(there)
        at = "/" if target.startswith("/") else at
        ahead += target.split("/")[::-1]
