"""Directives that write the reference: built-in functions, types, constants and settings, each from its own table.

``builtin-functions`` takes a family and gives a table of its functions, then an entry for each. ``builtin-families`` is
the overview. ``cuda-language``, ``scalar-types``, ``composite-types``, ``constants``, ``settings`` and ``command-line``
take nothing. All of them write reStructuredText, so that what they define is in the index and the search like all else.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util.docutils import SphinxDirective

from diffkern.cli.command import make_parser
from diffkern.cuda.types import TYPES
from diffkern.ir.ops.function import Subject
from diffkern.lang import COMPOSITES, SCALARS, public_names
from diffkern.lang.intrinsics import INTRINSICS, Intrinsic
from diffkern.lang.library import COMPLEX, Composed
from diffkern.lang.numba_cuda import LANGUAGE, Special
from diffkern.lang.reference import PRELUDE
from diffkern.runtime.observe.config import SETTINGS

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

BuiltIn = Intrinsic | Composed

PAGES = {
    Subject.SCALARS: "scalars",
    Subject.INTEGERS: "integers",
    Subject.COMPOSITES: "vectors",
    Subject.ROTATIONS: "rotations",
    Subject.COMPLEX: "complex",
    Subject.RANDOM: "random",
    Subject.THREADS: "threads",
    Subject.ATOMICS: "atomics",
    Subject.TILES: "tile_functions",
    Subject.QUERIES: "queries",
    Subject.REPORTS: "printing",
}
"""The page of each family, in ``docs/reference``."""


def of_family(family: Subject) -> list[BuiltIn]:
    """The built-in functions of a family, by name."""
    return sorted((f for f in INTRINSICS.values() if f.family is family), key=lambda f: f.name)


def head(kind: str, *signatures: str) -> Iterator[str]:
    """The first lines of an entry for a name of ``diffkern``, or several."""
    first = f".. py:{kind}:: "
    yield from (f"{first if k == 0 else ' ' * len(first)}{signature}" for k, signature in enumerate(signatures))
    yield "   :module: diffkern"


def entry(built_in: BuiltIn) -> Iterator[str]:
    """The entry of a function."""
    said = built_in.entry
    yield from head("function", *(f"{built_in.name}({signature})" for signature in built_in.signatures))
    yield from ("", f"   {_sentence(built_in.summary)}", "")
    for k, part in enumerate(filter(None, said.takes.split("; "))):
        names, _, kind = part.partition(" : ")
        kind += ", or a complex number" if built_in.name in COMPLEX else ""
        yield f"   {':Parameters: ' if k == 0 else ' ' * 13}| ``{names}``: {kind}"
    if said.returns:
        yield f"   :Returns: {_sentence(said.returns).rstrip('.')}"
    yield f"   :Derivative: {_formulas(_sentence(said.derivative))}"
    if said.kinks:
        yield f"   :At kinks: {_sentence(said.kinks)}"
    places = "in kernels and funcs, on CPU and GPU" + ("; can also be called from Python" if built_in.on_host else "")
    modes = "" if said.derivative.lower().startswith("none") else "; has derivatives in reverse and forward mode"
    yield from (f"   :Available: {places}{modes}", "")
    shown = said.example.startswith(">>>")
    if not shown:
        yield from ("   .. code-block:: python", "")
    lines = said.example.splitlines() if shown else said.example.split("; ")
    yield from (f"   {'' if shown else '   '}{line}" for line in lines)
    yield ""


def _sentence(text: str) -> str:
    """Text that begins with a capital, unless with a formula, and ends in a full stop."""
    if re.fullmatch(r"-?\w\.?", text):  # no item of a list
        return f"``{text.rstrip('.')}``."
    first = text[0].upper() + text[1:] if re.match(r"[a-z]{2,},? [a-z]", text) else text
    return first if first.endswith(".") else f"{first}."


def _formulas(text: str) -> str:
    """Text with its formulas as literals."""
    if text.startswith("``"):
        return text
    if " with respect to " in text:
        part = r"(^|, )((?:[^,(]|\([^()]*(?:\([^()]*\)[^()]*)*\))+?)( \([^()]+ where | with respect to )"
        return re.sub(part, lambda m: f"{m[1]}{_formula(m[2])}{m[3]}", text)
    formula, comma, rest = text.removesuffix(".").partition(", where r ")
    return f"{_formula(formula)}{comma}{rest}." if comma or _formula(formula) != formula else text


def _formula(text: str) -> str:
    words = re.findall(r"[A-Za-z_]{2,}", text)
    is_formula = re.search(r"[*/()\d]", text) and all(word in INTRINSICS or word == "pi" for word in words)
    return f"``{text}``" if is_formula else text


def table(rows: Iterable[tuple[str, ...]], widths: str) -> Iterator[str]:
    """A table whose first row is its head."""
    yield from (".. list-table::", "   :class: summary", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in rows:
        yield from (f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(row))
    yield ""


class Written(SphinxDirective):
    """A directive that gives the lines of a text."""

    def lines(self) -> Iterable[str]:
        raise NotImplementedError

    def run(self) -> list[Node]:
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class Functions(Written):
    """``builtin-functions:: FAMILY``: the functions of a family."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        functions = of_family(Subject[self.arguments[0]])
        rows = [(f":func:`{f.name} <diffkern.{f.name}>`", _sentence(f.summary)) for f in functions]
        yield from table([("function", "what it does"), *rows], "30 70")
        if not all(f.entry.example.startswith(">>>") for f in functions):
            yield from ("Examples without a prompt are lines of this kernel:", "", ".. code-block:: python", "")
            yield from (f"   {line}" for line in [*PRELUDE.splitlines(), "    ...  # the example"])
            yield ""
        for function in functions:
            yield from entry(function)


class CudaLanguage(Written):
    """``cuda-language``: the names of ``diffkern.cuda`` that kernels know, and the types."""

    def lines(self) -> Iterator[str]:
        for name, found in LANGUAGE.items():
            members = {f"{name}.{key}": value for key, value in vars(found).items()} if isinstance(found, type) else {}
            for inside, value in (members or {name: found}).items():
                if isinstance(value, Intrinsic):
                    yield from (f".. py:function:: {inside}({value.signature})", "   :module: diffkern.cuda", "")
                    yield from (f"   {value.summary}", "")
            if members and not any(isinstance(value, Intrinsic) for value in members.values()):
                yield from (f".. py:data:: {name}", "   :module: diffkern.cuda", "", "   With ``x``, ``y``, ``z``.", "")
            elif isinstance(found, Special):
                yield from (f".. py:data:: {name}", "   :module: diffkern.cuda", "")
        of_type: dict[Any, list[str]] = {}
        for name, dtype in TYPES.items():
            of_type.setdefault(dtype, []).append(name)
        for dtype, names in of_type.items():
            first = ".. py:data:: "
            yield from (f"{first if k == 0 else ' ' * len(first)}{name}" for k, name in enumerate(names))
            yield from ("   :module: diffkern.cuda", "", f"   The type ``{dtype}``.", "")


class Families(Written):
    """``builtin-families``: all functions, by family."""

    def lines(self) -> Iterator[str]:
        rows = [("page", "functions")]
        for family, page in PAGES.items():
            names = ", ".join(f":func:`{f.name} <diffkern.{f.name}>`" for f in of_family(family))
            rows.append((f":doc:`reference/{page}`", names))
        yield from table(rows, "25 75")


class Scalars(Written):
    """``scalar-types``: the types of numbers."""

    def lines(self) -> Iterator[str]:
        for known, dtype in SCALARS.items():
            name = "bool_" if known == "bool" else known  # `bool` in a signature is Python's
            stored = {"bfloat16": "uint16", "bool": "bool_"}.get(known, str(dtype.numpy))
            size = 8 * dtype.numpy.itemsize
            values = "True and False, ``dk.bool`` as well" if known == "bool" else f"numbers of {size} bits"
            yield from (*head("class", name), "")
            yield f"   {values[0].upper() + values[1:]}; elements of arrays are ``numpy.{stored}``."
            yield ""


class Composites(Written):
    """``composite-types``: vectors, matrices, quaternions, transforms and complex numbers."""

    def lines(self) -> Iterator[str]:
        of_type: dict[Any, list[str]] = {}
        for name, found in COMPOSITES.items():
            of_type.setdefault(found, []).append(name)
        for found, names in of_type.items():
            yield from head("class", *names)
            shape = " × ".join(map(str, found.shape))
            yield from ("", f"   {found.ir}: {shape} components of {found.dtype}.", "")


class Constants(Written):
    """``constants``: numbers by name."""

    def lines(self) -> Iterator[str]:
        for name, value in public_names().items():
            if isinstance(value, float):
                yield from (*head("data", name), f"   :value: {value!r}", "")


class Settings(Written):
    """``settings``: the attributes of ``dk.config``."""

    def lines(self) -> Iterator[str]:
        for name, setting in SETTINGS.items():
            yield from (*head("attribute", f"config.{name}"), f"   :type: {setting.type}", "")
            yield from (f"   {setting.doc}", "", f"   :Default: {setting.default}")
            if setting.environment:
                yield f"   :Environment: :envvar:`{setting.environment}`"
            yield ""


class CommandLine(Written):
    """``command-line``: every command with its arguments and options."""

    def lines(self) -> Iterator[str]:
        yield from self.commands("diffkern", make_parser(), "")

    def commands(self, name: str, parser: argparse.ArgumentParser, text: str) -> Iterator[str]:
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not inner:
            yield from (f"``{name}``", "^" * (len(name) + 4), "", f".. program:: {name}", "")
            text = parser.description or text
            yield from (_sentence(text[0].upper() + text[1:]), "")
            for action in parser._actions:
                yield from self.option(action)
        for action in inner:
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for command, one in action.choices.items():
                yield from self.commands(f"{name} {command}", one, said.get(command, ""))

    def option(self, action: argparse.Action) -> Iterator[str]:
        if action.help == argparse.SUPPRESS or "--help" in action.option_strings:
            return
        metavar = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else "")
        taken = f" {metavar}" if action.nargs != 0 and metavar else ""
        names = ", ".join(f"{option}{taken}" for option in action.option_strings) or str(metavar or action.dest)
        text = (action.help or "").replace("%(default)s", str(action.default))
        yield from (f".. option:: {names}", "", *([f"   {_sentence(text)}", ""] if text else []))


class Variables(Written):
    """``setting-variables``: the environment variables of settings."""

    def lines(self) -> Iterator[str]:
        for name, setting in SETTINGS.items():
            if setting.environment:
                yield from (f".. envvar:: {setting.environment}", "")
                yield from (f"   Sets :py:attr:`diffkern.config.{name}` at the start: {setting.values}.", "")


def _style(app: Sphinx) -> None:
    if app.builder.format == "html":
        app.config.html_static_path.append(str(Path(__file__).parent / "reference_style"))
        app.add_css_file("reference.css")


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directives."""
    app.add_directive("builtin-functions", Functions)
    app.add_directive("builtin-families", Families)
    app.add_directive("cuda-language", CudaLanguage)
    app.add_directive("scalar-types", Scalars)
    app.add_directive("composite-types", Composites)
    app.add_directive("constants", Constants)
    app.add_directive("settings", Settings)
    app.add_directive("setting-variables", Variables)
    app.add_directive("command-line", CommandLine)
    app.connect("builder-inited", _style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
