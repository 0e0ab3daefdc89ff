"""Runs one published program of DiffTaichi under Taichi on the CPU and writes losses, times and memory as JSON.

Run by another Python, which has Taichi: ``PYTHON published.py FILE ITERATIONS RESULT [ARGUMENTS]``. The text is changed
in what shows and draws alone (windows, pictures, plots, intervals of display), and in the device. A pass of the tape,
forward and gradient, is what is timed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
import types
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))


class Enough(Exception):
    """The wanted number of iterations is done."""


def without_display(text: str) -> str:
    """Turn off what is shown between iterations; names of what is simulated stay."""
    text = re.sub(r"^((?:output_)?vis_interval) = \d+", r"\1 = 10**9", text, flags=re.M)
    text = re.sub(r"ti\.init\(.*?\)", "ti.init(arch=ti.cpu, default_fp=real, cpu_max_num_threads=THREADS)", text)

    return text


def main() -> None:
    """Run the program until enough passes are done."""
    import random

    import taichi as ti
    from pictures import picture, resized

    path, iterations, result = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    sys.argv = [str(path), *sys.argv[4:]]
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    cv2 = types.ModuleType("cv2")
    cv2.imread = lambda name: picture(Path(name))  # type: ignore[attr-defined]
    cv2.resize = lambda image, size=None, **more: image if size is None else resized(image, *size)  # type: ignore[attr-defined]
    cv2.imshow = cv2.imwrite = cv2.waitKey = lambda *_: None  # type: ignore[attr-defined]
    for name in ("matplotlib.pyplot", "imageio"):
        sys.modules[name] = MagicMock()
    sys.modules["cv2"] = cv2
    losses: list[float] = []
    seconds: list[float] = []
    tape_type = ti.ad.Tape
    clock = time.process_time if len(os.sched_getaffinity(0)) == 1 else time.perf_counter

    class Timed(tape_type):  # type: ignore[misc, valid-type]
        """The tape with a clock around the block and its gradient."""

        def __init__(self, loss: Any = None, **more: Any) -> None:
            super().__init__(loss=loss, **more)
            self.measured = loss

        def __enter__(self) -> Any:
            self.begin = clock()
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            ti.sync()
            seconds.append(clock() - self.begin)
            losses.append(float(self.measured[None]))
            if len(losses) >= iterations:
                raise Enough

    ti.ad.Tape, ti.GUI = Timed, MagicMock()
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the published programs draw from it
    content = without_display(path.read_text())
    threads = len(os.sched_getaffinity(0))
    scope = {"__name__": "__main__", "__file__": str(path), "THREADS": threads}
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), scope)
    except Enough:
        pass
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    taichi = ".".join(map(str, ti.__version__))
    result.write_text(json.dumps({"losses": losses, "seconds": seconds, "memory": memory, "taichi": taichi}))


if __name__ == "__main__":
    main()
