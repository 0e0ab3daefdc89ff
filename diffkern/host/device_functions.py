"""Functions that programs of other compilers call: funcs, their derivatives, and one thread of a kernel or its adjoint.

A :class:`DeviceFunction` is made of a Python function, the types of its arguments, the wanted form and a target. Its IR
yields the function's results; readable source (:mod:`diffkern.printing.functions`) and LLVM code for a CPU
(:mod:`diffkern.targets.cpu.function`) are made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from diffkern.ad.reverse import reverse_func
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.conflicts import use_atomics
from diffkern.compiler.passes import CLEAN, NORMALISE_MAP, ONE_CALL
from diffkern.compiler.pipeline import (
    FUNCS,
    differentiate,
    lower_kernel,
    optimise,
    prepare,
)
from diffkern.contracts.options import Variant
from diffkern.errors import AutodiffError, KernelError, KernelTypeError, Loc, compiling
from diffkern.frontend.statements.lowering import lower_func, lower_library, returned_types
from diffkern.frontend.syntax.signature import signature
from diffkern.frontend.syntax.source import get_source
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner, clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import ELEMENT_WRITES
from diffkern.ir.ops.table import lookup
from diffkern.ir.passes import PLAIN, run
from diffkern.ir.stages import ADJOINT, WRITTEN
from diffkern.ir.structs import Argument, IndexedArray, Struct, StructArray
from diffkern.ir.types import Array, Scalar, Stack, Type, is_differentiable, value_type
from diffkern.lang import DType
from diffkern.lang.called import RequestedForm
from diffkern.lang.library import Composed
from diffkern.opt.removals import without_assertions, without_breakpoints
from diffkern.printing.functions import Structure, to_cuda_function, to_python_function
from diffkern.process.dataclass import dataclass
from diffkern.targets import target_named
from diffkern.targets.target import Settings

__all__ = ["DeviceFunction", "device_function", "library_function"]


@dataclass(frozen=True)
class DeviceFunction:
    """A function for types of arguments.

    Attributes
    ----------
    fn : Function
        Its IR, in the form of programs.
    returns : Structure
        The structure of its results.
    arguments : tuple of (int or None)
        Which parameter of the IR each argument is, without a thread's index; None for a None that is passed.
    """

    fn: Function
    returns: Structure
    arguments: tuple[int | None, ...]

    @property
    def written(self) -> frozenset[int]:
        """The array parameters that it writes to."""
        arrays = {op.operands[0] for op in walk(self.fn.body) if op.name in ELEMENT_WRITES}
        return frozenset(k for k, p in enumerate(self.fn.params) if p in arrays)

    def lowered(self, target: str) -> Function:
        """Return the IR as the target's compilers take it."""
        return target_named(target).lowered(clone_function(self.fn), _CALLED)

    def python_source(self) -> str:
        """Return readable Python, as the host runs it."""
        return to_python_function(self.fn, self.returns)

    def cuda_source(self, target: str, tid: str = "") -> str:
        """Return the source of a device function for numba-cuda, as :func:`to_cuda_function` prints it."""
        return to_cuda_function(self.lowered(target), self.returns, self.arguments, tid=tid)


_CALLED = Settings(launched=False)


def device_function(
    pyfunc: Callable[..., object],
    form: RequestedForm,
    given: Sequence[Argument | None],
    target: str = "native",
) -> DeviceFunction:
    """Compile to IR.

    Parameters
    ----------
    pyfunc : callable
        The Python function of a func or kernel.
    form : Form
        The value, a derivative, or a thread.
    given : sequence of Argument
        The types of the arguments: for ``VJP`` those of the func, then of a cotangent for each floating-point result;
        for ``THREAD_ADJOINT`` those of the kernel, then for each a cotangent's, None where none is wanted.
    target : str
        The target whose limits hold.

    Raises
    ------
    KernelError
        If the arguments do not fit, or the function cannot be compiled or differentiated.
    """
    code = pyfunc.__code__
    with compiling(pyfunc.__name__, Loc(code.co_filename, code.co_firstlineno, 0)):
        try:
            return _MAKERS[form](pyfunc, given, target)
        except KernelError as error:
            # Errors of types have no line of their own, and a group of errors has one for each.
            if error.loc is None and error.errors == (error,):
                error.loc = _loc(pyfunc)
            raise


def library_function(
    function: Composed, given: Sequence[Type | DType | type], keywords: Mapping[str, Type | DType | type]
) -> DeviceFunction:
    """Compile a library function to IR, for the types of its arguments, or those that are types, in order and by name.

    Raises
    ------
    KernelError
        If they do not fit.
    """
    with compiling(function.name):
        fn, together = lower_library(function, given, keywords)
        fn = optimise(run(ONE_CALL, PLAIN.done("lower", WRITTEN, without_assertions(fn))))
        return _device(fn, _whole(len(fn.body.yields), together), fn.params)


def _device(fn: Function, returns: Structure, given: Sequence[object]) -> DeviceFunction:
    # A None that is passed has no parameter in the IR, so positions are counted without it.
    position = iter(range(len(fn.params)))
    return DeviceFunction(fn, returns, tuple(None if t is None else next(position) for t in given))


def _name(pyfunc: Callable[..., object]) -> str:
    return pyfunc.__name__


def _loc(pyfunc: Callable[..., object]) -> Loc:
    source = get_source(pyfunc)
    return source.loc(source.node)


# -- funcs -------------------------------------------------------------------------------------------------------------


def result_types(pyfunc: Callable[..., object], given: Sequence[Argument]) -> tuple[Type | Struct, ...]:
    """Return the types of what a func returns for arguments of types, structs among them.

    Raises
    ------
    KernelError
        If the arguments do not fit, or the function cannot be compiled.
    """
    code = pyfunc.__code__
    with compiling(pyfunc.__name__, Loc(code.co_filename, code.co_firstlineno, 0)):
        return returned_types(pyfunc, _converted(pyfunc, given))


def _lowered(pyfunc: Callable[..., object], given: Sequence[Argument | None]) -> tuple[Function, bool]:
    """A func for the types of its arguments, converted to those of its annotations."""
    fn, together = lower_func(pyfunc, _converted(pyfunc, given))
    return run(ONE_CALL, PLAIN.done("lower", WRITTEN, without_breakpoints(fn))), together


def _converted(pyfunc: Callable[..., object], given: Sequence[Argument | None]) -> list[Argument]:
    """The types of arguments as the annotations of a func have them."""
    whole = signature(pyfunc)
    needed = sum(not p.has_default for p in whole.params)
    if not needed <= len(given) <= len(whole.params):
        names = ", ".join(p.name for p in whole.params)
        takes = f"{needed}" if needed == len(whole.params) else f"{needed} to {len(whole.params)}"
        raise KernelTypeError(
            f"{_name(pyfunc)} takes {takes} arguments ({names}), not {len(given)}",
            loc=_loc(pyfunc),
            remedy=f"write {_name(pyfunc)}({names})",
        )
    # Parameters that are left to their defaults have no types here.
    return replace(whole, params=whole.params[: len(given)]).match([t for t in given if t is not None])


def _whole(count: int, together: bool, start: int = 0) -> Structure:
    """All of some values: None, one, or a tuple."""
    if together or count > 1:
        return tuple(range(start, start + count))
    return start if count else None


def _value(pyfunc: Callable[..., object], given: Sequence[Argument | None], target: str) -> DeviceFunction:
    fn, together = _lowered(pyfunc, given)
    return _device(optimise(fn), _whole(len(fn.body.yields), together), given)


def _active(fn: Function) -> list[int]:
    return [k for k, p in enumerate(fn.params) if not isinstance(p.type, Array) and is_differentiable(p.type)]


def _differentiated(fn: Function, target: str) -> tuple[Function, int]:
    """The value and the partial derivatives, and how many these are."""
    active = _active(fn)
    if not active:
        raise AutodiffError(
            f"{fn.name} has no floating-point argument to differentiate for: it is given "
            + (", ".join(str(p.type) for p in fn.params) or "nothing"),
            loc=fn.loc,
            remedy="pass floats; an array's elements have derivatives in the adjoint of a kernel",
        )
    if not any(is_differentiable(y.type) for y in fn.body.yields):
        raise AutodiffError(
            f"{fn.name} returns no floating-point value to differentiate",
            loc=fn.loc,
            remedy="return a float, or call the func itself: whole numbers have no derivative",
        )
    # A caller's thread has no tape, so all residuals are kept on the stack of the function.
    budget = target_named(target).stack_budget(None, None)
    swept = reverse_func(prepare(fn), active, budget, partial(run, NORMALISE_MAP)).tidied()
    return run(CLEAN, PLAIN.done("reverse", ADJOINT, swept.function())), len(active)


def _vjp(pyfunc: Callable[..., object], given: Sequence[Argument | None], target: str) -> DeviceFunction:
    names = signature(pyfunc).params
    for taken in range(len(names), -1, -1):
        # Which arguments are cotangents depends on how many results there are, where parameters have defaults.
        if taken <= len(given) and (taken == len(names) or names[taken].has_default):
            fn, together = _lowered(pyfunc, given[:taken])
            wanted = [y.type for y in fn.body.yields if is_differentiable(y.type)]
            if len(given) - taken == len(wanted):
                break
    else:
        fn, together = _lowered(pyfunc, given[: len(names)])
        wanted = [y.type for y in fn.body.yields if is_differentiable(y.type)]
        raise KernelTypeError(
            f"{_name(pyfunc)}.vjp takes the arguments of {_name(pyfunc)} and one cotangent for each floating-point "
            f"result, which are {len(wanted)}; it was given {len(given)} arguments",
            loc=_loc(pyfunc),
            remedy=f"write {_name(pyfunc)}.vjp({', '.join([*(p.name for p in names), *['1.0'] * len(wanted)])})",
        )
    # Checked before differentiation, so that a wrong argument is not reported as an error in the func.
    for t, want in zip(given[taken:], wanted, strict=True):
        _check_cotangent(pyfunc, t, want)
    count = len(fn.body.yields)
    adjoint, partials = _differentiated(fn, target)
    return _device(adjoint, (_whole(count, together), _whole(partials, False, count)), given)


def _check_cotangent(pyfunc: Callable[..., object], given: Argument | None, want: object) -> None:
    fits = given == want
    if isinstance(given, Scalar) and isinstance(want, Scalar):
        fits = True  # any number is converted, as for a parameter
    if not fits:
        raise KernelTypeError(
            f"a cotangent of {_name(pyfunc)} is {want}, as its result, not {given}",
            loc=_loc(pyfunc),
            remedy=f"pass a {want}",
        )


def _grad(pyfunc: Callable[..., object], given: Sequence[Argument | None], target: str) -> DeviceFunction:
    fn, together = _lowered(pyfunc, given)
    # A tuple of one value is no number.
    single = len(fn.body.yields) == 1 and not together
    if not single or not isinstance(fn.body.yields[0].type, Scalar):
        shown = ", ".join(str(y.type) for y in fn.body.yields) or "nothing"
        raise AutodiffError(
            f"{fn.name}.grad: {fn.name} returns {shown}, and a gradient is that of one floating-point number",
            loc=fn.loc,
            remedy=f"use {fn.name}.vjp(…), with a cotangent for each result",
        )
    adjoint, partials = _differentiated(fn, target)
    return _device(_with_unit_seed(adjoint), _whole(partials, False), given)


def _jvp(pyfunc: Callable[..., object], given: Sequence[Argument | None], target: str) -> DeviceFunction:
    count = len(signature(pyfunc).params)
    fn, together = _lowered(pyfunc, given[:count])
    wanted = [fn.params[k].type for k in _active(fn)]
    if len(given) - count != len(wanted):
        raise KernelTypeError(
            f"{_name(pyfunc)}.jvp takes the arguments of {_name(pyfunc)} and one tangent for each floating-point "
            f"argument by value, which are {len(wanted)}; it was given {len(given)} arguments",
            loc=_loc(pyfunc),
            remedy="give a tangent for each floating-point argument, behind the arguments, as in f.jvp(x, y, 1.0, 0.0)",
        )
    for t, want in zip(given[count:], wanted, strict=True):
        _check_cotangent(pyfunc, t, want)
    smooth, returned = sum(is_differentiable(y.type) for y in fn.body.yields), len(fn.body.yields)
    if not wanted or not smooth:
        _differentiated(fn, target)  # says what is missing
    # Tangents come behind the arguments, one for each active parameter, in order.
    made = FUNCS.tangents(fn, _active(fn))
    shape = (_whole(returned, together), _whole(smooth, False, returned))
    return _device(made, shape, given)


def _with_unit_seed(adjoint: Function) -> Function:
    """The partial derivatives alone, of an adjoint with one result and one cotangent."""
    b, seed = Builder(), adjoint.params[-1]
    assert isinstance(seed.type, Scalar)
    # The seed becomes a constant, which folding then removes from all products.
    cloner = Cloner(b, {seed: b.const(1.0, seed.type)})
    cloner.ops(adjoint.body.ops)
    b.region.yields = cloner.values(adjoint.body.yields[1:])
    name = f"{adjoint.name.removesuffix('_vjp')}_grad"
    return run(CLEAN, replace(adjoint, name=name, params=adjoint.params[:-1], body=b.region), PLAIN)


# -- threads of kernels ------------------------------------------------------------------------------------------------


def _of_one_thread(fn: Function) -> Function:
    """A kernel as it is, or an error where threads work together."""
    if is_simt(fn) or any(lookup(op.name).family in ("block", "warp", "tile") for op in walk(fn.body)):
        op = next(op for op in walk(fn.body) if lookup(op.name).family in ("block", "warp", "tile"))
        raise KernelTypeError(
            f"the threads of a block of {fn.name} work together, so none of them can be called by itself",
            loc=op.loc,
            remedy="launch the kernel",
        )
    return fn


def _typed(pyfunc: Callable[..., object], given: Sequence[Argument | None]) -> tuple[Argument, ...]:
    whole = signature(pyfunc)
    if any(t is None for t in given):
        raise KernelTypeError(
            f"{_name(pyfunc)} takes no None",
            loc=_loc(pyfunc),
            remedy="pass a number or an array; None is for parameters of kernels",
        )
    return tuple(whole.match([t for t in given if t is not None]))


def _variant(target: str, active: frozenset[int] | None = None) -> Variant:
    return Variant(target=target, active=active)


def _thread(pyfunc: Callable[..., object], given: Sequence[Argument | None], target: str) -> DeviceFunction:
    # Threads that cooperate would wait for others which nobody runs.
    fn = _of_one_thread(lower_kernel(pyfunc, _typed(pyfunc, given), _variant(target)))
    return _device(optimise(fn), None, given)


def _thread_adjoint(pyfunc: Callable[..., object], given: Sequence[Argument | None], target: str) -> DeviceFunction:
    count = len(signature(pyfunc).params)
    if len(given) != 2 * count:
        names = [p.name for p in signature(pyfunc).params]
        shown = ", ".join([*names, *(f"ct_{n}" for n in names)])
        raise KernelTypeError(
            f"{_name(pyfunc)}.thread_adjoint takes the thread's index, the {count} arguments of {_name(pyfunc)} and a "
            f"cotangent for each; it was given {len(given)} arguments besides the index",
            loc=_loc(pyfunc),
            remedy=f"write {_name(pyfunc)}.thread_adjoint(i, {shown}), with None for a cotangent that is not wanted",
        )
    types = _typed(pyfunc, given[:count])
    active = frozenset(k for k, t in enumerate(given[count:]) if t is not None)
    for k in sorted(active):
        _check_buffer(pyfunc, k, types[k], given[count + k])
    variant = _variant(target, active)
    fn = _of_one_thread(lower_kernel(pyfunc, types, variant))
    d = differentiate(prepare(fn), active, variant)
    # No launch is there to copy an array before it is overwritten.
    if d.saved:
        name = fn.params[d.saved[0]].name
        raise AutodiffError(
            f"the adjoint of {fn.name} needs what {name} held before the launch, which {fn.name} overwrites",
            loc=fn.loc,
            remedy=f"write to another array than {name}, or launch the kernel on a dk.Tape, which keeps a copy",
        )
    # The caller may run threads concurrently, so every cotangent that could be shared is accumulated atomically.
    shared = [b for b, c in zip(d.buffers, d.conflicts, strict=True) if c.kind != "none"]
    use_atomics(d.fn, shared)
    return _device(d.fn, None, given)


def _check_buffer(pyfunc: Callable[..., object], k: int, t: Argument, given: Argument | None) -> None:
    """Check a cotangent's type: an array like the argument, or of one element for an argument by value."""
    parameter = f"{signature(pyfunc).params[k].name} of {_name(pyfunc)}"
    if isinstance(t, (Stack, Struct, StructArray, IndexedArray)) or not is_differentiable(t):
        raise KernelTypeError(
            f"{parameter} is {t} and has no cotangent", loc=_loc(pyfunc), remedy="pass None in its place"
        )
    element, ndim = (t.dtype, t.ndim) if isinstance(t, Array) else (value_type(t), 1)
    if not isinstance(given, Array) or (given.dtype, given.ndim) != (element, ndim):
        what = f"{ndim} {'axis' if ndim == 1 else 'axes'}, as it has" if isinstance(t, Array) else "one element"
        raise KernelTypeError(
            f"the cotangent of {parameter} is an array of {element} with {what}, not {given}",
            loc=_loc(pyfunc),
            remedy="pass None where no cotangent is wanted",
        )


_Maker: TypeAlias = "Callable[[Callable[..., object], Sequence[Argument | None], str], DeviceFunction]"
_MAKERS: dict[RequestedForm, _Maker] = {
    RequestedForm.VALUE: _value,
    RequestedForm.GRAD: _grad,
    RequestedForm.VJP: _vjp,
    RequestedForm.JVP: _jvp,
    RequestedForm.THREAD: _thread,
    RequestedForm.THREAD_ADJOINT: _thread_adjoint,
}
