"""The page to read first: how a Python function becomes forward and adjoint programs, one named line per step.

::

    lower          Python function + argument types -> typed IR            (frontend)
    prepare        IR -> normalised IR: what differentiation expects       (passes)
    differentiate  normalised IR + active parameters -> adjoint IR         (ad)
    build          IR -> object code, readable source, manifest            (codegen, backends)

Everything up to ``differentiate`` is target-free. A :class:`Program` is all that the run time ever sees of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from diffkern import abi
from diffkern.ad.report import describe
from diffkern.ad.reverse import Adjoint, reverse
from diffkern.analysis.blocks import check_adjoint, check_blocks, of_single_threads, with_blocks_of_one
from diffkern.analysis.conflicts import Conflict, analyse_conflicts
from diffkern.analysis.cost import thread_cost
from diffkern.analysis.coverage import overwritten_whole
from diffkern.analysis.extents import certain_extents, update_by_all
from diffkern.analysis.tile_threads import threads_of
from diffkern.analysis.writers import one_writer_each
from diffkern.errors import AutodiffError, Loc, compiling
from diffkern.frontend import lower
from diffkern.ir import verify as verifier
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.printer import to_text
from diffkern.ir.structs import Argument, leaves
from diffkern.ir.types import SHARED, Array, is_differentiable
from diffkern.lower.tiles.serial import has_tiles
from diffkern.lower.updates import settle_element_updates
from diffkern.ops.memory import ATOMICS, LOADS, WRITES
from diffkern.opt.cse import eliminate_common
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import fold
from diffkern.opt.hoist import hoist_integers
from diffkern.opt.promote import promote
from diffkern.opt.ranges import clear_wraps
from diffkern.opt.reference import values_by_reference
from diffkern.opt.sink import sink_singular
from diffkern.opt.unroll import unroll
from diffkern.opt.widen import widen
from diffkern.platforms import NATIVE
from diffkern.printing.python import to_python
from diffkern.targets import target_named
from diffkern.targets.emit.checks import Checking
from diffkern.targets.target import Compiled, ProductLibrary, Settings, Target

if TYPE_CHECKING:
    from diffkern.targets.cuda.mathdx import Product

Options = Mapping[str, Any]
PyFunction = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Program:
    """Compiled code and what the run time must know to call it.

    Attributes
    ----------
    object_code
        A relocatable object that exports ``symbols``, or a cubin.
    symbols
        The kernel's symbol and, where there are uniform sums, ``<symbol>_finish``.
    source
        The readable Python form of the same IR.
    manifest
        JSON-able facts: parameters in the order of the argument block, each with its argument; arrays read and written,
        cost, conflicts; of a GPU program also what it takes of the machine.
    files
        What else came of it, by file name: ``kernel.ptx``; ``kernel.s`` with the option ``assembly``.
    """

    object_code: bytes
    symbols: tuple[str, ...]
    source: str
    manifest: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)


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


def lower_kernel(pyfunc: PyFunction, types: Sequence[Argument], options: Options) -> Function:
    """Typed IR of a kernel; with the option ``widen`` every float in it is float64 then (gradient checks)."""
    simt = _target(options).simt
    threads = options.get("threads") or (options.get("block_dim") if simt else None)
    fn = lower(pyfunc, types, block_dim=threads or 1)
    check_blocks(fn)
    settle_element_updates(fn)
    if threads_of(fn):
        fn.attrs = {**fn.attrs, "threads": threads_of(fn)}
    if not simt:
        with_blocks_of_one(fn)
    if any(op.name == "atomic" and op.attrs["kind"] in ("min", "max") for op in walk(fn.body)):
        # The adjoint finds the winner by comparing a replayed value with the stored extremum.
        fn.attrs = {**fn.attrs, "unfused": True}
    return _verified(widen(fn) if options.get("widen") else fn, options)


def _verified(fn: Function, options: Options) -> Function:
    """The function, which must be valid IR; whether it is is found out in debug mode and in tests."""
    return verifier.verify(fn) if verifier.ALWAYS or options.get("mode") == "debug" else fn


def optimise(fn: Function) -> Function:
    """What both forward and adjoint go through before code generation."""
    return eliminate(clear_wraps(eliminate_common(fold(fn))))


def prepare(fn: Function) -> Function:
    """A normalised copy: short constant loops unrolled, index expressions shared, memory carried in values."""
    fn = clone_function(fn)
    unroll(fold(fn))
    clear_wraps(eliminate_common(fn))
    eliminate_common(hoist_integers(fn), loads=True)
    eliminate(promote(fn))
    eliminate(eliminate_common(fn, loads=True))
    return eliminate(sink_singular(fn))  # last: sharing would undo it


def differentiate(fn: Function, active: Iterable[int], options: Options = MappingProxyType({})) -> Derivative:
    """The adjoint of a prepared function with respect to its parameters ``active``."""
    if not options.get("enable_backward", True):
        raise AutodiffError(f"kernel {fn.name} was declared with enable_backward=False", loc=fn.loc)
    target = _target(options)
    budget = target.stack_budget(options.get("stack_bytes"), options.get("stack_slots"))
    chosen = sorted(k for k in active if is_differentiable(fn.params[k].type))
    adjoint = reverse(_verified(fn, options), chosen, budget)
    _verified(adjoint.fn, options)
    eliminate(eliminate_common(fold(adjoint.fn), loads=True))
    check_adjoint(adjoint.fn, target.shared_bytes)
    buffers = adjoint.fn.params[len(adjoint.fn.params) - len(adjoint.cotangents) :]
    return Derivative(adjoint, tuple(analyse_conflicts(adjoint.fn, buffers)))


@_checked
def build_forward(pyfunc: PyFunction, types: Sequence[Argument], symbol: str, options: Options) -> Program:
    """Compile a kernel."""
    fn = forward_ir(pyfunc, types, options)
    certain = _certain_facts(fn, options)
    manifest = {**_forward_manifest(_passed(fn, options), types), **certain}
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
    d = settle(differentiate(prepare(primal), active, options), accumulate, options)
    _passed(d.fn, options)
    # Integer arithmetic may have moved out of branches, and the forward has been checked for it.
    return _build(d.fn, primal.name, symbol, options, _adjoint_manifest(primal, d, types), Checking.MEMORY)


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
    fn = _verified(forward_ir(pyfunc, types, options), options)
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
    fn: Function, kernel: str, symbol: str, options: Options, manifest: dict[str, Any], debug_checks: Checking
) -> Program:
    source = to_python(_verified(fn, options))
    settings = _settings(options, debug_checks if options.get("mode") == "debug" else Checking.NONE)
    if has_tiles(fn):
        manifest["blockwise" if threads_of(fn) else "tiled"] = True  # what is launched are threads, or blocks
    if settings.launch_bounds is not None:
        manifest["launch_bounds"] = settings.launch_bounds
    if "block_dim" in options:
        manifest["usual_block_dim"] = options["block_dim"]
    compiled = _target(options).compile(fn, symbol, settings)
    manifest.update(symbol=symbol, sites=compiled.sites, **compiled.facts)
    for entry, align in zip(manifest["params"], compiled.alignments, strict=False):
        entry["align"] = align
    files = dict(compiled.files)
    if options.get("assembly"):
        files["kernel.s"] = compiled.assembly().encode()
    if settings.checking is not Checking.NONE:
        manifest["checks"] = _checks_manifest(fn, kernel, compiled)
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


def _checks_manifest(fn: Function, kernel: str, compiled: Compiled) -> dict[str, Any]:
    """Where each check stands in the source, and the arrays in which the writing threads are noted."""
    position = {p: k for k, p in enumerate(fn.params)}
    fields, _ = abi.layout([p.type for p in fn.params])
    proved = one_writer_each(fn)
    return {
        "kernel": kernel,
        "sites": [
            {
                "loc": None if op.loc is None else asdict(op.loc),
                "array": position.get(op.operands[0]) if op.operands else None,
                **_shared_array(op),
            }
            for op in compiled.check_sites
        ],
        "stamps": [
            {"array": position[p], "offset": fields[position[p]].offset - abi.HEADER_SIZE, "proved": p in proved}
            for p in compiled.stamped
        ],
    }


def _shared_array(op: Op) -> dict[str, Any]:
    """Of an access to an array that a block shares: its name and number of axes."""
    t = op.operands[0].type if op.operands else None
    shared = isinstance(t, Array) and t.layout == SHARED
    return {"shared": {"name": op.operands[0].name, "ndim": t.ndim}} if shared else {}  # type: ignore[union-attr]


def _accesses(fn: Function) -> dict[str, list[int]]:
    position = {p: k for k, p in enumerate(fn.params)}
    reads, writes = set(), set()
    for op in walk(fn.body):
        if op.operands[:1] and op.operands[0] not in position:
            continue  # memory of a block
        if op.name in LOADS | ATOMICS:
            reads.add(position[op.operands[0]])
        if op.name in WRITES:
            writes.add(position[op.operands[0]])
    return {"reads": sorted(reads), "writes": sorted(writes)}


def _parameter(p: Value, role: str, of: int, arguments: Sequence[int]) -> dict[str, Any]:
    return {"name": p.name, "type": str(p.type), "role": role, "of": of, "argument": arguments[of]}


def _arguments(types: Sequence[Argument]) -> list[int]:
    """For each IR parameter of a kernel the argument it is, or is a field of."""
    return [k for k, t in enumerate(types) for _ in leaves(t)]


def _forward_manifest(fn: Function, types: Sequence[Argument]) -> dict[str, Any]:
    arguments = _arguments(types)
    manifest = {
        "tid_arity": fn.tid_arity,
        "cost": thread_cost(fn),
        "params": [_parameter(p, "param", k, arguments) for k, p in enumerate(fn.params)],
        **_accesses(fn),
        "whole": {str(k): axes for k, axes in overwritten_whole(fn).items()},
    }
    if extents := _extents(fn):
        manifest["extents"] = extents
    return {**manifest, "blockwise": True} if of_single_threads(fn) else manifest


def _certain_facts(fn: Function, options: Options) -> dict[str, Any]:
    """What a launch of a kernel is checked for before it runs; a debug program looks at each access itself."""
    facts: dict[str, Any] = {} if options.get("mode") == "debug" else {"accesses": certain_extents(fn)}
    common = update_by_all(fn)
    return facts if common is None else {**facts, "alone": common.operands[0].name}


def update_of_all_threads(pyfunc: PyFunction, types: Sequence[Argument], options: Options) -> Loc | None:
    """Where all threads of a launch change one element that they have read, if they do."""
    found = update_by_all(forward_ir(pyfunc, types, options))
    return None if found is None else found.loc


def _extents(fn: Function) -> list[int]:
    """The parameters whose shape is read."""
    position = {p: k for k, p in enumerate(fn.params)}
    return sorted(
        {position[op.operands[0]] for op in walk(fn.body) if op.name == "shape" and op.operands[0] in position}
    )


def _adjoint_manifest(primal: Function, d: Derivative, types: Sequence[Argument]) -> dict[str, Any]:
    arguments = _arguments(types)
    together = {"blockwise": True} if of_single_threads(d.fn) else {}
    a, count = d.adjoint, len(primal.params)
    roles = [("param", k) for k in range(count)]
    roles += [("saved", k) for k in a.saved] + [("cotangent", k) for k in a.cotangents]
    return {
        "tid_arity": d.fn.tid_arity,
        "cost": thread_cost(d.fn),
        "params": [_parameter(p, role, of, arguments) for p, (role, of) in zip(d.fn.params, roles, strict=True)],
        **_accesses(primal),
        "saved": list(a.saved),
        "post": [k for k in a.final if isinstance(d.fn.params[k].type, Array)],
        "cotangents": list(a.cotangents),
        "conflicts": {str(k): c.to_json() for k, c in zip(a.cotangents, d.conflicts, strict=True)},
        **together,
    }
