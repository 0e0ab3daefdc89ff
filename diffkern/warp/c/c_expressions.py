"""Expressions of C in Python: arithmetic, casts, conditionals, elements of arrays, fields, calls.

:class:`Expression` takes the text of an expression and the names that are known. It gives the expression in Python with
the type that C gives it, and raises :class:`OtherTextError` for an expression outside of the subset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from diffkern.warp.c.c_calls import CALLS, OF_QUERIES, OVERLOADED, call_of_warp
from diffkern.warp.c.c_gpu import NAMES, atomic_update, called, of_bits, update_named
from diffkern.warp.c.c_statements import OLD
from diffkern.warp.c.c_types import (
    SCALARS,
    OtherTextError,
    Typed,
    arithmetic,
    as_kind,
    bits_of,
    common,
    component,
    literal,
    promoted,
    set_to,
)

__all__ = ["TYPES", "Expression"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+[eE][+-]?\d+[fF]?)|(?P<int>0[xX][0-9a-fA-F]+|\d+)(?P<suffix>[uUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*(?:::\w+)*)|(?P<op>\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>(),.?:\[\]]))"
)
_INTEGERS: Final[Mapping[str, str]] = {
    "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16", "int": "int32",
    "signed": "int32", "signed int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64",
    "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64", "size_t": "uint64",
    **{f"{name}_t": name for name in SCALARS if "int" in name},
}  # fmt: skip
TYPES: Final[Mapping[str, str]] = {
    **_INTEGERS, "float": "float32", "double": "float64", "bool": "bool", **{f"wp::{name}": name for name in SCALARS},
}  # fmt: skip
_TYPE_NAMES: Final = r"(?:const\s+)?([A-Za-z_][\w: ]*?)"
_ADDRESS: Final = r"(?:&\s*(\w+)|\(\s*&\s*(\w+)\s*\))"
_POINTER: Final = rf"\(\s*{_TYPE_NAMES}\s*\*\s*\)\s*{_ADDRESS}"
_OTHER_READINGS: Final = (
    re.compile(rf"reinterpret_cast<\s*{_TYPE_NAMES}\s*&\s*>\s*\(\s*(\w+)\s*\)"),
    re.compile(rf"\*\s*reinterpret_cast<\s*{_TYPE_NAMES}\s*\*\s*>\s*\(\s*&\s*(\w+)\s*\)"),
    re.compile(rf"\*\s*{_POINTER}"),
    re.compile(rf"\*\s*\(\s*{_POINTER}\s*\)"),
)
"""C's ways to read the bits of a variable as another type: through a reference, or a pointer."""
_ADDRESS_OF_ARRAY: Final = re.compile(
    r"(?:\(\s*(?:uint64_t|wp::uint64)\s*\)|reinterpret_cast<\s*(?:uint64_t|wp::uint64)\s*>)\s*\(?\s*(\w+)\.data\b(?!\s*\[)\s*\)?"
)
"""The address of an array's elements as an integer."""
_PACKED: Final = re.compile(
    r"\*\s*reinterpret_cast<\s*const\s+(float|int)([234])\s*\*\s*>\s*\(\s*&\s*([\w.]+)\[([^][]*)\]\s*\)"
)
"""C's way to read several consecutive elements at once."""
_NAMES: Final[Mapping[str, Typed]] = {
    "true": Typed("True", "bool"), "false": Typed("False", "bool"), "nullptr": Typed("None", "nullptr"),
    "INFINITY": Typed("wp.float32(wp.inf)", "float32"), "NAN": Typed("wp.float32(wp.nan)", "float32"),
}  # fmt: skip
_OF_WARP: Final = re.compile(r"wp::(\w+)")
_ARRAY: Final = "[]"
"""The suffix of the type of an array that is declared in the text."""
_PRECEDENCE: Final[Mapping[str, int]] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


class Expression:
    """A recursive-descent parser of an expression of C, which writes it in Python.

    Attributes
    ----------
    steps : list
        The variables that the expression increments or decrements: their names, the sign, and whether the operator is a
        prefix.
    """

    def __init__(
        self, text: str, known: Mapping[str, Typed], axes: Mapping[str, int], elements: set[str], gpu: bool
    ) -> None:
        self._known, self._axes, self._elements, self._gpu = known, axes, elements, gpu
        self._tokens: list[re.Match[str]] = []
        self.steps: list[tuple[str, str, bool]] = []
        position = 0
        # Reinterpretations and static_cast are rewritten as calls and C casts first: the grammar below knows neither
        # pointers nor templates.
        text = _ADDRESS_OF_ARRAY.sub(r"__address_of(\1)", text)
        # Before the plain readings, whose patterns would match a part of it.
        text = _PACKED.sub(_packed, text)
        for reading in _OTHER_READINGS:
            text = reading.sub(_bits, text)
        text = re.sub(r"static_cast<\s*([\w: ]+?)\s*>\s*\(", lambda m: f"({m[1]})(", text).strip()
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise OtherTextError(f"{text[position:].split()[0]} is not translated")
            self._tokens.append(token)
            position = token.end()
        self._at = 0

    def whole(self) -> Typed:
        """Return the whole text in Python."""
        found = self._choice()
        if self._at != len(self._tokens):
            raise OtherTextError(f"{self._next()} is not translated here")
        self._check_steps()
        return found

    def _check_steps(self) -> None:
        # A step becomes a statement before the expression. That changes nothing only if the step runs in any case, and
        # no other read of the variable could come before or after it.
        names = [token["name"] for token in self._tokens]
        conditional = any(token["op"] in ("&&", "||", "?") for token in self._tokens)
        for name, sign, _ in self.steps:
            if names.count(name) > 1 or conditional or len(self.steps) > 1:
                raise OtherTextError(f"{sign}{sign} of {name} within an expression: give it a statement of its own")

    def _choice(self) -> Typed:
        """Parse an expression, which may be a conditional ``a ? b : c``."""
        condition = self._binary(0)
        if self._next() != "?":
            return condition
        self._at += 1
        first = self._choice()
        self._take(":")
        second = self._choice()
        # C gives a conditional the common type of both values, whichever is taken.
        kind = first.kind
        if first.kind != second.kind:
            if first.kind not in SCALARS or second.kind not in SCALARS:
                raise OtherTextError("both values of a choice need one type that is known here")
            kind = common(first.kind, second.kind)
        test = as_kind(condition, "bool")
        return Typed(f"({set_to(first, kind)} if {test} else {set_to(second, kind)})", kind)

    def _next(self) -> str:
        return self._tokens[self._at][0].strip() if self._at < len(self._tokens) else ""

    def _take(self, expected: str) -> None:
        if self._next() != expected:
            raise OtherTextError(f"{expected} is missing")
        self._at += 1

    def _binary(self, lowest: int) -> Typed:
        # Precedence climbing: operators of one level associate to the left, as in C.
        left = self._unary()
        while (level := _PRECEDENCE.get(operator := self._next(), 0)) > lowest:
            self._at += 1
            left = arithmetic(operator, left, self._binary(level))
        return left

    def _unary(self) -> Typed:
        token = self._next()
        if token in ("++", "--"):
            self._at += 1
            return self._stepped(self._unary(), token[0], True)
        if token in ("-", "~", "+"):
            self._at += 1
            value = self._unary()
            if value.kind not in SCALARS and not (token == "-" and component(value.kind)):
                raise OtherTextError(f"the type of {value.code} is not known here")
            # Unary operators promote as well: -x of an int8 is an int in C, which does not wrap at 8 bits.
            kind = promoted(value.kind)
            if token == "~" and kind.startswith("float"):
                raise OtherTextError("~ takes integers")
            return Typed(f"({token}{as_kind(value, kind)})", kind, value.constant)
        if token == "!":
            self._at += 1
            return Typed(f"(not {as_kind(self._unary(), 'bool')})", "bool")
        if token == "(" and (cast := self._cast()) is not None:
            return Typed(set_to(self._unary(), cast), cast)
        value = self._primary()
        if self._next() in ("++", "--"):
            self._at += 1
            return self._stepped(value, self._tokens[self._at - 1]["op"][0], False)
        return value

    def _stepped(self, value: Typed, sign: str, before: bool) -> Typed:
        """Note that a variable is incremented or decremented; the statement around the expression does it."""
        # Only a variable by itself equals its entry; elements, fields and other expressions do not.
        name = next((name for name, known in self._known.items() if known == value), None)
        if name is None or value.kind not in SCALARS - {"bool"}:
            raise OtherTextError(f"{sign}{sign} is translated for variables that are numbers")
        self.steps.append((name, sign, before))
        return value if before else Typed(OLD, value.kind)

    def _cast(self) -> str | None:
        """Return the type of the cast that begins here, and skip it; None if there is none."""
        end = self._at + 1
        while end < len(self._tokens) and self._tokens[end]["name"]:
            end += 1
        words = " ".join(self._tokens[k]["name"] for k in range(self._at + 1, end))
        # `(x)` may as well be a variable in parentheses: only the name of a type makes it a cast.
        if words not in TYPES or end == len(self._tokens) or self._tokens[end][0].strip() != ")":
            return None
        self._at = end + 1
        return TYPES[words]

    def _primary(self) -> Typed:
        if self._at == len(self._tokens):
            raise OtherTextError("an expression ends too early")
        token = self._tokens[self._at]
        self._at += 1
        if token["float"]:
            number = token["float"]
            # Without a suffix a literal is a double in C, and so is the arithmetic with it.
            single = number[-1] in "fF"
            kind = "float32" if single else "float64"
            return Typed(f"wp.{kind}({number[:-1] if single else number})", kind)
        if token["int"]:
            return literal(token["int"], token["suffix"].lower())
        if token["op"] == "(":
            inside = self._choice()
            self._take(")")
            return Typed(f"({inside.code})", inside.kind, inside.constant)
        name = token["name"] or ""
        # GPU names first: `threadIdx` is no known variable, and an atomic takes an address, which is no expression.
        if self._gpu and self._next() == "." and (own := self._own(name)) is not None:
            return own
        if self._gpu and self._next() == "(" and (update := update_named(name)):
            return self._update(update)
        if self._next() == "(" and name not in self._known:
            return self._call(name)
        if name in self._known:
            return self._part_of(name)
        if name in _NAMES:
            return _NAMES[name]
        raise OtherTextError(f"{name or token[0].strip()} is not known here")

    def _own(self, name: str) -> Typed | None:
        """Return a built-in variable of a GPU thread, as ``threadIdx.x``, and skip its field; None for another name."""
        field = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None
        found = NAMES.get(f"{name}.{field['name']}") if field and name not in self._known else None
        self._at += 2 * (found is not None)
        return found

    def _update(self, name: str) -> Typed:
        """Parse an atomic update of an array's element, which may be reinterpreted as another type."""
        self._take("(")
        wanted = ""
        if self._next() == "reinterpret_cast":
            words = [self._tokens[self._at + k][0].strip() for k in range(1, 5) if self._at + k < len(self._tokens)]
            wanted = TYPES.get(words[1], "") if len(words) == 4 and words[2:] == ["*", ">"] else ""
            if not wanted:
                raise OtherTextError("this reading of an element as another type is not translated")
            self._at += 5
            self._take("(")
        array, indices = self._place()
        if wanted:
            self._take(")")
        values = []
        while self._next() == ",":
            self._at += 1
            values.append(self._choice())
        self._take(")")
        # Equal bits do not mean an equal update: the order of floats differs from that of their bits as integers.
        if wanted and wanted != array.kind:
            return of_bits(name, array, indices, wanted, values)
        return atomic_update(name, ", ".join((array.code, *indices)), array.kind, values)

    def _place(self) -> tuple[Typed, list[str]]:
        """Parse the address of an element, ``&a.data[k]`` or ``wp::address(a, i)``, as the array and the indices."""
        if self._next() == "wp::address":
            self._at += 1
            array, *indices = self._arguments()
            if not indices:
                raise OtherTextError("wp::address takes an array and an index")
            return array, [as_kind(index, "int32") for index in indices]
        self._take("&")
        token = self._tokens[self._at]["name"] if self._at < len(self._tokens) else None
        if token is None or token not in self._known:
            raise OtherTextError("the address of an element is missing")
        name, array = token, self._known[token]
        self._at += 1
        while self._next() == ".":
            field = self._tokens[self._at + 1][0].strip() if self._at + 1 < len(self._tokens) else ""
            self._at += 2
            if field == "data":
                break
            name = f"{name}.{field}"
            array = Typed(f"{array.code}.{field}", self._known[name].kind if name in self._known else "")
        self._take("[")
        index = self._choice()
        self._take("]")
        if array.kind.endswith(_ARRAY):
            return replace(array, kind=array.kind.removesuffix(_ARRAY)), [as_kind(index, "int32")]
        return array, self._indices(name, array, as_kind(index, common(index.kind, "int32")))

    def _call(self, name: str) -> Typed:
        arguments = self._arguments()
        codes = [argument.code for argument in arguments]
        if name in TYPES and len(arguments) == 1:
            return Typed(set_to(arguments[0], TYPES[name]), TYPES[name])
        if name == "__address_of":
            return Typed(f"{codes[0]}.ptr", "uint64")
        if name.startswith("__bits_as_"):
            return _read_as(arguments[0], name.removeprefix("__bits_as_"))
        # CUDA overloads min and max for mixed types, unlike Warp's functions, which take one type.
        if name in ("min", "max") and len(arguments) == 2 and all(a.kind in SCALARS for a in arguments):
            kind = common(arguments[0].kind, arguments[1].kind)
            return Typed(f"wp.{name}({set_to(arguments[0], kind)}, {set_to(arguments[1], kind)})", kind)
        if self._gpu and (exchanged := called(name, arguments)) is not None:
            return exchanged
        # Functions that the text defines hide those of C and of Warp.
        if (local := self._known.get(f"{name}()")) is not None:
            return _call_of_local(local, arguments)
        if name in OVERLOADED and len(arguments) == 1:
            # <cmath> converts integers to double.
            kind = arguments[0].kind if arguments[0].kind == "float32" else "float64"
            return Typed(OVERLOADED[name].format(as_kind(arguments[0], kind)), kind)
        if name in CALLS and len(arguments) == len(CALLS[name][2]):
            pattern, kind, wanted = CALLS[name]
            return Typed(pattern.format(*(set_to(a, k) for a, k in zip(arguments, wanted, strict=True))), kind)
        if (of_warp := _OF_WARP.fullmatch(name)) is not None:
            return call_of_warp(of_warp[1], arguments)
        raise OtherTextError(f"a call of {name} with {len(arguments)} arguments is not translated")

    def _part_of(self, name: str) -> Typed:
        """Parse a variable, with the fields and elements behind it."""
        found = self._known[name]
        while self._next() in (".", "["):
            # The components of a vector are `v[k]` or `v.c[k]`. Elements of arrays come after `.data`, below.
            if self._next() == "[" or (component(found.kind) and self._is_component()):
                found = self._component(found)
                continue
            self._at += 1
            field = self._tokens[self._at]["name"] if self._at < len(self._tokens) else None
            if field is None:
                raise OtherTextError("a field is missing")
            self._at += 1
            if field not in ("data", "shape"):
                name = f"{name}.{field}"
                # Of structs the types of fields are known by their full names; of vectors and queries they follow from
                # the type.
                inner = component(found.kind) if field in "xyzw" else ""
                inner = OF_QUERIES.get(field, "") if found.kind == "query" else inner
                known = self._known.get(name)
                found = Typed(f"{found.code}.{field}", known.kind if known else inner)
                continue
            if field == "data" and self._next() == ".":  # of a tile
                self._at += 1
                self._take("ptr")
            self._take("[")
            index = self._choice()
            self._take("]")
            if index.kind not in SCALARS or index.kind.startswith("float"):
                raise OtherTextError(f"the index {index.code} is no integer")
            place = as_kind(index, common(index.kind, "int32"))
            return (
                Typed(f"{found.code}.shape[{place}]", "int32")
                if field == "shape"
                else self._element(name, found, place)
            )
        return found

    def _is_component(self) -> bool:
        """Return whether ``.c[k]`` comes next, the components of a vector in Warp's C++, and skip the ``.c``."""
        ahead = [self._tokens[self._at + k][0].strip() for k in range(1, 3) if self._at + k < len(self._tokens)]
        if ahead == ["c", "["]:
            self._at += 2
            return True
        return False

    def _component(self, found: Typed) -> Typed:
        """Parse the subscript of a vector, or of an array that the text declares."""
        kind = found.kind.removesuffix(_ARRAY) if found.kind.endswith(_ARRAY) else component(found.kind)
        if not kind or found.kind.startswith("mat"):
            raise OtherTextError(f"an element of {found.code}, of which no type is known here")
        self._take("[")
        index = self._choice()
        self._take("]")
        if index.kind not in SCALARS or index.kind.startswith("float"):
            raise OtherTextError(f"the index {index.code} is no integer")
        return Typed(f"{found.code}[{as_kind(index, common(index.kind, 'int32'))}]", kind)

    def _indices(self, name: str, array: Typed, index: str) -> list[str]:
        """Return the index along each axis of the element at a linear offset."""
        # The inverse of the row-major offset: the last axis is the remainder, the first one needs none.
        count, indices, extents = self._axes.get(name, 1), list[str](), ""
        if count == 1:
            return [index]
        for axis in reversed(range(count)):
            place = f"({index}){extents}"
            extents += f" // {array.code}.shape[{axis}]"
            indices.append(f"({place}) % {array.code}.shape[{axis}]" if axis else place)
        return indices[::-1]

    def _element(self, name: str, array: Typed, index: str) -> Typed:
        """Return the element of an array at a linear offset, and note that it was accessed."""
        # Statements checks these reads against stores to the same element.
        found = f"{array.code}[{', '.join(self._indices(name, array, index))}]"
        self._elements.add(found)
        return Typed(found, array.kind)

    def _arguments(self) -> list[Typed]:
        self._take("(")
        if self._next() == ")":
            self._at += 1
            return []
        found = [self._choice()]
        while self._next() == ",":
            self._at += 1
            found.append(self._choice())
        self._take(")")
        return found


def _call_of_local(function: Typed, arguments: Sequence[Typed]) -> Typed:
    """Return a call of a function that the text defines; its kind lists the types of its result and its parameters."""
    result, *kinds = function.kind.split(",")
    if len(kinds) != len(arguments):
        raise OtherTextError(f"{function.code} takes {len(kinds)} arguments")
    given = (set_to(value, kind) for value, kind in zip(arguments, kinds, strict=True))
    return Typed(f"{function.code}({', '.join(given)})", result)


def _read_as(value: Typed, kind: str) -> Typed:
    """Reinterpret the bits of a value as another type of the same width."""
    if value.kind not in SCALARS or bits_of(value.kind) != bits_of(kind):
        raise OtherTextError(f"the bits of {value.code} are not those of a {kind}")
    return Typed(f"wp.cast({value.code}, wp.{kind})", kind)


def _packed(found: re.Match[str]) -> str:
    """Rewrite a load of several elements at once as a vector of these elements."""
    scalar, count, array, index = found.groups()
    elements = ", ".join(f"{array}[({index}) + {k}]" for k in range(int(count)))
    return f"wp::vec{count}{'i' if scalar == 'int' else ''}({elements})"


def _bits(found: re.Match[str]) -> str:
    """Rewrite the reinterpretation of a variable as a call of ``__bits_as_<type>``."""
    name = " ".join(found[1].split())
    if name not in TYPES:
        raise OtherTextError(f"bits read as {name} are not translated")
    return f"__bits_as_{TYPES[name]}({next(filter(None, found.groups()[1:]))})"
