"""Whether a syntax tree is that of a code object: does the text say what Python runs?

In: a function's tree, with the positions of its file, and its code object. Out: yes or no. The tree is compiled again,
in the surroundings that give its names the same scopes, and the two results are compared without positions.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType
from typing import Any, Final, TypeVar

from diffkern.forks import free_in_child
from diffkern.frontend.desugar import LAMBDA
from diffkern.frontend.survey import nodes

__all__ = ["code_digest", "is_source_of", "whole_tree"]

_Node = TypeVar("_Node", bound=ast.AST)

_FUTURE: Final = sum(getattr(__future__, name).compiler_flag for name in ("annotations", "generator_stop"))


def is_source_of(definition: ast.FunctionDef, pyfunc: Callable[..., Any], lines: Sequence[str]) -> bool:
    """Whether a function was compiled from this definition, decorators, annotations and defaults apart.

    Parameters
    ----------
    definition
        The tree.
    pyfunc
        The function.
    lines
        All lines of the file that the definition was found in.
    """
    code = pyfunc.__code__
    if definition.name != code.co_name or getattr(definition, "type_params", None):
        return definition.name == code.co_name
    # Python calls attributes of what a module imports in another way; mostly that are modules, so this is tried first.
    # IPython compiles each statement of a cell by itself, and so knows of no import.
    modules = {name for name in code.co_names if inspect.ismodule(pyfunc.__globals__.get(name))}
    compiled = _compiled(definition, code, modules)
    for imported in (partial(_imported, lines), set[str]):
        if compiled is not None and not _is_same(compiled, code):
            compiled = _compiled(definition, code, imported())
    if compiled is None:
        return False
    if _is_same(compiled, code):
        return True
    if any(name.startswith("__") and name[-2:] != "__" for name in _names(compiled)):
        return True  # private names of a class have other spellings there
    # Test runners rewrite assertions while they import a module.
    return any(isinstance(node, ast.Assert) for node in nodes(definition)) and _is_part(compiled, code)


class _Whole:
    """A whole file: its tree, which nobody changes, and the names that it imports outside its functions and classes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.tree = ast.parse("".join(lines))
        self.imported = _imports(self.tree)


_MOST: Final = 8
"""Files of which the tree is kept."""

_wholes: Final[list[_Whole]] = []
_lock = free_in_child(threading.Lock())


def whole_tree(lines: Sequence[str]) -> ast.Module:
    """The tree of a file, which is parsed once; it must not be changed.

    Raises
    ------
    SyntaxError
        If it is not Python.
    """
    return _whole(lines).tree


def _whole(lines: Sequence[str]) -> _Whole:
    with _lock:
        found = next((whole for whole in _wholes if whole.lines is lines), None)
    if found is None:
        found = _Whole(lines)
        with _lock:
            _wholes.append(found)
            del _wholes[:-_MOST]
    return found


def _imported(lines: Sequence[str]) -> set[str]:
    """The names that a module imports anywhere outside its functions and classes."""
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


def _compiled(definition: ast.FunctionDef, code: CodeType, imported: set[str]) -> CodeType | None:
    given = definition.args
    bare = ast.arguments(
        posonlyargs=_bare(given.posonlyargs), args=_bare(given.args), kwonlyargs=_bare(given.kwonlyargs),
        vararg=given.vararg and _bare([given.vararg])[0], kwarg=given.kwarg and _bare([given.kwarg])[0],
        defaults=[], kw_defaults=[None] * len(given.kwonlyargs),
    )  # fmt: skip
    # The text's own nodes have their places; what is new is given that of the def before they are put into it.
    made = _placed(_function(definition.name, bare, []), definition)
    made.body = definition.body
    function: ast.stmt = made
    if definition.name == LAMBDA:  # Python numbers the constants of a def in another way
        result = definition.body[0]
        assert isinstance(result, ast.Return)
        assert result.value is not None
        expression = _placed(ast.Lambda(bare, ast.Constant(None)), definition)
        expression.body = result.value
        function = ast.copy_location(ast.Expr(expression), definition)
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
    for name in (["_"] if code.co_freevars else []) + [definition.name]:
        found = next(inner for inner in _inner(found) if inner.co_name == name)
    return found  # type: ignore[no-any-return]  # a code object


def code_digest(code: CodeType) -> bytes:
    """Return a digest of what :func:`is_source_of` compares of a code object."""
    state = hashlib.sha256()
    left = [code]
    while left:
        one = left.pop()
        found = (one.co_name, one.co_code, _names(one), len(one.co_names), _arguments(one), one.co_flags)
        numbers = [(kind.__name__, text) for kind, text in _numbers(one)]
        state.update(repr((found, len(one.co_varnames), len(one.co_cellvars), numbers)).encode(errors="surrogatepass"))
        left += _inner(one)
    return state.digest()


def _function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.FunctionDef(name, arguments, body, [], None, None)
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
    """The constants, distinguished by type and sign, without code and what names it."""
    plain = (const for const in code.co_consts if not isinstance(const, CodeType))
    return [(type(const), repr(const).rpartition("<locals>.")[2]) for const in plain]


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


def _is_part(a: CodeType, b: CodeType) -> bool:
    """Whether all that one code names, calls and counts with occurs in the other; a sign may be an operation there."""
    numbers = [(kind, text.lstrip("-")) for kind, text in _numbers(a) if kind is not str and kind is not tuple]
    known = [(kind, text.lstrip("-")) for kind, text in _numbers(b)]
    return _arguments(a) == _arguments(b) and set(_names(a)) <= set(_names(b)) and all(n in known for n in numbers)
