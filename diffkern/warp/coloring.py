"""Graph colouring with no edge between nodes of one colour: ``wp.utils.graph_coloring_…``.

The input is edges as pairs of nodes, the result a colour for each node. Nodes are visited in order of maximum
cardinality search (Pereira and Palsberg, Register Allocation via Coloring of Chordal Graphs, 2005) or of decreasing
degree, and each gets the smallest colour that no neighbour has. Balancing then moves nodes from the largest group to
the smallest.
"""

from __future__ import annotations

import enum
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffkern.ir.types import INT32
from diffkern.runtime.arrays.array import array

__all__ = [
    "GraphColoringAlgorithm", "graph_coloring_assign", "graph_coloring_balance", "graph_coloring_get_groups",
]  # fmt: skip


class GraphColoringAlgorithm(enum.IntEnum):
    """The order in which nodes get their colours."""

    MCS = 0
    GREEDY = 1


def graph_coloring_assign(
    edges: array, node_colors: array, algorithm: GraphColoringAlgorithm | int = GraphColoringAlgorithm.MCS
) -> int:
    """Give each node of a graph a colour that none of its neighbours has.

    Parameters
    ----------
    edges : array
        Pairs of nodes: int32, of shape (edges, 2), on the CPU.
    node_colors : array
        The colours, which are written: int32, one for each node, on the CPU.
    algorithm : GraphColoringAlgorithm, optional
        The order in which nodes get their colours.

    Returns
    -------
    int
        The number of colours.

    Raises
    ------
    RuntimeError
        If there are no nodes, or an array is none of these.
    """
    neighbours = _neighbours(edges, node_colors)
    if not neighbours:
        raise RuntimeError("a graph without nodes has no colours")
    if GraphColoringAlgorithm(algorithm) is GraphColoringAlgorithm.MCS:
        order = _by_cardinality(neighbours)
    else:
        # The sort is stable, so that nodes of one degree keep their order and colours are reproducible.
        order = sorted(range(len(neighbours)), key=lambda node: -len(neighbours[node]))
    colors = _first_free(order, neighbours)
    node_colors.assign(np.array(colors, np.int32))
    return max(colors) + 1


def graph_coloring_balance(
    edges: array,
    node_colors: array,
    color_count: int,
    target_max_min_ratio: float,
    *,
    max_iterations: int | None = None,
) -> float:
    """Move nodes between colours until the largest and the smallest group differ little.

    Parameters
    ----------
    edges, node_colors : array
        As in :func:`graph_coloring_assign`, with colours that have been assigned.
    color_count : int
        The number of colours.
    target_max_min_ratio : float
        The ratio of the sizes of the largest and the smallest group at which to stop.
    max_iterations : int, optional
        The most moves; as many as there are nodes by default.

    Returns
    -------
    float
        The ratio that was reached.

    Raises
    ------
    RuntimeError
        If an array is none of these.
    """
    neighbours = _neighbours(edges, node_colors)
    most = len(neighbours) if max_iterations is None else _limit(max_iterations)
    # There is nothing to balance with.
    if color_count <= 1:
        return 1.0
    # Python's lists: the moves below access single nodes, for which NumPy's scalars are slower.
    colors = node_colors.numpy().tolist()
    groups: list[list[int]] = [[] for _ in range(color_count)]
    for node, color in enumerate(colors):
        if not 0 <= color < color_count:
            raise RuntimeError(f"node {node} has the colour {color}; there are {color_count}")
        groups[color].append(node)
    ratio, is_cut = _balance(neighbours, colors, groups, target_max_min_ratio, most)
    if is_cut:
        warnings.warn(
            f"balancing colours ended after {most} moves at a ratio of {ratio:g}; {target_max_min_ratio:g} was wanted",
            stacklevel=2,
        )
    node_colors.assign(np.array(colors, np.int32))
    return ratio


def graph_coloring_get_groups(
    node_colors: array, color_count: int, return_wp_array: bool = True, device: Any = "cpu"
) -> tuple[Any, ...]:
    """Return the nodes of each colour.

    Parameters
    ----------
    node_colors : array
        As in :func:`graph_coloring_assign`.
    color_count : int
        The number of colours.
    return_wp_array : bool, optional
        Whether arrays are returned, or NumPy's.
    device : optional
        The device of the arrays.
    """
    if color_count < 0:
        raise RuntimeError(f"there are no {color_count} colours")
    _check(node_colors, "node_colors", 1)
    colors = node_colors.numpy()
    groups = [np.flatnonzero(colors == color).astype(np.int32) for color in range(color_count)]
    if not return_wp_array:
        return tuple(groups)
    return tuple(array(group, dtype=np.int32, device=device) for group in groups)


# -- orders ------------------------------------------------------------------------------------------------------------


class _Buckets:
    """Nodes that have not been visited, by the number of their neighbours that have."""

    def __init__(self, nodes: int) -> None:
        self.weights = [0] * nodes  # -1: taken
        self._places = [0] * nodes
        self._of_weight: list[list[int]] = [[]]

    def add(self, node: int, weight: int) -> None:
        """Put a node in."""
        # A weight grows by one at a time, so at most one list is added.
        while weight >= len(self._of_weight):
            self._of_weight.append([])
        bucket = self._of_weight[weight]
        self.weights[node], self._places[node] = weight, len(bucket)
        bucket.append(node)

    def raise_weight(self, node: int) -> None:
        """Count one more neighbour; nodes of weight 0 are not in a bucket."""
        weight = self.weights[node]
        if weight > 0:
            self._remove(self._of_weight[weight], self._places[node])
        self.add(node, weight + 1)

    def take(self) -> int | None:
        """Take out the first node of the highest weight, if there is any."""
        # The highest weight falls only as nodes are taken, so this costs constant time on average.
        while len(self._of_weight) > 1 and not self._of_weight[-1]:
            self._of_weight.pop()
        bucket = self._of_weight[-1]
        if not bucket:
            return None
        node = bucket[0]
        self._remove(bucket, 0)
        self.weights[node] = -1
        return node

    def _remove(self, bucket: list[int], place: int) -> None:
        # The last node fills the gap, which makes removal take constant time.
        last = bucket.pop()
        if place < len(bucket):
            bucket[place] = last
            self._places[last] = place


def _by_cardinality(neighbours: Sequence[Sequence[int]]) -> list[int]:
    """Return the nodes in an order in which each next one has the most neighbours before it."""
    buckets = _Buckets(len(neighbours))
    order: list[int] = []
    start = 0
    while len(order) < len(neighbours):
        node = buckets.take()
        if node is None:  # a part of the graph that hangs together is done
            while buckets.weights[start] < 0:
                start += 1
            node = start
            buckets.weights[node] = -1
        order.append(node)
        for other in neighbours[node]:
            # Visited nodes have weight -1.
            if buckets.weights[other] >= 0:
                buckets.raise_weight(other)
    return order


def _first_free(order: Sequence[int], neighbours: Sequence[Sequence[int]]) -> list[int]:
    """Return colours: each node, in order, gets the smallest one that no earlier neighbour has."""
    colors = [-1] * len(neighbours)
    for node in order:
        # Neighbours without a colour count as -1, which is no candidate.
        taken = {colors[other] for other in neighbours[node]}
        color = 0
        while color in taken:
            color += 1
        colors[node] = color
    return colors


# -- balance -----------------------------------------------------------------------------------------------------------


def _balance(
    neighbours: Sequence[Sequence[int]], colors: list[int], groups: list[list[int]], target: float, most: int
) -> tuple[float, bool]:
    """Move nodes to the smallest group; return the ratio, and whether more moves were possible."""
    # The last move is remembered, so that it can be undone if it makes the ratio worse.
    before, moved, count = -1.0, (-1, -1), 0
    while True:
        sizes = [len(group) for group in groups]
        largest, smallest = sizes.index(max(sizes)), sizes.index(min(sizes))
        ratio = sizes[largest] / sizes[smallest] if sizes[smallest] else float("inf")
        if 0.0 < before < ratio:  # the last move has made it worse
            colors[moved[0]] = moved[1]
            return before, False
        # Groups that differ by at most two nodes count as balanced, whatever the target.
        if sizes[largest] - sizes[smallest] <= 2 or ratio <= target:
            return ratio, False
        # If no node of the largest group can move, one of another group makes room for later moves.
        sources = [largest, *(k for k in range(len(groups)) if k not in (largest, smallest))]
        found = next((move for k in sources if (move := _movable(neighbours, colors, groups[k], smallest))), None)
        if found is None:
            return ratio, False
        # Checked after a move was found, so that the warning is given only if the limit cut the work short.
        if count == most:
            return ratio, True
        place, node = found
        before, moved, count = ratio, (node, colors[node]), count + 1
        group = groups[colors[node]]
        group[place] = group[-1]
        group.pop()
        groups[smallest].append(node)
        colors[node] = smallest


def _movable(
    neighbours: Sequence[Sequence[int]], colors: Sequence[int], group: Sequence[int], color: int
) -> tuple[int, int] | None:
    """Return the first node of a group that may take another colour, with its position."""
    for place, node in enumerate(group):
        if all(colors[other] != color for other in neighbours[node]):
            return place, node
    return None


# -- arguments ---------------------------------------------------------------------------------------------------------


def _check(a: array, name: str, ndim: int) -> None:
    if not isinstance(a, array) or a._element != INT32 or a.ndim != ndim or not a.device.is_cpu:
        raise RuntimeError(f"{name} is an array of int32 with {ndim} {'axis' if ndim == 1 else 'axes'} on the CPU")


def _neighbours(edges: array, node_colors: array) -> list[list[int]]:
    """Return the neighbours of each node."""
    _check(edges, "edges", 2)
    _check(node_colors, "node_colors", 1)
    if edges.shape[1] != 2:
        raise RuntimeError(f"edges are pairs of nodes, of shape (edges, 2), not {edges.shape}")
    found: list[list[int]] = [[] for _ in range(node_colors.shape[0])]
    for first, second in edges.numpy().tolist():
        if not (0 <= first < len(found) and 0 <= second < len(found)):
            raise RuntimeError(f"the edge ({first}, {second}) is none of a graph of {len(found)} nodes")
        found[first].append(second)
        found[second].append(first)
    return found


def _limit(given: Any) -> int:
    if isinstance(given, (bool, np.bool_)):
        raise TypeError(f"max_iterations is a whole number or None, not {given!r}")
    limit = operator.index(given)
    if not 0 <= limit < 2**31:
        raise ValueError(f"max_iterations is a number from 0 to {2**31 - 1}, not {limit}")
    return limit
