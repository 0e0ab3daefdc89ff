"""Whatever is decorated, launched or passed as an option or argument: no exception but diffkern's own comes out."""

from __future__ import annotations

import decimal
import fractions
import functools
import importlib.util
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern.compiler import compilation
from diffkern.errors import CompileError, KernelError, MisuseError
from diffkern.testing import gradcheck

numba = require("numba")


def plain(x, y):
    y[0] = x[0]


async def coroutine(x, y):
    y[0] = x[0]


def generator(x, y):
    yield x[0]


async def async_generator(x, y):
    yield x[0]


@functools.wraps(plain)
def wrapped(*args):
    return plain(*args)


class Some:
    def method(self, x, y):
        y[0] = x[0]

    @staticmethod
    def static(x, y):
        y[0] = x[0]

    @classmethod
    def of_class(cls, x, y):
        y[0] = x[0]

    def __call__(self, x, y):
        y[0] = x[0]


class Pretender:
    __code__ = plain.__code__
    __name__ = "pretender"


def _without_source() -> Any:
    names: dict[str, Any] = {}
    exec("def unknown(x, y):\n    y[0] = x[0]\n", names)
    return names["unknown"]


FUNCTIONS: dict[str, Any] = {
    "built-in": len, "print": print, "class": Some, "int": int, "instance": Some(), "bound method": Some().method,
    "class method": Some.of_class, "staticmethod": Some.__dict__["static"], "classmethod": Some.__dict__["of_class"],
    "lambda": lambda x, y: None, "partial": functools.partial(plain), "coroutine function": coroutine,
    "generator function": generator, "async generator": async_generator, "generator": generator(1, 2),
    "numba": numba.njit(plain), "ufunc": np.sin, "cached": functools.lru_cache(plain), "wrapped": wrapped,
    "single dispatch": functools.singledispatch(plain), "pretender": Pretender(), "property": property(plain),
    "slot wrapper": int.__add__, "method descriptor": str.upper, "code": plain.__code__, "module": np,
    "simple namespace": types.SimpleNamespace(), "dk.func": dk.func(plain), "dk.sin": dk.sin, "dtype": dk.float32,
    "no source": _without_source(),
}  # fmt: skip

VALUES: dict[str, Any] = {
    **FUNCTIONS, "text": "s", "bytes": b"x", "None": None, "number": 5, "negative": -1, "float": 0.5,
    "nan": float("nan"),
    "complex": 1j, "huge": 10**400, "list": [], "dict": {}, "set": {1}, "fraction": fractions.Fraction(1, 2),
    "decimal": decimal.Decimal(1), "ellipsis": ..., "slice": slice(1), "range": range(3),
    "NotImplemented": NotImplemented,
    "memory": memoryview(b"abcd"), "array": np.zeros(3), "objects": np.array([None]), "texts": np.array(["a"]),
    "complex array": np.zeros(2, complex), "dates": np.zeros(2, "M8[s]"), "big-endian": np.zeros(2, ">f4"),
    "records": np.zeros(2, "f4,f4"), "five axes": np.zeros((1,) * 5, np.float32), "scalar": np.float32(1),
    "masked": np.ma.zeros(2), "tuple": (2, "a"), "five": (1,) * 5, "minus": (-1,), "floats": (2.0,), "nones": (None,),
    "empty": (),
}  # fmt: skip


@dk.kernel
def two_arrays(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i]


@dk.kernel
def generic(x, y):
    i = dk.tid()
    y[i] = x[i]


@dk.kernel
def of_values(x: float, n: int, v: dk.vec3, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x + float(n) + v[0]


def _own(work: Callable[[], Any]) -> KernelError | None:
    try:
        work()
    except KernelError as error:
        return error
    return None


def _arrays() -> tuple[dk.array, dk.array]:
    return dk.zeros(2, dtype=float), dk.zeros(2, dtype=float)


@pytest.mark.parametrize("name", VALUES)
def test_decorated(name: str) -> None:
    x, y = _arrays()
    thing = VALUES[name]
    for decorate in (dk.Kernel, dk.kernel, dk.kernel(enable_backward=False), dk.func):
        if thing is None and decorate is dk.kernel:
            continue  # the decorator with options

        def work(decorate: Any = decorate) -> None:
            made = decorate(thing)
            if isinstance(made, dk.Kernel):
                dk.launch(made, dim=1, inputs=[x, y])

        error = _own(work)
        if error is not None and not isinstance(thing, types.FunctionType):
            assert isinstance(error, MisuseError)
            assert isinstance(error, TypeError)
            assert "decorates a Python function" in str(error)


@pytest.mark.parametrize("name", ["lambda", "coroutine function", "generator function", "async generator", "no source"])
def test_functions_that_are_no_kernels_are_refused_with_a_line(name: str) -> None:
    x, y = _arrays()
    error = _own(lambda: dk.launch(dk.kernel(FUNCTIONS[name]), dim=1, inputs=[x, y]))
    assert error is not None
    assert all(part.loc is not None for part in error.errors)


def test_a_dispatcher_of_numba_names_the_function_in_it() -> None:
    with pytest.raises(MisuseError, match="py_func"):
        dk.kernel(FUNCTIONS["numba"])
    two = dk.kernel(FUNCTIONS["numba"].py_func)
    x, y = dk.ones(2, dtype=float), dk.zeros(2, dtype=float)
    two[1](x, y)
    assert y.numpy().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", VALUES)
def test_a_record_made_by_hand(name: str) -> None:
    error = _own(lambda: dk.Launch(VALUES[name]))
    assert isinstance(error, MisuseError)
    assert "is no kernel, so it cannot be launched" in str(error)


@pytest.mark.parametrize("name", VALUES)
def test_launched(name: str) -> None:
    x, y = _arrays()
    thing = VALUES[name]
    for launch in (
        lambda: dk.launch(thing, dim=2, inputs=[x, y]),
        lambda: dk.launch(thing, dim=2, inputs=[x, y], record_cmd=True),
        lambda: dk.launch(thing, dim=2, inputs=[x, y], adjoint=True),
        lambda: dk.launch_tiled(thing, dim=2, inputs=[x, y], block_dim=4),
    ):
        error = _own(launch)
        assert isinstance(error, MisuseError)
        assert "is no kernel" in str(error)
        assert "@dk.kernel" in str(error)


@pytest.mark.parametrize("name", VALUES)
def test_arguments(name: str) -> None:
    x, y = _arrays()
    thing = VALUES[name]
    v = dk.vec3(0.0, 0.0, 0.0)
    for kernel, arguments in (
        (two_arrays, [thing, y]),
        (two_arrays, [x, thing]),
        (generic, [thing, y]),
        (of_values, [thing, 1, v, y]),
        (of_values, [1.0, thing, v, y]),
        (of_values, [1.0, 1, thing, y]),
    ):
        _own(lambda k=kernel, a=arguments: dk.launch(k, dim=2, inputs=a))
        _own(lambda k=kernel, a=arguments: k[2](*a))


@pytest.mark.parametrize("name", VALUES)
def test_options_of_a_launch(name: str) -> None:
    x, y = _arrays()
    thing = VALUES[name]
    _own(lambda: two_arrays[thing](x, y))
    _own(lambda: dk.launch(two_arrays, dim=thing, inputs=[x, y]))
    _own(lambda: dk.launch(two_arrays, dim=2, inputs=thing))
    _own(lambda: dk.launch(two_arrays, dim=2, inputs=[x, y], outputs=thing))
    _own(lambda: dk.launch(two_arrays, dim=2, inputs=[x, y], adjoint=True, adj_inputs=thing, adj_outputs=thing))
    for option in ("stream", "device", "block_dim", "max_blocks"):
        for more in ({}, {"record_cmd": True}):
            _own(lambda o=option, m=more: dk.launch(two_arrays, dim=2, inputs=[x, y], **{o: thing}, **m))


@pytest.mark.parametrize("name", VALUES)
def test_options_of_a_kernel(name: str) -> None:
    for option in ("enable_backward", "stack_bytes", "mode", "enable_mathdx_gemm", "block_dim", "launch_bounds"):
        error = _own(lambda o=option: dk.kernel(**{o: VALUES[name]})(plain))
        assert error is None or isinstance(error, ValueError)


@pytest.mark.parametrize("name", ["numba", "lambda", "class", "built-in", "dk.func"])
def test_elsewhere(name: str) -> None:
    thing = FUNCTIONS[name]
    assert isinstance(_own(lambda: gradcheck(thing, dim=1, inputs=_arrays())), MisuseError)
    assert isinstance(_own(lambda: dk.compile(thing)), MisuseError)
    assert isinstance(_own(lambda: dk.compile(thing, target="sm_90")), MisuseError)
    if importlib.util.find_spec("torch"):
        assert isinstance(_own(lambda: dk.torch_function(thing)), MisuseError)
    if importlib.util.find_spec("jax"):
        assert isinstance(_own(lambda: dk.jax_kernel(thing)), MisuseError)


def test_what_compiles_and_what_prints() -> None:
    assert isinstance(_own(lambda: dk.compile(two_arrays, target="sm_90", speed=1)), MisuseError)
    assert isinstance(_own(lambda: dk.force_load(3)), MisuseError)
    assert isinstance(_own(lambda: dk.force_load("no.such.module")), MisuseError)
    assert isinstance(_own(lambda: two_arrays.adjoint_source(active=5)), MisuseError)
    name = two_arrays.parameters[0].name
    assert two_arrays.adjoint_source(active=name) == two_arrays.adjoint_source(active=[name])


def test_what_is_no_class_is_no_struct() -> None:
    with pytest.raises(MisuseError, match="decorates a class"):
        dk.struct(plain)


def test_a_kernel_is_not_called() -> None:
    with pytest.raises(MisuseError, match="needs a grid"):
        two_arrays(1, 2)


# -- the compiler ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["lower_kernel", "prepare", "differentiate", "optimise"])
def test_a_failure_in_the_compiler_is_an_error_with_the_kernels_place(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("a fault")

    monkeypatch.setattr(compilation, step, fail)
    shows = (two_arrays.source, two_arrays.adjoint_source, two_arrays.adjoint_report, two_arrays.ir)
    errors = [error for show in shows if (error := _own(show)) is not None]
    assert errors
    for error in errors:
        assert isinstance(error, CompileError)
        assert "please report it" in str(error)
        assert error.loc is not None
        assert isinstance(error.__cause__, KeyError)


def test_memory_and_interrupts_pass_through_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (MemoryError, KeyboardInterrupt):

        def fail(*_: Any, kind: type[BaseException] = kind, **__: Any) -> Any:
            raise kind

        monkeypatch.setattr(compilation, "lower_kernel", fail)
        with pytest.raises(kind):
            two_arrays.source()


def test_recursion_in_the_compiler_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr(compilation, "lower_kernel", fail)
    with pytest.raises(CompileError, match="deeper than Python's limit"):
        two_arrays.source()
