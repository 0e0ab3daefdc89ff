"""What of PyTorch looks on while a call is made, besides autograd: tangents of forward mode, and ``torch.jit.trace``.

In: the tensors of a call. Out: an error where what looks on would miss the call without noticing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd import forward_ad

__all__ = ["check_tangents", "forward_mode", "is_traced"]


def is_traced() -> bool:
    """Whether ``torch.jit.trace`` takes down what PyTorch does."""
    return torch._C._get_tracing_state() is not None


def check_tangents(what: str, args: Iterable[Any]) -> None:
    """Raise if a tensor has a tangent, which would be dropped.

    Raises
    ------
    RuntimeError
        If there is one.
    """
    if forward_ad._current_level < 0:
        return
    for a in args:
        if isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None:
            raise forward_mode(what)


def forward_mode(what: str) -> RuntimeError:
    """Return the error of derivatives in forward mode."""
    return RuntimeError(
        f"{what}: forward-mode derivatives (torch.func.jvp, jacfwd, torch.autograd.forward_ad) are not offered; use "
        "reverse mode (torch.func.grad, vjp, jacrev), or pass the primal alone"
    )
