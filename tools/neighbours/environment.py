"""The environments in which packages are installed, made of their requirements where there are none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["make", "site_of", "versions"]

_HERE = Path(__file__).parent


def make(folder: Path, requirements: str) -> Path:
    """Make an environment in a folder, unless it is there; return its Python.

    Parameters
    ----------
    folder : Path
        Where it is to be.
    requirements : str
        The name of the file beside this one that has the packages, pinned.
    """
    python = folder / "bin" / "python"
    marker = folder / "requirements.txt"
    wanted = (_HERE / requirements).read_text(encoding="utf-8")
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", _HERE / requirements], check=True)
    marker.write_text(wanted, encoding="utf-8")
    return python


def site_of(python: Path) -> Path:
    """Return the folder with the packages of a Python."""
    return Path(_said(python, "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def versions(python: Path, distributions: list[str]) -> dict[str, str]:
    """Return the versions of distributions; those that are not installed are left out."""
    code = (
        "import sys, importlib.metadata as m\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(name, m.version(name))\n"
        "    except m.PackageNotFoundError: pass"
    )
    return dict(line.split(" ", 1) for line in _said(python, code, *distributions).splitlines())


def _said(python: Path, code: str, *arguments: str) -> str:
    command = [str(python), "-c", code, *arguments]
    return str(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
