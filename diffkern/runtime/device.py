"""Devices. There is one, the CPU; the names are those a program written for several uses."""

from __future__ import annotations

from typing import Any

__all__ = ["Device", "check_device", "get_device", "init"]


class Device:
    """A place where kernels run.

    Attributes
    ----------
    alias : str
        Its name, ``"cpu"``.
    is_cpu, is_cuda : bool
        What kind it is.
    """

    alias = "cpu"
    is_cpu = True
    is_cuda = False

    def __str__(self) -> str:
        return self.alias

    def __repr__(self) -> str:
        return "dk.Device('cpu')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) or other == self.alias

    def __hash__(self) -> int:
        return hash(self.alias)


_CPU = Device()


def get_device(name: Any = None) -> Device:
    """Return a device by name.

    Parameters
    ----------
    name : str or Device, optional
        ``"cpu"``; the current device by default.
    """
    check_device(name)
    return _CPU


def check_device(name: Any) -> None:
    """Raise ValueError unless `name` is None or means the CPU."""
    if name is not None and name is not _CPU and name != "cpu":
        raise ValueError(f"there is no device {name!r}; this version of diffkern runs on 'cpu'")


def init() -> None:
    """Do nothing; diffkern needs no initialization. For programs that call it."""
