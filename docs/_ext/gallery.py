"""The gallery: cards for ``examples.rst``, and a page and a notebook for each program, made when Sphinx begins.

In: ``examples``; figures and ``results.json`` of ``docs/gallery``, which ``tools/gallery.py`` writes. Out: files in
``docs/gallery/pages``, which are not kept. No program is run.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, GALLERY = ROOT / "examples", ROOT / "docs" / "gallery"


@dataclass(frozen=True)
class Program:
    """What the gallery says of a program, and which part of its figure is the thumbnail: left, top, right, bottom."""

    title: str
    text: str
    part: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    animated: bool = False


PROGRAMS = {
    "flood": Program(
        "The rain behind a flood",
        "Shallow water on a real terrain, 100 time steps. The rainfall is recovered from the water depths it left.",
        (0.0, 0.0, 0.66, 0.5),
    ),
    "fluid": Program(
        "Smoke that takes a shape",
        "Stable fluids. The initial velocity is found that carries the smoke into a given shape.",
        (0.325, 0.0, 0.635, 1.0),
    ),
    "plume": Program(
        "The inflow behind a plume",
        "A stable fluid with an implicit pressure. How strongly two nozzles blew is found from pictures of the smoke.",
        (0.38, 0.0, 1.0, 1.0),
    ),
    "soft_body": Program(
        "A soft body learns to walk",
        "The material point method. Muscles learn from the gradient of where the body is after 600 steps.",
        (0.34, 0.0, 0.67, 1.0),
    ),
    "cloth": Program(
        "How stiff is this cloth?",
        "A cloth falls into the wind. Its stiffness, the drag and the wind are found from a few points on it.",
        (0.25, 0.0, 0.75, 1.0),
    ),
    "drape": Program(
        "A cloth in large time steps",
        "Implicit steps, each a sparse system with a derivative. Stiffness and wind are found from a few points.",
        (0.25, 0.0, 0.75, 1.0),
    ),
    "cantilever": Program(
        "The best bracket of a given weight",
        "Topology optimisation. Finite elements are assembled, solved and differentiated by the density of each cell.",
        (0.318, 0.0, 0.64, 0.92),
    ),
    "torsion": Program(
        "The section that resists twisting",
        "Poisson's equation on triangles, differentiated by their nodes. A square becomes a disk.",
        (0.0, 0.0, 0.645, 1.0),
    ),
    "beam": Program(
        "The weak spot of a beam",
        "Linear elasticity on triangles, differentiated by material, load and nodes. Moduli follow from displacements.",
        (0.13, 0.0, 0.6, 1.0),
    ),
    "hook": Program(
        "The stiffest hook of a given area",
        "Linear elasticity, differentiated by shape. The hook becomes thick where it is bent.",
        (0.0, 0.0, 0.605, 1.0),
    ),
    "pipe": Program(
        "A pipe under pressure",
        "Linear elasticity on tetrahedra, differentiated by shape, load and material, beside Lame's solution.",
    ),
    "rust": Program(
        "Rust within a pipe",
        "Elasticity on tetrahedra. How deep a wall has rusted within is found from how its outside moves.",
        (0.0, 0.0, 0.68, 1.0),
    ),
    "heat": Program(
        "The path of a torch",
        "Heat conduction in a plate. The path of the source is found from 64 thermometers.",
        (0.05, 0.0, 0.58, 1.0),
        animated=True,
    ),
    "seismic": Program(
        "What lies under the ground",
        "Full-waveform inversion. The speed of sound in each cell is found from seismograms.",
        (0.0, 0.0, 0.6, 1.0),
    ),
    "dam_break": Program(
        "A dam breaks",
        "Smoothed particles on a hash grid, beside an experiment of 1952. The gradient goes through the grids.",
        (0.0, 0.2, 1.0, 0.58),
    ),
    "billiards": Program(
        "Where to aim",
        "One thread plays a whole game of billiards. The gradient goes back through all collisions.",
        (0.0, 0.0, 0.63, 1.0),
    ),
    "robot_arm": Program(
        "Arms that reach for poses",
        "Chains of seven joints as products of transforms. All angles follow the gradient of the tool's pose.",
        (0.0, 0.0, 0.47, 1.0),
    ),
    "mujoco_arm": Program(
        "What is this arm made of?",
        "An arm in MuJoCo Warp. Masses, damping and friction are found from the motion of its joints.",
        (0.0, 0.0, 0.5, 1.0),
    ),
    "mujoco_humanoid": Program(
        "A humanoid keeps its balance",
        "The humanoid of MuJoCo Warp. The torques of its first second follow the gradient through its contacts.",
        (0.4, 0.0, 0.8, 1.0),
    ),
    "sdf": Program(
        "The scene behind a picture",
        "Inverse rendering of a scene of signed distances. Shapes, colours and light are recovered from four pictures.",
        (0.0, 0.0, 0.75, 1.0),
    ),
    "mesh": Program(
        "A shape from its silhouettes",
        "A soft rasteriser of triangle meshes. A sphere is deformed into the chess piece whose silhouettes were seen.",
        (0.345, 0.0, 0.64, 1.0),
    ),
    "pose": Program(
        "Where is this thing?",
        "Rays through a tree of triangles. Position and orientation of a mesh are found from depth images.",
        (0.0, 0.0, 0.475, 1.0),
    ),
    "wrap": Program(
        "A mesh that wraps a scan",
        "Distances between surfaces, differentiated by vertices. A ball becomes the chess piece that was scanned.",
        (0.4, 0.0, 0.6, 1.0),
    ),
    "distances": Program(
        "A scan as signed distances",
        "A sparse volume is fitted to points and normals. What its surface encloses is compared with the truth.",
        (0.0, 0.0, 0.61, 1.0),
    ),
    "splats": Program(
        "A photograph as a sum of Gaussians",
        "Gaussian splatting in two dimensions. A hash grid finds the Gaussians near each pixel.",
        (0.0, 0.0, 0.8, 1.0),
    ),
    "neural_field": Program(
        "A photograph in a network",
        "A neural field with tables of features. Each thread evaluates the tables and layers at one point.",
        (0.395, 0.0, 0.785, 1.0),
    ),
    "terrain": Program(
        "Where was this picture taken?",
        "A terrain of noise, lit by a low sun. Place, view and sun are found from the shading alone.",
        (0.0, 0.0, 0.735, 1.0),
    ),
    "bundle": Program(
        "Aerial triangulation",
        "Bundle adjustment over a real terrain. Rows of the Jacobian come from the adjoint of one projection.",
        (0.0, 0.0, 0.63, 1.0),
    ),
    "registration": Program(
        "Two scans of one thing",
        "Clouds of points, 40 % of them matched wrongly. The gradient goes through a singular value decomposition.",
    ),
    "heston": Program(
        "A market of options",
        "Calibration of the Heston model by Monte Carlo. Recorded launches give the Jacobian.",
    ),
    "tile_mlp": Program(
        "Handwritten digits",
        "A network of tile kernels. Each block evaluates both layers on a tile of digits.",
    ),
    "tile_nbody": Program(
        "A cluster of stars",
        "Forces between all bodies, tile by tile. The energy is that of the start after 200 steps.",
    ),
    "sysid_jax": Program(
        "A flood in JAX",
        "The kernels of the flood in a ``lax.scan``. Optax finds the rain from gauges in the rivers.",
        (0.0, 0.0, 1.0, 0.47),
    ),
    "flood_torch": Program(
        "A flood in PyTorch",
        "The kernels of the flood in a module. ``torch.optim`` finds the rain.",
        (0.345, 0.0, 1.0, 0.47),
    ),
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write(GALLERY / "pages"))
    return {"parallel_read_safe": True}


def write(pages: Path) -> None:
    """Write cards, pages and notebooks."""
    results = json.loads((GALLERY / "results.json").read_text(encoding="utf-8"))
    pages.mkdir(exist_ok=True)
    shown = {name: program for name, program in PROGRAMS.items() if name in results}
    cards = "".join(card(name, program, results[name]) for name, program in shown.items())
    files = {"cards.inc": f".. grid:: 1 2 3 3\n   :gutter: 3\n\n{cards}"}
    files["contents.inc"] = ".. toctree::\n   :hidden:\n\n" + "".join(f"   gallery/pages/{name}\n" for name in shown)
    for name, program in shown.items():
        files[f"{name}.rst"] = page(name, program, results[name])
        files[f"{name}.ipynb"] = json.dumps(notebook(name), indent=1, ensure_ascii=False) + "\n"
    for file, text in files.items():
        if not (pages / file).is_file() or (pages / file).read_text(encoding="utf-8") != text:
            (pages / file).write_text(text, encoding="utf-8")  # what is as it was is not built anew


def card(name: str, program: Program, result: dict) -> str:
    lines = [
        f".. grid-item-card:: {program.title}",
        f"   :img-top: gallery/{name}_thumbnail.jpg",
        f"   :link: gallery/pages/{name}",
        "   :link-type: doc",
        "",
        f"   {program.text}",
        "",
        "   .. card-footer::",
        "",
        f"      ``{name}.py``, {result['processor_seconds']} s of processor time",
    ]
    return "".join(f"   {line}\n" for line in lines) + "\n"


def page(name: str, program: Program, result: dict) -> str:
    """A program's page: what it says of itself, its figure, what it prints, its source."""
    text = str(ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))))
    figure = f"../{name}.gif" if program.animated else f"../{name}.jpg"
    printed = "\n".join(f"   {line}" for line in result["printed"])
    return f"""{program.title}
{"=" * len(program.title)}

{text.replace("`dk.grad`", "``dk.grad``")}

.. image:: {figure}
   :alt: {program.text}
   :width: 100%

``diffkern demo {name}``, or ``python examples/{name}.py``, took {result["processor_seconds"]} seconds of processor
time ({result["processor"]}, {result["measured"]}). What it prints, without the time by the clock:

.. code-block:: text

{printed}

:download:`{name}.py <../../../examples/{name}.py>`, :download:`{name}.ipynb`

.. literalinclude:: ../../../examples/{name}.py
   :language: python
   :start-at: from __future__
"""


def notebook(name: str) -> dict:
    """A program as a notebook: its text, what it imports, a cell for each function and class, a run, the figure."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    cells, start = [("markdown", f"# {PROGRAMS[name].title}\n\n{ast.get_docstring(tree)}")], 0
    figure = f"{name}.gif" if PROGRAMS[name].animated else f"{name}.png"
    first = next(k for k, node in enumerate(tree.body) if isinstance(node, ast.Import | ast.ImportFrom))
    start = tree.body[first].lineno - 1
    cells += [("code", f"%%writefile {p.name}\n{p.read_text(encoding='utf-8')}") for p in _other_programs(tree)]
    for node in tree.body[first:]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If):
            begins = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
            cells += [("code", "\n".join(lines[start:begins])), ("code", "\n".join(lines[begins : node.end_lineno]))]
            start = node.end_lineno
    cells[-1] = ("code", f'main(["--out", "{figure}"])')  # in the place of what a program does when it is run
    cells.append(("code", f'from IPython.display import Image\n\nImage("{figure}")'))
    return {
        "cells": [_cell(k, kind, text.strip("\n")) for k, (kind, text) in enumerate(cells) if text.strip()],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _other_programs(tree: ast.Module) -> list[Path]:
    """The programs that a program imports."""
    names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    return [path for name in names if (path := EXAMPLES / f"{name}.py").is_file()]


def _cell(k: int, kind: str, text: str) -> dict:
    cell = {"cell_type": kind, "id": f"cell-{k}", "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
