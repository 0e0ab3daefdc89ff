"""Graphs: strongly connected parts, layers, and which edges go against the order that most edges agree with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def circles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the strongly connected parts of more than one node, the largest first."""
    return sorted((sorted(part) for part in components(edges) if len(part) > 1), key=lambda part: (-len(part), part))


def components(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the strongly connected parts, each behind those that it has edges to."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    is_open: set[str] = set()
    found: list[list[str]] = []
    for root in sorted(edges):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        open_.append(root)
        is_open.add(root)
        left = [(root, iter(sorted(edges[root])))]
        while left:
            node, following = left[-1]
            for other in following:
                if other not in edges:
                    continue
                if other not in number:
                    number[other] = low[other] = len(number)
                    open_.append(other)
                    is_open.add(other)
                    left.append((other, iter(sorted(edges[other]))))
                    break
                if other in is_open:
                    low[node] = min(low[node], number[other])
            else:
                left.pop()
                if left:
                    low[left[-1][0]] = min(low[left[-1][0]], low[node])
                if low[node] == number[node]:
                    part = open_[open_.index(node) :]
                    del open_[open_.index(node) :]
                    is_open.difference_update(part)
                    found.append(part)
    return found


def layers(edges: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return for each node how many nodes, circles counted as one, stand in the longest chain below it."""
    level: dict[str, int] = {}
    for part in components(edges):
        own = set(part)
        below = [level[other] for node in part for other in edges[node] if other in level and other not in own]
        level.update(dict.fromkeys(part, max(below, default=-1) + 1))
    return level


def below(edges: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return for each node all that are reached from it."""
    found: dict[str, set[str]] = {}
    for part in components(edges):
        reached = set(part) if len(part) > 1 else set()
        for node in part:
            for other in edges[node]:
                reached.add(other)
                reached |= found.get(other, set())
        found.update(dict.fromkeys(part, reached))
    return found


def against(weights: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    """Return edges without which there are no circles: of small weight, as a greedy order of each circle has them.

    The order is that of Eades, Lin and Smyth: sinks go last, sources first, and of the others the one goes first whose
    edges go out the most.
    """
    found: list[tuple[str, str]] = []
    for part in circles(edges_of(weights, {node for edge in weights for node in edge})):
        found += _against({edge: weight for edge, weight in weights.items() if {*edge} <= {*part}})
    return sorted(found)


def _against(weights: Mapping[tuple[str, str], int]) -> list[tuple[str, str]]:
    nodes = sorted({node for edge in weights for node in edge})
    left = {edge: weight for edge, weight in weights.items() if edge[0] != edge[1]}
    first: list[str] = []
    last: list[str] = []
    while nodes:
        leaving = dict.fromkeys(nodes, 0)
        entering = dict(leaving)
        for (a, b), weight in left.items():
            leaving[a] += weight
            entering[b] += weight
        if sinks := [node for node in nodes if not leaving[node]]:
            chosen = sinks
            last = [*sinks, *last]
        elif sources := [node for node in nodes if not entering[node]]:
            chosen = sources
            first += sources
        else:
            chosen = [max(nodes, key=lambda node: leaving[node] - entering[node])]
            first += chosen
        gone = set(chosen)
        nodes = [node for node in nodes if node not in gone]
        left = {edge: weight for edge, weight in left.items() if gone.isdisjoint(edge)}
    place = {node: k for k, node in enumerate([*first, *last])}
    return [edge for edge in weights if place[edge[0]] > place[edge[1]]]


def edges_of(pairs: Iterable[tuple[str, str]], nodes: Iterable[str]) -> dict[str, set[str]]:
    """Return the nodes that each has edges to."""
    found: dict[str, set[str]] = {node: set() for node in nodes}
    for a, b in pairs:
        found[a].add(b)
    return found
