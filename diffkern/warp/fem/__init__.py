"""``wp.fem``: the names of Warp's finite elements, which diffkern does not have.

Integrands can be declared, so that modules that hold some are imported; none can be evaluated. The maps of symmetric
and antisymmetric matrices to vectors are there, as kernels of their own call them.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable
from typing import Any, Final

from diffkern.lang.dtypes import SCALARS
from diffkern.types import vector
from diffkern.warp.opaque import missing, missing_function, named

REMEDY: Final = "write the assembly as a kernel over elements, with atomic_add to the nodes"

Coords: Final = vector(3, float)
Coords_f64: Final = vector(3, SCALARS["float64"])
ElementIndex = NodeIndex = QuadraturePointIndex = int
NULL_ELEMENT_INDEX: Final = -1
NULL_NODE_INDEX: Final = 2**31 - 1
NULL_QP_INDEX: Final = -1
OUTSIDE: Final = -1.0e8


def _sample(name: str, number: str) -> Any:
    scalar = SCALARS[number]
    fields: dict[str, Any] = {"element_index": int, "element_coords": vector(3, scalar), "qp_index": int}
    fields |= {"qp_weight": scalar, "test_dof": int, "trial_dof": int}
    return missing(name, REMEDY, fields)


Sample = _sample("Sample", "float32")
Sample_f64 = _sample("Sample_f64", "float64")


class ElementBasis(enum.Enum):
    """Families of shape functions."""

    LAGRANGE = "P"
    SERENDIPITY = "S"
    NONCONFORMING_POLYNOMIAL = "dP"
    NEDELEC_FIRST_KIND = "N1"
    RAVIART_THOMAS = "RT"
    BSPLINE = "B"


class Polynomial(enum.Enum):
    """Families of polynomials."""

    GAUSS_LEGENDRE = "GL"
    LOBATTO_GAUSS_LEGENDRE = "LGL"
    EQUISPACED_CLOSED = "closed"
    EQUISPACED_OPEN = "open"


def integrand(f: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare an integrand, which cannot be evaluated."""
    if f is None:
        return integrand
    return missing_function(f"the integrand {f.__name__}", REMEDY)


_get = named(
    __name__,
    "AdaptiveNanogrid BasisSpace BoundarySides CellBasedGeometryPartition Cells DiscreteField DofMapper Domain "
    "Element ElementKind ExplicitGeometryPartition ExplicitQuadrature Field FieldLike FrontierSides FunctionSpace "
    "Geometry GeometryDomain GeometryField GeometryPartition Grid2D Grid3D Hexmesh ImplicitField Integrand "
    "LinearGeometryPartition Nanogrid NodalQuadrature NonconformingField Operator PicQuadrature PointBasisSpace "
    "Quadmesh2D Quadmesh3D Quadrature RegularQuadrature ShapeBasisSpace ShapeFunction Sides "
    "SpacePartition SpaceRestriction SpaceTopology Subdomain Temporary TemporaryStore Tetmesh "
    "Trimesh2D Trimesh3D UniformField",
    "D adaptive_nanogrid_from_field adaptive_nanogrid_from_hierarchy at_node average borrow_temporary "
    "borrow_temporary_like cells curl deformation_gradient degree div div_outer element_closest_point "
    "element_coordinates element_index element_partition_index environment_index grad grad_average grad_jump "
    "grad_outer inner integrate interpolate jump lookup make_collocated_function_space "
    "make_contravariant_function_space make_covariant_function_space make_discrete_field "
    "make_element_based_space_topology make_element_shape_function make_free_sample make_polynomial_basis_space "
    "make_polynomial_space make_restriction make_space_partition make_space_restriction make_test make_trial measure "
    "measure_ratio node_count node_index node_inner_weight node_inner_weight_gradient node_outer_weight "
    "node_outer_weight_gradient node_partition_index normal normalize_dirichlet_projector outer partition_lookup "
    "position project_linear_system project_system_matrix project_system_rhs scalar_type "
    "set_default_temporary_store to_cell_side to_inner_cell to_outer_cell",
    REMEDY,
)


def __getattr__(name: str) -> Any:
    if name in ("cache", "linalg"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("SymmetricTensorMapper", "SkewSymmetricTensorMapper"):
        return getattr(importlib.import_module(f"{__name__}.mappers"), name)
    return _get(name)
