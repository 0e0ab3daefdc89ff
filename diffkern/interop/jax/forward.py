"""A recording as one custom call: a kernel or a function, run forward, without Python.

:func:`forward` takes a recording and JAX values for its arguments and returns its results. Operands of the call are the
arguments, then constants; its results those of the recording, then the arrays that it makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern.errors import LaunchError
from diffkern.interop.jax import programs
from diffkern.interop.jax.arguments import CallArgument
from diffkern.interop.jax.builder import BufferPart, CallBuilder, ConstantBytes, Operand
from diffkern.interop.jax.programs import Programs
from diffkern.interop.jax.recording import Filled, Launched, RecordedCopy, Recording
from diffkern.ir.types import BFLOAT16, scalar_of

__all__ = ["as_jax", "forward"]


def forward(recording: Recording, values: Sequence[Any], vmap_method: str) -> tuple[Any, ...]:
    """Return the results of a recording, for the values of its arguments."""
    return _ForwardCall(recording, values).run(vmap_method)


class _ForwardCall:
    def __init__(self, recording: Recording, values: Sequence[Any]) -> None:
        self.recording = recording
        self.call = CallBuilder(recording.name)
        self.launches = [step for step in recording.steps if isinstance(step, Launched)]
        self.programs = [
            programs.forward(step.kernel, step.generation, step.keys, step.merged) for step in self.launches
        ]
        # Where each buffer is, and what fills take their values from; all operands come before the first result.
        self.place = {a.index: self.call.operand(x, a.type) for a, x in zip(recording.passed, values, strict=True)}
        made = recording.buffers[recording.parameters :]
        sources = {a.index: self.call.operand(as_jax(a, a.value), a.type) for a in made if a.value is not None}
        # A kernel with tangents has parameters without a tangent: they are null, or zero.
        for a in recording.buffers[: recording.parameters]:
            if not a.is_passed and not a.is_result:
                self.place[a.index] = self.call.operand(jnp.zeros(a.shape, a.dtype), a.type)
        self.filled = {k: self.constant(step) for k, step in enumerate(recording.steps) if isinstance(step, Filled)}
        for a in recording.results:
            self.result(a, self.place.get(a.index), is_shared=True)
        # An array that the function makes and never writes stays an operand; one that is written has to be a result.
        written = {p.buffer for step in recording.steps for p in _written(step)}
        for a in made:
            if a.index in sources and a.index not in written:
                self.place[a.index] = sources[a.index]
            else:
                self.result(a, sources.get(a.index), is_shared=False)

    def constant(self, step: Filled) -> int | None:
        """Return an operand with the values of a fill; None for zeros."""
        if not np.any(step.values):
            return None
        goal = self.recording.buffers[step.goal.buffer]
        return self.call.operand(as_jax(goal, np.broadcast_to(step.values, goal.shape)), goal.type)

    def result(self, a: CallArgument, source: int | None, is_shared: bool) -> None:
        """Make room for a buffer that is written, and let it begin with a source or zeros."""
        goal = self.place[a.index] = self.call.result(a.type, a.shape, a.dtype)
        if source is None:
            self.call.clear(goal, *self.overwritten(a.index))
        elif is_shared:
            # Only results of the whole call share the operand's memory: JAX's array is then donated, or copied by XLA.
            self.call.take_over(source, goal)
        else:
            self.call.copy(source, goal)

    def overwritten(self, buffer: int) -> tuple[int, int]:
        """Return how many axes of a launch overwrite a whole buffer, if it is the first to touch the buffer, and which
        launch.
        """
        for step in self.recording.steps:
            touched = [
                (k, p) for k, p in enumerate(_operands(step)) if isinstance(p, BufferPart) and p.buffer == buffer
            ]
            if touched:
                (k, place), *more = touched
                # A launch that has the buffer twice may read it before it is written.
                if more or not isinstance(step, Launched) or not place.is_whole:
                    break
                launch = self.launches.index(step)
                return self.programs[launch].plain.manifest.params[k].fully_overwritten or 0, launch
        return 0, 0

    def run(self, vmap_method: str) -> tuple[Any, ...]:
        pairs = iter(self.programs)
        for k, step in enumerate(self.recording.steps):
            if isinstance(step, Launched):
                self.launch(step, next(pairs))
                continue
            if not all(p.is_whole for p in _operands(step) if isinstance(p, BufferPart)):
                name = self.recording.name
                raise LaunchError(
                    f"{name!r} copies or fills a part of an array", remedy="do that in a kernel, or in JAX"
                )
            source = self.place[step.source.buffer] if isinstance(step, RecordedCopy) else self.filled[k]
            goal = self.place[step.goal.buffer]
            if source is None:
                self.call.clear(goal)
            else:
                self.call.copy(source, goal)
        # Arrays that the function made were results for XLA, and are not the caller's.
        return self.call.run(vmap_method)[: len(self.recording.results)]

    def launch(self, step: Launched, made: Programs) -> None:
        operands = [
            o if isinstance(o, ConstantBytes) else replace(o, buffer=self.place[o.buffer]) for o in step.operands
        ]
        self.call.launch(made, step.dims, lambda entry: operands[entry.of])


def _operands(step: Launched | RecordedCopy | Filled) -> Sequence[Operand]:
    if isinstance(step, Launched):
        return step.operands
    return (step.goal, step.source) if isinstance(step, RecordedCopy) else (step.goal,)


def _written(step: Launched | RecordedCopy | Filled) -> list[BufferPart]:
    chosen = step.writes if isinstance(step, Launched) else (0,)
    return [p for k in chosen if isinstance(p := _operands(step)[k], BufferPart)]


def as_jax(a: CallArgument, values: Any) -> Any:
    """Return diffkern's stored values of an array as a JAX array."""
    x = jnp.asarray(values)
    # Stored as uint16, which NumPy has instead of bfloat16.
    is_raw = scalar_of(a.type) == BFLOAT16
    return jax.lax.bitcast_convert_type(x, jnp.bfloat16) if is_raw else x.astype(a.dtype)
