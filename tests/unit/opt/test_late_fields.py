"""Fields of elements are loaded behind the branches that do not need them."""

import numpy as np
import pytest
from passes_harness import D1, after, lowered, results

import diffkern as dk
from diffkern.ir.nodes import walk
from diffkern.ir.structs import Struct, StructArray
from diffkern.ir.types import FLOAT64
from diffkern.ir.views import is_branch
from diffkern.opt.late_fields import load_fields_late

POLES = StructArray(Struct("Pole", (("place", FLOAT64), ("width", FLOAT64), ("height", FLOAT64))), 1)


def peak(poles, y):
    i = dk.tid()
    pole = poles[i]
    far = 0.0
    if pole.place > 0.5:
        for _ in range(3):
            far += dk.sqrt(pole.place + far)
    y[i] = pole.height * far + pole.width


def in_between(poles, y):
    i = dk.tid()
    pole = poles[i]
    if pole.place > 0.5:
        y[i] = 2.0
    y[i] = y[i] + pole.height


def alone(poles, y):
    i = dk.tid()
    height = poles[i].height
    far = 0.0
    if y[i] > 0.5:
        far = dk.sqrt(y[i])
    y[i] = height * far


def loads_behind(fn) -> int:
    """The loads of fields that stand behind the first branch."""
    ops = list(walk(fn.body))
    branch = next(k for k, op in enumerate(ops) if is_branch(op))
    return sum(op.name == "load" and op.operands[0].name.startswith("poles") for op in ops[branch:])


@pytest.mark.parametrize(("kernel", "moved"), [(peak, 2), (in_between, 0), (alone, 0)])
def test_fields_are_loaded_behind_branches(kernel, moved):
    fn = lowered(kernel, POLES, D1)
    late = after(fn, load_fields_late)
    assert loads_behind(late) - loads_behind(fn) == moved
    fields = [np.array([0.1, 0.7, 0.9]), np.array([3.0, 4.0, 5.0]), np.array([6.0, 7.0, 8.0])]
    for a, b in zip(results(fn, (3,), [*fields, np.ones(3)]), results(late, (3,), [*fields, np.ones(3)]), strict=True):
        np.testing.assert_array_equal(a, b)


@dk.struct
class Pole:
    place: dk.float64
    turn: dk.vec2d
    kind: int


@dk.kernel
def summed(poles: dk.array2d[Pole], kinds: dk.array[dk.vec4d], total: dk.array[dk.float64]):
    i = dk.tid()
    found = dk.float64(0.0)
    for k in range(poles.shape[1]):
        pole = poles[i, k - 2]
        wide = dk.float64(1.0)
        if dk.length(pole.turn) < 1.2:
            wide = dk.exp(pole.place)
        found += wide * pole.place * kinds[i][pole.kind]
    total[i] = found


def reference(place, turn, kind, kinds):
    near = np.hypot(turn[..., 0], turn[..., 1]) < 1.2
    picked = np.take_along_axis(kinds[:, None, :], kind[..., None] % 4, axis=2)[..., 0]
    return (np.where(near, np.exp(place), 1.0) * place * picked).sum(1)


def filled(shape, random):
    poles = dk.zeros(shape, dtype=Pole, requires_grad=True)
    given = random.uniform(-1, 1, shape), random.uniform(-1, 1, (*shape, 2)), random.integers(-4, 4, shape)
    for name, values in zip(("place", "turn", "kind"), given, strict=True):
        poles.field(name).assign(values.astype(np.int32) if name == "kind" else values)
    return poles, given


@pytest.mark.parametrize("view", [np.s_[:, :], np.s_[::2, ::-1], np.s_[1:, 1:3]])
def test_fields_of_views_share_their_places(view):
    random = np.random.default_rng(4)
    poles, given = filled((5, 6), random)
    place, turn, kind = (values[view] for values in given)
    count = len(place)
    values = random.uniform(0.5, 1.0, (count, 4))
    kinds = dk.array(values, dtype=dk.vec4d, requires_grad=True)
    total = dk.zeros(count, dtype=dk.float64, requires_grad=True)
    dk.launch(summed, count, [poles[view], kinds], [total])
    np.testing.assert_allclose(total.numpy(), reference(place, turn, kind, values), rtol=1e-13)
    # Gradients of fields may lie anywhere, each in a memory of its own.
    of_place = dk.zeros((2 * place.shape[0], 3 * place.shape[1]), dtype=dk.float64)[::2, ::3]
    of_turn = dk.zeros(place.shape, dtype=dk.vec2d)
    h = 1e-6
    slope = (reference(place + h, turn, kind, values) - reference(place - h, turn, kind, values)) / (2 * h)
    given = {
        "adj_inputs": [{"place": of_place, "turn": of_turn}, None],
        "adj_outputs": [dk.full(count, 1.0, dtype=dk.float64)],
    }
    dk.launch(summed, count, [poles[view], kinds], [total], adjoint=True, **given)
    np.testing.assert_allclose(of_place.numpy().sum(1), slope, rtol=1e-7)
