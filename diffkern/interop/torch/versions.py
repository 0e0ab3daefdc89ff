"""The version of a tensor's memory: PyTorch's counter, which a tape compares and PyTorch's own checks read."""

from __future__ import annotations

import torch

__all__ = ["TensorVersion"]


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
