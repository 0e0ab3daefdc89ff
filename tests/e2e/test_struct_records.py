"""Structs in launch records and recorded sequences: values of the time of recording, setters, adjoints, replays."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.struct
class Item:
    a: float
    v: dk.vec2
    n: int


@dk.struct
class Settings:
    scale: float
    xs: dk.array(dtype=float)


@dk.kernel
def scaled(items: dk.array(dtype=Item), s: Settings, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = items[i].a * s.scale + s.xs[i] * items[i].v[1]


def make():
    items = dk.array([Item(1.0, (1, 2)), Item(3.0, (3, 4))], requires_grad=True)
    xs = dk.array([10.0, 20.0], dtype=float, requires_grad=True)
    return items, Settings(2.0, xs), dk.zeros(2, requires_grad=True)


def test_record_has_values_and_takes_others():
    items, s, y = make()
    record = dk.launch(scaled, 2, [items, s], [y], record_cmd=True)
    s.scale = 100.0
    record.launch()
    assert y.numpy().tolist() == [22.0, 86.0]
    record.set_param_by_name("s", s)
    record.launch()
    assert y.numpy().tolist() == [120.0, 380.0]
    s.xs = dk.zeros(2)
    record.set_param_at_index(1, s)
    record.set_param_by_name("items", dk.array([Item(5.0), Item(6.0)]))
    record.launch()
    assert y.numpy().tolist() == [500.0, 600.0]
    other = dk.zeros(2)
    record.set_params([items, Settings(1.0, s.xs), other])
    record.launch()
    assert other.numpy().tolist() == [1.0, 3.0]
    assert {"items.a", "items.v", "s.xs", "y"} <= set(record.arrays)
    for value in (3.0, Item()):
        with pytest.raises(dk.LaunchError):
            record.set_param_by_name("s", value)
    with pytest.raises(dk.KernelTypeError, match=r"s\.xs is None in this launch"):
        record.set_param_by_name("s", Settings(1.0))
    record.launch()
    assert other.numpy().tolist() == [1.0, 3.0]


def test_adjoint_record():
    items, s, y = make()
    record = dk.launch(scaled, 2, [items, s], [y], record_cmd=True)
    scale = dk.zeros(1)
    adjoint = record.adjoint({"s": {"scale": scale, "xs": s.xs.grad}})
    for _ in range(2):
        record.launch()
        y.grad.fill_(1.0)
        adjoint.launch()
    assert items.grad.numpy()["a"].tolist() == [4.0, 4.0]
    assert items.grad.numpy()["v"].tolist() == [[0.0, 20.0], [0.0, 40.0]]
    assert s.xs.grad.numpy().tolist() == [4.0, 8.0]
    assert scale.numpy().tolist() == [8.0]
    again = dk.zeros_like(items)
    adjoint.set_param_by_name("items", again, adjoint=True)
    y.grad.fill_(1.0)
    adjoint.launch()
    assert again.numpy()["a"].tolist() == [2.0, 2.0]


def test_sequence_with_copies_fills_and_backward():
    items, s, y = make()
    start = dk.clone(items)
    with dk.record() as sequence:
        items.assign(start)
        items.grad.zero_()
        with dk.Tape() as tape:
            scaled[2](items, s, y)
        tape.backward(grads={y: np.ones(2, np.float32)})
    items.zero_()
    sequence.replay()
    sequence.replay()
    assert y.numpy().tolist() == [22.0, 86.0]
    assert items.grad.numpy()["a"].tolist() == [2.0, 2.0]
    assert items.grad.numpy()["v"].tolist() == [[0.0, 10.0], [0.0, 20.0]]
    assert "items.a" in str(sequence)


@dk.kernel
def of_vector(s: Settings, v: dk.vec2, y: dk.array(dtype=float)):
    y[0] = s.scale * v[1]


def test_a_struct_without_its_array():
    y = dk.zeros(1)
    record = dk.launch(of_vector, 1, [Settings(2.0, None), dk.vec2(1.0, 3.0)], [y], record_cmd=True)
    record.launch()
    assert y.numpy()[0] == 6.0
    for scale in (5.0, 7.0):
        record.set_param_at_index(0, Settings(scale, None))
        record.launch()
        assert y.numpy()[0] == 3.0 * scale
