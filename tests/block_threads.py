"""Runs a CUDA kernel's readable source, the threads of a block in turns from barrier to barrier, and watches memory.

Every barrier of the source becomes a ``yield``, so that a block's threads are generators, and the order in which they
come is chosen. What is found: a barrier that not all threads reach, two threads that touch one element between two
barriers (unless both read, or both update it atomically), two threads of the launch that do so in global memory, and
contents of shared memory that nobody wrote (they are NaN).
"""

from __future__ import annotations

import builtins
import math
import operator
import random
import re
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from support.simulated import cuda_source, kernel_argument

from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler import pipeline
from diffkern.ir.nodes import Function
from diffkern.kernels.kernel import Kernel
from diffkern.opt.widen import widen
from diffkern.printing.python import function_name
from diffkern.printing.standalone import copied
from diffkern.testing.gradcheck import Vjp

__all__ = ["InTurns", "RaceError", "for_gpu"]


class RaceError(AssertionError):
    """Threads that meet where they must not."""


class _Watched:
    """An array that notes who touches its elements."""

    def __init__(self, data: np.ndarray, machine: InTurns, shared: bool) -> None:
        self.data, self.machine, self.shared = data, machine, shared
        self.shape = data.shape
        self.seen: dict[Any, tuple[Any, dict[Any, str]]] = {}

    def note(self, index: Any, kind: str) -> None:
        m = self.machine
        moment = m.phase if self.shared else None
        key = tuple(int(k) for k in index) if isinstance(index, tuple) else (int(index),)
        found = self.seen.get(key)
        if found is None or found[0] != moment:
            found = self.seen[key] = (moment, {})
        before = found[1]
        for thread, other in before.items():
            if thread != m.thread and (kind, other) not in (("read", "read"), ("atomic", "atomic")):
                raise RaceError(
                    f"thread {thread} does a {other}, thread {m.thread} a {kind} of {key} in phase {m.phase}"
                )
        if before.get(m.thread, "read") == "read" or kind == "write":
            before[m.thread] = kind

    def __getitem__(self, index: Any) -> Any:
        self.note(index, "read")
        return self.data[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.note(index, "write")
        self.data[index] = value


class InTurns:
    """A function as a CUDA kernel, run on this processor.

    Parameters
    ----------
    fn
        The function. The modes of an adjoint's accumulations must be final for a GPU.
    block_dim, blocks
        The grid; threads stride over the launch.
    seed
        Of the order of threads, which changes at every barrier.
    """

    def __init__(self, fn: Function, block_dim: int, blocks: int = 2, seed: int = 0) -> None:
        self.types = tuple(p.type for p in fn.params)
        self.block_dim, self.blocks = block_dim, blocks
        self.random = random.Random(seed)
        text = cuda_source(fn)
        primitives = re.findall(r"\w+", "".join(re.findall(r"device_library import ([^()\n]+|\([^)]*\))", text)))
        text = re.sub(r"from [\w.]+ import (\([^)]*\)|[^\n]*)\n", "", text)
        text = text.replace("cuda.syncthreads()", "yield").replace("= block_sum(", "= yield from block_sum(")
        text = re.sub(r"(@cuda\.jit\ndef [^\n]*:\n)", r"\1    if False:\n        yield\n", text)  # without barriers too
        self.cuda = _module(self)
        names: dict[str, Any] = {m.__name__: m for m in (builtins, math, operator, threading)}
        names.update(np=np, cuda=self.cuda, config=SimpleNamespace(ENABLE_CUDASIM=True))
        for definition in copied("diffkern.targets.cuda.device_library", primitives).definitions:
            exec(definition, names)
        names.update((f"atomic_{kind}", update) for kind, update in vars(self.cuda.atomic).items())
        exec(compile(text, f"<{fn.name} in turns>", "exec"), names)
        self.kernel: Callable[..., Any] = names[function_name(fn)]
        self.arrays: dict[int, _Watched] = {}
        self.phase = 0
        self.thread: tuple[int, int] = (0, 0)

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Run all threads; arrays among `args` are changed in place."""
        dims = (*map(int, dim), 1, 1, 1)[:4]
        given = [kernel_argument(t, a) for t, a in zip(self.types, args, strict=True)]
        given = [_Watched(a, self, False) if isinstance(a, np.ndarray) else a for a in given]
        self.cuda.blockDim.x, self.cuda.gridDim.x = self.block_dim, self.blocks
        with np.errstate(all="ignore"):
            for block in range(self.blocks):
                self.arrays = {}
                self.block(block, [self.kernel(dims, *given) for _ in range(self.block_dim)])

    def block(self, block: int, threads: list[Generator[None, None, None]]) -> None:
        left = list(enumerate(threads))
        while left:
            self.phase += 1
            self.random.shuffle(left)
            places = set()
            for k, thread in left:
                self.cuda.threadIdx.x, self.cuda.blockIdx.x, self.thread = k, block, (block, k)
                places.add(_resume(thread))
            if len(places) != 1:
                raise RaceError(f"threads of a block wait at different places: {sorted(map(str, places))}")
            if places == {None}:
                return


def for_gpu(kernel: Kernel, slots: int | None = None) -> Vjp:
    """A kernel and its adjoint in float64 as they are for a GPU, to be run by one of the engines."""
    fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(), kernel.variant)
    vjp = Vjp(widen(fn), _nothing, variant=replace(kernel.variant, target="sm_90"), slots=slots)
    finalize_updates(vjp.adjoint.fn, vjp.adjoint.buffers, vjp.adjoint.conflicts)
    return vjp


def _nothing(fn: Function) -> Any:
    """No engine: nothing is compiled for it."""


def _resume(thread: Generator[None, None, None]) -> tuple[int, ...] | None:
    """Run a thread to its next barrier; returns where that is, None at the end."""
    try:
        next(thread)
    except StopIteration:
        return None
    inner = thread.gi_yieldfrom
    return (thread.gi_frame.f_lineno, inner.gi_frame.f_lineno if inner is not None else 0)


def _module(machine: InTurns) -> Any:
    """What stands for numba's ``cuda``."""

    def jit(*functions: Any, **_: Any) -> Any:
        return functions[0] if functions else lambda function: function

    def shared(shape: Any, dtype: Any) -> _Watched:
        line = sys._getframe(1).f_lineno
        if line not in machine.arrays:
            machine.arrays[line] = _Watched(undefined(shape, dtype), machine, True)
        return machine.arrays[line]

    def undefined(shape: Any, dtype: Any) -> np.ndarray:
        kind = np.dtype(dtype).kind
        return np.full(shape, np.nan if kind == "f" else False if kind == "b" else -7, dtype)

    def atomic(update: Callable[[Any, Any], Any]) -> Any:
        def call(array: _Watched, index: Any, value: Any) -> Any:
            array.note(index, "atomic")
            old = array.data[index]
            array.data[index] = update(old, value)
            return old

        return call

    cuda = SimpleNamespace(jit=jit, threadIdx=SimpleNamespace(x=0), blockIdx=SimpleNamespace(x=0))
    cuda.blockDim, cuda.gridDim = SimpleNamespace(x=1), SimpleNamespace(x=1)
    cuda.grid = lambda _: cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    cuda.gridsize = lambda _: cuda.gridDim.x * cuda.blockDim.x
    cuda.shared, cuda.local = SimpleNamespace(array=shared), SimpleNamespace(array=undefined)
    cuda.atomic = SimpleNamespace(
        add=atomic(lambda a, b: a + b), sub=atomic(lambda a, b: a - b), max=atomic(max), min=atomic(min)
    )
    return cuda
