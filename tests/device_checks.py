"""A kernel of the corpus on a device: its results and gradients against those of the CPU.

In: a case and the name of a device. Out: nothing, or an AssertionError that names what differs. The CPU's results are
checked against differences elsewhere. Both ``tests/gpu`` (on a GPU) and the tests of the fake driver use this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from grad.build import lower, values
from grad.cases import Case

import diffkern as dk
from diffkern.ir.types import Array, Type, is_differentiable
from diffkern.runtime.arrays.array import wrap
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.schedule import Blocks
from diffkern.testing.gradcheck import Vjp


def check_case(case: Case, device: str) -> None:
    """Run a kernel and its adjoint on a device, and compare."""
    fn = lower(case)
    types = [p.type for p in fn.params]
    point = Vjp(fn).arguments(values(case))
    here, there = (_run(case, types, point, place) for place in ("cpu", device))
    for name in here:
        size = np.max(np.abs(here[name]), initial=0.0, where=np.isfinite(here[name]))
        np.testing.assert_allclose(
            there[name], here[name], rtol=case.rtol32, atol=1e-5 * float(size) + 1e-7, err_msg=f"{case.name}: {name}"
        )


def _run(case: Case, types: list[Type], point: list[Any], device: str) -> dict[str, np.ndarray]:
    """Return the contents of all arrays after a launch, and the gradients of all that have one."""
    kernel = dk.kernel(case.function)
    rng = np.random.default_rng(5)
    arguments: list[Any] = []
    for t, value in zip(types, point, strict=True):
        if not isinstance(t, Array):
            arguments.append(value)
            continue
        made = dk.array(wrap(value.copy(), t.dtype), device=device)
        made.requires_grad = is_differentiable(t)
        arguments.append(made)
    with dk.Tape() as tape:
        run(kernel, case.dim, arguments, blocks=Blocks(case.block_dim))  # threads, or blocks of tiles
    found = {}
    for parameter, a in zip(kernel.parameters, arguments, strict=True):
        if isinstance(a, dk.array):
            found[parameter.name] = np.array(a.numpy(), dtype=np.float64)
            if a.requires_grad:
                a.grad.assign(rng.normal(size=a.grad.numpy().shape).astype(a.grad.numpy().dtype))
    tape.backward()
    for parameter, a in zip(kernel.parameters, arguments, strict=True):
        if isinstance(a, dk.array) and a.requires_grad:
            found[f"gradient of {parameter.name}"] = np.array(a.grad.numpy(), dtype=np.float64)
    return found
