"""The fence: the Python that a kernel cannot contain, why, and what to write instead.

The syntax tree of a kernel or func is checked before anything is lowered: there is one error for each construct that is
not part of the kernel language, all of them at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn, TypeAlias

from diffkern.errors import KernelError, KernelSyntaxError
from diffkern.frontend.syntax import advice
from diffkern.frontend.syntax.local_functions import LocalFunction, set_apart
from diffkern.frontend.syntax.source import Source
from diffkern.frontend.syntax.survey import parts_of
from diffkern.frontend.terms.context import Context

__all__ = ["check", "refuse_expression"]

# node class name → (what it is, what to write instead); by name, because some came with later Pythons
_REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "Try": ("try", "test for the condition beforehand with if"),
    "TryStar": ("try", "test for the condition beforehand with if"),
    "Raise": ("raise", "write an error code to an array and check it after the launch"),
    "With": ("with", "use Tape and the like around the launch, not inside the kernel"),
    "AsyncWith": ("async with", "kernels are not asynchronous"),
    "AsyncFor": ("async for", "kernels are not asynchronous"),
    "AsyncFunctionDef": ("async def", "kernels are not asynchronous"),
    "Await": ("await", "kernels are not asynchronous"),
    "Yield": ("yield", "write results to arrays"),
    "YieldFrom": ("yield from", "write results to arrays"),
    "ClassDef": ("a class inside a kernel", "define it outside"),
    "Import": ("import", "import at the top of the file"),
    "ImportFrom": ("import", "import at the top of the file"),
    "Global": ("global", "pass values as parameters; globals are read as constants"),
    "Nonlocal": ("nonlocal", "pass values as parameters; outer variables are read as constants"),
    "Delete": ("del", "leave it out; variables need no deleting"),
    "Match": ("match on anything but constants", "write if / elif / else"),
    "ListComp": ("a list comprehension", "write a for loop over range(...)"),
    "SetComp": ("a set comprehension", "write a for loop over range(...)"),
    "DictComp": ("a dict comprehension", "write a for loop over range(...)"),
    "GeneratorExp": ("a generator expression", "write a for loop over range(...)"),
    "List": ("a list", "use a vector such as dk.vec3(...), a tuple, or an array parameter"),
    "Set": ("a set", "use a vector such as dk.vec3(...), a tuple, or an array parameter"),
    "Dict": ("a dict", "use single variables or array parameters"),
    "JoinedStr": (
        "an f-string",
        'kernels compute with numbers; print(f"…") prints one, other text is made on the host',
    ),
    "TemplateStr": ("a t-string", "kernels compute with numbers; format text on the host"),
    "TypeAlias": ("a type statement", "define it outside"),
}

_FALLBACK: Final = "see the kernel language in the documentation for what a kernel can contain"


MAX_DEPTH: Final = 100
MAX_BRANCHES: Final = 60
"""The deepest nesting of expressions and statements, and of branches, loops and choices among them. Terms of a sum,
conditions joined by ``and``, and the ``elif`` of a chain do not nest."""

_PLAIN: Final = frozenset({
    ast.Assign, ast.Attribute, ast.AugAssign, ast.BinOp, ast.BoolOp, ast.For, ast.If, ast.IfExp, ast.Name, ast.Return,
    ast.Tuple, ast.UnaryOp, ast.While,
    *(kind for family in (ast.operator, ast.unaryop, ast.boolop, ast.cmpop) for kind in family.__subclasses__()),
})  # fmt: skip
"""Nodes in which nothing but their parts is to be looked at."""

_Pending: TypeAlias = "tuple[ast.AST, int, int]"


class _Fence:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[KernelError] = []

    def refuse(self, node: ast.AST, message: str, remedy: str) -> None:
        self.errors.append(KernelSyntaxError(message, loc=self.source.loc(node), remedy=remedy))

    def visit(self, stmts: Iterable[ast.stmt]) -> None:
        """Check statements and everything inside of them, without recursion."""
        pending: list[_Pending] = [(stmt, 0, 0) for stmt in stmts]
        while pending:
            node, depth, branches = pending.pop()
            # Lowering is recursive, and so are the passes: Python's limit would be met somewhere in the middle.
            if depth > MAX_DEPTH or branches > MAX_BRANCHES:
                what = "expressions and statements" if depth > MAX_DEPTH else "branches, loops and choices"
                limit = MAX_DEPTH if depth > MAX_DEPTH else MAX_BRANCHES
                message = f"{what} are nested more than {limit} deep"
                self.refuse(node, message, "keep parts in variables, or make them functions with @dk.func")
                return
            branch = _is_branch(node)
            chained = len(node.ops) - 1 if isinstance(node, ast.Compare) else 0
            for child in self.parts(node):
                if _continues(node, child):
                    pending.append((child, depth, branches))
                else:
                    pending.append((child, depth + 1 + chained, branches + branch + chained))

    def parts(self, node: ast.AST) -> Iterable[ast.AST]:
        """Return the parts of a node that are to be checked, after checking the node itself."""
        if type(node) in _PLAIN:
            return parts_of(node)
        refused = _REFUSED.get(type(node).__name__)
        if refused is not None:
            what, remedy = refused
            self.refuse(node, f"{what} is not supported in a kernel", remedy)
            return ()  # what stands inside is of no interest
        match node:
            case LocalFunction(definition=definition):
                return self.function(definition)
            case ast.Call():
                return self.call(node)
            case ast.Assert():
                return [node.test, *([] if node.msg is None else _printed(node.msg))]
            case ast.Subscript():
                return self.subscript(node)
            case ast.Compare():
                return self.compare(node)
            case ast.Expr(value=ast.Constant(value=value)) if isinstance(value, str) or value is ...:
                return ()  # a docstring or a placeholder
            case ast.keyword(value=ast.Constant(value=str())):
                return ()  # a choice such as storage="shared": the function that takes the argument checks it
            case ast.Starred(ctx=ast.Store()):
                self.refuse(node, "a starred target is not supported in a kernel", "name a variable for each value")
                return ()
            case ast.Constant():
                self.constant(node)
            case ast.AnnAssign():  # the annotation may be text
                return [node.target] if node.value is None else [node.target, node.value]
        return parts_of(node)

    def function(self, definition: ast.FunctionDef) -> Iterable[ast.AST]:
        """Check a function that is defined in this one."""
        args = definition.args
        for star in (args.vararg, args.kwarg):
            if star is not None:
                self.refuse(star, "a func has a fixed list of parameters", "name each parameter")
        for decorator in definition.decorator_list:
            remedy = "leave it out: a function inside of a kernel is a func already"
            self.refuse(decorator, "a decorator is not supported in a kernel", remedy)
        return [*args.defaults, *(d for d in args.kw_defaults if d is not None), *set_apart(definition.body)]

    def call(self, node: ast.Call) -> Iterable[ast.AST]:
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        # Strings are allowed there alone.
        if called in ("print", "printf"):
            for arg in node.args:
                if _is_formatted(arg):
                    remedy = 'write print(f"x = {x}") or print("x =", x)'
                    self.refuse(arg, "text is not formatted by % or format() in a kernel", remedy)
                    return ()
            return [part for arg in (*node.args, *(k.value for k in node.keywords)) for part in _printed(arg)]
        if called in ("float", "float32", "float64") and (text := _text(node.args[:1])) is not None:
            remedy = advice.STRINGS.get(text.strip().lower(), "write the number itself")
            self.refuse(node, "a kernel makes no number of a string", remedy)
            return ()
        for keyword in node.keywords:
            if keyword.arg is None:
                self.refuse(keyword.value, "** in a call is not supported in a kernel", "name the arguments")
        return parts_of(node)

    def subscript(self, node: ast.Subscript) -> Iterable[ast.AST]:
        if _text([node.slice]) is None:
            return parts_of(node)
        shown = ast.unparse(node.value)
        remedy = f"give the value a name outside the kernel and use that, or pass it as a parameter, not in {shown}"
        self.refuse(node, "a dict is not read in a kernel", remedy)
        return ()

    def compare(self, node: ast.Compare) -> Iterable[ast.AST]:
        """Return the operands; strings and displays are checked by the lowering of the comparison."""
        pending, parts = [node.left, *node.comparators], []
        while pending:
            part = pending.pop(0)
            if isinstance(part, (ast.Tuple, ast.List, ast.Set)):
                pending += part.elts
            elif _text([part]) is None:
                parts.append(part)
        return parts

    def constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, (str, bytes)):
            what = {str: "a string", bytes: "a bytes literal"}[type(node.value)]
            self.refuse(node, f"{what} is not supported in a kernel", "kernels compute with numbers and arrays")


def _is_branch(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        # By name, since nothing has been looked up yet; too many are counted rather than too few.
        return name in ("where", "select")
    return isinstance(node, (ast.If, ast.For, ast.While, ast.IfExp))


def _continues(node: ast.AST, child: ast.AST) -> bool:
    """Return whether a part continues what a node began: a sum, an ``elif``."""
    if isinstance(node, ast.BinOp):
        return child is node.left and isinstance(child, ast.BinOp)
    if isinstance(node, ast.If):
        return node.orelse == [child] and isinstance(child, ast.If)
    return False


def _printed(node: ast.expr) -> list[ast.expr]:
    """Return the expressions in a printed argument, which may be text."""
    if isinstance(node, ast.JoinedStr):
        return [found for part in node.values for found in _printed(part)]
    if isinstance(node, ast.FormattedValue):
        return [node.value]
    return [] if _text([node]) is not None else [node]


def _is_formatted(node: ast.expr) -> bool:
    """Return whether an expression puts values into a text by ``%`` or ``format()``."""
    match node:
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format")):
            return True
    return False


def _text(nodes: list[ast.expr]) -> str | None:
    """Return the string of an expression, None if it is none."""
    value = nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else None
    return value if isinstance(value, str) else None


def check(source: Source) -> list[KernelError]:
    """Return an error for each construct of a function that the kernel language does not have."""
    fence = _Fence(source)
    definition = source.node
    args = definition.args
    for star in (args.vararg, args.kwarg):
        if star is not None:
            fence.refuse(star, "a kernel has a fixed list of parameters", "name each parameter")
    fence.visit(definition.body)
    return fence.errors


def refuse_expression(cx: Context, node: ast.AST) -> NoReturn:
    """Raise the error for an expression or statement that has no lowering."""
    what, remedy = _REFUSED.get(type(node).__name__, (type(node).__name__, _FALLBACK))
    cx.syntax_error(node, f"{what} is not supported in a kernel", remedy)
