"""Statements of C translated to Python: blocks, branches, loops, declarations and assignments.

The input is a function's body after preprocessing, the names of its parameters, and a translator of expressions. The
result is Python lines with their indentation. A text outside of this subset raises :class:`OtherTextError`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Final, Protocol

from diffkern.process.dataclass import dataclass
from diffkern.warp.c.c_types import SCALARS, OtherTextError, Typed, arithmetic, as_kind

__all__ = ["COTANGENT", "OLD", "Statements"]

COTANGENT: Final = "wp.adjoint["
"""The prefix of an array element's cotangent in Python."""
OLD: Final = "\0"
"""Stands for what a variable was before a statement counted it, until that has a name."""

_DECLARED: Final = re.compile(
    r"(?:(?:const|constexpr)\s+)*([A-Za-z_][\w: ]*?)\s+([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.DOTALL
)
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)\s*(<<|>>|[-+*/%&|^])?=(?!=)\s*(.*)", re.DOTALL)
_ELEMENT: Final = re.compile(r"([A-Za-z_][\w.]*\.data\s*\[.*?\])\s*(<<|>>|[-+*/%&|^])?=(?!=)\s*(.*)", re.DOTALL)
_COMPONENT: Final = re.compile(r"([A-Za-z_]\w*)((?:\.c)?\s*\[[^;=]*\])\s*(<<|>>|[-+*/%&|^])?=(?!=)\s*(.*)", re.DOTALL)
_SHARED: Final = re.compile(r"__shared__\s+([A-Za-z_][\w: ]*?)\s+([A-Za-z_]\w*)\s*\[\s*(\d+)\s*\]")
_LOCAL: Final = re.compile(r"(?:const\s+)?auto\s+([A-Za-z_]\w*)\s*=\s*\[\s*&?\s*\]\s*\(([^()]*)\)\s*\{")
"""A function that a text defines: it sees the variables around it as they are when it is called."""
_OTHER_LOCAL: Final = re.compile(r"(?:const\s+)?auto\s+[A-Za-z_]\w*\s*=\s*\[")
_PARAMETER: Final = re.compile(r"(?:const\s+)?([A-Za-z_][\w: ]*?)\s+([A-Za-z_]\w*)")
_UNSET: Final = re.compile(r"([A-Za-z_][\w: ]*?)\s+([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)")
_POINTER: Final = re.compile(
    r"([A-Za-z_][\w: ]*?)\s*\*\s*(?:const\s+)?([A-Za-z_]\w*)\s*=\s*wp::address\(\s*(\w+)\s*,\s*(\w+)\s*\)"
)
_LARGER: Final = re.compile(r"if\s*\(\s*(\w+)\s*([<>])\s*\*(\w+)\s*\)\s*\*(\w+)\s*=\s*(\w+)\s*;")
_STEP: Final = re.compile(r"(?:(\+\+|--)\s*([A-Za-z_]\w*)|([A-Za-z_]\w*)\s*(\+\+|--))")
_WORDS: Final = frozenset({*keyword.kwlist, *keyword.softkwlist, "wp", "c_functions", "c_warps"})
"""Names that variables of Python cannot have here."""


class _Read(Protocol):
    """A parsed expression: see :class:`diffkern.warp.c.c_expressions.Expression`."""

    steps: list[tuple[str, str, bool]]

    def whole(self) -> Typed: ...


@dataclass
class Statements:
    """A parser that reads statements one after the other and writes them in Python.

    Attributes
    ----------
    text : str
        The text that is read.
    types : mapping
        Types of C by name, as those of ``wp``; "" for a type that is inferred from the initial value.
    simple : callable
        Translates any other statement, a call, to lines of Python.
    expression : callable
        Makes the parser of an expression, given the names that are known.
    known : dict
        The variables: their names in Python, and the types that they were declared with.
    elements : set of str
        The elements of arrays that were read so far, as they are written in Python.
    result : str or None
        The type of the returned value; None if nothing is returned.
    gpu : bool
        True if the text is for a GPU, and so deals with concurrent threads itself.
    """

    text: str
    types: Mapping[str, str]
    simple: Callable[[str], list[str]]
    expression: Callable[[str, Mapping[str, Typed]], _Read]
    known: dict[str, Typed]
    elements: set[str] = field(default_factory=set)
    result: str | None = ""
    gpu: bool = False
    _at: int = 0
    _begin: int = 0
    _pointers: dict[str, tuple[str, str]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._declared_here: set[str] = set(self.known)
        self._used.update(self.known)
        self._steps: list[list[str]] = []  # of the loops around, what is done before they begin again
        self._returned_kinds: set[str] = set()
        self._outside: set[str] = set()  # variables of Python around a function of the text

    def lines(self) -> list[str]:
        """Return the whole text in Python."""
        found = list(self._until_end())
        if self._rest().strip():
            raise OtherTextError("a } has no {")
        return found

    def line(self) -> int:
        """Return the line of the statement that was read last, counted from one."""
        return self.text.count("\n", 0, self._begin) + 1

    # -- statements ----------------------------------------------------------------------------------------------------

    def _until_end(self) -> Iterator[str]:
        while (rest := self._rest().lstrip()) and not rest.startswith("}"):
            yield from self._statement()

    def _statement(self) -> list[str]:
        self._begin = len(self.text) - len(self._rest().lstrip())
        if self._take("{"):
            with self._scope():
                found = list(self._until_end())
            if not self._take("}"):
                raise OtherTextError("a } is missing")
            return found
        # These two begin like an `if` and a declaration, and so are tried before them.
        if (larger := _LARGER.match(self._rest().lstrip())) is not None:
            return self._extreme(larger)
        if (local := _LOCAL.match(self._rest().lstrip())) is not None:
            return self._function(local)
        if _OTHER_LOCAL.match(self._rest().lstrip()) is not None:
            raise OtherTextError("a function of the text is translated with [&] or [] in front of its parameters")
        for word, read in (("if", self._if), ("while", self._while), ("for", self._for)):
            if re.match(rf"{word}\s*\(", self._rest().lstrip()):
                self._take(word)
                return read()
        return self._ended(self._up_to(";").strip())

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """Open a scope: names declared in it shadow outer ones and are forgotten at its end."""
        # Scopes of C end at a brace, those of Python do not: shadowing variables are renamed, and forgotten here.
        before = dict(self.known), dict(self._pointers), self._declared_here
        self._declared_here = set()
        yield
        self.known, self._pointers, self._declared_here = before

    def _inner(self) -> list[str]:
        """Translate a statement that is a scope of its own, with braces or without."""
        with self._scope():
            return self._statement()

    def _if(self) -> list[str]:
        first, condition = self._condition()
        found = [*first, f"if {condition}:", *_inside(self._inner())]
        if re.match(r"else\b", self._rest().lstrip()):
            self._take("else")
            # `else if` is an `if` inside of `else`, as in C's grammar.
            found += ["else:", *_inside(self._inner())]
        return found

    def _while(self) -> list[str]:
        # A condition is evaluated once per iteration, so statements cannot be put in front of it: it may change
        # nothing.
        return [f"while {self._tested(self._parenthesis())}:", *_inside(self._body([]))]

    def _body(self, steps: list[str]) -> list[str]:
        """Translate the body of a loop, whose steps run before each further iteration."""
        self._steps.append(steps)
        found = self._inner()
        self._steps.pop()
        return found

    def _for(self) -> list[str]:
        """Translate a ``for`` loop to ``while``: its step may be any statement."""
        begin, condition, step = self._parts()
        with self._scope():
            first = self._ended(begin)
            test, steps = self._tested(condition) if condition else "True", self._ended(step)
            body = self._body(steps)
        # The step is at the end of the body, and `continue` repeats it.
        return [*first, f"while {test}:", *_inside([*body, *steps])]

    def _ended(self, text: str) -> list[str]:
        """Translate a statement that ends with a semicolon."""
        if not text:
            return []
        if text == "continue":
            # In C `continue` goes on with the step of a `for` loop, which Python's `while` would skip.
            return [*self._steps[-1], text] if self._steps else [text]
        if text in ("break", "return"):
            return [text]
        if re.match(r"return\b", text):
            return self._returned(text[6:])
        if (pointer := _POINTER.fullmatch(text)) is not None and pointer[3] in self.known:
            return self._pointed(pointer[2], self.known[pointer[3]], pointer[4])
        # As a statement, ++x and x++ are the same.
        if (step := _STEP.fullmatch(text)) is not None:
            name, sign = step[2] or step[3], (step[1] or step[4])[0]
            return self._assigned(name, sign, "1")
        # Declarations come before assignments: `int x = 1` also has the form of one.
        declared = _DECLARED.fullmatch(text)
        if declared is not None and " ".join(declared[1].split()) in self.types:
            first, *others = _parts_of(declared[3])
            found = self._new(self.types[" ".join(declared[1].split())], declared[2], first)
            # `int a = 1, b = 2`: each further declarator is read as a declaration of its own.
            return [*found, *(line for part in others for line in self._ended(f"{declared[1]} {part}"))]
        unset = _UNSET.fullmatch(text)
        if unset is not None and self.types.get(" ".join(unset[1].split())):
            return self._unset(self.types[" ".join(unset[1].split())], unset[2])
        if (element := _ELEMENT.fullmatch(text)) is not None:
            return self._stored(element[1], element[2] or "", element[3])
        if (assigned := _ASSIGNED.fullmatch(text)) is not None and assigned[1] in self.known:
            return self._assigned(assigned[1], assigned[2] or "", assigned[3])
        if (part := _COMPONENT.fullmatch(text)) is not None and part[1] in self.known:
            return self._set_component(f"{part[1]}{part[2]}", part[3] or "", part[4])
        if self.gpu and (shared := _SHARED.fullmatch(text)) is not None:
            return self._share(*shared.groups())
        return self.simple(text)

    def _set_component(self, target: str, operator: str, text: str) -> list[str]:
        """Translate an assignment to a vector's component, or to an element of an array that the text declares."""
        first, value = self._read(text)
        place = self._written(target)
        self._check_inside(re.split(r"\W", target)[0])
        if operator:
            value = arithmetic(operator, place, value)
        return [*first, f"{place.code} = {as_kind(value, place.kind)}"]

    def _check_inside(self, name: str) -> None:
        if self.known[name].code in self._outside:
            raise OtherTextError(f"a function of the text sets {name}, which is declared outside of it")

    def _share(self, kind: str, name: str, count: str) -> list[str]:
        """Translate the declaration of an array in shared memory."""
        kind = self.types.get(" ".join(kind.split()), "")
        if kind not in SCALARS:
            raise OtherTextError(f"the shared array {name} is not one of numbers")
        return [f"{self._declare(name, f'{kind}[]').code} = c_warps.shared_array({count}, wp.{kind})"]

    def _function(self, found: re.Match[str]) -> list[str]:
        """Translate a lambda of the text to a nested function of Python."""
        self._at = len(self.text) - len(self._rest().lstrip()) + found.end() - 1
        if f"{found[1]}()" in self.known or found[1] in self.known:
            raise OtherTextError(f"{found[1]} is declared twice")
        # A lambda returns from itself, and `continue` inside of it belongs to its own loops.
        outer = self.result, self._returned_kinds, self._steps, self._outside
        self.result, self._returned_kinds, self._steps = "", set(), []
        # Python's nested functions cannot assign to variables around them without `nonlocal`, which kernels do not
        # have.
        self._outside = self._outside | {value.code for value in self.known.values()}
        kinds, names = [], []
        with self._scope():
            for part in filter(None, (part.strip() for part in found[2].split(","))):
                one = _PARAMETER.fullmatch(part)
                kind = self.types.get(" ".join(one[1].split()), "") if one else ""
                if one is None or not kind:
                    raise OtherTextError(f"the parameter {part} is of no type that is known here")
                kinds.append(kind)
                names.append(self._declare(one[2], kind).code)
            body = self._statement()
        returned = self._returned_kinds
        self.result, self._returned_kinds, self._steps, self._outside = outer
        if len(returned) != 1 or not self._take(";"):
            raise OtherTextError(f"{found[1]} returns no value, or values of several types")
        # The function is known only behind its definition: recursion is not possible in C's `auto` lambdas either.
        code = self._name(found[1])
        self.known[f"{found[1]}()"] = Typed(code, ",".join((*returned, *kinds)))
        return [f"def {code}({', '.join(names)}):", *_inside(body)]

    def _returned(self, text: str) -> list[str]:
        first, value = self._read(text)
        if self.result is None:
            raise OtherTextError("a value is returned, and no type of it is declared")
        self._returned_kinds.add(value.kind)
        return [*first, f"return {as_kind(value, self.result)}"]

    def _pointed(self, name: str, array: Typed, index: str) -> list[str]:
        """Translate a pointer to an element; the value that the index has now is kept."""
        value = self._written(index)
        # The pointer keeps its address when the index variable changes later.
        kept = self._name(f"{name}_index")
        self._pointers[name] = (f"{array.code}, {kept}", array.kind)
        return [f"{kept} = wp.int32({as_kind(value, 'int32')})"]

    def _new(self, kind: str, name: str, text: str) -> list[str]:
        """Translate the declaration of a variable with an initial value."""
        # In C `int x = x` reads the new variable; in Python it would read the outer one.
        if re.search(rf"\b{name}\b", text):
            raise OtherTextError(f"{name} is read before it has a value")
        first, value = self._read(text)
        kind = kind or value.kind
        # The explicit type keeps a literal from becoming a Python constant without a width.
        code = as_kind(value, kind)
        return [*first, f"{self._declare(name, kind).code} = {f'wp.{kind}({code})' if kind in SCALARS else code}"]

    def _declare(self, name: str, kind: str) -> Typed:
        """Give a variable a name that no other variable has, inside or outside of this scope."""
        if name in self._declared_here:
            raise OtherTextError(f"{name} is declared twice")
        self._declared_here.add(name)
        self._pointers.pop(name, None)
        # A shadowed struct's fields are hidden as well.
        self.known = {n: v for n, v in self.known.items() if not n.startswith(f"{name}.")}
        self.known[name] = Typed(self._name(name), kind)
        return self.known[name]

    def _name(self, name: str) -> str:
        found, number = name, 2
        # A made-up name must not appear anywhere in the text, as a later declaration could bring it in.
        while found in self._used or found in _WORDS or (found != name and re.search(rf"\b{found}\b", self.text)):
            found, number = f"{name}_{number}", number + 1
        self._used.add(found)
        return found

    def _stored(self, target: str, operator: str, text: str) -> list[str]:
        """Translate a store to an element, or an accumulation into it; here, other threads may add to it as well."""
        first, value = self._read(text)
        # On a CPU, Warp runs one thread at a time, so that a read and a later write of an element cannot race. Here
        # they can.
        before = set(self.elements)
        place = self._written(target)
        is_cotangent = place.code.startswith(COTANGENT)  # which threads share by sums
        # A text for a GPU is concurrent in C++ as well, so that a race is its author's choice.
        if place.code in before and not is_cotangent and not self.gpu:
            raise OtherTextError("an element is read and written after that, where other threads may write it as well")
        if operator not in ("", "+", "-"):
            raise OtherTextError(f"{operator}= of an element: write its place, + and the value")
        self.elements.intersection_update(before)  # the place itself is not read
        # C computes `a += b` in the common type and converts once; an atomic sum converts the operand first.
        same = not operator or value.kind not in SCALARS or arithmetic(operator, place, value).kind == place.kind
        if not same and not is_cotangent:
            raise OtherTextError(f"{operator}= of an element of {place.kind} and a {value.kind}: cast the value")
        return [*first, f"{place.code} {operator}= {as_kind(value, place.kind)}"]

    def _unset(self, kind: str, names: str) -> list[str]:
        """Translate the declaration of variables without initial values; the text sets them before it reads them."""
        found = [self._declare(name.strip(), kind).code for name in names.split(",")]
        called = f"wp.{kind}" if kind in SCALARS else f"wp.{kind.partition('<')[0]}"
        return [f"{name} = {called}()" for name in found]

    def _extreme(self, found: re.Match[str]) -> list[str]:
        """Translate ``if (v > *p) *p = v;`` to an atomic maximum.

        On a CPU, Warp runs one thread at a time; here others run concurrently.
        """
        text, sign, read, written, stored = found.groups()
        if read != written or text != stored or read not in self._pointers:
            raise OtherTextError("of pointers there is: if (v > *p) *p = v, for p = wp::address(a, i)")
        self._take(found[0])
        value, (place, kind) = self._written(text), self._pointers[read]
        # C would compare in the common type.
        if value.kind != kind:
            raise OtherTextError(f"{text} and the element have different types")
        return [f"wp.atomic_{'max' if sign == '>' else 'min'}({place}, {value.code})"]

    def _assigned(self, name: str, operator: str, text: str) -> list[str]:
        """Translate an assignment to a variable, plain or compound."""
        target = self.known.get(name)
        if target is None:
            raise OtherTextError(f"{name} is not known here")
        self._check_inside(name)
        first, value = self._read(text)
        # `x = x++` has no defined order in C.
        if first and re.search(rf"\b{name}\b", text):
            raise OtherTextError(f"{name} is counted and set by one statement")
        if operator:
            # The right side counts as one operand: `x *= a + b` is x * (a + b).
            value = arithmetic(operator, target, value)
        code = as_kind(value, target.kind)
        return [*first, f"{target.code} = {f'wp.{target.kind}({code})' if target.kind in SCALARS else code}"]

    # -- the text ------------------------------------------------------------------------------------------------------

    def _rest(self) -> str:
        return self.text[self._at :]

    def _take(self, expected: str) -> bool:
        """Skip a text if it comes next, and return whether it does."""
        rest = self._rest().lstrip()
        if not rest.startswith(expected):
            return False
        self._at = len(self.text) - len(rest) + len(expected)
        return True

    def _up_to(self, end: str) -> str:
        """Return the text up to a character outside of parentheses, and skip both."""
        depth = 0
        for place in range(self._at, len(self.text)):
            character = self.text[place]
            if character == end and not depth:
                found, self._at = self.text[self._at : place], place + 1
                return found
            # A brace cannot be part of a simple statement, so that a missing semicolon is noticed here.
            depth += (character == "(") - (character == ")")
            if depth < 0 or character in "{}":
                break
        raise OtherTextError(f"a {end} is missing")

    def _parenthesis(self) -> str:
        if not self._take("("):
            raise OtherTextError("a ( is missing")
        return self._up_to(")")

    def _condition(self) -> tuple[list[str], str]:
        first, value = self._read(self._parenthesis())
        return first, as_kind(value, "bool")

    def _tested(self, text: str) -> str:
        """Translate the condition of a loop."""
        return as_kind(self._written(text), "bool")

    def _parts(self) -> tuple[str, str, str]:
        """Return the three parts in the parentheses of a ``for`` statement."""
        if not self._take("("):
            raise OtherTextError("a ( is missing")
        return self._up_to(";").strip(), self._up_to(";").strip(), self._up_to(")").strip()

    def _read(self, text: str) -> tuple[list[str], Typed]:
        """Return the statements that must run before an expression, and the expression."""
        read = self.expression(text, self.known)
        value = read.whole()
        found = []
        for name, sign, before in read.steps:
            variable = self.known[name]
            # A postfix step leaves the old value to the expression, so it is kept under a name of its own.
            if not before:
                kept = self._name(f"{variable.code}_before")
                value = replace(value, code=value.code.replace(OLD, kept))
                found.append(f"{kept} = wp.{variable.kind}({variable.code})")
            found += self._assigned(name, sign, "1")
        return found, value

    def _written(self, text: str) -> Typed:
        """Translate an expression that has no side effects."""
        first, value = self._read(text)
        if first:
            raise OtherTextError("++ and -- are not translated here: give them a statement of their own")
        return value


def _parts_of(text: str) -> list[str]:
    """Split a text at the commas outside of parentheses and brackets."""
    depth, found = 0, [""]
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found]


def _inside(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines or ["pass"]]
