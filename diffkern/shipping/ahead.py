"""Compilation before the first launch, on all cores.

Kernels, or the modules that hold them, and argument types give programs in the cache and in memory, or one program to
look at. Nothing here decides what a program is: it calls what a launch calls, only earlier and several at once.
Compiling holds Python's lock or LLVM's for nearly all of its time, so threads do not help; on Linux the work is given
to forked processes, which have the kernels without pickling them. A process with more than one Python thread, or with
JAX imported, does not fork: a lock that another thread holds would stay locked in the child. Such a process, and other
systems, compile one program after the other.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from types import ModuleType
from typing import Any, overload

from diffkern.cache.store import Store
from diffkern.compiler.compiled import Compiled, compile_for
from diffkern.compiler.specialize import Specialization, artifact_key, build_entry, load
from diffkern.compiler.stores import current_store
from diffkern.contracts.options import KernelOptions
from diffkern.contracts.platforms import HOST, NAMED, NATIVE, platform_named
from diffkern.errors import CompileError, KernelError, MisuseError, raise_all
from diffkern.ir.structs import Argument, leaves
from diffkern.ir.types import Array, is_differentiable
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import brief, compiles
from diffkern.runtime.native.pool import processors

__all__ = [
    "BuildTask", "arrays_with_gradients", "compile_kernels", "force_load", "is_annotated", "kernel_and_types", "make",
    "specializations", "target_named",
]  # fmt: skip

_Fields = list[tuple[str, bytes]]
_OPTIONS = tuple(sorted({"may_alias", *(f.name for f in fields(KernelOptions))} - {"enable_backward"}))
_CPU = "cpu"  # this processor, as NATIVE
_index = struct.Struct("=i")
_BAR = 30
# What a pipe holds at least; more work than that is handed out in several rounds.
_ROUND = 1000


@dataclass(frozen=True)
class BuildTask:
    """One program to be made for one target and kept in one store."""

    specialization: Specialization
    fields: _Fields
    target: str
    store: Store
    shipped: bool = False

    @property
    def key(self) -> str:
        return artifact_key(self.fields, self.target, self.shipped)

    def is_done(self) -> bool:
        return self.store.get(self.key) is not None

    def do(self) -> None:
        with self.store.building(self.key):
            # Another process may have made it while this one waited for the lock.
            if not self.is_done():
                entry = build_entry(self.specialization, self.fields, self.target, self.shipped)
                self.store.put(self.key, entry)


# -- what users call ---------------------------------------------------------------------------------------------------


@overload
def compile_kernels(
    kernel: Kernel | tuple[Any, ...],
    args: Sequence[Any] | None = None,
    *,
    target: str,
    adjoint: bool = False,
    active: Sequence[str] | None = None,
    **options: Any,
) -> Compiled: ...


@overload
def compile_kernels(
    *kernels: Kernel | tuple[Any, ...],
    adjoint: bool = True,
    active: Sequence[str] | None = None,
    processes: int | None = None,
    progress: bool | None = None,
) -> None: ...


@brief
def compile_kernels(
    *kernels: Any,
    args: Sequence[Any] | None = None,
    target: str | None = None,
    adjoint: bool | None = None,
    active: Sequence[str] | None = None,
    processes: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Compiled | None:
    """Compile kernels before they are launched, or one of them for a target, to look at.

    ``dk.compile(first, second)`` compiles kernels and their adjoints for this machine, on all cores, and loads them.
    ``dk.compile(kernel, target="sm_90")`` compiles one kernel, or with ``adjoint=True`` its adjoint, for a target and
    returns the result: machine code, assembly, registers, counts of instructions. It needs no GPU and no driver.

    Parameters
    ----------
    *kernels : Kernel or (Kernel, type, …)
        A kernel whose parameters are all annotated; or a kernel and a type for each of its parameters, such as
        ``(scale, dk.array(dtype=float), float)``. Arrays are taken to be contiguous.
    args : sequence of types, optional
        With a target, another way to give the types: ``dk.compile(scale, (dk.array(dtype=float), float), target=…)``.
    target : str, optional
        ``cpu`` for this processor, one of ``x86-64-v2``, ``x86-64-v3``, ``x86-64-v4``, ``aarch64``, or a GPU
        architecture from ``sm_75`` on.
    adjoint : bool, optional
        Without a target, whether to compile the adjoints as well (yes by default); with one, whether to compile the
        adjoint instead of the forward (no by default).
    active : sequence of str, optional
        Names of the parameters to differentiate for; by default the arrays that have gradients, which is what a tape
        needs when they all do.
    processes : int, optional
        Without a target, the number of processes to use; as many as processors by default. 1 compiles in this process.
    progress : bool, optional
        Without a target, whether to show a progress bar on standard error; by default where that is a terminal.
    **options
        With a target, options in place of the kernel's own: ``compiler``, ``deterministic``, ``enable_mathdx_gemm``,
        ``fast_math``, ``fuse_fp``, ``lanes``, ``launch_bounds``, ``lineinfo``, ``may_alias``, ``mode``,
        ``stack_bytes``; and ``block_dim``, the threads of a block for which libmathdx makes matrix products of tiles
        (256 by default). For a GPU the program is by default the one that launches run whose arrays do not overlap;
        ``may_alias=True`` gives the one for the others.

    Returns
    -------
    Compiled or None
        With a target, the program.

    Raises
    ------
    KernelError
        If a kernel cannot be compiled or differentiated; of several the others are compiled all the same.
    """
    if target is not None:
        if processes is not None or progress is not None:
            raise MisuseError(
                "processes and progress are for compiling several kernels, without a target",
                remedy="leave them out, or leave the target out to compile for this machine",
            )
        first, *more = kernels or (None,)
        # `dk.compile(kernel, types, target=…)`: the second positional argument is the types, unless it is a kernel.
        if len(more) == 1 and args is None and not isinstance(more[0], Kernel):
            args = more.pop()
        if more:
            raise MisuseError(
                f"with a target dk.compile takes one kernel, not {len(kernels)}", remedy="call it once for each kernel"
            )
        return _compile_one(first, args, target, bool(adjoint), active, options)
    if options or args is not None:
        raise MisuseError(
            f"without a target dk.compile does not take {', '.join(options) or 'args'}",
            remedy="pass target='cpu', or a GPU's such as target='sm_90'",
        )
    _compile_and_load(kernels, adjoint is not False, active, processes, progress)
    return None


@compiles
def _compile_one(
    item: Any, args: Sequence[Any] | None, target: str, adjoint: bool, active: Any, options: dict[str, Any]
) -> Compiled:
    kernel, types = kernel_and_types(item)
    if args is not None:
        types = list(args) if isinstance(args, (list, tuple)) else [args]
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise MisuseError(
            f"there is no option {unknown[0]!r}; there are {', '.join(_OPTIONS)}",
            remedy="leave it out, or give it to @dk.kernel if it is an option of kernels",
        )
    target = NATIVE if target in (_CPU, NATIVE) else target_named(target)
    known = kernel.argument_types(*types)
    threads, library = options.pop("block_dim", kernel.block_dim), options.pop("enable_mathdx_gemm", None)
    wish = kernel.enable_mathdx_gemm if library is None else library
    platform = platform_named(target)
    # A processor's programs do not distinguish overlapping arrays, so that there the option has one value.
    may_alias = bool(options.pop("may_alias", False)) or not platform.tells_overlaps
    own = replace(kernel.options, **options)
    usual = kernel.variant
    variant = replace(
        usual,
        options=own,
        mode=own.mode or usual.mode,
        deterministic=own.get("deterministic", usual.deterministic),
        fuse_fp=own.get("fuse_fp", usual.fuse_fp),
        may_alias=may_alias,
        compiler=own.compiler or usual.compiler,
    )

    # The block size counts only for programs that ask for it.
    def made(chosen: frozenset[int] | None) -> Compiled:
        specialization = Specialization(kernel.func, known, replace(variant, active=chosen))
        return compile_for(
            specialization.for_block(threads, wish) if platform.counts_threads else specialization, target
        )

    if not adjoint:
        return made(None)
    chosen = arrays_with_gradients(known) if active is None else kernel.positions(active, known)
    if not kernel.enable_backward or not chosen:
        why = "it has no array with a gradient" if kernel.enable_backward else "enable_backward is off for it"
        raise CompileError(f"kernel {kernel.name!r} has no adjoint: {why}", remedy="leave out adjoint=True")
    return made(chosen)


def kernel_and_types(item: Any) -> tuple[Kernel, list[Any]]:
    kernel, *types = item if isinstance(item, tuple) else (item,)
    if not isinstance(kernel, Kernel):
        raise MisuseError(
            f"dk.compile takes kernels, or tuples of a kernel and types, not {item!r}",
            remedy="write dk.compile(kernel), or dk.compile((kernel, types))",
        )
    return kernel, types


def _compile_and_load(
    kernels: Iterable[Any],
    adjoint: bool,
    active: Sequence[str] | None,
    processes: int | None,
    progress: bool | None,
) -> None:
    errors: list[KernelError] = []
    wanted: list[Specialization] = []
    for item in kernels:
        kernel, types = kernel_and_types(item)
        try:
            wanted += specializations(kernel, types, adjoint, active)
        except KernelError as error:
            errors.append(error)
    store = current_store()
    # Programs are made by several processes first, and then loaded here from the cache.
    work = [BuildTask(s, s.fields(), NATIVE, store) for s in wanted]
    make(work, processes, progress)
    # Those that could not be made are tried once more here, where their errors can be told.
    for specialization in wanted:
        try:
            load(specialization)
        except KernelError as error:
            errors.append(error)
    raise_all(errors)


def _module(given: Any) -> ModuleType:
    found = sys.modules.get(given) if isinstance(given, str) else given
    if not isinstance(found, ModuleType):
        raise MisuseError(
            f"dk.force_load takes modules that are imported, or their names, not {given!r}",
            remedy="import the module first, and pass it",
        )
    return found


def force_load(module: ModuleType | str | Iterable[ModuleType | str] | None = None) -> None:
    """Compile and load all kernels of a module whose parameters are annotated, and their adjoints, on all cores.

    Parameters
    ----------
    module : module or str, or several, optional
        The module or its name; every imported module by default.

    Raises
    ------
    KernelError
        If a kernel cannot be compiled or differentiated; the others are compiled all the same.
    """
    if module is None:
        chosen = list(sys.modules.values())
    else:
        given = [module] if isinstance(module, (ModuleType, str)) or not isinstance(module, Iterable) else list(module)
        chosen = [_module(m) for m in given]
    # By identity: several modules may import one kernel.
    found: dict[int, Kernel] = {}
    for one in chosen:
        for value in list(getattr(one, "__dict__", {}).values()):
            if isinstance(value, Kernel) and is_annotated(value):
                found[id(value)] = value
    compile_kernels(*found.values())


# -- what is to be compiled --------------------------------------------------------------------------------------------


def specializations(
    kernel: Kernel, types: Sequence[Any], adjoint: bool, active: Sequence[str] | None
) -> list[Specialization]:
    known = kernel.argument_types(*types)
    found = [Specialization(kernel.func, known, kernel.variant)]
    if adjoint and kernel.enable_backward:
        chosen = arrays_with_gradients(known) if active is None else kernel.positions(active, known)
        if chosen:
            found.append(found[0].with_variant(active=chosen))
    return found


def arrays_with_gradients(types: Sequence[Argument]) -> frozenset[int]:
    found = [leaf for t in types for _, leaf in leaves(t)]
    return frozenset(i for i, t in enumerate(found) if isinstance(t, Array) and is_differentiable(t))


def is_annotated(kernel: Kernel) -> bool:
    """Return whether the types of all parameters are known from their annotations."""
    return all(
        p.annotation is not None and getattr(p.annotation, "element", True) is not None for p in kernel.parameters
    )


def target_named(name: str) -> str:
    if not isinstance(name, str):
        raise MisuseError(
            f"a target is a name such as {_CPU!r} or 'sm_90', not {name!r}", remedy=f"write target={_CPU!r}"
        )
    if name in (_CPU, NATIVE):
        return HOST
    try:
        return platform_named(name).name
    except LookupError:
        raise CompileError(
            f"there is no target {name!r}",
            remedy=f"take one of {_CPU} (or {NATIVE}), {', '.join(NAMED)}, sm_75 … sm_121",
        ) from None


# -- doing it ----------------------------------------------------------------------------------------------------------


def make(work: Sequence[BuildTask], processes: int | None, progress: bool | None) -> None:
    """Make missing programs, as far as other processes can; the caller handles what fails there."""
    # What is in the cache already costs only a look.
    missing = [one for one in work if not one.is_done()]
    _make_products(missing, processes, progress)
    missing.sort(
        key=lambda one: one.specialization.variant.active is None
    )  # adjoints take longer; they are not to be last
    count = min(len(missing), processes or processors())
    # Children hand programs over through the store on disk, and errors not at all.
    if count < 2 or not _may_fork() or not missing[0].store.is_writable():
        return
    _warm_up({one.target for one in missing})

    shown = _Progress(len(missing), sys.stderr.isatty() if progress is None else progress)
    # Rounds, as the queue is written to a pipe whose capacity is limited.
    for start in range(0, len(missing), _ROUND):
        _make_in_processes(missing[start : start + _ROUND], count, shown)
    shown.end()


def _make_products(work: Sequence[BuildTask], processes: int | None, progress: bool | None) -> None:
    """Make the matrix products of tiles that the programs need, all together, which keeps the processors busy."""
    wanted: list[Any] = []
    for one in work:
        with contextlib.suppress(KernelError):  # told when the program is made
            wanted += one.specialization.products(one.target)
    if wanted:
        from diffkern.compiler.products import obtain

        with contextlib.suppress(KernelError):
            obtain(wanted, processes=processes, progress=progress)


def _warm_up(targets: Iterable[str]) -> None:
    """Load the compilers before forking, so that it is done once."""
    import diffkern.compiler.compilation  # noqa: F401
    from diffkern.targets import target_named as compiler_for

    for target in targets:
        compiler_for(target).warm_up()


def _make_in_processes(work: Sequence[BuildTask], count: int, shown: _Progress) -> None:
    """Make programs in this process and in its children; what this one loads for it serves the next time as well."""
    queue_out, queue_in = os.pipe()
    done_out, done_in = os.pipe()
    # All of the queue fits into the pipe; its end is the end of the work.
    os.write(queue_in, b"".join(map(_index.pack, range(len(work)))))
    os.close(queue_in)
    # The writing ends are closed in the parent where they have served: a reader sees the end only when no writer is
    # left.
    children = []
    try:
        for _ in range(count - 1):
            child = _fork()
            # The child never returns from here: it ends in `_work_as_child`.
            if child == 0:
                _work_as_child(work, queue_out, done_in)
            children.append(child)
        for _ in _worked_off(work, queue_out):
            shown.step()
            # Progress of the children is collected between this process's own programs, without waiting.
            while select.select([done_out], [], [], 0)[0]:
                os.read(done_out, _index.size)
                shown.step()
    except KeyboardInterrupt:
        for child in children:  # Ctrl-C at a terminal reaches them too, a signal to this process alone does not
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        while os.read(queue_out, _ROUND * _index.size):  # after an error no process begins anything more
            pass
        os.close(queue_out)
        os.close(done_in)
        while os.read(done_out, _index.size):
            shown.step()
        os.close(done_out)
        # Children that have ended remain as zombies until they are waited for.
        for child in children:
            os.waitpid(child, 0)


def _worked_off(work: Sequence[BuildTask], queue: int) -> Iterator[bytes]:
    """Run work from the queue until it is empty; yield what was taken from it."""
    while taken := os.read(queue, _index.size):
        with contextlib.suppress(KernelError):  # told by the parent's caller, who finds it again
            work[_index.unpack(taken)[0]].do()
        yield taken


def _work_as_child(work: Sequence[BuildTask], queue: int, done: int) -> None:
    """Run work from the queue until it is empty, and end the process."""
    status = 1
    try:
        gc.freeze()  # looking at the parent's objects would copy their memory
        for taken in _worked_off(work, queue):
            os.write(done, taken)
        status = 0
    finally:
        # Nothing of the parent's may run here: no exit handlers, no buffers written twice, no tracebacks of its own.
        os._exit(status)


def _fork() -> int:
    # Python warns of forks beside threads, which `_may_fork` has looked at.
    with warnings.catch_warnings():
        # The other threads are native ones that hold no lock a child needs: the pool, and those of BLAS.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _may_fork() -> bool:
    # JAX has native threads, which Python does not count, and says that a fork beside them may not come to an end.
    return sys.platform == "linux" and threading.active_count() == 1 and "jax" not in sys.modules


class _Progress:
    """A bar on standard error, redrawn on one line."""

    def __init__(self, total: int, visible: bool) -> None:
        self._total = total
        self._visible = visible
        self._done = 0
        self._started = time.perf_counter()
        self._draw()

    def step(self) -> None:
        self._done += 1
        self._draw()

    def end(self) -> None:
        if self._visible:
            print(file=sys.stderr)

    def _draw(self) -> None:
        if self._visible:
            full = _BAR * self._done // self._total
            bar = "█" * full + "░" * (_BAR - full)
            seconds = time.perf_counter() - self._started
            text = f"\rdiffkern: compiling {bar} {self._done}/{self._total}  {seconds:.1f} s"
            print(text, end="", file=sys.stderr, flush=True)
