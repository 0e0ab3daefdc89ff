"""The forms in which programs of other compilers call funcs, their derivatives, and single threads of kernels.

A func or a kernel has a :class:`Called` for each form in which it may be called from a program that is no kernel.
Called from Python it is evaluated on the host; numba asks each object that it finds for the attribute
``_numba_type_``. The module that loads the compiler sets the functions that answer (:func:`set_evaluator`,
:func:`set_numba_type`), since this package doesn't import it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from diffkern.errors import KernelTypeError
from diffkern.process.forks import cached_property
from diffkern.process.late import EVALUATE, NUMBA_TYPE

__all__ = ["Called", "KnownToNumba", "RequestedForm", "evaluated"]


class RequestedForm(enum.Enum):
    """The requested form of a func or a kernel."""

    VALUE = "value"
    GRAD = "grad"
    VJP = "vjp"
    JVP = "jvp"
    THREAD = "thread"
    THREAD_ADJOINT = "thread_adjoint"

    @property
    def of_kernel(self) -> bool:
        """True if it is one thread of a kernel, whose first argument is the thread's index."""
        return self in (RequestedForm.THREAD, RequestedForm.THREAD_ADJOINT)


class KnownToNumba:
    """An object that functions compiled by numba may name."""

    __slots__ = ()

    @property
    def _numba_type_(self) -> Any:
        """Its type in numba, or in numba-cuda if that is asking."""
        return NUMBA_TYPE(self)


class Called(KnownToNumba):
    """One form of a func or kernel, as an attribute of it.

    Attributes
    ----------
    owner
        The func or kernel; for the derivative of a derivative, the inner derivative.
    pyfunc
        The Python function of the func or kernel.
    form
        Which of its forms.
    funcs
        Funcs that call it, by their numbers of parameters.
    """

    def __init__(self, owner: Any, pyfunc: Callable[..., Any], form: RequestedForm, doc: str) -> None:
        self.owner, self.pyfunc, self.form = owner, pyfunc, form
        self.funcs: dict[int, Any] = {}
        self.__doc__ = doc

    @property
    def name(self) -> str:
        """The spelling of a call of it: ``f``, ``f.grad``."""
        own: str = self.owner.name if isinstance(self.owner, Called) else self.pyfunc.__name__
        return own if self.form is RequestedForm.VALUE else f"{own}.{self.form.value}"

    @cached_property
    def grad(self) -> Called:
        """The gradient of a derivative whose result is one number."""
        return self._derivative(RequestedForm.GRAD)

    @cached_property
    def vjp(self) -> Called:
        """The derivative with values, weighted by cotangents."""
        return self._derivative(RequestedForm.VJP)

    @cached_property
    def jvp(self) -> Called:
        """The derivative with its change along tangents."""
        return self._derivative(RequestedForm.JVP)

    @property
    def _numba_type_(self) -> Any:
        # Numba is given types for the forms of funcs and kernels only.
        if isinstance(self.owner, Called):
            raise KernelTypeError(
                f"{self.name} cannot be called from functions that numba compiles",
                remedy="write a dk.func that calls it, and call that",
            )
        return super()._numba_type_

    def _derivative(self, form: RequestedForm) -> Called:
        if self.form not in (RequestedForm.GRAD, RequestedForm.VJP, RequestedForm.JVP):
            raise KernelTypeError(f"{self.name} has no {form.value}", remedy="write the work as a dk.func")
        return Called(self, self.pyfunc, form, f"The {form.value} of {self.name}.")

    def check(self) -> None:
        """Refuse the adjoint of a kernel that is not to be differentiated."""
        if self.form is RequestedForm.THREAD_ADJOINT and not self.owner.enable_backward:
            raise KernelTypeError(
                f"{self.name}: {self.pyfunc.__name__} is not differentiated, as enable_backward is off",
                remedy="turn it on for the kernel or its module, or set dk.config.enable_backward = 'always'",
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate on the host."""
        return evaluated(self, args, kwargs)

    # By attribute of the owner: the owner is pickled by its import path, and the form is found on it again.
    def __reduce__(self) -> Any:
        return getattr, (self.owner, self.form.value)

    def __repr__(self) -> str:
        return f"<{self.name} of {self.owner!r}>"


def evaluated(called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call from Python, for a :class:`Called` or a built-in function."""
    return EVALUATE(called, args, kwargs)
