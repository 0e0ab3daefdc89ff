"""Loads in branches read what was there before the branch wrote to it, whatever makes vectors of them."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

import diffkern as dk
from diffkern.process import llvm_modules
from diffkern.targets.cpu import object_code
from diffkern.targets.cpu.object_code import has_sunk_loads

SWAP = """
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)

define void @swap(ptr %p, ptr %q, <8 x i1> %m, <8 x float> %other) {
entry:
  br label %vector.body
vector.body:
  FIRST
  SECOND
  THIRD
  ret void
}
"""
_STORE = "call void @llvm.masked.store.v8f32.p0(<8 x float> zeroinitializer, ptr %p, i32 4, <8 x i1> %m)"
_PLAIN = "store <8 x float> zeroinitializer, ptr %p"


def _load(otherwise: str) -> str:
    return f"%x = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p, i32 4, <8 x i1> %m, <8 x float> {otherwise})"


_USE = "store <8 x float> %x, ptr %q"
_FROZEN = "%y = freeze <8 x float> %x"
TEXTS = [
    (_STORE, _load("%other"), _USE, True),
    (_PLAIN, _load("%other"), _USE, True),
    (_STORE, _load("zeroinitializer"), _USE, True),
    (_STORE, _load("poison"), _USE, False),
    (_STORE, _load("zeroinitializer"), _FROZEN, False),
    (_load("%other"), _STORE, _USE, False),
    (_load("%other"), _PLAIN, _USE, False),
]


@pytest.mark.parametrize(("first", "second", "third", "found"), TEXTS)
def test_a_masked_load_that_gives_a_chosen_value_behind_a_store(first, second, third, found):
    text = SWAP.replace("FIRST", first).replace("SECOND", second).replace("THIRD", third)
    assert has_sunk_loads(llvm_modules.parse(text)) is found


def test_what_this_llvm_makes_of_such_a_choice_is_found_or_right():
    text = SWAP.replace("FIRST", _load("poison")).replace("SECOND", _STORE)
    choice = "%z = select <8 x i1> %m, <8 x float> %x, <8 x float> %other"
    text = text.replace("THIRD", f"{choice}\n  store <8 x float> %z, ptr %q")
    module = llvm_modules.parse(text)
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    machine = object_code.machine().llvm
    llvm_modules.run_passes(passes, module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    made = str(module).partition("define")[2]
    is_behind = made.index("masked.load") > made.index("masked.store")
    assert has_sunk_loads(module) is is_behind


def swap(a, y, c):
    i = dk.tid()
    t = a.dtype(1)
    if c[i] > 0:
        t = a[i]
        a[i] = a.dtype(7)
    y[i] = t


def swap_in_a_loop(a, y, c):
    i = dk.tid()
    s = a.dtype(0)
    for k in range(3):
        t = a.dtype(1)
        if c[i] > k:
            t = a[i]
            a[i] = t + a.dtype(2)
        s = s + t
    y[i] = s


def two_ways(a, y, c):
    i = dk.tid()
    if c[i] > 0:
        t = a[i]
        a[i] = y[i]
    else:
        t = y[i] + a.dtype(1)
        y[i] = a.dtype(3)
    y[i] += t


def by_hand(kernel, a, y, c):
    for i in range(len(a)):
        if kernel is swap:
            y[i] = a[i] if c[i] > 0 else 1
            a[i] = 7 if c[i] > 0 else a[i]
        elif kernel is swap_in_a_loop:
            s = 0
            for k in range(3):
                s += a[i] if c[i] > k else 1
                a[i] += 2 if c[i] > k else 0
            y[i] = s
        elif c[i] > 0:
            a[i], y[i] = y[i], y[i] + a[i]
        else:
            y[i] = 3 + (y[i] + 1)


@pytest.mark.parametrize("lanes", [None, True, False])
@pytest.mark.parametrize("dtype", [dk.float32, dk.float64, dk.int32, dk.int64, dk.int16, dk.uint8])
@pytest.mark.parametrize("function", [swap, swap_in_a_loop, two_ways])
def test_threads_swap_elements_under_a_condition(function, dtype, lanes):
    kernel = dk.kernel(function) if lanes is None else dk.kernel(lanes=lanes)(function)
    rng = np.random.default_rng(5)
    a, y = (dk.array(rng.integers(10, 50, 203), dtype=dtype) for _ in range(2))
    c = dk.array(rng.integers(-1, 4, 203), dtype=dk.int32)
    wanted = [v.numpy().copy() for v in (a, y, c)]
    by_hand(function, *wanted)
    dk.launch(kernel, 203, [a, y, c])
    np.testing.assert_array_equal(a.numpy(), wanted[0])
    np.testing.assert_array_equal(y.numpy(), wanted[1])


@pytest.mark.parametrize("lanes", [None, True, False])
@pytest.mark.parametrize("threads", [5, 8, 130])
def test_an_adjoint_takes_a_cotangent_before_it_is_cleared(threads, lanes):
    def update(y, a: dk.float64):
        i = dk.tid()
        v = 0.5 * dk.atan(y[i] / (1.0 + y[i] * y[i]))
        y[i] += dk.erf(a if 4 == i else v)

    kernel = dk.kernel(update) if lanes is None else dk.kernel(lanes=lanes)(update)
    y = dk.array(np.linspace(-0.3, 1.0, threads), dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, threads, [y, 0.3])
    cotangent = np.linspace(1.0, 2.0, threads)
    tape.backward(grads={y: dk.array(cotangent, dtype=dk.float64)})
    x = np.linspace(-0.3, 1.0, threads)
    q = x / (1.0 + x * x)
    v = 0.5 * np.arctan(q)
    slope = 2.0 / np.sqrt(np.pi) * np.exp(-v * v) * 0.5 / (1.0 + q * q) * (1.0 - x * x) / (1.0 + x * x) ** 2
    slope[4] = 0.0
    np.testing.assert_allclose(y.grad.numpy(), cotangent * (1.0 + slope), rtol=1e-12)
