"""Runs one published program of DiffTaichi under Taichi on the CPU and writes losses, times and memory as JSON.

Run by another Python, which has Taichi: ``PYTHON published.py FILE ITERATIONS RESULT CHANGES [ARGUMENTS]``. The text
is changed in what shows and draws (windows, pictures, plots, intervals of display), in the device, and where CHANGES, a
JSON object from old text to new, says so. What is timed is a pass, forward and gradient: that of the tape, or from the
clearing of gradients to the end of ``backward()`` where a program has no tape.
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
    return re.sub(r"ti\.init\(.*?\)", "ti.init(arch=ti.cpu, default_fp=real, cpu_max_num_threads=THREADS)", text)


def changed(text: str, changes: dict[str, str]) -> str:
    """Make the changes of one program; each has to find its text."""
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"the program has no {old!r}")
        text = text.replace(old, new)
    if "ti.ad.Tape" not in text:
        text = re.sub(
            r"^( +)ti\.(?:ad\.)?clear_all_gradients\(\)$", r"\1BEGIN(); ti.ad.clear_all_gradients()", text, flags=re.M
        )
        text = re.sub(r"^( +)backward\(\)$", r"\1backward(); END(loss)", text, flags=re.M)
    return text


def main() -> None:
    """Run the program until enough passes are done."""
    import random

    import taichi as ti
    from pictures import picture, resized

    path, iterations, result = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    changes = json.loads(sys.argv[4])
    sys.argv = [str(path), *sys.argv[5:]]
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    cv2 = types.ModuleType("cv2")
    cv2.imread = lambda name: picture(Path(name))  # type: ignore[attr-defined]
    cv2.resize = lambda image, size=None, **more: image if size is None else resized(image, *size)  # type: ignore[attr-defined]
    cv2.imshow = cv2.imwrite = cv2.waitKey = lambda *_: None  # type: ignore[attr-defined]
    for name in ("matplotlib.pyplot", "mpl_toolkits.mplot3d", "imageio"):
        sys.modules[name] = MagicMock()
    sys.modules["cv2"] = cv2
    losses: list[float] = []
    seconds: list[float] = []
    tape_type = ti.ad.Tape
    clock = time.process_time if len(os.sched_getaffinity(0)) == 1 else time.perf_counter

    begun = 0.0

    def begin() -> None:
        """Start the clock."""
        nonlocal begun
        begun = clock()

    def end(loss: Any) -> None:
        """Stop the clock after a pass, and keep its loss."""
        ti.sync()
        seconds.append(clock() - begun)
        losses.append(float(loss[None]))
        if len(losses) >= iterations:
            raise Enough

    class Timed(tape_type):  # type: ignore[misc, valid-type]
        """The tape with a clock around the block and its gradient."""

        def __init__(self, loss: Any = None, **more: Any) -> None:
            super().__init__(loss=loss, **more)
            self.measured = loss

        def __enter__(self) -> Any:
            begin()
            return super().__enter__()

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            end(self.measured)

    ti.ad.Tape, ti.GUI = Timed, MagicMock()
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the published programs draw from it
    content = changed(without_display(path.read_text()), changes)
    threads = len(os.sched_getaffinity(0))
    scope = {"__name__": "__main__", "__file__": str(path), "THREADS": threads, "BEGIN": begin, "END": end}
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), scope)
    except Enough:
        pass
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    taichi = ".".join(map(str, ti.__version__))
    result.write_text(json.dumps({"losses": losses, "seconds": seconds, "memory": memory, "taichi": taichi}))


if __name__ == "__main__":
    main()
