"""Statements of C in Python: blocks, branches, loops, declarations and assignments.

In: the text of a function's body behind the preprocessor, the names of its parameters, and what writes an expression in
Python. Out: lines of Python with their indentation; :class:`OtherTextError` for a text of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["OtherTextError", "Statements"]

_DECLARED: Final = re.compile(r"(?:const\s+)?([A-Za-z_][\w: ]*?)\s+([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)\s*(<<|>>|[-+*/%&|^])?=(?!=)\s*(.*)", re.DOTALL)
_ELEMENT: Final = re.compile(r"([A-Za-z_][\w.]*\.data\s*\[.*?\])\s*(<<|>>|[-+*/%&|^])?=(?!=)\s*(.*)", re.DOTALL)
_UNSET: Final = re.compile(r"([A-Za-z_][\w: ]*?)\s+([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)")
_POINTER: Final = re.compile(
    r"([A-Za-z_][\w: ]*?)\s*\*\s*(?:const\s+)?([A-Za-z_]\w*)\s*=\s*wp::address\(\s*(\w+)\s*,\s*(\w+)\s*\)"
)
_LARGER: Final = re.compile(r"if\s*\(\s*(\w+)\s*([<>])\s*\*(\w+)\s*\)\s*\*(\w+)\s*=\s*(\w+)\s*;")
_STEP: Final = re.compile(r"(?:(\+\+|--)\s*([A-Za-z_]\w*)|([A-Za-z_]\w*)\s*(\+\+|--))")


class OtherTextError(Exception):
    """A text that is none of those that are written in Python."""


@dataclass
class Statements:
    """Reads statements one after the other.

    Attributes
    ----------
    text : str
        What is read.
    types : mapping
        Types of C by name, as those of ``wp``; "" for that of what a variable is set to.
    simple : callable
        Writes a statement of another kind, a call, in lines of Python.
    expression : callable
        Writes an expression, with the names that are known.
    known : dict
        The variables and the types that they were declared with; None for parameters.
    elements : set of str
        The elements of arrays that were read so far, as they are written in Python.
    """

    text: str
    types: Mapping[str, str]
    simple: Callable[[str], list[str]]
    expression: Callable[[str, set[str]], str]
    known: dict[str, str | None]
    elements: set[str] = field(default_factory=set)
    _at: int = 0
    _pointers: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the whole text in Python."""
        found = list(self._until_end())
        if self._rest().strip():
            raise OtherTextError
        return found

    # -- statements ----------------------------------------------------------------------------------------------------

    def _until_end(self) -> Iterator[str]:
        while (rest := self._rest().lstrip()) and not rest.startswith("}"):
            yield from self._statement()

    def _statement(self) -> list[str]:
        if self._take("{"):
            before = dict(self.known)
            found = list(self._until_end())
            if not self._take("}"):
                raise OtherTextError
            self.known = before | {name: t for name, t in self.known.items() if name in before}
            return found
        if (larger := _LARGER.match(self._rest().lstrip())) is not None:
            return self._extreme(larger)
        for word, read in (("if", self._if), ("while", self._while), ("for", self._for)):
            if re.match(rf"{word}\s*\(", self._rest().lstrip()):
                self._take(word)
                return read()
        return self._ended(self._up_to(";").strip())

    def _if(self) -> list[str]:
        condition = self._condition()
        found = [f"if {condition}:", *_inside(self._statement())]
        if re.match(r"else\b", self._rest().lstrip()):
            self._take("else")
            found += ["else:", *_inside(self._statement())]
        return found

    def _while(self) -> list[str]:
        return [f"while {self._condition()}:", *_inside(self._statement())]

    def _for(self) -> list[str]:
        """A loop with a counter, as ``while``: its step may be of any kind."""
        begin, condition, step = self._parts()
        before = dict(self.known)
        first = self._ended(begin)
        test, steps = self._written(condition), self._ended(step)
        body = self._statement()
        if any(line.strip() == "continue" for line in body):
            raise OtherTextError  # which takes the step first
        self.known = before
        return [*first, f"while {test}:", *_inside([*body, *steps])]

    def _ended(self, text: str) -> list[str]:
        """A statement that ended with a semicolon."""
        if not text:
            return []
        if text in ("break", "continue", "return"):
            return [text]
        if re.match(r"return\b", text):
            return [f"return {self._written(text[6:])}"]
        if (pointer := _POINTER.fullmatch(text)) is not None and pointer[3] in self.known:
            self._pointers[pointer[2]] = f"{pointer[3]}, {self._written(pointer[4])}"
            return []
        if (step := _STEP.fullmatch(text)) is not None:
            name, sign = step[2] or step[3], (step[1] or step[4])[0]
            return [self._assigned(name, f"({self._written(name)} {sign} 1)")]
        declared = _DECLARED.fullmatch(text)
        if declared is not None and " ".join(declared[1].split()) in self.types:
            kind = self.types[" ".join(declared[1].split())]
            value = self._written(declared[3])
            self.known[declared[2]] = kind
            return [self._assigned(declared[2], value)]
        unset = _UNSET.fullmatch(text)
        if unset is not None and self.types.get(" ".join(unset[1].split())):
            return self._unset(self.types[" ".join(unset[1].split())], unset[2])
        if (element := _ELEMENT.fullmatch(text)) is not None:
            return self._stored(element[1], element[2] or "", element[3])
        if (assigned := _ASSIGNED.fullmatch(text)) is not None and assigned[1] in self.known:
            value = self._written(assigned[3])
            if assigned[2]:
                value = f"({assigned[1]} {assigned[2]} {value})"
            return [self._assigned(assigned[1], value)]
        return self.simple(text)

    def _stored(self, target: str, operator: str, text: str) -> list[str]:
        """A store to an element, or a sum in it, which other threads may add to as well here."""
        value = self._written(text)
        before = set(self.elements)
        place = self._written(target)
        if place in before or operator not in ("", "+", "-"):
            raise OtherTextError
        self.elements.intersection_update(before)  # the place itself is not read
        return [f"{place} {operator}= {value}"]

    def _unset(self, kind: str, names: str) -> list[str]:
        """Variables that are declared without a value, which a text has to give them before it reads them."""
        found = [name.strip() for name in names.split(",")]
        self.known.update(dict.fromkeys(found, kind))
        return [f"{name} = wp.{kind}()" for name in found]

    def _extreme(self, found: re.Match[str]) -> list[str]:
        """``if (v > *p) *p = v;``: of the thread alone in C for a processor, where here others run beside it."""
        value, sign, read, written, stored = found.groups()
        if read != written or value != stored or read not in self._pointers:
            raise OtherTextError
        self._take(found[0])
        return [f"wp.atomic_{'max' if sign == '>' else 'min'}({self._pointers[read]}, {self._written(value)})"]

    def _assigned(self, name: str, value: str) -> str:
        kind = self.known[name]
        if kind == "":  # what it is set to has its type
            return f"{name} = {value}"
        return f"{name} = {'type(' + name + ')' if kind is None else 'wp.' + kind}({value})"

    # -- the text ------------------------------------------------------------------------------------------------------

    def _rest(self) -> str:
        return self.text[self._at :]

    def _take(self, expected: str) -> bool:
        """Go on behind a text, if it is next."""
        rest = self._rest().lstrip()
        if not rest.startswith(expected):
            return False
        self._at = len(self.text) - len(rest) + len(expected)
        return True

    def _up_to(self, end: str) -> str:
        """The text up to a character outside of parentheses, which is passed."""
        depth = 0
        for place in range(self._at, len(self.text)):
            character = self.text[place]
            if character == end and not depth:
                found, self._at = self.text[self._at : place], place + 1
                return found
            depth += (character == "(") - (character == ")")
            if depth < 0 or character in "{}":
                break
        raise OtherTextError

    def _condition(self) -> str:
        if not self._take("("):
            raise OtherTextError
        return self._written(self._up_to(")"))

    def _parts(self) -> tuple[str, str, str]:
        """What stands in the parentheses of ``for``."""
        if not self._take("("):
            raise OtherTextError
        return self._up_to(";").strip(), self._up_to(";").strip(), self._up_to(")").strip()

    def _written(self, text: str) -> str:
        return self.expression(text, set(self.known))


def _inside(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines or ["pass"]]
