"""Short functions in C as Python: formulas, and what makes the threads of a block wait.

In: the text of a function's body, for a processor or a GPU, and how many axes its arrays have. Out: the body in
Python, or None for a text of another kind. Of the language there are statements as of
:mod:`diffkern.warp.c_statements`, arithmetic, casts, choices, elements of arrays and fields, calls of Warp's built-in
functions, and the bits of a number read as another type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from diffkern.warp.c_calls import CALLS, OF_ONE_TYPE, OF_QUERIES, OVERLOADED
from diffkern.warp.c_statements import OLD, Statements
from diffkern.warp.c_types import (
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
)

__all__ = ["body_of", "preprocessed", "translated"]

_GPU: Final = re.compile(r"defined\s*\(?\s*__CUDA_ARCH__\s*\)?|__CUDA_ARCH__")
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
_TYPES: Final[Mapping[str, str]] = {
    **_INTEGERS, "float": "float32", "double": "float64", "bool": "bool", **{f"wp::{name}": name for name in SCALARS},
}  # fmt: skip
_VECTORS: Final = ("vec2", "vec3", "vec4", "vec2i", "vec3i", "vec4i", "quat", "mat33")
_DECLARED: Final[Mapping[str, str]] = {
    **_TYPES, **{f"wp::{name}": f"wp.{name}" for name in _VECTORS},
    **dict.fromkeys(("auto", "float2", "float3", "float4", "int2", "int3", "int4"), ""),
}  # fmt: skip
"""Types of variables: also those of vectors, and that of what they are set to."""
_TYPE_NAMES: Final = r"(?:const\s+)?([A-Za-z_][\w: ]*?)"
_ADDRESS: Final = r"(?:&\s*(\w+)|\(\s*&\s*(\w+)\s*\))"
_POINTER: Final = rf"\(\s*{_TYPE_NAMES}\s*\*\s*\)\s*{_ADDRESS}"
_OTHER_READINGS: Final = (
    re.compile(rf"reinterpret_cast<\s*{_TYPE_NAMES}\s*&\s*>\s*\(\s*(\w+)\s*\)"),
    re.compile(rf"\*\s*reinterpret_cast<\s*{_TYPE_NAMES}\s*\*\s*>\s*\(\s*&\s*(\w+)\s*\)"),
    re.compile(rf"\*\s*{_POINTER}"),
    re.compile(rf"\*\s*\(\s*{_POINTER}\s*\)"),
)
"""How C reads the bits of a variable as another type: through a reference, or a pointer."""
_ADDRESS_OF_ARRAY: Final = re.compile(
    r"(?:\(\s*(?:uint64_t|wp::uint64)\s*\)|reinterpret_cast<\s*(?:uint64_t|wp::uint64)\s*>)\s*\(?\s*(\w+)\.data\b(?!\s*\[)\s*\)?"
)
"""The address of an array's elements as an integer."""
_PACKED: Final = re.compile(
    r"\*\s*reinterpret_cast<\s*const\s+(float|int)([234])\s*\*\s*>\s*\(\s*&\s*([\w.]+)\[([^][]*)\]\s*\)"
)
"""How C reads several elements behind one another at once."""
_NAMES: Final[Mapping[str, Typed]] = {
    "true": Typed("True", "bool"), "false": Typed("False", "bool"), "nullptr": Typed("None", "nullptr"),
    "INFINITY": Typed("wp.float32(wp.inf)", "float32"), "NAN": Typed("wp.float32(wp.nan)", "float32"),
}  # fmt: skip
_OF_WARP: Final = re.compile(r"wp::(\w+)")
_BARRIERS: Final = frozenset({"WP_TILE_SYNC()", "__syncthreads()"})
_PRECEDENCE: Final[Mapping[str, int]] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


def preprocessed(text: str, gpu: bool) -> str:
    """Return what a compiler for a processor or a GPU sees of a text: comments gone, one branch of each ``#if``."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: " " + "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    kept: list[str] = []
    seen: list[bool] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*#\s*(\w+)(.*)", line)
        directive, rest = (f"#{found[1]}", found[2]) if found else ("", "")
        keeps = all(seen) and not directive
        if directive in ("#if", "#ifdef", "#ifndef"):
            known = _GPU.sub("", rest).strip(" ()")
            if known not in ("", "!") or _GPU.search(rest) is None:
                raise OtherTextError(f"of the condition {line.strip()} nothing is known here", number)
            seen.append(gpu is not (directive == "#ifndef" or known == "!"))
        elif directive == "#else" and seen:
            seen[-1] = not seen[-1]
        elif directive == "#endif" and seen:
            seen.pop()
        elif directive == "#elif" or (all(seen) and directive not in ("", "#pragma")):
            raise OtherTextError(f"the directive {directive} is not translated", number)
        kept.append(line if keeps else "")  # so that lines keep their numbers
    return "\n".join(kept)


def body_of(
    text: str,
    parameters: Mapping[str, str],
    gpu: bool,
    axes: Mapping[str, int] = MappingProxyType({}),
    result: str | None = "",
) -> list[str] | None:
    """Return the statements of a body in Python; None if they are not of those that are translated.

    See :func:`translated`.
    """
    try:
        return translated(text, parameters, gpu, axes, result)
    except OtherTextError:
        return None


def translated(
    text: str,
    parameters: Mapping[str, str],
    gpu: bool,
    axes: Mapping[str, int] = MappingProxyType({}),
    result: str | None = "",
    more: Mapping[str, Typed] = MappingProxyType({}),
) -> list[str]:
    """Return the statements of a body in Python.

    Parameters
    ----------
    text : str
        The body.
    parameters : mapping
        The types of the function's parameters, as in :mod:`diffkern.warp.c_types`, those of elements for arrays; those
        of fields are there as ``s.x``.
    gpu : bool
        Whether it is for a GPU.
    axes : mapping
        How many axes arrays have, by the name of a parameter, or of it and a field as ``s.x``; others have one. In C an
        element is named by its place in memory, which is that of contiguous arrays here.
    result : str or None
        The type of what the function returns; None if it returns nothing.
    more : mapping
        Variables besides the parameters: what they are called in Python, and their types.

    Raises
    ------
    OtherTextError
        The text is not of those that are translated; it says the line and the reason.
    """

    def simple(statement: str) -> list[str]:
        if "".join(statement.split()) not in _BARRIERS:
            raise OtherTextError(f"the statement {statement} is not translated")
        return ["wp.syncthreads()"] * gpu  # on a processor a block has one thread

    def expression(part: str, known: Mapping[str, Typed]) -> Expression:
        return Expression(part, known, axes, elements)

    elements: set[str] = set()
    types = {name: _type_of_warp(kind[3:]) if kind.startswith("wp.") else kind for name, kind in _DECLARED.items()}
    known = {name: Typed(name, kind) for name, kind in parameters.items()} | dict(more)
    if {"wp", "c_functions"} & set(known):
        raise OtherTextError("the parameters wp and c_functions have names of modules here")
    text = preprocessed(text, gpu)
    for name in axes:  # an array is the address of its elements where C indexes it
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(\s*\[)", rf"{name}.data\1", text)
    read = Statements(text, types, simple, expression, known, elements, result)
    try:
        return read.lines()
    except OtherTextError as caught:
        raise OtherTextError(caught.args[0] if caught.args else "it is not translated", read.line()) from None


class Expression:
    """Reads an expression of C and writes it in Python.

    Attributes
    ----------
    steps : list
        The variables that it counts up or down: their names, the sign, and whether the sign stands before.
    """

    def __init__(self, text: str, known: Mapping[str, Typed], axes: Mapping[str, int], elements: set[str]) -> None:
        self._known, self._axes, self._elements = known, axes, elements
        self._tokens: list[re.Match[str]] = []
        self.steps: list[tuple[str, str, bool]] = []
        position = 0
        text = _ADDRESS_OF_ARRAY.sub(r"__address_of(\1)", text)
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
        names = [token["name"] for token in self._tokens]
        conditional = any(token["op"] in ("&&", "||", "?") for token in self._tokens)
        for name, sign, _ in self.steps:
            if names.count(name) > 1 or conditional or len(self.steps) > 1:
                raise OtherTextError(f"{sign}{sign} of {name} within an expression: give it a statement of its own")

    def _choice(self) -> Typed:
        """An expression, or one of two."""
        condition = self._binary(0)
        if self._next() != "?":
            return condition
        self._at += 1
        first = self._choice()
        self._take(":")
        second = self._choice()
        kind = first.kind
        if first.kind != second.kind:
            if first.kind not in SCALARS or second.kind not in SCALARS:
                raise OtherTextError("both values of a choice need one type that is known here")
            kind = common(first.kind, second.kind)
        test = as_kind(condition, "bool")
        return Typed(f"({_set(first, kind)} if {test} else {_set(second, kind)})", kind)

    def _next(self) -> str:
        return self._tokens[self._at][0].strip() if self._at < len(self._tokens) else ""

    def _take(self, expected: str) -> None:
        if self._next() != expected:
            raise OtherTextError(f"{expected} is missing")
        self._at += 1

    def _binary(self, lowest: int) -> Typed:
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
            kind = promoted(value.kind)
            if token == "~" and kind.startswith("float"):
                raise OtherTextError("~ takes integers")
            return Typed(f"({token}{as_kind(value, kind)})", kind, value.constant)
        if token == "!":
            self._at += 1
            return Typed(f"(not {as_kind(self._unary(), 'bool')})", "bool")
        if token == "(" and (cast := self._cast()) is not None:
            return Typed(_set(self._unary(), cast), cast)
        value = self._primary()
        if self._next() in ("++", "--"):
            self._at += 1
            return self._stepped(value, self._tokens[self._at - 1]["op"][0], False)
        return value

    def _stepped(self, value: Typed, sign: str, before: bool) -> Typed:
        """A variable that is counted up or down; statements around do it."""
        name = next((name for name, known in self._known.items() if known == value), None)
        if name is None or value.kind not in SCALARS - {"bool"}:
            raise OtherTextError(f"{sign}{sign} is translated for variables that are numbers")
        self.steps.append((name, sign, before))
        return value if before else Typed(OLD, value.kind)

    def _cast(self) -> str | None:
        """The type in parentheses that begins here, which is passed."""
        end = self._at + 1
        while end < len(self._tokens) and self._tokens[end]["name"]:
            end += 1
        words = " ".join(self._tokens[k]["name"] for k in range(self._at + 1, end))
        if words not in _TYPES or end == len(self._tokens) or self._tokens[end][0].strip() != ")":
            return None
        self._at = end + 1
        return _TYPES[words]

    def _primary(self) -> Typed:
        if self._at == len(self._tokens):
            raise OtherTextError("an expression ends too early")
        token = self._tokens[self._at]
        self._at += 1
        if token["float"]:
            number = token["float"]
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
        if self._next() == "(" and name not in self._known:
            return self._call(name)
        if name in self._known:
            return self._part_of(name)
        if name in _NAMES:
            return _NAMES[name]
        raise OtherTextError(f"{name or token[0].strip()} is not known here")

    def _call(self, name: str) -> Typed:
        arguments = self._arguments()
        codes = [argument.code for argument in arguments]
        if name in _TYPES and len(arguments) == 1:
            return Typed(_set(arguments[0], _TYPES[name]), _TYPES[name])
        if name == "__address_of":
            return Typed(f"{codes[0]}.ptr", "uint64")
        if name.startswith("__bits_as_"):
            return _read_as(arguments[0], name.removeprefix("__bits_as_"))
        if name in OVERLOADED and len(arguments) == 1:
            kind = arguments[0].kind if arguments[0].kind == "float32" else "float64"
            return Typed(OVERLOADED[name].format(as_kind(arguments[0], kind)), kind)
        if name in CALLS and len(arguments) == len(CALLS[name][2]):
            pattern, kind, wanted = CALLS[name]
            return Typed(pattern.format(*(_set(a, k) for a, k in zip(arguments, wanted, strict=True))), kind)
        if (of_warp := _OF_WARP.fullmatch(name)) is not None:
            return _call_of_warp(of_warp[1], arguments)
        raise OtherTextError(f"a call of {name} with {len(arguments)} arguments is not translated")

    def _part_of(self, name: str) -> Typed:
        """A variable, or fields and elements of it."""
        found = self._known[name]
        while self._next() == ".":
            self._at += 1
            field = self._tokens[self._at]["name"] if self._at < len(self._tokens) else None
            if field is None:
                raise OtherTextError("a field is missing")
            self._at += 1
            if field not in ("data", "shape"):
                name = f"{name}.{field}"
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

    def _element(self, name: str, array: Typed, index: str) -> Typed:
        """The element of an array at a place in memory."""
        indices, extents = [], ""
        for axis in reversed(range(self._axes.get(name, 1))):
            place = f"({index}){extents}"
            extents += f" // {array.code}.shape[{axis}]"
            indices.append(f"({place}) % {array.code}.shape[{axis}]" if axis else place)
        found = f"{array.code}[{', '.join(reversed(indices))}]" if len(indices) > 1 else f"{array.code}[{index}]"
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


def _set(value: Typed, kind: str) -> str:
    """A value of a type, also where it is a literal."""
    return f"wp.{kind}({value.code})" if value.constant and kind in SCALARS - {"bool"} else as_kind(value, kind)


def _read_as(value: Typed, kind: str) -> Typed:
    """The bits of a value as those of another type, which is as wide."""
    if value.kind not in SCALARS or bits_of(value.kind) != bits_of(kind):
        raise OtherTextError(f"the bits of {value.code} are not those of a {kind}")
    return Typed(f"wp.cast({value.code}, wp.{kind})", kind)


def _type_of_warp(name: str) -> str:
    """The text of a vector's type."""
    import diffkern.warp as wp

    return str(getattr(getattr(wp, name, None), "ir", ""))


def _call_of_warp(name: str, arguments: list[Typed]) -> Typed:
    """A call of a built-in function of Warp."""
    called = _built_in(name)
    arguments = [argument for argument in arguments if argument.kind != "nullptr"]
    kinds = {argument.kind for argument in arguments}
    kind = _type_of_warp(name) if called.startswith("wp.") else ""
    if name in OF_ONE_TYPE:
        if len(kinds) > 1:
            raise OtherTextError(f"the arguments of wp::{name} have several types; cast them to one")
        kind = next(iter(kinds), "")
        if kind not in ("", *SCALARS) or (name not in ("min", "max", "abs", "clamp") and not kind.startswith("float")):
            kind = ""
    elif inner := component(kind):
        arguments = [Typed(_set(a, inner), inner) if a.kind in SCALARS else a for a in arguments]
    elif name in ("dot", "length", "length_sq") and arguments:
        kind = component(arguments[0].kind)
    elif re.match("mesh_query_(point|ray)", name):
        kind = "query"
    return Typed(f"{called}({', '.join(argument.code for argument in arguments)})", kind)


def _built_in(name: str) -> str:
    """What a function of Warp is called in Python."""
    import diffkern.warp as wp
    from diffkern.warp import c_functions

    if name in c_functions.__all__:
        return f"c_functions.{name}"
    if not callable(getattr(wp, name, None)):
        raise OtherTextError(f"there is no function wp::{name} here")
    return f"wp.{name}"


def _packed(found: re.Match[str]) -> str:
    """A reading of several elements at once, as a vector of these."""
    scalar, count, array, index = found.groups()
    elements = ", ".join(f"{array}[({index}) + {k}]" for k in range(int(count)))
    return f"wp::vec{count}{'i' if scalar == 'int' else ''}({elements})"


def _bits(found: re.Match[str]) -> str:
    """A reading of a variable as another type, as a call."""
    name = " ".join(found[1].split())
    if name not in _TYPES:
        raise OtherTextError(f"bits read as {name} are not translated")
    return f"__bits_as_{_TYPES[name]}({next(filter(None, found.groups()[1:]))})"
