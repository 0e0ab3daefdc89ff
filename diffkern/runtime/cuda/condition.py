"""The one kernel that conditional nodes of a graph need: it sets their condition from a number in device memory.

For an architecture there are a cubin and the name of its function, whose parameters are the node's handle, the address
of an int32, and whether 0 means that the body runs. The function that sets a condition on the device is in NVIDIA's
library ``cudadevrt``, so that this is linked rather than emitted with the other kernels; it takes no driver.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from diffkern.errors import CudaError
from diffkern.process import wheels

__all__ = ["condition_setter"]

_NAME = "dk_set_condition"
_PTX = f""".version 8.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry {_NAME}(.param .u64 handle, .param .u64 address, .param .u64 negate)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [handle];
  ld.param.u64 %rd2, [address];
  ld.param.u64 %rd3, [negate];
  cvta.to.global.u64 %rd4, %rd2;
  ld.global.u32 %r1, [%rd4];
  setp.ne.s32 %p1, %r1, 0;
  setp.ne.s64 %p2, %rd3, 0;
  xor.pred %p3, %p2, %p1;
  selp.u32 %r2, 1, 0, %p3;
  {{
  .param .b64 p0;
  .param .b32 p1;
  st.param.b64 [p0+0], %rd1;
  st.param.b32 [p1+0], %r2;
  call.uni cudaGraphSetConditional, (p0, p1);
  }}
  ret;
}}
\0"""


@functools.cache
def condition_setter(target: str) -> tuple[bytes, str]:
    """Return the cubin for a target such as ``sm_90``, and the function's name.

    Raises
    ------
    CudaError
        If the linker or the library is not installed.
    """
    try:
        wheels.load("libnvJitLink.so.*")
        link: Any = import_module("cuda.bindings.nvjitlink")
        link.version()
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: of the search in cuda.pathfinder
        raise _missing(str(error)) from error
    library = _device_runtime()
    handle = link.create(1, [f"-arch={target}"])
    try:
        text = _PTX.encode()
        link.add_data(handle, link.InputType.PTX, text, len(text), _NAME)
        link.add_data(handle, link.InputType.LIBRARY, library, len(library), "cudadevrt")
        link.complete(handle)
        image = bytearray(link.get_linked_cubin_size(handle))
        link.get_linked_cubin(handle, image)
    finally:
        link.destroy(handle)
    return bytes(image), _NAME


def _device_runtime() -> bytes:
    found = wheels.find("libcudadevrt.*")
    if found is None:
        raise _missing("libcudadevrt was not found")
    return found.read_bytes()


def _missing(what: str) -> CudaError:
    return CudaError(
        f"conditional nodes need NVIDIA's linker and device runtime: {what}",
        remedy='pip install "diffkern[cuda]" brings them',
        call="cudaGraphSetConditional",
    )
