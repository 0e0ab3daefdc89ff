"""The page to read first: how a Python function becomes forward and adjoint programs, one named line per step.

::

    lower          Python function + argument types -> typed IR            (frontend)
    prepare        IR -> normalised IR: what differentiation expects       (passes)
    differentiate  normalised IR + active parameters -> adjoint IR         (ad)
    build          IR -> object code, readable source, manifest            (codegen, backends)

Everything up to ``differentiate`` is target-free. A
:class:`~diffkern.program.Program` is all that the run time ever sees of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from diffkern.ad.report import describe
from diffkern.ad.reverse import Adjoint, reverse
from diffkern.analysis.blocks import check_adjoint, check_blocks
from diffkern.analysis.conflicts import analyse_conflicts
from diffkern.analysis.extents import update_by_all
from diffkern.analysis.tile_threads import threads_of
from diffkern.errors import AutodiffError, Loc, compiling
from diffkern.frontend.lowering import lower
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Value
from diffkern.ir.passes import PLAIN, Context, Pass, run
from diffkern.ir.printer import to_text
from diffkern.ir.stages import ADJOINT, NORMAL, PRIMAL, PROGRAM, WRITTEN
from diffkern.ir.structs import Argument
from diffkern.ir.types import is_differentiable
from diffkern.lower.marks import blocks_of_one, mark_threads, mark_unfused
from diffkern.lower.tiles.serial import has_tiles
from diffkern.lower.updates import finalize_element_updates
from diffkern.manifest import DEFAULT_BLOCK_DIM, Conflict, Manifest
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import fold
from diffkern.opt.hoist import hoist_integers
from diffkern.opt.promote import promote
from diffkern.opt.ranges import clear_wraps
from diffkern.opt.reference import values_by_reference
from diffkern.opt.sink import guard_singular, sink_singular
from diffkern.opt.unroll import unroll
from diffkern.opt.widen import widen
from diffkern.platforms import NATIVE
from diffkern.printing.python import to_python
from diffkern.program import Program, adjoint_manifest, certain_facts, checks, forward_manifest
from diffkern.targets import target_named
from diffkern.targets.emit.checks import Checking
from diffkern.targets.target import ProductLibrary, Settings, Target

if TYPE_CHECKING:
    from diffkern.targets.cuda.mathdx import Product

Options = Mapping[str, Any]
PyFunction = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Derivative:
    """An adjoint with the analysis of its accumulations (one entry per cotangent)."""

    adjoint: Adjoint
    conflicts: tuple[Conflict, ...]

    @property
    def fn(self) -> Function:
        return self.adjoint.fn

    @property
    def saved(self) -> tuple[int, ...]:
        return self.adjoint.saved

    @property
    def cotangents(self) -> tuple[int, ...]:
        return self.adjoint.cotangents

    @property
    def buffers(self) -> tuple[Value, ...]:
        """The cotangent parameters."""
        count = len(self.adjoint.cotangents)
        return self.fn.params[len(self.fn.params) - count :]


def _checked(step: Callable[Concatenate[PyFunction, P], R]) -> Callable[Concatenate[PyFunction, P], R]:
    """Let a step raise nothing but diffkern's own errors."""

    @functools.wraps(step)
    def checked(pyfunc: PyFunction, /, *args: P.args, **kwargs: P.kwargs) -> R:
        code = pyfunc.__code__
        with compiling(pyfunc.__name__, Loc(code.co_filename, code.co_firstlineno, 0)):
            return step(pyfunc, *args, **kwargs)

    return checked


# -- pipelines ---------------------------------------------------------------------------------------------------------

COMPARABLE = (
    Pass("fold", WRITTEN, WRITTEN, fold),
    Pass("cse", WRITTEN, WRITTEN, eliminate_common),
    Pass("ranges", WRITTEN, WRITTEN, partial(clear_wraps, bounds=True)),
    Pass("hoist", WRITTEN, WRITTEN, hoist_integers),
    Pass("cse-loads", WRITTEN, WRITTEN, partial(eliminate_common, loads=True)),
)
"""What makes equal indices one value, of a copy by which it is found out whether threads share elements."""

WRITTEN_TO_PRIMAL = (
    Pass("barriers", WRITTEN, WRITTEN, check_blocks),
    Pass("updates", WRITTEN, PRIMAL, partial(finalize_element_updates, simplify=partial(run, COMPARABLE))),
    Pass("threads", PRIMAL, PRIMAL, mark_threads),
    Pass("unfused", PRIMAL, PRIMAL, mark_unfused),
)
ONE_THREAD = (Pass("blocks-of-one", PRIMAL, PRIMAL, blocks_of_one),)
"""For targets on which a block that works on tiles is one thread."""
WIDEN = (Pass("widen", PRIMAL, PRIMAL, widen),)
"""For gradient checks: every float becomes float64."""

OPTIMISE = (
    Pass("fold", PRIMAL, PRIMAL, fold),
    Pass("cse", PRIMAL, PRIMAL, eliminate_common),
    Pass("ranges", PRIMAL, PRIMAL, clear_wraps),
    Pass("dce", PRIMAL, PRIMAL, eliminate),
)

NORMALISE = (
    Pass("fold", PRIMAL, PRIMAL, fold),
    Pass("unroll", PRIMAL, PRIMAL, unroll),
    Pass("cse", PRIMAL, PRIMAL, eliminate_common),
    Pass("ranges", PRIMAL, PRIMAL, clear_wraps),
    Pass("hoist", PRIMAL, PRIMAL, hoist_integers),
    Pass("cse-loads", PRIMAL, PRIMAL, partial(eliminate_common, loads=True)),
    Pass("promote", PRIMAL, PRIMAL, promote),
    Pass("dce", PRIMAL, PRIMAL, eliminate),
    Pass("cse-loads", PRIMAL, PRIMAL, partial(eliminate_common, loads=True)),
    Pass("dce", PRIMAL, PRIMAL, eliminate),
    Pass("sink", PRIMAL, NORMAL, sink_singular),  # last: sharing would undo it
    Pass("dce", NORMAL, NORMAL, eliminate),
)

NORMALISE_MAP = (
    Pass("fold", PRIMAL, PRIMAL, fold),
    Pass("unroll", PRIMAL, PRIMAL, unroll),
    Pass("cse", PRIMAL, PRIMAL, eliminate_common),
    Pass("dce", PRIMAL, PRIMAL, eliminate),
    Pass("sink", PRIMAL, NORMAL, sink_singular),
    Pass("guard", NORMAL, NORMAL, guard_singular),
    Pass("dce", NORMAL, NORMAL, eliminate),
)
"""For the function of a map of tiles."""

CLEAN = (
    Pass("fold", ADJOINT, ADJOINT, fold),
    Pass("cse-loads", ADJOINT, ADJOINT, partial(eliminate_common, loads=True)),
    Pass("dce", ADJOINT, ADJOINT, eliminate),
)

# -- steps -------------------------------------------------------------------------------------------------------------


def lower_kernel(
    pyfunc: PyFunction, types: Sequence[Argument], options: Options, context: Context | None = None
) -> Function:
    """Typed IR of a kernel; with the option ``widen`` every float in it is float64 then (gradient checks)."""
    context = context or _context(options)
    simt = _target(options).simt
    threads = options.get("threads") or (options.get("block_dim") if simt else None)
    fn = context.done("lower", WRITTEN, lower(pyfunc, types, block_dim=threads or 1))
    passes = WRITTEN_TO_PRIMAL if simt else WRITTEN_TO_PRIMAL + ONE_THREAD
    return run(passes + WIDEN if options.get("widen") else passes, fn, context)


def _context(options: Options) -> Context:
    return Context(verify=options.get("mode") == "debug")


def optimise(fn: Function, context: Context = PLAIN) -> Function:
    """What a kernel goes through before code generation, in place."""
    return run(OPTIMISE, fn, context)


def prepare(fn: Function, context: Context = PLAIN) -> Function:
    """A normalised copy of a kernel."""
    return run(NORMALISE, clone_function(fn), context)


def differentiate(
    fn: Function,
    active: Iterable[int],
    options: Options = MappingProxyType({}),
    context: Context | None = None,
) -> Derivative:
    """The adjoint of a prepared function with respect to its parameters ``active``."""
    if not options.get("enable_backward", True):
        raise AutodiffError(f"kernel {fn.name} was declared with enable_backward=False", loc=fn.loc)
    context = context or _context(options)
    target = _target(options)
    budget = target.stack_budget(options.get("stack_bytes"), options.get("stack_slots"))
    chosen = sorted(k for k in active if is_differentiable(fn.params[k].type))
    adjoint = reverse(fn, chosen, budget, partial(run, NORMALISE_MAP))
    context.done("reverse", ADJOINT, adjoint.fn)
    run(CLEAN, adjoint.fn, context)
    check_adjoint(adjoint.fn, target.shared_bytes)
    buffers = adjoint.fn.params[len(adjoint.fn.params) - len(adjoint.cotangents) :]
    conflicts = analyse_conflicts(adjoint.fn, buffers)
    context.done("conflicts", PROGRAM, adjoint.fn)
    return Derivative(adjoint, tuple(conflicts))


@_checked
def build_forward(pyfunc: PyFunction, types: Sequence[Argument], symbol: str, options: Options) -> Program:
    """Compile a kernel."""
    fn = forward_ir(pyfunc, types, options)
    certain = certain_facts(fn, debug=options.get("mode") == "debug")
    manifest = replace(forward_manifest(_passed(fn, options), types), **certain)
    return _build(fn, fn.name, symbol, options, manifest, Checking.ALL)


@_checked
def build_adjoint(
    pyfunc: PyFunction,
    types: Sequence[Argument],
    active: frozenset[int],
    accumulate: Literal["plain", "atomic"],
    symbol: str,
    options: Options,
) -> Program:
    """Compile a kernel's adjoint; with ``accumulate="atomic"`` buffers of class ``general`` are updated atomically."""
    primal = lower_kernel(pyfunc, types, options)
    context = _context(options)
    d = settle(differentiate(prepare(primal, context), active, options, context), accumulate, options)
    _passed(d.fn, options)
    # Integer arithmetic may have moved out of branches, and the forward has been checked for it.
    manifest = adjoint_manifest(primal, d.adjoint, d.conflicts, types)
    return _build(d.fn, primal.name, symbol, options, manifest, Checking.MEMORY)


def settle(d: Derivative, accumulate: Literal["plain", "atomic"], options: Options) -> Derivative:
    """The adjoint, in place, with the modes of its accumulations as its target needs them."""
    return replace(d, conflicts=_target(options).settle(d.fn, d.buffers, d.conflicts, accumulate))


def _passed(fn: Function, options: Options) -> Function:
    """The function, in place, with its parameters in the way the caller passes them."""
    return values_by_reference(fn) if options.get("by_reference") else fn


def forward_ir(pyfunc: PyFunction, types: Sequence[Argument], options: Options) -> Function:
    """Optimised IR of a kernel, as it is compiled."""
    return optimise(lower_kernel(pyfunc, types, options))


def adjoint_ir(pyfunc: PyFunction, types: Sequence[Argument], active: frozenset[int], options: Options) -> Derivative:
    """The adjoint's IR, as it is compiled for launches in which plain accumulation is right."""
    return settle(differentiate(prepare(lower_kernel(pyfunc, types, options)), active, options), "plain", options)


@_checked
def forward_source(pyfunc: PyFunction, types: Sequence[Argument], options: Options) -> str:
    """Readable Python form of a kernel: what one thread does, or a numba-cuda kernel."""
    fn = forward_ir(pyfunc, types, options)
    return _target(options).source(fn, _header(fn, types, "forward"))


@_checked
def adjoint_source(
    pyfunc: PyFunction,
    types: Sequence[Argument],
    active: frozenset[int],
    options: Options,
) -> str:
    """Readable Python form of a kernel's adjoint."""
    d = adjoint_ir(pyfunc, types, active, options)
    return _target(options).source(d.fn, _header(d.fn, types, "adjoint"))


def _header(fn: Function, types: Sequence[Argument], direction: str) -> list[str]:
    """The lines at the top of printed source: where it comes from and for which argument types."""
    where = f"{Path(fn.loc.file).name}:{fn.loc.line}" if fn.loc is not None else "no source"
    return [f"{direction} of {where}, generated by diffkern", f"({', '.join(map(str, types))})"]


@_checked
def adjoint_report(pyfunc: PyFunction, types: Sequence[Argument], active: frozenset[int], options: Options) -> str:
    """What a kernel's adjoint stores, copies and synchronises."""
    primal = lower_kernel(pyfunc, types, options)
    d = differentiate(prepare(primal), active, options)
    return describe(primal, d.adjoint, d.conflicts)


@_checked
def ir_text(
    pyfunc: PyFunction, types: Sequence[Argument], adjoint: bool, active: frozenset[int], options: Options
) -> str:
    """The IR of a kernel or of its adjoint as text."""
    if adjoint:
        return to_text(adjoint_ir(pyfunc, types, active, options).fn)
    return to_text(forward_ir(pyfunc, types, options))


def _build(
    fn: Function, kernel: str, symbol: str, options: Options, manifest: Manifest, debug_checks: Checking
) -> Program:
    source = to_python(fn)
    settings = _settings(options, debug_checks if options.get("mode") == "debug" else Checking.NONE)
    most = settings.launch_bounds[0] if settings.launch_bounds else DEFAULT_BLOCK_DIM
    compiled = _target(options).compile(fn, symbol, settings)
    manifest = replace(
        manifest,
        launch_bounds=settings.launch_bounds,
        block_dim=compiled.block_dim or options.get("block_dim") or min(DEFAULT_BLOCK_DIM, most),
        block_dim_fixed=compiled.block_dim is not None,
        params=tuple(replace(p, align=align) for p, align in zip(manifest.params, compiled.alignments, strict=True)),
        sites=compiled.sites,
        gpu=compiled.gpu,
        target=options.get("target", NATIVE),
    )
    if has_tiles(fn):  # what is launched are threads, or blocks
        manifest = replace(manifest, blockwise=True) if threads_of(fn) else replace(manifest, tiled=True)
    if settings.checking is not Checking.NONE:
        manifest = replace(manifest, checks=checks(fn, kernel, compiled.check_sites, compiled.stamped))
    files = {**compiled.files, "kernel.s": compiled.assembly().encode()} if options.get("assembly") else compiled.files
    return Program(compiled.code, compiled.symbols, source, manifest, files)


def _target(options: Options) -> Target:
    return target_named(options.get("target", NATIVE))


def _settings(options: Options, checking: Checking = Checking.NONE) -> Settings:
    """What of the options a target's compiler must know."""
    bounds, wish, obtain = (options.get(name) for name in ("launch_bounds", "mathdx_gemm", "obtain"))
    return Settings(
        fast_math=bool(options.get("fast_math", False)),
        checking=checking,
        may_alias=bool(options.get("may_alias", True)),
        lineinfo=bool(options.get("lineinfo", False)),
        launch_bounds=None if bounds is None else (bounds, 0) if isinstance(bounds, int) else (bounds[0], bounds[1]),
        block_dim=options.get("block_dim"),
        products=ProductLibrary(obtain, wish == "required") if wish and obtain else None,
    )


@_checked
def products_for_gpu(
    pyfunc: PyFunction, types: Sequence[Argument], active: frozenset[int] | None, options: Options
) -> tuple[Product, ...]:
    """The matrix products that a program for a GPU takes from a library, without compiling it or making them."""
    fn = forward_ir(pyfunc, types, options) if active is None else adjoint_ir(pyfunc, types, active, options).fn
    return _target(options).products(fn, _settings(options))


def update_of_all_threads(pyfunc: PyFunction, types: Sequence[Argument], options: Options) -> Loc | None:
    """Where all threads of a launch change one element that they have read, if they do."""
    found = update_by_all(forward_ir(pyfunc, types, options))
    return None if found is None else found.loc
