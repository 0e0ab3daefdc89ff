"""Elementary functions as kernels compute them in lanes: their error, special values, and large arguments."""

from __future__ import annotations

import numpy as np
import pytest
from support.elementary import launched
from support.ulps import BINARY, MPMATH, arguments, errors_in_ulp, numbers_of_float32, stated_errors, wide_errors

from diffkern import vecmath

DTYPES = ("float32", "float64")
MOST = {"float32": 1.5, "float64": 2.0}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_stated_errors_keep_the_promise(dtype):
    stated = stated_errors()[dtype]
    assert set(stated) == set(MPMATH)
    assert {name: error for name, error in stated.items() if error > MOST[dtype]} == {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(MPMATH))
def test_errors_in_lanes(name, dtype):
    args = arguments(name, dtype, 10, seed=23)
    assert errors_in_ulp(name, args, launched(name, *args, lanes=True)).max() <= stated_errors()[dtype][name]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(MPMATH))
def test_lanes_have_the_special_values_of_the_formulas(name, dtype):
    info = np.finfo(dtype)
    numbers = [0.0, 1.0, np.inf, np.nan, float(info.max), float(info.tiny), float(info.smallest_subnormal), 1e10, 0.5]
    x = np.array([s * v for v in numbers for s in (1.0, -1.0)], dtype=dtype)
    args = tuple(a.ravel() for a in np.meshgrid(x, x)) if name in BINARY else (x,)
    one, other = launched(name, *args, lanes=True), _by_numpy(name, args)
    np.testing.assert_array_equal(np.signbit(one[~np.isnan(one)]), np.signbit(other[~np.isnan(other)]))
    special = ~np.isfinite(other) | (other == 0)
    np.testing.assert_array_equal(one[special], other[special])
    np.testing.assert_allclose(one[~special], other[~special], rtol=2 * float(info.eps), atol=0)


def _by_numpy(name, args):
    if name in vecmath.NAMES:
        return vecmath.evaluate(name, *args)
    with np.errstate(all="ignore"):
        root = np.sqrt(args[0])
        return root if name == "sqrt" else 1 / root


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(MPMATH) - set(BINARY)))
def test_every_61st_number_of_float32(name):
    for x in numbers_of_float32(61):
        errors = wide_errors(name, (x,), launched(name, x, lanes=True))
        assert errors[~np.isnan(errors)].max(initial=0.0) <= stated_errors()["float32"][name]
