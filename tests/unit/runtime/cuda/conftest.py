"""A fake driver for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from diffkern.testing.fake_cuda import FakeDriver, fake_cuda


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with fake_cuda() as made:
        yield made


@pytest.fixture
def two_devices() -> Iterator[FakeDriver]:
    with fake_cuda(devices=2) as made:
        yield made
