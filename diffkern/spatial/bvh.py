"""Trees of boxes, in which kernels find the boxes that meet a box, a sphere or a ray.

A tree is made from lower and upper corners of boxes. It has an id, which a launch passes to a kernel; there
:func:`~diffkern.bvh_query_aabb` and its variants find boxes by it. The meaning of the descriptor's words is documented
in :mod:`diffkern.library.bvhs`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.types import FLOAT32, INT32, Element, Vec
from diffkern.lang.queries import BVH
from diffkern.library.box_pairs import PAIR
from diffkern.library.bvhs import WORDS
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, submit
from diffkern.runtime.launch.resources import Content, Resource
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.memory.state import will_replay
from diffkern.runtime.records.launch import launch
from diffkern.spatial import tree_kernels as kernels

__all__ = ["CONSTRUCTORS", "Bvh", "checked", "constructor_named"]

CONSTRUCTORS: Final = ("sah", "cubql", "median", "lbvh")
"""The ways to split boxes: by the cost of queries, of which Warp has a second one, or into halves."""
_BY_COST: Final = ("sah", "cubql")

_VECTORS: Final = Vec(FLOAT32, 3)
_MOST: Final = (1 << 27) - 1  # the boxes whose nodes are counted in bytes of a float's place by an int32


class Bvh(Uncopied):
    """A tree of boxes, in which kernels find those that meet a box, a sphere, a ray or a capsule.

    Pass :attr:`id` to a kernel as a ``uint64``, and call :func:`~diffkern.bvh_query_aabb`,
    :func:`~diffkern.bvh_query_sphere`, :func:`~diffkern.bvh_query_ray` or :func:`~diffkern.bvh_query_capsule` there.

    The tree holds copies of the boxes. After a change of ``lowers`` or ``uppers`` call :meth:`refit`, or
    :meth:`rebuild` where boxes have moved far. Launches on a tape have the gradient for the tree as it was then.

    Parameters
    ----------
    lowers, uppers : array of vec3
        The corners of the boxes.
    constructor : str, optional
        How boxes are split: ``"sah"``, the default, or ``"cubql"``, which means the same, by the cost of queries;
        ``"median"`` or ``"lbvh"`` into halves. The results of queries are the same.
    groups : array of int32, optional
        A number for each box; a query from the root of a group, :func:`~diffkern.bvh_get_group_root`, then finds boxes
        of that group alone.
    leaf_size : int, optional
        How many boxes a leaf holds at most. The results of queries are the same.

    Attributes
    ----------
    lowers, uppers, groups : array
        What it was made from.
    device : Device
        Where it lies: with the boxes.

    Raises
    ------
    LaunchError
        If the arrays are of other types, on different devices, or do not fit together.

    Examples
    --------
    >>> import numpy as np, diffkern as dk
    >>> @dk.kernel
    ... def count(tree: dk.uint64, x: dk.array(dtype=dk.vec3), n: dk.array(dtype=int)):
    ...     i = dk.tid()
    ...     for j in dk.bvh_query_aabb(tree, x[i], x[i]):
    ...         n[i] += 1
    >>> low = dk.array(np.float32([[0, 0, 0], [1, 0, 0]]), dtype=dk.vec3)
    >>> high = dk.array(np.float32([[2, 1, 1], [3, 1, 1]]), dtype=dk.vec3)
    >>> tree = dk.Bvh(low, high)
    >>> x, n = dk.array(np.float32([[1.5, 0.5, 0.5], [9, 0, 0]]), dtype=dk.vec3), dk.zeros(2, dtype=int)
    >>> dk.launch(count, dim=2, inputs=[tree.id, x], outputs=[n])
    >>> n.numpy()
    array([2, 0], dtype=int32)
    """

    _has_pairs: ClassVar[bool] = False  # whether searches find the boxes of both children of a node in one place

    def __init__(
        self,
        lowers: array,
        uppers: array,
        constructor: str | None = None,
        groups: array | None = None,
        leaf_size: int = 1,
    ) -> None:
        self._by_count = constructor_named(constructor)
        if leaf_size < 1:
            raise LaunchError(f"a leaf of a Bvh holds at least one box, not {leaf_size}", remedy="pass leaf_size=1")
        # The boxes decide on the device; the other arrays are checked against it.
        self.device: Device = get_device(checked(lowers, "lowers of a Bvh", _VECTORS, None).device)
        self.lowers, self.uppers, self.groups = lowers, uppers, groups
        self._count = lowers.size
        self._fitting: tuple[array, array, array | None] | None = None
        self._check()
        if lowers.size > _MOST:
            raise LaunchError(f"a Bvh of {lowers.size} boxes: at most {_MOST} are supported", remedy="make several")
        self._leaf_size = min(int(leaf_size), max(self._count, 1))
        # For kernels: 1 if the items' boxes are kept, 2 if the children's boxes are, in pairs.
        self._keeps = int(self._leaf_size > 1) + 2 * self._has_pairs
        self._levels: tuple[array, ...] = ()
        # The descriptor keeps its address for the life of the tree, so that recorded launches and graphs find the
        # rebuilt tree.
        self._resource = Resource(self.device, BVH, WORDS)
        self.rebuild(constructor)

    def _check(self) -> None:
        """Raise unless the arrays, which may have been assigned since, are what the kernels of the tree take."""
        fit = self._fitting
        # Refitting is frequent and the arrays rarely change: three comparisons by identity instead of the checks.
        if fit is not None and fit[0] is self.lowers and fit[1] is self.uppers and fit[2] is self.groups:
            return
        named = (
            (self.lowers, "lowers", "lower corners", _VECTORS), (self.uppers, "uppers", "upper corners", _VECTORS),
            (self.groups, "groups", "groups", INT32),
        )  # fmt: skip
        for held, name, what, element in named:
            if held is not None and checked(held, f"{name} of a Bvh", element, self.device).size != self._count:
                raise LaunchError(
                    f"there are {held.size} {what} for {self._count} boxes",
                    remedy="pass one for each box; for other boxes make another Bvh",
                )
        self._fitting = self.lowers, self.uppers, self.groups

    @property
    def id(self) -> int:
        """The number by which a kernel knows the tree; it does not change when the tree is refit or rebuilt."""
        return self._resource.id

    def refit(self) -> None:
        """Update the tree to the current boxes, without reordering it.

        It is done by kernels on the tree's device, in the current stream, and may be captured in a graph.
        """
        self._check()
        n = self._count
        if n == 0:
            return
        order, links, table, boxes, item_boxes, pairs = self._resource.content.arrays
        is_kept = self._resource.content.kept
        # A tape keeps the content for its backward launches, so new boxes go to new arrays; the order and links are
        # shared.
        if is_kept:
            boxes, item_boxes, pairs = (self._of(a.size, FLOAT32) for a in (boxes, item_boxes, pairs))
        if is_kept or will_replay():  # when a recording runs, it may lie elsewhere
            self._lead_to((order, links, table, boxes, item_boxes, pairs))
        self._resource.times_built += 1
        given = [self.lowers, self.uppers, order, links]
        kept = [boxes, item_boxes, pairs, self._keeps]
        # On the CPU one thread walks the nodes from the last to the first. A GPU does one level after the other, the
        # deepest first, since parents need the boxes of their children.
        if self.device.is_cpu:
            self._launch(kernels.refit, 1, [*given, *kept])
        for nodes in self._levels:
            self._launch(kernels.refit_level, nodes.size, [*given, nodes, *kept])

    def rebuild(self, constructor: str | None = None) -> None:
        """Rebuild the tree from the current boxes.

        On a GPU the tree is built on the host, from a copy of the boxes.

        Parameters
        ----------
        constructor : str, optional
            As that of the class.
        """
        self._check()
        by_count, n = constructor_named(constructor), self._count
        if n == 0:
            return
        now, nodes = self._resource.content, 2 * n
        # As in `refit`: a content that a tape keeps is not overwritten.
        if now.kept or not now.arrays:
            # Of n boxes a binary tree has at most 2n - 1 nodes: 4 links and 6 coordinates of each, and a table of
            # groups.
            room = (n, INT32), (4 * nodes, INT32), (2 * n + 1, INT32), (6 * nodes, FLOAT32)
            # Leaves of one box need no copies of the items' boxes: the node's box is the item's.
            more = 6 * n if self._keeps & 1 else 1, PAIR * nodes if self._keeps & 2 and self.device.is_cpu else PAIR
            arrays = tuple(self._of(size, scalar) for size, scalar in (*room, *((m, FLOAT32) for m in more)))
        else:
            arrays = now.arrays
        if self.device.is_cpu:
            self._build(self.lowers, self.uppers, self.groups, by_count, arrays)
        else:
            arrays = self._build_on_host(by_count, arrays)
        self._lead_to(arrays)

    def _build(
        self, lowers: array, uppers: array, groups: array | None, by_count: int, arrays: tuple[array, ...]
    ) -> array:
        """Build on the host; return the level of each node."""
        order, links, table, boxes, item_boxes, pairs = arrays
        host = lowers.device
        depths = new((2 * lowers.size,), INT32, False, host)
        # A kernel takes an array in any case; without groups any array of int32 serves, and the flag says it isn't
        # read.
        given = [lowers, uppers, order if groups is None else groups, int(groups is not None)]
        # Boxes are sorted where the items' ones are kept, or in memory of their own.
        items = item_boxes if self._keeps & 1 else new((6 * lowers.size,), FLOAT32, False, host)
        given += [self._leaf_size, by_count, order, links, depths, boxes, items, table]
        given += [pairs, self._keeps]
        launch(kernels.build, dim=1, inputs=given, device=host, record_tape=False)
        return depths

    def _build_on_host(self, by_count: int, arrays: tuple[array, ...]) -> tuple[array, ...]:
        """Build from copies on the host, and copy the tree to its device; return the arrays there."""
        host = get_device("cpu")
        copies = [None if a is None else a.to("cpu") for a in (self.lowers, self.uppers, self.groups)]
        room = (*(a.shape for a in arrays[:-1]), (PAIR * 2 * self._count if self._keeps & 2 else PAIR,))
        made = tuple(new(shape, a._element, False, host) for shape, a in zip(room, arrays, strict=True))
        assert copies[0] is not None
        assert copies[1] is not None
        depths = self._build(copies[0], copies[1], copies[2], by_count, made)
        # Word 0 of the links is where the nodes below the root end: the number of nodes.
        count = int(made[1].numpy()[0])
        if self._keeps & 2:
            # There are far fewer nodes than there is room for on the host, where memory that is not used costs nothing.
            fits = arrays[-1].size == PAIR * count
            arrays = *arrays[:-1], arrays[-1] if fits else self._of(PAIR * count, FLOAT32)
            made = *made[:-1], made[-1][: PAIR * count]
        for goal, source in zip(arrays, made, strict=True):
            submit(Copy(goal, source))
        level = depths.numpy()[:count]
        # Nodes grouped by level, deepest first; the stable sort keeps their order within a level.
        nodes = np.argsort(-level, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(level)[::-1])
        self._levels = tuple(array(part, dtype=int, device=self.device) for part in np.split(nodes, ends[:-1]))
        return arrays

    def _lead_to(self, arrays: tuple[array, ...]) -> None:
        order, links, table, boxes, item_boxes, pairs = arrays
        content = self._resource.content
        # The same content stays the same object, by which a tape recognizes what it keeps.
        same = [*map(id, content.arrays)] == [*map(id, arrays)]
        content = content if same else Content(arrays)
        of_items = item_boxes._address if self._keeps & 1 else 0
        of_pairs = pairs._address if self._keeps & 2 else 0
        of_groups = 0 if self.groups is None else table._address
        self._resource.lead_to(
            content, (boxes._address, links._address, order._address, of_items, of_groups, self._count, of_pairs)
        )

    def _of(self, size: int, scalar: Element) -> array:
        return new((size,), scalar, False, self.device)

    def _launch(self, kernel: Any, dim: int, inputs: list[Any]) -> None:
        launch(kernel, dim=dim, inputs=inputs, device=self.device, record_tape=False)

    def __repr__(self) -> str:
        return f"Bvh({self._count} boxes, device={str(self.device)!r})"


def constructor_named(name: Any) -> int:
    """Return whether boxes are split by their number, 1, or by the cost of queries, 0."""
    if name is None:
        return 0
    stated = getattr(name, "name", name)  # of Warp's enumeration
    if not isinstance(stated, str) or stated.lower() not in CONSTRUCTORS:
        raise LaunchError(
            f"there is no constructor {name!r} of trees", remedy=f"pass one of {', '.join(map(repr, CONSTRUCTORS))}"
        )
    return int(stated.lower() not in _BY_COST)


def checked(given: Any, what: str, element: Element, device: Device | None) -> array:
    """Return an argument that must be an array along one axis, of this element type and on this device.

    Raises
    ------
    LaunchError
        If it is none.
    """
    if not isinstance(given, array):
        raise LaunchError(
            f"the {what} are an array, not {type(given).__name__}", remedy="make one with dk.array(values, dtype=...)"
        )
    if given._element != element or given.ndim != 1:
        raise LaunchError(
            f"the {what} are an array of {element} along one axis, not {given.ndim} of {given._element}",
            remedy="convert them",
        )
    if device is not None and given.device is not device:
        raise LaunchError(
            f"the {what} lie on {given.device}, and the others on {device}", remedy=f"pass .to({str(device)!r})"
        )
    return given
