"""Warp's names of surfaces: those of :mod:`diffkern.spatial` for fields of float32, and older names with a warning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from diffkern.errors import LaunchError, described
from diffkern.ir.types import FLOAT32
from diffkern.lang.func import Func
from diffkern.runtime.arrays.array import array
from diffkern.spatial import sparse_surface
from diffkern.spatial.cube_cases import EDGE_TO_CORNERS, triangle_table
from diffkern.spatial.isosurface import Corner, IsoSurface, MarchingCubes, Surface, SurfaceNets
from diffkern.warp.arrays import in_dialect
from diffkern.warp.loggers import log_warning

__all__ = [
    "IsoSurfaceBase", "IsoSurfaceMarchingCubes", "IsoSurfaceNets", "lipschitz_octree", "sparse_marching_cubes",
    "sparse_marching_cubes_from_cells",
]  # fmt: skip

IsoSurfaceBase = IsoSurface


class IsoSurfaceMarchingCubes(MarchingCubes):
    """:class:`diffkern.MarchingCubes` for fields of float32.

    Parameters
    ----------
    nx, ny, nz, lower, upper
        As of :class:`diffkern.MarchingCubes`.
    domain_bounds_lower_corner, domain_bounds_upper_corner : vec3, optional
        Older names of `lower` and `upper`; they warn.
    """

    EDGE_TO_CORNERS = EDGE_TO_CORNERS
    CASE_TO_TRI_RANGE, TRI_LOCAL_INDICES = triangle_table()

    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        lower: Corner | None = None,
        upper: Corner | None = None,
        **older: Corner | None,
    ) -> None:
        corners = {"lower": lower, "upper": upper}
        for name, corner in older.items():
            now = _OLDER.get(name)
            if now is None:
                raise TypeError(f"IsoSurfaceMarchingCubes takes no argument {name!r}")
            if corners[now] is not None:
                raise TypeError(f"Cannot specify both `{now}` and `{name}`, which is its older name")
            _warn(f"The argument `{name}` is deprecated. Use `{now}` instead.")
            corners[now] = corner
        super().__init__(nx, ny, nz, **corners)

    @classmethod
    def extract(
        cls, field: array, threshold: float | array = 0.0, *, lower: Corner | None = None, upper: Corner | None = None
    ) -> Surface:
        """Return the surface of a field of float32, as :meth:`diffkern.MarchingCubes.extract`."""
        return _in_dialect(super().extract(_single(field), threshold, lower=lower, upper=upper))

    @staticmethod
    def extract_surface_marching_cubes(
        field: array,
        threshold: float | array = 0.0,
        domain_bounds_lower_corner: Corner | None = None,
        domain_bounds_upper_corner: Corner | None = None,
    ) -> Surface:
        """Return the surface of a field: the older name of :meth:`extract`, which warns."""
        _warn("MarchingCubes.extract_surface_marching_cubes() is deprecated. Use extract() instead.")
        corners = {"lower": domain_bounds_lower_corner, "upper": domain_bounds_upper_corner}
        return IsoSurfaceMarchingCubes.extract(field, threshold, **corners)


_OLDER = {"domain_bounds_lower_corner": "lower", "domain_bounds_upper_corner": "upper"}


def _older_attribute(name: str, now: str) -> property:
    """Return a property that stands for another one and warns."""
    message = f"IsoSurfaceMarchingCubes.{name} is deprecated. Use `{now}` instead."

    def get(self: IsoSurfaceMarchingCubes) -> Any:
        _warn(message)
        return getattr(self, now)

    def put(self: IsoSurfaceMarchingCubes, value: Any) -> None:
        _warn(message)
        setattr(self, now, value)

    return property(get, put, doc=f"The older name of `{now}`; it warns.")


for _name, _now in _OLDER.items():
    setattr(IsoSurfaceMarchingCubes, _name, _older_attribute(_name, _now))


class IsoSurfaceNets(SurfaceNets):
    """:class:`diffkern.SurfaceNets` for fields of float32."""

    @classmethod
    def extract(
        cls,
        field: array,
        threshold: float | array = 0.0,
        *,
        lower: Corner | None = None,
        upper: Corner | None = None,
        topology: str = "triangle",
    ) -> Surface:
        """Return the surface of a field of float32, as :meth:`diffkern.SurfaceNets.extract`."""
        return _in_dialect(super().extract(_single(field), threshold, lower=lower, upper=upper, topology=topology))


@functools.wraps(sparse_surface.sparse_marching_cubes)
def sparse_marching_cubes(field: Any, *args: Any, **options: Any) -> Any:
    verts, indices, *stats = sparse_surface.sparse_marching_cubes(_in_warp(field), *args, **options)
    return (*_in_dialect((verts, indices)), *stats)


@functools.wraps(sparse_surface.sparse_marching_cubes_from_cells)
def sparse_marching_cubes_from_cells(*args: Any, **options: Any) -> Surface:
    return _in_dialect(sparse_surface.sparse_marching_cubes_from_cells(*args, **options))


@functools.wraps(sparse_surface.lipschitz_octree)
def lipschitz_octree(field: Any, *args: Any, **options: Any) -> tuple[array, float]:
    cells, width = sparse_surface.lipschitz_octree(_in_warp(field), *args, **options)
    return in_dialect(cells), width


# -- parts -------------------------------------------------------------------------------------------------------------


def _single(field: Any) -> array:
    if isinstance(field, array) and field._element == FLOAT32:
        return field
    raise LaunchError(
        f"the field of an isosurface is an array of float32, not {described(field)}",
        remedy="convert it, or take diffkern.MarchingCubes and diffkern.SurfaceNets, which have float64 too",
    )


def _in_dialect(surface: Surface) -> Surface:
    verts, indices = surface
    return in_dialect(verts), in_dialect(indices)


def _in_warp(field: Any) -> Callable[[array], array]:
    """Return a field that is called with points in Warp's dialect."""
    if isinstance(field, Func) or not callable(field):
        return field  # type: ignore[no-any-return]  # refused with a reason where it is taken
    return lambda points: field(in_dialect(points))


def _warn(message: str) -> None:
    # At the line that uses the older name: behind this function and the one that calls it.
    log_warning(message, DeprecationWarning, stacklevel=3)
