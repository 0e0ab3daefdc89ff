"""The program that ran owns its derivative: captured values, closures, funcs and modes that change after a launch."""

from __future__ import annotations

import types

import numpy as np
import pytest

import diffkern as dk

SCALE = 2.0
WEIGHT = dk.vec3(1.0, 2.0, 3.0)
settings = types.ModuleType("settings")
settings.factor = 2.0
settings.deep = types.ModuleType("deep")
settings.deep.factor = 3.0


class Limits:
    top = 4.0


@dk.func
def shaped(v: float, power: float = 1.0):
    return v * settings.factor * power


@dk.kernel
def times(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = SCALE * x[i]


@dk.kernel
def many(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    w = WEIGHT
    y[i] = shaped(x[i]) * settings.deep.factor * Limits.top + w[1] * x[i]


def pair(n: int = 2):
    return dk.ones(n, requires_grad=True), dk.zeros(n, requires_grad=True)


def taped(kernel, x, y):
    with dk.Tape() as tape:
        kernel[x.size](x, y)
    return tape


def gradient(tape, x, y):
    tape.zero()
    tape.backward(grads={y: np.ones(y.size, np.float32)})
    return x.grad.numpy().tolist()


@pytest.mark.parametrize("early", [True, False])
def test_a_tape_keeps_the_program_that_ran(monkeypatch, early):
    x, y = pair()
    tape = taped(times, x, y)
    if early:
        assert gradient(tape, x, y) == [2, 2]
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    other, z = pair()
    second = taped(times, other, z)
    assert z.numpy().tolist() == [5, 5]
    for _ in range(3):  # the third is compiled
        assert gradient(tape, x, y) == [2, 2]
        assert gradient(second, other, z) == [5, 5]
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    assert gradient(tape, x, y) == [2, 2]
    assert gradient(second, other, z) == [5, 5]


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        (lambda m: m.setattr(settings, "factor", 10.0), 122.0),
        (lambda m: m.setattr(settings.deep, "factor", 10.0), 82.0),
        (lambda m: m.setattr(settings, "deep", types.SimpleNamespace(factor=0.0)), None),
        (lambda m: m.setattr(Limits, "top", 0.0), 2.0),
        (lambda m: m.setitem(globals(), "Limits", None), None),
        (lambda m: m.setitem(globals(), "settings", None), None),
        (lambda m: m.setitem(globals(), "shaped", dk.func(lambda v: v)), None),
        (lambda m: m.setitem(globals(), "WEIGHT", dk.vec3(0.0, 5.0, 0.0)), 29.0),
    ],
)
def test_whatever_is_captured_stays_what_it_was(monkeypatch, change, meant):
    x, y = pair()
    tape = taped(many, x, y)
    change(monkeypatch)
    assert gradient(tape, x, y) == [26, 26]
    if meant is not None:
        many[2](x, y)
        assert y.numpy().tolist() == [meant, meant]
        assert gradient(taped(many, x, y), x, y) == [meant, meant]


def test_what_is_gone_and_comes_back(monkeypatch):
    factor = 2.0

    @dk.kernel
    def of_a_closure(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = factor * x[i]

    x, y = pair()
    of_a_closure[2](x, y)
    assert y.numpy().tolist() == [2, 2]
    del factor
    for _ in range(2):
        with pytest.raises(dk.KernelError, match="factor"):
            of_a_closure[2](x, y)
    factor = 3.0
    of_a_closure[2](x, y)
    assert y.numpy().tolist() == [3, 3]
    many[2](x, y)
    known = y.numpy().tolist()
    monkeypatch.delattr(Limits, "top")
    for _ in range(2):
        with pytest.raises(dk.KernelError, match="top"):
            many[2](x, y)
    monkeypatch.undo()
    many[2](x, y)
    assert y.numpy().tolist() == known


def test_closures_and_defaults():
    factor, offset = 2.0, 1.0

    @dk.func
    def inner(v):
        return v * factor

    @dk.kernel
    def outer(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = inner(x[i]) * inner(x[i]) + offset * x[i]

    x, y = pair()
    tape = taped(outer, x, y)
    factor, offset = 10.0, 0.0
    assert gradient(tape, x, y) == [9, 9]
    assert gradient(taped(outer, x, y), x, y) == [200, 200]


def test_records_and_their_adjoints(monkeypatch):
    x, y = pair(4)
    record = dk.launch(times, 4, [x], [y], record_cmd=True)
    early = record.adjoint()
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    z = dk.zeros(4)
    times[4](x, z)
    assert z.numpy().tolist() == [5] * 4

    def pulled(adjoint, n=4):
        x.grad.zero_()
        y.grad.fill_(1.0)
        adjoint.launch()
        return x.grad.numpy().tolist()[:n]

    record.launch()
    assert y.numpy().tolist() == [2] * 4
    assert pulled(early) == [2] * 4
    assert pulled(record.adjoint()) == [2] * 4
    early.set_dim(3)
    assert pulled(early, 3) == [2] * 3
    record.set_dim(2)
    record.launch()
    assert pulled(record.adjoint(), 2) == [2] * 2
    wide, goal = dk.ones((4, 2), requires_grad=True)[:, 0], dk.zeros(4, requires_grad=True)
    early.set_params([wide, goal])  # another memory layout: another program, of the same meaning
    goal.grad.fill_(1.0)
    early.launch()
    assert wide.grad.numpy().tolist()[:3] == [2] * 3
    with dk.Tape() as tape:
        record.launch()
    assert gradient(tape, x, y)[:2] == [2] * 2


def test_sequences(monkeypatch):
    x, y = pair()
    with dk.record() as sequence:
        times[2](x, y)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    times[2](x, dk.zeros(2))
    both = sequence.adjoint(grads={y: np.ones(2, np.float32)})
    both.replay()
    assert (y.numpy().tolist(), x.grad.numpy().tolist()) == ([2, 2], [2, 2])


def test_the_mode_of_the_launch(monkeypatch):
    """A launch in release keeps its adjoint without checks, and one in debug keeps its own with them."""

    @dk.kernel
    def pick(x: dk.array(dtype=float), idx: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[idx[i]] * SCALE

    x, y = pair()
    idx = dk.array([1, 0], dtype=int)
    with dk.Tape() as tape:
        pick[2](x, idx, y)
    before = pick.current()
    monkeypatch.setattr(dk.config, "mode", "debug")
    assert pick.current() is not before
    assert gradient(tape, x, y) == [2, 2]
    assert [type(program).__name__ for program in before.adjoints.values()] == ["Executable"]
    with dk.Tape() as second:
        pick[2](x, idx, y)
    monkeypatch.setattr(dk.config, "mode", "release")
    assert gradient(second, x, y) == [2, 2]
    assert not pick.current().adjoints


def test_a_name_used_by_itself_and_for_its_attributes_cannot_be_kept(monkeypatch):
    @dk.struct
    class Pair:
        a: float
        b: float

    Pair.extra = 3.0

    @dk.kernel
    def build(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        p = Pair(x[i], SCALE)
        y[i] = p.a * p.b * Pair.extra

    x, y = pair()
    tape = taped(build, x, y)
    assert gradient(tape, x, y) == [6, 6]
    second = taped(build, x, y)
    assert gradient(second, x, y) == [6, 6]
    monkeypatch.setattr(Pair, "extra", 0.0)
    assert gradient(tape, x, y) == [6, 6]  # it is there already
    z = dk.zeros((2, 2), requires_grad=True)[:, 0]
    fresh = dk.launch(build, 2, [x], [y], record_cmd=True)
    monkeypatch.setattr(Pair, "extra", 1.0)
    with pytest.raises(dk.KernelError, match="both by itself and for its attributes"):
        fresh.set_param_by_name("y", z)


def test_errors_of_an_adjoint_name_the_user_s_line(monkeypatch):
    @dk.kernel
    def hard(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
        i = dk.tid()
        for k in range(n):
            y[i] = y[i] * x[i] * SCALE

    x, y = pair()
    record = dk.launch(hard, 2, [x], [y, 3], record_cmd=True)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    with pytest.raises(dk.KernelError) as caught:
        record.adjoint()
    assert "hard" in str(caught.value)
    assert "test_generations" in str(caught.value) or "needs what 'y' held" in str(caught.value)


# -- tables, and methods of structs that are not annotated -------------------------------------------------------------

TABLE = np.array([1.0, 2.0], np.float32)
TABLES = (np.array([1.0, 2.0], np.float32), 3.0)
RATE = 1.0


class Tables:
    table = np.array([1.0, 2.0], np.float32)


@dk.struct
class Scaled:
    a: float

    def scaled(self):
        return self.a * RATE


@dk.kernel
def by_table(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[0] = x[0] * TABLE[1]


@dk.kernel
def by_table_in_a_tuple(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[0] = x[0] * TABLES[0][1]


@dk.kernel
def by_table_of_a_class(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[0] = x[0] * Tables.table[1]


@pytest.mark.parametrize(
    ("kernel", "table"),
    [(by_table, TABLE), (by_table_in_a_tuple, TABLES[0]), (by_table_of_a_class, Tables.table)],
    ids=["name", "tuple", "class"],
)
def test_a_table_that_is_changed_in_place(kernel, table):
    x, y = dk.ones(1, requires_grad=True), dk.zeros(1, requires_grad=True)
    table[1] = 2.0
    with dk.Tape() as tape:
        kernel[1](x, y)
    table[1] = 7.0
    tape.backward(grads={y: dk.ones(1)})
    assert (y.list(), x.grad.list()) == ([2.0], [2.0])
    kernel[1](x, y)
    assert y.list() == [7.0]


def test_a_table_that_cannot_change_is_not_looked_at(monkeypatch):
    fixed = np.array([1.0, 2.0], np.float32)
    fixed.setflags(write=False)
    monkeypatch.setitem(globals(), "TABLE", fixed)
    y = dk.zeros(1)
    by_table[1](dk.ones(1), y)
    assert y.list() == [2.0]
    assert any(value is fixed for _, name, value in by_table._captures if name == "TABLE")


@dk.kernel
def of_any_struct(s, y: dk.array(dtype=float)):
    y[0] = s.scaled()


@dk.kernel
def of_any_array(s, y: dk.array(dtype=float)):
    y[0] = s[0].scaled()


@dk.kernel
def of_an_annotated_array(s: dk.array(dtype=Scaled), y: dk.array(dtype=float)):
    y[0] = s[0].scaled()


@pytest.mark.parametrize("kernel", [of_any_array, of_an_annotated_array], ids=["any", "annotated"])
def test_what_a_method_captures(monkeypatch, kernel):
    one = Scaled()
    one.a = 2.0
    s, y = dk.array([one], dtype=Scaled, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        kernel[1](s, y)
    monkeypatch.setitem(globals(), "RATE", 5.0)
    tape.backward(grads={y: dk.ones(1)})
    assert (y.list(), s.grad.numpy()["a"].tolist()) == ([2.0], [1.0])
    kernel[1](s, y)
    assert y.list() == [10.0]
    of_any_struct[1](one, y)
    monkeypatch.setitem(globals(), "RATE", 1.0)
    of_any_struct[1](one, y)
    assert y.list() == [2.0]
