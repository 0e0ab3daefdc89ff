"""The scripts whose figures the table for the CPU has, in the order in which they run: the short ones come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Script:
    """One script of ``benchmarks/``.

    Attributes
    ----------
    name
        Its file, or the folder of its package.
    kind
        What its cases are, which the table says before their names.
    clock
        "wall", or "processor" for the time of all threads.
    positional
        Whether it takes the names of cases as they are; else after ``--only``.
    options
        What it is called with beside the case, so that it takes a few minutes at most.
    called
        What the table says for the beginning of a name.
    """

    name: str
    kind: str
    clock: str = "wall"
    positional: bool = False
    options: tuple[str, ...] = ()
    called: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where it is."""
        return FOLDER / self.name

    def arguments(self, *, quick: bool) -> tuple[str, ...]:
        """Return what it is called with for all of its cases."""
        return ("--quick",) if quick else self.options

    def command(self, case: str) -> str:
        """Return what one types to measure one case again."""
        chosen = f'"{case}"' if " " in case else case
        words = ["python", f"benchmarks/{self.name}", *self.options, *([] if self.positional else ["--only"]), chosen]
        return " ".join(words)

    def case(self, name: str) -> str:
        """Return what the table calls a case."""
        for begin, called in self.called.items():
            if name.startswith(begin):
                name = called + name.removeprefix(begin)
                break
        return f"{self.kind}: {name}"


_WORKLOADS = {
    "wave": "sin(a x) + y exp(-x x) of 4M elements,",
    "n-body": "n-body, 4,096 bodies,",
    "heat": "heat stencil of 1024 x 1024,",
    "mesh": "area of 500,000 triangles,",
}
_LIMIT = {
    "elementwise": "sin(a x) + y exp(-x x) of 1M elements",
    "n-body": "n-body, 4,096 bodies",
    "cloth": "cloth of 128 x 128, 50 steps",
    "mesh": "area of 180,000 triangles",
    "recurrence": "logistic recurrence of 64 trips",
    "mlp": "layer of 64 hidden units",
    "mandelbrot": "Mandelbrot iteration",
    "natural": "points on springs",
}
_FRAMEWORKS = {**_LIMIT, "nbody": _LIMIT["n-body"]}
_ADBENCH = {"gmm": "Gaussian mixture", "bundle": "bundle adjustment", "lstm": "LSTM"}

SCRIPTS = (
    Script("cpu.py", "kernel", called=_WORKLOADS),
    Script("launch_costs.py", "one of 200 launches"),
    Script("records.py", "one thread"),
    Script("limit", "forward and gradient", "processor", positional=True, called=_LIMIT),
    Script(
        "frameworks",
        "forward and gradient",
        "processor",
        positional=True,
        called={**_LIMIT, "nbody": "n-body, 4,096 bodies"},
    ),
    Script("startup.py", "process to its first gradient", options=("--rounds", "7")),
    Script("compile_families.py", "compiling", "processor"),
    Script("compile_time.py", "compiling"),
    Script("torch_interop.py", "PyTorch, 64 elements"),
    Script("jax_interop.py", "JAX"),
    Script("isosurfaces.py", "surface", "processor"),
    Script("meshes.py", "mesh", "processor"),
    Script("volumes.py", "sparse volume", "processor", options=("--rounds", "5")),
    Script("sparse_matrices.py", "sparse matrix", options=("--rounds", "5")),
    Script("linear_solvers.py", "an iteration", options=("--rounds", "5")),
    Script("tiles.py", "tiles", "processor", options=("--rounds", "15")),
    Script("adbench", "ADBench", "processor", positional=True, options=("--rounds", "9"), called=_ADBENCH),
)


def chosen(names: Iterable[str] = (), scripts: Iterable[Script] = SCRIPTS) -> list[Script]:
    """Return the scripts that are there, or those of them that are named.

    Raises
    ------
    ValueError
        For a name that no script has.
    """
    there = {script.name: script for script in scripts if script.path.exists()}
    known = {name.removesuffix(".py"): script for name, script in there.items()}
    wanted = [name.removesuffix(".py") for name in names]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no script {name!r}; there are {', '.join(there)}")
    return [script for name, script in known.items() if not wanted or name in wanted]
