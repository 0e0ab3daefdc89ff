"""Where the project is; the packages that came along with it, if any, can be imported from here on."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["PROJECT"]

PROJECT = Path(__file__).resolve().parents[2]

sys.path.append(str(PROJECT.parent / "site"))
