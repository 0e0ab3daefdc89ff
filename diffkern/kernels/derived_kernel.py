"""A kernel derived from another one: the same source, compiled with a transformation applied.

It has other parameters, and follows every later change of the kernel that it is derived from.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Final

from diffkern.contracts.options import JvpLayer, Variant, VmapLayer
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.launch.kernel_version import KernelVersion

__all__ = ["DerivedKernel"]


class DerivedKernel(Kernel):
    """A kernel derived from another one by a transformation.

    Attributes
    ----------
    of : Kernel
        The kernel that it is derived from.
    """

    def __init__(self, of: Kernel, suffix: str) -> None:
        self.of: Final = of
        self.dialect = of.dialect  # that of the kernel, whose text it is
        self._begin(of.func, of.options, f"{of.name}.{suffix}")

    @property
    @abstractmethod
    def layer(self) -> JvpLayer | VmapLayer:
        """The transformation that is applied."""

    @property
    def variant(self) -> Variant:
        """The forward program for the CPU, with the current options and ``dk.config``."""
        # Asked of the other kernel each time, so that its options and settings count as they are now.
        given = self.of.variant
        return replace(given, layers=(*given.layers, self.layer))

    def meant(self, of: KernelVersion) -> KernelVersion:
        """Return what it means where the kernel means, or meant, that."""
        # A launch on a tape may be of an earlier meaning of the other kernel, whose derivative is then made of that
        # meaning.
        if of is self.of.current():
            return self.current()
        made = KernelVersion(of.number, replace(of.variant, layers=(*of.variant.layers, self.layer)), of.library)
        made.meaning, made.function = of.meaning, self.of.function_of(of)
        return made
