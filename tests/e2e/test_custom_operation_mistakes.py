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
    f = lambda x: total(operation(x))  # noqa: E731
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
    f = lambda x: total(operation(x))  # noqa: E731
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
    local = type("Local", (Scale,), {})
    with pytest.raises(LaunchError, match="cannot be pickled"):
        swept(lambda: local(3.0))


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
