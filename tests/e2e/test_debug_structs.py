"""Debug mode and the adjoint's report with structs: their fields go by the names that the user gave them."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.struct
class Body:
    pos: dk.vec3
    mass: float
    group: int


@dk.struct
class Table:
    weights: dk.array(dtype=float)
    scale: float


@dk.kernel(mode="debug")
def through_a_field(table: Table, bodies: dk.array(dtype=Body), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = table.scale * table.weights[bodies[i].group] * bodies[i].mass


@dk.kernel(mode="debug")
def moved(bodies: dk.array(dtype=Body), by: int):
    i = dk.tid()
    bodies[i + by].mass = 1.0


@dk.kernel
def pulled(table: Table, bodies: dk.array(dtype=Body), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = bodies[i].mass
    for _ in range(n):
        s = dk.sin(s) * table.scale
    y[i] = s * table.weights[i]


def bodies(*groups):
    made = []
    for group in groups:
        body = Body()
        body.mass, body.group = 2.0, group
        made.append(body)
    return dk.array(made, dtype=Body)


def table(*weights):
    return Table(dk.array(np.array(weights, dtype=np.float32)), 3.0)


def message(kernel, *arguments):
    with pytest.raises(dk.KernelRuntimeError) as caught:
        dk.launch(kernel, 3, list(arguments))
    return str(caught.value)


def test_an_array_that_is_a_field_of_a_struct():
    y = dk.zeros(3)
    text = message(through_a_field, table(1, 2), bodies(0, 5, -1), y)
    assert "kernel 'through_a_field', thread 1: index 5 is out of bounds for axis 0 of array 'table.weights'" in text
    assert "with shape (2,)" in text
    assert y.numpy().tolist() == [6, 0, 0]


def test_an_array_of_structs():
    some = bodies(0, 0, 0)
    text = message(moved, some, 1)
    assert "thread 2: index 3 is out of bounds for axis 0 of array 'bodies.mass' with shape (3,)" in text
    assert some.field("mass").numpy().tolist() == [2, 1, 1]


def test_two_threads_store_to_one_field():
    @dk.kernel(mode="debug")
    def collide(some: dk.array(dtype=Body)):
        some[dk.tid() // 2].mass = 1.0

    assert "some.mass" in message(collide, bodies(0, 0, 0))


def test_the_adjoint_finds_mistakes_too():
    @dk.kernel(mode="debug")
    def shifted(t: Table, by: int, y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = t.scale * t.weights[i + by]

    t = table(1, 2, 3)
    ct = {"weights": dk.zeros(3)}
    y, ct_y = dk.zeros(3), dk.ones(3)
    with pytest.raises(dk.KernelRuntimeError, match=r"thread 2.*index 3 .*'t\.weights'"):
        dk.launch(shifted, 3, [t, 1], [y], adj_inputs=[ct, None], adj_outputs=[ct_y], adjoint=True)


def test_the_report_names_fields():
    lines = pulled.adjoint_report().splitlines()
    assert lines[0] == "adjoint of pulled"
    assert "  gradient of table.weights: plain additions, no two threads race" in lines
    assert "  gradient of table.scale: one partial sum per chunk" in lines
    assert "  gradient of bodies.mass: plain additions, no two threads race" in lines
    assert any("loop at line" in line and "snapshots" in line for line in lines)
    chosen = pulled.adjoint_report(active=["table.weights", "y"])
    assert "table.weights" in chosen
    assert "bodies.mass" not in chosen
