"""The seed of a run's random tests: fixed, so that one commit gives one result; ``DIFFKERN_FUZZ_SEED=N`` sets another.

The nightly command (``tools/nightly.py``) draws from the commit, so that each commit tries other examples.
"""

from __future__ import annotations

import os

__all__ = ["FIXED_SEED", "run_seed"]

FIXED_SEED = 20250711


def run_seed() -> int:
    """The seed of this run."""
    return int(os.environ.get("DIFFKERN_FUZZ_SEED") or FIXED_SEED)
