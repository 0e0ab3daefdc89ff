"""numba-cuda, used only here and in :mod:`diffkern.targets.cuda.device_library`, which serves readable source.

The source of a module with a kernel, and the types of its parameters, give the LLVM modules that numba-cuda makes of
it, as text. Nothing is compiled for a present device: device functions take the architecture from the kernel.
"""

from __future__ import annotations

import functools
import importlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.errors import CompileError
from diffkern.ir.types import BFLOAT16, BOOL, Array, Mat, Scalar, Type, Vec, scalar_of
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import free_in_child
from diffkern.targets.cuda import elementary
from diffkern.targets.cuda.body import SHARED_MEMORY
from diffkern.targets.cuda.libdevice import INSTALL
from diffkern.targets.cuda.registers import approximate
from diffkern.targets.emit.loops import not_unrolled
from diffkern.targets.emit.types import F32
from diffkern.targets.numba_cuda.entry import KERNEL, KernelEntry
from diffkern.targets.numba_cuda.forms import forms, product

__all__ = ["Modules", "Numba", "compiling_for", "finish", "numba", "to_llvm"]

_lock = free_in_child(threading.Lock())
_asked = threading.local()
_I64 = ir.IntType(64)
_NEGATION = re.compile(r"= fneg ((?:\w+ )*(?:float|double)) ")


@dataclass(frozen=True)
class Modules:
    """The LLVM modules that numba-cuda makes of a kernel.

    Attributes
    ----------
    texts : tuple of str
        LLVM modules, in the dialect of libNVVM.
    kernel : str
        The name of the kernel.
    """

    texts: tuple[str, ...]
    kernel: str


@dataclass(frozen=True, eq=False)
class Numba:
    """The modules of numba-cuda that are used, by the last part of their names."""

    cuda: Any
    cgutils: Any
    compiler: Any
    dispatcher: Any
    extending: Any
    nvvm: Any
    types: Any
    typing: Any


@functools.cache
def numba() -> Numba:
    """Return the modules of numba-cuda that are used.

    Raises
    ------
    CompileError
        If it is not installed, does not work with this NumPy, or numba's simulator stands in its place.
    """
    names = ("cgutils", "compiler", "cudadrv.nvvm", "dispatcher", "extending", "typing", "types")
    try:
        # What puts it in place of numba's own module: a .pth file loads that, but from site-packages alone.
        importlib.import_module("_numba_cuda_redirector")
        cuda = importlib.import_module("numba.cuda")
        if importlib.import_module("numba").config.ENABLE_CUDASIM:
            raise CompileError(
                "numba-cuda compiles nothing in a process that was started with NUMBA_ENABLE_CUDASIM=1",
                remedy='take compiler="llvm", or leave the variable out',
            )
        found = {name.rpartition(".")[2]: importlib.import_module(f"numba.cuda.{name}") for name in names}
        importlib.import_module("numba.cuda.cudaimpl")  # which needs functions that a later NumPy has removed
    except ImportError as error:
        raise CompileError(f"numba-cuda is not installed: {error}", remedy=INSTALL) from error
    except AttributeError as error:
        version = importlib.import_module("numpy").__version__
        raise CompileError(f"numba-cuda does not work with NumPy {version}: {error}", remedy=INSTALL) from error
    _give_architecture(found["dispatcher"])
    return Numba(cuda=cuda, **found)


def _give_architecture(dispatcher: Any) -> None:
    """Make numba-cuda compile device functions for the architecture of this thread, and else for the device."""
    current = dispatcher.get_current_device

    def device() -> Any:
        # Per thread, as several may compile for different architectures.
        asked = getattr(_asked, "architecture", None)
        return current() if asked is None else SimpleNamespace(compute_capability=asked)

    dispatcher.get_current_device = device


@contextmanager
def compiling_for(architecture: tuple[int, int]) -> Iterator[None]:
    """Let this thread compile device functions for an architecture, whatever device there is."""
    numba()  # which asks for the architecture
    before = getattr(_asked, "architecture", None)
    _asked.architecture = architecture
    try:
        yield
    finally:
        _asked.architecture = before


def to_llvm(
    source: str,
    name: str,
    entry: KernelEntry,
    *,
    architecture: tuple[int, int],
    flags: tuple[str, ...] = (),
    launch_bounds: tuple[int, int] | None = None,
    max_registers: int | None = None,
    no_alias: bool = False,
    alignments: Mapping[int, int] | None = None,
    products: Mapping[str, tuple[str, bool]] | None = None,
) -> Modules:
    """Compile the source of a kernel as far as LLVM's language.

    Parameters
    ----------
    source : str
        A module that has the kernel, as it is printed.
    name : str
        The kernel's name in it.
    entry : Entry
        The kernel that a launch calls.
    architecture : (int, int)
        The lowest architecture that the code is for.
    flags : tuple of str, optional
        LLVM's flags for floating point.
    launch_bounds : (int, int), optional
        The most threads of a block, and the fewest blocks of a multiprocessor.
    max_registers : int, optional
        The most registers of a thread.
    no_alias : bool, optional
        Whether no two arrays overlap.
    alignments : mapping, optional
        For the number of a parameter the bytes to which the array's first element is aligned.
    products : mapping, optional
        For names that the source takes as given the library's function that multiplies tiles, and whether in float64.
    """
    found = numba()
    # One compilation at a time: numba-cuda keeps global state, and its modules are changed here.
    with _lock, compiling_for(architecture):
        namespace: dict[str, Any] = {key: product(found, *one) for key, one in (products or {}).items()}
        exec(compile(source, f"<diffkern {name}>", "exec"), namespace)
        fast = "afn" in flags
        # Device functions of its own, so that what is done to their modules is done to no others.
        own = {
            key: found.cuda.jit(device=True, forceinline=True, fastmath=fast)(value.py_func)
            for key, value in namespace.items()
            if isinstance(value, found.dispatcher.CUDADispatcher)
        }
        namespace.update(own)
        namespace.update(forms(found, flags, namespace))
        # The entry calls the readable kernel as a device function, which is inlined.
        outer: dict[str, Any] = {KERNEL: namespace[name]}
        outer.update((made.name, _maker(found, made.type, made.slots)) for made in entry.made)
        exec(compile(entry.source, f"<diffkern entry of {name}>", "exec"), outer)
        library, _ = found.compiler._compile_pyfunc_with_fixup(
            outer[entry.name],
            found.types.void(*_slot_types(found, entry)),
            device=False,
            abi="numba",
            cc=architecture,
            fastmath=fast,
            launch_bounds=tuple(n for n in launch_bounds if n) if launch_bounds else None,
        )
        kernel = library.get_function(library._entry_name)
        _describe(kernel, entry, no_alias, alignments or {})
        if max_registers is not None:
            # The compilation above has no option for it, so the annotation is added by hand.
            marks = kernel.module.add_metadata([kernel, "maxnreg", ir.IntType(32)(max_registers)])
            found.cgutils.get_or_insert_named_metadata(kernel.module, "nvvm.annotations").add(marks)
        # The finished modules are those of the copies made above.
        for function in own.values():
            for compiled in function.overloads.values():
                finish(compiled.library._module)
        texts = tuple(_old(found.nvvm.llvm_replace(str(module))) for module in _modules(library))
    return Modules(texts, library._entry_name)


def _old(text: str) -> str:
    """Return the text of a module in the language of LLVM 7, which negates by subtraction."""
    return _NEGATION.sub(r"= fsub \1 0x8000000000000000, ", text)


def _modules(library: Any) -> list[Any]:
    return [library._module, *(one._module for one in library.linking_libraries)]


def _describe(kernel: Any, entry: KernelEntry, no_alias: bool, alignments: Mapping[int, int]) -> None:
    """Attach to the kernel's pointers the properties that the launch ensures."""
    for slot, parameter in entry.pointers:
        attributes = kernel.args[slot].attributes
        if no_alias:
            attributes.add("noalias")
        if parameter in alignments:
            attributes.align = alignments[parameter]


# -- parameters --------------------------------------------------------------------------------------------------------


def _scalar(found: Any, s: Scalar) -> Any:
    """Return numba's type of a scalar in memory."""
    name = "boolean" if s == BOOL else "uint16" if s == BFLOAT16 else s.name
    return getattr(found.types, name)


def _components(t: Type) -> int | None:
    return t.size if isinstance(t, (Vec, Mat)) else None


def _array(found: Any, t: Array) -> Any:
    axes = t.ndim + (_components(t.dtype) is not None)
    return found.types.Array(_scalar(found, scalar_of(t)), axes, "C" if t.layout == "C" else "A")


def _slot_types(found: Any, entry: KernelEntry) -> list[Any]:
    types: list[Any] = [found.types.int64] * entry.slots
    for slot, parameter in entry.pointers:
        types[slot] = found.types.CPointer(_scalar(found, scalar_of(entry.made[parameter].type)))
    return types


def _maker(found: Any, t: Type, slots: int) -> Any:
    """Return a function of numba that makes a parameter from its slots."""
    if isinstance(t, Array):
        made, emit = _array(found, t), functools.partial(_make_array, found, t)
    else:
        passed = abi.passed_type(t)
        element = _scalar(found, scalar_of(passed))
        count = _components(passed)
        made = element if count is None else found.types.UniTuple(element, count)
        emit = functools.partial(_make_value, element, count)
    return _intrinsic(found, made, slots, lambda context, builder, args: emit(made, context, builder, args))


def _intrinsic(found: Any, result: Any, count: int, emit: Callable[[Any, Any, list[Any]], Any]) -> Any:
    names = ", ".join(f"slot_{k}" for k in range(count))

    def generate(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        return emit(context, builder, args)

    namespace: dict[str, Any] = {"typed": lambda *args: (found.typing.signature(result, *args), generate)}
    exec(f"def made(context, {names}):\n    return typed({names})\n", namespace)
    return found.extending.intrinsic(namespace["made"])


def _make_array(found: Any, t: Array, made: Any, context: Any, builder: Any, args: list[Any]) -> Any:
    """Return numba's array from an address, a shape and strides; components are its last axis."""
    data, shape, strides = args[0], args[1 : 1 + t.ndim], args[1 + t.ndim :]
    size, count = scalar_of(t).itemsize, _components(t.dtype)
    if count is not None:
        shape, strides = [*shape, _I64(count)], [*strides, _I64(size)]
    array = context.make_array(made)(context, builder)
    to_pointer = builder.bitcast if data.type.is_pointer else builder.inttoptr
    data = to_pointer(data, array.data.type)
    context.populate_array(array, data=data, shape=shape, strides=strides, itemsize=_I64(size), meminfo=None)
    return array._getvalue()


def _make_value(element: Any, count: int | None, made: Any, context: Any, builder: Any, args: Sequence[Any]) -> Any:
    """Return a number, or the tuple of a composite's components, from the bytes in its slots."""
    bits = 8 if element.name == "bool" else element.bitwidth
    each = 64 // bits
    parts = []
    for k in range(count or 1):
        # A slot has 8 bytes, so it holds several narrow components.
        word = args[k // each]
        if k % each:
            word = builder.lshr(word, _I64(k % each * bits))
        parts.append(_number(element, context, builder, word, bits))
    return parts[0] if count is None else context.make_tuple(builder, made, parts)


def _number(element: Any, context: Any, builder: Any, word: Any, bits: int) -> Any:
    if bits < 64:
        word = builder.trunc(word, ir.IntType(bits))
    if element.name == "bool":
        return builder.icmp_unsigned("!=", word, word.type(0))
    held = context.get_value_type(element)
    return builder.bitcast(word, held) if element.name.startswith("float") else word


# -- changes of modules ------------------------------------------------------------------------------------------------
# Changes to modules that numba offers no option for: division in float32, and which loops are copied.
#
# An LLVM module that numba-cuda made from printed source is changed in place. Float32 is divided as the other compiler
# does it; NVIDIA's correctly rounded form takes ten times the instructions. No loop is unrolled: libNVVM makes six
# times the instructions of some by it. Nor is a loop duplicated for the outcomes of a condition that it does not
# change: that doubles its atomic operations.


def finish(module: Any) -> None:
    """Change a module, once."""
    for variable in module.global_values:
        if isinstance(variable, ir.GlobalVariable) and variable.addrspace == SHARED_MEMORY:
            variable.align = 16  # a library's products ask for it
    for function in tuple(module.functions):
        place = {block: k for k, block in enumerate(function.blocks)}
        for k, block in enumerate(function.blocks):
            for instruction in tuple(block.instructions):
                if instruction.opname == "fdiv" and instruction.type == F32:
                    _divide(block, instruction)
            end = block.terminator
            # A branch to an earlier block closes a loop.
            goes_back = any(place[b] <= k for b in getattr(end, "operands", ()) if isinstance(b, ir.Block))
            if goes_back and "llvm.loop" not in end.metadata:
                not_unrolled(module, end)
                _hold(block)


def _divide(block: Any, instruction: Any) -> None:
    b = ir.IRBuilder(block)
    b.position_before(instruction)
    fast = "fast" in instruction.flags
    value = approximate(b, "div", *instruction.operands) if fast else elementary.divide(b, *instruction.operands)
    block.instructions.remove(instruction)
    value._name = instruction._name  # those who use it know its name


def _hold(block: Any) -> None:
    """End a block with an empty instruction that no compiler may copy to where fewer threads are."""
    b = ir.IRBuilder(block)
    b.position_before(block.terminator)
    nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), ()), "", "", side_effect=True)
    b.call(nothing, (), attrs=("convergent",))
