"""miniBUDE: the energies of poses of a ligand near a protein, with gradients by poses, atoms and force field."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import diffkern as dk

from .application import Application, Program, register
from .originals import against_differences, built, difference_of, processor_time

ACCEPTS, GIVES = 70, 69
"""Codes of the force field for how an atom bonds with hydrogen: both ways, or by giving."""
HARDNESS, CHARGE, NONPOLAR, POLAR = 38.0, 45.0, 5.5, 1.0
ATOM = np.dtype([("place", "<f4", 3), ("kind", "<i4")])
KIND = np.dtype([("bond", "<i4"), ("radius", "<f4"), ("hydrophobicity", "<f4"), ("charge", "<f4")])
FILES = {"ligand": ATOM, "protein": ATOM, "forcefield": KIND}


@cache
def kernels(real: Any) -> SimpleNamespace:
    """The structs and the kernel for numbers of a type."""
    point = dk.types.vector(3, real)

    @dk.struct
    class Atom:
        place: point
        kind: int

    @dk.struct
    class Kind:
        bond: int
        radius: real
        hydrophobicity: real
        charge: real

    @dk.func
    def turned(x: real, y: real, z: real, p: point):
        """A point turned about the axes x, y, z, one after the other."""
        sx, cx, sy, cy, sz, cz = dk.sin(x), dk.cos(x), dk.sin(y), dk.cos(y), dk.sin(z), dk.cos(z)
        return point(
            cy * cz * p[0] + (sx * sy * cz - cx * sz) * p[1] + (cx * sy * cz + sx * sz) * p[2],
            cy * sz * p[0] + (sx * sy * sz + cx * cz) * p[1] + (cx * sy * sz - sx * cz) * p[2],
            -sy * p[0] + sx * cy * p[1] + cx * cy * p[2],
        )

    @dk.func
    def ramp(x: real):
        """From 1 to 0 as x grows from 0 to 1."""
        return dk.clamp(1.0 - x, 0.0, 1.0)

    @dk.func
    def electrostatic(a: Kind, b: Kind, gap: real):
        slope = dk.where(a.bond == ACCEPTS and b.bond == ACCEPTS, 0.25, 0.5)
        strength = CHARGE * a.charge * b.charge
        if a.bond == GIVES or b.bond == GIVES:
            strength = -dk.abs(strength)
        return strength * ramp(gap * slope)

    @dk.func
    def desolvation(a: Kind, b: Kind, gap: real):
        """Of a ligand's atom a and a protein's atom b, of which at least one is nonpolar."""
        p, q = a.hydrophobicity, b.hydrophobicity
        slope = dk.where(p < 0.0 and q < 0.0, 1.0 / NONPOLAR, 1.0 / POLAR)
        strength = dk.where(q < 0.0 and p > 0.0, -q, q) + dk.where(q > 0.0 and p < 0.0, -p, p)
        return dk.where(q < 0.0 or (q > 0.0 and p < 0.0), strength, 0.0) * ramp(gap * slope)

    @dk.kernel
    def fasten(
        poses: dk.array2d[real],
        ligand: dk.array[Atom],
        protein: dk.array[Atom],
        kinds: dk.array[Kind],
        energies: dk.array[real],
    ):
        i = dk.tid()
        shift = point(poses[3, i], poses[4, i], poses[5, i])
        total = real(0.0)
        for k in range(len(ligand)):
            place = shift + turned(poses[0, i], poses[1, i], poses[2, i], ligand[k].place)
            a = kinds[ligand[k].kind]
            for m in range(len(protein)):
                b = kinds[protein[m].kind]
                reach = a.radius + b.radius
                distance = dk.length(place - protein[m].place)
                gap = distance - reach
                steric = 2.0 * HARDNESS * ramp(distance * (1.0 / reach))
                total += steric + electrostatic(a, b, gap) + desolvation(a, b, gap)
        energies[i] = 0.5 * total

    return SimpleNamespace(Atom=Atom, Kind=Kind, fasten=fasten)


def deck(poses: int, ligand: int = 26, protein: int = 938) -> dict[str, Any]:
    """A deck of the size and the make-up of the published one, drawn at random; legacy streams stay the same."""
    random = np.random.RandomState(5)
    kinds = np.zeros(12, KIND)
    kinds["bond"] = [45, 45, 45, 70, 70, 69, 69, 68, 68, 70, 45, 69]
    kinds["radius"] = random.uniform(1.4, 2.1, 12)
    kinds["hydrophobicity"] = [-0.47, -0.79, -0.68, -0.69, 2.3, 0.62, 1.89, 0.21, 0.76, 0.5, 0.0, -0.3]
    kinds["charge"] = [0.0, 0.0, -0.13, 1.0, -0.75, 0.1, 0.66, 0.54, -0.05, 2.0, 0.0, 0.4]
    made: dict[str, Any] = {"forcefield": kinds}
    for name, count, size in (("ligand", ligand, 5.0), ("protein", protein, 19.0)):
        atoms = np.zeros(count, ATOM)
        atoms["place"], atoms["kind"] = random.uniform(-size, size, (count, 3)), random.randint(0, 12, count)
        made[name] = atoms
    made["poses"] = np.empty((6, poses), "<f4")
    made["poses"][:3], made["poses"][3:] = random.uniform(-np.pi, np.pi, (3, poses)), random.uniform(-7, 7, (3, poses))
    return made


def published_deck(source: Path, poses: int) -> dict[str, Any]:
    """Read the deck ``bm1`` of a checkout."""
    folder = source / "miniBUDE" / "data" / "bm1"
    made: dict[str, Any] = {name: np.fromfile(folder / f"{name}.in", kind) for name, kind in FILES.items()}
    made["poses"] = np.ascontiguousarray(np.fromfile(folder / "poses.in", "<f4").reshape(6, -1)[:, :poses])
    return made


class Docking(Program):
    """The energies of poses, and the gradient of their sum by everything that has one."""

    def __init__(self, given: dict[str, Any], real: Any = dk.float32) -> None:
        made = kernels(real)
        self.given = given
        self.poses = dk.array(given["poses"].astype(real), requires_grad=True)
        self.ligand, self.protein, self.kinds = (
            structs(given[name], kind)
            for name, kind in (("ligand", made.Atom), ("protein", made.Atom), ("forcefield", made.Kind))
        )
        self.energies = dk.zeros(self.poses.shape[1], dtype=real, requires_grad=True)
        self.parameters = (self.poses, self.ligand, self.protein, self.kinds)
        self.launch = (made.fasten, len(self.energies), [*self.parameters], [self.energies])
        with dk.record() as self._primal:
            dk.launch(*self.launch)
        with dk.record(run=False) as sequence:  # its adjoint sets gradients to zero first
            dk.launch(*self.launch)
        self._gradient = sequence.adjoint(grads={self.energies: dk.ones_like(self.energies)})

    def primal(self) -> None:
        self._primal.replay()

    def gradient(self) -> None:
        self._gradient.replay()

    def check(self) -> float:
        exact = Docking(self.given, dk.float64)
        return against_differences(exact, exact.parameters)


def structs(given: Any, kind: Any) -> Any:
    """Return an array of structs with the fields of a structured array."""
    made = dk.zeros(len(given), dtype=kind, requires_grad=True)
    for name in given.dtype.names:
        field = made.field(name)
        field.assign(given[name].astype(field.numpy().dtype))
    return made


KNOWN = (471.826, 927.371, 531.304, 286.547, 692.024, 752.042, 186.04, 332.891)
"""Energies of the first of 16 poses of :func:`deck` as the original (570f66c) prints them, with the deck written by
:func:`written`: ``bude --deck DIR -n 16 -i 1 -p 1``."""


def validate(source: Path | None) -> tuple[float, str]:
    """Compare energies with those that are published with the deck, or with the original's for a deck of our own."""
    if source is None:
        program = Docking(deck(16))
        program.primal()
        return difference_of(program.energies.numpy()[: len(KNOWN)], KNOWN), "miniBUDE's energies, stated as data"
    program = Docking(published_deck(source, 2048))
    program.primal()
    expected = np.loadtxt(source / "miniBUDE" / "data" / "bm1" / "ref_energies.out", max_rows=2048)
    return difference_of(program.energies.numpy(), expected), "miniBUDE's reference energies of deck bm1"


def written(poses: int, folder: Path) -> None:
    """Write a deck of our own in the files of the original program."""
    made = deck(poses)
    for name in (*FILES, "poses"):
        made[name].tofile(folder / f"{name}.in")
    (folder / "ref_energies.out").write_text("0.0\n" * poses, encoding="utf-8")


def original(source: Path, poses: int) -> dict[str, float]:
    """Measure the serial program with the number of poses at once that is fastest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "bude"
        flags = ("-std=c++17", "-DSERIAL", "-DUSE_PPWI=1,16,64")
        if not built("g++", [source / "miniBUDE" / "src" / "main.cpp"], flags, program):
            return {}
        written(poses, folder)

        def seconds(iterations: int, together: int) -> float:
            options = ("--deck", name, "-n", str(poses), "-i", str(iterations), "-p", str(together))
            return processor_time([str(program), *options])

        return {"gcc": min((seconds(5, p) - seconds(1, p)) / 4 for p in (1, 16, 64))}


NOTEBOOK = "of a Xeon 8375C (SC22, enzyme-sc22/plots.ipynb)"
register(
    Application(
        "minibude",
        lambda poses: Docking(deck(poses)),
        (512, 2048),
        64,
        validate,
        (
            (f"C++ with OpenMP, 1 thread {NOTEBOOK}", 47545.798 / 12328.132),
            (f"C++ with OpenMP, its optimizations on, 1 thread {NOTEBOOK}", 27878.424 / 11729.806),
            (f"Julia tasks, 1 thread {NOTEBOOK}", 10801.994 / 1045.92),
        ),
        lambda: [kernels(dk.float32).fasten],
        original,
    )
)
