"""Runs kernels of the corpus in numba's CUDA simulator and compares them with the CPU; a process of its own.

``python -m simulator.child FILE [NAME…]`` writes to FILE, as JSON, what went wrong with each case: an empty text
if nothing did.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import narrow_atomics
import numpy as np
from block_corpus import BLOCKS
from block_corpus import Case as Blocks
from block_gradients import GRADIENTS
from block_threads import InTurns, for_gpu
from grad.build import lower, values
from grad.cases import Case
from grad.corpus import CASES
from support.range_source import SourceRun
from support.simulated import Simulated
from thread_tiles import reversed_by_stack, softmax

import diffkern as dk
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.kernels.kernel import Kernel
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction, as_double

from .block_fuzz import FUZZ, THREADS, kernel_text
from .selection import ALONG, BLOCK_GRADIENTS, CORPUS, OF_THREADS, RANGES, UPDATES


def compare(what: str, found: Any, expected: Any, rtol: float) -> None:
    expected = np.asarray(expected)
    if not expected.dtype.kind == "f":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * size, err_msg=what)


def check(case: Case) -> None:
    """Forward and adjoint of one case, in the simulator and on the CPU."""
    vjp = Vjp(lower(case), **case.options)
    point = vjp.arguments(values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.gradients(case.dim, point, weights)
    outputs = vjp.arguments(values(case))
    vjp.primal_program.run(case.dim, outputs)

    made = Vjp(lower(case), lambda _: None, variant=Variant(target="sm_90"), **case.options)
    finalize_updates(made.adjoint.fn, made.adjoint.buffers, made.adjoint.conflicts)
    simulated = made.running(Simulated, Simulated)
    rtol = 1e-10 if all(str(t).find("float64") >= 0 for t in vjp.types if "float" in str(t)) else 2e-4
    found = vjp.arguments(values(case))
    simulated.primal_program.run(case.dim, found)
    for name, t, a, b in zip(vjp.names, vjp.types, found, outputs, strict=True):
        if isinstance(a, np.ndarray) and a.ndim:
            compare(f"{name} of type {t}", a, b, rtol)
    for i, gradient in simulated.gradients(case.dim, point, weights).items():
        compare(f"the gradient of {vjp.names[i]}", gradient, expected[i], rtol)


def check_blocks(case: Blocks) -> None:
    """A kernel whose threads work together, against what NumPy says."""
    kernel = case.kernel
    fn = Compilation(kernel.func, kernel.argument_types(), kernel.variant).forward
    arguments = case.arguments()
    expected = case.expected(*[np.copy(a) for a in arguments])
    Simulated(fn, blocks=2, block_dim=case.block_dim).run(case.dim, arguments)
    for name, found, wanted in zip(fn.param_names, arguments, expected, strict=True):
        compare(name, found, wanted, 1e-5)


def check_threads() -> None:
    """Tiles of what threads hold, against NumPy."""
    fn = Compilation(softmax.func, softmax.argument_types(), Variant(target="sm_90", block_dim=THREADS)).forward
    n = 3 * THREADS
    x, scale = np.random.default_rng(4).normal(size=n).astype(np.float32), np.array([0.7, 1.3], np.float32)
    y = np.zeros(n, np.float32)
    Simulated(fn, blocks=2, block_dim=THREADS).run((n,), [x, scale, y])
    e = np.exp(x * scale[0] * scale[1]).reshape(-1, THREADS)
    expected = np.where(np.arange(n) % 2, 0.0, (e / e.sum(1, keepdims=True)).reshape(-1))
    compare("the softmax of a block", y, expected, 1e-5)
    kernel = reversed_by_stack
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90", block_dim=THREADS)).forward
    kept, y = (np.arange(n) % 4 != 1).astype(np.float32), np.zeros(n, np.float32)
    Simulated(fn, blocks=2, block_dim=THREADS).run((n,), [x, kept, y])
    rows = [x[k : k + THREADS][kept[k : k + THREADS] > 0][::-1] for k in range(0, n, THREADS)]
    compare("items of a stack", y, np.concatenate([np.pad(r, (0, THREADS - len(r))) for r in rows]), 0.0)


def check_updates(element: str) -> None:
    """Atomic updates of elements of a type, against the CPU."""
    chosen = next(e for e in narrow_atomics.ELEMENTS if str(e) == element)
    types = Kernel(narrow_atomics.update).argument_types(*narrow_atomics.types(chosen))
    found, expected = narrow_atomics.arguments(chosen), narrow_atomics.arguments(chosen)
    for arguments, engine, target in ((found, Simulated, "sm_90"), (expected, CompiledFunction, "native")):
        engine(Compilation(narrow_atomics.update, types, Variant(target=target)).fn).run(
            (len(arguments[0]),), arguments
        )
    for name, a, b in zip(narrow_atomics.update.__code__.co_varnames, found, expected, strict=False):
        compare(f"{name} of {element}", a, b, 1e-6)


def check_fuzz(seed: int) -> None:
    """A random kernel whose threads work together, on the CPU and in the simulator."""
    text = kernel_text(seed)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"block_fuzz_{seed}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernel = module.fuzz
        fn = Compilation(kernel.func, kernel.argument_types(), kernel.variant).forward
        size = 3 * THREADS
        given = [np.random.default_rng(seed).uniform(-1, 1, size).astype(np.float32), *_results(size), np.int32(2)]
        found = [np.copy(a) for a in given]
        dk.launch(kernel, dim=size, inputs=given, block_dim=THREADS)
    Simulated(fn, blocks=2, block_dim=THREADS).run((size,), found)
    for name, a, b in zip(fn.param_names, found, given, strict=True):
        compare(f"{name} of\n{text}", a, b, 1e-4)


def _results(size: int) -> tuple[Any, Any]:
    return np.zeros(size, np.float32), np.zeros(size, np.int32)


def check_gradient(name: str) -> None:
    """The adjoint of a kernel whose threads work together, against the same source with the threads in turns."""
    case = GRADIENTS[name]
    vjp = for_gpu(case.kernel)
    launch = case.launch(3, 3)
    point = [as_double(t, a) for t, a in zip(vjp.types, launch.arguments, strict=True)]
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.running(*(lambda fn: InTurns(fn, 3),) * 2).gradients(launch.dim, point, weights)
    found = vjp.running(*(lambda fn: Simulated(fn, blocks=2, block_dim=3),) * 2)
    for i, gradient in found.gradients(launch.dim, point, weights).items():
        compare(f"the gradient of {vjp.names[i]}", gradient, expected[i], 1e-10)


def check_along(case: Case) -> None:
    """Forward mode of one case, in the simulator and on the CPU."""
    types = Kernel(case.function).argument_types(*values(case))
    kernel = Kernel(case.function).jvp
    tangents = tuple(t for t in types if "float" in str(t))
    rng = np.random.default_rng(6)
    given = [
        *values(case),
        *(rng.normal(size=np.shape(a)).astype(a.dtype) for a in values(case) if a.dtype.kind == "f"),
    ]
    found, expected = ([np.copy(a) for a in given] for _ in range(2))
    for arguments, engine, target in ((found, Simulated, "sm_90"), (expected, CompiledFunction, "native")):
        variant = dataclasses.replace(kernel.variant, target=target)
        engine(Compilation(kernel.func, (*types, *tangents), variant).fn).run(case.dim, arguments)
    for place, (a, b) in enumerate(zip(found, expected, strict=True)):
        compare(f"argument {place} of the kernel along tangents", a, b, 1e-6)


def check_ranges(type_: str, form: str) -> None:
    """Loops over ranges, forward and adjoint, against Python."""
    run = SourceRun(type_, form, Variant(target="sm_90"))
    for what, found, expected in run.compared(Simulated, prepare=finalize_updates):
        compare(f"{what} of {form} over {type_}", found, expected, 1e-9)


def main(file: str, names: list[str]) -> None:
    verdicts = {}
    for name in names or [*CORPUS, *sorted(BLOCKS), *FUZZ, OF_THREADS, *UPDATES, *BLOCK_GRADIENTS, *ALONG, *RANGES]:
        try:
            if name == OF_THREADS:
                check_threads()
            elif name.startswith("fuzz."):
                check_fuzz(int(name[5:]))
            elif name.startswith("updates."):
                check_updates(name[8:])
            elif name in ALONG:
                check_along(CASES[name[6:]])
            elif name.startswith("gradient."):
                check_gradient(name[9:])
            elif name in RANGES:
                check_ranges(*name.split(".")[1:])
            elif name in BLOCKS:
                check_blocks(BLOCKS[name])
            else:
                check(CASES[name])
            verdicts[name] = ""
        except Exception:
            verdicts[name] = traceback.format_exc()
    Path(file).write_text(json.dumps(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
