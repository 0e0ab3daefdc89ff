"""Machine code of diffkern's kernels and their adjoints beside Warp's, for the same kernels. No GPU is needed.

In: the kernels of ``sass_kernels``, compiled by both libraries ahead of time for one architecture. Out: a table with a
line for each kernel and direction, and geometric means of the ratios.

Both sides have grid-stride loops, 64-bit launch sizes and no fast-math. Warp unrolls loops of a constant number of
trips as far as diffkern does (``max_unroll``); loops of a dynamic number of trips are unrolled by each side's own
compiler, so the innermost loop is shown per trip too: its instructions, divided by how often its loads repeat.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sass_kernels

import diffkern as dk
from diffkern.opt.unroll import MAX_TRIPS
from diffkern.targets.cuda import cubin, disassembler, sass

COLUMNS = ("instructions", "trip", "registers", "stack", "loads", "stores", "atomics", "special")
_WIDTHS = {"load128": 4, "load64": 2}


@dataclass(frozen=True)
class Figures:
    """What is counted of one program.

    Attributes
    ----------
    instructions
        All of them, functions that are called included.
    trip
        Instructions of one trip of the largest innermost loop with loads; 0 without a loop.
    """

    instructions: int
    trip: float
    registers: int
    stack: int
    loads: int
    stores: int
    atomics: int
    special: int


@dataclass(frozen=True)
class Line:
    """A kernel in one direction, on both sides."""

    kernel: str
    direction: str
    diffkern: Figures
    warp: Figures


def figures(data: bytes, functions: dict[str, sass.Code], name: str, loads: int) -> Figures:
    """Count one kernel of a cubin; ``loads`` is how many numbers one trip of its loop reads."""
    code = functions[name]
    called = {n: c for n, c in functions.items() if n.startswith("__cuda")}
    everything = sass.join(name, {name: code, **called})
    taken = cubin.resources(data)[name]
    return Figures(
        len(everything.instructions),
        _trip(code, loads) if loads else 0.0,
        taken.registers,
        taken.stack_bytes,
        everything.count("load"),
        everything.count("store"),
        everything.count("atomic"),
        everything.count("special"),
    )


def _trip(code: sass.Code, loads: int) -> float:
    """Instructions of one trip: those of the innermost loop that reads most, divided by how many trips it holds."""
    inner = [code.within(loop) for loop in code.loops if loop.innermost]
    best = max(inner, key=_numbers_read, default=None)
    if best is None or not _numbers_read(best):
        return 0.0
    return len(best.instructions) / max(1, round(_numbers_read(best) / loads))


def _numbers_read(code: sass.Code) -> int:
    return code.count("load") + sum((width - 1) * code.count(name) for name, width in _WIDTHS.items())


def of_diffkern(names: Sequence[str], arch: str, fast_math: bool) -> dict[tuple[str, str], Figures]:
    """Compile with diffkern and count."""
    kernels = sass_kernels.make(dk)
    made = {
        (name, direction): dk.compile(
            kernels[name], target=arch, adjoint=direction == "adjoint", fast_math=fast_math, may_alias=False
        )
        for name in names
        for direction in ("forward", "adjoint")
    }
    read = disassembler.codes([program.cubin for program in made.values()])
    return {
        key: figures(program.cubin, functions, program.symbol, sass_kernels.KERNELS[key[0]].loads)
        for (key, program), functions in zip(made.items(), read, strict=True)
    }


def of_warp(names: Sequence[str], arch: str, fast_math: bool) -> dict[tuple[str, str], Figures]:
    """Compile with Warp and count."""
    import warp as wp

    wp.config.quiet = True
    kernels = sass_kernels.make(wp)
    module: Any = next(iter(kernels.values())).module
    options = {"max_unroll": MAX_TRIPS, "fast_math": fast_math, "default_grid_stride": True}
    module.options.update(options)
    with tempfile.TemporaryDirectory() as folder:
        number = int(arch.removeprefix("sm_"))
        wp.compile_aot_module(module, device=None, arch=number, use_ptx=False, module_dir=folder)
        (path,) = Path(folder).glob("*.cubin")
        data = path.read_bytes()
    (functions,) = disassembler.codes([data])
    found = {}
    for name in names:
        for direction in ("forward", "adjoint"):
            suffix = "_cuda_kernel_forward" if direction == "forward" else "_cuda_kernel_backward"
            (symbol,) = (s for s in cubin.resources(data) if f"__{name}_" in s and s.endswith(suffix))
            # All kernels of the module share one file; a function that one of them calls stands in its section.
            found[name, direction] = figures(
                data, {symbol: functions[symbol]}, symbol, sass_kernels.KERNELS[name].loads
            )
    return found


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return it; of nothing it is not a number."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def ratio_of_means(lines: Sequence[Line], column: str) -> float:
    """The geometric mean of diffkern's figures over Warp's, where neither is 0."""
    pairs = [(getattr(line.diffkern, column), getattr(line.warp, column)) for line in lines]
    return geometric_mean([a / b for a, b in pairs if a and b])


def table(lines: Sequence[Line]) -> str:
    """The lines, diffkern's figure before Warp's."""
    head = f"{'kernel':14} {'direction':9}" + "".join(f"{c:>16}" for c in COLUMNS) + f"{'ratio':>8}"
    rows = [head]
    for line in lines:
        cells = ""
        for column in COLUMNS:
            a, b = getattr(line.diffkern, column), getattr(line.warp, column)
            cells += f"{f'{a:.0f} / {b:.0f}':>16}" if a or b else f"{'-':>16}"
        ratio = line.diffkern.instructions / line.warp.instructions
        rows.append(f"{line.kernel:14} {line.direction:9}{cells}{ratio:8.2f}")
    return "\n".join(rows)


def missed(lines: Sequence[Line]) -> list[str]:
    """Which targets are missed."""
    found = []
    for direction in ("forward", "adjoint"):
        chosen = [line for line in lines if line.direction == direction]
        for column, bound in (("instructions", 0.7), ("registers", 1.0)):
            mean = ratio_of_means(chosen, column)
            if mean > bound:
                found.append(f"{direction}: {column} {mean:.2f} of Warp's, not at most {bound}")
    for line in lines:
        if line.diffkern.stack and not line.warp.stack:
            found.append(f"{line.kernel} {line.direction}: {line.diffkern.stack} bytes of stack where Warp has none")
        if line.direction == "adjoint" and line.diffkern.atomics > line.warp.atomics:
            found.append(f"{line.kernel}: {line.diffkern.atomics} atomics, Warp {line.warp.atomics}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_90", help="the GPU architecture, sm_90 by default")
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--fast-math", action="store_true", help="on both sides")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    names = [name for name in sass_kernels.KERNELS if options.only in name]
    ours = of_diffkern(names, options.arch, options.fast_math)
    theirs = of_warp(names, options.arch, options.fast_math)
    lines = [Line(*key, ours[key], theirs[key]) for key in ours]
    print(f"{options.arch}; diffkern {dk.__version__} / Warp {importlib.metadata.version('warp-lang')}\n")
    print(table(lines))
    for direction in ("forward", "adjoint"):
        chosen = [line for line in lines if line.direction == direction]
        means = ", ".join(f"{c} {ratio_of_means(chosen, c):.2f}" for c in COLUMNS if c != "stack")
        print(f"\n{direction}: geometric means of diffkern / Warp: {means}")
    problems = missed(lines)
    print("\n" + ("\n".join(f"missed: {text}" for text in problems) or "all targets met"))
    if options.json:
        options.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))
    return 1 if problems and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
