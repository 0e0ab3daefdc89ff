"""Runs GradBench's tool for JAX, ``run.py`` of a checkout, so that a timed call waits for its result."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait(multiple_runs: Callable[..., Any]) -> Callable[..., Any]:
    """Return their decorator that times several calls, of functions that wait for what JAX computes."""
    import jax

    def waiting(**options: Any) -> Callable[[Callable[[Any], Any]], Any]:
        timed = multiple_runs(**options)
        return lambda function: timed(lambda given: jax.block_until_ready(function(given)))

    return waiting


def main() -> None:
    """Run the script named on the command line, as Python does."""
    from gradbench import wrap

    wrap.multiple_runs = wait(wrap.multiple_runs)
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
