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

from diffkern.warp.c_statements import OtherTextError, Statements

__all__ = ["body_of", "preprocessed"]

_GPU: Final = re.compile(r"defined\s*\(?\s*__CUDA_ARCH__\s*\)?|__CUDA_ARCH__")
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<float>\d+\.\d*(?:[eE][+-]?\d+)?[fF]?|\d+[fF])|(?P<int>0[xX][0-9a-fA-F]+|\d+)(?P<suffix>[uUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*(?:::\w+)*)|(?P<op><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>(),.?:\[\]]))"
)
_TYPES: Final[Mapping[str, str]] = {
    "int": "int32", "int32_t": "int32", "unsigned": "uint32", "unsigned int": "uint32", "uint32_t": "uint32",
    "long long": "int64", "int64_t": "int64", "unsigned long long": "uint64", "uint64_t": "uint64",
    "float": "float32", "double": "float64", "bool": "bool", "wp::int64": "int64", "wp::uint64": "uint64",
}  # fmt: skip
_DECLARED: Final[Mapping[str, str]] = {
    **_TYPES, **{f"wp::{name}": name for name in ("vec2", "vec3", "vec4", "vec2i", "vec3i", "vec4i", "quat", "mat33")},
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
_LOWEST_BIT: Final = "wp.bit_count(({0}) ^ (({0}) - type({0})(1)))"
_CALLS: Final[Mapping[str, str]] = {
    "sqrtf": "wp.sqrt({0})", "sqrt": "wp.sqrt({0})", "fabsf": "wp.abs({0})", "fabs": "wp.abs({0})",
    "fmaxf": "wp.max({0}, {1})", "fminf": "wp.min({0}, {1})", "expf": "wp.exp({0})", "logf": "wp.log({0})",
    "sinf": "wp.sin({0})", "cosf": "wp.cos({0})", "floorf": "wp.floor({0})",
    "__frsqrt_rn": "(1.0 / wp.sqrt({0}))", "rsqrtf": "(1.0 / wp.sqrt({0}))",
    "__popc": "wp.bit_count({0})", "__popcll": "wp.bit_count({0})",
    "__builtin_popcount": "wp.bit_count({0})", "__builtin_popcountll": "wp.bit_count({0})",
    "__ffsll": f"wp.where(({{0}}) == type({{0}})(0), 0, wp.int32({_LOWEST_BIT}))",
    "__builtin_ffsll": f"wp.where(({{0}}) == type({{0}})(0), 0, wp.int32({_LOWEST_BIT}))",
    "__builtin_ctzll": f"(wp.int32({_LOWEST_BIT}) - 1)",
    "nextafterf": "c_functions.next_after(wp.float32({0}), wp.float32({1}))",
    "__builtin_nextafterf": "c_functions.next_after(wp.float32({0}), wp.float32({1}))",
    "__float_as_int": "wp.cast(wp.float32({0}), wp.int32)", "__int_as_float": "wp.cast(wp.int32({0}), wp.float32)",
    "__float_as_uint": "wp.cast(wp.float32({0}), wp.uint32)", "__uint_as_float": "wp.cast(wp.uint32({0}), wp.float32)",
    "__double_as_longlong": "wp.cast(wp.float64({0}), wp.int64)",
    "__longlong_as_double": "wp.cast(wp.int64({0}), wp.float64)",
    "__address_of": "{0}.ptr",
    **{f"__bits_as_{name}": f"wp.cast({{0}}, wp.{name})" for name in set(_TYPES.values())},
}  # fmt: skip
_NAMES: Final[Mapping[str, str]] = {
    "true": "True", "false": "False", "nullptr": "None", "INFINITY": "wp.float32(wp.inf)", "NAN": "wp.float32(wp.nan)",
}  # fmt: skip
_OF_WARP: Final = re.compile(r"wp::(\w+)")
_IN_PYTHON: Final[Mapping[str, str]] = {"||": "or", "&&": "and"}
_BARRIERS: Final = frozenset({"WP_TILE_SYNC()", "__syncthreads()"})
_PRECEDENCE: Final[Mapping[str, int]] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


def preprocessed(text: str, gpu: bool) -> str:
    """Return what a compiler for a processor or a GPU sees of a text: comments gone, one branch of each ``#if``."""
    text = re.sub(r"/\*.*?\*/", " ", re.sub(r"//[^\n]*", "", text), flags=re.DOTALL)
    kept: list[str] = []
    seen: list[bool] = []
    for line in text.splitlines():
        directive, _, rest = line.strip().partition(" ")
        if directive in ("#if", "#ifdef", "#ifndef"):
            known = _GPU.sub("", rest).strip(" ()")
            if known not in ("", "!"):
                return line  # of which nothing is known
            seen.append(gpu is not (directive == "#ifndef" or known == "!"))
        elif directive == "#else" and seen:
            seen[-1] = not seen[-1]
        elif directive == "#endif" and seen:
            seen.pop()
        elif all(seen) and directive != "#pragma":
            kept.append(line)
    return "\n".join(kept)


def body_of(
    text: str, parameters: tuple[str, ...], gpu: bool, axes: Mapping[str, int] = MappingProxyType({})
) -> list[str] | None:
    """Return the statements of a body in Python; None if they are not of those that are translated.

    Parameters
    ----------
    text : str
        The body.
    parameters : tuple of str
        The names of the function's parameters.
    gpu : bool
        Whether it is for a GPU.
    axes : mapping
        How many axes arrays have, by the name of a parameter, or of it and a field as ``s.x``; others have one. In C an
        element is named by its place in memory, which is that of contiguous arrays here.
    """

    def simple(statement: str) -> list[str]:
        if statement.replace(" ", "") not in _BARRIERS:
            raise OtherTextError
        return ["wp.syncthreads()"] * gpu  # on a processor a block has one thread

    def expression(part: str, known: set[str]) -> str:
        return _Expression(part, known, axes, elements).whole()

    elements: set[str] = set()
    shown = " ".join(preprocessed(text, gpu).split())
    try:
        return Statements(shown, _DECLARED, simple, expression, dict.fromkeys(parameters), elements).lines()
    except OtherTextError:
        return None


class _Expression:
    """Reads an expression of C and writes it in Python."""

    def __init__(self, text: str, known: set[str], axes: Mapping[str, int], elements: set[str]) -> None:
        self._known, self._axes, self._elements = known, axes, elements
        self._tokens: list[re.Match[str]] = []
        position = 0
        text = _ADDRESS_OF_ARRAY.sub(r"__address_of(\1)", text)
        text = _PACKED.sub(_packed, text)
        for reading in _OTHER_READINGS:
            text = reading.sub(_bits, text)
        text = re.sub(r"static_cast<\s*([\w: ]+?)\s*>\s*\(", lambda m: f"({m[1]})(", text).strip()
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise OtherTextError
            self._tokens.append(token)
            position = token.end()
        self._at = 0

    def whole(self) -> str:
        """Return the whole text in Python."""
        found = self._choice()
        if self._at != len(self._tokens):
            raise OtherTextError
        return found

    def _choice(self) -> str:
        """An expression, or one of two."""
        condition = self._binary(0)
        if self._next() != "?":
            return condition
        self._at += 1
        first = self._choice()
        self._take(":")
        return f"({first} if {condition} else {self._choice()})"

    def _next(self) -> str:
        return self._tokens[self._at][0].strip() if self._at < len(self._tokens) else ""

    def _take(self, expected: str) -> None:
        if self._next() != expected:
            raise OtherTextError
        self._at += 1

    def _binary(self, lowest: int) -> str:
        left = self._unary()
        while (level := _PRECEDENCE.get(operator := self._next(), 0)) > lowest:
            self._at += 1
            left = f"({left} {_IN_PYTHON.get(operator, operator)} {self._binary(level)})"
        return left

    def _unary(self) -> str:
        token = self._next()
        if token in ("-", "~", "+"):
            self._at += 1
            return f"({token}{self._unary()})"
        if token == "!":
            self._at += 1
            return f"(not {self._unary()})"
        if token == "(" and (cast := self._cast()) is not None:
            return f"wp.{cast}({self._unary()})"
        return self._primary()

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

    def _primary(self) -> str:
        if self._at == len(self._tokens):
            raise OtherTextError
        token = self._tokens[self._at]
        self._at += 1
        if token["float"]:
            number = token["float"]
            return f"wp.float32({number[:-1]})" if number[-1] in "fF" else f"wp.float64({number})"
        if token["int"]:
            return _integer(token["int"], token["suffix"].lower())
        if token["op"] == "(":
            inside = self._choice()
            self._take(")")
            return f"({inside})"
        name = token["name"] or ""
        if name in _NAMES:
            return _NAMES[name]
        if self._next() == "(" and name in _CALLS:
            return _CALLS[name].format(*self._arguments())
        if self._next() == "(" and (of_warp := _OF_WARP.fullmatch(name)) is not None:
            return f"{_built_in(of_warp[1])}({', '.join(part for part in self._arguments() if part != 'None')})"
        if name not in self._known:
            raise OtherTextError
        return self._part_of(name)

    def _part_of(self, name: str) -> str:
        """A variable, or fields and elements of it."""
        while self._next() == ".":
            self._at += 1
            field = self._tokens[self._at]["name"] if self._at < len(self._tokens) else None
            if field is None:
                raise OtherTextError
            self._at += 1
            if field not in ("data", "shape"):
                name = f"{name}.{field}"
                continue
            if field == "data" and self._next() == ".":  # of a tile
                self._at += 1
                self._take("ptr")
            self._take("[")
            index = self._choice()
            self._take("]")
            return f"{name}.shape[{index}]" if field == "shape" else self._element(name, index)
        return name

    def _element(self, name: str, index: str) -> str:
        """The element of an array at a place in memory."""
        indices, extents = [], ""
        for axis in reversed(range(self._axes.get(name, 1))):
            place = f"({index}){extents}"
            extents += f" // {name}.shape[{axis}]"
            indices.append(f"({place}) % {name}.shape[{axis}]" if axis else place)
        found = f"{name}[{', '.join(reversed(indices))}]" if len(indices) > 1 else f"{name}[{index}]"
        self._elements.add(found)
        return found

    def _arguments(self) -> list[str]:
        self._take("(")
        found = [self._choice()]
        while self._next() == ",":
            self._at += 1
            found.append(self._choice())
        self._take(")")
        return found


def _built_in(name: str) -> str:
    """What a function of Warp is called in Python."""
    import diffkern.warp as wp
    from diffkern.warp import c_functions

    if name in c_functions.__all__:
        return f"c_functions.{name}"
    if not callable(getattr(wp, name, None)):
        raise OtherTextError
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
        raise OtherTextError
    return f"__bits_as_{_TYPES[name]}({next(filter(None, found.groups()[1:]))})"


def _integer(digits: str, suffix: str) -> str:
    """A literal with the type that C gives it."""
    value, unsigned = int(digits, 0), "u" in suffix
    wide = "ll" in suffix or "l" in suffix or value >= (2**32 if unsigned or digits[:2] in ("0x", "0X") else 2**31)
    if not wide and not unsigned and value < 2**31:
        return digits
    is_unsigned = unsigned or (value >= 2**63 if wide else value >= 2**31)
    return f"wp.{'uint' if is_unsigned else 'int'}{64 if wide else 32}({digits})"
