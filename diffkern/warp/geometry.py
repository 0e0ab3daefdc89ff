"""``wp.geometry``: the names of Warp's surfaces and triangulations, which diffkern does not have."""

from __future__ import annotations

from diffkern.warp.absent_modules import named

__getattr__ = named(
    __name__,
    "IsoSurfaceBase IsoSurfaceMarchingCubes IsoSurfaceNets SweptVolumeSignMode",
    "delaunay_edge_flip find_triangle_neighbor_edge_index lipschitz_octree sparse_marching_cubes "
    "sparse_marching_cubes_from_cells swept_volume_bounds swept_volume_field swept_volume_mesh swept_volume_sdf "
    "tri_tri_adjacency",
    "take the triangles of a level set from another library",
)
