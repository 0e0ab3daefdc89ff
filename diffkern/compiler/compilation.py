"""The compilation of one kernel for types of arguments: its programs, sources and reports, from one lowered function.

It is made of a Python function, types, and a :class:`~diffkern.contracts.options.Variant`. Each product, such as a
:class:`~diffkern.compiler.program.Program`, readable source or a report, is made when it is asked for, so that building
a forward program differentiates nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from diffkern.ad.adjoint import Derivative
from diffkern.ad.atomic_log import counting_calls, log_of, reading_log, writing_log
from diffkern.ad.report import describe
from diffkern.ad.searches import searches_of
from diffkern.ad.stamps import StampedFunction
from diffkern.analysis.collisions import may_collide
from diffkern.analysis.exact_sums import exact_sums
from diffkern.analysis.extents import certain_extents, update_by_all
from diffkern.analysis.sorted_updates import Unsorted
from diffkern.analysis.sums import ordered_update, used_update
from diffkern.analysis.tile_threads import asks_for_threads, needs_rows, threads_of
from diffkern.compiler.passes import FINITE, POISONED
from diffkern.compiler.pipeline import (
    differentiate,
    finalize,
    finish,
    log_searches,
    log_values,
    lower_kernel,
    optimise,
    prepare,
    stamping,
)
from diffkern.compiler.program import Program, adjoint_manifest, checks, forward_manifest, outputs
from diffkern.contracts.manifest import Log, Manifest, OrderDependence
from diffkern.contracts.options import FORWARD, JvpLayer, Variant
from diffkern.errors import AutodiffError, CompileError, Loc, compiling
from diffkern.ir.clone import clone_function, values_by_reference
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.tile import of_block
from diffkern.ir.passes import PLAIN, PassOptions, run
from diffkern.ir.printer import to_text
from diffkern.ir.structs import Argument
from diffkern.printing.python import to_python
from diffkern.process.forks import cached_property
from diffkern.process.gc_policy import rare_collections
from diffkern.targets import target_named
from diffkern.targets.emit.checks import Checking
from diffkern.targets.target import ProductLibrary, Settings

if TYPE_CHECKING:
    from diffkern.targets.cuda.mathdx import Product

__all__ = ["Compilation", "Obtain"]

P = ParamSpec("P")
R = TypeVar("R")
Obtain = Callable[[Sequence["Product"]], Sequence[bytes]]
"""Gives the LTO code of each of some matrix products."""


def _checked(step: Callable[Concatenate[Compilation, P], R]) -> Callable[Concatenate[Compilation, P], R]:
    """Let a step raise nothing but diffkern's own errors."""

    @functools.wraps(step)
    def checked(self: Compilation, /, *args: P.args, **kwargs: P.kwargs) -> R:
        code = self.pyfunc.__code__
        # Compiling makes many small objects that live on, which the collector would scan over and over.
        with rare_collections(), compiling(self.pyfunc.__name__, Loc(code.co_filename, code.co_firstlineno, 0)):
            return step(self, *args, **kwargs)

    return checked


class Compilation:
    """A kernel on its way to one of its programs; the forward where ``variant.active`` is None, else an adjoint.

    Parameters
    ----------
    pyfunc, types, variant
        The kernel's function, the types of its arguments, and which program.
    slots, context
        As :func:`~diffkern.compiler.pipeline.differentiate` has them.
    lowered
        The typed IR, where another compilation has lowered the same kernel for the same types and target.
    """

    def __init__(
        self,
        pyfunc: Callable[..., object],
        types: Sequence[Argument],
        variant: Variant = FORWARD,
        slots: int | None = None,
        context: PassOptions | None = None,
        lowered: Function | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.types = types
        self.variant = variant
        self._slots = slots
        self._lowered = lowered
        self._target = target_named(variant.target, variant.compiler)
        # A debug build verifies the IR behind each pass.
        self._context = context or PassOptions(verify=variant.is_debug)
        self.log: Log | None = None

    @cached_property
    def primal(self) -> Function:
        """The typed IR, as lowered; nothing changes it."""
        # Other programs of the same kernel share the lowered IR, so each of the steps below works on a copy.
        return self._lowered or lower_kernel(self.pyfunc, self.types, self.variant, self._context)

    @cached_property
    def forward(self) -> Function:
        """The optimised IR."""
        # A stamping program has an IR of its own, as its parameters include the stamps.
        if self.variant.log == "stamped":
            return optimise(self._stamping.fn, self._context)
        return optimise(self._logging() if self.variant.log else clone_function(self.primal), self._context)

    @cached_property
    def _stamping(self) -> StampedFunction:
        return stamping(self.primal, self.variant.log_for or (), self._context)

    def _logging(self) -> Function:
        """A copy that writes a log, or counts what it takes."""
        written, active = self.variant.log == "written", self.variant.log_for
        if active is None:
            return writing_log(self.primal) if written else counting_calls(self.primal)
        # The log's layout follows from what the adjoint reads, so the adjoint is made here as well.
        if self.variant.log == "searched":
            searched = log_searches(self.primal, active, self.variant, self._slots, self._context)
            assert searched is not None, "the adjoint has read from a log"
            return searched[0].writing()
        found, _ = log_values(self.primal, active, self.variant, self._slots, self._context)
        return found.writing() if written else found.counting(stamped=self.variant.form.stamped)[0]

    @cached_property
    def derivative(self) -> Derivative:
        """The adjoint; how its accumulations are made is not decided."""
        if self.variant.form.searched and (made := self._of_searches()) is not None:
            return made
        try:
            # First without a log, as most kernels need none: the error says which kind of log would help.
            return self._differentiated(self.primal)
        except AutodiffError as error:
            # Overwritten values are logged by their loads, results of atomic updates by their calls.
            if error.in_log == "loads":
                return self._of_logged_values()
            self.log = log_of(self.primal) if error.in_log == "calls" else None
            if self.log is None:
                raise
        if self.log.calls is None:
            counting_calls(self.primal)  # is an error where they are not known in front of a launch
        return self._differentiated(reading_log(self.primal))

    def _of_searches(self) -> Derivative | None:
        """The adjoint that reads from a log what searches have found; None if there is none."""
        active = self.variant.active or frozenset()
        found = log_searches(self.primal, active, self.variant, self._slots, self._context)
        if found is None:
            return None
        self.log = found[0].log(active)
        return finish(found[1], self.variant, self._context)

    def _of_logged_values(self) -> Derivative:
        """The adjoint that reads values which the kernel overwrites from a log."""
        active = self.variant.active or frozenset()
        found, swept = log_values(self.primal, active, self.variant, self._slots, self._context)
        self.log = found.log(active)
        if self.log.calls is None:
            # A program that counts the entries runs before the launch. What it relies on and cannot prove, the run time
            # checks, as it does for the adjoint.
            _, unproved = found.counting(stamped=self.variant.form.stamped)
            swept = replace(swept, disjoint=[*swept.disjoint, *unproved])
        return finish(swept, self.variant, self._context)

    def _differentiated(self, fn: Function) -> Derivative:
        # A joint program computes the primal's values itself, so its loops are unrolled further.
        prepared = prepare(fn, self._context, joint=self.variant.form.joint)
        return differentiate(prepared, self.variant.active or (), self.variant, self._slots, self._context)

    @cached_property
    def adjoint(self) -> Derivative:
        """The adjoint as it is compiled."""
        return finalize(self.derivative, self.variant, self._context)

    @property
    def fn(self) -> Function:
        """The IR of the program."""
        return self.forward if self.variant.active is None else self.adjoint.fn

    @_checked
    def lowered(self) -> Function:
        """Return a copy of the IR in the form that the target emits."""
        return run(self._target.lowering(self._settings(None)), clone_function(self.fn), self._context)

    @_checked
    def build(self, symbol: str, obtain: Obtain | None = None, assembly: bool = False) -> Program:
        """Compile.

        Parameters
        ----------
        symbol
            The name of its function.
        obtain
            A callable that gives the code of matrix products, where ``variant.library`` says that a library makes them.
        assembly
            Whether to keep the assembly of a processor's program.
        """
        is_forward = self.variant.active is None
        # The cached IR stays: reports and sources print it with values.
        fn = values_by_reference(clone_function(self.fn)) if self.variant.by_reference else self.fn
        # An adjoint copies shared memory for its replay, unwritten elements among it. These copies are no mistake of
        # the kernel, and a program that looks at every number must find none in them; its forward program has looked.
        if self.variant.mode == "debug" or (self.variant.is_debug and is_forward):
            fn = run((POISONED,), clone_function(fn), self._context)
        # Last, so that each number that the program computes is watched, and none that an optimisation removes.
        if self.variant.mode == "finite":
            fn = run((FINITE,), clone_function(fn), self._context)
        if is_forward:
            log, turn = log_of(self.primal), self._turn()
            jvp = any(isinstance(layer, JvpLayer) for layer in self.variant.layers)
            debug = self.variant.is_debug
            manifest = forward_manifest(fn, self.types, self.forward, debug, log, turn, of_tangents=jvp)
            manifest = self._with_searches(manifest)
        else:
            manifest = adjoint_manifest(
                fn, self.types, self.primal, self.adjoint.adjoint, self.adjoint.conflicts, self.log
            )
            # With a log the run time neither joins nor gathers, so there is nothing to tell it.
            if self.log is None:
                # A reason why sums are not sorted is for the report only.
                sums = () if isinstance(self.adjoint.sums, Unsorted) else self.adjoint.sums
                # The rest of the facts is known only after compilation.
                manifest = replace(manifest, joint=self.adjoint.joint, gather=self.adjoint.gather, sums=sums)
        # Whether an order matters is asked of the IR as it is emitted, and before anything is compiled.
        in_turns = self.variant.deterministic and self._depends_on_order(fn)
        checking = self._checking
        compiled = self._target.compile(fn, symbol, self._settings(obtain, checking))
        manifest = replace(
            self._of_blocks(manifest, compiled.block_dim),
            params=tuple(replace(p, align=n) for p, n in zip(manifest.params, compiled.alignments, strict=True)),
            sites=compiled.sites,
            exact=compiled.exact,
            updates=compiled.updates,
            added=compiled.added if is_forward and not self.variant.deterministic else (),
            cost=manifest.cost / compiled.faster,
            lane_counts=compiled.lane_counts,
            gpu=compiled.gpu,
            outputs=outputs(compiled.outputs),
            target=self.variant.target,
        )
        # No cost means that the run time does not split the launch over the threads of the CPU, so their order is that
        # of indices.
        if in_turns:
            manifest = replace(manifest, cost=0.0)
        if self.variant.log == "stamped":  # which looks whether a thread reads what it has stored itself, right before
            manifest = replace(manifest, cost=0.0, stamped=self._stamping.stamped)
        # Sites are numbered in the order of emission, so their positions can be given only now.
        if checking is not Checking.NONE:
            found = checks(fn, self.primal.name, compiled.check_sites, compiled.stamped)
            manifest = replace(manifest, checks=found)
        files = {**compiled.files, "kernel.s": compiled.assembly().encode()} if assembly else compiled.files
        return Program(compiled.code, compiled.symbols, to_python(fn), manifest, files)

    @property
    def _checking(self) -> Checking:
        """The checks that the program makes while it runs.

        An adjoint checks memory alone: its integer arithmetic may have been moved out of branches, and the forward has
        already been checked for it.
        """
        if not self.variant.is_debug:
            return Checking.NONE
        return Checking.ALL if self.variant.active is None else Checking.MEMORY

    def _with_searches(self, manifest: Manifest) -> Manifest:
        """The manifest of a forward program, with what it says of searches."""
        if self.variant.log is None:
            # With a log of another kind there is none of searches.
            some = manifest.log is None and searches_of(self.primal) is not None
            return replace(manifest, searches=True) if some else manifest
        if self.variant.log != "searched":
            return manifest
        # A launch that keeps what it finds is looked at like one that does not.
        plain = optimise(clone_function(self.primal), self._context)
        accesses = () if self.variant.is_debug else certain_extents(plain)
        return replace(manifest, accesses=accesses, scatters=may_collide(plain))

    def _turn(self) -> OrderDependence | None:
        """By what the results of the forward depend on the order of its threads, for its derivatives."""
        # On the primal, which derivatives are made from, rather than on its optimised form.
        found = used_update(self.primal)
        return (
            None
            if found is None
            else OrderDependence(f"what atomic_{found.attrs.get('kind', 'add')} returned", found.loc)
        )

    def _depends_on_order(self, fn: Function) -> bool:
        """Return whether the results of a program differ from run to run unless its threads run one after the other.

        On a GPU they cannot, which is an error.
        """
        # In the emitted form, in which updates may have become sums over a whole block or launch.
        lowered = run(self._target.lowering(self._settings(None)), clone_function(fn), PLAIN)
        exact = exact_sums(lowered) if self._target.adds_exactly else None
        found = ordered_update(lowered, sums_in_order=not self._target.simt, exact=exact)
        if found is not None and self._target.simt:
            other = "" if self._target.adds_exactly else 'take compiler="llvm", '
            raise CompileError(
                f"kernel {self.primal.name!r} is deterministic, and what it computes depends on the order in which the "
                "threads of a GPU come to this update",
                loc=found.loc,
                remedy=f"{other}run it on the CPU, let each thread write an element of its own, or leave deterministic "
                "out",
            )
        return found is not None

    def _of_blocks(self, manifest: Manifest, fixed: int | None) -> Manifest:
        """The manifest with what it says of blocks of threads."""
        # Work on a tile is done by the threads of a block together, or by each thread for itself where a tile is its
        # own.
        together = any(map(of_block, walk(self.fn.body)))
        of_threads = bool(together and threads_of(self.fn))
        return replace(
            manifest,
            launch_bounds=self.variant.options.bounds,
            block_dim=fixed or self.variant.block_dim or self.variant.options.usual_block_dim,
            block_dim_fixed=fixed is not None,
            blockwise=manifest.blockwise or of_threads,
            rows=of_threads and needs_rows(self.fn),
            tiled=together and not of_threads and not asks_for_threads(self.primal),
        )

    def _settings(self, obtain: Obtain | None, checking: Checking = Checking.NONE) -> Settings:
        """Return the settings of the target's compiler."""
        variant, options = self.variant, self.variant.options
        return Settings(
            fast_math=bool(options.fast_math),
            fuse_fp=variant.fuse_fp,
            # Lanes would run threads at once, and stamps need one after the other.
            lanes=options.lanes if variant.log != "stamped" else False,
            checking=checking,
            may_alias=variant.may_alias,
            lineinfo=bool(options.lineinfo),
            launch_bounds=options.bounds,
            max_registers=options.max_registers,
            private_copies=options.private_copies is not False,
            block_dim=variant.block_dim,
            products=ProductLibrary(obtain, variant.library == "required") if variant.library and obtain else None,
            exact_sums=variant.deterministic,
        )

    @_checked
    def source(self) -> str:
        """Return readable Python: what one thread does, or a numba-cuda kernel."""
        loc = self.primal.loc
        where = f"{Path(loc.file).name}:{loc.line}" if loc is not None else "no source"
        direction = "forward" if self.variant.active is None else "adjoint"
        header = [f"{direction} of {where}, generated by diffkern", f"({', '.join(map(str, self.types))})"]
        return self._target.source(self.fn, header)

    @_checked
    def report(self) -> str:
        """Return what the adjoint stores, copies and synchronises."""
        # Not the finalized adjoint: the report says how accumulations have to be made, not how they were.
        found = self.derivative
        gather, sums = (found.gather, found.sums) if self.log is None else (None, ())
        return describe(self.primal, found.adjoint, found.conflicts, self.log, gather, sums)

    @_checked
    def threads(self) -> str:
        """Return how the threads of the program run."""
        return self._target.threads(self.fn, self._settings(None, self._checking))

    @_checked
    def text(self) -> str:
        """Return the IR as text."""
        return to_text(self.fn)

    @_checked
    def products(self, obtain: Obtain) -> tuple[Product, ...]:
        """Return the matrix products that a program for a GPU takes from a library, without compiling anything."""
        return self._target.products(self.fn, self._settings(obtain))

    def update_of_all_threads(self) -> Loc | None:
        """Return where all threads of a launch change one element that they have read, if they do."""
        found = update_by_all(self.forward)
        return None if found is None else found.loc
