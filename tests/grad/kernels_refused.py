"""Kernels that have no gradient that could be proved right. The line named carries the comment ``# refused``."""

from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk

from .cases import ints, signed, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
i1 = dk.array(dtype=int)

# function, message, arguments by name
REFUSED: list[tuple[Callable[..., Any], str, dict[str, Any]]] = []


def refused(message: str, **arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        made = {k: v(np.random.default_rng(0)) if callable(v) else v for k, v in arguments.items()}
        REFUSED.append((function, message, made))
        return function

    return enter


@refused("another thread", x=signed(4))
def neighbour_in_place(x: f1):
    i = dk.tid()
    if i > 0:
        x[i] = 0.5 * (x[i] + x[i - 1])  # refused


@refused("another thread", x=signed(4), y=zeros(4), z=zeros(4))
def reads_what_a_neighbour_writes(x: f1, y: f1, z: f1):
    i = dk.tid()
    y[i] = x[i] * x[i]
    z[i] = y[(i + 1) % 4]  # refused


@refused("another thread", x=signed(4), idx=ints(1, 0, 3, 2), y=zeros(4), z=zeros(4))
def reads_through_an_index(x: f1, idx: i1, y: f1, z: f1):
    i = dk.tid()
    y[i] = x[i]
    z[i] = y[idx[i]] * x[i]  # refused


@refused("returned by atomic_add", x=signed(4), y=zeros(1), z=zeros(4))
def uses_the_old_value(x: f1, y: f1, z: f1):
    i = dk.tid()
    old = dk.atomic_add(y, 0, x[i])  # refused
    z[i] = old * x[i]


@refused("atomic_exch has no derivative", x=signed(4), y=zeros(4))
def exchange(x: f1, y: f1):
    i = dk.tid()
    dk.atomic_exch(y, i, x[i] * 2.0)  # refused


@refused("stored to and updated atomically", x=signed(4), y=zeros(4))
def stores_and_adds(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i]
    dk.atomic_add(y, 0, x[i])  # refused


@refused("another thread", x=signed(4), y=zeros(4), z=zeros(4), idx=ints(1, 0, 3, 2))
def reads_an_atomic_sum(x: f1, y: f1, z: f1, idx: i1):
    i = dk.tid()
    dk.atomic_add(y, idx[i], x[i])
    z[i] = y[i] * x[i]  # refused


@refused("overwrites", x=signed(3), idx=ints(1, 0, 2, 1), y=signed(3, 4))
def overwritten_at_indices_from_data(x: f1, idx: i1, y: f2):
    i = dk.tid()
    for k in range(4):
        y[i, idx[k]] = y[i, idx[k]] * y[i, idx[k]] * x[i]  # refused


@refused("another thread", x=signed(4))
def uniform_element_read_and_written(x: f1):
    i = dk.tid()
    x[i] = x[i] * x[0]  # refused


@refused("another thread", x=signed(4), y=zeros(4), s=zeros(1))
def everyone_reads_what_one_writes(x: f1, y: f1, s: f1):
    i = dk.tid()
    if i == 0:
        s[0] = x[0]
    y[i] = s[0] * x[i]  # refused


@refused("another thread", x=signed(4), y=zeros(8))
def one_slot_further(x: f1, y: f1):
    i = dk.tid()
    y[2 * i] = x[i]
    y[2 * i + 1] = y[2 * i + 2] * x[i]  # refused


@refused("another thread", x=signed(4), perm=ints(2, 0, 3, 1), y=zeros(4), z=zeros(4))
def conditional_store_through_an_index(x: f1, perm: i1, y: f1, z: f1):
    i = dk.tid()
    j = perm[i] // 2
    if i > 1:
        y[j] = x[i]
    z[i] = y[j] * x[i]  # refused


@refused("overwrites", s=signed(3, 4), n=3)
def bubble_sort_pass(s: f2, n: int):
    i = dk.tid()
    for k in range(n):
        if s[i, k] > s[i, k + 1]:  # refused
            a = s[i, k]
            s[i, k] = s[i, k + 1]
            s[i, k + 1] = a


@refused("order of threads", x=signed(4), count=ints(0), y=zeros(4))
def compaction(x: f1, count: i1, y: f1):
    i = dk.tid()
    slot = dk.atomic_add(count, 0, 1)  # refused
    y[slot] = x[i] * x[i]


@refused("overwrites", x=signed(3, 5), y=zeros(3, 5), n=5)
def second_pass_over_a_row(x: f2, y: f2, n: int):
    i = dk.tid()
    for k in range(n):
        y[i, k] = x[i, k] * x[i, k]
    for k in range(n - 1):
        y[i, k] = y[i, k] * y[i, k + 1]  # refused
