"""``@cuda.jit``: kernels and device functions in the spelling of ``numba.cuda``, and their launches.

A Python function becomes a :class:`CudaKernel`, which is launched with blocks and threads in numba's order of axes. Its
launch is that of an ordinary kernel over a grid (:mod:`diffkern.contracts.launch_layout`), so that tapes, records, JAX
and PyTorch take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from diffkern.contracts.extents import whole_number
from diffkern.contracts.launch_layout import Layout, lay_out
from diffkern.contracts.options import MAX_BLOCK_DIM, PLAIN, AdjointForm, KernelOptions, Merged, Variant, names
from diffkern.cuda.arrays import to_device
from diffkern.cuda.devices import place
from diffkern.cuda.signatures import is_signature, parse_signature
from diffkern.cuda.streams import native
from diffkern.errors import KernelError, LaunchError, MisuseError
from diffkern.ir.types import Scalar
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.func import Func, check_function, function_of_dispatcher
from diffkern.lang.numba_cuda import TOGETHER
from diffkern.lang.values import CompositeValue
from diffkern.process.forks import cached_property
from diffkern.process.tracebacks import PASSED, Entrance, brief, fail_launch, shorten
from diffkern.runtime.launch.arguments import Parameter
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch, dispatch
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.program import Executable

__all__ = ["CudaKernel", "Launcher", "jit"]

_Triple = tuple[int, int, int]
_Annotations = tuple[ArrayAnnotation | Scalar, ...] | None


class CudaKernel(Kernel):
    """A kernel in numba's spelling; made by :func:`jit`.

    ``kernel[blocks, threads](x, y)`` launches it. A launch over a grid of threads, as ``dk.launch`` makes it, has one
    axis, x; for others take the kernel and dimensions of ``kernel[blocks, threads]`` (:class:`Launcher`).

    Attributes
    ----------
    py_func : callable
        The Python function.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        options: KernelOptions,
        annotations: _Annotations = None,
        layout: Layout | None = None,
    ) -> None:
        check_function(func, "@cuda.jit")
        self.layout = layout or Layout(threads=(options.usual_block_dim, 1, 1))
        self._annotations = annotations
        self._laid_out: dict[Layout, CudaKernel] = {}
        self._configured: dict[Any, Launcher] = {}
        self._begin(func, options)

    def _take_over(self, of: CudaKernel) -> None:
        self.layout, self._annotations = of.layout, of._annotations
        self._laid_out, self._configured = {}, {}

    is_numba_kernel: Final = True
    """Other kernels may call it as a function, as numba has it."""

    @classmethod
    def of_dispatcher(cls, dispatcher: Any, **options: Any) -> CudaKernel:
        """Return the kernel of a kernel made by ``numba.cuda.jit``, whose options count where none are given."""
        function = function_of_dispatcher(dispatcher)
        # Numba keeps the options of a dispatcher here.
        given = getattr(dispatcher, "targetoptions", {})
        if given.get("device"):
            raise MisuseError(
                f"{getattr(function, '__name__', function)} is a device function",
                remedy="kernels call it as it is; dk.func makes a function of diffkern of it",
            )
        for name in options:
            if name not in names("kernel"):
                raise MisuseError(
                    f"a kernel has no option {name!r}; it has {', '.join(names('kernel'))}", remedy="leave it out"
                )
        # Options of numba that have the same meaning here; the others are about numba's compiler.
        own: dict[str, Any] = {"lineinfo": given.get("lineinfo") or None, "fast_math": given.get("fastmath") or None}
        if given.get("debug"):
            own["mode"] = "debug"
        return cls(function, KernelOptions(**(own | options)))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<cuda.jit kernel {self.name}>"

    @brief
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raise: a kernel runs on a grid."""
        raise MisuseError("a kernel needs blocks and threads", remedy=f"write {self.name}[blocks, threads](…)")

    @property
    def variant(self) -> Variant:
        """Its forward program for the CPU, with the present options of the kernel and ``dk.config``."""
        return replace(super().variant, layout=self.layout)

    def forward(
        self, keys: tuple[str, ...], block_dim: int | None = None, of: KernelVersion | None = None
    ) -> Executable:
        """Return the forward program for argument types, built if need be."""
        return super().forward(keys, self._checked_block(block_dim), of)

    def merged_forward(
        self,
        keys: tuple[str, ...],
        merged: Merged,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
    ) -> Executable:
        """Return the forward program for launches that give several parameters one array."""
        return super().merged_forward(keys, merged, self._checked_block(block_dim), of)

    def adjoint(
        self,
        keys: tuple[str, ...],
        active: frozenset[int],
        form: AdjointForm = PLAIN,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
        merged: Merged = (),
    ) -> Executable:
        """Return an adjoint program for argument types and active parameters, built if need be."""
        return super().adjoint(keys, active, form, self._checked_block(block_dim), of, merged)

    def _checked_block(self, block_dim: int | None) -> int | None:
        """Return the threads of a block that a launch asks for; raise unless they are those of the kernel's layout."""
        # Index arithmetic of a layout is compiled for its block size.
        if block_dim not in (None, self.layout.block_dim):
            raise LaunchError(
                f"kernel {self.name!r} is for blocks of {self.layout.block_dim} threads, not {block_dim}",
                remedy=f"write {self.name}[blocks, threads](…), or launch {self.name}[blocks, threads].kernel",
            )
        return block_dim

    @property
    def py_func(self) -> Callable[..., Any]:
        """The Python function."""
        return self.func

    def __getitem__(self, config: Any) -> Launcher:
        """Return a launcher of the kernel: ``kernel[blocks, threads]``; a stream and bytes may follow."""
        try:
            # Configurations recur with every launch of a loop, and are looked up before anything is checked.
            return self._configured[config]
        except (KeyError, TypeError):
            pass
        try:
            given = config if isinstance(config, tuple) else (config,)
            if not 2 <= len(given) <= 4:
                what = "a launch has blocks and threads, then perhaps a stream and bytes of shared memory"
                raise _wrong_launch(self.name, what, config)
            return self._remember(config, self.configure(*given))
        except KernelError as error:
            shorten(error)
            raise

    def _remember(self, config: Any, launcher: Launcher) -> Launcher:
        try:
            self._configured[config] = launcher
        except TypeError:  # a list among the extents
            pass
        return launcher

    def configure(self, blocks: Any, threads: Any, stream: Any = 0, sharedmem: Any = 0) -> Launcher:
        """Return a launcher of the kernel.

        Parameters
        ----------
        blocks, threads : int or tuple of int
            Blocks of the grid and threads of a block, along x, y and z.
        stream : diffkern.cuda.streams.Stream, optional
            The stream to run on; the current stream by default.
        sharedmem : int, optional
            Bytes of dynamic shared memory.
        """
        grid, block = _extents(self.name, "blocks", blocks), _extents(self.name, "threads", threads)
        count = block[0] * block[1] * block[2]
        # Blocks and threads are checked here, as both are lost once they are one dimension of an ordinary launch.
        if not 1 <= count <= MAX_BLOCK_DIM:
            raise _wrong_launch(self.name, f"a block has 1 to {MAX_BLOCK_DIM} threads", count)
        shared = whole_number(sharedmem)
        if shared is None or shared < 0:
            raise _wrong_launch(self.name, "the size of shared memory is a number of bytes", sharedmem)
        return Launcher(self, grid, block, native(stream), shared)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Launcher:
        """Return a launcher of the kernel with at least `ntasks` threads along x, `tpb` of them in a block."""
        if whole_number(ntasks) is None or whole_number(tpb) is None:
            what = "forall takes how many threads to launch, and how many of them a block has"
            raise _wrong_launch(self.name, what, ntasks if whole_number(ntasks) is None else tpb)
        threads = tpb or 256
        # The number of blocks is rounded up.
        return self.configure(-(-ntasks // threads), threads, stream, sharedmem)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters."""
        known = super().parameters
        given: Sequence[Any] = [p.annotation for p in known] if self._annotations is None else self._annotations
        if len(given) != len(known):
            raise MisuseError(
                f"the signature of {self.name} has {len(given)} parameters, the function {len(known)}",
                remedy="write a type for each parameter, or leave the signature out",
            )
        return tuple(
            Parameter(self.name, p.index, p.name, annotation, p.default, wide=True)
            for p, annotation in zip(known, given, strict=True)
        )

    def laid_out(self, blocks: _Triple, threads: _Triple, shared: int = 0) -> tuple[CudaKernel, tuple[int, ...]]:
        """Return the kernel for launches of a layout, and the dimensions of this launch."""
        from diffkern.frontend.syntax.canonical import built_ins

        # Captured functions may have changed, and with them the built-ins that are used.
        if self._meaning is None:
            self._notice_changes()
        used = built_ins(self.func)
        # Kernels whose threads do not work together need no exact blocks, and share a program for all of them.
        layout, dims = lay_out(
            blocks, threads, not TOGETHER.isdisjoint(used), shared if "cuda.shared.array" in used else 0
        )
        if layout == self.layout:
            return self, dims
        found = self._laid_out.get(layout)
        if found is None:
            # The layout is part of the program, so that each layout has a kernel with programs of its own.
            options = replace(self.options, block_dim=layout.block_dim)
            found = self._laid_out[layout] = CudaKernel(self.func, options, self._annotations, layout)
        return found, dims


class Configuration(NamedTuple):
    """A launch of a kernel in numba's spelling, as one of an ordinary kernel.

    Attributes
    ----------
    kernel
        The kernel, for launches of this layout.
    dim
        The dimensions of the launch.
    """

    kernel: CudaKernel
    dim: tuple[int, ...]


class Launcher:
    """The value of ``kernel[blocks, threads]``: called with the arguments, it launches the kernel.

    Attributes
    ----------
    blocks, threads : tuple of int
        Blocks of the grid and threads of a block along x, y and z.
    """

    def __init__(self, kernel: CudaKernel, blocks: _Triple, threads: _Triple, stream: Any, shared: int) -> None:
        self._kernel, self._stream, self._shared = kernel, stream, shared
        self.blocks, self.threads = blocks, threads
        self._found: tuple[KernelVersion, Configuration] | None = None  # for what the kernel meant at that time

    def __repr__(self) -> str:
        return f"<{self._kernel.name}[{self.blocks}, {self.threads}]>"

    def configuration(self) -> Configuration:
        """Return kernel and dimensions by which ``dk.launch``, records, JAX and PyTorch make the same launch."""
        meant = self._kernel.current()
        # The layout depends on what the kernel uses, which may change with its captured functions.
        if self._found is None or self._found[0] is not meant:
            made = Configuration(*self._kernel.laid_out(self.blocks, self.threads, self._shared))
            self._found = meant, made
        return self._found[1]

    @property
    def kernel(self) -> CudaKernel:
        """The kernel that ``dk.launch`` and others take for such launches, with :attr:`dim`."""
        return self.configuration().kernel

    @property
    def dim(self) -> tuple[int, ...]:
        """The dimensions of the launch, for ``dk.launch`` and others."""
        return self.configuration().dim

    def __call__(self, *args: Any) -> None:
        """Launch the kernel. NumPy's arrays are changed in place."""
        try:
            kernel, dim = self.configuration()
            with _on_device(args, self._stream) as arguments:
                # The usual launch takes the path with the least overhead, which knows no stream.
                if self._stream is None:
                    run(kernel, dim, arguments)
                else:
                    dispatch(PackedLaunch(kernel, dim, arguments), True, self._stream)
        except KernelError as error:
            shorten(error)
            raise
        except PASSED:
            raise
        except Exception as error:
            try:
                fail_launch(self._kernel, error)
            except KernelError as made:
                shorten(made)
                raise


def _extents(kernel: str, what: str, given: Any) -> _Triple:
    """Return one to three extents as three."""
    items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    extents = [whole_number(n) for n in items]
    if not 1 <= len(items) <= 3 or any(n is None or n < 0 for n in extents):
        raise _wrong_launch(kernel, f"{what} are one to three numbers along x, y and z", given)
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z  # type: ignore[return-value]


def _wrong_launch(kernel: str, what: str, given: Any) -> LaunchError:
    """Return the error of a launch whose blocks and threads are invalid."""
    return LaunchError(
        f"kernel {kernel!r}: {what}, not {given!r}",
        remedy=f"write {kernel}[blocks, threads](…), with the number of blocks first",
    )


_ACCEPTED = frozenset({"inline", "forceinline", "cache", "opt", "lto", "extensions", "link", "shared_memory_carveout"})
"""Options of numba that change nothing here."""

_REFUSED = {
    "link": "diffkern compiles the kernel alone: write what is linked as a Python function with device=True",
    "extensions": "give the arrays to dk.array, or convert them before the launch",
}


@brief
def jit(
    func_or_sig: Any = None,
    device: bool = False,
    *,
    debug: bool | None = None,
    lineinfo: bool | None = None,
    fastmath: bool | None = None,
    max_registers: int | None = None,
    launch_bounds: int | tuple[int, ...] | None = None,
    **others: Any,
) -> Any:
    """Make a kernel, or a device function, of a function: ``@cuda.jit``, with or without signature and options.

    Parameters
    ----------
    func_or_sig : callable, str, tuple or list, optional
        The function; or a signature such as ``"void(float32[:], int32)"``, whose types the arguments then must have.
    device : bool, optional
        Whether it is a function for kernels to call; the signature of such a function has no effect.
    debug : bool, optional
        Whether indices, integer divisions and stores are checked while the kernel runs (``mode="debug"``).
    lineinfo : bool, optional
        Whether a GPU's machine code tells the source line of each instruction.
    fastmath : bool, optional
        Whether arithmetic may be reassociated and elementary functions be less exact.
    max_registers : int, optional
        Largest number of registers of a thread.
    launch_bounds : int or tuple of int, optional
        Largest number of threads of a block, or this and the smallest number of blocks of a multiprocessor.
    **others
        ``inline``, ``forceinline``, ``cache``, ``opt`` and ``lto`` are accepted and change nothing.

    Returns
    -------
    CudaKernel or Func
        A function for kernels with ``device=True``, else a kernel.
    """
    for name, value in others.items():
        if name not in _ACCEPTED:
            raise MisuseError(
                f"cuda.jit has no option {name!r}",
                remedy="it has device, debug, lineinfo, fastmath, max_registers and launch_bounds",
            )
        if value and name in _REFUSED:
            raise MisuseError(f"cuda.jit does not take {name}", remedy=_REFUSED[name])
    # A decorator that was given something else would fail only where the kernel is launched.
    if func_or_sig is not None and not callable(func_or_sig) and not is_signature(func_or_sig):
        raise MisuseError(
            f"cuda.jit takes a function or a signature, not {func_or_sig!r}",
            remedy="write @cuda.jit above a function, or @cuda.jit('void(float32[:])')",
        )
    annotations = parse_signature(func_or_sig) if is_signature(func_or_sig) else None
    bounds = tuple(launch_bounds) if isinstance(launch_bounds, (tuple, list)) else launch_bounds
    options = KernelOptions(
        mode="debug" if debug else None, lineinfo=lineinfo, fast_math=fastmath or None, launch_bounds=bounds,  # type: ignore[arg-type]
        max_registers=max_registers,
    )  # fmt: skip

    def make(func: Callable[..., Any]) -> CudaKernel | Func:
        with Entrance("@cuda.jit", func):
            return Func(func) if device else CudaKernel(func, options, annotations)

    return make(func_or_sig) if callable(func_or_sig) and not is_signature(func_or_sig) else make


# -- arrays of the host ------------------------------------------------------------------------------------------------
# Arrays of the host in launches: copied to the device and, where the kernel wrote to them, back, as in numba.
#
# On the CPU the arguments are passed unchanged: a kernel works on the memory of NumPy's arrays.


@contextmanager
def _on_device(args: Sequence[Any], stream: Any) -> Iterator[Sequence[Any]]:
    """Return a context manager that yields arguments on the device, and copies back what was written at its end.

    Parameters
    ----------
    args : sequence
        The arguments as they are passed.
    stream : Stream or None
        The stream of the launch; None for the default one.
    """
    # Vectors and matrices are NumPy arrays too, but are passed by value.
    hosts = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and not isinstance(a, CompositeValue)]
    if not hosts or place() == "cpu":
        yield args
        return
    moved = list(args)
    for k in hosts:
        moved[k] = to_device(args[k], stream or 0)
    # Versions tell which arrays the launch has written: only those are copied back.
    before = {k: moved[k]._memory.now for k in hosts}
    yield moved
    for k in hosts:
        if moved[k]._memory.now != before[k]:
            # Numba copies all arrays back; those that are unchanged need no copy.
            moved[k].copy_to_host(args[k], stream or 0)
