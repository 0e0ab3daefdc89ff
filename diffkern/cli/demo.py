"""``diffkern demo``: run the flood example.

In: the arguments behind ``diffkern demo``. Out: the exit status of the example; or 2, and the command to run first,
where matplotlib or tqdm is missing. The example is ``examples/flood.py`` of the source tree, also in the wheel.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

_PACKAGE = Path(__file__).resolve().parent.parent
# The first is where a wheel keeps the example, the second where a clone, or an editable install of one, has it.
_PLACES = (_PACKAGE / "_examples" / "flood.py", _PACKAGE.parent / "examples" / "flood.py")
_NEEDED = ("matplotlib", "tqdm")


def main(argv: Sequence[str]) -> int:
    """Run the flood example and return its exit status.

    Parameters
    ----------
    argv : sequence of str
        Options of the example: ``--out FILE``, ``--quick``, ``--help``.

    Returns
    -------
    int
        0 if the gradient was confirmed and the loss fell by at least 50 times, 1 if not, 2 if the demo cannot run here.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"diffkern demo needs {' and '.join(missing)}, which the plot extra installs:\n"
            '    pip install "diffkern[plot]"',
            file=sys.stderr,
        )
        return 2
    path = next((place for place in _PLACES if place.is_file()), None)
    if path is None:
        print(f"diffkern demo: the example is at neither {_PLACES[0]} nor {_PLACES[1]}", file=sys.stderr)
        return 2
    name = "_diffkern_demo_flood"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    # Kernels look up their module by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    status: int = module.main(list(argv))
    return status
