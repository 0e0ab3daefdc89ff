"""``@dk.func``: a Python function that kernels may call.

:class:`Func` wraps a plain function. The frontend inlines it at each call in a kernel, and it is still an ordinary
function when called on the host.
"""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from diffkern.errors import MisuseError
from diffkern.lang.called import Called, KnownToNumba, RequestedForm
from diffkern.lang.dialects import NATIVE, Dialect, bind_dialect, dialect_of
from diffkern.lang.dtypes import element_of_value
from diffkern.lang.lazy_annotations import keep_annotations
from diffkern.lang.static import resolve_static
from diffkern.lang.structs import definition_of, resolve_type
from diffkern.lang.text import capture_source
from diffkern.process.forks import cached_property
from diffkern.process.tracebacks import Entrance

if TYPE_CHECKING:
    from diffkern.lang.rules import Rule

__all__ = [
    "RULES",
    "ByPath",
    "Func",
    "check_function",
    "constant",
    "func",
    "function_of_dispatcher",
    "is_found",
    "rules_of",
]


# -- pickling by import path -------------------------------------------------------------------------------------------
# Objects that stand for a function of a module: they are pickled by their import path, as functions are.
#
# Pickling such an object gives the import path of the function it was made of, or an error if that path leads to
# another object. Copying and deep copying return the object itself.


class ByPath(ABC):
    """A base class of objects that are pickled by import path. A subclass names the function."""

    __slots__ = ()

    @abstractmethod
    def _function(self) -> Callable[..., Any]: ...

    def __reduce_ex__(self, protocol: Any) -> Any:
        function = self._function()
        # Checked when it is pickled: unpickling in another process would silently return something else.
        if not is_found(self, function):
            raise pickle.PicklingError(
                f"{self!r} cannot be pickled: that keeps its import path, and {function.__module__}."
                f"{function.__qualname__} is not found or is something else; define it at the top level of a module"
            )
        return function.__qualname__

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def is_found(obj: object, function: Callable[..., Any]) -> bool:
    """Return whether the import path of a function leads to this object."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj


def check_function(obj: Any, decorator: str) -> None:
    """Refuse to decorate an object that is no function written in Python.

    Raises
    ------
    MisuseError
        With a remedy that names the function to decorate instead.
    """
    if isinstance(obj, FunctionType):
        return
    remedy = "decorate a function made with def"
    # The likely mistakes have remedies of their own.
    if isinstance(obj, MethodType):
        remedy = "write it as a function outside of the class, and pass what it needs as arguments"
    elif isinstance(getattr(obj, "py_func", None), FunctionType):
        remedy = "decorate the Python function itself, which is its attribute py_func"
    raise MisuseError(f"{decorator} decorates a Python function, not {obj!r}", remedy=remedy)


def function_of_dispatcher(obj: Any) -> FunctionType | None:
    """Return the Python function from which numba, or its simulator, made an object; None if the object is none of
    these.
    """
    if type(obj).__module__.partition(".")[0] not in ("numba", "numba_cuda"):
        return None
    # `py_func` on numba's dispatchers, `fn` on the simulator's.
    found = getattr(obj, "py_func", None) or getattr(obj, "fn", None)
    return found if isinstance(found, FunctionType) else None


RULES: Final = "__diffkern_rules__"
"""The attribute of a Python function that has the rules of a func made of it, with whose they are."""


def rules_of(pyfunc: Callable[..., Any]) -> tuple[Rule, ...]:
    """Return the rules that differentiation applies to a func instead of its body; the func is given as its Python
    function.
    """
    of, kept = pyfunc.__dict__.get(RULES, (None, ()))
    # What functools.wraps makes has the attributes of another function.
    return kept if of is not None and of() is pyfunc else ()


class Func(ByPath, KnownToNumba):
    """A function for use in kernels.

    Attributes
    ----------
    pyfunc
        The Python function.
    overloads : tuple of Func
        The funcs among which a call of it chooses by the types of the arguments, in the order of their definition, the
        func itself last.
    at_caller : bool
        Whether messages about its body name the line that calls it: no user has written it.
    """

    __name__: str
    at_caller = False

    def __init__(self, pyfunc: Callable[..., Any], dialect: Dialect = NATIVE, others: Iterable[Func] = ()) -> None:
        check_function(pyfunc, "@dk.func")
        # Before anything reads the source: the file may change between decoration and first launch.
        capture_source(pyfunc)
        keep_annotations(pyfunc)
        self.pyfunc = bind_dialect(pyfunc, dialect)
        # After the dialect is set, since a copy of the function is what has to keep the results.
        resolve_static(self.pyfunc)
        functools.update_wrapper(self, pyfunc)
        own = _annotations(self)
        # A func with the same annotations is redefined, as by a notebook cell that runs again.
        self.overloads: tuple[Func, ...] = (*(f for f in others if _annotations(f) != own), self)

    def on(self, simt: bool) -> Func | str:
        """The func that a processor or a GPU runs where this one is called, or why there is none."""
        return self

    def overload(self, pyfunc: Callable[..., Any]) -> Func:
        """Make a func that is this one for arguments of other types.

        Parameters
        ----------
        pyfunc : callable
            A Python function whose annotations differ from this one's; those of a func with the same replace it.

        Returns
        -------
        Func
            A func with the overloads of both: a call takes the one whose annotations are the types of the arguments,
            else one that literals can become.

        Examples
        --------
        >>> @dk.func
        ... def size(x: float):
        ...     return abs(x)
        >>> @size.overload
        ... def size(x: dk.vec3):
        ...     return dk.length(x)
        """
        with Entrance(f"@{self.name}.overload", pyfunc):
            return Func(pyfunc, dialect_of(self.pyfunc), self.overloads)

    @property
    def name(self) -> str:
        """Its name: the function's, unless it was given another one."""
        return str(self.__name__)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that differentiation applies instead of the func's body (:mod:`diffkern.lang.rules`)."""
        return rules_of(self.pyfunc)

    @rules.setter
    def rules(self, rules: tuple[Rule, ...]) -> None:
        # With a weak reference to the function: attributes are copied by functools.wraps, and tell so whose they are.
        self.pyfunc.__dict__[RULES] = weakref.ref(self.pyfunc), rules

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Python function itself, on the host; of several overloads, the one that fits the arguments."""
        if len(self.overloads) > 1:
            return _for_values(self.overloads, args, kwargs)(*args, **kwargs)
        return self.pyfunc(*args, **kwargs)

    @cached_property
    def grad(self) -> Called:
        """The partial derivatives.

        ``f.grad(x, y)`` is ``(df/dx, df/dy)``, one for each floating-point argument by value, in order; if there is
        only one, it is the bare number, not a tuple. The func returns one floating-point number. It is called from
        Python, and from functions that numba compiles.
        """
        return Called(
            self, self.pyfunc, RequestedForm.GRAD, "The partial derivatives with respect to the arguments by value."
        )

    @cached_property
    def vjp(self) -> Called:
        """The value and the derivatives weighted by cotangents.

        ``f.vjp(x, y, ct)`` is ``(f(x, y), (ct_x, ct_y))``. The last arguments are a cotangent for each
        floating-point result; 1.0 gives the value with its gradient.
        """
        return Called(self, self.pyfunc, RequestedForm.VJP, "The value, and the cotangents of the arguments by value.")

    @cached_property
    def jvp(self) -> Called:
        """The value and its change along tangents.

        ``f.jvp(x, y, t_x, t_y)`` is ``(f(x, y), df)``. The last arguments are a tangent for each
        floating-point argument by value.
        """
        return Called(
            self, self.pyfunc, RequestedForm.JVP, "The value, and its change along tangents of the arguments by value."
        )

    def _function(self) -> Callable[..., Any]:
        return self.pyfunc

    def __repr__(self) -> str:
        return f"<dk.func {self.name}>"


def _annotations(func: Func) -> list[Any]:
    # The result's type does not decide which overload a call takes.
    return [annotation for name, annotation in func.pyfunc.__annotations__.items() if name != "return"]


def _for_values(overloads: Sequence[Func], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of the overload whose annotations are the values' types, else the first that
    can be called.
    """
    callable_ones = []
    for candidate in overloads:
        signature = inspect.signature(candidate.pyfunc)
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:
            continue
        # If none fits, the first of these is called, and decides itself about its arguments.
        callable_ones.append(candidate.pyfunc)
        # Text of annotations is evaluated where the overload was written.
        wanted = {name: _evaluated(signature.parameters[name].annotation, candidate.pyfunc) for name in bound}
        if all(_is_of(value, wanted[name]) for name, value in bound.items()):
            return candidate.pyfunc
    return callable_ones[0] if callable_ones else overloads[-1].pyfunc


def _evaluated(annotation: Any, pyfunc: Callable[..., Any]) -> Any:
    """Return an annotation; one that is text is evaluated in the scope of the function."""
    if not isinstance(annotation, str):
        return annotation
    cells = inspect.getclosurevars(pyfunc).nonlocals
    try:
        return eval(annotation, pyfunc.__globals__, dict(cells))
    except Exception:
        return annotation


def _is_of(value: Any, annotation: Any) -> bool:
    """Return whether a value has the annotated type, as far as that can be decided."""
    if annotation is inspect.Parameter.empty or annotation is Any:
        return True
    try:
        wanted = resolve_type(annotation)
    except TypeError:
        return isinstance(annotation, type) and isinstance(value, annotation)
    definition = definition_of(type(value))
    return (element_of_value(value) if definition is None else definition.type) == wanted


def func(pyfunc: Callable[..., Any]) -> Func:
    """Make a function callable from kernels. It is inlined there; it may call other such functions, but not itself.

    A function that numba compiles, for the CPU or as a device function, is taken as the Python function it was made of.
    """
    if isinstance(pyfunc, Func):
        return pyfunc
    with Entrance("@dk.func", pyfunc):
        return Func(function_of_dispatcher(pyfunc) or pyfunc)


def constant(value: Any) -> Any:
    """Return the value; it marks a global that kernels read as a constant."""
    return value
