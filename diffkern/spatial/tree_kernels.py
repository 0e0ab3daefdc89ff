"""The kernels that build a tree of boxes, and that update its boxes to the current ones.

Nodes are numbered in preorder, parents first: the left child of a node is the next one, and the nodes below it end at
its ``skip``. So the boxes below a node are a contiguous range of the sorted boxes, a walk needs no stack, and a loop
from the last node to the first one finds children before their parents.

Boxes are split by their centres along the axis of the greatest extent, in few bins: at the border where the expected
cost of a query is least (the area of each side times its boxes), or where the numbers of boxes are closest.
Comparisons leave NaN out: a box with a NaN enlarges no other one, and no query finds it.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.box_pairs import PAIR
from diffkern.library.language import float32, int32, uint32, vec3f
from diffkern.runtime.arrays.create import zeros
from diffkern.spatial.kernels import sort_cell

__all__ = ["BINS", "DEEPEST", "build", "refit", "refit_level"]

tid: Any = INTRINSICS["tid"]
_alone = functools.partial(Kernel, enable_backward=False, lanes=False)
_integral = functools.partial(Kernel, enable_backward=False)

BINS: Final = 16
"""Bins along an axis, a power of two."""

DEEPEST: Final = 64
"""Levels of a tree at most, which is what a walk with a stack has room for."""

_LEVEL_OF_HALVES: Final = 32  # from which on ranges are halved, whatever that costs queries: 2**32 boxes there are not
_FAR: Final = float("inf")


@func
def clear_box(boxes, k):  # type: ignore[no-untyped-def]
    """Make a box empty."""
    at = 6 * uint32(k)
    for c in range(3):
        # The identities of minimum and maximum: the first box that is included replaces them.
        boxes[at + uint32(c)] = float32(_FAR)
        boxes[at + uint32(3 + c)] = float32(-_FAR)


@func
def low_of(boxes, k):  # type: ignore[no-untyped-def]
    """Return the lower corner of a box."""
    at = 6 * uint32(k)
    return vec3f(boxes[at], boxes[at + uint32(1)], boxes[at + uint32(2)])


@func
def high_of(boxes, k):  # type: ignore[no-untyped-def]
    """Return the upper corner of a box."""
    at = 6 * uint32(k)
    return vec3f(boxes[at + uint32(3)], boxes[at + uint32(4)], boxes[at + uint32(5)])


@func
def put(boxes, k, low, high):  # type: ignore[no-untyped-def]
    """Write the corners of a box."""
    at = 6 * uint32(k)
    for c in range(3):
        boxes[at + uint32(c)], boxes[at + uint32(3 + c)] = low[c], high[c]


@func
def lower(a, least):  # type: ignore[no-untyped-def]
    """Return the least numbers of two vectors, the second one where a number is no number."""
    return vec3f(
        a[0] if a[0] < least[0] else least[0],
        a[1] if a[1] < least[1] else least[1],
        a[2] if a[2] < least[2] else least[2],
    )


@func
def upper(a, most):  # type: ignore[no-untyped-def]
    """Return the greatest numbers of two vectors, the second one where a number is no number."""
    return vec3f(
        a[0] if a[0] > most[0] else most[0],
        a[1] if a[1] > most[1] else most[1],
        a[2] if a[2] > most[2] else most[2],
    )


@func
def include(boxes, k, low, high):  # type: ignore[no-untyped-def]
    """Enlarge a box so that it holds another one."""
    put(boxes, k, lower(low, low_of(boxes, k)), upper(high, high_of(boxes, k)))


@func
def area(low, high):  # type: ignore[no-untyped-def]
    """Return half the surface of a box."""
    size = high - low
    return size[0] * size[1] + size[1] * size[2] + size[2] * size[0]


@func
def bin_of(items, p, axis, first, scale, bins):  # type: ignore[no-untyped-def]
    """Return the bin of a box: that of twice its centre along an axis."""
    at = 6 * uint32(p) + uint32(axis)
    k = int32((items[at] + items[at + uint32(3)] - first) * scale)
    # Rounding, and the greatest centre itself, may lead beyond the last bin.
    k = k if k > 0 else 0
    return k if k < bins else bins - 1


@func
def within(k):  # type: ignore[no-untyped-def]
    """Return the number of a bin as one of which the compiler sees that there is room for it."""
    return uint32(k) & uint32(BINS - 1)


@func
def balanced_border(counts, bins, n):  # type: ignore[no-untyped-def]
    """Return the last bin of the left side where the numbers of n boxes are closest."""
    best, least, right = bins // 2 - 1, n, 0
    for j in range(1, bins):
        k = bins - 1 - j
        right += counts[k + 1]
        more = n - 2 * right
        more = more if more > 0 else -more
        if more < least and right > 0 and right < n:
            best, least = k, more
    return best


@func
def best_border(boxes, counts, costs, bins):  # type: ignore[no-untyped-def]
    """Return the last bin of the left side where the expected cost of a query is least."""
    low, high = vec3f(_FAR, _FAR, _FAR), vec3f(-_FAR, -_FAR, -_FAR)
    # One sweep from the left keeps the cost of every left side, one from the right adds that of the right side.
    n = 0
    for j in range(bins):
        k = within(j)
        low, high = lower(low_of(boxes, k), low), upper(high_of(boxes, k), high)
        n += counts[k]
        costs[k] = area(low, high) * float32(n) if n > 0 else 0.0
    # If every border is as bad (areas that are NaN or infinite), the bins are halved.
    best, least = bins // 2 - 1, float32(_FAR)
    low, high = vec3f(_FAR, _FAR, _FAR), vec3f(-_FAR, -_FAR, -_FAR)
    m = 0
    for j in range(1, bins):
        k = bins - 1 - j
        right = within(k + 1)
        low, high = lower(low_of(boxes, right), low), upper(high_of(boxes, right), high)
        m += counts[right]
        cost = costs[within(k)] + (area(low, high) * float32(m) if m > 0 else 0.0)
        if cost < least and m > 0 and m < n:
            best, least = k, cost
    return best


@func
def border_of_groups(groups, order, begin, end):  # type: ignore[no-untyped-def]
    """Return where a range of boxes of several groups is split: between two groups, near the middle."""
    middle = (begin + end) // 2
    # The boxes are sorted by group. A group that fills the left half has no border before the middle.
    group = groups[order[middle]]
    at = middle
    while at > begin and groups[order[at - 1]] == group:
        at -= 1
    if at == begin:
        at = middle
        while groups[order[at]] == group:
            at += 1
    return at


@func
def exchange(items, order, p, q):  # type: ignore[no-untyped-def]
    """Exchange two of the boxes that are being sorted."""
    order[uint32(p)], order[uint32(q)] = order[uint32(q)], order[uint32(p)]
    for c in range(6):
        one, other = 6 * uint32(p) + uint32(c), 6 * uint32(q) + uint32(c)
        items[one], items[other] = items[other], items[one]


@func
def partition(items, order, begin, end, axis, first, scale, bins, border):  # type: ignore[no-untyped-def]
    """Put the boxes of bins up to a border first; return where the others begin."""
    left, right = begin, end
    while left < right:
        while left < right and bin_of(items, left, axis, first, scale, bins) <= border:
            left += 1
        while left < right and bin_of(items, right - 1, axis, first, scale, bins) > border:
            right -= 1
        if left < right:
            right -= 1
            exchange(items, order, left, right)
            left += 1
    return left


@func
def border_of_boxes(items, order, begin, end, depth, by_count, bounds, bin_boxes, counts, costs):  # type: ignore[no-untyped-def]
    """Sort a range of boxes into two sides; return where the right one begins."""
    middle, n = (begin + end) // 2, end - begin
    least, most = vec3f(_FAR, _FAR, _FAR), vec3f(-_FAR, -_FAR, -_FAR)
    for p in range(begin, end):
        # Twice the centre: halving would cost an operation and could round.
        centre = low_of(items, p) + high_of(items, p)
        least, most = lower(centre, least), upper(centre, most)
    for c in range(3):
        bounds[c], bounds[3 + c] = least[c], most[c]
    axis, extent = 0, bounds[3] - bounds[0]
    for c in range(1, 3):
        if bounds[3 + c] - bounds[c] > extent:
            axis, extent = c, bounds[3 + c] - bounds[c]
    at = middle
    # Boxes with one centre cannot be told apart, and a deep tree would overflow the stack of walks: both are halved.
    if extent > 0.0 and extent < float32(_FAR) and depth < _LEVEL_OF_HALVES:
        bins = n if n < BINS else BINS
        first, scale = bounds[axis], float32(bins) / extent
        for k in range(bins):
            counts[within(k)] = 0
            if by_count == 0:
                clear_box(bin_boxes, within(k))
        for p in range(begin, end):
            k = within(bin_of(items, p, axis, first, scale, bins))
            counts[k] += 1
            if by_count == 0:
                include(bin_boxes, k, low_of(items, p), high_of(items, p))
        border = bins // 2 - 1
        if by_count != 0:
            border = balanced_border(counts, bins, n)
        else:
            border = best_border(bin_boxes, counts, costs, bins)
        at = partition(items, order, begin, end, axis, first, scale, bins, border)
    # Both sides must have a box, or the tree would not end.
    return at if at > begin and at < end else middle


@func
def box_of_range(lowers, uppers, order, begin, end, boxes, node, item_boxes, keeps):  # type: ignore[no-untyped-def]
    """Write the box around a range, and with ``keeps`` & 1 each of its boxes."""
    low, high = vec3f(_FAR, _FAR, _FAR), vec3f(-_FAR, -_FAR, -_FAR)
    for p in range(begin, end):
        i = uint32(order[uint32(p)])
        a, b = lowers[i], uppers[i]
        low, high = lower(a, low), upper(b, high)
        if keeps & 1 != 0:
            for c in range(3):
                item_boxes[6 * uint32(p) + uint32(c)] = a[c]
                item_boxes[6 * uint32(p) + uint32(3 + c)] = b[c]
    put(boxes, node, low, high)


@func
def box_of_items(items, begin, end, boxes, node):  # type: ignore[no-untyped-def]
    """Write the box around a range of sorted boxes."""
    low, high = vec3f(_FAR, _FAR, _FAR), vec3f(-_FAR, -_FAR, -_FAR)
    for p in range(begin, end):
        low, high = lower(low_of(items, p), low), upper(high_of(items, p), high)
    put(boxes, node, low, high)


@func
def box_of_children(boxes, node, right, pairs, keeps):  # type: ignore[no-untyped-def]
    """Write the box around those of the children, and with ``keeps`` & 2 both in a record."""
    one, two, three, four = (
        low_of(boxes, node + 1),
        high_of(boxes, node + 1),
        low_of(boxes, right),
        high_of(boxes, right),
    )
    put(boxes, node, lower(three, one), upper(four, two))
    if keeps & 2 != 0:
        at = PAIR * uint32(node)
        for c in range(3):
            pairs[at + uint32(c)], pairs[at + uint32(3 + c)] = one[c], two[c]
            pairs[at + uint32(6 + c)], pairs[at + uint32(9 + c)] = three[c], four[c]


@func
def boxes_upward(lowers, uppers, order, links, boxes, item_boxes, pairs, keeps):  # type: ignore[no-untyped-def]
    """Write all boxes, children first."""
    count = links[0]
    for j in range(count):
        node = uint32(count - 1 - j)
        right = links[uint32(4) * node + uint32(3)]
        if right == 0:
            first, end = links[uint32(4) * node + uint32(1)], links[uint32(4) * node + uint32(2)]
            box_of_range(lowers, uppers, order, first, end, boxes, node, item_boxes, keeps)
        else:
            box_of_children(boxes, node, right, pairs, keeps)


@_alone
def build(  # type: ignore[no-untyped-def]
    lowers, uppers, groups, grouped: int, leaf_size: int, by_count: int, order, links, depths, boxes, items, table,
    pairs, keeps: int,
):  # fmt: skip
    """Build the whole tree, by one thread.

    A node's links are the end of the nodes below it, the first of the sorted boxes below it and the one after the last,
    and the right child, 0 for a leaf. The table is the number of groups, then their numbers, then their roots.
    """
    n = lowers.shape[0]
    stack, counts = zeros(shape=8 * DEEPEST, dtype=int32), zeros(shape=BINS, dtype=int32)
    bounds, costs = zeros(shape=6, dtype=float32), zeros(shape=BINS, dtype=float32)
    bin_boxes = zeros(shape=6 * BINS, dtype=float32)
    for p in range(n):
        order[p] = p
    if grouped != 0:
        # Groups end up as subtrees only if the boxes of each are next to one another.
        sort_cell(0, n, order, groups, 1)
    # The boxes themselves are sorted, so that the many passes over a range read memory in order.
    for p in range(n):
        i = uint32(order[p])
        put(items, p, lowers[i], uppers[i])
    nodes, top, found = 0, 1, 0
    # Each entry of the stack: first box, end, depth, and the parent to which the node is linked as its right child (-1
    # for a left one, which follows its parent).
    stack[0], stack[1], stack[2], stack[3] = 0, n, 0, -1
    while top > 0:
        top -= 1
        begin, end, depth, parent = stack[4 * top], stack[4 * top + 1], stack[4 * top + 2], stack[4 * top + 3]
        node, at = nodes, begin
        nodes += 1
        if parent >= 0:
            links[4 * parent + 3] = node
        is_mixed = False
        if grouped != 0:
            group = groups[order[begin]]
            is_mixed = group != groups[order[end - 1]]
            begins = begin == 0 or groups[order[begin if begin == 0 else begin - 1]] != group
            # The range is the root of its group if the group has no boxes outside of it. The conditional indices keep
            # the loads inside the array where there is no neighbour.
            if not is_mixed and begins and (end == n or groups[order[end if end < n else begin]] != group):
                table[1 + found], table[1 + n + found] = group, node
                found += 1
        if is_mixed:
            at = border_of_groups(groups, order, begin, end)
        elif end - begin == 2 and leaf_size == 1:
            at = begin + 1
        elif end - begin > leaf_size:
            at = border_of_boxes(items, order, begin, end, depth, by_count, bounds, bin_boxes, counts, costs)
        links[4 * node], links[4 * node + 1], links[4 * node + 2], links[4 * node + 3] = node + 1, begin, end, 0
        depths[node] = depth
        if at > begin:
            # The right side is pushed first, so that the left child is taken next and gets the next number.
            stack[4 * top], stack[4 * top + 1], stack[4 * top + 2], stack[4 * top + 3] = at, end, depth + 1, node
            top += 1
            stack[4 * top], stack[4 * top + 1], stack[4 * top + 2], stack[4 * top + 3] = begin, at, depth + 1, -1
            top += 1
    table[0] = found
    # An inner node's subtree ends where that of its right child does, which is known only once all nodes are numbered.
    for j in range(nodes):
        node = nodes - 1 - j
        if links[4 * node + 3] > 0:
            links[4 * node] = links[4 * links[4 * node + 3]]
    for j in range(nodes):
        node = uint32(nodes - 1 - j)
        right = links[uint32(4) * node + uint32(3)]
        if right == 0:
            first, end = links[uint32(4) * node + uint32(1)], links[uint32(4) * node + uint32(2)]
            box_of_items(items, first, end, boxes, node)
        else:
            box_of_children(boxes, node, right, pairs, keeps)


@_alone
def refit(lowers, uppers, order, links, boxes, item_boxes, pairs, keeps: int):  # type: ignore[no-untyped-def]
    """Recompute all boxes, by one thread."""
    boxes_upward(lowers, uppers, order, links, boxes, item_boxes, pairs, keeps)


@_integral
def refit_level(lowers, uppers, order, links, nodes, boxes, item_boxes, pairs, keeps: int):  # type: ignore[no-untyped-def]
    """Recompute the boxes of some nodes, whose children are up to date."""
    node = uint32(nodes[tid()])
    right = links[uint32(4) * node + uint32(3)]
    if right == 0:
        box_of_range(
            lowers, uppers, order, links[4 * node + 1], links[4 * node + 2], boxes, node, item_boxes, keeps
        )  # fmt: skip
    else:
        box_of_children(boxes, node, right, pairs, keeps)
