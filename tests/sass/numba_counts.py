"""What numba-cuda makes of the printed CUDA source, counted beside what LLVM's back end makes of the same functions.

``python -m sass.numba_counts [--arch sm_90] [--only NAME…] [--write FILE.json]`` in ``tests`` prints a line for each
kernel of the corpus, forward and adjoint: instructions of both, their ratio, registers, local memory, float64
instructions, and the kinds of atomics.

The printed kernel is called as a device function by a kernel whose parameters are the slots of the argument block of
``diffkern.abi``, so that both programs take the same parameters.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import SAMPLES, Sample
from grad.build import values

from diffkern.abi import HEADER_SIZE, field_size
from diffkern.compilation import Compilation
from diffkern.ir.types import FLOAT32, STORAGE_ONLY, Array, Mat, Scalar, Type, Vec, scalar_of, value_type
from diffkern.kernel import Kernel
from diffkern.options import Variant
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name
from diffkern.targets import target_named
from diffkern.targets.cuda import disassembler, sass
from diffkern.targets.cuda.cubin import resources
from diffkern.targets.cuda.toolchain import bindings

__all__ = ["Counts", "compare", "compile_source"]


@dataclass(frozen=True)
class Counts:
    """A program by both compilers.

    Attributes
    ----------
    name
        The sample and the direction.
    ours, numba
        The machine code by LLVM's back end and by numba-cuda.
    registers, local_bytes
        Of each of the two.
    seconds
        Processor time that each of the two took.
    """

    name: str
    ours: sass.Code
    numba: sass.Code
    registers: tuple[int, int]
    local_bytes: tuple[int, int]
    seconds: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Instructions by numba-cuda for each of LLVM's."""
        return len(self.numba.instructions) / len(self.ours.instructions)

    def atomics(self) -> tuple[Counter[str], Counter[str]]:
        """How many atomics there are of each kind."""
        return _atomics(self.ours), _atomics(self.numba)


def _atomics(code: sass.Code) -> Counter[str]:
    """Kinds of atomics: of global and of shared memory, with and without the value before."""
    found: Counter[str] = Counter()
    for i in (*code.of_class("atomic"), *code.of_class("shared_atomic")):
        parts = i.opcode.split(".")
        kind = "RED" if parts[0].startswith("RED") else "ATOMS" if parts[0] == "ATOMS" else "ATOM"
        found[
            " ".join([kind, *(p for p in parts if p in ("ADD", "MIN", "MAX", "CAS", "EXCH", "AND", "OR", "XOR"))])
        ] += 1
    return found


def compile_source(text: str, name: str, types: Sequence[Type], arch: str) -> bytes:
    """The cubin that numba-cuda and nvJitLink make of a printed kernel."""
    from numba import cuda
    from numba.cuda import dispatcher

    number = int(arch.removeprefix("sm_"))
    capability = (number // 10, number % 10)

    class _Device:
        compute_capability = capability

    dispatcher.get_current_device = lambda: _Device  # what device functions are compiled for
    device = cuda.jit(device=True)(load_source(text, name).py_func)
    outer, signature = _outer(device, types)
    code, _ = cuda.compile(outer, signature, device=False, output="ltoir", abi="numba", cc=capability)
    return _link(bytes(code), arch)


def _link(code: bytes, arch: str) -> bytes:
    nvjitlink = bindings("nvjitlink")
    options = [f"-arch={arch}", "-O3", "-lto"]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "kernel")
    nvjitlink.complete(handle)
    out = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, out)
    nvjitlink.destroy(handle)
    return bytes(out)


def numba_type(t: Type) -> Any:
    """The type in which a printed kernel takes a parameter."""
    from numba import cuda

    scalar = scalar_of(t if isinstance(t, Array) else value_type(t))  # type: ignore[arg-type]
    element = getattr(cuda.types, {"bool": "boolean", "bfloat16": "uint16"}.get(scalar.name, scalar.name))
    if isinstance(t, Array):
        return cuda.types.Array(element, t.ndim + (not isinstance(t.dtype, Scalar)), t.layout)
    return element if isinstance(t, Scalar) else cuda.types.UniTuple(element, t.size)  # type: ignore[union-attr]


def _outer(device: Any, types: Sequence[Type]) -> tuple[Any, Any]:
    """A kernel of slots that calls the device function, and its signature."""
    from numba import cuda

    slots = [cuda.types.int64] * (HEADER_SIZE // 8)
    names: dict[str, Any] = {"kernel": device}
    arguments = []
    for k, t in enumerate(types):
        at = len(slots)
        if isinstance(t, Array):
            names[f"make_{k}"] = _maker(t)
            slots += [cuda.types.int64] * (1 + 2 * t.ndim)
            arguments.append(f"make_{k}({', '.join(f's{j}' for j in range(at, len(slots)))})")
        elif isinstance(t, Scalar):
            slots.append(cuda.types.float32 if t in STORAGE_ONLY or t == FLOAT32 else numba_type(t))
            arguments.append(f"s{at}")
        else:
            assert isinstance(t, (Vec, Mat))
            slots += [numba_type(scalar_of(t))] * t.size
            if t.size * scalar_of(t).itemsize % 8:
                slots.append(numba_type(scalar_of(t)))
            arguments.append(f"({', '.join(f's{at + j}' for j in range(t.size))},)")
        assert not isinstance(t, Array) or field_size(t) == 8 * (len(slots) - at)
    parameters = ", ".join(f"s{k}" for k in range(len(slots)))
    text = f"def outer({parameters}):\n    kernel((s1, s2, s3, s4), {', '.join(arguments)})\n"
    exec(text, names)
    return names["outer"], cuda.types.void(*slots)


def _maker(t: Array) -> Any:
    """An intrinsic that makes an array of its address, extents and strides."""
    from llvmlite import ir
    from numba.cuda.extending import intrinsic
    from numba.cuda.np import arrayobj

    array, item = numba_type(t), scalar_of(t).itemsize
    size = 1 if isinstance(t.dtype, Scalar) else t.dtype.size

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = arrayobj.make_array(array)(context, builder)
        word = ir.IntType(64)
        data = builder.inttoptr(values[0], made.data.type)
        shape, strides = list(values[1 : 1 + t.ndim]), list(values[1 + t.ndim :])
        if not isinstance(t.dtype, Scalar):
            shape.append(word(size))
            strides.append(word(item))
        arrayobj.populate_array(made, data, shape, strides, word(item), None, None)
        return made._getvalue()

    names: dict[str, Any] = {"array": array, "codegen": codegen}
    parameters = ", ".join(f"a{k}" for k in range(1 + 2 * t.ndim))
    exec(f"def make(context, {parameters}):\n    return array({parameters}), codegen\n", names)
    return intrinsic(names["make"])


def compare(samples: Iterable[Sample], arch: str = "sm_90") -> list[Counts]:
    """Compile samples, forward and adjoint, both ways."""
    made: list[tuple[str, bytes, bytes, float, float]] = []
    for sample in samples:
        types = Kernel(sample.function).argument_types(*values(sample.case))
        for direction in ("forward", "adjoint"):
            active = None if direction == "forward" else frozenset(range(len(types)))
            variant = Variant(active=active, target=arch, may_alias=False)
            start = time.process_time()
            compilation = Compilation(sample.function, types, variant, **sample.options)
            llvm = compilation.build("kernel").object_code
            middle = time.process_time()
            fn = compilation.fn
            text = target_named(arch).source(fn, ())
            numba = compile_source(text, function_name(fn), [p.type for p in fn.params], arch)
            end = time.process_time()
            made.append((f"{sample.name} {direction}", llvm, numba, middle - start, end - middle))
    codes = disassembler.codes([code for one in made for code in one[1:3]])
    return [
        Counts(
            name,
            *(sass.join(next(iter(c)), c) for c in codes[2 * k : 2 * k + 2]),
            *zip(*((r.registers, r.stack_bytes) for r in map(_main, (llvm, numba))), strict=True),
            (a, b),
        )
        for k, (name, llvm, numba, a, b) in enumerate(made)
    ]


def _main(cubin: bytes) -> Any:
    return max(resources(cubin).values(), key=lambda r: r.registers)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    chosen = [s for s in SAMPLES.values() if not options.only or s.name in options.only]
    found = compare(chosen, options.arch)
    for c in found:
        a, b = c.atomics()
        kinds = "" if a == b else f"  {dict(a)} / {dict(b)}"
        wide = c.numba.count("float64")
        doubles = f"  {wide} float64" if wide and not c.ours.count("float64") else ""
        print(
            f"{c.name:42}{len(c.ours.instructions):6}{len(c.numba.instructions):6}{c.ratio:7.2f}"
            f"  {c.registers[0]:4}/{c.registers[1]:<4}{c.local_bytes[0]:6}/{c.local_bytes[1]:<6}{doubles}{kinds}"
        )
    for direction in ("forward", "adjoint"):
        ratios = [c.ratio for c in found if c.name.endswith(direction)]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{direction}: {mean:.2f} in the geometric mean, {max(ratios):.2f} at most, of {len(ratios)}")
    mean = math.exp(sum(math.log(c.ratio) for c in found) / len(found))
    print(f"all: {mean:.3f}; seconds {sum(c.seconds[0] for c in found):.1f} / {sum(c.seconds[1] for c in found):.1f}")
    if options.write:
        rows = {c.name: [len(c.ours.instructions), len(c.numba.instructions), *c.registers] for c in found}
        options.write.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
