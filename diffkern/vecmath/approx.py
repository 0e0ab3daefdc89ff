"""The list of functions, and their evaluation by either emitter.

:func:`declare` defines a function in an LLVM module; :func:`evaluate` applies it to NumPy arrays.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from llvmlite import ir

from diffkern.ir.ops.table import lookup
from diffkern.process.interrupts import interruptible
from diffkern.vecmath import error_function, explog, hyper, inverse, trig
from diffkern.vecmath.emitter import EmittedValue, Formula, Kind
from diffkern.vecmath.llvm_emitter import LLVMEmitter, vector_type
from diffkern.vecmath.masked import variants
from diffkern.vecmath.numpy_emitter import NumpyEmitter

DType = Literal["float32", "float64"]

FORMULAS: dict[str, Formula] = {
    "sin": trig.sin,
    "cos": trig.cos,
    "tan": trig.tan,
    "exp": explog.exp,
    "exp2": explog.exp2,
    "expm1": explog.expm1,
    "log": explog.log,
    "log2": explog.log2,
    "log10": explog.log10,
    "log1p": explog.log1p,
    "pow": explog.power,
    "cbrt": explog.cbrt,
    "sinh": hyper.sinh,
    "cosh": hyper.cosh,
    "tanh": hyper.tanh,
    "asinh": hyper.asinh,
    "acosh": hyper.acosh,
    "atanh": hyper.atanh,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "atan2": inverse.atan2,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
}
NAMES: frozenset[str] = frozenset(FORMULAS)
"""The functions that :func:`declare` and :func:`evaluate` know."""

_KINDS: dict[str, Kind] = {"float32": "f32", "float64": "f64"}


def _kind_of(name: str, dtype: str) -> Kind:
    if name not in NAMES:
        raise ValueError(f"vecmath has no function {name!r}; it has {', '.join(sorted(NAMES))}")
    if dtype not in _KINDS:
        raise ValueError(f"vecmath works in float32 and float64, not in {dtype!r}")
    return _KINDS[dtype]


def evaluate(name: str, *args: npt.ArrayLike) -> npt.NDArray[Any]:
    """Evaluate a function on NumPy arrays, with the arithmetic of the compiled form.

    Parameters
    ----------
    name
        One of :data:`NAMES`.
    *args
        Arrays of one dtype, float32 or float64, that broadcast together.

    Returns
    -------
    ndarray
        The values, of the common shape (at least one dimension).
    """
    arrays = [np.atleast_1d(np.asarray(a)) for a in args]
    kind = _kind_of(name, arrays[0].dtype.name)
    if any(a.dtype != arrays[0].dtype for a in arrays):
        raise ValueError(f"{name}: the arguments have different dtypes, {[a.dtype.name for a in arrays]}")
    emitter = NumpyEmitter(_evaluate_out_of_line)
    with np.errstate(all="ignore"):
        result = FORMULAS[name](*(EmittedValue(emitter, kind, a) for a in arrays))
    return np.asarray(result.raw)


def _evaluate_out_of_line(name: str, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    emitter = NumpyEmitter(_evaluate_out_of_line)
    return np.asarray(trig.OUT_OF_LINE[name](EmittedValue(emitter, _KINDS[x.dtype.name], x)).raw)


@functools.cache
def host_has_fma() -> bool:
    """Return whether this machine has a fused multiply-add instruction."""
    if _host_triple().startswith(("aarch64", "arm64")):
        return True
    return interruptible(lambda: bool(llvm.get_host_cpu_features().get("fma", False)))


@functools.cache
def _host_triple() -> str:
    return interruptible(lambda: str(llvm.get_process_triple()))


def declare(
    module: ir.Module, name: str, dtype: DType, lanes: int = 1, *, fma: bool | None = None, masked: bool = False
) -> ir.Function:
    """Define the function in a module, once.

    Parameters
    ----------
    module
        Receives an internal, always inlined function ``dkm.<name>.<f32|f64>[.vN]``, and the functions and tables it
        needs.
    name
        One of :data:`NAMES`.
    dtype
        The dtype of the arguments and the result.
    lanes
        1: scalars.  Otherwise arguments and result are LLVM vectors of that many elements.
    fma
        Whether the target has a fused multiply-add instruction; by default, whether this machine has one.  A wrong
        answer costs speed, not correctness.
    masked
        Give the out-of-line functions vector forms (see ``masked.py``): for a caller who inlines them after
        vectorisation.

    Returns
    -------
    llvmlite.ir.Function
    """
    kind = _kind_of(name, dtype)
    if lanes < 1:
        raise ValueError(f"lanes must be at least 1, not {lanes}")
    full = f"dkm.{name}.{kind}" + ("" if lanes == 1 else f".v{lanes}")
    has_fma = host_has_fma() if fma is None else fma
    return _define(module, full, FORMULAS[name], lookup(name).arity or 0, kind, lanes, has_fma, "alwaysinline", masked)


def _define(
    module: ir.Module,
    full: str,
    formula: Formula,
    arity: int,
    kind: Kind,
    lanes: int,
    fma: bool,
    attribute: str,
    masked: bool,
) -> ir.Function:
    found = module.globals.get(full)
    if found is not None:
        return found
    value_type = vector_type(kind, lanes)
    function = ir.Function(module, ir.FunctionType(value_type, [value_type] * arity), full)
    function.linkage = "internal"
    # The functions touch no memory but constant tables; without these the vectoriser will not move the calls.
    for item in (attribute, "nounwind", "readnone"):
        function.attributes.add(item)
    if attribute == "noinline":
        # General registers survive the rare call. Vector registers would by preserve_allcc, but for their upper halves:
        # before such a function returns, LLVM 22 clears them where there is AVX. And LLVM 20 has none for aarch64.
        function.calling_convention = "preserve_mostcc"
        # The loop vectoriser gives up at a call without a vector form.  This names a masked one for 3 lanes, a number
        # it never picks: so it vectorises the loop, and leaves the call as a branch for each lane whose condition
        # holds.  llvmlite's list of attributes lacks this one, hence set.add.  If a linker renames the function, the
        # name here no longer fits, and the loop is merely not vectorised.
        forms = f"_ZGV_LLVM_M3v_{full}({full})"
        if masked:
            forms += "," + variants(module, function)
        set.add(function.attributes, f'"vector-function-abi-variant"="{forms}"')
    builder = ir.IRBuilder(function.append_basic_block())

    def out_of_line(slow: str, slow_kind: Kind) -> ir.Function:
        slow_name = f"dkm.{slow}.{slow_kind}"
        return _define(module, slow_name, trig.OUT_OF_LINE[slow], 1, slow_kind, 1, fma, "noinline", masked)

    emitter = LLVMEmitter(builder, lanes, fma, out_of_line)
    result = formula(*(EmittedValue(emitter, kind, argument) for argument in function.args))
    builder.ret(result.raw)
    return function
