"""Products of quaternions and of transforms, as the operator ``*`` has them.

Two values of one type give their product. A quaternion is (x, y, z, w), a transform a translation and a quaternion.
"""

from __future__ import annotations

from diffkern.frontend.terms.context import Context
from diffkern.ir import types as T
from diffkern.ir.nodes import Value

__all__ = ["product"]


def product(cx: Context, a: Value, b: Value) -> Value | None:
    """Return ``a * b`` of two quaternions or two transforms of one type, or None for anything else."""
    if a.type != b.type or not isinstance(a.type, T.Vec):
        return None
    if a.type.role is T.Role.QUATERNION:
        return cx.b.one("quat_mul", a, b)
    if a.type.role is T.Role.TRANSFORM:
        return _compose(cx, a, b)
    return None


def _compose(cx: Context, a: Value, b: Value) -> Value:
    """Return the transform of first ``b``, then ``a``: translation a.p + rotate(a.q, b.p), rotation a.q * b.q."""
    (pa, qa), (pb, qb) = _parts(cx, a), _parts(cx, b)
    p = cx.b.add(pa, _rotated(cx, qa, pb))
    q = cx.b.one("quat_mul", qa, qb)
    assert isinstance(a.type, T.Vec)
    return cx.b.construct(a.type, [*cx.b.components(p), *cx.b.components(q)])


def _parts(cx: Context, t: Value) -> tuple[Value, Value]:
    dtype, numbers = T.scalar_of(t.type), cx.b.components(t)
    return cx.b.construct(T.Vec(dtype, 3), numbers[:3]), cx.b.construct(T.quaternion(dtype), numbers[3:])


def _rotated(cx: Context, q: Value, v: Value) -> Value:
    """Return ``v * (2w² - 1) + 2 (u·v) u + 2w u×v`` for q = (u, w), which is a rotation if q has length 1."""
    b, dtype = cx.b, T.scalar_of(q.type)
    *xyz, w = b.components(q)
    u, two = b.construct(T.Vec(dtype, 3), xyz), b.const(2.0, dtype)
    twice = b.mul(two, w)
    along = b.one("scale", u, b.mul(two, b.one("dot", u, v)))
    across = b.one("scale", b.one("cross", u, v), twice)
    kept = b.one("scale", v, b.sub(b.mul(twice, w), b.const(1.0, dtype)))
    return b.add(b.add(kept, along), across)
