"""A func in a file of its own, for errors that are reported here."""

from __future__ import annotations

import diffkern as dk


@dk.func
def neighbour(x: dk.array(dtype=float), i: int):
    return x[i + 1]
