"""What a random program means: its kernels as lowered, without any optimisation, run in Python; copies in NumPy."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from diffkern.frontend.statements import lowering
from diffkern.printing import executor
from diffkern.testing.programs import leaf_values

from .host import Copy, Fill, Launch
from .program import RandomProgram

__all__ = ["run_reference"]


def _leaves(array: np.ndarray) -> list[np.ndarray]:
    """What stands for an array in the IR: itself, or one array for each field; nothing is copied."""
    return [array[name] for name in array.dtype.names] if array.dtype.names else [array]


def run_reference(program: RandomProgram, module: ModuleType, state: dict[str, np.ndarray]) -> None:
    """Run a program; the arrays are changed in place."""
    values = program.values(module)
    for step in program.steps:
        if isinstance(step, Launch):
            kernel = getattr(module, step.kernel)
            given = [view.of(state) for view in step.arrays]
            passed = [values[name] for name in step.values]
            fn = lowering.lower(kernel.func, kernel.argument_types(*given, *passed))
            leaves = [leaf for a in given for leaf in _leaves(a)]
            leaves += [leaf for v in passed for leaf in leaf_values(v, None)]
            executor.run(fn, leaves, step.dim)
        elif isinstance(step, Copy):
            step.goal.of(state)[...] = step.source.of(state).copy()
        else:
            assert isinstance(step, Fill)
            step.goal.of(state)[...] = step.value
