"""The language and gradient corpus on a GPU: results and gradients are those of the CPU."""

from __future__ import annotations

import pytest
from device_checks import check_case
from grad.corpus import CASES

pytestmark = pytest.mark.gpu

NAMES = [name for name in sorted(CASES) if not CASES[name].options and name != "loops.long_contraction"]


@pytest.mark.parametrize("name", NAMES)
def test_case(name):
    check_case(CASES[name], "cuda:0")
