"""``wp.geometry``: Warp's surfaces, and the names of its triangulations and swept volumes, which diffkern does not have."""

from __future__ import annotations

from diffkern.warp.absent_modules import named
from diffkern.warp.isosurfaces import (
    IsoSurfaceBase as IsoSurfaceBase,
)
from diffkern.warp.isosurfaces import (
    IsoSurfaceMarchingCubes as IsoSurfaceMarchingCubes,
)
from diffkern.warp.isosurfaces import (
    IsoSurfaceNets as IsoSurfaceNets,
)
from diffkern.warp.isosurfaces import (
    lipschitz_octree as lipschitz_octree,
)
from diffkern.warp.isosurfaces import (
    sparse_marching_cubes as sparse_marching_cubes,
)
from diffkern.warp.isosurfaces import (
    sparse_marching_cubes_from_cells as sparse_marching_cubes_from_cells,
)

__getattr__ = named(
    __name__,
    "SweptVolumeSignMode",
    "delaunay_edge_flip find_triangle_neighbor_edge_index swept_volume_bounds swept_volume_field swept_volume_mesh "
    "swept_volume_sdf tri_tri_adjacency",
    "take the triangulation of another library",
)
