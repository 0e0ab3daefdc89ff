"""Reads the published pictures and brings them to a size: the same for both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def picture(path: Path) -> np.ndarray[Any, Any]:
    """Return a picture's blue, green and red as bytes, as OpenCV does."""
    from matplotlib.image import imread

    found = np.asarray(imread(path))
    if found.dtype != np.uint8:
        found = np.rint(found * 255.0).astype(np.uint8)
    return np.ascontiguousarray(found[:, :, 2::-1])


def resized(image: np.ndarray[Any, Any], columns: int, rows: int) -> np.ndarray[Any, Any]:
    """Return a picture of another size by bilinear interpolation between the centres of its pixels."""
    y = np.clip((np.arange(rows) + 0.5) * image.shape[0] / rows - 0.5, 0.0, image.shape[0] - 1.0)
    x = np.clip((np.arange(columns) + 0.5) * image.shape[1] / columns - 0.5, 0.0, image.shape[1] - 1.0)
    top, left = np.minimum(y.astype(int), image.shape[0] - 2), np.minimum(x.astype(int), image.shape[1] - 2)
    extra = (1,) * (image.ndim - 2)
    v, u = (y - top).reshape(-1, 1, *extra), (x - left).reshape(1, -1, *extra)
    pick = lambda i, j: image[np.ix_(top + i, left + j)].astype(np.float64)  # noqa: E731
    return (1 - v) * ((1 - u) * pick(0, 0) + u * pick(0, 1)) + v * ((1 - u) * pick(1, 0) + u * pick(1, 1))
