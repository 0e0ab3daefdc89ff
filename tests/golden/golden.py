"""Golden files: text that must not change unasked.

``DIFFKERN_UPDATE_GOLDEN=1`` writes what was found instead of comparing; the diff is then reviewed like code.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parent


def check_golden(name: str, text: str) -> None:
    """Compare text with ``tests/golden/<name>.txt``."""
    path = ROOT / f"{name}.txt"
    if os.environ.get("DIFFKERN_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path} is missing; DIFFKERN_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(encoding="utf-8")
