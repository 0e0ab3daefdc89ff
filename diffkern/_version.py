"""The version, in the one place that the build and ``diffkern --version`` both read."""

from __future__ import annotations

__version__ = "0.2.0"
