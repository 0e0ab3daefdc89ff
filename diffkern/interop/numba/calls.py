"""The callee and the types of a call: the same for numba and numba-cuda.

One of the objects that a program may call, and numba's types of the arguments, give a :class:`TypedCall`, with the
function in the IR and the signature in numba's types; or numba's ``TypingError`` with diffkern's message.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from diffkern.errors import KernelError, KernelTypeError
from diffkern.frontend.syntax.canonical import fingerprint
from diffkern.frontend.syntax.signature import signature
from diffkern.host.device_functions import DeviceFunction, device_function
from diffkern.interop.numba import types as conversion
from diffkern.kernels.kernel import Kernel
from diffkern.lang import Func
from diffkern.lang.called import Called, KnownToNumba, RequestedForm
from diffkern.printing.functions import Structure
from diffkern.process.dataclass import dataclass

__all__ = ["CompiledCall", "Compiler", "NumbaLibrary", "TypedCall", "Types", "attributes", "make_types", "numba_type"]


@dataclass(frozen=True)
class NumbaLibrary:
    """numba or numba-cuda, as far as they differ in names.

    Attributes
    ----------
    types
        The module with the types.
    errors
        The module with the errors.
    target
        The name of diffkern's target whose limits apply.
    state
        Returns the state on which a compiled function depends besides its arguments.
    """

    types: Any
    errors: Any
    target: str
    state: Callable[[], Hashable]


@dataclass(frozen=True, eq=False)
class TypedCall:
    """A function for types of arguments.

    Attributes
    ----------
    called : Called
        The callee.
    made : DeviceFunction
        Its function.
    arguments : tuple
        numba's types of the arguments, as the function takes them.
    result : numba type
        The type of its result.
    """

    called: Called
    made: DeviceFunction
    arguments: tuple[Any, ...]
    result: Any

    @property
    def tid(self) -> str:
        """The form in which a thread's index is passed: ``int``, ``tuple``, or empty if it is not passed."""
        if not self.called.form.of_kernel:
            return ""
        return "tuple" if hasattr(self.arguments[0], "count") else "int"


@dataclass(frozen=True, eq=False)
class CompiledCall:
    """A compiled call, as numba is told of it.

    Attributes
    ----------
    signature
        Types of the arguments and of the result.
    key
        The key by which numba finds the function that emits the call.
    kept
        An object that has to live as long.
    """

    signature: Any
    key: Any
    kept: Any = None


Compiler = Callable[[TypedCall], CompiledCall]


class Types(NamedTuple):
    """numba's types of callable objects, and of kernels, which exist for their attributes."""

    called: type
    kernel: type


def numba_type(types: Types, known: KnownToNumba) -> Any:
    """Return numba's type of a func, a kernel, or a form of one."""
    if isinstance(known, Func):
        return types.called(known, Called(known, known.pyfunc, RequestedForm.VALUE, ""))
    return types.called(known.owner, known) if isinstance(known, Called) else types.kernel(known)


def attributes(template: type, owner: type, types: Types) -> type:
    """Return the class that gives numba the types of an object's attributes; ``template`` is numba's class for such."""

    class Attributes(template):  # type: ignore[misc]
        key = owner

        def generic_resolve(self, t: Any, attribute: str) -> Any:
            found = getattr(t.owner, attribute, None)
            return types.called(t.owner, found) if isinstance(found, Called) else None

    return Attributes


def make_types(library: NumbaLibrary, compiler: Compiler) -> Types:
    """Make numba's types.

    Parameters
    ----------
    library : Library
        Whose types they are.
    compiler : callable
        Compiles a call.
    """
    types = library.types

    class DiffkernCallable(types.Callable, types.Opaque):  # type: ignore[misc, name-defined]
        """A func or a form of a func or kernel."""

        def __init__(self, owner: Any, called: Called) -> None:
            self.owner, self.called = owner, called
            self._found: dict[Any, CompiledCall] = {}
            self._keys: dict[Any, Any] = {}
            super().__init__(f"diffkern({called.name})")

        @property
        def key(self) -> Any:
            return self.owner, self.called.form

        def get_call_signatures(self) -> tuple[tuple[()], bool]:
            return (), True

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            try:
                given = _in_order(self.called, args, dict(kws or {}))
                meaning = tuple(value for _, value in fingerprint(self.called.pyfunc))
                # A literal's type is that of its value: another number must not be another function. The fingerprint is
                # the source and what it captures, so that a redefined func is compiled again.
                name = (tuple(map(types.unliteral, given)), meaning, library.state())
                if name not in self._found:
                    self._found[name] = compiler(_typed(library, self.called, given))
            except KernelError as error:
                raise library.errors.TypingError(f"{type(error).__name__}: {error}") from error
            found = self._found[name]
            # numba asks for the implementation by the signature's arguments only, in a later step.
            self._keys[found.signature.args] = found.key
            return found.signature

        def get_impl_key(self, sig: Any) -> Any:
            return self._keys[sig.args]

    class DiffkernKernel(types.Callable, types.Opaque):  # type: ignore[misc, name-defined]
        """A kernel."""

        def __init__(self, owner: Kernel) -> None:
            self.owner = owner
            super().__init__(f"diffkern(kernel {owner.name})")

        @property
        def key(self) -> Any:
            return self.owner

        def get_call_signatures(self) -> tuple[tuple[()], bool]:
            return (), True

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            name = self.owner.name
            raise library.errors.TypingError(
                f"{name} is a kernel: a Numba program calls one thread of it\n"
                f"help: write {name}.thread(i, …) or {name}.thread_adjoint(i, …)"
            )

        def get_impl_key(self, sig: Any) -> Any:
            raise NotImplementedError

    return Types(DiffkernCallable, DiffkernKernel)


def _in_order(called: Called, args: Sequence[Any], kws: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments in order; arguments by name are refused."""
    if not kws:
        return tuple(args)
    raise KernelTypeError(
        f"{called.name} is called with {', '.join(f'{name}=…' for name in kws)}", remedy="give the arguments in order"
    )


def _typed(library: NumbaLibrary, called: Called, given: Sequence[Any]) -> TypedCall:
    """Compile a call to IR and give it a signature."""
    called.check()
    types, form = library.types, called.form
    index, rest = _index(library, called, given)
    parameters = signature(called.pyfunc).params
    # The adjoint of a thread takes the cotangents after the arguments, with the same annotations.
    repeated = [*parameters, *(parameters if form is RequestedForm.THREAD_ADJOINT else ())]
    arguments = []
    for k, t in enumerate(rest):
        of = repeated[k] if k < len(repeated) else None
        where = f"the argument {of.name} of {called.name}" if of is not None else f"argument {k + 1} of {called.name}"
        arguments.append(conversion.argument(types, t, of.annotation if of is not None else None, where))
    made = device_function(called.pyfunc, form, arguments, library.target)
    _check_axes(called, index, made)
    taken = [*index]
    for position, t in zip(made.arguments, rest, strict=True):
        t = types.unliteral(t)
        # Values are converted by numba at the call, to the type that the function takes.
        if position is not None and not isinstance(t, types.Array):
            t = conversion.value(types, made.fn.params[position].type)
        taken.append(t)
    _check_written(called, made, rest)
    return TypedCall(called, made, tuple(taken), _result(types, made, made.returns))


def _index(library: NumbaLibrary, called: Called, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the type in which a thread's index is passed, if there is one, and the types of the other arguments."""
    types = library.types
    if not called.form.of_kernel:
        return [], list(given)
    first = types.unliteral(given[0]) if given else None
    if isinstance(first, types.Integer):
        return [types.int32], list(given[1:])
    if isinstance(first, types.BaseTuple) and all(isinstance(types.unliteral(t), types.Integer) for t in first.types):
        return [types.UniTuple(types.int32, len(first.types))], list(given[1:])
    raise KernelTypeError(
        f"the first argument of {called.name} is {'missing' if first is None else first}",
        remedy="pass the thread's index: an integer, or a tuple of as many as dk.tid() is unpacked into",
    )


def _check_axes(called: Called, index: Sequence[Any], made: DeviceFunction) -> None:
    """Check that a thread has an index for each axis that the kernel uses; a kernel without a thread
    index takes any.
    """
    for t in index:
        axes, wanted = getattr(t, "count", 1), made.fn.tid_arity
        if wanted not in (0, axes):
            raise KernelTypeError(
                f"{called.name} is given an index with {axes} {'axis' if axes == 1 else 'axes'}, and the kernel "
                f"unpacks dk.tid() into {wanted}",
                loc=made.fn.loc,
                remedy="pass an integer" if wanted == 1 else f"pass a tuple of {wanted} integers",
            )


def _check_written(called: Called, made: DeviceFunction, given: Sequence[Any]) -> None:
    for position, t in zip(made.arguments, given, strict=True):
        if position is not None and position in made.written and not t.mutable:
            name = made.fn.params[position].name
            raise KernelTypeError(
                f"{called.name} writes to {name}, and {t} is read-only in numba",
                remedy="pass an array that may be written, such as a copy",
            )


def _result(types: Any, made: DeviceFunction, returns: Structure) -> Any:
    if returns is None:
        return types.none
    if isinstance(returns, tuple):
        return types.Tuple([_result(types, made, part) for part in returns])
    return conversion.value(types, made.fn.body.yields[returns].type)
