"""The tree of a sparse volume from the voxels that it has: sorted keys, tables of nodes, masks of active voxels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from diffkern.spatial.nanovdb import INDEX_TYPES, MAP, VoxelGrid, keys_of

__all__ = ["affine_map", "grid_of_voxels", "rounded_voxels"]

_U: Final = np.uint64
_COUNTS: Final = np.array([9 * k for k in range(7)], np.uint64)


def affine_map(matrix: Any, shift: Any) -> Any:
    """Return a map from indices to the world, of float32 and float64.

    Parameters
    ----------
    matrix : array_like
        The linear part, 3 x 3.
    shift : array_like
        The translation.
    """
    made = np.zeros((), MAP)
    m = np.asarray(matrix, np.float32).reshape(3, 3).astype(np.float64)
    t = np.asarray(shift, np.float32).reshape(3).astype(np.float64)
    made["matrix"], made["shift"], made["taper"] = m.reshape(-1), t, 1.0
    with np.errstate(all="ignore"):
        made["inverse"] = _inverse(m).reshape(-1)
        for name in ("matrix", "inverse", "shift", "taper"):
            made[f"{name}_f"] = made[name].astype(np.float32)
    return made[()]


def _inverse(m: Any) -> Any:
    """Return the inverse by cofactors, which is exact for diagonal matrices of powers of two."""
    cofactors = np.array(
        [
            [m[(i + 1) % 3, (j + 1) % 3] * m[(i + 2) % 3, (j + 2) % 3]
             - m[(i + 1) % 3, (j + 2) % 3] * m[(i + 2) % 3, (j + 1) % 3] for i in range(3)]
            for j in range(3)
        ]
    )  # fmt: skip
    return cofactors * (1.0 / float(m[0] @ cofactors[:, 0]))


def rounded_voxels(points: Any, place: Any) -> Any:
    """Return the voxels nearest to points in the world, of float32, in the arithmetic of float32.

    Halves are rounded up.
    """
    inverse = place["inverse_f"].reshape(3, 3)
    p = points.astype(np.float32) - place["shift_f"]
    with np.errstate(all="ignore"):
        found = [p[:, 0] * row[0] + p[:, 1] * row[1] + p[:, 2] * row[2] for row in inverse]
        index = np.floor(np.stack(found, axis=1) + np.float32(0.5))
    # NaN is in voxel 0, and what no int32 holds in the last one.
    low, high = -(2.0**31), 2.0**31 - 1
    return np.clip(np.nan_to_num(index.astype(np.float64), nan=0.0, posinf=high, neginf=low), low, high).astype(
        np.int32
    )


def grid_of_voxels(voxels: Any, number: int, place: Any) -> VoxelGrid:
    """Return the grid with the tiles, or in a grid of active voxels with the voxels, where some voxels lie.

    Parameters
    ----------
    voxels : numpy.ndarray
        Coordinates of int32, n x 3; they may be repeated.
    number : int
        NanoVDB's number of the type of the values.
    place : numpy.void
        The map from indices to the world.
    """
    by_voxel = number == 20
    firsts, keys = _hierarchy(voxels, by_voxel)
    if by_voxel:
        own, keys = keys, _distinct(keys >> _U(9))
    lower_keys = _distinct(keys >> _U(12))
    n_leaf, n_low, n_up = len(keys), len(lower_keys), len(firsts)
    leaf_node = np.searchsorted(lower_keys, keys >> _U(12))
    leaf_entry = (keys & _U(4095)).astype(np.int64)
    lower_node, lower_entry = (lower_keys >> _U(15)).astype(np.int64), (lower_keys & _U(32767)).astype(np.int64)
    background = ~np.int32(512 * n_leaf if number not in INDEX_TYPES else 0)
    if number in INDEX_TYPES:
        background = ~np.int32(512 * n_leaf)
    uppers, lowers = np.full((n_up, 32768), background), np.full((n_low, 4096), background)
    uppers[lower_node, lower_entry] = np.arange(n_low, dtype=np.int32)
    lowers[leaf_node, leaf_entry] = np.arange(n_leaf, dtype=np.int32)
    corner = firsts[lower_node] + _offsets(lower_entry, 5) * np.int32(128)
    origins = corner[leaf_node] + _offsets(leaf_entry, 4) * np.int32(8)
    root_keys = keys_of(firsts)
    order = np.argsort(root_keys, kind="stable")
    grid = VoxelGrid(
        number, place, root_keys[order], order.astype(np.int32), uppers, lowers, origins.astype(np.int32),
        voxels=512 * n_leaf, parents=(leaf_node, leaf_entry, lower_node, lower_entry, firsts),
    )  # fmt: skip
    if number in INDEX_TYPES:
        grid.masks = np.zeros((n_leaf, 10), np.uint64)
        if by_voxel:
            grid.voxels = len(own)
            _set_masks(grid.masks, own, keys)
        else:
            grid.masks[:, :8] = ~_U(0)
            grid.masks[:, 8] = _U(512) * np.arange(n_leaf, dtype=np.uint64) + _U(1)
    return grid


def _distinct(keys: Any) -> Any:
    """Return the distinct ones of sorted keys."""
    return keys if len(keys) < 2 else keys[np.concatenate([[True], keys[1:] != keys[:-1]])]


def _hierarchy(voxels: Any, by_voxel: bool) -> tuple[Any, Any]:
    """Return the first voxels of the root tiles, and sorted keys of the leaves or voxels, each once.

    A key has the number of the root tile, then the entries along the way: 15, 12 and, of voxels, 9 bits.
    """
    x, y, z = (np.ascontiguousarray(voxels[:, a]) for a in range(3))
    # Root tiles are in the order of their coordinates.
    tiles = [(c >> 12).astype(np.int64) + (1 << 19) for c in (x, y, z)]
    roots = tiles[0] << 40 | tiles[1] << 20 | tiles[2]
    distinct = roots[:1] if len(roots) and (roots == roots[0]).all() else np.unique(roots)
    numbers = np.searchsorted(distinct, roots) if len(distinct) > 1 else np.zeros(len(roots), np.int64)
    upper = ((x >> 7) & 31) << 10 | ((y >> 7) & 31) << 5 | ((z >> 7) & 31)
    lower = ((x >> 3) & 15) << 8 | ((y >> 3) & 15) << 4 | ((z >> 3) & 15)
    keys = numbers << 27 | upper.astype(np.int64) << 12 | lower
    if by_voxel:
        keys = keys << 9 | ((x & 7) << 6 | (y & 7) << 3 | (z & 7))
    keys = np.sort(keys.astype(np.uint64))
    firsts = np.stack([(((distinct >> s) & ((1 << 20) - 1)) - (1 << 19)) << 12 for s in (40, 20, 0)], axis=1)
    return firsts.astype(np.int32), _distinct(keys)


def _offsets(entries: Any, bits: int) -> Any:
    """Return the coordinates of entries in a node, along each axis."""
    most = (1 << bits) - 1
    return np.stack([(entries >> (2 * bits)) & most, (entries >> bits) & most, entries & most], axis=1).astype(np.int32)


def _set_masks(masks: Any, voxels: Any, leaves: Any) -> None:
    """Set the bits of active voxels, the first index of each leaf, and the counts before each word."""
    words = np.searchsorted(leaves, voxels >> _U(9)) * 8 + ((voxels >> _U(6)) & _U(7)).astype(np.int64)
    if not len(words):
        return
    starts = np.flatnonzero(np.concatenate([[True], words[1:] != words[:-1]]))
    flat = np.zeros(8 * len(leaves), np.uint64)
    flat[words[starts]] = np.bitwise_or.reduceat(_U(1) << (voxels & _U(63)), starts)
    masks[:, :8] = flat.reshape(-1, 8)
    counts = np.bincount(words, minlength=8 * len(leaves)).reshape(-1, 8).astype(np.uint64)
    before = np.cumsum(counts.sum(axis=1)) - counts.sum(axis=1)
    masks[:, 8] = before.astype(np.uint64) + _U(1)
    masks[:, 9] = (np.cumsum(counts, axis=1)[:, :7].astype(np.uint64) << _COUNTS).sum(axis=1, dtype=np.uint64)
