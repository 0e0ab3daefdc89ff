"""Run a program on the fake driver: ``python on_fake_driver.py PROGRAM.py …``, without libraries that want a GPU."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from stand_ins import LAUNCHES

PEERS = ("warp", "torch")


def main() -> None:
    """Run what the command line says."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from support.fake_driver.driver import fake_cuda

    from diffkern.contracts.platforms import Architecture, Processor

    # It runs the processor's programs, which shall be called as those of a GPU are.
    Processor.symbol = Architecture.symbol  # type: ignore[method-assign,assignment]
    sys.modules.update(dict.fromkeys(PEERS))  # type: ignore[arg-type]  # cannot be imported
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    with fake_cuda(devices=2) as driver:
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            if file := os.environ.get(LAUNCHES):
                Path(file).write_text("\n".join(launch.name for launch in driver.launches))


if __name__ == "__main__":
    main()
