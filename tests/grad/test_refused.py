"""What has no gradient that can be proved right is refused, with the line and a remedy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.errors import AutodiffError
from diffkern.frontend.statements import lowering
from diffkern.kernels.kernel import Kernel

from .kernels_refused import REFUSED, stores_and_adds

CASES = [pytest.param(*entry, id=entry[0].__name__) for entry in REFUSED]


@pytest.mark.parametrize(("function", "message", "arguments"), CASES)
def test_refused(function: Callable[..., Any], message: str, arguments: dict[str, Any]) -> None:
    fn = lowering.lower(function, Kernel(function).argument_types(*arguments.values()))
    with pytest.raises(AutodiffError, match=message) as caught:
        pipeline.differentiate(pipeline.prepare(fn), range(len(fn.params)))
    error = caught.value.errors[0]
    lines, first = inspect.getsourcelines(function)
    (marked,) = [first + k for k, line in enumerate(lines) if "# refused" in line]
    assert error.loc is not None
    assert error.loc.line == marked, str(error)
    assert error.remedy


def test_the_forward_launch_is_not_refused() -> None:
    kernel = dk.kernel(stores_and_adds)
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    kernel[4](x, y)
    assert y.sum() > 4.0


def test_a_tape_raises_the_refusal_and_leaves_no_gradient() -> None:
    kernel = dk.kernel(stores_and_adds)
    x = dk.ones(4, dtype=float, requires_grad=True)
    y = dk.zeros(4, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        kernel[4](x, y)
    with pytest.raises(AutodiffError, match=r"thread 0 stores to y\[0\] here, which thread \d updates atomically"):
        tape.backward(grads={y: dk.ones(4, dtype=float)})
    assert not x.grad.numpy().any()
