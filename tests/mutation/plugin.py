"""A plugin of pytest that puts one fault in before any test is imported: ``pytest -p mutation.plugin``.

``DIFFKERN_FAULT`` has the fault's name.
"""

from __future__ import annotations

import os

import pytest

from mutation.elsewhere import TARGETED
from mutation.keys import KEYS


def pytest_configure(config: pytest.Config) -> None:
    (fault,) = (f for f in (*TARGETED, *KEYS) if f.name == os.environ["DIFFKERN_FAULT"])
    fault.apply(pytest.MonkeyPatch())
