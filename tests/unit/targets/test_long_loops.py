"""LLVM puts trips of loops in a row whose bodies are short; longer ones stay as they are, but for constant trips."""

import re

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.targets import target_named

ROLLED = '"llvm.loop.unroll.runtime.disable"'


@dk.kernel
def short(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    s = 0.0
    for k in range(n):
        s += x[k]
    y[0] = s


@dk.kernel
def long(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    s = 0.0
    for k in range(n):
        a = x[3 * k] * x[3 * k + 1] + x[3 * k + 2]
        if a > 1.0:
            s += a * a - x[k + n]
        else:
            s += a / (1.0 + a * a) + x[k + 2 * n]
    y[0] = s


@dk.kernel
def waiting(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    s = 0.0
    k = 0
    while k < n:
        a = x[3 * k] * x[3 * k + 1] + x[3 * k + 2]
        if a > 1.0:
            s += a * a - x[k + n]
        else:
            s += a / (1.0 + a * a) + x[k + 2 * n]
        k += 1
    y[0] = s


@dk.kernel
def choosing(x: dk.array2d(dtype=float), y: dk.array(dtype=float)):
    v = dk.types.vector(19, float)()
    for k in range(19):
        v[k] = x[k, dk.tid()]
    s = 0.0
    for k in range(19):
        s += float(k) * v[18 - k] * v[k]
    y[dk.tid()] = s


def emitted(kernel, target: str) -> str:
    found = Compilation(kernel.func, kernel.argument_types(), Variant(target=target))
    return str(target_named(target).emit(found.forward, "k").text)


def rolled(kernel, target: str) -> set[str]:
    """The names of the blocks that begin loops of which no trips are put in a row."""
    text = emitted(kernel, target)
    nodes = set(re.findall(r'^(!\d+) = !\{ !"llvm.loop.unroll.runtime.disable" \}', text, re.M))
    known = re.findall(r"^(!\d+) = (?:distinct )?!\{ !\d+, (!\d+) \}", text, re.M)
    loops = {name for name, held in known if held in nodes}
    back = re.findall(r'br label %"([a-z]+)[.\d]*", !llvm\.loop (!\d+)', text)
    return {name for name, loop in back if loop in loops}


@pytest.mark.parametrize(("kernel", "head"), [(long, "for"), (waiting, "while")], ids=["for", "while"])
def test_a_long_body_stays_one(kernel, head):
    assert head in rolled(kernel, "x86-64-v3")


def test_a_short_body_does_not():
    assert "for" not in rolled(short, "x86-64-v3")


def test_gpus_decide_by_themselves():
    assert not rolled(long, "sm_90")


def test_loops_that_choose_components_by_their_index_are_put_in_a_row():
    assert "llvm.loop.unroll.full" in emitted(choosing, "x86-64-v3")
    for kernel in (short, long):
        assert "llvm.loop.unroll.full" not in emitted(kernel, "x86-64-v3")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(19, 5)).astype(np.float32)
    y = dk.zeros(5, dtype=float)
    dk.launch(choosing, 5, [dk.array(x), y])
    expected = (np.arange(19)[:, None] * x.astype(float)[::-1] * x).sum(axis=0)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-4)
