"""The cost of k-means clustering, and the direction of Newton's method: gradient over the diagonal of the Hessian."""

from functools import cache
from typing import Any

import numpy as np

import diffkern as dk
from benchmarks.outside.gradbench.protocol import Given, Program

REAL = dk.float64


@cache
def kernels(dimensions: int) -> tuple[Any, Any, Any]:
    """The kernels for points of a number of coordinates: costs, derivatives, and the direction."""
    point = dk.types.vector(dimensions, REAL)

    @dk.func
    def square(centroid: point, x: point):
        away = x - centroid
        return dk.dot(away, away)

    @dk.func
    def nearest(x: point, centroids: dk.array[point]):
        index, least = 0, square(centroids[0], x)
        for j in range(1, len(centroids)):
            distance = square(centroids[j], x)
            if distance < least:
                index, least = j, distance
        return index

    @dk.kernel
    def costs(points: dk.array[point], centroids: dk.array[point], value: dk.array[REAL]):
        x = points[dk.tid()]
        dk.atomic_add(value, 0, square(centroids[nearest(x, centroids)], x))

    @dk.kernel
    def derivatives(
        points: dk.array[point], centroids: dk.array[point], first: dk.array[point], second: dk.array[point]
    ):
        x = points[dk.tid()]
        j = nearest(x, centroids)
        (slope, _), (curvature, _) = dk.jvp(dk.grad(square))(centroids[j], x, point(1.0), point(0.0))
        dk.atomic_add(first, j, slope)
        dk.atomic_add(second, j, curvature)

    @dk.kernel
    def directions(first: dk.array[point], second: dk.array[point], direction: dk.array[point]):
        j = dk.tid()
        direction[j] = dk.cw_div(first[j], second[j])

    return costs, derivatives, directions


def _arrays(given: Given) -> tuple[Any, Any, tuple[Any, Any, Any]]:
    dimensions = len(given["points"][0])
    point = dk.types.vector(dimensions, REAL)
    points, centroids = (dk.array(np.array(given[name]), dtype=point) for name in ("points", "centroids"))
    return points, centroids, kernels(dimensions)


def cost(given: Given) -> Program:
    """The sum of the squares of the distances of points from their nearest centroids."""
    points, centroids, (costs, _, _) = _arrays(given)
    value = dk.zeros(1, dtype=REAL)
    with dk.record() as program:
        value.zero_()
        dk.launch(costs, len(points), [points, centroids], [value])
    return Program(program.replay, lambda: float(value.numpy()[0]))


def direction(given: Given) -> Program:
    """The quotient of first and second derivatives by the centroids."""
    points, centroids, (_, derivatives, directions) = _arrays(given)
    first, second, found = (dk.zeros_like(centroids) for _ in range(3))
    with dk.record() as program:
        first.zero_()
        second.zero_()
        dk.launch(derivatives, len(points), [points, centroids], [first, second])
        dk.launch(directions, len(centroids), [first, second], [found])
    return Program(program.replay, lambda: found.numpy().tolist())


FUNCTIONS = {"cost": cost, "dir": direction}
