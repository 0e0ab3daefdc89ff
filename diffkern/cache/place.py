"""Reading artifacts that only this user or root can have put there.

In: a directory and the names of directories inside of it. Out: the files of the innermost, and when they were last
changed. What is checked is what was opened, not what a path meant a moment before: the directory, each one inside of it
and every file belong to this user or to root, and no group and no other user can write to them. The first directory may
be a symbolic link, because where the cache is is the user's choice; inside of it no links are followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Folder", "UnsafeError", "is_private", "opened"]


class UnsafeError(PermissionError):
    """Others can write to a directory or a file, or it is theirs."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not used, because others can write to it")


def is_private(status: os.stat_result) -> bool:
    """Whether only this user or root, one of whom is the owner, can change what was asked about."""
    if sys.platform == "win32":  # permissions of another kind, which the user's profile directory already has
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Folder:
    """A directory that was found to be safe.

    Parameters
    ----------
    path : str
        Where it is.
    descriptor : int or None
        The open directory; None on systems that cannot open files relative to one.
    """

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def read(self, name: str) -> tuple[bytes, float]:
        """Return what a file holds, and when it was last changed.

        Raises
        ------
        OSError
            If it cannot be read; :class:`UnsafeError` if others can write to it.
        """
        descriptor = _open(self._path(name), os.O_RDONLY | _NO_LINK | _BINARY, self._descriptor)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(f"{self.path}/{name} is no file")
            if not is_private(status):
                raise UnsafeError(f"{self.path}/{name}")
            return file.read(), status.st_mtime

    def touch(self, name: str) -> None:
        """Note that a file was used."""
        with contextlib.suppress(OSError, NotImplementedError):  # a read-only directory has no record of use
            os.utime(self._path(name), dir_fd=self._descriptor)

    def _path(self, name: str) -> str:
        return name if self._descriptor is not None else f"{self.path}/{name}"


_BINARY: int = getattr(os, "O_BINARY", 0)
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)


def _open(path: str, flags: int, within: int | None) -> int:
    # Without waiting, should a pipe lie there.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), dir_fd=within)


if sys.platform == "win32":

    @contextlib.contextmanager
    def opened(directory: Path, *names: str) -> Iterator[Folder]:
        """Open a directory inside of another one."""
        yield Folder(str(Path(directory, *names)), None)

else:

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
        descriptor = _checked(path, _open(path, os.O_RDONLY | _DIRECTORY, None))
        try:
            for name in names:
                path = f"{path}/{name}"
                inner = _checked(path, _open(name, os.O_RDONLY | _DIRECTORY | _NO_LINK, descriptor))
                os.close(descriptor)
                descriptor = inner
            yield Folder(path, descriptor)
        finally:
            os.close(descriptor)

    def _checked(path: str, descriptor: int) -> int:
        if is_private(os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)
        raise UnsafeError(path)
