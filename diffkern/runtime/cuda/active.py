"""The context manager that makes a device's context current in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diffkern.errors import CudaError

if TYPE_CHECKING:
    from diffkern.runtime.cuda.context import CudaDevice

__all__ = ["Active"]


class Active:
    """A context manager in which a device's context is the current one of this thread.

    Other libraries have their own idea of what is current: it is as they left it afterwards, also where a finalizer
    runs in the middle of their work. Where nothing was current, the context of the first device stays, which is the one
    that CUDA's run time takes by itself.
    """

    __slots__ = ("_before", "_device")

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._before: int | None = None

    def __enter__(self) -> None:
        device = self._device
        context, before = device.context, device.driver.current_context()
        if before != context:
            device.driver.set_context(context)
            if before or device.ordinal:
                self._before = before

    def __exit__(self, *failure: object) -> None:
        if self._before is not None:
            try:
                self._device.driver.set_context(self._before)
            except CudaError:
                # An error on the way is more telling than a context that could not be restored.
                if failure[0] is None:
                    raise
