"""Built-in functions that are written in the kernel language: their names, and the facts known of each.

Functions of the modules of ``diffkern/library`` are decorated with :func:`built_in`. Each name is a :class:`Composed`
built-in, whose module is imported when more than its name is first asked for. The frontend inlines it like a
``@dk.func``; called on the host, the same function is evaluated.

The docstring of a library function is its text in the reference: what it does, then paragraphs that begin with
``Derivative:``, ``Kinks:`` and ``Example:``, the last one lines of a kernel as in :class:`~diffkern.ir.ops.row.Entry`.
Types of parameters and results come from annotations, which are those of :mod:`diffkern.lang.generic`, or any that a
func may have.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from diffkern.ir.ops.function import Subject
from diffkern.ir.ops.row import Entry
from diffkern.lang.called import evaluated
from diffkern.lang.generic import Cast, Generic, OneOf
from diffkern.lang.reference import described
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import cached_property

__all__ = ["COMPLEX", "COMPOSED", "Composed", "Overload", "built_in", "of_complex"]


@dataclass(frozen=True, eq=False)
class Overload:
    """One function of a built-in.

    Attributes
    ----------
    pyfunc
        The Python function.
    sets
        Parameters that are variables of the caller which the call changes: the function returns their new values first,
        and the rest is the call's result.
    """

    pyfunc: Callable[..., Any]
    sets: tuple[str, ...] = ()

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters, with annotations as objects."""
        # Annotations of library modules are text, as ``from __future__ import annotations`` makes them.
        return inspect.signature(self.pyfunc, eval_str=True)

    @cached_property
    def shown(self) -> str:
        """The parameters as help and errors show them."""
        return ", ".join(
            name if p.default is p.empty else f"{name}={getattr(p.default, '__name__', p.default)}"
            for name, p in self.signature.parameters.items()
        )

    def takes(self) -> Mapping[str, str]:
        """Return the type of each parameter, in the words of the reference."""
        return {name: _type_text(p.annotation) for name, p in self.signature.parameters.items()}

    def returns(self) -> str:
        """Return the type of the result, in the words of the reference."""
        # From the text of the annotation, whose names are the reference's; as an object it has lost them.
        found = _parts(str(self.pyfunc.__annotations__["return"]))[len(self.sets) :]
        return " and ".join(map(_in_words, found))


def _parts(types: str) -> list[str]:
    found = re.fullmatch(r"tuple\[(.*)\]", types)
    return found[1].split(", ") if found else [types]


def _type_text(annotation: Any) -> str:
    if isinstance(annotation, Cast):
        return annotation.to.name
    if isinstance(annotation, OneOf):
        *others, last = annotation.types
        return f"{', '.join(others)} or {last}"
    if isinstance(annotation, Generic):
        return _in_words(annotation.name)
    return getattr(annotation, "__name__", str(annotation)).replace("_empty", "any type").replace("Any", "any type")


def _in_words(name: str) -> str:
    return {"Float": "float", "Dtype": "type of float", "Complex": "complex number"}.get(name, name)


class Composed:
    """A built-in function that is written in the kernel language.

    Attributes
    ----------
    name
        Its public name, which is also the key by which the frontend finds it.
    module
        The module of ``diffkern.library`` that defines it.
    """

    def __init__(self, name: str, module: str) -> None:
        self.name: Final = name
        self.module: Final = module
        self.__name__ = name
        # Filled when it is first needed, since each module of the library takes time to import.
        self._overloads: list[Overload] = []

    @property
    def overloads(self) -> tuple[Overload, ...]:
        """Its functions, in the order in which they are tried."""
        if not self._overloads:
            # The import runs the decorators, which call `add`.
            importlib.import_module(f"diffkern.library.{self.module}")
        return tuple(self._overloads)

    def add(self, overload: Overload) -> None:
        """Add a function; its module calls this when it defines one."""
        self._overloads.append(overload)

    @property
    def sets(self) -> int:
        """The number of variables of the caller that each call changes."""
        return min(len(overload.sets) for overload in self.overloads)

    @property
    def signature(self) -> str:
        """Its parameters, as shown in help and errors; for several overloads, those of the first."""
        return self.overloads[0].shown

    @property
    def summary(self) -> str:
        """The first paragraph of its documentation."""
        return self._paragraphs()[""]

    @property
    def entry(self) -> Entry:
        """Its entry in the reference."""
        first, said = self.overloads[0], self._paragraphs()
        # Parameters of overloads are matched by position: the names are the first one's.
        kinds: dict[str, list[str]] = {name: [] for name in first.takes()}
        for overload in self.overloads:
            for name, k in zip(kinds, overload.takes().values(), strict=False):
                if k not in kinds[name]:
                    kinds[name].append(k)
        takes = "; ".join(f"{name} : {' or '.join(found)}" for name, found in kinds.items())
        example = said["Example"].replace("\n", "; ")
        return Entry(takes, first.returns(), said["Derivative"], example, said.get("Kinks", ""))

    @property
    def signatures(self) -> tuple[str, ...]:
        """The spellings of a call of it."""
        return tuple(dict.fromkeys(overload.shown for overload in self.overloads))

    @property
    def family(self) -> Subject:
        """The family to which it belongs."""
        # Most functions are about what their module is about.
        return _APART.get(self.name) or _FAMILIES[self.module]

    @property
    def on_host(self) -> bool:
        """True if Python may call it, too."""
        # Queries are of objects that kernels get by their ids; a search is of an array.
        return self.family is not Subject.QUERIES or self.name == "lower_bound"

    def _paragraphs(self) -> dict[str, str]:
        parts: dict[str, str] = {}
        for text in (inspect.getdoc(self.overloads[0].pyfunc) or "").split("\n\n"):
            head, colon, rest = text.partition(":")
            title = head if colon and head in ("Derivative", "Kinks", "Example") else ""
            body = rest.strip() if title else text
            # An example is code, whose lines stay; prose is joined to one line.
            body = body if title == "Example" else " ".join(body.split())
            parts[title] = f"{parts[title]} {body}" if title in parts else body
        return parts

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return described(self.name, self.signature, self.summary, self.entry)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate on the host."""
        return evaluated(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<dk.{self.name}({self.signature})>"

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: a copy in another process is the built-in itself there, not another object.
        return _named, (self.name,)


def _named(name: str) -> Composed:
    return COMPOSED[name]


_MODULES: Final[Mapping[str, str]] = {
    "bvhs": ("bvh_get_group_root bvh_query_aabb bvh_query_capsule bvh_query_next bvh_query_ray bvh_query_sphere"),
    "complexes": "angle conj",
    "decompositions": "eig3 qr3 svd2 svd3",
    "hash_grids": "hash_grid_point_id hash_grid_query hash_grid_query_next",
    "meshes": (
        "mesh_eval_face_normal mesh_eval_position mesh_eval_velocity mesh_get mesh_get_bvh mesh_get_group_root "
        "mesh_get_index mesh_get_point mesh_get_velocity mesh_query_aabb mesh_query_aabb_next "
        "mesh_query_furthest_point_no_sign mesh_query_next mesh_query_point mesh_query_point_no_sign "
        "mesh_query_point_sign_normal mesh_query_point_sign_parity mesh_query_point_sign_winding_number "
        "mesh_query_ray mesh_query_ray_anyhit mesh_query_ray_count_intersections mesh_query_sphere"
    ),
    "noise": "curlnoise noise pnoise",
    "numbers": "bit_count div_approx erfcinv erfinv inverse_approx lower_bound",
    "pairs": "closest_point_edge_edge intersect_tri_tri",
    "quaternions": (
        "quat_between_vectors quat_from_axis_angle quat_from_euler quat_from_matrix quat_identity quat_inverse "
        "quat_rotate quat_rotate_inv quat_rpy quat_slerp quat_to_axis_angle quat_to_euler quat_to_matrix quat_to_rpy "
        "quat_twist quat_twist_angle quat_twist_angle_signed"
    ),
    "random": (
        "poisson rand_init randf randi randn randu sample_cdf sample_triangle sample_unit_cube sample_unit_disk "
        "sample_unit_hemisphere sample_unit_hemisphere_surface sample_unit_ring sample_unit_sphere "
        "sample_unit_sphere_surface sample_unit_square"
    ),
    "spatial": (
        "spatial_adjoint spatial_bottom spatial_cross spatial_cross_dual spatial_dot spatial_top velocity_at_point"
    ),
    "textures": "texture_sample",
    "tiled_queries": (
        "tile_bvh_query_aabb tile_bvh_query_next tile_bvh_query_ray tile_mesh_query_aabb tile_mesh_query_aabb_next "
        "tile_query_valid"
    ),
    "transforms": (
        "transform_compose transform_decompose transform_from_matrix transform_get_rotation transform_get_translation "
        "transform_identity transform_inverse transform_multiply transform_point transform_set_rotation "
        "transform_set_translation transform_to_matrix transform_twist transform_vector transform_wrench"
    ),
    "volumes": (
        "volume_index_to_world volume_index_to_world_dir volume_lookup volume_lookup_f volume_lookup_i "
        "volume_lookup_index volume_lookup_v volume_sample volume_sample_f volume_sample_grad volume_sample_grad_f "
        "volume_sample_grad_index volume_sample_i volume_sample_index volume_sample_v volume_store volume_store_f "
        "volume_store_i volume_store_v volume_voxel_count volume_world_to_index volume_world_to_index_dir"
    ),
    "vectors": "norm_huber norm_l1 norm_l2 norm_pseudo_huber smooth_normalize",
}
"""Names by the module of ``diffkern.library`` that defines them."""

_FAMILIES: Final[Mapping[str, Subject]] = {
    module: family
    for family, modules in (
        (Subject.COMPLEX, "complexes"),
        (Subject.COMPOSITES, "decompositions pairs vectors"),
        (Subject.QUERIES, "bvhs hash_grids meshes search textures tiled_queries volumes"),
        (Subject.RANDOM, "noise random"),
        (Subject.ROTATIONS, "quaternions spatial transforms"),
        (Subject.SCALARS, "numbers"),
    )
    for module in modules.split()
}
"""The family of a module's functions."""

_APART: Final[Mapping[str, Subject]] = {"bit_count": Subject.INTEGERS, "inverse_approx": Subject.COMPOSITES}
"""Functions whose family is not that of their module."""

COMPOSED: Final[Mapping[str, Composed]] = {
    name: Composed(name, module) for module, names in _MODULES.items() for name in names.split()
}
"""By name."""

COMPLEX: Final[Mapping[str, Composed]] = {
    name: Composed(name, "complexes") for name in ("abs", "cos", "exp", "log", "pow", "sin", "sqrt")
}
"""The complex versions of built-in functions of real numbers, by name."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def built_in(name: str = "", *, sets: str = "") -> Callable[[_Function], Any]:
    """Decorate a library function, which becomes a built-in or one more overload of it.

    Parameters
    ----------
    name : str, optional
        The built-in's name, where that is not the function's: for all overloads but the first.
    sets : str, optional
        Parameters that are variables of the caller, separated by spaces, which the call changes to the first values
        that the function returns.

    Returns
    -------
    callable
        A decorator that returns the built-in.
    """

    def decorate(pyfunc: _Function) -> Composed:
        # A name that is not in the table is a mistake of the module, found when it is imported.
        composed = COMPOSED[name or pyfunc.__name__]
        composed.add(Overload(pyfunc, tuple(sets.split())))
        return composed

    return decorate


def of_complex(name: str) -> Callable[[_Function], Any]:
    """Decorate the complex overload of a built-in function of real numbers."""

    def decorate(pyfunc: _Function) -> Any:
        COMPLEX[name].add(Overload(pyfunc))
        return pyfunc

    return decorate
