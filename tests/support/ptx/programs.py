"""Kernels as executed PTX, beside :mod:`diffkern.testing.programs`: no driver, no assembler, no GPU.

``execute(kernel, dim, arguments)`` runs a kernel on NumPy arrays; ``vjp_of(fn)`` gives gradients by an adjoint that is
executed as well. Both take what :class:`PtxProgram` takes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from diffkern.analysis.blocks import is_simt
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.argument_block import gpu_header
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array
from diffkern.kernels.kernel import Kernel
from diffkern.targets import target_named
from diffkern.targets.cuda import toolchain
from diffkern.targets.target import Settings
from diffkern.testing.adjoints import Vjp
from diffkern.testing.programs import _pack, as_argument

from .grid import Launch, launch
from .image import Image, load_image
from .memory import Allocations
from .types import LANES

__all__ = ["PtxProgram", "allocations_of", "execute", "ptx_of", "vjp_of"]

_seeds = itertools.count()


class _AssembledError(Exception):
    """Carries the PTX that the assembler would have been given."""


def ptx_of(fn: Function, compiler: str = "llvm", arch: str = "sm_90", **settings: Any) -> tuple[str, int]:
    """Compile a function to PTX, which is not assembled.

    Returns
    -------
    str
        The PTX; the kernel's name is ``kernel``.
    int
        Bytes of shared memory for which a launch has to ask.
    """
    target, given = target_named(arch, compiler), Settings(**{"may_alias": False, **settings})

    emit, emitted = target.emit, []

    def noted(*args: Any) -> Any:
        emitted.append(emit(*args))
        return emitted[-1]

    def assemble(text: str, *args: Any, **kwargs: Any) -> bytes:
        raise _AssembledError(text)

    with patch.object(target, "emit", noted), patch.object(toolchain, "assemble", assemble):
        try:
            target.compile(fn, "kernel", given)
        except _AssembledError as made:
            (text,) = made.args
    return text, emitted[-1].dynamic_shared_bytes


@functools.lru_cache(maxsize=256)
def _image(text: str) -> Image:
    return load_image(text)


class PtxProgram:
    """A function of the IR, compiled for a GPU and interpreted.

    ``steps`` counts the instructions that its warps have executed, ``warps`` the warps.

    Parameters
    ----------
    fn
        The function; it is not changed. The modes of an adjoint's accumulations must be final for a GPU.
    compiler
        ``"llvm"`` or ``"numba"``.
    arch
        The architecture it is compiled for.
    block_dim
        Threads of a block.
    blocks
        The grid; by default as many blocks as the launch needs.
    seed
        What decides on the order of warps; by default each run has another one.
    races
        Whether a race is a fault.
    settings
        Of the program, as of :class:`diffkern.targets.target.Settings`. Arrays are taken not to overlap.
    """

    def __init__(
        self,
        fn: Function,
        compiler: str = "llvm",
        arch: str = "sm_90",
        block_dim: int = 64,
        blocks: int | None = None,
        seed: int | None = None,
        races: bool = True,
        **settings: Any,
    ) -> None:
        self.types = tuple(p.type for p in fn.params)
        self.names, self.races = tuple(p.name for p in fn.params), races
        self.block_dim, self.blocks, self.seed = block_dim, blocks, seed
        self._together, self._tiled, self._axes = is_simt(fn), fn.tiled, fn.tid_arity
        self.text, self._shared_bytes = ptx_of(fn, compiler, arch, **settings)
        self.steps = self.warps = 0

    def run(
        self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None, memory: Sequence[Any] = ()
    ) -> None:
        """Run all threads; arrays among `args` are changed in place, and those of `memory` may be touched as well."""
        count = math.prod(dim)
        if count == 0:
            return
        dims = (*map(int, dim), 1, 1, 1)[:4]
        needed = count if self._tiled else -(-count // self.block_dim)
        at_once = (self.blocks or needed) * (1 if self._tiled else self.block_dim)
        header = gpu_header(dims, self._axes, at_once)
        block = header + b"".join(_pack(t, a) for t, a in zip(self.types, args, strict=True))
        seed = next(_seeds) if self.seed is None else self.seed
        names = tuple(
            (*np.lib.array_utils.byte_bounds(a), name)
            for name, a in zip(self.names, args, strict=True)
            if isinstance(a, np.ndarray)
        )
        asked = Launch(
            self.blocks or needed, self.block_dim, block, self._shared_bytes, seed, races=self.races, names=names
        )
        arrays = [a for a in (*args, *memory) if isinstance(a, np.ndarray)]
        self.steps += launch(_image(self.text), "kernel", asked, allocations_of(arrays))
        self.warps += asked.blocks * -(-asked.threads // LANES)


def execute(
    kernel: Kernel, dim: int | Sequence[int], arguments: Sequence[Any], arch: str = "sm_90", **given: Any
) -> None:
    """Run a kernel; arrays among the arguments, which have the types of its parameters, are changed in place."""
    types = kernel.argument_types(*arguments)
    fn = Compilation(kernel.func, types, dataclasses.replace(kernel.variant, target=arch)).fn
    values = [a if isinstance(t, Array) else as_argument(t, a) for t, a in zip(types, arguments, strict=True)]
    PtxProgram(fn, arch=arch, **given).run((dim,) if isinstance(dim, int) else dim, values)


def vjp_of(fn: Function, slots: int | None = None, arch: str = "sm_90", **given: Any) -> Vjp:
    """Return a function as lowered and its adjoint, both executed as PTX."""
    made = Vjp(fn, lambda _: None, variant=Variant(target=arch), slots=slots)  # type: ignore[arg-type,return-value]
    finalize_updates(made.adjoint.fn, made.adjoint.buffers, made.adjoint.conflicts)
    engine = functools.partial(PtxProgram, arch=arch, **given)
    return made.running(engine, engine)


def allocations_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Allocations:
    """Let the memory of arrays, and no more, be what a program may touch."""
    places = sorted(np.lib.array_utils.byte_bounds(a) for a in arrays if a.nbytes)
    joined: list[tuple[int, int]] = []
    for low, high in places:
        if joined and low < joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))

    def find(address: int) -> tuple[int, int] | None:
        return next(((low, high - low) for low, high in joined if low <= address < high), None)

    return Allocations(find)
