"""Runs PTX written by hand: a body on arrays, or a few instructions on the values of registers."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from support.ptx import Launch, launch
from support.ptx.image import load_image
from support.ptx.programs import allocations_of

HEADER = ".version 8.1\n.target sm_90\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %w<40>; .reg .f32 %f<20>; .reg .f64 %d<20>;"
)
SIZES = {"h": 2, "r": 4, "w": 8, "f": 4, "d": 8}


def run(
    body: str,
    *arrays: np.ndarray,
    threads: int = 32,
    blocks: int = 1,
    seed: int = 0,
    shared: int = 0,
    outside: str = "",
    limits: str = "",
    races: bool = True,
) -> int:
    """Run a kernel whose body finds the addresses of arrays in %a0, …, and the thread's number in %t."""
    parameters = ", ".join(f".param .u64 kernel_param_{k}" for k in range(len(arrays)))
    loads = "\n".join(f"ld.param.u64 %a{k}, [kernel_param_{k}];" for k in range(len(arrays)))
    text = (
        f"{HEADER}{outside}\n.visible .entry kernel({parameters}) {limits}\n{{\n{REGISTERS}\n.reg .b64 %a<9>; "
        f".reg .b32 %t;\n{loads}\nmov.u32 %t, %tid.x;\n{body}\nret;\n}}\n"
    )
    packed = struct.pack(f"{len(arrays)}q", *(a.ctypes.data for a in arrays))
    asked = Launch(blocks, threads, packed, shared, seed, races=races)
    return launch(load_image(text), "kernel", asked, allocations_of(arrays))


def evaluate(instructions: str, result: str, dtype: Any, **registers: Any) -> np.ndarray:
    """Run instructions, one lane for each value of the registers given, and return what is in a register then.

    Parameters
    ----------
    result
        The register: ``%r`` of 32 bits, ``%w`` of 64, ``%h`` of 16, ``%f`` and ``%d`` for floats.
    dtype
        How its bits are read.
    registers
        The values of registers, by their names without ``%``.
    """
    given = {name: np.atleast_1d(values) for name, values in registers.items()}
    count = max((len(values) for values in given.values()), default=1)
    arrays = [np.ascontiguousarray(np.broadcast_to(values, count)) for values in given.values()]
    out = np.zeros(count, dtype)
    body = ["cvt.u64.u32 %w39, %t;"]
    for k, (name, values) in enumerate(zip(given, arrays, strict=True)):
        size = SIZES[name[0]]
        assert values.itemsize == size, (name, values.dtype)
        body += [f"mad.lo.u64 %w38, %w39, {size}, %a{k};", f"ld.global.b{8 * size} %{name}, [%w38];"]
    size = SIZES[result[1]]
    body += [
        instructions,
        f"mad.lo.u64 %w38, %w39, {size}, %a{len(arrays)};",
        f"st.global.b{8 * size} [%w38], {result};",
    ]
    run("\n".join(body), *arrays, out.view(f"u{size}"), threads=count)
    return out
