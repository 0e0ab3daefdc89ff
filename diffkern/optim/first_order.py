"""First-order optimizers: Adam, AdamW, stochastic gradient descent, and clipping of gradients.

They take arrays of parameters and, at each step, their gradients, and change the parameters in place. The steps are
kernels that run on the device of the arrays, on vectors component by component. The state of an optimizer has at least
32 bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.ir.structs import Struct, holds_arrays
from diffkern.ir.types import FLOAT32, Scalar, scalar_of, with_scalar
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.optim.lbfgs import components
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.records.launch import launch
from diffkern.utils.sums import array_inner

__all__ = ["SGD", "Adam", "AdamW", "clip_grad_norm", "clip_grad_value"]

tid: Any = INTRINSICS["tid"]
sqrt: Any = INTRINSICS["sqrt"]
clamp: Any = INTRINSICS["clamp"]
_O = TypeVar("_O")
_kernel = functools.partial(Kernel, enable_backward=False)


@_kernel
def _adam_step(p, g, m, v, lr, b1, b2, c1, c2, eps, decay):  # type: ignore[no-untyped-def]
    i = tid()
    real = m.dtype
    gradient = real(g[i])
    m[i] = real(b1) * m[i] + (real(1.0) - real(b1)) * gradient
    v[i] = real(b2) * v[i] + (real(1.0) - real(b2)) * gradient * gradient
    moved = real(p[i]) * (real(1.0) - real(lr) * real(decay))
    p[i] = moved - real(lr) * (m[i] / real(c1)) / (sqrt(v[i] / real(c2)) + real(eps))


@_kernel
def _sgd_step(p, g, b, lr, momentum, dampening, decay, nesterov, first):  # type: ignore[no-untyped-def]
    i = tid()
    real = b.dtype
    gradient = real(g[i]) + real(decay) * real(p[i])
    if momentum != 0.0:
        if first != 0:
            b[i] = gradient
        else:
            b[i] = real(momentum) * b[i] + (real(1.0) - real(dampening)) * gradient
        if nesterov != 0:
            gradient = gradient + real(momentum) * b[i]
        else:
            gradient = b[i]
    p[i] = real(p[i]) - real(lr) * gradient


@_kernel
def _scale(g, factor):  # type: ignore[no-untyped-def]
    i = tid()
    g[i] = g[i] * g.dtype(factor)


@_kernel
def _limit(g, bound):  # type: ignore[no-untyped-def]
    i = tid()
    g[i] = clamp(g[i], -g.dtype(bound), g.dtype(bound))


def _asks_for_gradients(step: Callable[[_O, Sequence[array]], None]) -> Callable[[_O, Sequence[array]], None]:
    """Decorate a step: called without gradients, as optimizers elsewhere are, it says what to pass."""

    @functools.wraps(step)
    def asking(self: _O, grads: Sequence[array] | None = None) -> None:
        if grads is None:
            raise MisuseError("a step needs the gradients", remedy="pass a list: `optimizer.step([x.grad])`")
        step(self, grads)

    return asking


class _Optimizer:
    """The base class of optimizers: parameters, and arrays of state for each."""

    def __init__(self, params: Sequence[array] | None) -> None:
        self.params: list[array] | None = None
        self.t = 0
        if params is not None:
            self.set_params(params)

    def set_params(self, params: Sequence[array]) -> None:
        """Set the arrays that the steps change; what is remembered of arrays of the same kind stays.

        Parameters
        ----------
        params : sequence of array
            Contiguous arrays of floating-point numbers, vectors or matrices, or of structs, of which the
            floating-point fields are changed.

        Raises
        ------
        TypeError
            If one is no contiguous array of such elements.
        """
        if isinstance(params, array):
            raise TypeError(f"an optimizer takes a list of arrays, not {described(params)}: write [x] for one")
        for p in params:
            if not isinstance(p, array) or not p._smooth or not p.is_contiguous:
                raise TypeError(
                    f"an optimizer changes contiguous arrays of floating-point elements, not {described(p)}"
                )
            if isinstance(p._element, Struct) and holds_arrays(p._element):
                raise TypeError(
                    f"an optimizer does not change {described(p)}: its elements point to arrays, which are parameters "
                    "of their own"
                )
        self.params = list(params)
        parts = [part for p in self.params for part in _parts(p)]
        # The state at a position is kept if the new array there is of the same kind, as for a copy of the model.
        for kept in self._kept():
            kept[:] = [_remembering(p, kept[k] if k < len(kept) else None) for k, p in enumerate(parts)]

    def reset_internal_state(self) -> None:
        """Forget all earlier steps."""
        self.t = 0
        for kept in self._kept():
            for a in kept:
                a.zero_()

    @brief
    @_asks_for_gradients
    def step(self, grads: Sequence[array]) -> None:
        """Change the parameters.

        Parameters
        ----------
        grads : sequence of array
            The gradient of each parameter, as ``[x.grad]``.

        Raises
        ------
        RuntimeError
            If no parameters are set.
        MisuseError
            If `grads` is no list of arrays, or has more or fewer than there are parameters.
        TypeError, ValueError
            If a gradient has another type or shape than its parameter.
        """
        # All gradients are checked before the first parameter moves, so an error leaves the state consistent.
        if self.params is None:
            raise RuntimeError(f"{type(self).__name__} has no parameters: call set_params() before step()")
        grads = _checked_gradients(grads)
        if len(grads) != len(self.params):
            raise MisuseError(
                f"there are {len(self.params)} parameters and {len(grads)} gradients",
                remedy="pass one for each: `optimizer.step([x.grad for x in optimizer.params])`",
            )
        for p, g in zip(self.params, grads, strict=True):
            if g._element != p._element:
                raise TypeError(f"the gradient of {described(p)} has elements of type {g._element}, not {p._element}")
            if g.shape != p.shape:
                raise ValueError(f"the gradient of {described(p)} has shape {g.shape}, not {p.shape}")
        pairs = [
            pair
            for p, g in zip(self.params, grads, strict=True)
            for pair in zip(_parts(p), _parts(g.contiguous()), strict=True)
        ]
        for k, (p, g) in enumerate(pairs):
            if p.size:
                self._move(k, _flat(p), _flat(g))
        self.t += 1

    def _kept(self) -> list[list[array]]:
        raise NotImplementedError

    def _move(self, k: int, p: array, g: array) -> None:
        raise NotImplementedError


class Adam(_Optimizer):
    """Adam (Kingma and Ba, 2015).

    Parameters
    ----------
    params : sequence of array, optional
        The parameters, which the steps change.
    lr : float, optional
        The step size.
    betas : pair of float, optional
        The decay rates of the running means of gradients and of their squares.
    eps : float, optional
        Is added to the root of the mean of squares.
    """

    decay = 0.0

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.lr, self.beta1, self.beta2, self.eps = lr, betas[0], betas[1], eps
        self.m: list[array] = []
        self.v: list[array] = []
        super().__init__(params)

    def _kept(self) -> list[list[array]]:
        return [self.m, self.v]

    def _move(self, k: int, p: array, g: array) -> None:
        # Bias correction: the means begin at zero. In float64 on the host, as powers of beta lose digits in float32.
        c1, c2 = (1.0 - beta ** (self.t + 1) for beta in (self.beta1, self.beta2))
        # Passed as float64 and rounded once in the kernel, to the type of the state.
        numbers = [np.float64(x) for x in (self.lr, self.beta1, self.beta2, c1, c2, self.eps, self.decay)]
        kept = [components(self.m[k]), components(self.v[k])]
        launch(_adam_step, dim=p.size, inputs=[p, g, *kept, *numbers], record_tape=False)


class AdamW(Adam):
    """Adam with a decay of the parameters that is not part of the gradient (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    params, lr, betas, eps
        As of :class:`Adam`.
    weight_decay : float, optional
        At each step the parameters lose this part of themselves, times the step size.
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps)
        self.decay = weight_decay


class SGD(_Optimizer):
    """Gradient descent, with momentum if it is asked for.

    Parameters
    ----------
    params : sequence of array, optional
        The parameters, which the steps change.
    lr : float, optional
        The step size.
    momentum : float, optional
        The fraction of the last direction that is kept.
    dampening : float, optional
        The fraction of a gradient, after the first, that does not go into the direction.
    weight_decay : float, optional
        Times the parameters it is added to the gradient.
    nesterov : bool, optional
        Whether a step looks ahead along the direction.
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov = weight_decay, nesterov
        self.b: list[array] = []
        super().__init__(params)

    def _kept(self) -> list[list[array]]:
        return [self.b]

    def _move(self, k: int, p: array, g: array) -> None:
        numbers = [np.float64(x) for x in (self.lr, self.momentum, self.dampening, self.weight_decay)]
        # At the first step the momentum is the gradient itself, without dampening.
        flags = [int(self.nesterov), int(self.t == 0)]
        launch(_sgd_step, dim=p.size, inputs=[p, g, components(self.b[k]), *numbers, *flags], record_tape=False)


def clip_grad_norm(grads: Sequence[array], max_norm: float) -> float:
    """Scale gradients, in place, so that all together are no longer than a limit.

    Parameters
    ----------
    grads : sequence of array
        Contiguous arrays of floating-point elements, or of structs with such fields.
    max_norm : float
        The limit.

    Returns
    -------
    float
        Their length before: the root of the sum of the squares of all components.
    """
    flat = [_flat(part) for g in grads if g.size for part in _parts(g)]
    # One norm over all arrays, so that the direction of the whole gradient stays.
    norm = math.sqrt(sum(float(array_inner(g, g)) for g in flat))
    if norm > max_norm:
        for g in flat:
            launch(_scale, dim=g.size, inputs=[g, np.float64(max_norm / norm)], record_tape=False)
    return norm


def clip_grad_value(grads: Sequence[array], limit: float) -> None:
    """Limit each component of gradients, in place.

    Parameters
    ----------
    grads : sequence of array
        Contiguous arrays of floating-point elements, or of structs with such fields.
    limit : float
        The greatest absolute value.
    """
    for part in [_flat(part) for g in grads if g.size for part in _parts(g)]:
        launch(_limit, dim=part.size, inputs=[part, np.float64(limit)], record_tape=False)


def _checked_gradients(grads: object) -> list[array]:
    """Return what a step was given for gradients, where it is arrays one after the other."""
    if isinstance(grads, (array, np.ndarray)) or not isinstance(grads, Iterable):
        raise MisuseError(
            f"a step takes a list of gradients, not a single {type(grads).__name__}",
            remedy="pass a list: `optimizer.step([x.grad])`",
        )
    given = list(grads)
    for g in given:
        if g is None:
            raise MisuseError(
                "a gradient is None: its parameter has none",
                remedy="make the parameter with `requires_grad=True`, and launch under a tape",
            )
        if not isinstance(g, array):
            raise MisuseError(
                f"a gradient is an array of diffkern, not a value of type {type(g).__name__}",
                remedy="pass `x.grad`, or `dk.array(g, dtype=x.dtype)` for numbers of your own",
            )
    return given


# -- parts -------------------------------------------------------------------------------------------------------------


def _parts(p: array) -> list[array]:
    """The arrays whose elements are one number, vector or matrix: the array itself, or the numbers of its fields."""
    if not isinstance(p._element, Struct):
        return [p]
    # Fields lie between others, so that each component is a view with strides along one axis.
    parts: list[array] = []
    for leaf in p.reshape(p.size)._leaves() if p.size else ():
        if not leaf._smooth:
            continue
        inner = leaf._data.shape[1:]
        numbers = leaf.view(_number_of(leaf)) if inner else leaf
        parts += [numbers[(slice(None), *place)] for place in np.ndindex(*inner)]
    return parts


def _number_of(leaf: array) -> Any:
    """The type of the components of a field's elements."""
    element: Any = leaf._element
    return SCALARS[scalar_of(element).name]


def _flat(part: array) -> array:
    """The components of a part along one axis, over the same memory."""
    return components(part) if part.is_contiguous else part


def _wide(element: Any) -> Any:
    """The type in which something is remembered of elements of a type."""
    scalar = scalar_of(element)
    # Moving means of half-precision numbers would stop changing once an update is below their resolution.
    wider = scalar if scalar.bits >= FLOAT32.bits else FLOAT32
    return wider if isinstance(element, Scalar) else with_scalar(element, wider)


def _remembering(p: array, kept: array | None) -> array:
    """An array of zeros to remember something of a parameter; the one there is, if it fits."""
    element = _wide(p._element)
    if kept is None or kept.shape != p.shape or kept._element != element:
        return new(p.shape, element, True, p._memory.device)
    # A parameter that was moved to another device takes its state along.
    return kept if kept._memory.device is p._memory.device else kept.to(p.device)
