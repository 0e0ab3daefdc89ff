"""Norms of vectors."""

from __future__ import annotations

from diffkern.lang.library import built_in
from diffkern.library.language import Float, dot, length, sqrt, vector

__all__ = ["norm_huber", "norm_l1", "norm_l2", "norm_pseudo_huber", "smooth_normalize"]


@built_in()
def norm_l1(v: vector) -> Float:
    """The sum of the absolute values.

    Derivative: the signs of the components.

    Kinks: 0 for a component that is 0.

    Example: y[i] = dk.norm_l1(u)
    """
    # Not from 0.0 on, so that the sum has the scalar type of the vector.
    total = abs(v[0])
    for k in range(1, len(v)):
        total += abs(v[k])
    return total


@built_in()
def norm_l2(v: vector) -> Float:
    """The length.

    Derivative: v / r.

    Kinks: 0 where v is 0.

    Example: y[i] = dk.norm_l2(u)
    """
    return length(v)


@built_in()
def norm_huber(v: vector, delta: Float = 1.0) -> Float:
    """Half the squared length where the length is at most delta, else delta * (length - delta / 2).

    Derivative: v where the length is at most delta, else delta * v / length; with respect to delta, 0 and length -
    delta.

    Kinks: exists everywhere; 0 where v is 0.

    Example: y[i] = dk.norm_huber(u, 2.0)
    """
    a = dot(v, v)
    if a <= delta * delta:
        return 0.5 * a
    return delta * (sqrt(a) - 0.5 * delta)


@built_in()
def norm_pseudo_huber(v: vector, delta: Float = 1.0) -> Float:
    """delta * sqrt(1 + dot(v, v) / delta ** 2), a smooth norm_huber.

    Derivative: v / sqrt(1 + dot(v, v) / delta ** 2) / delta; with respect to delta, the inverse of that root.

    Kinks: exists everywhere; 0 where v is 0.

    Example: y[i] = dk.norm_pseudo_huber(u, 2.0)
    """
    return delta * sqrt(1.0 + dot(v, v) / (delta * delta))


@built_in()
def smooth_normalize(v: vector, delta: Float = 1.0) -> vector:
    """v / norm_pseudo_huber(v, delta).

    Derivative: that of the quotient.

    Kinks: exists everywhere; 1 / delta where v is 0.

    Example: w[i] = dk.smooth_normalize(u, 2.0)
    """
    return v / norm_pseudo_huber(v, delta)
