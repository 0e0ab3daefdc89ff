"""The functions of the GPU run time for the rest of the run time: see :data:`diffkern.process.late.GPU`."""

from __future__ import annotations

from diffkern.runtime.cuda import context, exchange, memory, program, stream, transfer
from diffkern.runtime.cuda import devices as installed

__all__ = ["Gpu"]


class Gpu:
    """The run time on GPUs under one name."""

    Device = context.CudaDevice
    device = staticmethod(installed.device)
    devices = staticmethod(installed.devices)
    watch = staticmethod(installed.watch)

    Stream = stream.CudaStream
    Event = stream.CudaEvent

    View = memory.DeviceView
    allocate_pinned = staticmethod(memory.allocate_pinned)

    add = staticmethod(transfer.add)
    add_steps = staticmethod(transfer.add_steps)
    assign = staticmethod(transfer.assign)
    assign_steps = staticmethod(transfer.assign_steps)
    copy = staticmethod(transfer.copy)
    copy_steps = staticmethod(transfer.copy_steps)
    download = staticmethod(transfer.download)

    imported = staticmethod(exchange.imported)
    let_wait = staticmethod(exchange.let_wait)
    over_address = staticmethod(exchange.over_address)

    executable = staticmethod(program.executable)
