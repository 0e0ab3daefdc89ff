"""Names in the modules that numba-cuda makes, made to depend on nothing but the program.

Numba numbers functions and shared arrays over the whole process and keeps modules in sets, so that names and order
depend on earlier compilations. From LLVM modules as text, of which one has the kernel, :func:`canonical` gives the
modules that the kernel needs in the order in which they refer to one another, with names numbered from the kernel on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["canonical"]

_NAME = re.compile(r'@(?:"((?:[^"\\]|\\.)*)"|([\w.$]+))')
_DEFINED = re.compile(r'^(?:define [^@\n]*|(?=@))@(?:"((?:[^"\\]|\\.)*)"|([\w.$]+))', re.MULTILINE)
_COMMENTS = re.compile(r"^;.*\n", re.MULTILINE)
_ENVIRONMENT = re.compile(r'^@"_ZN08NumbaEnv[^\n]*\n', re.MULTILINE)
"""A variable for the interpreter, which nothing on a GPU reads."""


def canonical(modules: Sequence[str], kernel: str, symbol: str, kept: Mapping[str, str] | None = None) -> list[str]:
    """Return the modules in their order, with their names.

    Parameters
    ----------
    modules : sequence of str
        LLVM modules as text.
    kernel : str
        The kernel's name in one of them.
    symbol : str
        The kernel's new name.
    kept : mapping, optional
        More names that are given.
    """
    texts = [_ENVIRONMENT.sub("", _COMMENTS.sub("", text)) for text in modules]
    homes = {a or b: k for k, text in enumerate(texts) for a, b in _DEFINED.findall(text)}
    # Breadth first from the kernel, so that the order follows from the program alone.
    order, waiting = [], [homes[kernel]]
    names: dict[str, str] = {kernel: symbol, **(kept or {})}
    while waiting:
        home = waiting.pop(0)
        if home in order:
            continue
        order.append(home)
        for a, b in _NAME.findall(texts[home]):
            name = a or b
            if name in homes and not name.startswith("llvm."):
                names.setdefault(name, f"{symbol}_{len(names)}")
                waiting.append(homes[name])

    def renamed(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f'@"{names[name]}"' if name in names else match[0]

    return [_NAME.sub(renamed, texts[home]) for home in order]
