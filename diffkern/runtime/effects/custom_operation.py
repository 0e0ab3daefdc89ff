"""``dk.custom_operation``: a function of arrays with derivatives of its own, wherever derivatives are taken.

The function runs once, and nothing that it does is recorded for derivatives. What it returns is handed on as one
operation, from its arguments to its results. Its derivatives are functions too; what they do is recorded by whatever
takes derivatives of derivatives, so that one which calls the operation again has all orders.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.lang.values import CompositeValue
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.arrays.operation import (
    Add,
    Assign,
    Composite,
    Copy,
    FunctionCall,
    Operation,
    OperationCotangents,
    OperationTangents,
    perform,
)
from diffkern.runtime.effects.inside import Inside
from diffkern.runtime.effects.unchanged import DigestOfArray, Unchanged
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.memory.memory import births
from diffkern.runtime.memory.scope import read_by, under
from diffkern.runtime.memory.state import handler_now, is_taken

__all__ = ["CustomOperation", "custom_operation"]

Rule = Callable[..., Any]


class CustomOperation:
    """A function of arrays with derivatives of its own, as :func:`custom_operation` makes it.

    Parameters
    ----------
    forward : callable
        The function.
    vjp, jvp : callable or None
        Its derivatives in reverse and forward mode.
    """

    def __init__(self, forward: Rule, vjp: Rule | None, jvp: Rule | None) -> None:
        self.forward, self.vjp, self.jvp = forward, vjp, jvp
        self.__doc__ = forward.__doc__

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.forward, "__name__", "function"))

    def __repr__(self) -> str:
        return f"<custom operation {self.name!r}>"

    @brief
    def __call__(self, *args: Any) -> Any:
        """Run the function, and hand it on with its derivatives.

        Parameters
        ----------
        *args
            Arrays; anything else is a constant.

        Returns
        -------
        array or tuple of array
            The results of the function.

        Raises
        ------
        LaunchError
            Where derivatives are taken, if the function reads an array with a derivative that is no argument, writes
            to an array that it has not made, or returns anything but arrays that it has made.
        """
        if not is_taken():
            return self.forward(*args)
        handler = handler_now()
        given, began = [arg for arg in args if isinstance(arg, array)], births()
        constants: Sequence[array] = ()
        if handler is None:
            with read_by(repr(self)):
                found = self.forward(*args)
            results = self._checked_results(found, began)
        else:
            inside, unchanged, results = Inside(handler, self.name, given, began), Unchanged(given), ()
            _check_tensors(self, args)
            handler.begin_derivative(None)
            try:
                with under(inside):
                    with read_by(repr(self)):
                        found = self.forward(*args)
                    results = self._checked_results(found, began)
            finally:
                handler.end_derivative()
                # Also behind an error: what was made is no constant.
                handler.hide(began, births(), results, f"the custom operation {self.name!r}")
            constants = inside.constants
            if (held := unchanged.changed()) is not None:
                raise _writes(repr(self), held)
        perform(_Application(self, [kept(arg) for arg in args], results, constants))
        return found

    def _checked_results(self, found: Any, began: int) -> tuple[array, ...]:
        results = found if isinstance(found, tuple) else (found,)
        seen: set[int] = set()
        for result in results:
            if not isinstance(result, array):
                raise LaunchError(
                    f"{self!r} returned {described(result)}",
                    remedy="return an array, or a tuple of arrays, that it has made",
                )
            if result._memory.serial <= began or result._memory.foreign or id(result._memory) in seen:
                raise LaunchError(
                    f"{self!r} returned {described(result)}, whose memory is not its own",
                    remedy="return arrays that it has made, each once; dk.clone() makes one of another",
                )
            if result._data.nbytes < result._memory.nbytes:
                raise LaunchError(
                    f"{self!r} returned {described(result)}, a part of a larger array",
                    remedy="return dk.clone() of it: nothing would be known of what the rest depends on",
                )
            seen.add(id(result._memory))
        return results


class _Application(Composite):
    """A custom operation, applied: it has run when it is handed on."""

    __slots__ = ("_args", "_constants", "_given", "_pickled", "_results", "_rule")

    phrase = "a custom operation"
    tangents_behind = True

    def __init__(
        self, rule: CustomOperation, args: Sequence[Any], results: tuple[array, ...], constants: Sequence[array]
    ) -> None:
        self._rule, self._args, self._results = rule, tuple(args), results
        self._given = tuple([arg for arg in args if isinstance(arg, array)])
        self._constants = [DigestOfArray(held) for held in constants]
        self._pickled = {k: pickled(arg) for k, arg in enumerate(args) if may_change(arg)}

    @property
    def label(self) -> str:
        """The name of the operation for messages."""
        return f"custom {self._rule.name}"

    @property
    def device(self) -> Device:
        """The device of its results."""
        return self._results[0]._memory.device if self._results else CPU

    def execute(self) -> None:
        """Do nothing: what it consists of ran before."""

    def reads(self) -> Iterable[array]:
        """Return the arrays among its arguments, and others that the function has read."""
        return (*self._given, *[one.held for one in self._constants]) if self._constants else self._given

    def writes(self) -> Iterable[array]:
        """Return its results."""
        return self._results

    def needs(self) -> Iterable[array]:
        """Return all of its arrays: which of them the derivatives read is not known."""
        return (*self._given, *self._results)

    def constants(self) -> bytes:
        """Return the other arguments as bytes: of what has none its id, which tells it from objects that are there."""
        found = [pickled(arg) or repr(id(arg)).encode() for arg in self._args if not isinstance(arg, array)]
        return b"".join([len(one).to_bytes(8, "little") + one for one in found])

    def jvp(self, tangents: OperationTangents) -> Sequence[Operation]:
        """Return the call of the function for tangents."""
        rule = self._rule
        if rule.jvp is None:
            raise self._missing("forward", "jvp")
        function = rule.jvp
        given = [tangents.tangent(arg) if isinstance(arg, array) else None for arg in self._args]
        goals = [tangents.made(result) if result._smooth else None for result in self._results]

        def jvp() -> None:
            found = self._call("jvp", function, separate(self._args), self._results, tuple(given))
            for goal, tangent in self._paired("jvp", "tangent", self._results, goals, found):
                perform(Assign(goal, 0) if tangent is None else Copy(goal, tangent))

        return (FunctionCall(jvp),)

    def vjp(self, cotangents: OperationCotangents) -> Sequence[Operation]:
        """Return the call of the function for cotangents."""
        rule = self._rule
        if rule.vjp is None:
            raise self._missing("reverse", "vjp")
        function = rule.vjp
        of_results = [cotangents.cotangent(result) if result._smooth else None for result in self._results]
        values = tuple([cotangents.value(arg) if isinstance(arg, array) else arg for arg in self._args])
        results = tuple([cotangents.value(result) for result in self._results])
        wanted = [isinstance(arg, array) and cotangents.wants(arg) for arg in self._args]
        goals = [
            cotangents.cotangent(arg) if is_wanted else None for arg, is_wanted in zip(self._args, wanted, strict=True)
        ]

        def vjp() -> None:
            found = self._call("vjp", function, separate(values), results, tuple(of_results))
            for goal, cotangent in self._paired("vjp", "cotangent", self._args, goals, found):
                if cotangent is not None:
                    perform(Add(goal, cotangent))
            for ct in of_results:
                if ct is not None:
                    perform(Assign(ct, 0))

        return (FunctionCall(vjp),)

    def _call(self, name: str, function: Rule, args: Sequence[Any], results: Sequence[array], along: Any) -> Any:
        """Return what a derivative returns, which must not write to what the operation has read and written."""
        called, handler = f"{name} of {self._rule!r}", handler_now()
        self._check_constants(called)
        # A cotangent is zero afterwards, so that a vjp may work in it; a tangent belongs to the argument.
        unchanged = Unchanged(
            held for held in (*args, *results, *(along if name == "jvp" else ())) if isinstance(held, array)
        )
        if handler is not None:
            handler.begin_derivative(called)
        try:
            with read_by(called):
                found = function(tuple(args), tuple(results), along)
        finally:
            if handler is not None:
                handler.end_derivative()
        if (held := unchanged.changed()) is not None:
            raise _writes(called, held)
        return found

    def _check_constants(self, called: str) -> None:
        """Raise if something that the function has read is not what it was."""
        changed = [described(one.held) for one in self._constants if not one.is_same()]
        changed += [described(self._args[k]) for k, known in self._pickled.items() if pickled(self._args[k]) != known]
        if changed:
            raise LaunchError(
                f"{called} would be that of other numbers: the function has read {changed[0]}, which has changed since",
                remedy="pass it as an argument of its own if it is an array, else a copy of it",
            )

    def _paired(
        self, function: str, what: str, of: Sequence[Any], goals: Sequence[array | None], found: Any
    ) -> list[tuple[array, array | None]]:
        """Return the arrays that a derivative goes to, each with what the user's function returned for it."""
        given = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(given) != len(of):
            raise LaunchError(
                f"{self._rule!r}: {function} returned {len(given)} {what}s for {len(of)} "
                f"{'arguments' if function == 'vjp' else 'results'}",
                remedy=f"return a {what} for each, None where it is zero",
            )
        pairs: list[tuple[array, array | None]] = []
        for held, goal, value in zip(of, goals, given, strict=True):
            if goal is None:
                continue
            if value is not None and not (isinstance(value, array) and goal._is_like(value)):
                raise LaunchError(
                    f"{self._rule!r}: {function} returned {described(value)} as the {what} of {described(held)}",
                    remedy="return an array of the same type and shape, on the same device, or None where it is zero",
                )
            pairs.append((goal, value))
        if (handler := handler_now()) is not None:
            # Derivatives of this derivative would miss what went through the host.
            returned = [value for _, value in pairs if value is not None]
            handler.check_not_read(returned, f"{function} of {self._rule!r} returned")
        return pairs

    def _missing(self, mode: str, name: str) -> LaunchError:
        return LaunchError(
            f"{self._rule!r} has no derivative in {mode} mode, which is asked for",
            remedy=f"give it one: dk.custom_operation(forward, {name}=...)",
        )


def _writes(called: str, held: array) -> LaunchError:
    return LaunchError(
        f"{called} writes to {described(held)}, which it was given to read",
        remedy="write to arrays that it makes; dk.clone() makes one of another",
    )


def _check_tensors(rule: CustomOperation, args: Sequence[Any]) -> None:
    """Raise for an argument of another library that has a gradient there."""
    for arg in args:
        if not isinstance(arg, array) and getattr(arg, "requires_grad", False):
            raise LaunchError(
                f"{rule!r} has an argument with a gradient that is no array: {described(arg)}",
                remedy="pass dk.from_torch(tensor), or make a function of tensors with dk.torch_function",
            )


_PLAIN = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, type)


def may_change(value: Any) -> bool:
    """Return whether an argument that was kept may be changed by others."""
    if type(value) in (list, tuple):
        return any(map(may_change, value))
    if type(value) is dict:
        return any(map(may_change, value.values()))
    return not isinstance(value, (array, np.ndarray, CompositeValue, *_PLAIN)) and not callable(value)


def pickled(value: Any) -> bytes | None:
    """Return an object as bytes; None if it has none."""
    try:
        return pickle.dumps(value)
    except Exception:  # pickle raises whatever the classes of the objects do
        return None


def kept(value: Any) -> Any:
    """Return an argument as it is now: a copy of NumPy's arrays and of vectors, also within lists, tuples and dicts."""
    if isinstance(value, (np.ndarray, CompositeValue)):
        return value.copy()
    if type(value) in (list, tuple):
        return type(value)(map(kept, value))
    return {key: kept(one) for key, one in value.items()} if type(value) is dict else value


def separate(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments with a copy in place of each array that shares memory with an earlier one.

    A derivative that is taken with respect to arrays of one memory is that with respect to all of them together.
    """
    met: set[int] = set()
    found: list[Any] = []
    for value in values:
        if isinstance(value, array):
            if id(value._memory) in met:
                value = clone(value)
            met.add(id(value._memory))
        found.append(value)
    return tuple(found)


@brief
def custom_operation(forward: Rule, *, vjp: Rule | None = None, jvp: Rule | None = None) -> CustomOperation:
    """Return a function of arrays with derivatives of its own: on tapes, in functions of arrays, in roll-outs.

    Nothing that `forward` does is recorded for derivatives, so that it may iterate, read its arguments and call other
    libraries; in a recorded sequence its launches are recorded like any others. What it keeps for its derivatives it
    returns as a result.

    Parameters
    ----------
    forward : callable
        Takes positional arguments, and returns an array or a tuple of arrays that it has made. Arrays with derivatives
        that it reads have to be arguments of their own, those of meshes included; it may write to arrays that it has
        made. Other arguments are constants; objects of other kinds than numbers and NumPy's arrays must not change.
    vjp : callable, optional
        ``vjp(args, results, cotangents)`` returns a cotangent for each argument: an array like it, or None for zero
        and for what is no array. `args` and `results` hold what they held, and are read only; there is a cotangent for
        each result, None for one of integers. Of arguments that share memory it gets copies.
    jvp : callable, optional
        ``jvp(args, results, tangents)`` returns a tangent for each result, None for zero. There is a tangent for each
        argument, None where it is zero.

    Returns
    -------
    CustomOperation
        The function.

    Raises
    ------
    MisuseError
        If one of them is no function.

    Notes
    -----
    Derivatives of derivatives are those of what `vjp` and `jvp` do: of their launches, copies and operations of arrays,
    and of custom operations that they call, this one included. Where they are taken, reading an array with a derivative
    on the host is an error in `vjp` and `jvp`. A number that `forward` has read, and keeps in a variable for them, is a
    constant there: return what they need as an array.

    Examples
    --------
    >>> import diffkern as dk
    >>> import numpy as np
    >>> def solve(a, b):
    ...     return dk.array(np.linalg.solve(a.numpy(), b.numpy()), dtype=dk.float64)
    >>> def solve_vjp(args, results, cotangents):
    ...     (a, b), (x,), (ct,) = args, results, cotangents
    ...     ct_b = solved(a.transpose(), ct)
    ...     return outer(ct_b, x), ct_b
    >>> def outer(u, v):
    ...     product = dk.zeros((u.size, v.size), dtype=dk.float64)
    ...     dk.launch(minus_outer, dim=product.shape, inputs=[u, v], outputs=[product])
    ...     return product
    >>> @dk.kernel
    ... def minus_outer(u: dk.array[dk.float64], v: dk.array[dk.float64], out: dk.array2d[dk.float64]):
    ...     i, j = dk.tid()
    ...     out[i, j] = -u[i] * v[j]
    >>> solved = dk.custom_operation(solve, vjp=solve_vjp)
    >>> a = dk.array(np.array([[2.0, 1.0], [0.0, 4.0]]), dtype=dk.float64, requires_grad=True)
    >>> b = dk.array(np.array([1.0, 2.0]), dtype=dk.float64, requires_grad=True)
    >>> with dk.Tape() as tape:
    ...     x = solved(a, b)
    >>> tape.backward(grads={x: dk.ones(2, dtype=dk.float64)})
    >>> b.grad.numpy()
    array([0.5  , 0.125])
    """
    for name, function in (("forward", forward), ("vjp", vjp), ("jvp", jvp)):
        if not callable(function) and (function is not None or name == "forward"):
            raise MisuseError(
                f"{name} of dk.custom_operation is {function!r}, which is no function",
                remedy="pass a function of arrays",
            )
    return CustomOperation(forward, vjp, jvp)
