"""What a call on the host is refused for, and that what its remedy says works."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda
from diffkern.testing import find_nonfinite, gradcheck

F1 = dk.array(dtype=float)


@dk.func
def product(a: float, b: float) -> float:
    return a * b


@dk.func
def twice(n: int) -> int:
    return 2 * n


@dk.kernel
def scale(x: F1, s: float, y: F1):
    i = dk.tid()
    y[i] = s * x[i]


@wp.kernel
def generic(x: wp.array(dtype=wp.Any)):
    x[wp.tid()] = x[wp.tid()]


@cuda.jit
def numbered(x):
    x[cuda.grid(1)] = 1.0


def ones(n: int = 4, dtype: Any = float) -> Any:
    return dk.ones(n, dtype=dtype, requires_grad=dtype is float)


def adjoint(gradient: Any) -> Any:
    return dk.launch(scale, 4, [ones(), 2.0], [ones()], adjoint=True, adj_inputs=[gradient, None])


@dk.kernel
def square(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[i] * x[i]


def squared(x: Any) -> Any:
    y = dk.zeros(2, dtype=dk.float64, requires_grad=True)
    dk.launch(square, 2, [x], [y])
    return y


def doubles() -> Any:
    return dk.ones(2, dtype=dk.float64, requires_grad=True)


@cuda.jit
def filled(x):
    pass


@dk.kernel
def exact(y: F1):
    y[dk.tid()] = math.log(-1.0)


@dk.kernel
def near(y: F1):
    y[dk.tid()] = math.log(1.0)


@dk.kernel
def hinted(y: F1):
    s: 3 = 1.0
    y[dk.tid()] = s


@dk.kernel
def told(y: F1):
    s: float = 1.0
    y[dk.tid()] = s


def read_only() -> Any:
    made = np.zeros(4, np.float32)
    made.flags.writeable = False
    return made


def record() -> Any:
    return dk.launch(scale, 4, [ones(), 2.0], [ones()], record_cmd=True)


def sequence() -> Any:
    with dk.record() as made:
        dk.launch(scale, 4, [ones(), 2.0], [ones()])
    return made


def backward(grads: Any) -> None:
    x, y = ones(), ones()
    with dk.Tape() as tape:
        dk.launch(scale, 4, [x, 2.0], [y])
    tape.backward(grads=grads(y))


def branch(condition: Any, body: Any) -> None:
    dk.capture_if(condition, body)


def launched() -> None:
    dk.launch(scale, 4, [ones(), 2.0], [ones()])


def grid_of(dtype: Any, radius: float, *dims: int) -> None:
    dk.HashGrid(*(dims or (4, 4, 4)), dtype=dtype).build(dk.zeros(3, dtype=dk.vec3d), radius)


def integers(n: int = 1) -> Any:
    return dk.zeros(n, dtype=dk.int32)


REMEDIES: list[tuple[Callable[[], Any], str, Callable[[], Any]]] = [
    (lambda: product.grad(1.0), "write product", lambda: product.grad(1.0, 2.0)),
    (lambda: twice.grad(1), "pass floats", lambda: product.grad(1.0, 2.0)),
    (lambda: product.jvp(1.0, 2.0, 1.0), r"f\.jvp\(x, y, 1\.0, 0\.0\)", lambda: product.jvp(1.0, 2.0, 1.0, 0.0)),
    (lambda: dk.tile[float, "n"], r"dk\.tile\[float, 8, 8\]", lambda: dk.tile[float, 8, 8]),
    (lambda: dk.array(dtype=float, ndim=5), "ndim=1 to ndim=4", lambda: dk.array(dtype=float, ndim=4)),
    (lambda: dk.array[float, 1, 2], r"Literal\[2\]", lambda: dk.array[float, Literal[2]]),
    (lambda: dk.compile(scale, processes=2, target="cpu"), "leave", lambda: dk.compile(scale, target="cpu")),
    (lambda: dk.compile(scale, block_dim=4), "target='cpu'", lambda: dk.compile(scale, target="cpu", block_dim=4)),
    (lambda: dk.compile(3), r"dk\.compile\(kernel\)", lambda: dk.compile(scale)),
    (lambda: dk.force_load(3), "import the module", lambda: dk.force_load("math")),
    (lambda: cuda.jit(3), "above a function", lambda: cuda.jit("void(float32[:])")),
    (lambda: cuda.jit("void(float32[:], int32)")(lambda x: None)[1, 1](np.ones(1)), "for each parameter",
     lambda: cuda.jit("void(float64[:])")(numbered.py_func)[1, 1](np.ones(1))),
    (lambda: numbered[1, 1, "x"], r"cuda\.stream\(\)", lambda: numbered[1, 1, cuda.stream()]),
    (lambda: cuda.jit(fast=True), "fastmath", lambda: cuda.jit(fastmath=True)),
    (lambda: adjoint(dk.zeros(3, dtype=float)), "zeros_like", lambda: adjoint(dk.zeros_like(ones()))),
    (lambda: adjoint(read_only()), r"dk\.array\(gradient\)", lambda: adjoint(dk.array(read_only()))),
    (lambda: record().set_param_at_index(9, 1.0), "from 0", lambda: record().set_param_at_index(1, 1.0)),
    (lambda: record().set_param_at_index("s", 1.0), "from 0", lambda: record().set_param_at_index(1, 1.0)),
    (lambda: record().set_params(3), r"\[x, y\]", lambda: record().set_params([ones(), 2.0, ones()])),
    (lambda: record().launch(stream=3), r"dk\.Stream\(\)", lambda: record().launch()),
    (lambda: record().adjoint().adjoint(), "forward launch", lambda: record().adjoint()),
    (lambda: sequence().set_param("t", 1.0), "a kernel of the sequence", lambda: sequence().set_param("s", 1.0)),
    (lambda: sequence().replay(stream=3), r"dk\.Stream\(\)", lambda: sequence().replay()),
    (lambda: backward(lambda y: [y]), "grads={array", lambda: backward(lambda y: {y: dk.ones_like(y)})),
    (lambda: backward(lambda y: {y: ones(3)}), "ones_like", lambda: backward(lambda y: {y: dk.ones_like(y)})),
    (lambda: branch(ones(1), launched), "dtype=dk.int32", lambda: branch(integers(), launched)),
    (lambda: branch(integers(), lambda: None), "launch a kernel in it", lambda: branch(integers(), launched)),
    (lambda: branch(integers(), 3), "launches kernels", lambda: branch(integers(), launched)),
    (lambda: dk.launch_tiled(scale, (1, 1, 1, 1), [], [], block_dim=1), "their product",
     lambda: dk.launch_tiled(scale, 4, [ones(), 2.0], [ones()], block_dim=1)),
    (lambda: dk.get_device("gpu"), r"dk\.get_devices\(\)", dk.get_devices),
    (lambda: dk.ones(1, dtype=float, device=3), r"dk\.get_devices\(\)", lambda: dk.ones(1, device=dk.get_devices()[0])),
    (lambda: dk.struct(3), "above class S", lambda: dk.struct(type("S", (), {"__annotations__": {"a": float}}))),
    (lambda: grid_of(int, 1.0), "dtype=dk.float32", lambda: dk.HashGrid(4, 4, 4, dtype=dk.float32)),
    (lambda: grid_of(dk.float64, -1.0), "points are looked for", lambda: grid_of(dk.float64, 1.0)),
    (lambda: grid_of(dk.float64, 1.0, 0, 4, 4), r"HashGrid\(32", lambda: dk.HashGrid(32, 32, 32)),
    (lambda: dk.utils.radix_sort_pairs(integers(8), integers(8), 4, begin_bit=40), "leave them out",
     lambda: dk.utils.radix_sort_pairs(integers(8), integers(8), 4)),
    (lambda: dk.utils.radix_sort_pairs(dk.zeros(8, dtype=dk.int8), integers(8), 4), "array_cast",
     lambda: dk.utils.array_cast(dk.zeros(8, dtype=dk.int8), integers(8))),
    (lambda: dk.utils.array_inner(ones(), integers(4)), "array_cast",
     lambda: dk.utils.array_cast(integers(4), ones())),
    (lambda: dk.utils.array_sum(ones(), axis=3), "count the axes from 0", lambda: dk.utils.array_sum(ones(), axis=0)),
    (lambda: wp.overload(3, [float]), r"overload\(kernel, \[types\]\)",
     lambda: wp.overload(generic, [wp.array(dtype=float)])),
    (lambda: wp.overload(generic, [float, float]), "for each parameter",
     lambda: wp.overload(generic, {"x": wp.array(dtype=float)})),
    (lambda: gradcheck(lambda x: 3.0, inputs=[dk.ones(2, dtype=dk.float64, requires_grad=True)]), "return the arrays",
     lambda: gradcheck(squared, inputs=[dk.ones(2, dtype=dk.float64, requires_grad=True)])),
    (lambda: dk.compile(scale, target="cpu", fast=True), "leave it out", lambda: dk.compile(scale, target="cpu")),
    (lambda: dk.compile(scale, target=3), "target='cpu'", lambda: dk.compile(scale, target="cpu")),
    (lambda: numbered[1, 1](2**70), "pass a float", lambda: filled[1, 1](2.0**70)),
    (lambda: dk.kernel(fast=True)(scale.func), "leave it out", lambda: dk.kernel(scale.func)),
    (lambda: dk.kernel(block_dim=0)(scale.func), "or leave it out", lambda: dk.kernel(block_dim=32)(scale.func)),
    (lambda: numbered(ones()), r"numbered\[blocks, threads\]", lambda: numbered[1, 4](np.ones(4))),
    (lambda: scale(ones(), 1.0, ones()), r"scale\[n\]", lambda: scale[4](ones(), 1.0, ones())),
    (lambda: scale.source(target="gpu"), "leave target out", scale.source),
    (lambda: scale.adjoint_source(active=["z"]), "leave active out", scale.adjoint_source),
    (lambda: dk.jvp(squared, [1.0], [1.0]), "of one element", lambda: dk.jvp(squared, [doubles()], [doubles()])),
    (lambda: dk.array(dtype=dict), "dtype=float", lambda: dk.array(dtype=dk.vec3)),
    (lambda: scale[-1](ones(), 1.0, ones()), "whole numbers", lambda: scale[4](ones(), 1.0, ones())),
    (lambda: scale[1](ones(), "a", ones()), "", lambda: scale[1](ones(), 1.0, ones())),
    (lambda: scale[1](ones(), dk.vec3(), ones()), "float", lambda: scale[1](ones(), 1.0, ones())),
    (lambda: dk.checkpoint(3, 4, 2), r"def step\(t\)", lambda: dk.checkpoint(lambda t: None, 0, 1)),
    (lambda: dk.checkpoint(lambda t: None, 4, 2, slots_on_disk=1, directory="/no/such"), "leave directory out",
     lambda: dk.checkpoint(lambda t: None, 0, 1, slots_on_disk=1)),
    (lambda: dk.ones(1, device="cuda:7"), "get_devices|device='cpu'", lambda: dk.ones(1, device="cpu")),
    (lambda: dk.launch_tiled(scale, 4, [ones(), 1.0], [ones()], block_dim=2000), "leave it out",
     lambda: dk.launch(scale, 4, [ones(), 1.0], [ones()])),
    (lambda: dk.launch(scale, 4, [ones(), 1.0], [ones()], block_dim=0), "leave it out",
     lambda: dk.launch(scale, 4, [ones(), 1.0], [ones()])),
    (lambda: dk.launch(scale, 4, [ones(), 1.0], [ones()], block_dim="x"), "leave them out",
     lambda: dk.launch(scale, 4, [ones(), 1.0], [ones()])),
    (lambda: record().set_param_by_name("z", 1.0), "one of these names", lambda: record().set_param_by_name("s", 1.0)),
    (lambda: gradcheck(squared, inputs=[doubles()], order=3), "leave them out",
     lambda: gradcheck(squared, inputs=[doubles()])),
    (lambda: gradcheck(squared, 2, inputs=[doubles()]), r"inputs=\[x\]",
     lambda: gradcheck(squared, inputs=[doubles()])),
    (lambda: gradcheck(square, inputs=[doubles()], outputs=[doubles()]), "pass dim",
     lambda: gradcheck(square, 1, inputs=[doubles()], outputs=[doubles()])),
    (lambda: find_nonfinite(square, inputs=[doubles(), doubles()]), "pass dim",
     lambda: find_nonfinite(square, 1, [doubles(), doubles()])),
    (lambda: find_nonfinite(lambda: None, 3), "lambda", lambda: find_nonfinite(lambda: None)),
    (lambda: wp.kernel(name=3)(scale.func), "leave it out", lambda: wp.kernel(scale.func)),
    (lambda: wp.kernel(module_options=3)(scale.func), "enable_backward",
     lambda: wp.kernel(module_options={"enable_backward": False}, module="unique")(scale.func)),
    (lambda: wp.overload(generic, {"z": wp.array(dtype=float)}), "one of these names",
     lambda: wp.overload(generic, {"x": wp.array(dtype=float)})),
    (lambda: exact[1](ones()), "has a value", lambda: near[1](ones())),
    (lambda: hinted[1](ones()), "write a type", lambda: told[1](ones())),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REMEDIES)))
def test_a_remedy(case: int) -> None:
    refused, said, works = REMEDIES[case]
    with pytest.raises(dk.KernelError) as caught:
        refused()
    assert caught.value.remedy is not None
    assert re.search(said, caught.value.remedy), str(caught.value)
    works()


CLASSES = {
    "AutodiffError", "CompileError", "KernelError", "KernelSyntaxError", "KernelTypeError", "LaunchError",
    "MisuseError",
}  # fmt: skip
# Errors of the compiler, of the machine or of NVIDIA's tools, and reasons that another error gives.
NOT_OF_THE_USER = {
    "ad/atomic_log.py", "compiler/products.py", "runtime/launch/resources.py", "targets/cpu/object_code.py",
    "targets/cuda/mathdx.py", "targets/cuda/toolchain.py", "targets/emit/function.py", "targets/emit/scalars.py",
}  # fmt: skip


def refusals() -> Iterator[tuple[str, ast.Call]]:
    """The errors that the package makes, without those that are made of what another one said."""
    root = Path(dk.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            is_class = isinstance(node.func, ast.Name) and node.func.id in CLASSES
            of_parameter = isinstance(node.func, ast.Attribute) and node.func.attr == "error" and len(node.args) == 1
            if is_class or of_parameter:
                yield path.relative_to(root).as_posix(), node


def test_every_refusal_has_a_remedy() -> None:
    without = {
        f"{path}:{node.lineno}"
        for path, node in refusals()
        if path not in NOT_OF_THE_USER and not any(word.arg == "remedy" for word in node.keywords)
    }
    assert not without


@pytest.mark.parametrize(
    ("call", "remedies"),
    [
        (lambda: dk.exp(np.array([0.125, 0.375])), ["dk.map(dk.exp, x)", "np.exp(x)"]),
        (lambda: dk.exp(dk.array([0.125, 0.375])), ["dk.map(dk.exp, x)", "np.exp(x)"]),
        (lambda: dk.exp([0.125, 0.375]), ["dk.map(dk.exp, np.array(x))", "np.exp(x)"]),
        (lambda: dk.clamp(np.ones(2), 0.25, 0.5), ["dk.map(dk.clamp, x, low, high)"]),
        (lambda: dk.max(dk.ones(2), 0.5), ["dk.map(dk.max, a, b)"]),
    ],
)
def test_built_ins_of_numbers_say_what_maps_them(call: Any, remedies: list[str]) -> None:
    with pytest.raises(dk.KernelTypeError, match="it takes numbers and vectors") as caught:
        call()
    assert re.findall("`(.*?)`", str(caught.value)) == remedies
    assert ("passes no gradient" in str(caught.value)) == ("np.exp(x)" in remedies)


def test_what_maps_a_built_in_gives_what_numpy_gives() -> None:
    x = np.array([0.125, 0.375])
    np.testing.assert_allclose(dk.map(dk.exp, x), np.exp(x))
    np.testing.assert_allclose(dk.map(dk.clamp, x, 0.25, 0.5), [0.25, 0.375])
