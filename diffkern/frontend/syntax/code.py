"""Comparison of a syntax tree with a code object: is the text the one that Python runs?

The tree of a function, with the positions of its file, is compiled again in surroundings that give its names the same
scopes and spellings; :func:`likeness` compares the result with the code that Python runs.
"""

from __future__ import annotations
import __future__

import ast
import dis
import hashlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import CodeType
from typing import Any, Final, TypeVar

from diffkern.frontend.syntax.desugar import LAMBDA
from diffkern.frontend.syntax.survey import nodes
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import free_in_child

__all__ = ["Likeness", "code_digest", "likeness", "spell_private_names", "whole_tree"]

_Node = TypeVar("_Node", bound=ast.AST)

_FUTURE: Final = sum(getattr(__future__, name).compiler_flag for name in ("annotations", "generator_stop"))


@dataclass(frozen=True, slots=True)
class Likeness:
    """The similarity of a definition and the code of a function.

    Attributes
    ----------
    is_exact : bool
        Whether it compiles to that code; else only its part outside of assertions does.
    is_placed : bool
        Whether its parts have the positions recorded in the code, as far as they are recorded.
    owner : str
        The class whose private names it has.
    """

    is_exact: bool
    is_placed: bool
    owner: str


def likeness(definition: ast.FunctionDef, pyfunc: Callable[..., Any], lines: Sequence[str]) -> Likeness | None:
    """Compare a definition with the code of a function, decorators, annotations and defaults apart.

    Parameters
    ----------
    definition
        The tree.
    pyfunc
        The function.
    lines
        All lines of the file that the definition was found in.

    Returns
    -------
    Likeness or None
        None if the function was not compiled from it.
    """
    code = pyfunc.__code__
    if definition.name != code.co_name:
        return None
    # Python calls attributes of what a module imports in another way; mostly that are modules, so this is tried first.
    # IPython compiles each statement of a cell by itself, and so knows of no import.
    modules = {name for name in code.co_names if inspect.ismodule(pyfunc.__globals__.get(name))}
    for owner in ("", *_owners(definition, code)):
        is_part = False
        for imported in (modules, None, frozenset[str]()):
            compiled = _compiled(definition, code, _imported(lines) if imported is None else imported, owner)
            if compiled is not None and _is_same(compiled, code):
                return _exact(definition, compiled, code, owner)
            is_part |= compiled is not None and _is_rewritten(code) and _is_part(compiled, code, definition)
        if is_part:
            return Likeness(is_exact=False, is_placed=True, owner=owner)
    return None


def _exact(definition: ast.FunctionDef, compiled: CodeType, code: CodeType, owner: str) -> Likeness | None:
    is_placed = _is_placed(compiled, code)
    # What the annotation of a variable says is not in the code, and of an edit there only positions can tell.
    if not is_placed and any(isinstance(node, ast.AnnAssign) for node in nodes(definition)):
        return None
    return Likeness(is_exact=True, is_placed=is_placed, owner=owner)


class _WholeFile:
    """A whole file: its tree, which nobody changes, and the names that it imports outside its functions and classes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.tree = ast.parse("".join(lines))
        self.imported = _imports(self.tree)


_MOST: Final = 8
"""Files of which the tree is kept."""

_wholes: Final[list[_WholeFile]] = []
_lock = free_in_child(threading.Lock())


def whole_tree(lines: Sequence[str]) -> ast.Module:
    """Return the tree of a file, which is parsed once; it must not be changed.

    Raises
    ------
    SyntaxError
        If it is not Python.
    """
    return _whole(lines).tree


# Parsed outside of the lock: two threads may parse the same file, which costs time and does no harm.
def _whole(lines: Sequence[str]) -> _WholeFile:
    with _lock:
        found = next((whole for whole in _wholes if whole.lines is lines), None)
    if found is None:
        found = _WholeFile(lines)
        with _lock:
            _wholes.append(found)
            del _wholes[:-_MOST]
    return found


def _imported(lines: Sequence[str]) -> set[str]:
    """Return the names that a module imports anywhere outside its functions and classes."""
    try:
        return _whole(lines).imported
    except SyntaxError:
        return set()


def _imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*")
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            left.extend(ast.iter_child_nodes(node))
    return found


# Defaults and annotations are evaluated outside of the function, and are no part of its code.
def _compiled(definition: ast.FunctionDef, code: CodeType, imported: AbstractSet[str], owner: str) -> CodeType | None:
    given = definition.args
    bare = ast.arguments(
        posonlyargs=_bare(given.posonlyargs), args=_bare(given.args), kwonlyargs=_bare(given.kwonlyargs),
        vararg=given.vararg and _bare([given.vararg])[0], kwarg=given.kwarg and _bare([given.kwarg])[0],
        defaults=[], kw_defaults=[None] * len(given.kwonlyargs),
    )  # fmt: skip
    # The text's own nodes have their places; what is new is given that of the def before they are put into it.
    made = _placed(_function(definition.name, bare, []), definition)
    made.body = definition.body
    if definition.decorator_list:  # a code begins in the line of the first one
        made.decorator_list = [ast.copy_location(ast.Constant(None), definition.decorator_list[0])]
    function: ast.stmt = made
    if definition.name == LAMBDA:  # Python numbers the constants of a def in another way
        result = definition.body[0]
        assert isinstance(result, ast.Return)
        assert result.value is not None
        expression = _placed(ast.Lambda(bare, ast.Constant(None)), definition)
        expression.body = result.value
        function = ast.copy_location(ast.Expr(expression), definition)
    if owner:
        function = ast.copy_location(_class(owner, function), definition)
    # Free variables need an enclosing function that assigns them, or they would compile as globals.
    if code.co_freevars:
        cells: list[ast.expr] = [ast.Name(name, ast.Store()) for name in code.co_freevars]
        assigned = _placed(ast.Assign(cells, ast.Constant(None)), definition)
        none = ast.arguments([], [], None, [], [], None, [])
        function = ast.copy_location(_function("_", none, [assigned, function]), definition)
    imports = [_placed(ast.Import([ast.alias(name)]), definition) for name in sorted(imported)]
    module = ast.Module([*imports, function], [])
    try:
        found: Any = compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    for name in (*(["_"] if code.co_freevars else []), *([owner] if owner else []), definition.name):
        found = next(inner for inner in _inner(found) if inner.co_name == name)
    return found  # type: ignore[no-any-return]  # a code object


def code_digest(code: CodeType) -> bytes:
    """Return a digest of the parts of a code object that :func:`likeness` compares."""
    state = hashlib.sha256()
    left = [code]
    while left:
        one = left.pop()
        found = (one.co_name, one.co_code, _names(one), len(one.co_names), _arguments(one), one.co_flags)
        state.update(one.co_linetable)
        numbers = [(kind.__name__, text) for kind, text in _numbers(one)]
        state.update(repr((found, len(one.co_varnames), len(one.co_cellvars), numbers)).encode(errors="surrogatepass"))
        left += _inner(one)
    return state.digest()


def _function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.FunctionDef(name, arguments, body, [], None, None)
    if "type_params" in made._fields:
        made.type_params = []  # type: ignore[attr-defined,unused-ignore]  # from Python 3.12 on
    return made


def _class(name: str, stmt: ast.stmt) -> ast.ClassDef:
    made = ast.ClassDef(name, [], [], [stmt], [])
    if "type_params" in made._fields:
        made.type_params = []  # type: ignore[attr-defined,unused-ignore]  # from Python 3.12 on
    return made


def _placed(made: _Node, at: ast.AST) -> _Node:
    """Give the position of a node to all parts of a new one that have none."""
    for node in nodes(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return made


def _bare(arguments: list[ast.arg]) -> list[ast.arg]:
    return [ast.copy_location(ast.arg(a.arg), a) for a in arguments]


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _names(code: CodeType) -> tuple[str, ...]:
    return code.co_names + code.co_varnames + code.co_cellvars + code.co_freevars


def _numbers(code: CodeType) -> list[tuple[type, str]]:
    """Return the constants, distinguished by type and sign, without code objects and their names."""
    plain = (const for const in code.co_consts if not isinstance(const, CodeType))
    return [(type(const), repr(const).rpartition("<locals>.")[2]) for const in plain]


_LOAD_SMALL_INT: Final = dis.opmap.get("LOAD_SMALL_INT")


def _small_numbers(code: CodeType) -> list[tuple[type, str]]:
    """Return the integers that stand in the operations themselves: from Python 3.14 on, those of a byte."""
    steps = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    return [(int, repr(argument)) for operation, argument in steps if operation == _LOAD_SMALL_INT]


def _arguments(code: CodeType) -> tuple[object, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_varnames[:count]


def _is_same(a: CodeType, b: CodeType) -> bool:
    return (
        a.co_name == b.co_name
        and a.co_code == b.co_code
        and _names(a) == _names(b)
        and _arguments(a) == _arguments(b)
        and _numbers(a) == _numbers(b)
        and all(_is_same(x, y) for x, y in zip(_inner(a), _inner(b), strict=True))
    )


def _is_placed(a: CodeType, b: CodeType) -> bool:
    """Return whether the same operations have the same positions in two codes, as far as these are known.

    The first operations have the line of the first decorator, which is no part of a tree.
    """
    alike = a.co_firstlineno == b.co_firstlineno and a.co_linetable == b.co_linetable
    for own, other in () if alike else zip(_positions(a), _positions(b), strict=True):
        if own != other and any(x != y for x, y in zip(own, other, strict=True) if x is not None and y is not None):
            return False
    return all(_is_placed(x, y) for x, y in zip(_inner(a), _inner(b), strict=True))


def _positions(code: CodeType) -> list[tuple[int | None, ...]]:
    """Return line, last line and columns of each operation of a code behind its start; only lines
    before Python 3.11.
    """
    positions: Callable[[], Iterator[tuple[int | None, ...]]] | None = getattr(code, "co_positions", None)
    if positions is not None:
        return list(positions())[code.co_code[::2].index(dis.opmap["RESUME"]) + 1 :]
    lines = [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]
    return [(None if line == code.co_firstlineno else line,) for line in lines]


# -- assertions that pytest has rewritten ------------------------------------------------------------------------------


def _is_rewritten(code: CodeType) -> bool:
    return any(name.startswith("@py") for name in _all_names(code))


_JUMPS: Final = frozenset((*dis.hasjrel, *dis.hasjabs))
_FLOW: Final = frozenset(
    {"NOP", "RESUME", "EXTENDED_ARG", "NOT_TAKEN", "MAKE_CELL", "COPY_FREE_VARS", "RETURN_VALUE", "RETURN_CONST"}
)


def _is_part(a: CodeType, b: CodeType, definition: ast.FunctionDef) -> bool:
    """Return whether a code does everything, in order, that a definition does outside of its assertions.

    ``a`` is the code of the definition, and the assertions are rewritten in the other one. Of the assertions only names
    and numbers are compared, where a sign may have become an operation.
    """
    # What Python computes of literals it may compute in parts there.
    literals = {(type(n.value), repr(n.value)) for n in nodes(definition) if isinstance(n, ast.Constant)}
    own = [*_numbers(a), *_small_numbers(a)]
    numbers = [(kind, text.lstrip("-")) for kind, text in own if kind is not str and kind is not tuple]
    numbers = [number for number in numbers if number in literals]
    known = [(kind, text.lstrip("-")) for kind, text in (*_numbers(b), *_small_numbers(b))]
    if _arguments(a) != _arguments(b) or not set(_names(a)) <= set(_names(b)) or any(n not in known for n in numbers):
        return False
    asserted = {
        line
        for node in nodes(definition)
        if isinstance(node, ast.Assert)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    # Iterators: `in` consumes them, so the operations must occur in this order, with others between.
    left, inside = iter(_operations(b, frozenset())), iter(list(_inner(b)))
    return all(operation in left for operation in _operations(a, asserted)) and all(
        any(_is_same(own, other) or _is_part(own, other, definition) for other in inside)
        for own in _inner(a)
        if own.co_firstlineno not in asserted
    )


def _operations(code: CodeType, without: AbstractSet[int]) -> list[tuple[str, str]]:
    """Return the operations of a code, without those in some lines, jumps, and the end of a function."""
    line_of = {offset: line for start, end, line in code.co_lines() for offset in range(start, end, 2)}
    found: list[tuple[str, str]] = []
    for step in dis.get_instructions(code):
        name = step.opname.replace("_CHECK", "").replace("_BORROW", "")
        is_end = name in _FLOW or (name == "LOAD_CONST" and step.argval is None)
        if is_end or step.opcode in _JUMPS or line_of.get(step.offset) in without:
            continue
        if isinstance(step.argval, tuple) and name.count("FAST") == 2:  # two in one, from Python 3.13 on
            first = name[: name.index("FAST") + 4]
            found += [(first, step.argval[0]), (name[len(first) + 1 :], step.argval[1])]
        else:
            found.append((name, "" if isinstance(step.argval, CodeType) else step.argrepr))
    return found


# -- private names of a class ------------------------------------------------------------------------------------------


def _owners(definition: ast.FunctionDef, code: CodeType) -> list[str]:
    """Return the classes whose name Python may have put before the private names of a definition, from its code."""
    private = {name for node in nodes(definition) for _, _, name in _names_of(node) if is_private(name)}
    found: dict[str, None] = {}
    for known in _all_names(code) if private else ():
        for name in private:
            if known.startswith("_") and known.endswith(name) and known[1:2] not in ("_", ""):
                found[known[1 : -len(name)]] = None
    return list(found)


def is_private(name: str) -> bool:
    """Return whether a name has another spelling within a class."""
    return name.startswith("__") and not name.endswith("__")


def _all_names(code: CodeType) -> set[str]:
    found = set(_names(code))
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= _all_names(const)
        elif isinstance(const, tuple):  # keywords of a call
            found.update(item for item in const if isinstance(item, str))
    return found


_SPELLED: Final[Mapping[type[ast.AST], str]] = {
    ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.FunctionDef: "name",
    ast.MatchAs: "name", ast.MatchStar: "name",
}  # fmt: skip


def _names_of(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield the name that a node has, and the field that holds it."""
    field = _SPELLED.get(type(node))
    if field is not None and isinstance(name := getattr(node, field), str):
        yield node, field, name


def spell_private_names(definition: ast.FunctionDef, owner: str) -> None:
    """Give the private names of a definition the spelling that they have in a class, in place."""
    for node in nodes(definition):
        for place, field, name in _names_of(node) if node is not definition else ():
            if is_private(name):
                setattr(place, field, f"_{owner.lstrip('_')}{name}")
