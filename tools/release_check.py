"""Build the wheel and the sdist, install each elsewhere, and try them with every Python that is named.

In: this tree, and interpreters (``--python``, this one by default). Out: a line for each; exit status 1 if one fails.
What is built stays in ``--out``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SMOKE = """
import sys
import numpy as np
import diffkern as dk

assert not dk.__file__.startswith(sys.argv[1]), dk.__file__

@dk.kernel
def energy(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, dk.sin(x[i]) * x[i])

x = dk.array(np.linspace(0.0, 2.0, 1000), dtype=float, requires_grad=True)
total = dk.zeros(1, dtype=float, requires_grad=True)
with dk.Tape() as tape:
    dk.launch(energy, dim=1000, inputs=[x], outputs=[total])
tape.backward(total)
v = x.numpy().astype(np.float64)
assert np.allclose(x.grad.numpy(), np.cos(v) * v + np.sin(v), rtol=1e-5, atol=1e-6)
print("diffkern", dk.__version__, "gradient right", flush=True)
"""


def main(argv: list[str] | None = None) -> int:
    """Build, install and try; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", metavar="PATH", help="an interpreter; may be given several times")
    parser.add_argument("--out", type=Path, help="where wheel and sdist go")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="diffkern-release-") as folder:
        out = (options.out or Path(folder) / "dist").resolve()
        wheel, sdist = build(out)
        failed = False
        for number, python in enumerate(options.python or [sys.executable]):
            # The sdist once is enough: what it gives is a wheel again.
            for artifact in [wheel] if number else [wheel, sdist]:
                problem = tried(python, artifact, Path(folder) / f"{number}-{artifact.suffix[1:]}")
                print(f"{'FAILED' if problem else 'ok':6} {artifact.name} with {python}", flush=True)
                if problem:
                    print(problem)
                    failed = True
    return int(failed)


def build(out: Path) -> tuple[Path, Path]:
    """Build the sdist, and of it the wheel; return the wheel and the sdist."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", out, ROOT], check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    strange = [n for n in names if not n.startswith(("diffkern/", "diffkern-")) or n.endswith((".pyc", ".o"))]
    if strange or "diffkern/py.typed" not in names or "diffkern/__init__.pyi" not in names:
        raise SystemExit(f"{wheel.name} has what it should not, or lacks its types: {strange}")
    return wheel, sdist


def tried(python: str, artifact: Path, folder: Path) -> str:
    """Install an artifact in an environment of its own and try it; return what went wrong, empty for nothing."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environment["DIFFKERN_CACHE_DIR"] = str(folder / "cache")
    inside = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    folder.mkdir()
    (folder / "smoke.py").write_text(SMOKE, encoding="utf-8")
    steps: list[list[str | Path]] = [
        [python, "-m", "venv", folder / "env"],
        [inside / "python", "-m", "pip", "install", "-q", artifact],
        [inside / "python", "-m", "pip", "check"],
        [inside / "python", folder / "smoke.py", str(ROOT)],
        [inside / "diffkern", "doctor"],
        [inside / "diffkern", "--version"],
    ]
    for step in steps:
        done = subprocess.run(step, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{' '.join(map(str, step))}\n{done.stdout}{done.stderr}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
