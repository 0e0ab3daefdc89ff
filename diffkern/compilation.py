"""One kernel for types of arguments: its programs, sources and reports, from one lowered function.

In: a Python function, types, and which :class:`~diffkern.options.Variant` of its programs. Out: a
:class:`~diffkern.program.Program`, readable source, reports. Each is made when it is asked for: a forward program
differentiates nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from diffkern.ad.derivative import Derivative
from diffkern.ad.report import describe
from diffkern.analysis.extents import update_by_all
from diffkern.analysis.tile_threads import threads_of
from diffkern.errors import Loc, compiling
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function
from diffkern.ir.passes import Context, run
from diffkern.ir.printer import to_text
from diffkern.ir.structs import Argument
from diffkern.lower.tiles.serial import has_tiles
from diffkern.manifest import Manifest
from diffkern.opt.reference import values_by_reference
from diffkern.options import FORWARD, Variant
from diffkern.pipeline import differentiate, lower_kernel, optimise, prepare, settle
from diffkern.printing.python import to_python
from diffkern.program import Program, adjoint_manifest, checks, forward_manifest
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
        with compiling(self.pyfunc.__name__, Loc(code.co_filename, code.co_firstlineno, 0)):
            return step(self, *args, **kwargs)

    return checked


class Compilation:
    """A kernel on its way to one of its programs; the forward where ``variant.active`` is None, else an adjoint.

    Parameters
    ----------
    pyfunc, types, variant
        The kernel's function, the types of its arguments, and which program.
    slots, context
        As :func:`~diffkern.pipeline.differentiate` has them.
    """

    def __init__(
        self,
        pyfunc: Callable[..., object],
        types: Sequence[Argument],
        variant: Variant = FORWARD,
        slots: int | None = None,
        context: Context | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.types = types
        self.variant = variant
        self._slots = slots
        self._target = target_named(variant.target, variant.compiler)
        self._context = context or Context(verify=variant.is_debug)

    @functools.cached_property
    def primal(self) -> Function:
        """The typed IR, as lowered."""
        return lower_kernel(self.pyfunc, self.types, self.variant, self._context)

    @functools.cached_property
    def forward(self) -> Function:
        """The optimised IR."""
        return optimise(clone_function(self.primal), self._context)

    @functools.cached_property
    def derivative(self) -> Derivative:
        """The adjoint; how its accumulations are made is not decided."""
        prepared = prepare(self.primal, self._context)
        return differentiate(prepared, self.variant.active or (), self.variant, self._slots, self._context)

    @functools.cached_property
    def adjoint(self) -> Derivative:
        """The adjoint as it is compiled."""
        return settle(self.derivative, self.variant, self._context)

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
            What gives the code of matrix products, where ``variant.library`` says that they are a library's.
        assembly
            Whether to keep the assembly of a processor's program.
        """
        is_forward = self.variant.active is None
        fn = values_by_reference(clone_function(self.fn)) if self.variant.by_reference else self.fn
        if is_forward:
            manifest = forward_manifest(fn, self.types, self.forward, self.variant.is_debug)
        else:
            manifest = adjoint_manifest(fn, self.types, self.primal, self.adjoint.adjoint, self.adjoint.conflicts)
        # Integer arithmetic of an adjoint may have moved out of branches, and the forward has been checked for it.
        checking = Checking.NONE if not self.variant.is_debug else Checking.ALL if is_forward else Checking.MEMORY
        compiled = self._target.compile(fn, symbol, self._settings(obtain, checking))
        manifest = replace(
            self._of_blocks(manifest, compiled.block_dim),
            params=tuple(replace(p, align=n) for p, n in zip(manifest.params, compiled.alignments, strict=True)),
            sites=compiled.sites,
            gpu=compiled.gpu,
            target=self.variant.target,
        )
        if checking is not Checking.NONE:
            found = checks(fn, self.primal.name, compiled.check_sites, compiled.stamped)
            manifest = replace(manifest, checks=found)
        files = {**compiled.files, "kernel.s": compiled.assembly().encode()} if assembly else compiled.files
        return Program(compiled.code, compiled.symbols, to_python(fn), manifest, files)

    def _of_blocks(self, manifest: Manifest, fixed: int | None) -> Manifest:
        """The manifest with what it says of blocks of threads."""
        together = has_tiles(self.fn)
        of_threads = bool(together and threads_of(self.fn))
        return replace(
            manifest,
            launch_bounds=self.variant.options.bounds,
            block_dim=fixed or self.variant.block_dim or self.variant.options.usual_block_dim,
            block_dim_fixed=fixed is not None,
            blockwise=manifest.blockwise or of_threads,
            tiled=together and not of_threads,
        )

    def _settings(self, obtain: Obtain | None, checking: Checking = Checking.NONE) -> Settings:
        """What a target's compiler must know."""
        variant, options = self.variant, self.variant.options
        return Settings(
            fast_math=bool(options.fast_math),
            checking=checking,
            may_alias=variant.may_alias,
            lineinfo=bool(options.lineinfo),
            launch_bounds=options.bounds,
            max_registers=options.max_registers,
            block_dim=variant.block_dim,
            products=ProductLibrary(obtain, variant.library == "required") if variant.library and obtain else None,
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
        return describe(self.primal, self.derivative.adjoint, self.derivative.conflicts)

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
