"""Python without its global lock is said not to be supported when diffkern is imported."""

from __future__ import annotations

import sys
import warnings

import pytest

from diffkern.process.free_threading import warn_without_lock


@pytest.mark.parametrize("is_locked", [True, False])
def test_it_is_said_where_the_lock_is_off(monkeypatch, is_locked):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: is_locked, raising=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_without_lock()
    assert [w.category for w in said] == ([] if is_locked else [RuntimeWarning])
    assert is_locked or "PYTHON_GIL=1" in str(said[0].message)


def test_nothing_is_said_where_python_has_no_such_switch(monkeypatch):
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    warn_without_lock()
