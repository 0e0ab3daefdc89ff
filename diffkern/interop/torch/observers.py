"""The observers of a call in PyTorch besides autograd: tangents, ``torch.func``, and tracers.

The functions take the tensors of a call and tell who observes it; they raise an error if the observer would miss the
call without noticing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import torch
from torch._functorch import eager_transforms
from torch.autograd import forward_ad

from diffkern.errors import LaunchError

__all__ = [
    "IN_GRAPHS",
    "check_tangents",
    "has_tangents",
    "is_dispatched",
    "is_traced",
    "is_transformed_in_graphs",
    "refusal",
    "unseen",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_functorch = torch._C._functorch
_DERIVATIVES = (_functorch.TransformType.Grad, _functorch.TransformType.Jvp)
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_modes = torch._C._len_torch_dispatch_stack

IN_GRAPHS = (
    "a dk.torch_function is differentiated by torch.func inside torch.compile, torch.export or torch.jit.trace, whose "
    "graphs do not know its derivatives; take its gradient by its method value_and_grad, which graphs know, leave out "
    "fullgraph=True, or trace or compile the function without torch.func and transform outside of that"
)
"""The message where a graph would lose a derivative."""


def refusal(what: str, remedy: str) -> RuntimeError:
    """Return the error of a wrong call, in a form that ``torch.compile`` can raise while it traces."""
    if torch.compiler.is_compiling():
        return RuntimeError(f"{what}\nhelp: {remedy}")
    return LaunchError(what, remedy=remedy)


def is_traced() -> bool:
    """Return whether ``torch.jit.trace`` is recording PyTorch's operations."""
    return torch._C._get_tracing_state() is not None


def is_transformed_in_graphs() -> bool:
    """Return whether ``torch.func`` differentiates the call; ``torch.compile`` takes the answer as a constant."""
    return any(level.key() in _DERIVATIVES for level in _functorch.get_interpreter_stack() or ())


# What torch.compiler.assume_constant_result does, without importing the compiler.
is_transformed_in_graphs._dynamo_marked_constant = True  # type: ignore[attr-defined]


def unseen(work: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function into which ``torch.compile`` does not look where it runs eagerly what it cannot trace."""
    disabled: Callable[_P, _R] | None = None

    @functools.wraps(work)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal disabled
        compiler = sys.modules.get("torch._dynamo")
        if compiler is None:  # nothing was compiled, and importing the compiler takes seconds
            return work(*args, **kwargs)
        if disabled is None:
            disabled = compiler.disable(work)
        return disabled(*args, **kwargs)

    return run


def is_dispatched(args: Iterable[Any]) -> bool:
    """Return whether something sees each operation: a mode that traces, or a class of tensors with its own dispatch."""
    if _modes():
        return True
    # A plain loop, as this is asked in each call.
    for a in args:
        kind = type(a)
        if kind is not _Tensor and isinstance(a, _Tensor) and kind is not _Parameter:
            return True
    return False


def has_tangents(args: Iterable[Any]) -> bool:
    """Return whether a tensor has a tangent of forward mode."""
    # The level tells without looking at any tensor whether forward mode is at work at all.
    if forward_ad._current_level < 0 or not torch._C._is_fwd_grad_enabled():
        return False
    return any(isinstance(a, torch.Tensor) and forward_ad.unpack_dual(a).tangent is not None for a in args)


def check_tangents(what: str, args: Iterable[Any]) -> None:
    """Raise if a tensor has a tangent, which would be dropped.

    Raises
    ------
    RuntimeError
        If there is one.
    """
    if has_tangents(args):
        raise _lost(f"{what}: a tensor has a tangent (torch.func.jvp, jacfwd, torch.autograd.forward_ad)")


def check_operator(what: str, args: Iterable[Any]) -> None:
    """Raise if a tensor of an operator's call has a tangent, or may have one that ``torch.func`` does not show here.

    Raises
    ------
    RuntimeError
        If so.
    """
    check_tangents(what, args)
    if eager_transforms.JVP_NESTING and torch._C._is_fwd_grad_enabled():
        raise _lost(f"{what}: a graph with it runs inside of torch.func.jvp or jacfwd, and has no rule for tangents")


def _lost(why: str) -> RuntimeError:
    return RuntimeError(
        f"{why}, which would be lost here; call a dk.torch_function eagerly, which carries it along, or pass the "
        "primal alone"
    )
