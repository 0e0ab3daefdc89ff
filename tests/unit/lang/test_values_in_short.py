"""Short ways of values on the host give what the general ways give: views, products, and built-ins called once more."""

import itertools
import math

import numpy as np
import pytest

import diffkern as dk
from diffkern.host import built_in_calls
from diffkern.lang.dtypes import SCALARS, composite_type
from diffkern.lang.values import CompositeValue
from diffkern.printing import prims
from diffkern.types import matrix, vector

NUMBERS = [t for t in SCALARS.values() if t.name not in ("bool",)]
EXTENTS = (1, 2, 4)


def value_of(cls, seed):
    given = np.random.default_rng(seed).integers(-3, 4, cls.ir.size)
    return cls(*(given if cls.scalar.numpy.kind != "u" else abs(given)).tolist())


@pytest.mark.parametrize("scalar", NUMBERS, ids=lambda t: t.name)
def test_products_of_every_extent(scalar):
    for m, k, n in itertools.product(EXTENTS, repeat=3):
        left, right = value_of(matrix((m, k), scalar), m), value_of(matrix((k, n), scalar), n)
        for a, b in ((left, right), (left, value_of(vector(k, scalar), 5)), (value_of(vector(k, scalar), 6), right)):
            for made in (a * b, a @ b):
                expected = np.array(a) @ np.array(b)
                assert isinstance(made, CompositeValue)
                assert made.ir.shape == expected.shape
                assert made.ir.dtype == scalar.ir
                np.testing.assert_array_equal(np.array(made), expected)
        kept = np.array(left)
        made[0] = 1  # the result has memory of its own
        np.testing.assert_array_equal(np.array(left), kept)


def test_what_has_no_product_is_refused():
    values = [
        dk.mat22(1.0),
        dk.mat33(1.0),
        dk.mat33d(1.0),
        dk.vec3(1.0),
        dk.vec2(1.0),
        dk.quat(),
        matrix((2, 3), float)(1.0),
    ]
    for _ in range(2):
        for a, b in itertools.product(values, repeat=2):
            fits = (
                a.ir.dtype == b.ir.dtype and a.ir.shape[-1] == b.ir.shape[0] and 2 in (len(a.ir.shape), len(b.ir.shape))
            )
            if fits and not isinstance(a, dk.quat) and not isinstance(b, dk.quat):
                assert np.array(a @ b).shape == (*a.ir.shape[:-1], *b.ir.shape[1:])
            else:
                with pytest.raises(TypeError):
                    a @ b


def test_views_share_the_memory_of_every_type():
    for scalar, shape in itertools.product(SCALARS.values(), ((1,), (3,), (2, 3), (4, 4))):
        cls = vector(shape[0], scalar) if len(shape) == 1 else matrix(shape, scalar)
        value = cls(*range(math.prod(shape)))
        seen = value.view(np.ndarray)
        assert seen.shape == shape
        seen[...] = 1
        assert (np.array(value) == 1).all()
        assert composite_type(value.ir) is cls


def test_determinants_and_inverses_are_those_by_expansion():
    def expanded(rows):
        first, *others = rows
        if not others:
            return first[0]
        terms = (x * expanded([row[:c] + row[c + 1 :] for row in others]) for c, x in enumerate(first))
        return prims._sum(-term if c % 2 else term for c, term in enumerate(terms))

    rng = np.random.default_rng(3)
    for n, dtype, _ in itertools.product((1, 2, 3, 4, 5), (np.float32, np.float64, np.int32), range(5)):
        m = (rng.normal(size=(n, n)) * 5).astype(dtype)
        found = prims.determinant(m)
        assert found == expanded(m.tolist()) or dtype is np.float32
        assert found == expanded([[m[r, c] for c in range(n)] for r in range(n)])
        assert found.dtype == dtype


def numbers():
    rng = np.random.default_rng(1)
    vec, mat, quat = (
        dk.vec3(*rng.normal(size=3)),
        dk.mat33(*rng.normal(size=9)),
        dk.normalize(dk.quat(*rng.normal(size=4))),
    )
    double = dk.vec3d(*rng.normal(size=3))
    yield from ((dk.sin, (0.5,)), (dk.min, (1, 2)), (dk.min, (1.5, 2.5)), (dk.max, (1, 2.5)), (dk.min, (3, 1 << 40)))
    yield from ((dk.dot, (vec, vec)), (dk.cross, (double, double)), (dk.normalize, (vec,)), (dk.length, (double,)))
    yield from (
        (dk.transpose, (mat,)),
        (dk.inverse, (mat,)),
        (dk.determinant, (mat,)),
        (dk.svd3, (mat,)),
        (dk.clamp, (2, 0, 1)),
    )
    yield from ((dk.quat_rotate, (quat, vec)), (dk.quat_to_matrix, (quat,)), (dk.quat_from_axis_angle, (vec, 0.3)))
    yield from (
        (dk.lerp, (vec, vec, 0.25)),
        (dk.sign, (-2,)),
        (dk.abs, (-2.0,)),
        (dk.transform_identity, ()),
        (dk.floordiv, (7, 2)),
    )
    yield from ((dk.transform_point, (dk.transform(vec, quat), vec)), (dk.sin, (dk.float16(0.5),)), (dk.sin, (True,)))


def test_a_call_with_the_same_types_gives_what_the_first_gives():
    def same(a, b):
        if isinstance(a, tuple):
            return len(a) == len(b) and all(map(same, a, b))
        return type(a) is type(b) and np.array_equal(np.array(a), np.array(b), equal_nan=True)

    for function, args in numbers():
        built_in_calls._PLANS.clear()
        first = function(*args)
        again = function(*args)
        assert same(first, again), (function, args)


def test_integers_by_size_and_what_is_set():
    assert [dk.min(n, n) for n in (5, 1 << 31, 1 << 62, 5)] == [5, 1 << 31, 1 << 62, 5]
    for _ in range(2):
        with pytest.raises(dk.KernelError):
            dk.dot(dk.vec3(1.0), 2.0)
        with pytest.raises(dk.KernelError):
            dk.sin("1")
