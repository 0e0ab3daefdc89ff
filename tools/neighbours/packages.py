"""The packages that are run, and what is left out of them with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["MORE", "PACKAGES", "TESTS", "USUAL", "Package", "by_name", "modules_of"]

USUAL = "requirements.txt"
"""What the usual packages need, which are installed together."""


@dataclass(frozen=True)
class Package:
    """A published package that depends on Warp.

    Attributes
    ----------
    distribution : str
        Its name on the index.
    module : str
        What is imported.
    excluded : mapping
        Regular expressions of names of modules that are not imported, each with the reason.
    absent : mapping
        What its programs need that is not run here, each with the reason.
    requirements : str
        The file that says what is installed for it. A package with a file of its own has an environment of its own.
    """

    distribution: str
    module: str
    excluded: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    requirements: str = USUAL

    def why_excluded(self, module: str) -> str | None:
        """Return why a module is left out, None if it is not."""
        return next((why for pattern, why in self.excluded.items() if re.search(pattern, module)), None)


_TESTS = "tests of the package"
TESTS = {r"(\.|^)(tests?|conftest)\b|\.test_|_test$": _TESTS}
"""What is left out of any package."""
_WINDOW = "opens a window, or needs a package for that"

PACKAGES = (
    Package(
        "mujoco-warp", "mujoco_warp",
        {r"_test$|\.conftest$|test_util$|test_data": _TESTS, r"\.viewer$": _WINDOW},
        {"signed distances": "not among the programs"},
    ),
    Package(
        "nvalchemi-toolkit-ops", "nvalchemiops",
        {},
        {"cluster_tile": "for GPUs only"},
    ),
    Package("warp-nn", "warp_nn"),
    Package(
        "newton", "newton",
        {r"\.tests\b|\.test_": _TESTS, r"\.examples\..*__main__$|newton\.__main__$": "a command"},
        {
            "examples of robots, cameras, inverse kinematics": "download models, or run a network of PyTorch",
            "examples mpm": "more of warp.fem than is here",
            "diffsim.example_diffsim_bear": "takes more than five minutes under Warp",
            "other examples": "not among the programs",
        },
    ),
)  # fmt: skip
"""Those that are run, the ones that need least first."""

MORE = (
    Package(
        "xlb", "xlb",
        {r"\.experimental\.ooc\b": "needs CuPy"},
        {
            "boundaries of meshes": "construct a matrix of vectors, which Warp refuses too",
            "immersed boundaries": "areas of a mesh are computed on a GPU only",
            "forces in two dimensions": "the package itself reads a third component",
        },
        "requirements_xlb.txt",
    ),
    Package(
        "aimnet", "aimnet",
        {r"\.train\b": "needs packages for training", r"_triton$": "needs Triton"},
        {"trained networks": "downloaded; the weights are random"},
        "requirements_aimnet.txt",
    ),
    Package(
        "nvidia-physicsnemo", "physicsnemo",
        TESTS,
        {"models and their training": "need torchvision, and packages of their own"},
        "requirements_physicsnemo.txt",
    ),
)  # fmt: skip
"""Those that are run if they are named, each in an environment of its own."""


def by_name(name: str) -> Package:
    """Return a package by the name of its distribution."""
    return next(package for package in (*PACKAGES, *MORE) if package.distribution == name)


def modules_of(package: Package, site: Path) -> Iterator[str]:
    """Yield the modules of a package that is installed in a folder, whether they can be imported or not."""
    root = site / package.module
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(site).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
