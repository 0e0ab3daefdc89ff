"""Calls from functions that ``numba.njit`` compiles: LLVM code of the function, linked into the caller's.

It is the code of the CPU's target, with its elementary functions, which vectorise; LLVM inlines it. ``fastmath`` of the
caller applies to it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import cgutils, errors, types
from numba.core.imputils import lower_constant
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import AttributeTemplate, infer_getattr, signature
from numba.extending import (
    NativeValue,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)

from diffkern.host.device_functions import DeviceFunction
from diffkern.interop.numba.calls import (
    CompiledCall,
    NumbaLibrary,
    TypedCall,
    Types,
    attributes,
    make_types,
    numba_type,
)
from diffkern.ir import types as T
from diffkern.lang.called import KnownToNumba
from diffkern.printing.functions import Structure
from diffkern.targets.cpu.function import emit_function, result_place
from diffkern.targets.cpu.object_code import machine
from diffkern.targets.emit.types import value_type

__all__ = ["type_of"]

TARGET = "native"
_UNCACHED = "numba.dynamic.globals.diffkern"
"""numba keeps no machine code with a global of such a name on disk. It would not notice that a func has changed."""


def type_of(known: KnownToNumba) -> Any:
    """Return numba's type of a func, a kernel, or a form of one."""
    return numba_type(_registered(), known)


@functools.cache
def _registered() -> Types:
    """Return the types, registered with numba with their attributes and constants; once for a process."""
    made = make_types(NumbaLibrary(types, errors, TARGET, lambda: None), _compiled)
    # The objects have no data at run time: a call is emitted from the type alone.
    for one in made:
        register_model(one)(models.OpaqueModel)
        lower_constant(one)(_dummy)
        unbox(one)(lambda t, obj, c: NativeValue(c.context.get_dummy_value()))
        lower_getattr_generic(one)(lambda context, builder, t, value, attribute: context.get_dummy_value())
        infer_getattr(attributes(AttributeTemplate, one, made))
    # A function is being compiled: what has been registered counts for it, too.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    return made


def _dummy(context: Any, builder: Any, t: Any, value: Any) -> Any:
    return context.get_dummy_value()


# -- a call ------------------------------------------------------------------------------------------------------------


def _compiled(call: TypedCall) -> CompiledCall:
    """Register the function that emits a call."""
    fn = call.made.lowered(TARGET)
    low = DeviceFunction(fn, call.made.returns, call.made.arguments)
    key = _CallKey()

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        # Known only while the caller is being lowered, so the function is linked then, in the variant that it needs.
        flags = ConfigStack.top_or_none()
        fast = flags is not None and "fast" in flags.fastmath.flags
        return _emit(context, builder, call, low, args, _linked(context, low, fast))

    lower_builtin(key, types.VarArg(types.Any))(emit)
    return CompiledCall(signature(call.result, *call.arguments), key)


class _CallKey:
    """A key in numba's table of the functions that emit calls."""


@functools.cache
def _linked(context: Any, low: DeviceFunction, fast: bool) -> tuple[str, Any]:
    """Return the symbol of a function, and numba's library that has it."""
    isa = machine(TARGET).isa
    text = emit_function(low.fn, "f", isa, fast_math=fast)
    # The symbol names the content: callers of two versions of a func may be linked into one program.
    symbol = f"diffkern_{low.fn.name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return symbol, _library(context, symbol, emit_function(low.fn, symbol, isa, fast_math=fast))


_libraries: dict[str, Any] = {}


def _library(context: Any, symbol: str, text: str) -> Any:
    if symbol not in _libraries:
        library = context.codegen().create_library(symbol)
        library.add_llvm_module(llvm.parse_assembly(text))
        library.finalize()
        _libraries[symbol] = library
    return _libraries[symbol]


def _emit(context: Any, b: Any, call: TypedCall, low: DeviceFunction, args: Any, linked: tuple[str, Any]) -> Any:
    """Emit a call of the linked function; return numba's value of its result."""
    symbol, library = linked
    given, passed = list(zip(call.arguments, args, strict=True)), []
    if call.called.form.of_kernel:
        t, index = given.pop(0)
        axes = list(cgutils.unpack_tuple(b, index)) if call.tid == "tuple" else [index]
        passed += axes[: low.fn.tid_arity]
    for position, (t, value) in zip(low.arguments, given, strict=True):
        if position is not None:
            passed += _passed(context, b, low.fn.params[position].type, t, value)
    count = sum(_size(y.type) for y in low.fn.body.yields)
    # The function returns its results through memory, one word for each number: LLVM removes it after inlining.
    results = cgutils.alloca_once(b, ir.ArrayType(ir.IntType(64), max(1, count)))
    function_type = ir.FunctionType(ir.VoidType(), [*(v.type for v in passed), results.type])
    b.call(cgutils.get_or_insert_function(b.module, function_type, symbol), [*passed, results])
    context.add_linking_libs([library])
    _keep_from_disk(b.module)
    places = iter(range(count))
    loaded = [_loaded(b, results, y.type, places) for y in low.fn.body.yields]
    return _given_back(context, b, call.result, low.returns, loaded)


def _size(t: T.Type) -> int:
    return t.size if isinstance(t, (T.Vec, T.Mat)) else 1


def _scalars(b: Any, value: Any) -> list[Any]:
    """Return the numbers of a value, which may be a tuple of tuples."""
    if isinstance(value.type, (ir.ArrayType, ir.LiteralStructType)):
        return [x for part in cgutils.unpack_tuple(b, value) for x in _scalars(b, part)]
    return [value]


def _passed(context: Any, b: Any, t: T.Type, given: Any, value: Any) -> list[Any]:
    """Return the function's parameters for an argument."""
    if not isinstance(t, T.Array):
        return _scalars(b, value)
    array = context.make_array(given)(context, b, value=value)
    shape, strides = cgutils.unpack_tuple(b, array.shape), cgutils.unpack_tuple(b, array.strides)
    if isinstance(t.dtype, (T.Vec, T.Mat)):
        for extent, wanted in zip(shape[t.ndim :], t.dtype.shape, strict=True):
            # Checked when it runs: numba's type has no extents.
            with b.if_then(b.icmp_signed("!=", extent, ir.Constant(extent.type, wanted)), likely=False):
                message = f"the last axes of an array of {t.dtype} have the extents {t.dtype.shape}"
                context.call_conv.return_user_exc(b, ValueError, (message,))
    return [array.data, *shape[: t.ndim], *strides[: t.ndim]]


def _loaded(b: Any, results: Any, t: T.Type, places: Iterator[int]) -> list[Any]:
    """Return the numbers of a result."""
    scalar = value_type(T.scalar_of(t))
    return [b.load(result_place(b, results, next(places)), typ=scalar) for _ in range(_size(t))]


def _given_back(context: Any, b: Any, t: Any, returns: Structure, loaded: list[list[Any]]) -> Any:
    """Return numba's value of the result."""
    if returns is None:
        return context.get_dummy_value()
    if isinstance(returns, tuple):
        parts = [_given_back(context, b, inner, part, loaded) for inner, part in zip(t.types, returns, strict=True)]
        return context.make_tuple(b, t, parts)
    return _tuple(context, b, t, iter(loaded[returns]))


def _tuple(context: Any, b: Any, t: Any, numbers: Iterator[Any]) -> Any:
    parts = getattr(t, "types", None)
    if parts is None:
        return next(numbers)
    return context.make_tuple(b, t, [_tuple(context, b, inner, numbers) for inner in parts])


def _keep_from_disk(module: Any) -> None:
    """Keep numba from caching the caller on disk, and the callers of that."""
    if _UNCACHED not in module.globals:
        mark = ir.GlobalVariable(module, ir.IntType(8), _UNCACHED)
        mark.linkage, mark.initializer = "weak", ir.Constant(ir.IntType(8), 0)
