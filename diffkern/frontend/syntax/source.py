"""The syntax tree of a Python function, with positions as in the user's file.

A :class:`Source` has the ``def`` as an AST whose line numbers are those of the file, the file's lines, and
:meth:`Source.loc` for error messages and for the IR. The text is that of the time when the function was decorated, and
it is compared with the function's code: what is compiled is what Python would run.
"""

from __future__ import annotations

import ast
import copy
import inspect
import os
import weakref
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Final

from diffkern.errors import KernelError, KernelSyntaxError, Loc
from diffkern.frontend.syntax.code import Likeness, likeness, spell_private_names, whole_tree
from diffkern.frontend.syntax.desugar import LAMBDA, as_definition, spell_out
from diffkern.frontend.syntax.static import Statics, replace_statics, variables_of_statics
from diffkern.frontend.syntax.survey import Survey, nodes, survey_of
from diffkern.lang.text import certain_text, is_changed, text_read_again, texts_of
from diffkern.process.dataclass import dataclass

__all__ = ["Parsed", "Source", "as_parsed", "get_source", "location", "shown_path", "too_deep"]


@dataclass(frozen=True, eq=False)
class Source:
    """A function's syntax tree and text.

    Attributes
    ----------
    file
        Path as shown in messages.
    node
        The ``def``; its positions count lines from the start of the file and columns from the line's start.
    first_line
        The line of the first decorator, or of the ``def``.
    lines
        The lines of the function, from ``first_line`` on.
    """

    file: str
    node: ast.FunctionDef
    first_line: int
    lines: tuple[str, ...]

    def text(self, line: int) -> str:
        """Return a line of the function, by its number in the file."""
        k = line - self.first_line
        return self.lines[k] if 0 <= k < len(self.lines) else ""

    def loc(self, node: ast.AST) -> Loc:
        """Return the position of a node."""
        return location(self.file, self.text, node, self.node.lineno)

    def at(self, place: Loc) -> Source:
        """Return the same source as if all of it stood at one place: where the user calls a function of the library."""
        return _Placed(self.file, self.node, self.first_line, self.lines, place)

    def numbered_lines(self) -> dict[int, str]:
        """Return the text of each line of the function, by line number."""
        return {self.first_line + k: text for k, text in enumerate(self.lines)}


@dataclass(frozen=True, eq=False)
class _Placed(Source):
    """The source of a library function, all of which stands where it is called."""

    place: Loc

    def loc(self, node: ast.AST) -> Loc:
        return self.place


def location(file: str, text: Callable[[int], str], node: ast.AST, otherwise: int = 0) -> Loc:
    """Return the position of a node in a file, given the text of each line; of one without a line, an other one."""
    line = getattr(node, "lineno", otherwise)
    end_line = getattr(node, "end_lineno", None)
    end_col = getattr(node, "end_col_offset", None)
    shown = text(line)
    column = _characters(shown, getattr(node, "col_offset", 0))
    if end_col is not None and end_line is not None:
        end_col = _characters(shown if end_line == line else text(end_line), end_col)
    return Loc(file, line, column, end_line, end_col, shown)


def _characters(text: str, offset: int) -> int:
    """Return a column in characters: columns of the AST count UTF-8 bytes, and carets characters."""
    if text.isascii():
        return offset
    return len(text.encode()[:offset].decode(errors="replace"))


def shown_path(path: str) -> str:
    """Return the path relative to the current directory when it lies below it."""
    # As ``<stdin>``: no file.
    if path.startswith("<"):
        return path
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative


_Read = tuple[ast.FunctionDef, int, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Parsed:
    """A function as found in a text.

    Attributes
    ----------
    code
        What Python runs.
    definition
        The ``def``, with results in the places of static expressions.
    first_line, lines
        As of :class:`Source`.
    text
        All lines of the text.
    statics
        Where its static expressions were.
    survey
        What its body mentioned with them.
    like
        How it is like the code.
    """

    code: CodeType
    definition: ast.FunctionDef
    first_line: int
    lines: tuple[str, ...]
    text: list[str]
    statics: Statics
    survey: Survey
    like: Likeness


_parsed: Final[weakref.WeakKeyDictionary[Any, Parsed]] = weakref.WeakKeyDictionary()


def as_parsed(pyfunc: Callable[..., Any]) -> Parsed:
    """Return the definition of a function, from the text as it was when the function was decorated."""
    code = pyfunc.__code__
    known = _parsed.get(pyfunc)
    # The code of a function may have been exchanged after it was parsed.
    if known is not None and known.code is code:
        return known
    found = _found(pyfunc)
    definition = found.read[0]
    if found.like.owner:
        # In a class, Python changes names that begin with two underscores.
        spell_private_names(definition, found.like.owner)
    survey = survey_of(definition)
    statics = replace_statics(definition, pyfunc, survey, Source(shown_path(code.co_filename), *found.read).loc)
    spell_out(definition, survey.kinds, variables_of_statics(pyfunc))
    made = _parsed[pyfunc] = Parsed(code, *found.read, found.text, statics, survey, found.like)
    return made


@dataclass(frozen=True)
class _Match:
    """A definition that a function may be from: as read, the text, and how alike they are."""

    read: _Read
    text: list[str]
    like: Likeness


def _found(pyfunc: Callable[..., Any]) -> _Match:
    """Return the definition of a function, and the text that it was found in."""
    code = pyfunc.__code__
    # What Python keeps elsewhere, as what was typed at its prompt, only inspect finds: from 3.14 on, by the function.
    texts = texts_of(pyfunc) or [inspect.findsource(pyfunc if inspect.isfunction(pyfunc) else code)[0]]
    failures: list[SyntaxError] = []
    # The file is read again only where no text that is kept already fits.
    found = _matches(pyfunc, texts, failures) or _matches(pyfunc, text_read_again(pyfunc), failures)
    if not found:
        # With several texts, none of which fits, a failure to read one of them explains nothing.
        raise failures[0] if failures and len(texts) == 1 else _Changed("is not")
    chosen = _chosen(found, certain_text(pyfunc))
    # What annotations of variables say is not in the code, so that it cannot be compared.
    if any(isinstance(node, ast.AnnAssign) for node in nodes(chosen.read[0])) and is_changed(pyfunc):
        raise _Changed("may not be")
    return chosen


def _matches(pyfunc: Callable[..., Any], texts: Iterable[list[str]], failures: list[SyntaxError]) -> list[_Match]:
    """Return the definitions in texts that a function may be from; those that cannot be read are failures."""
    code, found = pyfunc.__code__, []
    for lines in texts:
        try:
            candidates = _lambdas(lines, code) if code.co_name == LAMBDA else [_parse(lines, code)]
        except SyntaxError as error:
            failures.append(error)
            continue
        likes = ((read, likeness(read[0], pyfunc, lines)) for read in candidates)
        found += [_Match(read, lines, like) for read, like in likes if like is not None]
    return found


def _chosen(found: list[_Match], certain: list[str] | None) -> _Match:
    """Return the definition that is likest; there must be no other that is as likely."""
    likest = max((match.like.is_exact, match.text is certain, match.like.is_placed) for match in found)
    best = [m for m in found if (m.like.is_exact, m.text is certain, m.like.is_placed) == likest]
    if len(best) > 1:
        # Two that say the same are no question, whichever it is.
        bodies = {tuple(map(ast.dump, match.read[0].body)): match.read for match in best}
        if len(bodies) > 1:
            raise _Several(list(bodies.values()))
    return best[0]


class _Changed(Exception):
    """No known text of a file is, or is with certainty, what a function was compiled from."""


class _Several(Exception):
    """A function may have been compiled from several texts that do not say the same."""

    def __init__(self, reads: list[_Read]) -> None:
        super().__init__()
        self.read = reads[0]
        trees = zip(*(nodes(*read[0].body) for read in reads[:2]), strict=False)
        # The first simple statement in which they differ is the one to show.
        pairs = [(a, b) for a, b in trees if isinstance(a, ast.stmt) and ast.dump(a) != ast.dump(b)]
        pair = next((pair for pair in pairs if not hasattr(pair[0], "body")), pairs[-1])
        self.node = pair[0]
        self.said = " and ".join(repr(ast.unparse(node)) for node in pair)


def _lambdas(lines: list[str], code: Any) -> list[_Read]:
    """Return the lambda expressions that begin in the line of a function."""
    read = []
    for found in ast.walk(whole_tree(lines)):
        if isinstance(found, ast.Lambda) and found.lineno == code.co_firstlineno:
            # The tree of a whole file is shared, and a definition is changed later.
            node = copy.deepcopy(found)
            last = node.end_lineno or node.lineno
            own = tuple(line.rstrip("\r\n") for line in lines[node.lineno - 1 : last])
            read.append((as_definition(node), node.lineno, own))
    return read


def _parse(lines: list[str], code: Any) -> _Read:
    start = max(code.co_firstlineno, 1) - 1
    if start < len(lines) and "\f" in (margin := _margin(lines[start])):  # behind it Python counts columns again
        lines = [*lines[:start], lines[start][margin.rindex("\f") + 1 :], *lines[start + 1 :]]
    raw, tree = _quick(lines, code) or _thorough(lines, code)
    indent = len(raw[0]) - len(raw[0].lstrip())
    first_line = max(code.co_firstlineno, 1)
    definition = tree.body[0]
    # It stands in the head that `_tree_of` has put in front.
    if indent:
        assert isinstance(definition, ast.If)
        definition = definition.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise SyntaxError(f"{type(definition).__name__} instead of a def")
    return definition, first_line, tuple(line.rstrip("\r\n") for line in raw)


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def _tree_of(raw: list[str], before: int) -> ast.Module:
    """Return the tree of lines, with `before` lines in front of them."""
    # Under a head of its own an indented def is a statement as it stands: texts of several lines keep their contents.
    # Empty lines in front of it make its positions those of the file.
    if not raw[0][:1].isspace():
        return ast.parse("".join(["\n" * before, *raw]))
    tree = ast.parse("".join(["\n" * (before - 1), "if 1:\n", *raw]))
    return tree if before else ast.increment_lineno(tree, -1)


def _thorough(lines: list[str], code: Any) -> tuple[list[str], ast.Module]:
    start = max(code.co_firstlineno, 1) - 1
    if start >= len(lines):
        raise SyntaxError(f"its file has {len(lines)} lines")
    raw = inspect.getblock(lines[start:])
    return raw, _tree_of(raw, start)


def _quick(lines: list[str], code: Any) -> tuple[list[str], ast.Module] | None:
    """Return the lines of a def, found by their indentation; None where that is not enough.

    ``inspect`` splits the text into tokens, which takes most of the time of finding a compiled kernel. A def that is
    cut in a bracket or a text does not parse, so what parses is whole.
    """
    start = code.co_firstlineno - 1
    if not 0 <= start < len(lines):
        return None
    indent = len(lines[start]) - len(lines[start].lstrip())
    head = lines[start][:indent]
    seen_def, end = False, start
    for k in range(start, len(lines)):
        text = lines[k].strip()
        # Empty lines and comments may stand further left without ending a def.
        if not text or text[0] == "#":
            continue
        line = lines[k][_margin(lines[k]).rfind("\f") + 1 :]
        # A line that closes a bracket may stand where the def does.
        if not line.startswith(head) or line[indent] not in " \t)]}":
            # Before the def there are decorators, at the same margin.
            if seen_def:
                break
            seen_def = line.startswith(("def ", "async def "), indent)
        end = k + 1
    raw = lines[start:end]
    try:
        tree = _tree_of(raw, start)
    except SyntaxError:  # a text with lines further left, or something else than a def
        return None
    body = tree.body[0].body if indent and isinstance(tree.body[0], ast.If) else tree.body
    whole = len(tree.body) == len(body) == 1 and isinstance(body[0], ast.FunctionDef) and body[0].name == code.co_name
    return (raw, tree) if whole else None


def too_deep(name: str, loc: Loc | None) -> KernelSyntaxError:
    """Return the error for a function that Python's own compiler, or its limit of recursion, does not let through."""
    return KernelSyntaxError(
        f"{name} has expressions or statements nested deeper than Python's limit of recursion allows",
        loc=loc,
        remedy="split long chains of elif and long sums in several, or make parts functions with @dk.func",
    )


_WHERE: Final = {
    "<stdin>": "Python keeps what is typed at its prompt from version 3.13 on: until then use IPython or a notebook, "
    "or import the function from a file; ",
    "<string>": "Python keeps the text of python -c from version 3.13 on: until then write it to a file; ",
}
_EXECUTED: Final = "for code made by exec, register the text with linecache.cache under the code's file name"
"""Remedies for a function without source text, by the origin of its code."""


def get_source(pyfunc: Callable[..., Any]) -> Source:
    """Return the source of a function.

    Raises
    ------
    KernelSyntaxError
        If Python cannot find it, if it is not a ``def``, or if the function was compiled from another text.
    KernelTypeError
        If a static expression cannot be evaluated.
    """
    code = pyfunc.__code__
    loc = Loc(shown_path(code.co_filename), code.co_firstlineno, 0)
    try:
        found = as_parsed(pyfunc)
    except KernelError:  # of a static expression
        raise
    except (OSError, TypeError) as error:
        raise KernelSyntaxError(
            f"the source of {pyfunc.__name__} cannot be found ({error})",
            loc=loc,
            remedy=_WHERE.get(code.co_filename, "define it in a file or a notebook cell; ") + _EXECUTED,
        ) from error
    except RecursionError as error:
        raise too_deep(pyfunc.__name__, loc) from error
    except SyntaxError as error:
        raise KernelSyntaxError(
            f"{pyfunc.__name__} is not defined by a plain def ({error})", loc=loc, remedy="write it as a def"
        ) from error
    except _Several as several:
        raise KernelSyntaxError(
            f"{pyfunc.__name__} may be from several texts: the code that Python runs is the same for {several.said}",
            loc=Source(shown_path(code.co_filename), *several.read).loc(several.node),
            remedy="if its file was changed, restart Python; else write the functions on lines of their own, and a "
            "conversion as in float(...) instead of an annotation, which Python does not keep",
        ) from None
    except _Changed as changed:
        raise KernelSyntaxError(
            f"the text of {pyfunc.__name__} {changed} what Python runs: the file was changed after it was imported",
            loc=loc,
            remedy="import the module again; if an import hook rewrites the module, leave the kernels out of that",
        ) from None
    return Source(shown_path(code.co_filename), found.definition, found.first_line, found.lines)
