"""Build the wheel and the sdist, check them, install each elsewhere, and try them with every Python that is named.

``--python`` names interpreters, this one by default. A line is printed for each; the exit status is 1 if one fails.
Checked without an interpreter: what wheel and sdist hold, ``twine check``, and that each link and image of the page
that the index shows leads outside of it. Tried with each Python, outside of the tree: a gradient and its comparison
with differences, ``diffkern doctor``, README's demonstration, and some tests of the sdist. What is built stays in
``--out``.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TESTS = (
    "tests/unit/frontend/test_annotation_texts.py",
    "tests/e2e/test_local_functions.py",
    "tests/e2e/test_launch_axes.py",
    "tests/unit/cache/test_store.py",
)
"""Run from the sdist with the wheel that is installed: annotations, source texts, launches, files of the cache."""

SHIPPED = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff", "LICENSE", "SECURITY.md", "changelog.d/README.md")

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
dk.testing.gradcheck(energy, dim=20, inputs=[dk.array(v[:20], dtype=float)], outputs=[dk.zeros(1)], order=2)
print("diffkern", dk.__version__, "gradient right", flush=True)
"""


def main(argv: list[str] | None = None) -> int:
    """Build, install and try; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", metavar="PATH", help="an interpreter; may be given several times")
    parser.add_argument("--out", type=Path, help="where wheel and sdist go")
    parser.add_argument("--cheap", action="store_true", help="check what is built, and try nothing")
    parser.add_argument("--uv", action="store_true", help="install with uv, in a fraction of the time")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="diffkern-release-") as folder:
        out = (options.out or Path(folder) / "dist").resolve()
        wheel, sdist = build(out)
        problems = [*contents(wheel, sdist), *described(wheel)]
        print("\n".join(problems) or f"ok     what {wheel.name} and {sdist.name} hold", flush=True)
        for number, python in enumerate([] if options.cheap else options.python or [sys.executable]):
            # The sdist once is enough: what it gives is a wheel again.
            for artifact in [wheel] if number else [wheel, sdist]:
                place = Path(folder) / f"{number}-{artifact.suffix[1:]}"
                problem = tried(python, artifact, sdist, place, options.uv)
                print(f"{'FAILED' if problem else 'ok':6} {artifact.name} with {python}", flush=True)
                if problem:
                    print(problem, flush=True)
                    problems.append(problem)
    return int(bool(problems))


def build(out: Path) -> tuple[Path, Path]:
    """Build the sdist, and of it the wheel; return the wheel and the sdist."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", out, ROOT], check=True, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def contents(wheel: Path, sdist: Path) -> list[str]:
    """Return what a wheel or an sdist has that it should not have, or lacks."""
    names = zipfile.ZipFile(wheel).namelist()
    found = [f"{wheel.name} has {n}" for n in names if not n.startswith(("diffkern/", "diffkern-"))]
    found += [f"{wheel.name} has {n}" for n in names if n.endswith((".pyc", ".o", ".ll", ".log"))]
    found += [f"{wheel.name} lacks {n}" for n in ("diffkern/py.typed", "diffkern/__init__.pyi") if n not in names]
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    found += [f"{sdist.name} lacks {n}" for n in (*SHIPPED, *TESTS) if n not in held]
    return found + [f"{sdist.name} has {n}" for n in sorted(held) if re.search(r"(^|/)\.(venv|git|nightly)/|\.pyc$", n)]


def described(wheel: Path) -> list[str]:
    """Return what is wrong with the page that the index makes of a wheel."""
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", wheel], capture_output=True, text=True, check=False
    )
    found = [f"{checked.stdout}{checked.stderr}"] if checked.returncode else []
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        page = email.message_from_bytes(archive.read(name)).get_payload()
    return found + [f"the index cannot follow the link to {target}" for target in inner_links(str(page))]


def inner_links(page: str) -> list[str]:
    """Return the targets of links and images of a page in Markdown that lead to files beside it."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if not target.startswith(("https://", "#"))]


def tried(python: str, artifact: Path, sdist: Path, folder: Path, uv: bool) -> str:
    """Install an artifact in an environment of its own and try it; return what went wrong, empty for nothing."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= {"DIFFKERN_CACHE_DIR": str(folder / "cache"), "MPLBACKEND": "agg"}
    inside = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    folder.mkdir()
    (folder / "smoke.py").write_text(SMOKE, encoding="utf-8")
    tests = unpacked_tests(sdist, folder)
    new = python if not uv else shutil.which(python) or python
    pip: list[str | Path] = ["uv", "pip"] if uv else [inside / "python", "-m", "pip"]
    where: list[str | Path] = ["-p", inside / "python"] if uv else []
    wanted = [f"{artifact}[plot]", "pytest>=8.2", "hypothesis>=6.100"]
    steps: list[list[str | Path]] = [
        ["uv", "venv", "-q", "-p", new, folder / "env"] if uv else [python, "-m", "venv", folder / "env"],
        [*pip, "install", "-q", *where, *wanted],
        [*pip, "check", *where],
        [inside / "python", folder / "smoke.py", str(ROOT)],
        [inside / "diffkern", "doctor"],
        [inside / "diffkern", "--version"],
        [inside / "diffkern", "demo"],
        [inside / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tests, *TESTS],
    ]
    for step in steps:
        place = tests if "pytest" in step else folder
        done = subprocess.run(step, cwd=place, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{' '.join(map(str, step))}\n{done.stdout}{done.stderr}"
    return ""


def unpacked_tests(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist without the package, so that its tests take the one that is installed."""
    with tarfile.open(sdist) as archive:
        kept = [m for m in archive.getmembers() if m.name.partition("/")[2].partition("/")[0] != "diffkern"]
        archive.extractall(folder / "sdist", members=kept)
    (tests,) = (folder / "sdist").iterdir()
    return tests


if __name__ == "__main__":
    sys.exit(main())
