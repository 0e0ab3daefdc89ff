"""The seed of a run's random tests: from the commit, so that each commit tries others and a failure can be run again.

``DIFFKERN_FUZZ_SEED=N`` names another one. Outside of a clone it is always the same.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["FIXED_SEED", "run_seed"]

FIXED_SEED = 20250711


def run_seed() -> int:
    """The seed of this run: what the environment says, or the first 32 bits of the commit's name."""
    if wanted := os.environ.get("DIFFKERN_FUZZ_SEED"):
        return int(wanted)
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return FIXED_SEED
    return int(commit[:8], 16)
