"""Derivatives of functions that launch kernels: gradients, directional derivatives, products with second derivatives.

They are taken of a function of arrays that returns arrays. The results are derivatives, or functions that compute them
and can be differentiated again. The function may launch kernels, copy, fill and assign; anything else that it does is
not differentiated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from diffkern.errors import MisuseError, described
from diffkern.lang.called import Called, RequestedForm
from diffkern.lang.func import Func
from diffkern.lang.functions import FuncTransformation
from diffkern.lang.intrinsics import Intrinsic
from diffkern.lang.library import Composed
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.effects.function_tape import FunctionTape
from diffkern.runtime.effects.tangents import Tangents
from diffkern.runtime.memory.memory import overlaps

__all__ = ["grad", "hvp", "jvp", "value_and_grad", "vjp"]

Function = Callable[..., Any]


class _Jvp(FuncTransformation):
    def __call__(self, function: Any, primals: Any = None, tangents: Any = None) -> Any:
        """Return the derivative of a func, or that of a function that launches kernels along tangents."""
        # Without primals the call transforms a func, as `dk.jvp(f)`.
        if primals is None:
            return super().__call__(function)
        return _along(function, primals, tangents)


jvp: Final = _Jvp(
    RequestedForm.JVP,
    """The value and its change along tangents, of a func or of a function that launches kernels.

``dk.jvp(f)(x, y, t_x, t_y)`` of a func is ``(f(x, y), df)``, in kernels too. ``dk.jvp(step, (x, y), (t_x, t_y))`` calls
``step(x, y)`` once, whose launches, copies and fills carry tangents along, and is ``(results, tangents)``.

Parameters
----------
function : Func or callable
    A func; or a function of arrays that returns an array or several.
primals : sequence of array, optional
    The arguments of a function.
tangents : sequence, optional
    For each an array like it, None where it is constant.

Returns
-------
Called or tuple
    Of a func a function of its arguments and a tangent for each floating-point argument by value. Else what the
    function returned, and its tangents in the same form, None for an array of integers.
""",
)


@brief
def _along(function: Function, primals: Any, tangents: Any) -> tuple[Any, Any]:
    given = _arrays(primals)
    if not isinstance(tangents, (tuple, list)) or len(tangents) != len(given):
        raise MisuseError(
            f"dk.jvp takes a tangent for each of the {len(given)} primals, None where it is constant",
            remedy="pass as many tangents as primals",
        )
    moved = [x for x, t in zip(given, tangents, strict=True) if t is not None]
    if any(overlaps(x._data, y._data) for x, y in itertools.combinations(moved, 2)):
        raise MisuseError(
            "dk.jvp is given several tangents for arrays that share elements",
            remedy="pass dk.clone() of an array that is an argument twice, or one tangent for the whole of it",
        )
    with Tangents({x: t for x, t in zip(given, tangents, strict=True) if t is not None}) as found:
        # Constant primals are noted as well: the function may overwrite one with a value that varies.
        found.follow(given)
        result = function(*given)
        results = (result,) if isinstance(result, array) else _arrays(result, "the function returned")
        found.check_results(results)
        tangents = tuple(found[y] if y._smooth else None for y in results)
        return result, tangents[0] if isinstance(result, array) else tangents


def _arrays(given: Any, what: str = "primals are") -> tuple[array, ...]:
    """Return a sequence of arrays."""
    if not isinstance(given, (tuple, list)) or not all(isinstance(x, array) for x in given):
        raise MisuseError(
            f"{what} an array or a sequence of arrays, not {described(given)}",
            remedy="make arrays with dk.array, of one element for a number",
        )
    return tuple(given)


class _Grad(FuncTransformation):
    def __call__(self, function: Any) -> Any:
        """Return the derivatives of a func, or those of a function that launches kernels."""
        return super().__call__(function) if _is_of_language(function) else _Gradient(function, with_value=False)


class _Vjp(FuncTransformation):
    def __call__(self, function: Any, primals: Any = None, cotangents: Any = None) -> Any:
        """Return the derivative of a func, or gradients of a function that launches kernels, weighted by cotangents."""
        return super().__call__(function) if primals is None else _weighted(function, primals, cotangents)


def _is_of_language(function: Any) -> bool:
    """Return whether an object is a func or a built-in, or cannot be called on arrays at all."""
    return (
        isinstance(function, (Func, Called, Intrinsic, Composed))
        or hasattr(function, "programs")
        or not callable(function)
    )


grad: Final = _Grad(
    RequestedForm.GRAD,
    """The derivatives of a func that returns one number, or the gradients of a function that launches kernels.

``dk.grad(f)(x, y)`` of a func is ``(df/dx, df/dy)``, one for each floating-point argument by value, in order; the bare
value where there is one. What a kernel makes of it is differentiated like anything else.

``dk.grad(loss)(x, y)`` of a function of arrays that returns an array of one element is ``(grad_x, grad_y)``, new
arrays, one for each argument that is an array of floats; the bare array where there is one. What is computed with them
is differentiated again by ``dk.grad``, and by tapes and tangents around it. The gradient of an array that is an
argument twice is that of all its uses, for both.

Parameters
----------
function : Func, built-in or callable
    A func, a built-in function such as ``dk.atan2``, or a function of arrays.

Returns
-------
Called or callable
    A function; that of a func is for kernels, funcs and Python.
""",
)
vjp: Final = _Vjp(
    RequestedForm.VJP,
    """The value and the derivatives weighted by cotangents, of a func or of a function that launches kernels.

``dk.vjp(f)(x, y, ct)`` of a func is ``(f(x, y), (ct_x, ct_y))``; the last arguments are a cotangent for each
floating-point result. ``dk.vjp(step, (x, y), ct)`` calls ``step(x, y)`` and is ``(result, (ct_x, ct_y))``, in new
arrays.

Parameters
----------
function : Func, built-in or callable
    A func, a built-in function, or a function of arrays.
primals : sequence of array, optional
    The arguments of a function of arrays.
cotangents : array or sequence, optional
    For what it returns an array like it; for several arrays a sequence, with None where it is zero.

Returns
-------
Called or tuple
    Of a func a function of its arguments and cotangents. Else what the function returned, and a cotangent for each
    argument.
""",
)


class _Gradient:
    """The gradients of a function of arrays that returns an array of one element."""

    def __init__(self, function: Function, with_value: bool) -> None:
        self._function, self._with_value = function, with_value
        self.__name__ = f"grad({getattr(function, '__name__', function)!s})"
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<dk.grad of {self.__wrapped__!r}>"

    @brief
    def __call__(self, *args: Any) -> Any:
        # Integer arrays and other values are constants.
        held = [a for a in args if isinstance(a, array) and a._smooth]
        if not held:
            raise MisuseError(
                f"{self.__name__} is of a function of arrays, and none of {len(args)} arguments is an array of floats",
                remedy="pass arrays; a function of numbers is differentiated if it is decorated with @dk.func",
            )
        loss, found = _swept(self._function, args, held)
        gradients = found[0] if len(found) == 1 else found
        return (loss, gradients) if self._with_value else gradients


def _swept(function: Function, args: Sequence[Any], held: Sequence[array]) -> tuple[array, tuple[array, ...]]:
    """Return a loss, and its gradients."""
    # A tape of its own: gradients go to new arrays, and the `.grad` of the arguments stays as it is.
    with FunctionTape(held) as tape:
        loss = function(*args)
    if not isinstance(loss, array) or loss._data.size != 1 or not loss._smooth:
        raise MisuseError(
            f"gradients are of a function that returns an array of one element, not {described(loss)}",
            remedy="add the results up into an array of one element, or use dk.vjp",
        )
    return loss, tape.gradients(held, [(loss, None)])


def value_and_grad(function: Function) -> Function:
    """Return a function that gives what a function of arrays returns, and its gradients.

    Parameters
    ----------
    function : callable
        A function of arrays that returns an array of one element.

    Returns
    -------
    callable
        ``dk.value_and_grad(loss)(x, y)`` is ``(loss(x, y), dk.grad(loss)(x, y))``, with one call of `loss`.

    Raises
    ------
    MisuseError
        If it is no function.
    """
    if _is_of_language(function):
        raise MisuseError(f"dk.value_and_grad is of a function of arrays, not {function!r}", remedy="use dk.vjp")
    return _Gradient(function, with_value=True)


@brief
def _weighted(function: Function, primals: Any, cotangents: Any) -> tuple[Any, tuple[array, ...]]:
    given = _arrays(primals)
    with FunctionTape(given) as tape:
        result = function(*given)
    results = (result,) if isinstance(result, array) else _arrays(result, "the function returned")
    # The form of the cotangents follows that of the result.
    weights = (cotangents,) if isinstance(result, array) else cotangents
    if not isinstance(weights, (tuple, list)) or len(weights) != len(results):
        raise MisuseError(
            f"dk.vjp takes a cotangent for each of the {len(results)} results, None where it is zero",
            remedy="pass as many cotangents as there are results",
        )
    # None stands for zero, so nothing is swept from that result.
    seeds = [(y, like(y, ct)) for y, ct in zip(results, weights, strict=True) if ct is not None]
    return result, tape.gradients(given, seeds)


def like(held: array, given: Any) -> array:
    """Return what is given for an array as an array like it.

    Raises
    ------
    MisuseError
        If it is not like it.
    """
    made = given if isinstance(given, array) else held._like()
    if made is not given:
        made.assign(given)
    if not held._is_like(made):
        raise MisuseError(
            f"{described(given)} is not like {described(held)}, for which it is given",
            remedy="make it with dk.zeros_like(array)",
        )
    return made


@brief
def hvp(function: Function, primals: Sequence[array], vectors: Sequence[Any]) -> tuple[array, ...]:
    """Return the product of a function's second derivatives and vectors: reverse mode over forward mode.

    Parameters
    ----------
    function : callable
        A function of arrays that returns an array of one element.
    primals : sequence of array
        Its arguments. Their own gradients are not changed.
    vectors : sequence
        For each an array like it, None for zeros.

    Returns
    -------
    tuple of array
        For each argument the derivative of the change of the result along the vectors.
    """
    given = _arrays(primals)
    # Reverse over forward mode: one directional derivative is recorded, and its gradient is a column of the Hessian
    # times the vector. That takes memory for one sweep, whatever the size.
    with FunctionTape(given) as tape:
        loss, change = _along(function, given, vectors)
    if not isinstance(loss, array) or loss.size != 1:
        raise MisuseError(
            f"dk.hvp is of a function that returns an array of one element, not {described(loss)}",
            remedy="add the results up into an array of one element",
        )
    products: tuple[array, ...] = tape.gradients(given, [(change, None)])
    return products
