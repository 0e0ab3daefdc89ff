"""Tensors on a GPU that is not there: every tensor says that it lies on ``cuda:0``, whose memory is the host's.

In: the fake driver. Out: a test that runs its launches there, in the paths that tensors on a GPU take. PyTorch itself
goes on working on the CPU; what only its builds for CUDA have (streams, its allocator) is noted instead.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from diffkern.interop.torch import arrays, device_memory, place, types
from diffkern.runtime.cuda.program import CudaExecutable

CUDA = torch.device("cuda", 0)


def claim_cuda(patch: pytest.MonkeyPatch, at_once: bool = True) -> Any:
    """Let tensors lie on ``cuda:0``; return what notes PyTorch's current stream and which streams used memory.

    The fake driver puts work off until something waits for it; PyTorch, on the CPU here, never does, so launches are
    waited for unless `at_once` is False.
    """
    state = SimpleNamespace(stream=0, recorded=[])
    patch.setattr(torch.Tensor, "device", property(lambda t: CUDA))
    patch.setattr(torch.Tensor, "record_stream", lambda t, s: state.recorded.append((t.data_ptr(), s)))
    patch.setattr(torch, "get_default_device", lambda: CUDA)
    for name in ("empty", "zeros"):
        plain = getattr(torch, name)
        patch.setattr(torch, name, lambda *a, plain=plain, device=None, **options: plain(*a, **options))
    move = torch.Tensor.to
    patch.setattr(
        torch.Tensor, "to", lambda t, *a, **k: t if a and isinstance(a[0], torch.device) else move(t, *a, **k)
    )
    autocast = torch.is_autocast_enabled
    patch.setattr(torch, "is_autocast_enabled", lambda kind: autocast("cpu"))
    patch.setattr(place, "raw_stream", lambda ordinal: state.stream)
    enqueue = CudaExecutable.enqueue
    if at_once:
        patch.setattr(CudaExecutable, "enqueue", lambda program, *a: (enqueue(program, *a), program.gpu.synchronize()))
    # The bytes on this GPU are the host's.
    patch.setattr(arrays, "tensor_over", _tensor_over)
    for module in (device_memory, types):
        patch.setattr(module, "as_external", lambda stream: stream.cuda_stream)
    return state


def _tensor_over(a: Any) -> torch.Tensor:
    data = a._data._shadow
    dtype = types.dtype_to_torch(a.dtype)
    return torch.from_numpy(data.view("i2")).view(dtype) if dtype == torch.bfloat16 else torch.from_numpy(data)
