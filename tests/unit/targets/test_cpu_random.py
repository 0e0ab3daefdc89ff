"""Random structured programs: the compiled code and the Python spelling compute the same integers.

All arithmetic is exact, so any difference is a fault: in control flow, in carried values, or in how the Python writer
reuses variables. Names are drawn from three, so that almost every value competes for a variable.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from cpu_harness import agree, i32, kernel, load, store, tids

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Region, Value
from diffkern.ir.types import BOOL, INT32, Array

NAMES = ["a", "b", "c", ""]
I1 = Array(INT32, 1)


class Program:
    """Builds random ops; every value in ``scope`` is an int32 visible at the current place."""

    def __init__(self, b: Builder, rng: random.Random, x: Value, i: Value) -> None:
        self.b, self.rng, self.x, self.i = b, rng, x, i

    def name(self) -> str:
        return self.rng.choice(NAMES)

    def value(self, scope: list[Value]) -> Value:
        if self.rng.random() < 0.15:
            return i32(self.b, self.rng.randint(-3, 9))
        return self.rng.choice(scope[-6:] if self.rng.random() < 0.7 else scope)

    def arithmetic(self, scope: list[Value]) -> Value:
        op = self.rng.choice(["add", "sub", "mul", "min", "max", "xor", "select"])
        p, q = self.value(scope), self.value(scope)
        if op == "select":
            return self.b.one("select", self.condition(scope), p, q, hint=self.name())
        return self.b.one(op, p, q, hint=self.name())

    def condition(self, scope: list[Value]) -> Value:
        return self.b.one(self.rng.choice(["lt", "ge", "ne"]), self.value(scope), self.value(scope))

    def block(self, scope: list[Value], depth: int, size: int) -> list[Value]:
        scope = list(scope)
        for _ in range(size):
            kind = self.rng.random()
            if kind < 0.5 or depth == 0:
                scope.append(self.arithmetic(scope))
            elif kind < 0.58:
                n = i32(self.b, 16)
                scope.append(load(self.b, self.x, self.b.one("mod", self.value(scope), n)))
            elif kind < 0.64:
                place = self.b.add(self.b.mul(self.i, i32(self.b, 16)), i32(self.b, self.rng.randint(0, 15)))
                self.b.op("accumulate", self.out, place, self.value(scope), mode="plain", wrap=(False,))
            elif kind < 0.8:
                scope += self.branch(scope, depth)
            elif kind < 0.93:
                scope += self.loop(scope, depth)
            else:
                scope += self.while_loop(scope, depth)
        return scope

    def region(self, params: list[Value], scope: list[Value], depth: int, count: int) -> Region:
        r = Region(params=tuple(params))
        with self.b.into(r):
            inner = self.block([*scope, *params], depth - 1, self.rng.randint(0, 4))
            r.yields = tuple(self.value(inner) for _ in range(count))
        return r

    def branch(self, scope: list[Value], depth: int) -> list[Value]:
        count = self.rng.randint(0, 3)
        cond = self.condition(scope)
        arms = [self.region([], scope, depth, count) for _ in range(2)]
        return list(self.b.if_(cond, *arms, [self.name() for _ in range(count)]))

    def loop(self, scope: list[Value], depth: int) -> list[Value]:
        init = [self.value(scope) for _ in range(self.rng.randint(0, 3))]
        names = [self.name() for _ in init]
        params = [Value(INT32, "k"), *(Value(INT32, n) for n in names)]
        bounds = [i32(self.b, self.rng.randint(-2, 2)), i32(self.b, self.rng.randint(-1, 4))]
        step = i32(self.b, self.rng.choice([1, 1, 1, 2, -1]))
        body = self.region(params, scope, depth, len(init))
        return list(self.b.for_(*bounds, step, init, body, names))

    def while_loop(self, scope: list[Value], depth: int) -> list[Value]:
        """At most four trips: the first carried value counts them."""
        init = [i32(self.b, 0), *(self.value(scope) for _ in range(self.rng.randint(0, 2)))]
        names = ["n", *(self.name() for _ in init[1:])]
        cond = Region(params=tuple(Value(INT32, n) for n in names))
        with self.b.into(cond):
            inner = self.block([*scope, *cond.params], 0, self.rng.randint(0, 2))
            few = self.b.one("lt", cond.params[0], i32(self.b, 4))
            cond.yields = (self.b.one("and", few, self.condition(inner)),)
        assert cond.yields[0].type == BOOL
        body = Region(params=tuple(Value(INT32, n) for n in names))
        with self.b.into(body):
            inner = self.block([*scope, *body.params], depth - 1, self.rng.randint(0, 3))
            more = [self.value(inner) for _ in init[1:]]
            body.yields = (self.b.one("add", body.params[0], i32(self.b, 1), hint="n"), *more)
        return list(self.b.while_(init, cond, body, names))


def program(seed: int):
    rng = random.Random(seed)

    def body(b, x, out, a):
        (i,) = tids(b)
        p = Program(b, rng, x, i)
        p.out = out
        scope = p.block([i, load(b, x, i), a], 3, rng.randint(3, 9))
        total = scope[-1]
        for v in scope[:-1]:
            total = b.one("xor", b.mul(total, i32(b, 3)), v)
        store(b, out, b.mul(i, i32(b, 16)), total)

    return kernel({"x": I1, "out": I1, "a": INT32}, body)


@pytest.mark.parametrize("batch", range(8))
def test_random_programs(batch):
    x = np.array([0, 1, -1, 2, 5, -7, 100, 2**31 - 1, -(2**31), 3, 4, 4, 12, -3, 9, 8], np.int32)
    for seed in range(batch * 25, batch * 25 + 25):
        agree(program(seed), [x, np.zeros(80, np.int32), 3], 5, chunk=2)
