"""Functions that would make the derivative of a custom operation wrong: each is an error, or makes no difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError

F64 = dk.float64
X = np.array([0.3, -0.7, 1.1, 0.5])
C = np.array([1.0, -2.0, 0.5, 0.3])


def doubles(values: Any, requires_grad: bool = False) -> dk.array:
    return dk.array(np.asarray(values, np.float64), dtype=F64, requires_grad=requires_grad)


@dk.kernel
def sines(x: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = dk.sin(x[i])


@dk.kernel
def cosines(x: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = dk.cos(x[i])


@dk.kernel
def products(a: dk.array[F64], b: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = a[i] * b[i]


@dk.kernel
def add_all(x: dk.array[F64], s: dk.array[F64]):
    dk.atomic_add(s, 0, x[dk.tid()])


def made(kernel, *arrays):
    y = dk.zeros(arrays[0].shape, dtype=F64)
    kernel[y.size](*arrays, y)
    return y


def total(x):
    s = dk.zeros(1, dtype=F64)
    add_all[x.size](x, s)
    return s


def sine(x):
    return made(sines, x)


def sine_vjp(args, results, cotangents):
    return (made(products, made(cosines, args[0]), cotangents[0]),)


def sine_jvp(args, results, tangents):
    return made(products, made(cosines, args[0]), tangents[0])


def _on_a_tape(f, x, checkpoint=False):
    x.requires_grad = True
    s = dk.zeros(1, dtype=F64, requires_grad=True)
    with dk.Tape() as tape:
        if checkpoint:
            dk.checkpoint(lambda k: dk.copy(s, f(x)), 1, 1)
        else:
            dk.copy(s, f(x))
    tape.backward(s)
    return x.grad.numpy()


ENTRIES = {
    "tape": _on_a_tape,
    "grad": lambda f, x: dk.grad(f)(x).numpy(),
    "jvp": lambda f, x: dk.jvp(f, (x,), (doubles(C),))[1].numpy(),
    "roll-out": lambda f, x: _on_a_tape(f, x, checkpoint=True),
}
"""A derivative of a function of one array, taken in each way."""

entries = pytest.mark.parametrize("entry", ENTRIES)


@dk.kernel
def of_corner(mesh: dk.uint64, x: dk.array[float], out: dk.array[float]):
    out[0] = dk.mesh_get_point(mesh, 1)[0] * x[0]


def test_vertices_that_are_no_argument():
    points = dk.array(np.eye(3, dtype=np.float32), dtype=dk.vec3, requires_grad=True)
    mesh, x = dk.Mesh(points, dk.array([0, 1, 2], dtype=int)), dk.ones(1, requires_grad=True)

    def looked(x, *points):
        out = dk.zeros(1)
        of_corner[1](mesh.id, x, out)
        return out

    operation = dk.custom_operation(looked, vjp=lambda args, results, cts: (cts[0],) * len(args))
    with dk.Tape(), pytest.raises(LaunchError, match="is none of its arguments"):
        operation(x)
    with dk.Tape():
        operation(x, points)


@entries
def test_elements_between_those_of_an_argument(entry):
    def function(x):
        return total(dk.custom_operation(lambda part: sine(x[1::2]), vjp=sine_vjp, jvp=sine_jvp)(x[::2]))

    with pytest.raises(LaunchError, match="is none of its arguments"):
        ENTRIES[entry](function, doubles(X))


@entries
@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[1:], lambda x: x[::-1], lambda x: x.reshape((2, 2))[1]])
def test_parts_of_an_argument(entry, part):
    def forward(x):
        return sine(part(x))

    def vjp(args, results, cotangents):
        found = dk.zeros_like(args[0])
        dk.copy(part(found), made(products, made(cosines, part(args[0])), cotangents[0]))
        return (found,)

    def jvp(args, results, tangents):
        return made(products, made(cosines, part(args[0])), part(tangents[0]))

    operation = dk.custom_operation(forward, vjp=vjp, jvp=jvp)
    found, expected = (ENTRIES[entry](lambda x, of=of: total(of(x)), doubles(X)) for of in (operation, forward))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@entries
def test_an_array_that_is_made_inside_and_used_outside(entry):
    kept = []

    def forward(x):
        kept[:] = [sine(x)]
        return made(products, kept[0], kept[0])

    operation = dk.custom_operation(
        forward, vjp=lambda a, r, cts: (made(products, doubles(C), cts[0]),),
        jvp=lambda a, r, ts: made(products, doubles(C), ts[0]),
    )  # fmt: skip
    with pytest.raises(LaunchError, match="was made in the custom operation 'forward', which has not returned it"):
        ENTRIES[entry](lambda x: total(made(products, operation(x), kept[0])), doubles(X))


def test_an_array_that_is_made_inside_and_used_by_its_derivative():
    kept = []

    def forward(x):
        kept[:] = [made(cosines, x)]
        return sine(x)

    operation = dk.custom_operation(forward, vjp=lambda a, r, cts: (made(products, kept[0], cts[0]),), jvp=sine_jvp)
    # The first derivative is right, whose own derivative would be zero.
    np.testing.assert_allclose(dk.grad(lambda x: total(operation(x)))(doubles(X)).numpy(), np.cos(X), rtol=1e-12)
    for second in (
        lambda f: dk.grad(lambda x: total(dk.grad(f)(x)))(doubles(X)),
        lambda f: dk.jvp(dk.grad(f), (doubles(X),), (doubles(C),)),
        lambda f: dk.grad(lambda x: total(made(products, dk.grad(f)(x), x)))(doubles(X)),
    ):
        with pytest.raises(LaunchError, match="which has not returned it"):
            second(lambda x: total(operation(x)))


def test_numbers_of_an_argument_in_a_part_of_a_derivative():
    def vjp(args, results, cotangents):
        return (made(products, doubles(np.cos(args[0].numpy())), cotangents[0]),)

    operation = dk.custom_operation(sine, vjp=vjp, jvp=sine_jvp)

    def f(x):
        return total(operation(x))

    np.testing.assert_allclose(dk.grad(f)(doubles(X)).numpy(), np.cos(X), rtol=1e-12)
    for second in (
        lambda: dk.grad(lambda x: total(dk.grad(f)(x)))(doubles(X)),
        lambda: dk.grad(lambda x: total(made(products, dk.grad(f)(x), x)))(doubles(X)),
        lambda: dk.jvp(dk.grad(f), (doubles(X),), (doubles(C),)),
    ):
        with pytest.raises(LaunchError, match="on the host, where its own derivative is taken"):
            second()


@pytest.mark.parametrize("is_whole", [False, True])
def test_numbers_of_an_argument_that_were_read_before(is_whole):
    read = []

    def times(change):
        return doubles(read[0]) if is_whole else made(products, doubles(read[0]), change)

    def forward(x):
        read[:] = [np.cos(x.numpy())]
        return sine(x)

    operation = dk.custom_operation(forward, vjp=lambda a, r, cts: (times(cts[0]),), jvp=lambda a, r, ts: times(ts[0]))

    def f(x):
        return total(operation(x))

    np.testing.assert_allclose(dk.grad(f)(doubles(X)).numpy(), np.cos(X), rtol=1e-12)
    for second in (
        lambda: dk.grad(lambda x: total(dk.grad(f)(x)))(doubles(X)),
        lambda: dk.grad(lambda x: dk.jvp(f, (x,), (doubles(C),))[1])(doubles(X)),
        lambda: dk.jvp(dk.grad(f), (doubles(X),), (doubles(C),)),
        lambda: dk.jvp(lambda x: dk.jvp(f, (x,), (doubles(C),))[1], (doubles(X),), (doubles(C),)),
    ):
        with pytest.raises(LaunchError, match="when an array with a derivative had been read"):
            second()


@dk.kernel
def permuted(x: dk.array[F64], at: dk.array[int], y: dk.array[F64]):
    i = dk.tid()
    dk.atomic_add(y, at[i], x[i])


def test_constants_in_a_derivative_whose_own_derivative_is_taken():
    def vjp(args, results, cotangents):
        ones = dk.ones_like(args[0])
        ones.fill_(1.0)
        found = dk.zeros_like(args[0])
        # Indices have no derivative, wherever they come from.
        permuted[4](made(products, cotangents[0], ones), dk.array([3, 2, 1, 0], dtype=int), found)
        return (found,)

    reverse = dk.custom_operation(lambda x: doubles(x.numpy()[::-1]), vjp=vjp)

    def slope(x):
        return total(dk.grad(lambda x: total(made(products, reverse(x), made(sines, x))))(x))

    # The cotangent in the linear function depends on nothing.
    found = dk.grad(slope)(doubles(X)).numpy()
    np.testing.assert_allclose(found, np.cos(X) + np.cos(X[::-1]) - X[::-1] * np.sin(X), rtol=1e-12)
    zeros = dk.grad(lambda x: total(made(products, dk.grad(lambda x: total(reverse(x)))(x), x)))(doubles(X))
    np.testing.assert_array_equal(zeros.numpy(), 1.0)


@pytest.mark.parametrize("arguments", [lambda x: (x, x), lambda x: (x, x[:]), lambda x: (x[:4], x[4:])])
def test_a_vjp_that_takes_derivatives_of_arguments_that_share_memory(arguments):
    def forward(a, b):
        return made(products, sine(a), b)

    operation = dk.custom_operation(forward, vjp=lambda args, results, cts: dk.vjp(forward, args, cts[0])[1])
    values = [*X, *X[::-1]] if arguments(np.zeros(8))[0].size == 4 else X
    orders = (dk.grad, lambda f: dk.grad(lambda x: total(dk.grad(f)(x))))
    for order in orders:
        found, expected = (
            order(lambda x, of=of: total(of(*arguments(x))))(doubles(values)) for of in (operation, forward)
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-14)


def scaled(x, scale):
    return made(products, x, doubles(np.resize(scale, x.size)))


def scaled_vjp(args, results, cotangents):
    return made(products, cotangents[0], doubles(np.resize(args[1], args[0].size))), None


def test_constants_that_change_are_noticed_in_a_roll_out():
    operation = dk.custom_operation(scaled, vjp=scaled_vjp)
    x, y, long = doubles(X, True), dk.zeros(4, dtype=F64, requires_grad=True), np.ones(2000)
    with dk.Tape() as tape:
        dk.checkpoint(lambda k: dk.copy(y, operation(x, long)), 2, 1)
    tape.backward(grads={y: doubles(C)})
    np.testing.assert_array_equal(x.grad.numpy(), C)
    long[1000] = 7.0  # in the middle, which repr() leaves out
    with pytest.raises(LaunchError, match="did something else"):
        tape.backward(grads={y: doubles(C)})


class Scale:
    """A constant without a text of its own."""

    def __init__(self, value):
        self.value = value


def test_constants_of_any_class_in_a_roll_out():
    operation = dk.custom_operation(
        lambda x, scale: scaled(x, scale.value), vjp=lambda a, r, ct: scaled_vjp((a[0], a[1].value), r, ct)
    )

    def swept(scale):
        x, y = doubles(X, True), dk.zeros(4, dtype=F64, requires_grad=True)
        with dk.Tape() as tape:
            dk.checkpoint(lambda k: dk.copy(y, operation(x, scale())), 2, 1)
        tape.backward(grads={y: doubles(C)})
        return x.grad.numpy()

    np.testing.assert_array_equal(swept(lambda: Scale(3.0)), 3 * C)
    local = type("Local", (Scale,), {})(3.0)
    for one in (local, lambda: 3.0):  # which nothing can pickle
        one.value = 3.0
        np.testing.assert_array_equal(swept(lambda one=one: one), 3 * C)
    others = iter([local, *[type(local)(3.0) for _ in range(9)]])
    with pytest.raises(LaunchError, match="did something else"):
        swept(lambda: next(others))


@pytest.mark.parametrize("kind", [np.asarray, list, tuple, lambda values: {"values": np.array(values)}])
def test_a_constant_is_what_it_was_when_the_operation_ran(kind):
    def values_of(scale):
        return scale["values"] if isinstance(scale, dict) else scale

    operation = dk.custom_operation(
        lambda x, scale: scaled(x, values_of(scale)),
        vjp=lambda a, r, ct: scaled_vjp((a[0], values_of(a[1])), r, ct),
    )
    x, scale = doubles(X, True), kind([1.0, 2.0, 3.0, 4.0])
    with dk.Tape() as tape:
        y = operation(x, scale)
    held = values_of(scale)
    if not isinstance(held, tuple):
        held[0] = 100.0
    tape.backward(grads={y: doubles(C)})
    np.testing.assert_array_equal(x.grad.numpy(), C * [1, 2, 3, 4])


@pytest.mark.parametrize("which", ["argument", "result"])
@entries
def test_a_derivative_that_writes_to_what_it_reads(entry, which):
    def written(args, results):
        (args if which == "argument" else results)[0].fill_(0.0)

    def vjp(args, results, cotangents):
        found = sine_vjp(args, results, cotangents)
        written(args, results)
        return found

    def jvp(args, results, tangents):
        found = sine_jvp(args, results, tangents)
        written(args, results)
        return found

    operation = dk.custom_operation(sine, vjp=vjp, jvp=jvp)
    with pytest.raises(LaunchError, match="which it was given to read"):
        ENTRIES[entry](lambda x: total(operation(x)), doubles(X))


@pytest.mark.parametrize("entry", ["grad", "jvp"])
def test_a_result_that_depends_on_nothing(entry):
    operation = dk.custom_operation(
        lambda x: dk.ones(4, dtype=F64), vjp=lambda a, r, cts: (None,), jvp=lambda a, r, ts: None
    )
    np.testing.assert_array_equal(ENTRIES[entry](lambda x: total(operation(x)), doubles(X)), 0.0)
    # Its own zero is what the operation says; that a function leaves its argument behind is a mistake.
    constant = doubles(X)
    with pytest.raises(LaunchError, match="depends on none of its arguments"):
        ENTRIES[entry](lambda x: total(operation(constant)), doubles(X))


def test_what_an_operation_only_writes_depends_on_nothing():
    y = doubles(X)

    def function(x):
        y.fill_(3.0)
        return total(y)

    for entry in ("grad", "jvp"):
        with pytest.raises(LaunchError, match="depends on none of its arguments"):
            ENTRIES[entry](function, doubles(X))


def test_no_tape_inside():
    def recorded(x):
        with dk.Tape():
            return sine(x)

    x = doubles(X, True)
    with dk.Tape(), pytest.raises(LaunchError, match="is entered in the custom operation 'recorded'"):
        dk.custom_operation(recorded, vjp=sine_vjp)(x)

    tape = dk.Tape()

    def noted(x):
        tape.record_func(lambda: None, [x])
        return sine(x)

    with tape, pytest.raises(LaunchError, match="is recorded in the custom operation 'noted'"):
        dk.custom_operation(noted, vjp=sine_vjp)(x)


def test_a_result_whose_tangent_failed_has_none():
    def fails(args, results, tangents):
        raise ValueError("no tangent")

    x, results = doubles(X), []
    forward = dk.custom_operation(lambda x: (results.append(sine(x)), results[0])[1], jvp=fails)
    tangents = dk.Tangents({x: doubles(C)})
    with tangents, pytest.raises(ValueError, match="no tangent"):
        forward(x)
    with pytest.raises(LaunchError, match="its tangent is not known"):
        tangents[results[0]]


@dk.struct
class PaddedPair:
    flag: dk.int8
    value: dk.float64


@dk.kernel
def add_values(pairs: dk.array[PaddedPair], x: dk.array[F64], y: dk.array[F64]):
    i = dk.tid()
    y[i] = y[i] + x[i] * (1.0 + pairs[i].value)


def test_what_lies_between_the_fields_of_a_struct_is_no_constant():
    x, y, pairs = doubles(X, True), dk.zeros(4, dtype=F64, requires_grad=True), dk.zeros(4, dtype=PaddedPair)
    runs = iter(range(1, 100))

    def step(k):
        # NumPy leaves the bytes between fields as it finds them, in memory that was freed just before.
        left = np.full(pairs._data.dtype.itemsize, next(runs), np.uint8)
        del left
        pairs.zero_()
        add_values[4](pairs, x, y)

    with dk.Tape() as tape:
        dk.checkpoint(step, 4, 2)
    tape.backward(grads={y: doubles(C)})
    np.testing.assert_array_equal(x.grad.numpy(), 4 * C)


# -- what changes between a function and its derivative ---------------------------------------------------------------


@dk.kernel
def shifted_cubes(v: dk.array[F64], x: dk.array[F64], k: F64, r: dk.array[F64]):
    i = dk.tid()
    r[i] = v[i] + k * v[i] * v[i] * v[i] - x[i]


def residual_with(number):
    def residual(v, x):
        r = dk.zeros_like(v)
        shifted_cubes[v.size](v, x, float(number()), r)
        return r

    return residual


@pytest.mark.parametrize("entry", ["tape", "grad", "roll-out"])
@pytest.mark.parametrize("solve", ["root", "fixed_point", "linear_solve"])
def test_a_residual_that_is_another_one_in_the_sweep(entry, solve):
    state = [0.1]

    def function(x):
        residual = residual_with(lambda: state[0])
        if solve == "root":
            y = dk.root(residual, dk.zeros_like(x), x)
        elif solve == "fixed_point":
            y = dk.fixed_point(lambda v, x: v - residual(v, x) * 0.4, dk.zeros_like(x), x)
        else:
            y = dk.linear_solve(lambda v: v * (1.0 + state[0]), x)
        state[0] += 0.1 if is_changed else 0.0
        return total(made(products, y, x))

    is_changed = False
    ENTRIES[entry](function, doubles(X))
    is_changed = True
    # In a roll-out the step runs again as a whole, which is another mistake that nobody can see.
    if entry != "roll-out":
        with pytest.raises(LaunchError, match="is not what it was when it was solved"):
            ENTRIES[entry](function, doubles(X))


@entries
@pytest.mark.parametrize("way", ["fill", "numpy", "view", "launch"])
@pytest.mark.parametrize("place", ["closure", "list", "dict"])
def test_an_array_without_derivative_that_changes_before_the_derivative(entry, way, place):
    weights = doubles(C)
    view = weights.numpy() if way == "view" else None

    def change():
        if way == "fill":
            weights.fill_(7.0)
        elif way == "launch":
            sines[4](doubles(X), weights)
        else:
            np.multiply(weights.numpy() if view is None else view, 2.0, out=weights.numpy())

    def held(args):
        return {"closure": lambda: weights, "list": lambda: args[1][0], "dict": lambda: args[1]["w"]}[place]()

    operation = dk.custom_operation(
        lambda *args: made(products, args[0], held(args)),
        vjp=lambda args, r, cts: (made(products, cts[0], held(args)), *[None] * (len(args) - 1)),
        jvp=lambda args, r, ts: made(products, ts[0], held(args)),
    )
    more = {"closure": (), "list": ([weights],), "dict": ({"w": weights},)}[place]

    def function(x, is_changed=True):
        y = operation(x, *more)
        if is_changed:
            change()
        return total(y)

    np.testing.assert_array_equal(
        np.sum(ENTRIES[entry](lambda x: function(x, False), doubles(X))), np.sum(C if entry != "jvp" else C * C)
    )
    if entry == "jvp":
        return  # which was taken before
    with pytest.raises(LaunchError, match=r"would be that of other numbers|did something else|changed"):
        ENTRIES[entry](function, doubles(X))


class Box:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("kind", [Box, lambda value: dk.vec2d(value, value), lambda value: [Box(value)]])
def test_an_object_that_changes_before_the_derivative(kind):
    def number(held):
        held = held[0] if isinstance(held, list) else held
        return held.value if isinstance(held, Box) else held[0]

    operation = dk.custom_operation(
        lambda x, held: scaled(x, number(held)), vjp=lambda a, r, ct: scaled_vjp((a[0], number(a[1])), r, ct)
    )
    x, held = doubles(X, True), kind(3.0)
    with dk.Tape() as tape:
        y = operation(x, held)
    tape.backward(grads={y: doubles(C)})
    np.testing.assert_array_equal(x.grad.numpy(), 3 * C)
    x.grad.zero_()
    if isinstance(held, dk.vec2d):
        held[0] = 5.0  # which was copied
        tape.backward(grads={y: doubles(C)})
        np.testing.assert_array_equal(x.grad.numpy(), 3 * C)
    else:
        (held[0] if isinstance(held, list) else held).value = 5.0
        with pytest.raises(LaunchError, match="would be that of other numbers"):
            tape.backward(grads={y: doubles(C)})


@pytest.mark.parametrize("entry", ["tape", "grad", "roll-out"])
def test_a_vjp_that_writes_to_what_the_gradient_needs(entry):
    work = doubles(np.zeros(4))

    def vjp(args, results, cotangents):
        sines[4](args[0], work)
        return sine_vjp(args, results, cotangents)

    operation = dk.custom_operation(sine, vjp=vjp)

    def function(x):
        dk.copy(work, x)
        return total(operation(made(products, work, work)))  # the adjoint of the product reads it

    with pytest.raises(LaunchError, match="which the gradient needs as it is"):
        ENTRIES[entry](function, doubles(X))


def test_a_recorded_function_that_writes_to_what_the_gradient_needs():
    x, y = doubles(X, True), dk.zeros(4, dtype=F64, requires_grad=True)
    with dk.Tape() as tape:
        products[4](x, x, y)
        tape.record_func(lambda: x.fill_(0.0), [y])
        s = total(y)
    with pytest.raises(LaunchError, match="which the gradient needs as it is"):
        tape.backward(s)
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("who", ["forward", "vjp", "jvp"])
@pytest.mark.parametrize("entry", ["tape", "grad", "jvp"])
def test_functions_that_write_to_arguments_through_numpy(entry, who):
    def written(name, args):
        if name == who:
            args[0].numpy()[:] = 0.0

    def forward(x):
        y = sine(x)
        written("forward", (x,))
        return y

    def vjp(args, results, cotangents):
        found = sine_vjp(args, results, cotangents)
        written("vjp", args)
        return found

    def jvp(args, results, tangents):
        found = sine_jvp(args, results, tangents)
        written("jvp", args)
        return found

    if who != "forward" and (who == "jvp") != (entry == "jvp"):
        return
    operation = dk.custom_operation(forward, vjp=vjp, jvp=jvp)
    with pytest.raises(LaunchError, match="which it was given to read"):
        ENTRIES[entry](lambda x: total(operation(x)), doubles(X))


def test_a_jvp_that_writes_to_its_tangent():
    def jvp(args, results, tangents):
        tangents[0].fill_(2.0)
        return tangents[0]

    with pytest.raises(LaunchError, match="which it was given to read"):
        dk.jvp(dk.custom_operation(sine, jvp=jvp), (doubles(X),), (doubles(C),))


@pytest.mark.parametrize("arguments", [lambda x: (x, x), lambda x: (x, x[:])])
def test_a_jvp_that_adds_those_of_arguments_that_share_memory(arguments):
    def forward(a, b):
        return made(products, sine(a), b)

    def jvp(args, results, tangents):
        parts = [(tangents[0], None), (None, tangents[1])]
        found = [dk.jvp(forward, args, part)[1] for part in parts]
        return found[0] + found[1]

    operation = dk.custom_operation(forward, jvp=jvp)
    found, expected = (
        dk.jvp(lambda x, of=of: total(of(*arguments(x))), (doubles(X),), (doubles(C),))[1].numpy()
        for of in (operation, forward)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_several_tangents_for_one_memory():
    x, t = doubles(X), doubles(C)
    with pytest.raises(dk.MisuseError, match="several tangents for arrays that share elements"):
        dk.jvp(lambda a, b: made(products, a, b), (x, x), (t, t))
    _, found = dk.jvp(lambda a, b: made(products, a, b), (x, dk.clone(x)), (t, t))
    np.testing.assert_allclose(found.numpy(), 2 * X * C)


def test_results_are_arrays_of_their_own():
    operation = dk.custom_operation(lambda x: dk.zeros(8, dtype=F64)[:4], vjp=sine_vjp)
    x = doubles(X, True)
    with dk.Tape(), pytest.raises(LaunchError, match="a part of a larger array"):
        operation(x)
    whole = dk.custom_operation(
        lambda x: made(sines, x).reshape((2, 2)), vjp=lambda a, r, cts: sine_vjp(a, r, (cts[0].reshape((4,)),))
    )
    with dk.Tape() as tape:
        y = whole(x)
    tape.backward(grads={y: doubles(C.reshape(2, 2))})
    np.testing.assert_allclose(x.grad.numpy(), C * np.cos(X), rtol=1e-12)


@entries
def test_an_array_that_an_error_carries_out(entry):
    def forward(x):
        error = ValueError("not found")
        error.found = sine(x)
        raise error

    def function(x):
        try:
            return dk.custom_operation(forward, vjp=sine_vjp, jvp=sine_jvp)(x)
        except ValueError as error:
            return total(made(products, error.found, x))

    with pytest.raises(LaunchError, match="which has not returned it"):
        ENTRIES[entry](function, doubles(X))


@entries
def test_an_array_that_is_made_inside_and_read_on_the_host(entry):
    kept = []

    def forward(x):
        kept[:] = [sine(x)]
        return made(products, kept[0], x)

    operation = dk.custom_operation(forward, vjp=sine_vjp, jvp=sine_jvp)
    with pytest.raises(LaunchError, match="which has not returned it"):
        ENTRIES[entry](lambda x: total(made(products, operation(x), doubles(kept[0].numpy()))), doubles(X))


@pytest.mark.parametrize("way", ["no_grad", "bytes"])
def test_other_ways_to_read_what_is_no_argument(way):
    hidden, x = doubles(C, True), doubles(X, True)

    def forward(x):
        if way == "bytes":
            return doubles(hidden.view(dk.int64).numpy().view(np.float64) * x.numpy())
        with dk.no_grad():
            return doubles(hidden.numpy() * x.numpy())

    with dk.Tape(), pytest.raises(LaunchError, match="is none of its arguments"):
        dk.custom_operation(forward, vjp=sine_vjp)(x)


def test_a_recorded_sequence_reads_nothing_on_the_host():
    operation = dk.custom_operation(lambda x: doubles(np.sin(x.numpy())), vjp=sine_vjp)
    x = doubles(X)
    for record in (lambda: operation(x), lambda: dk.grad(lambda x: total(operation(x)))(x)):
        with dk.record(), pytest.raises(LaunchError, match="on the host in a sequence that is recorded"):
            record()
    launched = dk.custom_operation(sine, vjp=sine_vjp)
    with dk.record() as sequence:
        g = dk.grad(lambda x: total(launched(x)))(x)
    x.assign(C)
    sequence.replay()
    np.testing.assert_allclose(g.numpy(), np.cos(C), rtol=1e-12)


def test_a_tensor_with_a_gradient():
    torch = pytest.importorskip("torch")
    x, w = doubles(X, True), torch.ones(4, dtype=torch.float64, requires_grad=True)
    operation = dk.custom_operation(lambda x, w: scaled(x, w.detach().numpy()), vjp=scaled_vjp)
    with dk.Tape(), pytest.raises(LaunchError, match="an argument with a gradient that is no array"):
        operation(x, w)


@pytest.mark.parametrize("solve", ["root", "fixed_point", "linear_solve"])
def test_unknowns_are_real_and_functions_leave_them(solve):
    solves = {
        "root": lambda f, x: dk.root(lambda v, x: f(v) - x, dk.zeros_like(x), x),
        "fixed_point": lambda f, x: dk.fixed_point(lambda v, x: v + (x - f(v)) * 0.1, dk.zeros_like(x), x),
        "linear_solve": dk.linear_solve,
    }

    def in_place(v):
        v *= 2.0
        return v

    with pytest.raises(LaunchError, match="writes to the unknown"):
        solves[solve](in_place, doubles(X))
    for dtype in (dk.complex128, dk.float16, dk.bfloat16):
        with pytest.raises(dk.MisuseError, match="solves for arrays of float32 and float64"):
            solves[solve](lambda v: v * 2.0, dk.ones(3, dtype=dtype))
    np.testing.assert_allclose(solves[solve](lambda v: v * 2.0, doubles(X)).numpy(), X / 2, rtol=1e-9)


def test_a_step_may_return_the_same_array_each_time():
    buffer = doubles(np.zeros(4))

    def step(v, x):
        dk.copy(buffer, v * 0.5 + x)
        return buffer

    np.testing.assert_allclose(dk.fixed_point(step, dk.zeros(4, dtype=F64), doubles(X)).numpy(), 2 * X, rtol=1e-9)


@pytest.mark.parametrize("entry", ["tape", "grad", "roll-out"])
def test_a_vjp_may_work_in_what_the_sweep_has_read(entry):
    work = doubles(np.zeros(4))

    def vjp(args, results, cotangents):
        cosines[4](args[0], work)
        return (made(products, work, cotangents[0]),)

    operation = dk.custom_operation(sine, vjp=vjp)

    def function(x):
        y = operation(operation(x))
        dk.copy(work, y)
        return total(made(products, work, work))  # whose adjoint has read it when the sweep comes to the operation

    def plain(x):
        y = sine(sine(x))
        return total(made(products, y, y))

    np.testing.assert_allclose(ENTRIES[entry](function, doubles(X)), ENTRIES[entry](plain, doubles(X)), rtol=1e-12)


@pytest.mark.parametrize("is_read_first", [True, False])
def test_a_vjp_that_writes_to_what_a_derivative_of_a_derivative_needs(is_read_first):
    work = doubles(np.zeros(4))

    def vjp(args, results, cotangents):
        cosines[4](args[0], work)
        return (made(products, work, cotangents[0]),)

    operation = dk.custom_operation(sine, vjp=vjp)

    def slope(x):
        dk.copy(work, x)
        return dk.grad(lambda w: total(made(products, w, made(products, w, w))))(work)

    def function(x):
        if is_read_first:
            return total(operation(slope(x)))
        return total(slope(operation(x)))

    def plain(x):
        cubes = 3 * sine(x) * sine(x)
        return total(cubes)

    if is_read_first:
        with pytest.raises(LaunchError, match="which the gradient needs as it is"):
            dk.grad(function)(doubles(X))
    else:  # the adjoint has been differentiated when the sweep comes to the operation
        np.testing.assert_allclose(
            dk.grad(function)(doubles(X)).numpy(), dk.grad(plain)(doubles(X)).numpy(), rtol=1e-12
        )


def test_several_tangents_for_parts_of_one_array():
    x, t = doubles(X), doubles(C)
    _, found = dk.jvp(lambda a, b: made(products, a, b), (x[:2], x[2:]), (t[:2], t[2:]))
    np.testing.assert_allclose(found.numpy(), C[:2] * X[2:] + C[2:] * X[:2], rtol=1e-12)
    with pytest.raises(dk.MisuseError, match="several tangents for arrays that share elements"):
        dk.jvp(lambda a, b: made(products, a, b), (x[:3], x[1:]), (t[:3], t[1:]))


inside = dk.custom_operation(sine, vjp=sine_vjp)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (dk.grad(lambda x: total(sine(x))), np.cos),
        (lambda x: dk.vjp(sine, (x,), doubles(C))[1][0], lambda x: np.cos(x) * C),
        (lambda x: dk.jvp(sine, (x,), (doubles(C),))[1], lambda x: np.cos(x) * C),
        (lambda x: inside(inside(x)), lambda x: np.sin(np.sin(x))),
    ],
    ids=["grad", "vjp", "jvp", "nested"],
)
def test_derivatives_inside_of_a_recorded_operation(forward, expected):
    operation, x = dk.custom_operation(forward, vjp=sine_vjp), doubles(X)
    with dk.record() as sequence:
        y = operation(x)
    for values in (X, C):
        x.assign(values)
        sequence.replay()
        np.testing.assert_allclose(y.numpy(), expected(values), rtol=1e-12)


@pytest.mark.parametrize("allow", [False, True])
def test_a_recorded_derivative_reads_nothing_on_the_host(allow):
    def vjp(args, results, cotangents):
        args[0].numpy()
        return sine_vjp(args, results, cotangents)

    operation, x = dk.custom_operation(sine, vjp=vjp), doubles(X)

    def gradient():
        return dk.grad(lambda x: total(operation(x)))(x)

    if allow:
        with dk.record(allow_reads=True):
            found = gradient()
        np.testing.assert_allclose(found.numpy(), np.cos(X), rtol=1e-12)
    else:
        with dk.record(), pytest.raises(LaunchError, match="on the host in a sequence that is recorded"):
            gradient()
