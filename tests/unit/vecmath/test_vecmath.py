"""vecmath: error bounds against mpmath, special values, and the compiled form against the NumPy form."""

from __future__ import annotations

import ctypes
import math
import platform
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import pytest
from conftest import require
from llvmlite import ir
from support.ulps import BINARY, arguments, errors_in_ulp, samples, stated_errors, wide_errors

from diffkern import vecmath

Array = npt.NDArray[Any]
X86_64 = platform.machine().lower() in ("x86_64", "amd64")
HAS_AVX2 = X86_64 and all(llvm.get_host_cpu_features().get(name) for name in ("avx2", "fma"))
DTYPES = ("float32", "float64")
BOUNDS = stated_errors()


def same_bits(a: Array, b: Array) -> Array:
    """Where two arrays are the same, all nans being equal."""
    unsigned = np.uint32 if a.dtype == np.float32 else np.uint64
    return np.asarray((a.view(unsigned) == b.view(unsigned)) | (np.isnan(a) & np.isnan(b)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_error_bound(name: str, dtype: str) -> None:
    """No sample is further from the true value than the stated bound."""
    args = arguments(name, dtype, 60)
    got = vecmath.evaluate(name, *args)
    assert got.dtype == dtype
    errors = errors_in_ulp(name, args, got)
    worst = int(np.argmax(errors))
    where = [float(a[worst]) for a in args]
    assert errors[worst] <= BOUNDS[dtype][name], f"{name}{where} = {got[worst]!r}: {errors[worst]} ulp"


@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_error_bound_float32_dense(name: str) -> None:
    """Many float32 samples against NumPy in float64, whose own error does not count here."""
    args = arguments(name, "float32", 3000, seed=5)
    assert wide_errors(name, args, vecmath.evaluate(name, *args)).max() <= BOUNDS["float32"][name]


INF, NAN = math.inf, math.nan
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (800.0, INF), (-800.0, 0.0)],
    "exp2": [(0.0, 1.0), (INF, INF), (-INF, 0.0), (10.0, 1024.0), (-3.0, 0.125), (2000.0, INF), (-2000.0, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (800.0, INF)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (8.0, 3.0), (2.0**-126, -126.0)],
    "log10": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (1000.0, 3.0), (1e10, 10.0)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-2.0, NAN), (-INF, NAN)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (27.0, 3.0), (-8.0, -2.0)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-1.0, NAN), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN)],
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (7.0, 1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (30.0, 0.0), (-30.0, 2.0)],
}


def test_every_function_of_one_argument_has_special_values() -> None:
    """A new function cannot be forgotten above."""
    assert set(SPECIAL) | set(BINARY) == set(vecmath.NAMES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_values(name: str, dtype: str) -> None:
    """Exact results, with the sign of zero, and nan from nan."""
    x, want = (np.array(column, dtype=dtype) for column in zip(*SPECIAL[name], strict=True))
    got = vecmath.evaluate(name, x)
    assert same_bits(got, want).all(), f"{name}({x}) = {got}, not {want}"
    assert np.isnan(vecmath.evaluate(name, np.array([NAN], dtype=dtype))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_special_pairs_follow_c99(name: str, dtype: str) -> None:
    """pow and atan2 on every pair of special values are those of the math module, which states C99's table."""
    values = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 1e10, INF]
    values = [*values, *(-v for v in values), NAN]
    a, b = (grid.ravel() for grid in np.meshgrid(np.array(values, dtype=dtype), np.array(values, dtype=dtype)))
    with np.errstate(all="ignore"):
        want = (np.power if name == "pow" else np.arctan2)(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
    got = vecmath.evaluate(name, a, b)
    with np.errstate(all="ignore"):
        close = np.abs(got - want) <= np.spacing(np.abs(want))
    ordinary = np.isfinite(want) & (want != 0)
    wrong = ~np.where(ordinary, close, same_bits(got, want))
    assert not wrong.any(), list(zip(a[wrong], b[wrong], got[wrong], want[wrong], strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_results(dtype: str) -> None:
    """exp2 is exact on integers down to the smallest subnormal, and exp rounds once there."""
    lowest = -149 if dtype == "float32" else -1074
    n = np.arange(lowest, 1, dtype=dtype)
    assert (vecmath.evaluate("exp2", n) == np.ldexp(np.ones(1, dtype), n.astype(np.int32))).all()
    x = (n[:20] * np.log(2.0)).astype(dtype)
    assert errors_in_ulp("exp", (x,), vecmath.evaluate("exp", x)).max() <= 0.51


class Compiled:
    """Every function in a loop over arrays, compiled for a processor by LLVM's O3 pipeline."""

    def __init__(self, cpu: str, features: str, lanes: int = 1, fma: bool | None = None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_triple(llvm.get_process_triple())
        self.machine = target.create_target_machine(cpu=cpu, features=features, opt=3)
        self.lanes, self.fma = lanes, fma
        self.engines: dict[str, Any] = {}

    def source(self, name: str, dtype: str) -> ir.Module:
        """``kernel(x, y, out, n)``: with lanes, n is the number of whole vectors."""
        module = ir.Module("vecmath")
        module.triple = self.machine.triple
        scalar = ir.FloatType() if dtype == "float32" else ir.DoubleType()
        element = scalar if self.lanes == 1 else ir.VectorType(scalar, self.lanes)
        pointer, index = element.as_pointer(), ir.IntType(64)
        kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, index]), "kernel")
        callee = vecmath.declare(module, name, dtype, self.lanes, fma=self.fma)  # type: ignore[arg-type]
        assert vecmath.declare(module, name, dtype, self.lanes, fma=self.fma) is callee  # type: ignore[arg-type]
        x, y, out, n = kernel.args
        for array in (x, y, out):
            array.add_attribute("noalias")
        start, loop, end = (kernel.append_basic_block() for _ in range(3))
        build = ir.IRBuilder(start)
        build.cbranch(build.icmp_signed(">", n, index(0)), loop, end)
        build.position_at_end(loop)
        i = build.phi(index)
        values = [build.load(build.gep(a, [i]), align=4) for a in ((x, y) if name in BINARY else (x,))]
        build.store(build.call(callee, values), build.gep(out, [i]), align=4)
        following = build.add(i, index(1))
        i.add_incoming(index(0), start)
        i.add_incoming(following, loop)
        build.cbranch(build.icmp_signed("<", following, n), loop, end)
        ir.IRBuilder(end).ret_void()
        return module

    def optimised(self, name: str, dtype: str) -> Any:
        """The module after the passes."""
        module = llvm.parse_assembly(str(self.source(name, dtype)))
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)
        return module

    def __call__(self, name: str, *args: Array) -> Array:
        dtype = args[0].dtype.name
        key = f"{name}.{dtype}"
        if key not in self.engines:
            self.engines[key] = llvm.create_mcjit_compiler(self.optimised(name, dtype), self.machine)
            self.engines[key].finalize_object()
        entry = self.engines[key].get_function_address("kernel")
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(entry)
        x, y = args[0], args[-1]
        out = np.full_like(x, 77)
        function(x.ctypes.data, y.ctypes.data, out.ctypes.data, x.size // self.lanes)
        return out


def host(lanes: int = 1) -> Compiled:
    """For this processor."""
    return Compiled(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), lanes)


def mixed(name: str, dtype: str) -> tuple[Array, ...]:
    """Samples of all kinds with special values among them, a multiple of 8 long."""
    x = samples(dtype, 40, seed=9)
    special = np.array([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.0], dtype=dtype)
    x = np.random.default_rng(3).permutation(np.concatenate([x, np.repeat(special, 8)]))
    x = x[: x.size // 8 * 8].copy()
    return (x, np.random.default_rng(4).permutation(x)) if name in BINARY else (x,)


@pytest.mark.skipif(not X86_64, reason="the processor without fused multiply-add is the x86-64 baseline")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_compiled_without_fma_is_the_numpy_form(name: str, dtype: str) -> None:
    """Without fused multiply-add the two forms agree in every bit."""
    args = mixed(name, dtype)
    got, want = Compiled("x86-64", "", fma=False)(name, *args), vecmath.evaluate(name, *args)
    same = same_bits(got, want)
    assert same.all(), [(*(a[~same] for a in args), got[~same], want[~same])]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_compiled_for_the_host(name: str, dtype: str) -> None:
    """Fusing ``mad`` moves a result by a unit or two at most, keeps the bound, and leaves special values alone."""
    args = mixed(name, dtype)
    got, want = host()(name, *args), vecmath.evaluate(name, *args)
    with np.errstate(all="ignore"):
        close = np.abs(got - want) <= 2 * np.spacing(np.abs(want))
    ordinary = np.isfinite(want) & (want != 0)
    assert np.where(ordinary, close, same_bits(got, want)).all()
    inside = arguments(name, dtype, 20, seed=11)
    assert errors_in_ulp(name, inside, host()(name, *inside)).max() <= BOUNDS[dtype][name]


@pytest.mark.parametrize(("name", "dtype", "lanes"), [(n, d, w) for d, w in zip(DTYPES, (8, 4), strict=True)
                                                      for n in ("sin", "exp", "pow", "erf", "atan2")])  # fmt: skip
def test_lanes_agree_with_scalars(name: str, dtype: str, lanes: int) -> None:
    """The vector form is the scalar form in every lane, out-of-line lanes included."""
    args = mixed(name, dtype)
    assert same_bits(host(lanes)(name, *args), host()(name, *args)).all()


@pytest.mark.skipif(not HAS_AVX2, reason="runs code for AVX2")
@pytest.mark.parametrize("lanes", [1, 4, 8, 32])
@pytest.mark.parametrize(("name", "dtype"), [("sin", "float64"), ("cos", "float32"), ("tan", "float32")])
def test_a_rare_call_leaves_the_other_lanes_alone(name: str, dtype: str, lanes: int) -> None:
    """With AVX2, whose registers have upper halves that a function may clear, and nothing else."""
    args = [np.tile(a, 32) for a in mixed(name, dtype)]
    got, want = Compiled("haswell", "", lanes)(name, *args), vecmath.evaluate(name, *args)
    with np.errstate(all="ignore"):
        close = np.abs(got - want) <= 2 * np.spacing(np.abs(want))
    ordinary = np.isfinite(want) & (want != 0)
    assert np.where(ordinary, close, same_bits(got, want)).all()


@pytest.mark.skipif(not X86_64, reason="reads x86-64 assembly")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(vecmath.NAMES))
def test_loop_is_vectorised(name: str, dtype: str) -> None:
    """On AVX2 every loop has packed arithmetic and no call, but for the large arguments of sin, cos and tan."""
    compiled = Compiled("haswell", "")
    module = compiled.optimised(name, dtype)
    loop = str(module).split("define void @kernel")[1].split("\n}")[0]
    assert re.search(r"load <\d+ x (float|double)>", loop), "the loop was not vectorised"
    called = set(re.findall(r"call [^@]*@([\w.]+)", loop))
    assert {c for c in called if not c.startswith("llvm.")} <= {
        f"dkm.{name}_large.{'f32' if dtype == 'float32' else 'f64'}"
    }
    assembly = compiled.machine.emit_assembly(module)
    assert re.search(r"\bv(mul|fn?m(add|sub)\d+)p[sd]\b.*%ymm", assembly)


@pytest.mark.skipif(not X86_64, reason="reads x86-64 assembly")
def test_numba_vectorises_the_loop() -> None:
    """In a ``numba.cfunc`` as the backend makes it, for sin and exp in float32."""
    numba = require("numba")
    extending = require("numba.extending")
    types = numba.types

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def loop(typing_context: Any, x: Any, out: Any, n: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            sine, exponential = (vecmath.declare(builder.module, name, "float32") for name in ("sin", "exp"))
            pointer = ir.FloatType().as_pointer()
            source, target = (builder.inttoptr(a, pointer) for a in args[:2])
            before = builder.block
            body, after = builder.append_basic_block(), builder.append_basic_block()
            builder.branch(body)
            builder.position_at_end(body)
            i = builder.phi(args[2].type)
            value = builder.load(builder.gep(source, [i]))
            total = builder.fadd(builder.call(sine, [value]), builder.call(exponential, [value]))
            builder.store(total, builder.gep(target, [i]))
            following = builder.add(i, i.type(1))
            i.add_incoming(i.type(0), before)
            i.add_incoming(following, body)
            builder.cbranch(builder.icmp_signed("<", following, args[2]), body, after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return types.void(x, out, n), generate

    def kernel(x: int, out: int, n: int) -> None:
        loop(x, out, n)

    compiled = numba.cfunc(types.void(types.int64, types.int64, types.int64))(kernel)
    x = np.concatenate([np.linspace(-50, 50, 1000), [1e6, 1e7, 1e30, 3.0]]).astype(np.float32)
    out = np.empty_like(x)
    compiled.ctypes(x.ctypes.data, out.ctypes.data, x.size)
    want = vecmath.evaluate("sin", x) + vecmath.evaluate("exp", x)
    with np.errstate(invalid="ignore"):
        assert ((np.abs(out - want) <= 4 * np.spacing(np.maximum(np.abs(want), 1))) | (out == want)).all()
    assert re.search(r"<\d+ x float>", compiled._library.get_llvm_str())
    assert re.search(r"\bv?mulps\b", compiled._library.get_asm_str())


def test_unknown_names_and_types_are_refused() -> None:
    """The message says what there is."""
    with pytest.raises(ValueError, match="no function 'gamma'"):
        vecmath.evaluate("gamma", np.ones(1))
    with pytest.raises(ValueError, match="float32 and float64"):
        vecmath.evaluate("sin", np.ones(1, dtype=np.float16))
    with pytest.raises(ValueError, match="different dtypes"):
        vecmath.evaluate("pow", np.ones(1), np.ones(1, dtype=np.float32))
    with pytest.raises(ValueError, match="lanes"):
        vecmath.declare(ir.Module(), "sin", "float32", 0)
