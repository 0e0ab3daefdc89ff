"""Run the programs of ``numba_cuda`` unedited in numba's CUDA simulator: ``python -m programs.child OUT NAME…``.

The simulator is chosen when numba is imported, so the process must have been started with ``NUMBA_ENABLE_CUDASIM=1``.
Each program's results are written to ``OUT/NAME.npz``; of one that fails the error to ``OUT/NAME.txt``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = Path(__file__).parent / "numba_cuda"


def results(module: Any) -> list[np.ndarray[Any, Any]]:
    """What a program's ``main`` returns, as arrays."""
    returned = module.main()
    return [np.asarray(part) for part in (returned if isinstance(returned, tuple) else (returned,))]


def main(out: Path, names: Sequence[str]) -> None:
    for path in (PROGRAMS / f"{name}.py" for name in names):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            np.savez(out / f"{path.stem}.npz", *results(module))
        except Exception:
            (out / f"{path.stem}.txt").write_text(traceback.format_exc(), encoding="utf-8")


if __name__ == "__main__":
    importlib.import_module("support.simulator_lock")
    main(Path(sys.argv[1]), sys.argv[2:])
