"""``wp.sparse``: the sparse matrices of :mod:`diffkern.sparse`."""

from __future__ import annotations

from diffkern import sparse as _sparse
from diffkern.sparse import *  # noqa: F403

__all__ = _sparse.__all__
