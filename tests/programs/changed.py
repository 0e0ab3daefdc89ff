"""Programs of Numba's users after the one change: ``from numba import cuda`` becomes ``from diffkern import cuda``.

In: the name of a file of ``numba_cuda``. Out: the module, imported from a changed copy. Types that the same line
imports come from diffkern where it has them, and stay Numba's where it has not.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import diffkern as dk

__all__ = ["PROGRAMS", "changed"]

PROGRAMS = Path(__file__).parent / "numba_cuda"
_IMPORT = re.compile(r"^from numba(\.cuda\.random)? import (.*)$", re.MULTILINE)


def _from_diffkern(line: re.Match[str]) -> str:
    module, names = line[1] or "", line[2].split(", ")
    ours = [name for name in names if module or name == "cuda" or hasattr(dk, name)]
    theirs = [name for name in names if name not in ours]
    others = f"\nfrom numba import {', '.join(theirs)}" if theirs else ""
    return f"from diffkern{module} import {', '.join(ours)}{others}"


def changed(name: str, directory: Path) -> ModuleType:
    """Return a program as a module, from a copy in `directory` that imports from diffkern."""
    text, count = _IMPORT.subn(_from_diffkern, (PROGRAMS / f"{name}.py").read_text(encoding="utf-8"))
    assert count
    path = directory / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"changed_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
