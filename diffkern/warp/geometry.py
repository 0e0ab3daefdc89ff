"""``wp.geometry``: Warp's surfaces, and the names of its triangulations and swept volumes, which are not there."""

from __future__ import annotations

from diffkern.warp.isosurfaces import (
    IsoSurfaceBase,
    IsoSurfaceMarchingCubes,
    IsoSurfaceNets,
    lipschitz_octree,
    sparse_marching_cubes,
    sparse_marching_cubes_from_cells,
)
from diffkern.warp.opaque import named

__all__ = [
    "IsoSurfaceBase", "IsoSurfaceMarchingCubes", "IsoSurfaceNets", "lipschitz_octree", "sparse_marching_cubes",
    "sparse_marching_cubes_from_cells",
]  # fmt: skip

__getattr__ = named(
    __name__,
    "SweptVolumeSignMode",
    "delaunay_edge_flip find_triangle_neighbor_edge_index swept_volume_bounds swept_volume_field swept_volume_mesh "
    "swept_volume_sdf tri_tri_adjacency",
    "take the triangulation of another library",
)
