"""The storage of a tensor on a GPU as a block of memory.

A device and a tensor that keeps the storage alive give memory whose version is PyTorch's, and which PyTorch's allocator
does not reuse before the diffkern streams that work with it have got that far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from diffkern.interop.torch.place import TensorVersion, as_external
from diffkern.runtime.cuda.memory import DeviceMemory

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice
    from diffkern.runtime.cuda.stream import CudaStream

__all__ = ["CountedDeviceMemory", "UncountedDeviceMemory"]


class UncountedDeviceMemory(DeviceMemory):
    """The storage of a tensor of inference mode, which counts no versions."""

    __slots__ = ("_tensor",)

    def __init__(self, device: CudaDevice, address: int, nbytes: int, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        super().__init__(device, address, nbytes, device.null_stream, owner=tensor)

    def use(self, stream: CudaStream) -> None:
        """Record that a stream works with it, here and with PyTorch's allocator."""
        if stream is not self.home and stream not in self.users:
            super().use(stream)
            # PyTorch frees memory in the order of the stream that allocated it, and has to be told of other streams.
            self._tensor.record_stream(as_external(stream))


class CountedDeviceMemory(TensorVersion, UncountedDeviceMemory):
    """The storage of a tensor. Its version is PyTorch's, which views and detached tensors share."""

    __slots__ = ()
