"""The corpus through the whole CUDA run time on the fake driver: the test that runs on a GPU, where there is none."""

from __future__ import annotations

import pytest
from device_checks import check_case
from grad.corpus import CASES

NAMES = [name for name in sorted(CASES) if not CASES[name].options and name != "loops.long_contraction"]


@pytest.mark.parametrize("name", NAMES[::9])
def test_case(driver, name):
    check_case(CASES[name], "cuda:0")
    assert "copy_to_host" in driver.names()
