"""Textures: numbers in a regular grid along one to three axes, which kernels sample at any coordinates.

A texture is passed to a kernel as itself; there :func:`~diffkern.texture_sample` interpolates. The meaning of the
descriptor's words is documented in :mod:`diffkern.library.textures`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.types import FLOAT16, FLOAT32, INT8, INT16, INT32, UINT8, UINT16, UINT32, Scalar, scalar_of
from diffkern.lang.dtypes import SCALARS, DType, resolve_dtype
from diffkern.lang.queries import TEXTURE
from diffkern.lang.structs import Definition, register
from diffkern.lang.textures import MOST_LEVELS, STRUCTS, TextureAddressMode, TextureFilterMode, options
from diffkern.library.textures import TEXELS
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import copy
from diffkern.runtime.launch.resources import Content, Key, Resource
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.records.launch import launch
from diffkern.spatial.texture_kernels import halved

__all__ = ["Texture", "Texture1D", "Texture2D", "Texture3D"]

_DIVISORS: Final = {UINT8: 255.0, UINT16: 65535.0, INT8: 127.0, INT16: 32767.0}
"""The integers that are read as numbers up to 1."""
_WHOLE: Final = frozenset({INT32, UINT32})
"""The integers that are not interpolated."""
_TYPES: Final = (*_DIVISORS, INT32, UINT32, FLOAT16, FLOAT32)
_INEXACT: Final = frozenset({INT8, INT16, INT32, UINT32})
"""The types of which not every number can be told from the float32 that is read."""
_CHANGED: Final = "the texels of a texture", "make another texture, or copy the new contents by copy_from()"
_AXES: Final = ("width", "height", "depth")
_MOST: Final = 2**31 - 1
_DATA: Final = np.ndarray | array


class Texture(Uncopied):
    """The base of textures with one, two and three axes.

    Make a :class:`Texture1D`, :class:`Texture2D` or :class:`Texture3D`.

    Attributes
    ----------
    device : Device
        Where it lies.
    width, height, depth : int
        Numbers of texels along the axes; 1 along those that it does not have.
    num_channels : int
        The numbers in a texel.
    dtype : type
        The type of these numbers.
    filter_mode, mip_filter_mode : TextureFilterMode
        How it is interpolated, within a mip level and between two.
    address_mode_u, address_mode_v, address_mode_w : TextureAddressMode
        What it has beyond its ends.
    normalized_coords : bool
        Whether coordinates go from 0 to 1.
    num_mip_levels : int
        The mip levels, 1 for a texture without any but itself.
    """

    ndim: ClassVar[int] = 0
    refused_in_kernels = ("is made on the host", "make it before the launch, and pass it as a parameter")

    device: Device
    id: int
    width: int = 1
    height: int = 1
    depth: int = 1
    num_channels: int = 1
    dtype: DType
    filter_mode: TextureFilterMode
    mip_filter_mode: TextureFilterMode
    address_mode_u: TextureAddressMode
    address_mode_v: TextureAddressMode
    address_mode_w: TextureAddressMode
    normalized_coords: bool
    num_mip_levels: int = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise LaunchError(
            f"a {type(self).__name__} without a number of axes", remedy="make a Texture1D, Texture2D or Texture3D"
        )

    def _make(
        self,
        data: np.ndarray[Any, Any] | array | None,
        sizes: Sequence[int],
        num_channels: int,
        dtype: Any,
        filter_mode: Any,
        address_mode: Any,
        address_modes: Sequence[Any],
        normalized_coords: bool,
        num_mip_levels: int,
        mip_filter_mode: Any,
        device: Any,
        cuda_array: int,
        requires_grad: bool | None,
    ) -> None:
        if cuda_array:
            raise LaunchError(
                "an array of the CUDA driver is not wrapped as a texture", remedy="copy its contents, and pass them"
            )
        self._state(data, sizes, num_channels, dtype)
        if device is None and isinstance(data, array):
            device = data.device
        self.device = get_device(device)
        self.normalized_coords = bool(normalized_coords)
        modes = _modes(address_mode, address_modes)
        self.address_mode_u, self.address_mode_v, self.address_mode_w = modes
        self.num_mip_levels = self._levels_of(num_mip_levels, data is None)
        self._set_filters(filter_mode, mip_filter_mode)
        if requires_grad is None:
            requires_grad = isinstance(data, array) and data.requires_grad
        if requires_grad and not self._scalar.is_float:
            raise LaunchError(
                f"texels of {self._scalar} have no gradient", remedy="make the texture of numbers of float32"
            )
        self._requires_grad = bool(requires_grad)
        is_linear, blends = (m == TextureFilterMode.LINEAR for m in (self.filter_mode, self.mip_filter_mode))
        said = options(modes, is_linear, self.num_mip_levels, self.normalized_coords, blends)
        self._words = (said, *self._sizes, self.num_channels)
        self._resource = Resource(self.device, TEXTURE, TEXELS + 2 * self.num_mip_levels)
        self.id = self._resource.id
        self._exact: np.ndarray[Any, Any] | None = None
        self._levels: tuple[array, ...] = ()
        self._allocate()
        if data is None:
            self.texels.zero_()
        else:
            self._take(data)

    def _set_filters(self, filter_mode: Any, mip_filter_mode: Any) -> None:
        """Set how it is interpolated; raise if its numbers cannot be."""
        usual = TextureFilterMode(int(self._scalar not in _WHOLE))
        self.filter_mode = _filter("filter_mode", filter_mode, usual)
        self.mip_filter_mode = _filter("mip_filter_mode", mip_filter_mode, usual)
        for name, is_used in (("filter_mode", True), ("mip_filter_mode", self.is_mipmapped)):
            if self._scalar in _WHOLE and is_used and getattr(self, name) == TextureFilterMode.LINEAR:
                raise LaunchError(
                    f"a texture of {self._scalar} is not interpolated: its {name} cannot be LINEAR",
                    remedy=f"pass {name}=TextureFilterMode.CLOSEST, or numbers of float32",
                )

    def _state(self, data: Any, sizes: Sequence[int], num_channels: int, dtype: Any) -> None:
        """Set sizes, channels and type, from data or as they are given."""
        n = self.ndim
        if data is None:
            shape, channels = tuple(sizes)[::-1], num_channels
            scalar = None if dtype is None else resolve_dtype(dtype)
            whole = shape if channels == 1 else (*shape, channels)
        elif isinstance(data, _DATA):
            scalar = scalar_of(resolve_dtype(data.dtype))
            whole = _shape_of(data)
            shape, channels = whole[:n], whole[n] if len(whole) == n + 1 else 1
            if len(whole) not in (n, n + 1):
                axes = ", ".join(_AXES[:n][::-1])
                raise LaunchError(
                    f"a {type(self).__name__} of {described(data)}",
                    remedy=f"pass an array of shape ({axes}), or ({axes}, channels)",
                )
        else:
            raise LaunchError(
                f"a {type(self).__name__} of {described(data)}", remedy="pass a NumPy array, or one of diffkern"
            )
        if scalar not in _TYPES:
            raise LaunchError(
                f"a texture of {'no type' if scalar is None else scalar}",
                remedy=f"texels are numbers of {', '.join(map(str, _TYPES))}: state a dtype, or convert the data",
            )
        for name, size in zip(_AXES, shape[::-1], strict=False):
            if not isinstance(size, (int, np.integer)) or size < 1:
                raise LaunchError(f"a texture with the {name} {size}", remedy=f"pass a {name} of at least 1")
        if channels not in (1, 2, 4):
            raise LaunchError(f"a texture with {channels} channels", remedy="a texel has 1, 2 or 4 numbers")
        if math.prod(whole) > _MOST:
            raise LaunchError(
                f"a texture of {math.prod(whole)} numbers: at most {_MOST} are supported",
                remedy="make several textures",
            )
        assert isinstance(scalar, Scalar)
        self._scalar, self._shape, self.num_channels = scalar, tuple(map(int, whole)), int(channels)
        self.dtype = SCALARS[scalar.name]
        self._sizes = (*map(int, shape[::-1]), 1, 1)[:3]
        self.width, self.height, self.depth = self._sizes

    def _levels_of(self, given: int, is_empty: bool) -> int:
        """Return the number of mip levels, which 0 leaves to the sizes."""
        most = max(self._sizes).bit_length()
        if not 0 <= given <= min(most, MOST_LEVELS):
            raise LaunchError(
                f"{given} mip levels of a texture of {' x '.join(map(str, self._sizes[: self.ndim]))}",
                remedy=f"pass 1 to {min(most, MOST_LEVELS)}, or 0 for all",
            )
        if given != 1 and is_empty:
            raise LaunchError("mip levels of a texture without data", remedy="pass data, from which they are computed")
        return min(most, MOST_LEVELS) if given == 0 else int(given)

    # -- contents ------------------------------------------------------------------------------------------------------

    @property
    def is_mipmapped(self) -> bool:
        """True if there is more than one mip level."""
        return self.num_mip_levels > 1

    @property
    def texels(self) -> array:
        """The numbers that kernels read, as float32; its ``grad`` is the gradient with respect to them.

        It has the shape of the data. Its contents may be changed in place, for example by an optimizer;
        with mip levels call :meth:`update` then.
        """
        return self._texels

    def _allocate(self) -> None:
        self._texels = new(self._shape, FLOAT32, False, self.device)
        levels, sizes = [self._texels], self._sizes
        for _ in range(1, self.num_mip_levels):
            sizes = tuple(max(n // 2, 1) for n in sizes)
            levels.append(new((math.prod(sizes) * self.num_channels,), FLOAT32, False, self.device))
        if self._requires_grad:
            self._texels.requires_grad = True
            for level in levels[1:]:
                level.requires_grad = True
        self._levels = tuple(levels)
        words = [word for level in levels for word in (level._address, 0)]
        # Also without a gradient of their own: on a tape they may be copies of what has one.
        is_smooth = self._scalar.is_float
        given: dict[Key, array] = {TEXELS + 1 + 2 * k: level for k, level in enumerate(levels)} if is_smooth else {}
        content = Content(tuple(given.values()), given, () if is_smooth else levels, (_CHANGED, _CHANGED))
        self._resource.lead_to(content, (*self._words, *words))

    def _take(self, data: Any) -> None:
        """Set the contents, to new arrays where a tape needs the old ones."""
        if self._resource.content.kept:
            self._allocate()
        if isinstance(data, array):
            data = data.view(SCALARS[self._scalar.name]) if data._data.ndim != data.ndim else data
            if self._scalar.is_float:
                data = data if self._scalar == FLOAT32 else data.astype(float)
                copy(self._texels, data if data.device is self.device else data.to(self.device))
                self.update()
                return
            data = data.numpy()
        self._exact = data.copy() if self._scalar in _INEXACT else None
        self._texels.assign(self._read(data))
        if self._scalar.is_float:
            self.update()
            return
        for level in self._levels[1:]:
            data = np.rint(_halved(data, self.ndim)).astype(data.dtype)
            level.assign(self._read(data).reshape(-1))

    def _read(self, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return numbers as kernels read them."""
        numbers = np.asarray(data).astype(np.float32)
        divisor = _DIVISORS.get(self._scalar)
        # The least integer of a type with signs is below -1, which is the least value that is read.
        return numbers if divisor is None else np.maximum(numbers / np.float32(divisor), np.float32(-1.0))

    def update(self) -> None:
        """Compute the mip levels from :attr:`texels`, after a change in place; on a tape, with derivatives."""
        sizes = self._sizes
        for source, level in zip(self._levels, self._levels[1:], strict=False):
            launch(halved, level.size, [source.flatten(), *sizes, self.num_channels, level], device=self.device)
            sizes = tuple(max(n // 2, 1) for n in sizes)

    def copy_from(self, src: Any) -> None:
        """Copy the contents of another array or texture of the same shape and type.

        On a tape gradients flow from :attr:`texels` to an array of float32.

        Parameters
        ----------
        src : array, numpy.ndarray or Texture
            The source.

        Raises
        ------
        LaunchError
            If it does not fit, or the texture has mip levels.
        """
        self._check_copy(src, "source", "from")
        if not isinstance(src, Texture):
            self._take(src)
        elif src._exact is not None:
            self._take(src._exact)
        else:
            if self._resource.content.kept:
                self._allocate()
            copy(self._texels, src._texels if src.device is self.device else src._texels.to(self.device))

    def copy_to(self, dst: Any) -> None:
        """Copy the contents to an array or texture of the same shape and type.

        Parameters
        ----------
        dst : array, numpy.ndarray or Texture
            The destination.

        Raises
        ------
        LaunchError
            If it does not fit, or the texture has mip levels.
        """
        self._check_copy(dst, "destination", "to")
        if isinstance(dst, Texture):
            dst.copy_from(self)
            return
        if isinstance(dst, array):
            dst = dst.view(SCALARS[self._scalar.name]) if dst._data.ndim != dst.ndim else dst
            if self._scalar == FLOAT32:
                copy(dst, self._texels if dst.device is self.device else self._texels.to(dst.device))
                return
        numbers = self._exact
        if numbers is None:
            numbers = self._texels.numpy() * np.float32(_DIVISORS.get(self._scalar, 1.0))
            stored = SCALARS[self._scalar.name].numpy
            numbers = numbers.astype(stored) if self._scalar.is_float else np.rint(numbers).astype(stored)
        if isinstance(dst, array):
            dst.assign(numbers)
        else:
            dst[...] = numbers

    def _check_copy(self, other: Any, role: str, way: str) -> None:
        if self.is_mipmapped or (isinstance(other, Texture) and other.is_mipmapped):
            raise LaunchError(
                f"a texture with mip levels is not copied {way}", remedy="make another one, or read and change texels"
            )
        if isinstance(other, Texture):
            shape, scalar = other._shape, other._scalar
        elif isinstance(other, _DATA):
            shape = _shape_of(other)
            scalar = scalar_of(resolve_dtype(other.dtype))
        else:
            raise LaunchError(
                f"the {role} of a copy is {described(other)}", remedy="pass an array of diffkern or NumPy, or a texture"
            )
        if shape != self._shape:
            raise LaunchError(
                f"the {role} of a copy has the shape {shape}, and the texture {self._shape}", remedy="reshape it"
            )
        if scalar != self._scalar:
            raise LaunchError(
                f"the {role} of a copy has numbers of {scalar}, and the texture of {self._scalar}",
                remedy="convert them by astype()",
            )

    # -- what only a GPU's own textures have ---------------------------------------------------------------------------

    @property
    def cuda_array(self) -> int:
        """Not available, since texels lie in an array, :attr:`texels`."""
        raise self._without("cuda_array")

    @property
    def cuda_texture(self) -> int:
        """Not available, since texels lie in an array, :attr:`texels`."""
        raise self._without("cuda_texture")

    @property
    def cuda_surface(self) -> int:
        """Not available, since texels lie in an array, :attr:`texels`."""
        raise self._without("cuda_surface")

    def _without(self, name: str) -> LaunchError:
        return LaunchError(
            f"a {type(self).__name__} has no {name}: it is sampled by kernels in the memory of an array",
            remedy="take its texels",
        )

    def __repr__(self) -> str:
        if not hasattr(self, "_resource"):  # what an empty field of a struct holds
            return f"{type(self).__name__}()"
        sizes = " x ".join(map(str, self._sizes[: self.ndim]))
        return f"{type(self).__name__}({sizes}, {self.num_channels} x {self._scalar}, device={str(self.device)!r})"


def _shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape of an array of numbers, or that of vectors with their components as a last axis."""
    return tuple(data._data.shape if isinstance(data, array) else data.shape)


def _halved(data: np.ndarray[Any, Any], axes: int) -> np.ndarray[Any, Any]:
    """Return the means of two numbers along each of the first axes; along an axis of length 1 the numbers as are."""
    numbers = np.asarray(data).astype(np.float64)
    for axis in range(axes):
        if numbers.shape[axis] > 1:
            pairs = np.moveaxis(numbers, axis, 0)[: numbers.shape[axis] // 2 * 2]
            numbers = np.moveaxis(0.5 * pairs[::2] + 0.5 * pairs[1::2], 0, axis)
    return numbers


def _filter(name: str, given: Any, usual: TextureFilterMode) -> TextureFilterMode:
    if given is None:
        return usual
    try:
        return TextureFilterMode(given)
    except ValueError:
        raise LaunchError(
            f"{name}={given!r} of a texture", remedy="pass TextureFilterMode.CLOSEST or TextureFilterMode.LINEAR"
        ) from None


def _modes(of_all: Any, by_axis: Sequence[Any]) -> tuple[TextureAddressMode, TextureAddressMode, TextureAddressMode]:
    """Return the address modes of three axes."""
    found = []
    for k, own in enumerate((*by_axis, None, None)[:3]):
        each = of_all[k if k < len(of_all) else -1] if isinstance(of_all, (tuple, list)) and of_all else of_all
        given = each if own is None else own
        try:
            found.append(TextureAddressMode(given))
        except ValueError:
            raise LaunchError(
                f"the address mode {given!r} of a texture",
                remedy=f"pass one of {', '.join(f'TextureAddressMode.{mode.name}' for mode in TextureAddressMode)}",
            ) from None
    return found[0], found[1], found[2]


class Texture1D(Texture):
    """Numbers along an axis, which kernels sample at any coordinate.

    Annotate a kernel's parameter with the class, pass the texture, and call :func:`~diffkern.texture_sample` there.

    Parameters
    ----------
    data : array or numpy.ndarray, optional
        Numbers of shape ``(width,)`` or ``(width, channels)``. They are copied.
    width, num_channels, dtype : optional
        Sizes and type of a texture of zeros, without data.
    filter_mode : TextureFilterMode, optional
        ``LINEAR``, the default, or ``CLOSEST``, which is the default for 32-bit integers.
    address_mode, address_mode_u : TextureAddressMode, optional
        The value beyond the ends: ``CLAMP`` to them, ``WRAP`` around, ``MIRROR``, or zero with ``BORDER``.
    normalized_coords : bool, optional
        Whether coordinates go from 0 to 1 instead of to the width.
    num_mip_levels : int, optional
        The number of levels, each of half the resolution of the one before; 0 for all.
    mip_filter_mode : TextureFilterMode, optional
        How a sample between two levels is found.
    device : str or Device, optional
        Where it lies; by default with the data, or on the current device.
    surface_access : bool, optional
        Accepted; the texels are an array in any case.
    cuda_array : int, optional
        Not supported.
    requires_grad : bool, optional
        Whether ``texels`` has a gradient; by default if the data have one.

    Raises
    ------
    LaunchError
        If sizes, types or modes do not fit.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> @dk.kernel
    ... def read(table: dk.Texture1D, x: dk.array(dtype=float), y: dk.array(dtype=float)):
    ...     i = dk.tid()
    ...     y[i] = dk.texture_sample(table, x[i], dtype=float)
    >>> table = dk.Texture1D(np.float32([1, 2, 4]), normalized_coords=False)
    >>> x, y = dk.array([0.5, 1.0, 2.25], dtype=float), dk.zeros(3)
    >>> dk.launch(read, dim=3, inputs=[table, x], outputs=[y])
    >>> y.numpy()
    array([1. , 1.5, 3.5], dtype=float32)
    """

    ndim = 1

    def __init__(
        self,
        data: np.ndarray[Any, Any] | array | None = None,
        width: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: Any = None,
        address_mode: Any = TextureAddressMode.CLAMP,
        address_mode_u: Any = None,
        normalized_coords: bool = True,
        num_mip_levels: int = 1,
        mip_filter_mode: Any = None,
        device: Any = None,
        surface_access: bool = False,
        cuda_array: int = 0,
        requires_grad: bool | None = None,
    ) -> None:
        self._make(
            data, (width,), num_channels, dtype, filter_mode, address_mode, (address_mode_u,), normalized_coords,
            num_mip_levels, mip_filter_mode, device, cuda_array, requires_grad,
        )  # fmt: skip


class Texture2D(Texture):
    """Numbers in a rectangle, which kernels sample at any coordinates.

    As :class:`Texture1D`, with data of shape ``(height, width)`` or ``(height, width, channels)``. The first
    coordinate is along the width.

    Parameters
    ----------
    data : array or numpy.ndarray, optional
        The numbers. They are copied.
    width, height, num_channels, dtype : optional
        Sizes and type of a texture of zeros, without data.
    filter_mode, normalized_coords, num_mip_levels, mip_filter_mode, device, surface_access, cuda_array, requires_grad
        As of :class:`Texture1D`.
    address_mode : TextureAddressMode or tuple of TextureAddressMode, optional
        The value beyond the ends, for both axes or one for each.
    address_mode_u, address_mode_v : TextureAddressMode, optional
        That along the width and along the height.

    Raises
    ------
    LaunchError
        If sizes, types or modes do not fit.
    """

    ndim = 2

    def __init__(
        self,
        data: np.ndarray[Any, Any] | array | None = None,
        width: int = 0,
        height: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: Any = None,
        address_mode: Any = TextureAddressMode.CLAMP,
        address_mode_u: Any = None,
        address_mode_v: Any = None,
        normalized_coords: bool = True,
        num_mip_levels: int = 1,
        mip_filter_mode: Any = None,
        device: Any = None,
        surface_access: bool = False,
        cuda_array: int = 0,
        requires_grad: bool | None = None,
    ) -> None:
        self._make(
            data, (width, height), num_channels, dtype, filter_mode, address_mode, (address_mode_u, address_mode_v),
            normalized_coords, num_mip_levels, mip_filter_mode, device, cuda_array, requires_grad,
        )  # fmt: skip


class Texture3D(Texture):
    """Numbers in a box, which kernels sample at any coordinates.

    As :class:`Texture1D`, with data of shape ``(depth, height, width)`` or ``(depth, height, width, channels)``. The
    first coordinate is along the width, the last one along the depth.

    Parameters
    ----------
    data : array or numpy.ndarray, optional
        The numbers. They are copied.
    width, height, depth, num_channels, dtype : optional
        Sizes and type of a texture of zeros, without data.
    filter_mode, normalized_coords, num_mip_levels, mip_filter_mode, device, surface_access, cuda_array, requires_grad
        As of :class:`Texture1D`.
    address_mode : TextureAddressMode or tuple of TextureAddressMode, optional
        The value beyond the ends, for all axes or one for each.
    address_mode_u, address_mode_v, address_mode_w : TextureAddressMode, optional
        That along the width, the height and the depth.

    Raises
    ------
    LaunchError
        If sizes, types or modes do not fit.
    """

    ndim = 3

    def __init__(
        self,
        data: np.ndarray[Any, Any] | array | None = None,
        width: int = 0,
        height: int = 0,
        depth: int = 0,
        num_channels: int = 0,
        dtype: Any = None,
        filter_mode: Any = None,
        address_mode: Any = TextureAddressMode.CLAMP,
        address_mode_u: Any = None,
        address_mode_v: Any = None,
        address_mode_w: Any = None,
        normalized_coords: bool = True,
        num_mip_levels: int = 1,
        mip_filter_mode: Any = None,
        device: Any = None,
        surface_access: bool = False,
        cuda_array: int = 0,
        requires_grad: bool | None = None,
    ) -> None:
        by_axis = address_mode_u, address_mode_v, address_mode_w
        self._make(
            data, (width, height, depth), num_channels, dtype, filter_mode, address_mode, by_axis, normalized_coords,
            num_mip_levels, mip_filter_mode, device, cuda_array, requires_grad,
        )  # fmt: skip


for _class in (Texture1D, Texture2D, Texture3D):
    register(_class, Definition(STRUCTS[_class.ndim], {}))
