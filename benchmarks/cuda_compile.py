"""Time to compile kernels and their adjoints to cubins, beside Warp. No GPU is needed.

In: generated kernels of 10 to 60 lines. Out: a table with seconds for one kernel, when the process has compiled another
one before, and for 50 kernels at once. Each library runs in a process of its own with an empty cache; the two take
turns, so that other work on the machine slows both. diffkern may use all cores; Warp compiles its module as it does.
Processor seconds, of the process and its children, are shown beside the time that passes, which is what the targets are
about.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

from diffkern._version import __version__

KERNELS = 50
LEAST_LINES, MOST_LINES = 10, 60
HEAD = """
@w.kernel
def kernel_{number}(x: w.array(dtype=float), y: w.array(dtype=float), index: w.array(dtype=int), n: int,
                    z: w.array(dtype=float), loss: w.array(dtype=float)):
    i = w.tid()
    a = x[i] + {number}.5
    b = y[i] * 0.25
    c = x[index[i]]
    v0 = a * b + c
"""
# Blocks of lines; {n} is a new name, {o} and {p} older ones.
BLOCKS = (
    "    {n} = {o} * a - 0.5 * {p}\n",
    "    {n} = w.sin({o}) * 0.5 + {p}\n",
    "    {n} = {o} / (1.0 + {p} * {p})\n",
    "    {n} = {o} * 0.5\n    if {p} > b:\n        {n} = {o} * {p}\n    else:\n        {n} = {o} + 0.125 * {p}\n",
    "    {n} = w.sqrt(1.0 + {o} * {o})\n",
    "    {n} = float(0.0)\n    for k{number} in range(n):\n        {n} += x[k{number}] * {o} + y[k{number}]\n",
    "    {n} = w.exp(-{o} * {o}) + {p}\n",
    "    {n} = w.max({o}, {p}) - w.min({o}, 0.25)\n",
    "    {n} = x[index[i] + 1] * {o}\n",
)


def kernel_text(number: int, lines: int) -> str:
    """Return a kernel of about so many lines, the same for both libraries."""
    text = HEAD.format(number=number)
    older, newer, count = "a", "v0", 0
    while text.count("\n") < lines - 1:
        count += 1
        block = BLOCKS[(count * 5 + number) % len(BLOCKS)]
        text += block.format(n=f"v{count}", o=newer, p=older, number=count)
        older, newer = newer, f"v{count}"
    return text + f"    z[i] = {newer}\n    w.atomic_add(loss, 0, {newer} * a)\n"


def write_module(folder: Path, library: str, name: str, numbers: range) -> Any:
    """Write kernels to a file, because they are read from their source, and import it."""
    step = (MOST_LINES - LEAST_LINES) / (KERNELS - 1)
    texts = [kernel_text(k, round(LEAST_LINES + step * (k % KERNELS))) for k in numbers]
    (folder / f"{name}.py").write_text(f"import {library} as w\n" + "".join(texts), encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module(name)


def compile_with_diffkern(module: Any, arch: str, folder: Path) -> int:
    """Compile all kernels of a module, forward and adjoint; return the bytes of the cubins."""
    from diffkern.kernels.kernel import Kernel
    from diffkern.shipping.ship import compile_ahead

    kernels = [value for value in vars(module).values() if isinstance(value, Kernel)]
    compile_ahead(kernels, [arch], folder, programs="least", progress=False)
    return sum(path.stat().st_size for path in folder.glob("??/*/kernel.cubin"))


def compile_with_warp(module: Any, arch: str, folder: Path) -> int:
    """Compile a module of Warp's; return the bytes of the cubin."""
    import warp as wp

    number = int(arch.removeprefix("sm_"))
    wp.compile_aot_module(module, device=None, arch=number, use_ptx=False, module_dir=folder)
    return sum(path.stat().st_size for path in folder.glob("*.cubin"))


def child(library: str, arch: str, readings: int) -> None:
    """Take the readings of one library in this process, each when a line is read; print time and processor time."""
    compile_module = compile_with_diffkern if library == "diffkern" else compile_with_warp
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sys.path.insert(0, name)
        os.environ["DIFFKERN_CACHE_DIR"] = str(folder / "cache")
        if library == "warp":
            import warp as wp

            wp.config.quiet = True
            wp.config.kernel_cache_dir = str(folder / "cache")
            wp.set_module_options({"max_unroll": 8})
        # The first is the one after which everything is warm; kernel 20 has about 30 lines.
        jobs = [(f"one_{k}", range(20 + KERNELS * k, 21 + KERNELS * k)) for k in range(readings + 1)]
        for title, numbers in [*jobs, ("many", range(1000, 1000 + KERNELS))]:
            module = write_module(folder, library, title, numbers)
            print("READY", flush=True)
            sys.stdin.readline()
            started, spent = time.perf_counter(), processor_seconds()
            size = compile_module(module, arch, folder / f"out_{title}")
            seconds = time.perf_counter() - started, processor_seconds() - spent
            assert size > 0
            print("RESULT", json.dumps(seconds), flush=True)


def processor_seconds() -> float:
    """Return what this process and its children that have ended took."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def take_turns(libraries: Sequence[str], command: Sequence[str], readings: int) -> dict[str, Any]:
    """Let the libraries compile in turn; return (seconds, processor seconds) of each reading."""
    processes = {
        library: subprocess.Popen([*command, "--child", library], stdin=PIPE, stdout=PIPE, text=True)
        for library in libraries
    }
    taken: dict[str, list[Any]] = {library: [] for library in libraries}
    for process in processes.values():
        answer(process, "READY")
    for k in range(readings + 2):
        for library, process in processes.items():
            assert process.stdin is not None
            print(file=process.stdin, flush=True)
            taken[library].append(json.loads(answer(process, "RESULT")))
            if k <= readings:
                answer(process, "READY")
    for process in processes.values():
        process.communicate()
    return {x: {"first": all_[0], "one": all_[1:-1], "many": all_[-1]} for x, all_ in taken.items()}


def answer(process: subprocess.Popen[str], word: str) -> str:
    """Return the rest of the next line that begins with a word."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line.removeprefix(word)
    raise RuntimeError(f"{process.args} ended with {process.wait()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90", help="the GPU architecture, sm_90 by default")
    parser.add_argument("--readings", type=int, default=5, help="how many single kernels to compile")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--child", choices=("diffkern", "warp"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.arch, options.readings)
        return 0
    command = [sys.executable, __file__, "--arch", options.arch, "--readings", str(options.readings)]
    found = take_turns(("diffkern", "warp"), command, options.readings)
    print(
        f"{options.arch}, {os.cpu_count()} processors; diffkern {__version__}, "
        f"Warp {importlib.metadata.version('warp-lang')}; forward and adjoint, seconds\n"
    )
    rows = []
    for k, (kind, targets) in enumerate((("", (None, 1 / 3, 1 / 2)), (", processor", (None, None, None)))):
        one = [statistics.median(pair[k] for pair in found[x]["one"]) for x in found]
        rows += [
            (f"first of a process{kind}", *(found[x]["first"][k] for x in found), targets[0]),
            (f"one kernel, warm{kind}", *one, targets[1]),
            (f"{KERNELS} kernels{kind}", *(found[x]["many"][k] for x in found), targets[2]),
        ]
    print(f"{'':32}{'diffkern':>10}{'Warp':>10}{'ratio':>8}  target")
    missed = False
    for name, ours, theirs, bound in rows:
        ratio = ours / theirs
        missed |= bound is not None and ratio > bound
        print(f"{name:32}{ours:10.2f}{theirs:10.2f}{ratio:8.2f}  {'' if bound is None else f'<= {bound:.2f}'}")
    print("\na target is missed" if missed else "\nall targets met")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
