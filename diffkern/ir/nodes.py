"""The grammar of the IR, on one page.

::

    Function  = name, params, body: Region                    (a kernel's body yields nothing)
    Region    = params: Value*, ops: Op*, yields: Value*
    Op        = name, operands: Value*, attrs, regions: Region*, results: Value*, loc

A function is a tree of regions. Values are defined once, by an op's results or a region's params, and are visible in
the rest of that region and in the regions nested in it. Control flow is three ops:

``if``     operands ``(cond,)``; regions ``(then, orelse)`` without params; results = what the taken region yields.
``for``    operands ``(start, stop, step, *init)``; region ``(i, *carried) -> carried'``; results = the last carried.
           Trips: ``max(0, ceil((stop - start) / step))``, known at entry. A zero step makes zero trips.
``while``  operands ``init``; regions ``test(*carried) -> (bool,)`` and ``body(*carried) -> carried'``.

Their parts have names in ``diffkern.ir.views``. The only effects are on arrays (load, store, atomic, accumulate) and on
loop stacks of the reverse sweep. Which ops exist, their types and effects is the table in ``diffkern.ir.ops``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from diffkern.errors import Loc
from diffkern.ir.types import Type
from diffkern.process.dataclass import dataclass


class Value:
    """A value defined once. Identity is what counts; ``name`` is a hint (the user's name) for printing."""

    # A program has very many values, and slots keep each small.
    __slots__ = ("name", "type")

    def __init__(self, type: Type, name: str = "") -> None:
        self.type = type
        self.name = name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}:{self.type}"


@dataclass(eq=False, slots=True)
class Region:
    """A list of ops with parameters and yielded values."""

    params: tuple[Value, ...] = ()
    ops: list[Op] = field(default_factory=list)
    yields: tuple[Value, ...] = ()


@dataclass(eq=False, slots=True)
class Op:
    """One operation. ``attrs`` holds compile-time facts (a constant's value, an axis, a mode)."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: Mapping[str, Any]
    regions: tuple[Region, ...]
    loc: Loc | None

    @property
    def result(self) -> Value:
        """The single result of an op that has exactly one."""
        (value,) = self.results
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """An augmented assignment to an element of an array, or to a component of one.

    It is lowered to a load, an operation and a store. Whether it has to become one atomic update instead is decided
    once the whole function is known.

    Attributes
    ----------
    store
        The op that ends it.
    kind
        The operation of the atomic update: ``add``, ``sub``, ``and``, ``or`` or ``xor``.
    prelude
        The ops that compute the operand of an atomic update of the whole element from values available at the store.
        Components that the assignment does not touch get the operation's neutral element.
    """

    store: Op
    kind: str
    prelude: Region

    @property
    def operand(self) -> Value:
        """The operand of the atomic update."""
        (value,) = self.prelude.yields
        return value


@dataclass(eq=False, slots=True)
class Function:
    """A kernel: parameters, body, and its source.

    Attributes
    ----------
    name
        The user's name for it (adjoints append ``_adjoint``).
    params
        One value per parameter; array, scalar and composite types.
    body
        The region executed by each thread.
    loc
        The position of the ``def``.
    tid_arity
        How many components of the thread index the kernel asks for (0 when it never calls ``tid``).
    source_lines
        Absolute line number → text of the user's source, for comments in generated code.
    threads
        How many threads of a block hold values of their own beside the tiles they share; 0 if a block is one thread.
    unfused
        Whether a product and a sum must not be contracted to one fused operation.
    tiled
        Whether the launch is over blocks that work on tiles of several elements. On a target with blocks of threads
        the tiles are dealt out to these already; elsewhere each block is one thread.
    blocks
        Whether one thread executes a whole block of the threads that the kernel is written for.
    dynamic_shared
        Whether the launch has to request the shared memory.
    updates
        The augmented assignments to elements of arrays in it, until it is decided which are atomic.
    records
        The names of parameters that are the fields of one array of structs, for each such array.
    """

    name: str
    params: tuple[Value, ...]
    body: Region
    loc: Loc | None = None
    tid_arity: int = 0
    source_lines: Mapping[int, str] = field(default_factory=dict)
    threads: int = 0
    unfused: bool = False
    tiled: bool = False
    blocks: bool = False
    dynamic_shared: bool = False
    updates: tuple[Update, ...] = ()
    records: tuple[tuple[str, ...], ...] = ()

    @property
    def param_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params)


def walk(region: Region) -> Iterator[Op]:
    """Yield all ops of a region and of the regions nested in it, in program order (an op before its regions)."""
    # Not by a recursion: an op would be handed up through all the regions around it.
    pending: list[Iterator[Op] | Region] = [region]
    while pending:
        top = pending[-1]
        if isinstance(top, Region):
            top = pending[-1] = iter(top.ops)
        for op in top:
            yield op
            if op.regions:
                # The iterator of this level stays below on the stack and resumes after the last region. Regions are
                # pushed in reverse, so that the first one is on top.
                pending += op.regions[::-1]
                break
        else:
            pending.pop()


def count_ops(region: Region) -> int:
    """Return the number of ops in a region and the regions nested in it."""
    return sum(1 for _ in walk(region))
