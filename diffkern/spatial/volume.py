"""Sparse volumes: values at voxels of a grid of which only some tiles exist, which kernels look up, sample and store.

A kernel gets a volume by its id. The meaning of the descriptor's words is documented in
:mod:`diffkern.library.volumes`, the format of files in :mod:`diffkern.spatial.nanovdb`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.types import FLOAT32, INT32, UINT32, Mat, Scalar, Vec, scalar_of
from diffkern.lang.dtypes import SCALARS, resolve_dtype
from diffkern.lang.queries import VOLUME
from diffkern.lang.structs import public_type
from diffkern.library.volumes import COTANGENTS, WORDS
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import copy
from diffkern.runtime.launch.resources import Content, Key, Resource
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.memory.state import check_not_replayed
from diffkern.spatial.nanovdb import TYPE_NAMES, VoxelGrid, grid_from_bytes, grid_to_bytes, grids_from_bytes
from diffkern.spatial.nanovdb_file import read_file, write_file
from diffkern.spatial.volume_arguments import (
    ELEMENTS,
    OTHERS,
    background_of,
    capacities,
    coordinates_of,
    edges_of,
    feature_type,
    map_of,
    scalar_named,
    three,
    values_of,
    voxels_at,
    voxels_of,
)
from diffkern.spatial.volume_tree import affine_map, grid_of_voxels

__all__ = ["Volume"]

Array: TypeAlias = array

_SAID: Final = (
    ("the values of a volume", "store to it by a kernel, which keeps what a tape needs"),
    ("the values of a volume", "make another volume"),
)
_ON_INDEX, _INDEX = 20, 19
_MOST: Final = 2**31 - 1


class Volume(Uncopied):
    """Values at the voxels of a grid of which only some tiles of 8 x 8 x 8 voxels exist.

    Make one by :meth:`allocate`, :meth:`allocate_by_tiles`, :meth:`allocate_by_voxels`, :meth:`load_from_numpy` or
    :meth:`load_from_nvdb`, pass its :attr:`id` to a kernel as a ``uint64``, and call :func:`~diffkern.volume_sample`,
    :func:`~diffkern.volume_lookup` or :func:`~diffkern.volume_store` there. Elsewhere it has the background's value.

    Parameters
    ----------
    data : array
        The bytes of a grid in the format of NanoVDB. They are copied.
    copy : bool, optional
        Accepted; the bytes are copied in any case.
    requires_grad : bool, optional
        Whether :attr:`values` has a gradient.

    Attributes
    ----------
    device : Device
        Where it lies.

    Raises
    ------
    LaunchError
        If the bytes are no such grid.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> @dk.kernel
    ... def read(volume: dk.uint64, x: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    ...     i = dk.tid()
    ...     y[i] = dk.volume_sample_f(volume, x[i], dk.Volume.LINEAR)
    >>> volume = dk.Volume.load_from_numpy(np.arange(8, dtype=np.float32).reshape(2, 2, 2), bg_value=-1.0)
    >>> x, y = dk.array(np.float32([[0, 0, 0.5], [1, 1, 1], [50, 0, 0]]), dtype=dk.vec3), dk.zeros(3)
    >>> dk.launch(read, dim=3, inputs=[volume.id, x], outputs=[y])
    >>> y.numpy()
    array([ 0.5,  7. , -1. ], dtype=float32)
    """

    CLOSEST: ClassVar[int] = 0
    """Take the value of the closest voxel."""
    LINEAR: ClassVar[int] = 1
    """Interpolate between the eight voxels around."""
    REBUILD_SUCCESS: ClassVar[int] = 0
    REBUILD_LEAF_CAPACITY_EXCEEDED: ClassVar[int] = 1
    REBUILD_LOWER_CAPACITY_EXCEEDED: ClassVar[int] = 2
    REBUILD_UPPER_CAPACITY_EXCEEDED: ClassVar[int] = 4
    REBUILD_VOXEL_CAPACITY_EXCEEDED: ClassVar[int] = 8
    REBUILD_INVALID_INPUT: ClassVar[int] = 16

    refused_in_kernels = ("is made on the host", "make it before the launch, and pass its id as a parameter")

    class RebuildInfo(NamedTuple):
        """The room that a volume has for :meth:`Volume.rebuild`."""

        kind: str | None
        max_voxel_count: int
        max_leaf_node_count: int
        max_lower_node_count: int
        max_upper_node_count: int

    class ActiveStats(NamedTuple):
        """Numbers of voxels that have an index, of tiles, and of the nodes above them."""

        voxel_count: int
        leaf_node_count: int
        lower_node_count: int
        upper_node_count: int

    class GridInfo(NamedTuple):
        """Facts of a grid: name, bytes, place among the grids of its file, type of the values, index-to-world map."""

        name: str
        size_in_bytes: int
        grid_index: int
        grid_count: int
        type_str: str
        translation: Any
        transform_matrix: Any

    class FeatureArrayInfo(NamedTuple):
        """Facts of an array that is stored beside a grid; `ptr` is its position among the bytes."""

        name: str
        ptr: int
        value_size: int
        value_count: int
        type_str: str

    device: Device
    _background: Any = None

    def __init__(self, data: Array | None, copy: bool = True, requires_grad: bool = False) -> None:
        if not isinstance(data, array):
            raise LaunchError(
                f"a Volume of {described(data)}", remedy="pass an array of bytes, or call Volume.load_from_nvdb"
            )
        raw = np.ascontiguousarray(data.numpy()).view(np.uint8).reshape(-1)
        self._begin(grid_from_bytes(raw.copy()), data.device, requires_grad)

    def _begin(self, grid: VoxelGrid, device: Device, requires_grad: bool = False, room: Any = None) -> None:
        self.device = device
        self._requires_grad = bool(requires_grad)
        self._info = Volume.RebuildInfo(None, 0, 0, 0, 0) if room is None else room
        self._resource = Resource(device, VOLUME, WORDS)
        self._set(grid)
        if requires_grad and self._values is None:
            raise LaunchError(
                f"the values of a Volume of {TYPE_NAMES[grid.type]} have no gradient",
                remedy="keep them in an array, and sample it by volume_sample_index",
            )

    def _set(self, grid: VoxelGrid) -> None:
        """Lead to a grid, in new arrays."""
        element = ELEMENTS.get(grid.type)
        if 4 * 512 * grid.leaves > _MOST or len(grid.lowers) << 12 > _MOST:
            raise LaunchError(f"a Volume of {grid.leaves} tiles", remedy="make several volumes of fewer tiles")
        self._grid, self._values = grid, None
        if element is not None:
            self._values = values_of(grid, element, self.device)
            if self._requires_grad:
                self._values.requires_grad = True
        place = np.concatenate([grid.map["matrix_f"], grid.map["inverse_f"], grid.map["shift_f"]])
        double = np.concatenate([grid.map["matrix"], grid.map["inverse"], grid.map["shift"]])
        tables = [grid.keys, grid.roots, grid.uppers, grid.lowers, grid.masks, place, double]
        self._tables = [
            None if t is None or not t.size else array(np.ascontiguousarray(t).reshape(-1), device=self.device)
            for t in tables
        ]
        self._lead()

    def _lead(self) -> None:
        """Set the words of the descriptor."""
        grid, values = self._grid, self._values
        keys, roots, uppers, lowers, masks, place, double = (0 if t is None else t._address for t in self._tables)
        is_smooth = values is not None and scalar_of(ELEMENTS[grid.type]).is_float
        given: dict[Key, array] = {COTANGENTS: values} if is_smooth and values is not None else {}
        own = [t for t in self._tables if t is not None]
        held = () if values is None else (values,)
        content = Content((*own, *given.values()), given, () if given else held, _SAID, stored=held)
        last = 512 * grid.leaves if values is None else values.size - 1
        self._resource.lead_to(
            content,
            (
                grid.type, len(grid.keys), keys, roots, uppers, lowers, 0 if values is None else values._address, 0,
                last, grid.leaves, grid.indexable, masks, int(grid.numbered), place, double,
            ),
        )  # fmt: skip
        # Weakly, as the descriptor outlives the volume where a tape needs it.
        self._resource.renew = weakref.WeakMethod(self._renew) if held else None

    def _renew(self) -> None:
        """Copy the values, as a tape needs the old ones; on a tape gradients flow through the copy."""
        old = self._values
        assert old is not None
        self._values = new(old.shape, old._element, False, self.device)
        if old.requires_grad:
            self._values.requires_grad = True
        copy(self._values, old)
        self._lead()

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """The number by which a kernel knows the volume; it does not change."""
        return self._resource.id

    @property
    def values(self) -> Array:
        """The values that kernels read now; its ``grad`` is the gradient with respect to them.

        They are those of the tiles in the order of :meth:`get_voxels`, then values that a file has for larger regions,
        last the background. A store of a launch makes a new array of them where a tape needs the old one.
        """
        if self._values is None:
            raise LaunchError(
                f"a Volume of {TYPE_NAMES[self._grid.type]} has no values that kernels read",
                remedy="keep them in an array, and sample it by volume_sample_index",
            )
        return self._values

    @property
    def dtype(self) -> Any:
        """The type of the values; None of an index grid, and of types that diffkern does not have."""
        element = ELEMENTS.get(self._grid.type)
        if element is not None:
            return public_type(element)
        found = OTHERS.get(TYPE_NAMES[self._grid.type])
        if found is None:
            return None
        scalar = scalar_named(found[0])
        return public_type(scalar if found[1] == 1 else Vec(scalar, found[1]))

    @property
    def is_index(self) -> bool:
        """True if it has no values, but an index for each voxel."""
        return self._grid.is_index

    @property
    def is_rebuildable(self) -> bool:
        """True if it was allocated with room for :meth:`rebuild`."""
        return self._info.kind is not None

    def get_rebuild_info(self) -> RebuildInfo:
        """Return the kind of points of :meth:`rebuild`, and for how many voxels and nodes there is room."""
        return self._info

    def get_active_stats(self) -> ActiveStats:
        """Return the numbers of voxels and nodes that there are."""
        grid = self._grid
        return Volume.ActiveStats(grid.indexable, grid.leaves, len(grid.lowers), len(grid.uppers))

    def get_tile_count(self) -> int:
        """Return the number of tiles; of a rebuildable volume that for which there is room."""
        return self._info.max_leaf_node_count or self._grid.leaves

    def get_voxel_count(self) -> int:
        """Return the number of voxels that have an index; of a rebuildable volume that for which there is room."""
        return self._info.max_voxel_count or self._grid.indexable

    def get_tiles(self, out: Array | None = None) -> Array:
        """Return the first voxel of each tile, an array of int32 of shape (tiles, 3).

        Parameters
        ----------
        out : array, optional
            An array to write to: ``vec3i``, or int32 of shape (n, 3), of at least as many rows.
        """
        return self._coordinates(self._grid.origins, self.get_tile_count(), out)

    def get_voxels(self, out: Array | None = None) -> Array:
        """Return the coordinates of the voxels in the order of their indices, an array of int32 of shape (voxels, 3).

        Parameters
        ----------
        out : array, optional
            An array to write to: ``vec3i``, or int32 of shape (n, 3), of at least as many rows.
        """
        return self._coordinates(voxels_of(self._grid), self.get_voxel_count(), out)

    def _coordinates(self, found: Any, count: int, out: Array | None) -> Array:
        found = np.ascontiguousarray(found, np.int32)
        if out is None:
            # A rebuildable volume has room for more, of which nothing is known.
            rows = np.zeros((count, 3), np.int32)
            rows[: len(found)] = found
            made: Array = array(rows, dtype=SCALARS["int32"], device=self.device)
            return made
        data = coordinates_of(out, "out", (INT32,))
        if out.device is not self.device or len(data) < count:
            raise LaunchError(
                f"'out' has {len(data)} rows on {out.device}", remedy=f"pass {count} rows on {self.device}"
            )
        data[: len(found)] = found
        out.assign(data.reshape(out._data.shape))
        return out

    def get_voxel_size(self) -> tuple[float, float, float]:
        """Return the lengths of the edges of a voxel in the world."""
        matrix = self._grid.map["matrix"].reshape(3, 3)
        size = self._grid.data[608:632].view("<f8") if self._grid.data is not None else np.linalg.norm(matrix, axis=0)
        return tuple(float(np.float32(v)) for v in size)  # type: ignore[return-value]

    def get_grid_info(self) -> GridInfo:
        """Return the name, the size, the type and the map of the grid."""
        grid = self._grid
        size = grid.size or self.array().size
        vec3, mat33 = public_type(Vec(FLOAT32, 3)), public_type(Mat(FLOAT32, 3, 3))
        shift, matrix = grid.map["shift_f"].tolist(), grid.map["matrix_f"].tolist()
        return Volume.GridInfo(
            grid.name, size, grid.index, grid.count, TYPE_NAMES[grid.type], vec3(*shift), mat33(*matrix)
        )

    # -- arrays beside the grid ----------------------------------------------------------------------------------------

    def get_feature_array_count(self) -> int:
        """Return the number of arrays that are stored beside the grid."""
        return len(self._grid.features)

    def get_feature_array_info(self, feature_index: int) -> FeatureArrayInfo:
        """Return the name, the type and the size of an array that is stored beside the grid."""
        if not 0 <= feature_index < len(self._grid.features):
            raise LaunchError(
                f"the Volume has no feature array {feature_index}",
                remedy=f"it has {len(self._grid.features)}, from 0 on",
            )
        found = self._grid.features[feature_index]
        kind = TYPE_NAMES[found.type] if found.type < len(TYPE_NAMES) else "?"
        return Volume.FeatureArrayInfo(found.name, found.offset, found.value_size, found.value_count, kind)

    def feature_array(self, feature_index: int, dtype: Any = None) -> Array:
        """Return an array that is stored beside the grid, as a copy on its device.

        Parameters
        ----------
        feature_index : int
            Its number.
        dtype : optional
            The type of its elements, by default that which is stored, or bytes.
        """
        info = self.get_feature_array_info(feature_index)
        count, size = info.value_count, info.value_size
        element = feature_type(info.type_str) if dtype is None else resolve_dtype(dtype)
        itemsize = scalar_of(element).itemsize * (1 if isinstance(element, Scalar) else element.size)
        if itemsize == 1:
            count, size = count * size, 1
        elif size == 1 and count % itemsize == 0:
            count, size = count // itemsize, itemsize
        if itemsize != size:
            raise LaunchError(f"a feature array of {size} bytes an element as {element}", remedy="pass another dtype")
        raw = self._grid.data[info.ptr : info.ptr + count * size]
        scalar, n = scalar_of(element), itemsize // scalar_of(element).itemsize
        numbers = raw.view(SCALARS[scalar.name].numpy).reshape((count,) if n == 1 else (count, n))
        made: Array = array(numbers.copy(), dtype=public_type(element), device=self.device)
        return made

    # -- files ---------------------------------------------------------------------------------------------------------

    def array(self) -> Array:
        """Return the bytes of the grid in the format of NanoVDB, with the values of now, as an array of uint8."""
        made: Array = array(self._bytes(), dtype=SCALARS["uint8"], device=self.device)
        return made

    def _bytes(self) -> Any:
        grid, values = self._grid, self._values
        if grid.data is not None and values is None:
            return grid.data
        raw = None if values is None else np.ascontiguousarray(values.numpy()).view(np.uint8).reshape(-1)
        return grid_to_bytes(grid, raw, self._info[2:5] if self.is_rebuildable else None)

    @classmethod
    def load_from_nvdb(cls, file_or_buffer: Any, device: Any = None, requires_grad: bool = False) -> Volume:
        """Make a volume from a file in the format of NanoVDB, of which further grids are had by :meth:`load_next_grid`.

        Parameters
        ----------
        file_or_buffer : file, bytes, numpy.ndarray or path
            The file, opened for reading bytes, or its contents, or where it lies. It may be compressed by zip, and by
            BLOSC if the package blosc is installed.
        device : str or Device, optional
            Where the volume lies; the current device by default.
        requires_grad : bool, optional
            Whether :attr:`values` has a gradient.

        Raises
        ------
        LaunchError
            If it is no such file, or compressed by what is not installed.
        """
        grid = grids_from_bytes(read_file(file_or_buffer))[0]
        made = cls.__new__(cls)
        made._begin(grid, get_device(device), requires_grad)
        return made

    @classmethod
    def load_from_address(cls, grid_ptr: int, buffer_size: int = 0, device: Any = None) -> Volume:
        """Not available, since a volume has its values in an array of its own."""
        raise LaunchError(
            "a Volume is not made of an address", remedy="wrap the bytes as an array, and pass it to dk.Volume"
        )

    def load_next_grid(self) -> Volume | None:
        """Return the next grid of the file that this one was loaded from; None after the last one."""
        grid = self._grid
        if grid.data is None or grid.index + 1 >= grid.count or grid.data.size <= grid.size:
            return None
        made = type(self).__new__(type(self))
        made._begin(grid_from_bytes(grid.data[grid.size :]), self.device, self._requires_grad)
        return made

    def save_to_nvdb(self, path: Any, codec: str = "none") -> Any:
        """Write the volume, and the grids after it in its file, to a file in the format of NanoVDB.

        Parameters
        ----------
        path : path
            Where to.
        codec : {"none", "zip", "blosc"}, optional
            How it is compressed; "blosc" needs the package blosc.

        Returns
        -------
        path
            The path.
        """
        if self._grid.index > 0:
            raise LaunchError(
                "a Volume that is one of several in a buffer cannot be saved alone",
                remedy="save the volume whose load_next_grid() it is from",
            )
        write_file(path, self._bytes(), codec)
        return path

    # -- allocation ----------------------------------------------------------------------------------------------------

    @classmethod
    def load_from_numpy(
        cls,
        ndarray: Any,
        min_world: Sequence[float] = (0.0, 0.0, 0.0),
        voxel_size: Any = 1.0,
        bg_value: Any = 0.0,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Volume:
        """Make a volume from a dense array.

        Parameters
        ----------
        ndarray : numpy.ndarray
            Values of shape (x, y, z), or (x, y, z, 3) for vectors.
        min_world : sequence of float, optional
            The place of the first value in the world.
        voxel_size : float or sequence of float, optional
            The edges of a voxel.
        bg_value : optional
            The value elsewhere. An int makes a volume of int32, three numbers one of vec3f, others one of float32.
        device : str or Device, optional
            Where it lies; the current device by default.
        requires_grad : bool, optional
            Whether :attr:`values` has a gradient.
        """
        size, data = edges_of(voxel_size), np.asarray(ndarray)
        is_vector = hasattr(bg_value, "__len__")
        number = 6 if is_vector else (4 if isinstance(bg_value, int) else 1)
        if data.ndim != 3 + is_vector or (is_vector and data.shape[3] != 3):
            raise LaunchError(
                f"a Volume of {described(ndarray)}", remedy="pass values of shape (x, y, z), or (x, y, z, 3)"
            )
        tiles = [-(-n // 8) for n in data.shape[:3]]
        low = np.asarray(min_world, np.float32)
        first = np.stack(np.meshgrid(*(8 * np.arange(n, dtype=np.int32) for n in tiles), indexing="ij"), axis=-1)
        grid = grid_of_voxels(first.reshape(-1, 3), number, affine_map(np.diag(size), low))
        kind = np.int32 if number == 4 else np.float32
        full = np.empty((*(8 * n for n in tiles), *data.shape[3:]), kind)
        full[...] = bg_value
        full[tuple(map(slice, data.shape[:3]))] = data
        (x, y, z), width = tiles, 3 if is_vector else 1
        blocks = full.reshape(x, 8, y, 8, z, 8, width).transpose(0, 2, 4, 1, 3, 5, 6).reshape(x * y * z, 512 * width)
        # Tiles are in the order of their nodes.
        where = grid.origins // 8
        blocks = blocks[(where[:, 0] * y + where[:, 1]) * z + where[:, 2]]
        background = np.asarray(bg_value, kind).reshape(-1)
        grid.values = np.concatenate([blocks.reshape(-1), background]).view(np.uint8)
        made = cls.__new__(cls)
        made._begin(grid, get_device(device), requires_grad)
        return made

    @classmethod
    def allocate(
        cls,
        min: Sequence[float],
        max: Sequence[float],
        voxel_size: Any,
        bg_value: Any = 0.0,
        translation: Sequence[float] = (0.0, 0.0, 0.0),
        points_in_world_space: bool = False,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Volume:
        """Make a volume with the tiles of a box.

        Parameters
        ----------
        min, max : sequence
            The corners of the box, both inclusive, in index space.
        voxel_size : float or sequence of float
            The edges of a voxel.
        bg_value : optional
            The value of all voxels, by which the type of the volume is determined; None for an index grid.
        translation : sequence of float, optional
            The place of voxel (0, 0, 0) in the world.
        points_in_world_space : bool, optional
            Whether the corners are places in the world.
        device : str or Device, optional
            Where it lies; the current device by default.
        requires_grad : bool, optional
            Whether :attr:`values` has a gradient.
        """
        size = edges_of(voxel_size)
        low, high = np.asarray(min), np.asarray(max)
        if points_in_world_space:
            edges = np.asarray(size, np.float32)
            low, high = (np.around((np.asarray(p, np.float32) - np.asarray(translation)) / edges) for p in (low, high))
        first, last = low.astype(np.int32) // 8, high.astype(np.int32) // 8
        axes = [8 * np.arange(a, b + 1, dtype=np.int32) for a, b in zip(first, last, strict=True)]
        tiles = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        return cls._allocated(tiles, affine_map(np.diag(size), three(translation)), bg_value, device, requires_grad)

    @classmethod
    def _allocated(
        cls, voxels: Any, place: Any, bg_value: Any, device: Any, requires_grad: bool, room: Any = None
    ) -> Volume:
        number, background = (_INDEX, None) if bg_value is None else background_of(bg_value)
        made = cls.__new__(cls)
        grid = grid_of_voxels(voxels, number, place)
        grid.values = made._background = background
        made._begin(grid, get_device(device), requires_grad, room)
        return made

    @classmethod
    def allocate_by_tiles(
        cls,
        tile_points: Array,
        voxel_size: Any = None,
        bg_value: Any = 0.0,
        translation: Sequence[float] = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        rebuildable: bool = False,
        max_tiles: int | None = None,
        max_lower_nodes: int | None = None,
        max_upper_nodes: int | None = None,
        status: Array | None = None,
        point_mask: Array | None = None,
        requires_grad: bool = False,
    ) -> Volume:
        """Make a volume with the tiles in which some points lie.

        Parameters
        ----------
        tile_points : array
            The points: ``vec3i`` or int32 of shape (n, 3) in index space, ``vec3f`` or float32 of shape (n, 3) in the
            world. They may be repeated.
        voxel_size : float or sequence of float
            The edges of a voxel.
        bg_value : optional
            The value of all voxels, by which the type of the volume is determined: a number of int32, uint32, int64,
            float32 or float64, or a vector vec3f, vec3d, vec4f or vec4d; None for an index grid.
        translation : sequence of float, optional
            The place of voxel (0, 0, 0) in the world.
        device : str or Device, optional
            Where it lies; the current device by default.
        transform : mat33, optional
            The linear map from indices to the world, instead of a voxel size.
        rebuildable : bool, optional
            Whether there is room for :meth:`rebuild`.
        max_tiles, max_lower_nodes, max_upper_nodes : int, optional
            How many tiles and nodes there may be; by default as many as there are points.
        status : array of uint32, optional
            Gets the flags ``Volume.REBUILD_...`` of a rebuildable volume.
        point_mask : array of int32, optional
            Zero for points that do not count.
        requires_grad : bool, optional
            Whether :attr:`values` has a gradient.

        Raises
        ------
        LaunchError
            If an argument is of another type, or both a voxel size and a transform are given, or neither.
        """
        place = map_of(voxel_size, translation, transform)
        voxels = voxels_at(tile_points, "tile_points", point_mask, place)
        given = (max_tiles, max_lower_nodes, max_upper_nodes)
        room = None
        if rebuildable or any(n is not None for n in given):
            names = ("max_tiles", "max_lower_nodes", "max_upper_nodes")
            tiles, lowers, uppers = capacities(given, len(tile_points), names)
            room = Volume.RebuildInfo("tiles", 512 * tiles, tiles, lowers, uppers)
        made = cls._allocated(voxels[:0] if room else voxels, place, bg_value, device, requires_grad, room)
        if room:
            made._fill(voxels, status, len(tile_points))
        return made

    @classmethod
    def allocate_by_voxels(
        cls,
        voxel_points: Array,
        voxel_size: Any = None,
        translation: Sequence[float] = (0.0, 0.0, 0.0),
        device: Any = None,
        transform: Any = None,
        rebuildable: bool = False,
        max_active_voxels: int | None = None,
        max_leaf_nodes: int | None = None,
        max_lower_nodes: int | None = None,
        max_upper_nodes: int | None = None,
        status: Array | None = None,
        point_mask: Array | None = None,
    ) -> Volume:
        """Make an index grid of the voxels in which some points lie; values are kept in arrays, by the voxels' indices.

        Parameters
        ----------
        voxel_points : array
            The points: ``vec3i`` or int32 of shape (n, 3) in index space, ``vec3f`` or float32 of shape (n, 3) in the
            world. They may be repeated.
        voxel_size, translation, device, transform, rebuildable, status, point_mask
            As of :meth:`allocate_by_tiles`.
        max_active_voxels, max_leaf_nodes, max_lower_nodes, max_upper_nodes : int, optional
            How many voxels, tiles and nodes there may be.
        """
        place = map_of(voxel_size, translation, transform)
        voxels = voxels_at(voxel_points, "voxel_points", point_mask, place)
        given = (max_active_voxels, max_leaf_nodes, max_lower_nodes, max_upper_nodes)
        room = None
        if rebuildable or any(n is not None for n in given):
            names = ("max_active_voxels", "max_leaf_nodes", "max_lower_nodes", "max_upper_nodes")
            room = Volume.RebuildInfo("voxels", *capacities(given, len(voxel_points), names))
        made = cls.__new__(cls)
        made._begin(grid_of_voxels(voxels[:0] if room else voxels, _ON_INDEX, place), get_device(device), False, room)
        if room:
            made._fill(voxels, status, len(voxel_points))
        return made

    def rebuild(self, points: Array, status: Array | None = None, point_mask: Array | None = None) -> Array | None:
        """Change which tiles or voxels there are; all values are those of the background then.

        Parameters
        ----------
        points : array
            The points, as of :meth:`allocate_by_tiles` or :meth:`allocate_by_voxels`, by which it was made.
        status : array of uint32, optional
            Gets the flags ``Volume.REBUILD_...``. If there is not enough room the volume stays as it is.
        point_mask : array of int32, optional
            Zero for points that do not count.

        Returns
        -------
        array or None
            The status.

        Raises
        ------
        LaunchError
            If it was made without room for that, or a record or a graph is being made.
        """
        if not self.is_rebuildable:
            raise LaunchError(
                "this Volume cannot be built again: it has no room for other tiles",
                remedy="allocate it with rebuildable=True",
            )
        check_not_replayed(
            "a Volume is rebuilt while launches are recorded, and the host does that",
            "rebuild it before, and record what follows",
        )
        voxels = voxels_at(points, "points", point_mask, self._grid.map)
        self._fill(voxels, status, len(points))
        return status

    def _fill(self, voxels: Any, status: Array | None, given: int) -> None:
        """Set the tree of a rebuildable volume, and the flags."""
        if status is not None and (status._element != UINT32 or status.size < 1 or status.device is not self.device):
            raise LaunchError(
                f"a status of {described(status)}", remedy=f"pass an array of uint32 of one element on {self.device}"
            )
        grid, info = grid_of_voxels(voxels, self._grid.type, self._grid.map), self._info
        counts = (grid.leaves, len(grid.lowers), len(grid.uppers), grid.indexable)
        room = (*info[2:5], info.max_voxel_count)
        flags = sum(1 << k for k, (n, most) in enumerate(zip(counts, room, strict=True)) if n > most)
        flags = flags if given else Volume.REBUILD_INVALID_INPUT
        if not flags:
            grid.values = self._background
            self._set(grid)
        if status is not None:
            status.fill_(flags)

    def __repr__(self) -> str:
        grid = self._grid
        return f"Volume({TYPE_NAMES[grid.type]}, {grid.leaves} tiles, device={str(self.device)!r})"
