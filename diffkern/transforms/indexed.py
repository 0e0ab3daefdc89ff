"""Arrays viewed through index arrays: element ``(i, j)`` of an indexed array is ``data[i0[i], j]``.

An :class:`indexedarray` is made of an array and, for each axis, an array of int32 or None. It reads and writes the
array's elements. Copies out of it and into it are kernels, so that gradients flow through them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ANY, ArrayAnnotation, array_annotation, subscripted
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.indexed import SeenThrough
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.transforms.mapping import executed

__all__ = ["indexedarray", "indexedarray1d", "indexedarray2d", "indexedarray3d", "indexedarray4d"]


class indexedarray(SeenThrough):
    """An array seen through index arrays, which kernels read and write as one.

    Without data it is the annotation of a parameter, as in ``dk.indexedarray(dtype=float, ndim=2)`` or
    ``dk.indexedarray[float, 2]``.

    Parameters
    ----------
    data : array, optional
        The elements.
    indices : sequence
        For each axis a one-dimensional array of integers, which say what stands along that axis, or None for all in
        order; axes that are left out have all. An array alone counts for the first axis.
    dtype
        The element type of an annotation.
    ndim : int, optional
        Number of axes of an annotation.

    Attributes
    ----------
    data : array
        The array.
    indices : tuple
        For each axis an array of int32, or None.
    shape : tuple of int
        The number of elements along each axis.
    """

    axes: ClassVar[int | None] = None

    def __new__(
        cls, data: Any = None, indices: Any = None, dtype: Any = ANY, ndim: int | None = None, **own: Any
    ) -> Any:
        # Without data the call is an annotation, as with dk.array.
        if data is None and not own:
            return replace(array_annotation(dtype, cls.axes or ndim or 1), indexed=True)
        return object.__new__(cls)  # also of a class derived from this one, which takes more

    def __class_getitem__(cls, item: Any) -> ArrayAnnotation:
        plain = subscripted(item) if cls.axes is None else array_annotation(item, cls.axes)
        return replace(plain, indexed=True)

    def __init__(self, data: Any = None, indices: Any = None, dtype: Any = ANY, ndim: int | None = None) -> None:
        if not isinstance(data, array):
            raise MisuseError(
                f"an indexed array is made of an array, not {described(data)}",
                remedy="make an array of it first, as in dk.array(values)",
            )
        given = [indices] if indices is None or isinstance(indices, (array, np.ndarray)) else list(indices)
        if self.axes is not None and data.ndim != self.axes:
            raise ValueError(f"{described(data)} has not {self.axes} axes")
        if len(given) > data.ndim:
            raise ValueError(f"{len(given)} index arrays are given for {described(data)}")
        # Axes that are left out are not permuted.
        given += [None] * (data.ndim - len(given))
        self.data = data
        self.indices = tuple(None if k is None else _checked(data, axis, k) for axis, k in enumerate(given))
        self.shape = tuple(n if k is None else k.size for n, k in zip(data.shape, self.indices, strict=True))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """The device of its elements."""
        return self.data.device

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def requires_grad(self) -> bool:
        """True if the underlying array has a gradient."""
        return bool(self.data.requires_grad)

    @property
    def is_contiguous(self) -> bool:
        """Always False, as its elements are not adjacent in memory."""
        return False

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"indexedarray(shape={self.shape}, dtype={self.dtype!r})"

    def __str__(self) -> str:
        return str(self.numpy())

    def contiguous(self) -> array:
        """Return the elements as an array of their own, with a gradient if the array has one."""
        made = new(self.shape, self.data._element, False, self.data._memory.device)
        # Arithmetic on the copy must mean the same as on the original.
        made._memory.warp_dialect = self.data._memory.warp_dialect
        made.requires_grad = self.data.requires_grad
        if (places := self._places(made)) is not None:
            made._overwrite(self.data._data[places])
        elif made.size:
            launch(_copier(self._pattern, False), self.shape, [self.data, *self._given, made])
        return made

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy of the elements for NumPy."""
        return self.contiguous().numpy()

    def list(self) -> list[Any]:
        """Return the elements as nested lists."""
        return self.contiguous().list()

    def to(self, device: Any) -> indexedarray:
        """Return the indexed array itself if it lies on a device, else one of copies there."""
        there = self.data.to(device)
        if there is self.data:
            return self
        return type(self)(there, [None if k is None else k.to(device) for k in self.indices])

    def assign(self, src: Any) -> None:
        """Copy the values of an array of the same shape, an indexed array, or what arrays are made of, to the elements.

        Gradients flow through the copy of an array. Of indices that occur twice, one wins.
        """
        # A copy first, which also makes an assignment between overlapping views right.
        source = src.contiguous() if isinstance(src, indexedarray) else src
        if not isinstance(source, array):
            source = array(source, dtype=self.dtype, device=self.device)
        if source.shape != self.shape or source._element != self.data._element:
            raise ValueError(f"{described(src)} does not fit {described(self)}")
        if (places := self._places(source)) is not None:
            self.data._check_writable()
            self.data._data[places] = source._data
            # Written past the launches that count versions.
            self.data._memory.version += 1
        elif source.size:
            launch(_copier(self._pattern, True), self.shape, [source, *self._given, self.data])

    def fill_(self, value: Any) -> None:
        """Set every element to one value."""
        filled = new(self.shape, self.data._element, False, self.data._memory.device)
        filled._memory.warp_dialect = self.data._memory.warp_dialect
        filled.fill_(value)
        self.assign(filled)

    def zero_(self) -> None:
        """Set every element to zero."""
        zeros = new(self.shape, self.data._element, False, self.data._memory.device)
        zeros.zero_()
        self.assign(zeros)

    def _places(self, other: array) -> tuple[np.ndarray[Any, Any], ...] | None:
        """Return NumPy's index of its elements for a copy from or to another array, or None.

        NumPy may copy only on the host, while nothing records or captures, and if the arrays do not overlap.
        """
        held = (self.data, other, *self._given)
        # Whatever records or captures has to see a launch.
        if slow_path_flags.word[0] or not all(one._memory.is_host for one in held):
            return None
        if np.may_share_memory(self.data._data, other._data):
            return None
        # np.ix_ combines the indices of all axes like a product, as kernels do.
        along = (np.arange(n) if k is None else k._data for n, k in zip(self.shape, self.indices, strict=True))
        return np.ix_(*along)

    @property
    def _pattern(self) -> tuple[bool, ...]:
        return tuple(k is not None for k in self.indices)

    @property
    def _given(self) -> Sequence[array]:
        return [k for k in self.indices if k is not None]


def _checked(data: array, axis: int, indices: Any) -> array:
    held = indices if isinstance(indices, array) else array(np.asarray(indices, np.int32), device=data.device)
    if held.ndim != 1 or held.dtype != array(np.zeros(1, np.int32)).dtype:
        said = f"the indices of an axis are an array of int32 with one axis, not {described(held)}"
        is_mask = held.dtype == array(np.zeros(1, np.bool_)).dtype
        raise ValueError(f"{said}; a mask chooses from x.numpy()[mask]" if is_mask else said)
    if held.device != data.device:
        raise LaunchError(
            f"{described(data)} is on {data.device}, and the indices of axis {axis} on {held.device}",
            remedy="copy them there with .to()",
        )
    return held


@functools.cache
def _copier(pattern: tuple[bool, ...], back: bool) -> Kernel:
    """The kernel that copies the elements out, or back."""
    letters = "ijkl"[: len(pattern)]
    names = [f"i{axis}" for axis, given in enumerate(pattern) if given]
    # The pattern decides the text, so that axes without indices cost nothing.
    place = ", ".join(f"i{axis}[{at}]" if pattern[axis] else at for axis, at in enumerate(letters))
    plain = ", ".join(letters)
    target, source = (place, plain) if back else (plain, place)
    name = "scatter" if back else "gather"
    text = f"def {name}(source, {''.join(f'{n}, ' for n in names)}target):\n    {plain} = tid()\n"
    return Kernel(executed(f"{text}    target[{target}] = source[{source}]\n", name, {"tid": INTRINSICS["tid"]}))


def _of_axes(count: int) -> type[indexedarray]:
    what = "one axis" if count == 1 else f"{count} axes"
    said = f"""An array with {what} seen through index arrays.

    Parameters
    ----------
    data : array, optional
        The elements.
    indices : sequence
        As those of :class:`indexedarray`.
    dtype
        The element type of an annotation.
    ndim : int, optional
        The number of axes is known.
    """
    return type(f"indexedarray{count}d", (indexedarray,), {"axes": count, "__doc__": said})


indexedarray1d = _of_axes(1)
indexedarray2d = _of_axes(2)
indexedarray3d = _of_axes(3)
indexedarray4d = _of_axes(4)
