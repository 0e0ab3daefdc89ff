"""The loop vectoriser does not come back from some kernels: they are found before, and compiled all the same."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest

import diffkern as dk
from diffkern.backends import cpu
from diffkern.backends.llvm import apart, target
from diffkern.backends.llvm.uniform import ENDLESS, uniform_questions
from diffkern.pipeline import adjoint_ir, forward_ir


@dk.kernel
def shared(x: dk.array(dtype=float), s: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    a = s[0]
    for _ in range(4):
        a = dk.sin(a) * dk.cos(a) + dk.exp(-a * a)
    y[i] = x[i] * a


@dk.kernel
def own(x: dk.array(dtype=float), s: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    a = s[i]
    for _ in range(4):
        a = dk.sin(a) * dk.cos(a) + dk.exp(-a * a)
    y[i] = x[i] * a


@dk.kernel
def straight(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    a = dk.sin(x[i]) * dk.cos(x[i])
    y[i] = a * a + dk.exp(-a * a)


@dk.kernel
def rows(x: dk.array2d(dtype=float), s: dk.array(dtype=float), y: dk.array2d(dtype=float)):
    i, j = dk.tid()
    a = s[i]
    a = dk.sin(a) * dk.cos(a) + dk.exp(-a * a)
    a = dk.sin(a) * dk.cos(a) + dk.exp(-a * a)
    a = dk.sin(a) * dk.cos(a) + dk.exp(-a * a)
    y[i, j] = x[i, j] * a


@dk.kernel
def by_value(x: dk.array(dtype=float), s: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * dk.sin(s) * dk.cos(s)


def function(kernel):
    return forward_ir(kernel.func, kernel.argument_types(), {})


def test_what_is_asked_for_too_often():
    assert uniform_questions(function(shared)) > ENDLESS
    assert uniform_questions(function(rows)) > ENDLESS
    derivative = adjoint_ir(shared.func, shared.argument_types(), frozenset({0, 1, 2}), {})
    assert uniform_questions(derivative.fn) > ENDLESS
    for kernel in (by_value, own, straight):
        assert uniform_questions(function(kernel)) < ENDLESS


def expected(x, s):
    a = np.float64(s)
    for _ in range(4):
        a = np.sin(a) * np.cos(a) + np.exp(-a * a)
    return x * a


def test_such_a_kernel_is_compiled_and_right(monkeypatch):
    monkeypatch.setattr(target, "APART_S", 1.0)
    x = dk.array(np.linspace(1, 2, 100, dtype=np.float32), requires_grad=True)
    s = dk.array(np.array([0.3], dtype=np.float32), requires_grad=True)
    y = dk.zeros(100, requires_grad=True)
    began = time.perf_counter()
    with dk.Tape() as tape:
        dk.launch(shared, 100, [x, s], [y])
    tape.backward(grads={y: dk.ones(100)})
    assert time.perf_counter() - began < 120  # it would be hours
    np.testing.assert_allclose(y.numpy(), expected(x.numpy(), 0.3), rtol=1e-5)
    h = 1e-6
    slope = (expected(x.numpy(), 0.3 + h) - expected(x.numpy(), 0.3 - h)).sum() / (2 * h)
    np.testing.assert_allclose(s.grad.numpy()[0], slope, rtol=1e-3)


def test_the_other_process_makes_the_same_code(monkeypatch):
    fn = function(straight)
    here = cpu.compile_function(fn, "symbol")
    calls = []

    def noted(*arguments):
        calls.append(arguments)
        return apart.optimise_apart(*arguments)

    monkeypatch.setattr(target, "optimise_apart", noted)
    monkeypatch.setattr(target, "ENDLESS", -1.0)
    monkeypatch.setattr(target, "APART_S", 120.0)
    there = cpu.compile_function(fn, "symbol")
    assert len(calls) == 1
    assert "<8 x float>" in there.llvm_ir or "<4 x float>" in there.llvm_ir or "<16 x float>" in there.llvm_ir
    assert len(there.object_code) == len(here.object_code)


@pytest.mark.parametrize("command", [["-c", "import time; time.sleep(60)"], ["-c", "raise SystemExit(3)"], None])
def test_a_process_that_does_not_answer(monkeypatch, command):
    real = subprocess.run

    def replaced(given, **kwargs):
        return real(["/does/not/exist"] if command is None else [sys.executable, *command], **kwargs)

    monkeypatch.setattr(apart.subprocess, "run", replaced)
    began = time.perf_counter()
    assert apart.optimise_apart("text", "triple", "cpu", "", 0.5) is None
    assert time.perf_counter() - began < 30


def test_the_program_of_the_process_reads_an_order(monkeypatch, capsysbinary):
    t = target.target()
    module = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"
    order = json.dumps([t.triple, t.cpu, t.features, module])
    monkeypatch.setattr(sys, "stdin", __import__("io").StringIO(order))
    apart._main()
    code = capsysbinary.readouterr().out
    assert "ret i32 %x" in str(target.llvm.parse_bitcode(code))
