"""The devices of tensors, and the streams on which PyTorch works there.

Devices of PyTorch are mapped to the GPU or the CPU, PyTorch's current stream to a diffkern stream, and work is done on
it. A call that PyTorch has to see in its own order goes to its current stream; memory that its allocator made on that
stream then needs nothing more. Work of other streams is put in order by events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from diffkern.runtime.cuda.stream import CudaStream
from diffkern.runtime.memory.device import gpu_named
from diffkern.runtime.memory.state import is_recorded

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array
    from diffkern.runtime.cuda.context import CudaDevice

__all__ = [
    "TensorVersion",
    "as_external",
    "current_stream",
    "default_device",
    "gpu_of",
    "guarded",
    "on_current_stream",
    "order_around_launch",
    "order_before",
    "stream_of",
    "tensor_over",
]

_CACHED = 256
_streams: dict[tuple[int, int], CudaStream] = {}


def gpu_of(device: torch.device) -> CudaDevice | None:
    """Return the GPU for a device of PyTorch, None for the CPU.

    Raises
    ------
    TypeError
        If kernels do not run there.
    ValueError
        If there is no such GPU.
    """
    if device.type == "cpu":
        return None
    if device.type != "cuda":
        raise TypeError(f"the tensor lies on {device}, where no kernel runs; move it with .cpu()")
    ordinal = torch.cuda.current_device() if device.index is None else device.index
    found: CudaDevice = gpu_named(f"cuda:{ordinal}")
    return found


def default_device() -> torch.device:
    """Return PyTorch's default device for new tensors."""
    found = torch.get_default_device()
    if str(found) == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return found


def raw_stream(ordinal: int) -> int:
    """Return the driver's handle of PyTorch's current stream on a GPU."""
    handle: int = torch._C._cuda_getCurrentRawStream(ordinal)
    return handle


def stream_of(gpu: CudaDevice, handle: int) -> CudaStream:
    """Return a PyTorch stream, given by its handle, as a diffkern stream; PyTorch keeps owning it."""
    if handle == 0:
        return gpu.null_stream
    found = _streams.get((gpu.ordinal, handle))
    # After a reset of the device there is another object for it, whose streams are others.
    if found is None or found.device is not gpu:
        if len(_streams) >= _CACHED:
            _streams.clear()
        # PyTorch's streams do not wait for the default stream.
        found = _streams[gpu.ordinal, handle] = CudaStream(gpu, cuda_stream=handle, non_blocking=True)
    return found


def current_stream(gpu: CudaDevice) -> CudaStream:
    """Return PyTorch's current stream on a GPU."""
    return stream_of(gpu, raw_stream(gpu.ordinal))


def guarded(gpu: CudaDevice | None, work: Callable[[], None]) -> None:
    """Run work that makes a GPU's context current, and leave PyTorch's current device as it was."""
    # Switching devices costs more than a launch, and is needed only with several GPUs.
    if gpu is None or torch.cuda.device_count() < 2 or torch.cuda.current_device() == gpu.ordinal:
        work()
    else:
        with torch.cuda.device(gpu.ordinal):
            work()


def on_current_stream(gpu: CudaDevice | None, work: Callable[[], None]) -> None:
    """Run work that enqueues on diffkern's current stream of a GPU, while that is PyTorch's; immediately on a CPU."""
    if gpu is None:
        work()
    else:
        guarded(gpu, lambda: current_stream(gpu).enqueue(work))


def order_before(gpu: CudaDevice) -> CudaStream | None:
    """Make diffkern's current stream of a GPU wait for PyTorch's; return PyTorch's if they differ."""
    theirs, mine = current_stream(gpu), gpu.stream
    if theirs.cuda_stream == mine.cuda_stream:
        return None
    mine.wait_event(theirs.record_event())
    return theirs


def order_around_launch(gpu: CudaDevice) -> None:
    """Make the next launch on a GPU wait for PyTorch's current stream, and that stream for the launch.

    Raises
    ------
    TypeError
        If the launch is recorded: later runs would not be in order with PyTorch.
    """
    theirs = order_before(gpu)
    if theirs is None:
        return
    if is_recorded():
        raise TypeError(
            "PyTorch's current stream is not that of this launch, which is being recorded, so that later runs would "
            "not be in order; record inside dk.ScopedStream(dk.stream_from_torch(tensor.device))"
        )
    gpu.let_follow(theirs)


def as_external(stream: CudaStream) -> Any:
    """Return a diffkern stream as a PyTorch stream, which keeps it alive."""
    ordinal = stream.device.ordinal
    if stream.is_default:
        return torch.cuda.default_stream(ordinal)
    made = torch.cuda.ExternalStream(stream.cuda_stream, device=ordinal)
    made._diffkern_stream = stream  # type: ignore[attr-defined]  # PyTorch's class has room for it
    return made


def tensor_over(a: array) -> torch.Tensor:
    """Return a tensor over an array on a GPU; PyTorch's current stream waits for the array's work so far."""
    made: torch.Tensor = torch.utils.dlpack.from_dlpack(a)
    return made


# -- versions of memory ------------------------------------------------------------------------------------------------
# The version of a tensor's memory: PyTorch's counter, which a tape compares and PyTorch's own checks read.


class TensorVersion:
    """A memory whose version is that of its tensor, which views and detached tensors share."""

    __slots__ = ()
    is_counted = True
    _tensor: torch.Tensor

    @property
    def version(self) -> int:
        return self._tensor._version

    @version.setter
    def version(self, value: int) -> None:
        # The base class writes the 0 of new memory; after that it is only ever raised.
        if value > self._tensor._version:
            torch.autograd.graph.increment_version(self._tensor)
