"""Methods and properties of structs in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend.syntax.canonical import fingerprint

SCALE = 2.0


@dk.struct
class Spring:
    rest: float
    stiffness: float = 1.0

    @property
    def soft(self):
        return self.stiffness < 10.0

    def force(self, x: float, damping: float = 0.0):
        return -SCALE * self.stiffness * (x - self.rest) - damping * x

    def energy(self, x: float):
        f = self.force(x)
        return 0.5 * f * (x - self.rest)

    def stiffer(self):
        made = Spring(self.rest, self.stiffness)
        made.stiffness *= 2.0
        return made


@dk.struct
class Chain:
    spring: Spring
    n: int

    def total(self, x: float):
        s = 0.0
        for _k in range(self.n):
            s += self.spring.energy(x)
        return s


@dk.kernel
def forces(chain: Chain, springs: dk.array(dtype=Spring), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    own = springs[i].stiffer()
    if own.soft:
        y[i] = own.force(x[i], damping=0.5) + chain.total(x[i])
    else:
        y[i] = springs[i].energy(x[i])


def test_values_and_gradients() -> None:
    springs = [Spring(1.0, 2.0), Spring(0.5, 20.0)]
    at = np.array([2.0, 3.0])
    chain = Chain(Spring(0.0, 3.0), 2)
    x, y = dk.array(at, dtype=float, requires_grad=True), dk.zeros(2, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        forces[2](chain, dk.array(springs, dtype=Spring), x, y)
    tape.backward(grads={y: np.ones(2, np.float32)})
    expected = [springs[0].stiffer().force(2.0, 0.5) + chain.total(2.0), springs[1].energy(3.0)]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [-2 * 4 - 0.5 - 2 * 2 * 3 * 2.0, -2 * 20 * 2.5], rtol=1e-5)
    assert springs[0].soft
    assert springs[0].stiffness == 2.0


def test_the_key_holds_the_methods_and_what_they_see() -> None:
    global SCALE
    before = fingerprint(forces.func)
    SCALE = 3.0
    try:
        assert fingerprint(forces.func) != before
    finally:
        SCALE = 2.0
    assert fingerprint(forces.func) == before


@dk.struct
class Counter:
    n: int

    def count(self):
        self.n += 1


def test_a_method_that_changes_its_struct_is_refused() -> None:
    @dk.kernel
    def k(c: Counter, y: dk.array(dtype=int)):
        c.count()
        y[0] = c.n

    with pytest.raises(dk.KernelError, match=r"Counter\.count changes self") as info:
        k[1](Counter(1), dk.zeros(1, dtype=int))
    assert "let it return a changed copy" in str(info.value)


def made(factor: float) -> type:
    @dk.struct
    class Twin:
        n: float

        def value(self):
            return factor * self.n

    return Twin


def test_structs_of_one_name_with_different_methods_are_not_confused() -> None:
    one, _other = made(1.0), made(2.0)

    @dk.kernel
    def k(t, y: dk.array(dtype=float)):
        y[0] = t.value()

    with pytest.raises(dk.KernelError, match="structs Twin of these fields with different methods"):
        k[1](one(1.0), dk.zeros(1, dtype=float))


@dk.struct
class OnlyMethods:
    def one(self):
        return 1.0


def test_an_empty_struct() -> None:
    @dk.kernel
    def k(e: OnlyMethods, y: dk.array(dtype=float)):
        made = OnlyMethods()
        y[0] = e.one() + made.one()

    y = dk.zeros(1, dtype=float)
    k[1](OnlyMethods(), y)
    assert y.numpy()[0] == 2.0


def test_a_method_that_only_one_of_two_structs_has() -> None:
    def made(with_method: bool):
        @dk.struct
        class Half:
            a: float

            if with_method:

                def twice(self):
                    return 2.0 * self.a

        return Half

    Half = made(True)
    made(False)

    @dk.kernel
    def k(h, y):
        y[0] = h.twice()

    with pytest.raises(dk.KernelError, match="structs Half of these fields with different methods"):
        k[1](Half(1.0), dk.zeros(1, dtype=float))
