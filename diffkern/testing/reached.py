"""Programs that note which places of a kernel its threads reach, and from where.

:class:`ReachedPlaces` takes a function of the stage ``primal`` that was lowered with marks, and turns each mark into
two stores: of the pair of this place and the one before it in the same function, and of this place as the one before.
It runs on one thread of the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from diffkern.compiler import pipeline
from diffkern.errors import Loc
from diffkern.ir.builder import Builder
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.output import REPORTS
from diffkern.ir.types import INT64, UINT8, Array
from diffkern.opt.removals import without_reports
from diffkern.process.dataclass import dataclass
from diffkern.testing.instruments import thread_index, works_together
from diffkern.testing.programs import CompiledFunction

__all__ = ["ReachedPlace", "ReachedPlaces"]

_MARK: Final = "reached"


@dataclass(frozen=True)
class ReachedPlace:
    """A place in a user's source.

    Attributes
    ----------
    file
        The path.
    line
        The line of the statement.
    kind
        ``"statement"``, ``"after"`` a loop, ``"begin"`` or ``"end"`` of the function.
    first
        The first line of the function, its decorators included.
    """

    file: str
    line: int
    kind: str
    first: int


class ReachedPlaces:
    """A function that notes the places that threads reach.

    Parameters
    ----------
    fn
        The function, with marks; it is changed.
    dims
        Number of dimensions of its launches.
    block_dim
        Threads of a block, where they work together.

    Attributes
    ----------
    places
        The places, by number.
    pairs
        The pairs of places that followed each other, by their numbers, in all runs.
    """

    def __init__(self, fn: Function, dims: int, block_dim: int) -> None:
        self.places: list[ReachedPlace] = []
        self.pairs: set[tuple[int, int]] = set()
        self._numbers: dict[ReachedPlace, int] = {}
        self._functions: dict[tuple[str, int], int] = {}
        for op in walk(fn.body):
            if _MARK in op.attrs:
                self._number(op)
        last, pairs = Value(Array(INT64, 2, "A"), "last_reached"), Value(Array(UINT8, 2, "A"), "reached_pairs")
        axes = max(dims if not works_together(fn) else fn.tid_arity, fn.tid_arity)
        b, head = Builder(), Region()
        with b.into(head):
            self._thread = thread_index(b, axes)
        self._note(b, fn.body, last, pairs)
        fn.body.ops[:0] = head.ops
        made = replace(fn, params=(*fn.params, last, pairs), tid_arity=axes)
        self._program = CompiledFunction(pipeline.optimise(clone_function(made)), block_dim)

    def _number(self, op: Op) -> int:
        loc: Loc | None = op.loc
        assert loc is not None
        place = ReachedPlace(op.attrs["file"], loc.line, op.attrs[_MARK], op.attrs["first"])
        self._functions.setdefault((place.file, place.first), len(self._functions))
        number = self._numbers.setdefault(place, len(self.places))
        if number == len(self.places):
            self.places.append(place)
        return number

    def _note(self, b: Builder, region: Region, last: Value, pairs: Value) -> None:
        ops, region.ops = region.ops, []
        with b.into(region):
            for op in ops:
                for sub in op.regions:
                    self._note(b, sub, last, pairs)
                # A function over the elements of tiles has no thread of its own.
                if isinstance(body := op.attrs.get("body"), Region):
                    without_reports(Function("body", (), body))
                if _MARK in op.attrs:
                    self._store(b, op, last, pairs)
                elif op.name not in REPORTS:  # the launch itself prints
                    region.ops.append(op)

    def _store(self, b: Builder, op: Op, last: Value, pairs: Value) -> None:
        number = self._number(op)
        place = self.places[number]
        here = b.const(number, INT64)
        function = b.const(self._functions[place.file, place.first], INT64)
        if place.kind != "begin":
            before = b.one("load", last, self._thread, function, wrap=(False, False))
            b.op("store", pairs, before, here, b.const(1, UINT8), wrap=(False, False))
        b.op("store", last, self._thread, function, here, wrap=(False, False))

    def run(self, dim: Sequence[int], args: Sequence[Any]) -> None:
        """Run all threads, and add the pairs of places that they reached.

        Parameters
        ----------
        dim
            The launch's dimensions.
        args
            The arguments, of which arrays are changed: numbers as their bytes in the argument block.
        """
        threads = max(1, int(np.prod(dim)))
        last = np.zeros((threads, max(1, len(self._functions))), np.int64)
        pairs = np.zeros((len(self.places), len(self.places)), np.uint8)
        self._program.run(dim, [*args, last, pairs])
        self.pairs.update((int(one), int(other)) for one, other in np.argwhere(pairs))
