"""The state of lowering one kernel: the IR being built, the frame being executed, the errors found.

A :class:`Context` is made from the function being lowered, and the modules of this package share it. A frame is one
activation of the kernel or of an inlined func: its source, scope, variables and enclosing loops.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, NoReturn

from diffkern.contracts.launch_layout import Layout
from diffkern.errors import KernelError, KernelSyntaxError, KernelTypeError, Loc
from diffkern.frontend.syntax.flow import NameLiveness, Names
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.signature import references_of
from diffkern.frontend.syntax.source import Source
from diffkern.frontend.terms.terms import (
    NARROW,
    Binding,
    Const,
    OwnChoice,
    PlacedPart,
    Poison,
    Rec,
    Term,
    Val,
    View,
    mark,
)
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Update, Value
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.lang import Func
from diffkern.lang.dialects import Dialect
from diffkern.lang.intrinsics import lowering_key
from diffkern.process.dataclass import dataclass

__all__ = ["RETURN", "Activation", "Cascade", "Context", "LoopState", "TileView"]

RETURN = "$return"  # the variable that holds a func's result
RETURNED = "$returned"  # the flag: the func or kernel has returned


class Cascade(Exception):
    """A statement cannot be lowered because an earlier one failed; its error is reported already."""


@dataclass(eq=False)
class LoopState:
    """An enclosing loop of the frame: its flags and the names set where it is left."""

    node: ast.For | ast.While
    broken: str  # name of the flag variable
    continued: str
    set_at_breaks: list[Names] = field(default_factory=list)
    set_at_continues: list[Names] = field(default_factory=list)  # of the trip that is being lowered


@dataclass(eq=False)
class Activation:
    """One activation of a kernel or func."""

    pyfunc: Callable[..., Any]
    source: Source
    scope: NameScope
    locals: Names  # names that are variables of the function
    liveness: NameLiveness
    dialect: Dialect
    env: dict[str, Binding] = field(default_factory=dict)
    loops: list[LoopState] = field(default_factory=list)
    returns_value: bool = False
    may_return_nothing: bool = False  # which is zero of its type then
    lowered: bool = False  # to its end: a rule of the function may call it
    going_on: list[str] = field(default_factory=list)  # flags of chains whose rest is lowered after their beginning
    tile_parameters: Names = frozenset()  # parameters of a func that are the caller's tiles
    functions: tuple[object, ...] = ()  # arguments that are functions
    scalar: Scalar | None = None  # of a library function, the scalar type of the call
    around: Activation | None = None  # of a function that another one defines, the activation of that one
    local: object = None  # which function that is
    seen: dict[str, Term] = field(default_factory=dict)  # what variables were set to before, in the order of the text

    def is_sure(self, name: str) -> bool:
        """Return whether a name is a func's result, which is set where it is read."""
        return name == RETURN and not self.may_return_nothing

    def holder(self, name: str) -> Activation | None:
        """Return the activation whose variable a name is: this one, or one around it; None for a name that is no
        variable.
        """
        frame: Activation | None = self
        while frame is not None and name not in frame.locals:
            frame = frame.around
        return frame


@dataclass(frozen=True, eq=False)
class PreparedFunction:
    """A function, prepared for its activations.

    Attributes
    ----------
    node
        Its ``def`` without the branches that are never taken.
    names
        Its variables, parameters among them.
    liveness
        Which of them may still be read.
    returns_value
        Whether a ``return`` of it has a value.
    unset
        Which of them may be read where no path has set them.
    """

    node: ast.FunctionDef
    names: Names
    liveness: NameLiveness
    returns_value: bool
    unset: Names


@dataclass(frozen=True, slots=True)
class TileView:
    """The facts about a tile that is a part or a view of another one.

    Attributes
    ----------
    names
        Variables that held the other one.
    whole
        The other one; None for a value that is such a tile by one of several ways, behind a loop or branch.
    remake
        Makes the same view of a later version of the other one.
    put
        Makes, from the other one and a later version of the view, the other one changed likewise; None if a view
        contains elements several times.
    repeats
        Whether it does, or may.
    """

    names: frozenset[str]
    whole: Value | None = None
    remake: Callable[[Value], Value] | None = None
    put: Callable[[Value, Value], Value] | None = None
    repeats: bool = False


class Context:
    """The state that all parts of the lowering share.

    Attributes
    ----------
    b
        The builder.
    frame
        The innermost activation.
    stack
        All activations, the kernel first.
    of_func
        Whether the first activation is that of a func, which is lowered by itself.
    skipped
        Statements that were left out because of an error before them.
    errors
        Errors found so far.
    nonneg
        Integer values known not to be negative.
    quotients
        Floats that are quotients of two integers, with those.
    block_dim
        How many threads of a block hold numbers of their own.
    layout
        The launches for which a kernel in numba's spelling, whose numbers have numba's types, is lowered.
    updates
        Augmented assignments to elements of arrays, those of discarded lowerings of a loop among them.
    ruled
        Whether the code being lowered is under a derivative rule of the user's, or is one.
    shapes
        The shapes of loop-carried variables in an earlier lowering of the same loop, to start with next time.
    loops_made
        Loops over other sequences than ranges, in the form in which they are lowered.
    spread_calls
        Calls with ``*`` or names among the arguments, in the form in which they are lowered.
    local_functions
        Functions that others define, by place and defaults: the same ones when a loop is lowered again.
    prepared
        The common part of the activations of a function.
    is_marked
        Whether the places that threads reach are marked.
    """

    def __init__(
        self,
        expr: Callable[[Context, ast.expr], Term],
        block: Callable[[Context, Sequence[ast.stmt], bool, bool], None],
        assign: Callable[[Context, ast.expr, Term, ast.AST], None],
    ) -> None:
        self._expr = expr
        self._block = block
        self._assign = assign
        self.b = Builder()
        self.stack: list[Activation] = []
        self.of_func = False
        self.is_marked = False
        self.errors: list[KernelError] = []
        self.skipped: list[Loc] = []
        self.nonneg: set[Value] = set()
        self.quotients: dict[Value, tuple[Value, Value]] = {}
        self.shapes: dict[tuple[tuple[object, ...], str], Any] = {}
        self.call_path: tuple[object, ...] = ()
        self.loops_made: dict[tuple[object, ...], ast.For | ast.While] = {}
        self.spread_calls: dict[ast.Call, ast.Call] = {}
        self.local_functions: dict[tuple[object, ...], Any] = {}
        self.prepared: dict[object, PreparedFunction] = {}
        self.tid: tuple[int, Loc] | None = None
        self.tile_views: dict[Value, TileView] = {}
        self.tile_lines: dict[Value, int] = {}  # where a tile was made
        self.in_map = False
        self.block_dim = 1
        self.simt = False  # whether it is for a GPU
        self.checked = False  # whether indices of a thread's own arrays are checked
        self.layout: Layout | None = None
        self.stands: dict[Value, tuple[str, int]] = {}  # what says where a thread stands, along which axis
        self.dynamic: Value | None = None  # dynamic shared memory
        self.constants: dict[tuple[str, bytes], Value] = {}  # arrays that are part of the program
        self.root = self.b.region
        self.updates: list[Update] = []
        self.ruled = False
        self.cells: dict[Value, str] = {}  # an array of the thread → the variable that holds it
        # What stands for one of some arrays of the thread: which one it is, and the arrays.
        self.own_choices: dict[Value, OwnChoice] = {}
        self.array_parts: dict[Value, PlacedPart] = {}  # what stands for a part of an array
        self.unset_arrays: set[Value] = set()  # stand for arrays that fields of new structs do not hold yet
        self.cell_numbers: dict[tuple[object, ...], int] = {}
        self.untouched: set[tuple[tuple[object, ...], str]] = set()  # loops that leave such a variable as it is
        self._uid = 0

    def mark(self, reached: str) -> None:
        """Mark a place that threads reach, if places are marked."""
        if self.is_marked:
            code = self.frame.pyfunc.__code__
            self.b.op("breakpoint", reached=reached, file=code.co_filename, first=code.co_firstlineno)

    @property
    def frame(self) -> Activation:
        return self.stack[-1]

    @property
    def dialect(self) -> Dialect:
        """The dialect of the innermost activation."""
        return self.frame.dialect

    @property
    def env(self) -> dict[str, Binding]:
        return self.frame.env

    # -- positions and errors -----------------------------------------------------------------------------------

    def loc(self, node: ast.AST) -> Loc:
        """Return the position of a node of the current function."""
        return self.frame.source.loc(node)

    def type_error(self, node: ast.AST, message: str, remedy: str | None = None) -> NoReturn:
        raise KernelTypeError(message, loc=self.loc(node), remedy=remedy)

    def syntax_error(self, node: ast.AST, message: str, remedy: str | None = None) -> NoReturn:
        raise KernelSyntaxError(message, loc=self.loc(node), remedy=remedy)

    # -- lowering of parts ----------------------------------------------------------------------------------------

    def expr(self, node: ast.expr) -> Term:
        """Lower an expression; what it emits carries the expression's position."""
        with self.b.at(self.loc(node)):
            term = self._expr(self, node)
        # The error of a poisoned term was recorded when it arose; whatever depends on it is skipped silently.
        if isinstance(term, Poison):
            raise Cascade
        return term

    def builtin(self, node: ast.expr) -> str | None:
        """Return the key of the built-in that an expression names, found without lowering it; else None."""
        obj = self.outside(node)
        return None if obj is MISSING else lowering_key(obj)

    def changing(self, node: ast.expr) -> str | dict[str, int] | None:
        """Return the key of a built-in, or the parameters by which a func changes its caller's variables, with their
        positions.
        """
        obj = self.outside(node)
        if isinstance(obj, Func):
            # A func without such parameters changes nothing.
            return references_of(obj) or None
        return None if obj is MISSING else lowering_key(obj)

    def outside(self, node: ast.expr) -> Any:
        """Return the object that an expression names outside of the function, found without lowering it; else
        ``MISSING``.
        """
        if isinstance(node, ast.Attribute):
            owner = self.outside(node.value)
            return MISSING if owner is MISSING else self.frame.scope.attribute(owner, node.attr)
        if isinstance(node, ast.Name) and self.frame.holder(node.id) is None:
            return self.frame.scope.lookup(node.id)
        return MISSING

    def block(self, stmts: Sequence[ast.stmt], tail_body: bool, tail_function: bool) -> None:
        """Lower statements. The tails say that nothing follows them in the innermost loop's body, in the function."""
        self._block(self, stmts, tail_body, tail_function)

    def assign(self, target: ast.expr, term: Term, node: ast.AST) -> None:
        """Assign a term to a target, which a statement or a call changes."""
        self._assign(self, target, term, node)

    @contextlib.contextmanager
    def branch(self, env: dict[str, Binding]) -> Iterator[dict[str, Binding]]:
        """Let the frame use another set of variables for the duration of a ``with`` block."""
        frame = self.frame
        # Only the variables differ between the sides of a branch; loops and flags are the frame's.
        outer, frame.env = frame.env, env
        try:
            yield env
        finally:
            frame.env = outer

    @contextlib.contextmanager
    def without_derivatives(self) -> Iterator[None]:
        """Ignore derivative rules of funcs for the duration of a ``with`` block."""
        outer, self.ruled = self.ruled, True
        try:
            yield
        finally:
            self.ruled = outer

    def bind(self, name: str, term: Term, node: ast.AST | None = None) -> None:
        """Make a variable hold a term; an IR value without a name takes the variable's."""
        # The frontend's own variables take no part in naming, and belong to no function around.
        if not name.startswith("$"):
            if node is not None and name not in self.frame.locals and self.frame.holder(name) is not None:
                self.type_error(
                    node,
                    f"the variable {name} belongs to the function around this one, and cannot be changed here",
                    "return the new value, and assign it there",
                )
            if isinstance(term, Val) and _is_narrow(term):
                term = Val(self.b.one("cast", term.value, to=term.type))  # what is named is rounded
            _name(term, name)
        self.set_variable(name, Binding(term, self.loc(node) if node is not None else None))

    def set_variable(self, name: str, binding: Binding) -> None:
        """Bind a variable of the innermost activation, which is set from here on."""
        self.env[name] = binding
        if binding.term is not None:
            self.frame.seen[name] = binding.term
        # In a debug program, reads before this place would report the variable.
        if mark(name) in self.env:
            self.env[mark(name)] = Binding(Const(True), None)

    def is_nonneg(self, term: Term) -> bool:
        """Return whether an integer is known not to be negative."""
        if isinstance(term, Const):
            return term.value >= 0
        return isinstance(term, Val) and term.value in self.nonneg

    @property
    def in_kernel(self) -> bool:
        """True if the innermost activation is a kernel's."""
        return len(self.stack) == 1 and not self.of_func

    def new_uid(self) -> int:
        """Return a number that no other frame or loop of this lowering has."""
        self._uid += 1
        return self._uid


def _is_narrow(term: Val) -> bool:
    t = term.value.type
    return (t.dtype if isinstance(t, (Vec, Mat)) else t) in NARROW.values()


def _name(term: Term, name: str) -> None:
    # The first name stays: a value bound again under another name is still the same value.
    if isinstance(term, Val) and not term.value.name:
        term.value.name = name
    elif isinstance(term, View) and not term.base.name:
        term.base.name = name
    elif isinstance(term, Rec):
        for field, item in zip(term.struct.names, term.items, strict=True):
            _name(item, f"{name}.{field}")
