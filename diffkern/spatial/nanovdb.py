"""Grids in the format of NanoVDB: a buffer of bytes read into the tables of a tree, and written from them.

A grid is a header, a tree with the positions of its nodes, and four levels of nodes: a root with a list of tiles, nodes
of 32³ and of 16³ entries, and leaves of 8³ voxels. What a leaf holds depends on the type: a value for each voxel, or,
in index grids, which voxels exist and the index of the first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np

from diffkern.errors import LaunchError
from diffkern.process.dataclass import dataclass

__all__ = [
    "INDEX_TYPES",
    "TYPE_NAMES",
    "VALUE_TYPES",
    "VoxelGrid",
    "grid_from_bytes",
    "grid_to_bytes",
    "grids_from_bytes",
]

_Bytes: TypeAlias = Any  # an array of uint8

TYPE_NAMES: Final = (
    "?", "float", "double", "int16", "int32", "int64", "Vec3f", "Vec3d", "Mask", "Half", "uint32", "bool", "RGBA8",
    "Float4", "Float8", "Float16", "FloatN", "Vec4f", "Vec4d", "Index", "OnIndex", "IndexMask", "OnIndexMask",
    "PointIndex", "Vec3u8", "Vec3u16", "uint8",
)  # fmt: skip
"""The names of the types of grids, by their numbers."""

VALUE_TYPES: Final = {
    1: ("float32", 1), 2: ("float64", 1), 4: ("int32", 1), 5: ("int64", 1), 6: ("float32", 3), 7: ("float64", 3),
    10: ("uint32", 1), 17: ("float32", 4), 18: ("float64", 4),
}  # fmt: skip
"""The types of values that kernels read: a type of numbers, and how many."""

INDEX_TYPES: Final = (19, 20, 21, 22)
"""Index grids: of all voxels of a leaf and of active ones, and the same with a mask."""

_GRID, _TREE, _META = 672, 64, 288
_MAGIC: Final = 0x314244566F6E614E
_MAGICS: Final = (_MAGIC, 0x304244566F6E614E)
_VERSION: Final = 32 << 21 | 8 << 10
_FPN: Final = 16


class _NodeLayout(NamedTuple):
    """Where the parts of the nodes of a type lie, in bytes."""

    background: int
    root: int
    stride: int
    tile_value: int
    tile: int
    upper_table: int
    upper: int
    lower_table: int
    lower: int
    leaf_table: int
    leaf: int


def _layout(number: int) -> _NodeLayout:
    """Return the layout of the nodes of a type of values."""
    value, of_table, of_statistics = _SIZES[number]
    wide = number in INDEX_TYPES or number in (2, 5, 7, 18, 23)
    align = 8 if wide else 4
    # Mean and deviation are of float32 up to float32.
    smooth = align if number else 0

    def after(offset: int, to: int) -> int:
        return -(-offset // to) * to

    def table(offset: int) -> int:
        return after(after(offset + 2 * of_statistics, smooth or 1) + 2 * smooth, 32)

    background = after(28, align)
    root = after(after(background + 3 * of_statistics, smooth or 1) + 2 * smooth, 32)
    tile_value = after(20, align)
    tile = after(tile_value + max(of_statistics, 1), 32)
    upper, lower = table(8224), table(1056)
    leaf_table, leaf = _LEAVES.get(number) or (table(80), 0)
    return _NodeLayout(
        background, root, of_table, tile_value, tile, upper, after(upper + 32768 * of_table, 32), lower,
        after(lower + 4096 * of_table, 32), leaf_table, leaf or leaf_table + 512 * value // 8,
    )  # fmt: skip


_SIZES: Final = {
    number: (bits, table, statistics)
    for number, (bits, table, statistics) in enumerate(
        zip(
            (0, 32, 64, 16, 32, 64, 96, 192, 0, 16, 32, 1, 32, 4, 8, 16, 0, 128, 256, 0, 0, 0, 0, 16, 24, 48, 8),
            (8, 8, 8, 8, 8, 8, 16, 24, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16, 32, 8, 8, 8, 8, 8, 8, 8, 8),
            (0, 4, 8, 2, 4, 8, 12, 24, 1, 2, 4, 1, 4, 4, 4, 4, 4, 16, 32, 8, 8, 8, 8, 8, 3, 6, 1),
            strict=True,
        )
    )
}
"""By type: bits of a value in a leaf, bytes of an entry of a node, bytes of a value among the statistics."""
_LEAVES: Final = {
    0: (96, 96), 8: (96, 96), 11: (96, 160), 13: (96, 352), 14: (96, 608), 15: (96, 1120), 16: (96, 96), 19: (80, 96),
    20: (80, 96), 21: (80, 160), 22: (80, 160), 23: (96, 1120),
}  # fmt: skip
"""Where the contents of leaves of other forms begin, and their sizes."""


@dataclass
class VoxelGrid:
    """A grid as tables.

    An entry of a table is the number of a node if it is not negative, else the complement of a slot: slots count the
    values of the leaves, 512 each, then `constants`, then the background.

    Attributes
    ----------
    type : int
        The type of the values.
    map : numpy.ndarray
        The map from indices to the world, of :data:`MAP`.
    keys, roots : numpy.ndarray
        Keys of root tiles in ascending order, and their entries.
    order : numpy.ndarray
        The places of these tiles in the root.
    uppers, lowers : numpy.ndarray
        Entries of the nodes of 32³ and 16³ entries.
    origins : numpy.ndarray
        The first voxel of each leaf.
    masks : numpy.ndarray or None
        Of index grids, for each leaf: a bit for each voxel (8 words), the first index, and counts.
    values : numpy.ndarray or None
        Values by slots, of types that kernels read.
    voxels : int
        Number of active voxels.
    parents : tuple of numpy.ndarray
        For each leaf its node and entry; for each lower node its upper one and entry; origins of upper nodes.
    data : numpy.ndarray or None
        The bytes that it was read from, the grids after it included.
    """

    type: int
    map: Any
    keys: Any
    roots: Any
    uppers: Any
    lowers: Any
    origins: Any
    masks: Any = None
    values: Any = None
    voxels: int = 0
    order: Any = None
    parents: tuple[Any, ...] = ()
    data: Any = None
    name: str = ""
    index: int = 0
    count: int = 1
    size: int = 0
    features: tuple[Any, ...] = field(default=())

    @property
    def is_index(self) -> bool:
        """True if it has indices instead of values."""
        return self.type in INDEX_TYPES

    @property
    def numbered(self) -> bool:
        """True if only active voxels have an index."""
        return self.type in (20, 22)

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return len(self.origins)

    @property
    def indexable(self) -> int:
        """The number of voxels that have an index."""
        return self.voxels if self.numbered else 512 * self.leaves


MAP: Final = np.dtype(
    [
        ("matrix_f", "<f4", 9), ("inverse_f", "<f4", 9), ("shift_f", "<f4", 3), ("taper_f", "<f4"),
        ("matrix", "<f8", 9), ("inverse", "<f8", 9), ("shift", "<f8", 3), ("taper", "<f8"),
    ]
)  # fmt: skip
"""The map of a grid: matrix, its inverse and translation in both precisions."""


class _Unordered(LaunchError):
    """The nodes of a grid are not in the order of their levels."""


def _refuse() -> NoReturn:
    raise LaunchError(
        "the nodes of the NanoVDB grid contradict each other",
        remedy="write the grid again, by the program that made it",
    )


def _need(holds: Any) -> None:
    if not bool(holds):
        _refuse()


def _at(data: _Bytes, offset: int, form: str) -> Any:
    _need(offset >= 0 and offset + struct.calcsize(form) <= data.size)
    found = struct.unpack_from(form, data, offset)
    return found[0] if len(found) == 1 else found


# -- reading -----------------------------------------------------------------------------------------------------------


def grid_from_bytes(data: _Bytes) -> VoxelGrid:
    """Read the first grid of a buffer.

    Raises
    ------
    LaunchError
        If it is no NanoVDB grid, or its nodes do not lie where they should.
    """
    if data.size < _GRID + _TREE or _at(data, 0, "<Q") not in _MAGICS:
        raise LaunchError(
            "the buffer does not begin as a grid of NanoVDB does", remedy="pass the bytes of a NanoVDB grid"
        )
    flags, index, count, size = _at(data, 20, "<IIIQ")
    number = _at(data, 636, "<I")
    _need(_GRID + _TREE <= size <= data.size and 0 < number < len(TYPE_NAMES) and index < max(count, 1))
    name = bytes(data[40:296])
    _need(b"\0" in name)
    counts, tables = _levels(data, size, number, flags)
    grid = _tree(data, size, number, counts, tables)
    grid.name, grid.index, grid.count, grid.size = (
        name[: name.index(b"\0")].decode("ascii", "replace"),
        index,
        count,
        size,
    )
    grid.data = data
    grid.features = _features(data, size)
    return grid


def grids_from_bytes(data: _Bytes) -> list[VoxelGrid]:
    """Read all grids of a file, so that a broken one is found.

    Raises
    ------
    LaunchError
        If one is broken, or has its nodes in another order.
    """
    found, unsupported = [], None
    while True:
        size = _at(data, 32, "<Q") if data.size >= 40 else 0
        try:
            grid = grid_from_bytes(data)
            _need(size % 32 == 0)
            found.append(grid)
        except _Unordered as error:
            unsupported = unsupported or error
        index, count = _at(data, 24, "<II")
        if index + 1 >= count or data.size <= size or not size:
            break
        data = data[size:]
    if unsupported is not None:
        raise unsupported
    return found


def _levels(data: _Bytes, size: int, number: int, flags: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of leaves, lower and upper nodes and root tiles, and where these levels begin."""
    form = _layout(number)
    leaves, lowers, uppers = (_at(data, _GRID + 32 + 4 * k, "<I") for k in range(3))
    leaf, lower, upper, root = (_at(data, _GRID + 8 * k, "<q") + _GRID for k in range(4))
    _need(root >= _GRID + _TREE and root % 8 == 0 and root + form.root <= size)
    tiles = _at(data, root + 24, "<I")
    if leaves + lowers + uppers and not flags & 1 << 5:
        raise _Unordered(
            "the nodes of the NanoVDB grid are not in the order of their levels",
            remedy="write the grid with its nodes breadth-first",
        )
    spans = [(root, form.root + tiles * form.tile)]
    for start, n, each in ((upper, uppers, form.upper), (lower, lowers, form.lower), (leaf, leaves, form.leaf)):
        if n:
            _need(start % 8 == 0 and start >= _GRID + _TREE)
            spans.append((start, n * each if number != _FPN or each != form.leaf else _fpn_size(data, start, n, size)))
    spans.sort()
    # Arrays beside the grid follow its nodes.
    metadata = _at(data, 640, "<q")
    end = min(size, metadata) if metadata > 0 else size
    for (start, length), (after, _) in zip(spans, [*spans[1:], (end, 0)], strict=True):
        _need(start + length <= after)
    return (leaves, lowers, uppers, tiles), (leaf, lower, upper, root)


def _fpn_size(data: _Bytes, start: int, n: int, size: int) -> int:
    """Return the bytes of leaves of which each has its own number of bits."""
    at = start
    for _ in range(n):
        _need(at + 96 <= size)
        # The width is in the flags of the leaf, as a logarithm.
        at += 96 + 64 * (1 << (int(data[at + 15]) >> 5))
    _need(at <= size)
    return at - start


def _nodes(data: _Bytes, start: int, n: int, each: int) -> _Bytes:
    return data[start : start + n * each].reshape(n, each) if n else np.zeros((0, each), np.uint8)


def _bits(nodes: _Bytes, offset: int, count: int) -> Any:
    return np.unpackbits(nodes[:, offset : offset + count // 8], axis=1, bitorder="little").view(bool)


def _entries(nodes: _Bytes, table: int, count: int, stride: int) -> Any:
    return nodes[:, table : table + count * stride].reshape(len(nodes), count, stride)


def _tree(data: _Bytes, size: int, number: int, counts: Any, starts: Any) -> VoxelGrid:
    form, (leaves, lowers, uppers, tiles) = _layout(number), counts
    leaf, lower, upper, root = starts
    above, below = _nodes(data, upper, uppers, form.upper), _nodes(data, lower, lowers, form.lower)
    leaf_size = form.leaf
    bottom = _nodes(data, leaf, leaves, leaf_size) if number != _FPN else _fpn_nodes(data, leaf, leaves)
    origins = bottom[:, :12].copy().view("<i4").reshape(leaves, 3) & ~np.int32(7)
    known = _Constants(number, leaves)
    up, up_parents = known.table(above, upper, 4128, form.upper_table, 32768, form, lower, lowers, form.lower)
    places = None if number != _FPN else _fpn_starts(data, leaf, leaves)
    low, low_parents = known.table(below, lower, 544, form.lower_table, 4096, form, leaf, leaves, leaf_size, places)
    keys, roots, order, firsts = _root(data, root, tiles, form, known, upper, uppers)
    grid = VoxelGrid(
        number, data[296:560].copy().view(MAP)[0], keys, roots, up, low, origins, order=order,
        voxels=int(_at(data, _GRID + 56, "<Q")), parents=(*low_parents, *up_parents, firsts),
    )  # fmt: skip
    background = data[root + form.background : root + form.background + _SIZES[number][2]]
    grid.values = known.values(bottom, form, background, (grid.uppers, grid.lowers, grid.roots))
    if grid.is_index and leaves:
        words = np.zeros((leaves, 10), np.uint64)
        words[:, :8] = bottom[:, 16:80].copy().view("<u8")
        words[:, 8:] = bottom[:, 80:96].copy().view("<u8")
        grid.masks = words
        _check_indices(grid)
    _need(not grid.numbered or leaves or not grid.voxels)
    return grid


def _check_indices(grid: VoxelGrid) -> None:
    """Raise if the indices of an index grid are not those of its voxels, by which arrays are read."""
    first, n = grid.masks[:, 8], np.full(grid.leaves, 512, np.uint64)
    if grid.numbered:
        bits = np.unpackbits(grid.masks[:, :8].copy().view(np.uint8).reshape(grid.leaves, 8, 8), axis=2)
        counts = bits.sum(axis=2, dtype=np.uint64)
        n = counts.sum(axis=1)
        before = np.cumsum(counts, axis=1)[:, :7] << (np.uint64(9) * np.arange(7, dtype=np.uint64))
        _need((before.sum(axis=1, dtype=np.uint64) == grid.masks[:, 9]).all())
    most = np.uint64(n.sum())
    is_within = (first >= 1) & (first <= most) & (first - np.uint64(1) + n <= most) | (n == 0)
    if grid.indexable != most or not is_within.all():
        raise LaunchError(
            "the NanoVDB index grid has indices of more than its voxels",
            remedy="write it without statistics and without active tiles",
        )


def _fpn_starts(data: _Bytes, start: int, n: int) -> Any:
    found = np.zeros(n, np.int64)
    for k in range(n):
        found[k] = start
        start += 96 + 64 * (1 << (int(data[start + 15]) >> 5))
    return found


def _fpn_nodes(data: _Bytes, start: int, n: int) -> _Bytes:
    found = [data[at : at + 96] for at in _fpn_starts(data, start, n)]
    return np.stack(found) if n else np.zeros((0, 96), np.uint8)


class _Constants:
    """Values that hold for whole entries, which get slots after those of the leaves."""

    def __init__(self, number: int, leaves: int) -> None:
        self.reads = number in VALUE_TYPES
        self.width = _SIZES[number][2]
        self.first = 512 * leaves
        self.known: dict[bytes, int] = {}

    def slots(self, values: Any) -> Any:
        """Return numbers of values, of rows of bytes; negative ones, so that no entry is taken for a node."""
        if not self.reads or not len(values):
            return np.full(len(values), -1, np.int32)
        rows = np.ascontiguousarray(values).view(np.dtype((np.void, self.width))).reshape(-1)
        unique, inverse = np.unique(rows, return_inverse=True)
        numbers = [self.known.setdefault(row.tobytes(), len(self.known)) for row in unique]
        return ~(np.array(numbers, np.int32) + np.int32(self.first))[inverse]

    def table(
        self, nodes: _Bytes, start: int, mask: int, table: int, count: int, form: _NodeLayout, child: int, n: int,
        each: int, places: Any = None,
    ) -> tuple[Any, tuple[Any, Any]]:  # fmt: skip
        """Return the entries of a level, and for each node below the node and the entry that lead to it."""
        out = np.full((len(nodes), count), -1, np.int32)
        node, entry = np.zeros(n, np.int64), np.zeros(n, np.int64)
        if not len(nodes):
            _need(n == 0)
            return out, (node, entry)
        children, found = _bits(nodes, mask, count), _entries(nodes, table, count, form.stride)
        at, within = np.nonzero(children)
        offsets = found[at, within, :8].copy().view("<i8").reshape(-1)
        address = start + at * nodes.shape[1] + offsets
        if places is None:
            numbers, rest = np.divmod(address - child, each)
            _need(n or not len(at))
            _need((rest == 0).all() and (numbers >= 0).all() and (numbers < n).all())
        else:
            numbers = np.searchsorted(places, address)
            _need((numbers < n).all() and (places[np.minimum(numbers, n - 1)] == address).all())
        _need(len(np.unique(numbers)) == len(numbers) == n)
        out[at, within] = numbers
        node[numbers], entry[numbers] = at, within
        if self.reads:
            at, within = np.nonzero(~children)
            out[at, within] = self.slots(found[at, within, : self.width])
        return out, (node, entry)

    def values(self, leaves: _Bytes, form: _NodeLayout, background: _Bytes, tables: Sequence[Any]) -> Any:
        """Return the values by slots; entries of the background get its slot, the last one."""
        last = self.first
        if self.reads:
            rows = [row for row in self.known if row != background.tobytes()]
            slot = {row: self.first + k for k, row in enumerate(rows)}
            last = self.first + len(rows)
            final = np.array([slot.get(row, last) for row in self.known], np.int32)
            for table in tables:
                constant = table < 0
                table[constant] = ~final[~table[constant] - self.first]
            own = leaves[:, form.leaf_table : form.leaf_table + 512 * self.width]
            parts = [own.reshape(-1), *(np.frombuffer(row, np.uint8) for row in rows), background]
            return np.concatenate(parts)
        for table in tables:
            table[table < 0] = ~np.int32(last)
        return None


def _root(
    data: _Bytes, root: int, tiles: int, form: _NodeLayout, known: _Constants, upper: int, uppers: int
) -> tuple[Any, Any, Any, Any]:
    """Return sorted keys, entries, the order of the tiles, and the origins of the upper nodes."""
    rows = _nodes(data, root + form.root, tiles, form.tile)
    keys = rows[:, :8].copy().view("<u8").reshape(-1)
    children = rows[:, 8:16].copy().view("<i8").reshape(-1)
    has, entries = children != 0, np.zeros(tiles, np.int32)
    # The value of a tile with a node means nothing.
    entries[~has] = known.slots(rows[~has, form.tile_value : form.tile_value + known.width])
    numbers, rest = np.divmod(root + children[has] - upper, form.upper)
    _need((rest == 0).all() and (numbers >= 0).all() and (numbers < uppers).all())
    _need(len(np.unique(numbers)) == len(numbers) == uppers)
    entries[has] = numbers
    order = np.argsort(keys, kind="stable")
    firsts = np.zeros((uppers, 3), np.int32)
    firsts[numbers] = key_origins(keys[has])
    return keys[order], entries[order].astype(np.int32), order, firsts


def key_origins(keys: Any) -> Any:
    """Return the first voxels of root tiles, by their keys."""
    parts = [(keys >> np.uint64(s)) & np.uint64((1 << 21) - 1) for s in (42, 21, 0)]
    return np.stack([(p << np.uint64(12)).astype(np.uint32).view(np.int32) for p in parts], axis=1)


class Feature(NamedTuple):
    """An array that is stored beside a grid."""

    name: str
    offset: int
    value_size: int
    value_count: int
    type: int


def _features(data: _Bytes, size: int) -> tuple[Feature, ...]:
    offset, count = _at(data, 640, "<qI")
    if not count:
        return ()
    _need(offset >= 0 and offset + count * _META <= size)
    found = []
    for k in range(count):
        at = offset + k * _META
        place, values, each, _, _, number = _at(data, at, "<qQIIII")
        name = bytes(data[at + 32 : at + 288])
        start = at + place
        _need(b"\0" in name and start >= 0 and start + values * each <= size and values <= size)
        found.append(Feature(name[: name.index(b"\0")].decode("ascii", "replace"), start, each, values, number))
    return tuple(found)


# -- writing -----------------------------------------------------------------------------------------------------------


def grid_to_bytes(grid: VoxelGrid, values: Any, capacity: Sequence[int] | None = None) -> _Bytes:
    """Write a grid.

    Parameters
    ----------
    grid : VoxelGrid
        The tables.
    values : numpy.ndarray or None
        The bytes of the values, by slots.
    capacity : sequence of int, optional
        Numbers of leaves, lower and upper nodes for which there is room.
    """
    form = _layout(grid.type)
    if grid.data is not None:
        data = grid.data.copy()
        starts = [_at(data, _GRID + 8 * k, "<q") + _GRID for k in range(4)]
    else:
        room = capacity or (grid.leaves, len(grid.lowers), len(grid.uppers))
        root = _GRID + _TREE
        upper = root + form.root + room[2] * form.tile
        lower = upper + room[2] * form.upper
        leaf = lower + room[1] * form.lower
        starts = [leaf, lower, upper, root]
        data = np.zeros(leaf + room[0] * form.leaf, np.uint8)
        _write_header(data, grid, starts)
        _write_nodes(data, grid, form, starts)
    if grid.type in VALUE_TYPES:
        _write_values(data, grid, form, starts, values)
    return data


def _write_values(data: _Bytes, grid: VoxelGrid, form: _NodeLayout, starts: Sequence[int], values: _Bytes) -> None:
    """Write the values of leaves, constant entries and the background."""
    leaf, lower, upper, root = starts
    width = _SIZES[grid.type][2]
    rows = values.reshape(-1, width)
    data[root + form.background : root + form.background + width] = rows[-1]
    bottom = _nodes(data, leaf, grid.leaves, form.leaf)
    bottom[:, form.leaf_table : form.leaf_table + 512 * width] = rows[: 512 * grid.leaves].reshape(-1, 512 * width)
    for start, table, offset, each in (
        (upper, grid.uppers, form.upper_table, form.upper),
        (lower, grid.lowers, form.lower_table, form.lower),
    ):
        if table.size:
            found = _entries(_nodes(data, start, len(table), each), offset, table.shape[1], form.stride)
            if grid.data is None:
                # Entries of nodes keep what is behind the address, as they were filled before.
                found[table >= 0, 8:width] = rows[-1][8:]
            constant = table < 0
            found[constant, :width] = rows[~table[constant]]
    tiles = _nodes(data, root + form.root, len(grid.keys), form.tile)
    constant = grid.roots < 0
    places = np.arange(len(grid.keys)) if grid.order is None else grid.order
    tiles[places[constant], form.tile_value : form.tile_value + width] = rows[~grid.roots[constant]]


def _write_header(data: _Bytes, grid: VoxelGrid, starts: Sequence[int]) -> None:
    struct.pack_into("<QQIIIIQ", data, 0, _MAGIC, 2**64 - 1, _VERSION, 2 | 1 << 5, 0, 1, data.size)
    data[296:560] = np.frombuffer(grid.map.tobytes(), np.uint8)
    size = np.linalg.norm(np.asarray(grid.map["matrix"]).reshape(3, 3), axis=0)
    struct.pack_into("<3d", data, 608, *size)
    struct.pack_into("<IIqI", data, 632, 8 if grid.is_index else 0, grid.type, data.size, 0)
    struct.pack_into("<Q", data, 656, grid.indexable + 1 if grid.is_index else 0)
    leaves, lowers, uppers = grid.leaves, len(grid.lowers), len(grid.uppers)
    struct.pack_into("<4q", data, _GRID, *(start - _GRID for start in starts))
    struct.pack_into("<6I", data, _GRID + 32, leaves, lowers, uppers, leaves, lowers, uppers)
    struct.pack_into("<Q", data, _GRID + 56, grid.indexable)


_NONE_LOW, _NONE_HIGH = 2**31 - 1, -(2**31)


def _write_nodes(data: _Bytes, grid: VoxelGrid, form: _NodeLayout, starts: Sequence[int]) -> None:
    """Write all of the nodes but the values; boxes are those of the leaves' active voxels."""
    leaf, lower, upper, root = starts
    leaf_node, leaf_entry, lower_node, lower_entry, firsts = grid.parents
    n_leaf, n_low, n_up = grid.leaves, len(grid.lowers), len(grid.uppers)
    bottom, boxes = _nodes(data, leaf, n_leaf, form.leaf), _leaf_boxes(grid)
    if n_leaf:
        bottom[:, :12] = boxes[:, :3].astype("<i4").view(np.uint8).reshape(n_leaf, 12)
        bottom[:, 12:15] = (boxes[:, 3:] - boxes[:, :3]).astype(np.uint8)
        bottom[:, 15] = 2
        if grid.masks is None:
            bottom[:, 16:80] = 255
        else:
            bottom[:, 16:96] = grid.masks.astype("<u8").view(np.uint8).reshape(n_leaf, 80)
    for start, n, each, table, mask, count, below, node, entry, size in (
        (lower, n_low, form.lower, form.lower_table, 544, 4096, leaf, leaf_node, leaf_entry, form.leaf),
        (upper, n_up, form.upper, form.upper_table, 4128, 32768, lower, lower_node, lower_entry, form.lower),
    ):
        if not n:
            continue
        nodes = _nodes(data, start, n, each)
        on = np.zeros((n, count), np.uint8)
        on[node, entry] = 1
        nodes[:, mask : mask + count // 8] = np.packbits(on, axis=1, bitorder="little")
        offsets = (below + np.arange(len(node), dtype=np.int64) * size) - (start + node * each)
        found = _entries(nodes, table, count, form.stride)
        found[node, entry, :8] = offsets.astype("<i8").view(np.uint8).reshape(-1, 8)
        boxes = _joined(boxes, node, n)
        nodes[:, :24] = boxes.astype("<i4").view(np.uint8).reshape(n, 24)
    whole = _joined(boxes, np.zeros(n_up, np.int64), 1)[0]
    data[root : root + 24] = whole.astype("<i4").view(np.uint8)
    struct.pack_into("<I", data, root + 24, n_up)
    tiles = _nodes(data, root + form.root, n_up, form.tile)
    if n_up:
        tiles[:, :8] = keys_of(firsts).astype("<u8").view(np.uint8).reshape(n_up, 8)
        children = upper + np.arange(n_up, dtype=np.int64) * form.upper - root
        tiles[:, 8:16] = children.astype("<i8").view(np.uint8).reshape(n_up, 8)
        _write_world_box(data, grid, whole)


def _write_world_box(data: _Bytes, grid: VoxelGrid, box: Any) -> None:
    low, high = box[:3].astype(float), box[3:] + 1.0
    ends = np.array([[(low, high)[b][a] for a, b in enumerate(bits)] for bits in np.ndindex(2, 2, 2)])
    world = ends @ np.asarray(grid.map["matrix"]).reshape(3, 3).T + np.asarray(grid.map["shift"])
    struct.pack_into("<6d", data, 560, *world.min(axis=0), *world.max(axis=0))


def _joined(boxes: Any, node: Any, n: int) -> Any:
    """Return the boxes around those of the nodes below, which are in the order of their parents."""
    out = np.full((n, 6), _NONE_LOW, np.int64)
    out[:, 3:] = _NONE_HIGH
    if len(node):
        np.minimum.at(out[:, :3], node, boxes[:, :3])
        np.maximum.at(out[:, 3:], node, boxes[:, 3:])
    return out


def _leaf_boxes(grid: VoxelGrid) -> Any:
    """Return the boxes of the active voxels of the leaves."""
    low = grid.origins.astype(np.int64)
    if not grid.numbered:
        return np.concatenate([low, low + 7], axis=1)
    on = np.unpackbits(grid.masks[:, :8].astype("<u8").view(np.uint8).reshape(-1, 64), axis=1, bitorder="little")
    on = on.reshape(-1, 8, 8, 8).astype(bool)
    ends = []
    for axis in range(3):
        lines: Any = on.any(axis=tuple(a + 1 for a in range(3) if a != axis))
        ends.append((lines.argmax(axis=1), 7 - lines[:, ::-1].argmax(axis=1)))
    first, last = (np.stack([end[k] for end in ends], axis=1) for k in range(2))
    return np.concatenate([low + first, low + last], axis=1)


def keys_of(voxels: Any) -> Any:
    """Return the keys of the root tiles of voxels."""
    x, y, z = (voxels[:, a].astype(np.int32).view(np.uint32).astype(np.uint64) >> np.uint64(12) for a in range(3))
    return x << np.uint64(42) | y << np.uint64(21) | z
