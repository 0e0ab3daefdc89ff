# What a tape keeps for its adjoints, in bytes: 100 steps of 1,000 numbers, written in four ways, and two logs.

import numpy as np

import diffkern as dk

n, steps = 1000, 100


@dk.kernel
def in_place(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = dk.sin(x[i])


@dk.kernel
def row_by_row(x: dk.array2d(dtype=float), step: int):
    i = dk.tid()
    x[step + 1, i] = dk.sin(x[step, i])


@dk.kernel
def one_launch(x: dk.array(dtype=float), steps: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for _ in range(steps):
        s = dk.sin(s)
    y[i] = s


@dk.kernel
def sweep(x: dk.array2d(dtype=float), sweeps: int):
    i = dk.tid()
    for _ in range(sweeps):
        for j in range(1, x.shape[1]):
            x[i, j] = dk.sin(x[i, j]) * x[i, j - 1]


@dk.kernel
def nearest(x: dk.array(dtype=float), p: dk.array(dtype=float), d: dk.array(dtype=float)):
    i = dk.tid()
    found = 0
    for j in range(p.shape[0]):
        if dk.abs(x[i] - p[j]) < dk.abs(x[i] - p[found]):
            found = j
    d[i] = (x[i] - p[found]) ** 2.0


def numbers(*shape):
    return dk.array(np.random.default_rng(0).uniform(0.5, 1.0, shape), dtype=float, requires_grad=True)


x, y, rows = numbers(n), numbers(n), numbers(steps + 1, n)
state = x.numpy().nbytes
with dk.Tape() as tape:
    for _ in range(steps):
        in_place[n](x)
print(f"in place: {tape.memory():,} bytes; a state of {state:,} for each of {steps} launches")

with dk.Tape() as tape:
    for k in range(steps):
        row_by_row[n](rows, k)
print(f"a row for each step: {tape.memory():,} bytes; the array itself has {rows.numpy().nbytes:,}")

with dk.Tape() as tape:
    dk.checkpoint(lambda k: in_place[n](x), steps, slots=9)
print(f"9 states and the last one: {tape.memory():,} bytes")

with dk.Tape() as tape:
    one_launch[n](x, steps, y)
print(f"one launch with a loop: {tape.memory():,} bytes, and a stack for each thread of the processor while it runs")

grid = numbers(10, 20)
with dk.Tape() as tape:
    sweep[10](grid, 30)
print(f"overwritten in a loop: {tape.memory():,} bytes")

many = numbers(20_000)
with dk.Tape() as tape:
    nearest[many.size](many, numbers(200), numbers(20_000))
print(f"what 20,000 searches found: {tape.memory():,} bytes")
print()
print(one_launch.adjoint_report())
