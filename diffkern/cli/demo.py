"""``diffkern demo``: run the flood example, or another of the examples by its name.

It takes the arguments behind ``diffkern demo`` and returns the exit status of the example; or 2, with the command to
run first on standard error, if packages are missing. The examples are those of the source tree, also in the wheel.
"""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

_PACKAGE = Path(__file__).resolve().parent.parent
# The first is where a wheel keeps the examples, the second where a clone, or an editable install of one, has them.
_PLACES = (_PACKAGE / "_examples", _PACKAGE.parent / "examples")
_EXTRAS = {"matplotlib": "plot", "tqdm": "plot", "jax": "jax", "torch": "torch"}
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "mujoco_warp": "mujoco-warp"}


def main(argv: Sequence[str]) -> int:
    """Run an example and return its exit status.

    Parameters
    ----------
    argv : sequence of str
        ``--list`` to list the examples; or the name of one, by default ``flood``, and its own options.

    Returns
    -------
    int
        The example's exit status: 0 if it found what it looks for, as far as it says so. 2 if it cannot run here.
    """
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        print(f"diffkern demo: the examples are at neither {_PLACES[0]} nor {_PLACES[1]}", file=sys.stderr)
        return 2
    found = {path.stem: path for path in sorted(folder.glob("*.py"))}
    if list(argv[:1]) == ["--list"]:
        width = max(map(len, found))
        for name, path in found.items():
            print(f"{name:{width}}  {_title(path)}")
        return 0
    # Options without a name are those of the default example.
    name, options = (argv[0], argv[1:]) if argv and not argv[0].startswith("-") else ("flood", argv)
    if name not in found:
        print(f"diffkern demo: no example {name!r}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    missing = _missing(found[name])
    if missing and {"-h", "--help"} & {*options}:
        print(f"usage: diffkern demo [--list | NAME] [options]\n\n{name}: {_title(found[name])}\n")
        print(f"To run it, or to see its options, install {' and '.join(missing)}:\n    {_command(missing)}")
        return 0
    if missing:
        print(f"diffkern demo {name} needs {' and '.join(missing)}:\n    {_command(missing)}", file=sys.stderr)
        return 2
    return _run(found[name], options)


def _title(path: Path) -> str:
    """Return the first line of an example's docstring."""
    return str(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))).partition("\n")[0]


def _missing(path: Path) -> list[str]:
    """Return the packages that an example imports and that are not installed."""
    names: dict[str, None] = {}
    # From the source: running the example would fail at the first missing package, and name that one alone.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0]: None for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names[node.module.partition(".")[0]] = None
    # A module beside the example is another example.
    others = [name for name in names if not (path.parent / f"{name}.py").is_file()]
    return [name for name in others if importlib.util.find_spec(name) is None]


def _command(missing: Sequence[str]) -> str:
    """Return the command that installs packages: by diffkern's extras, where it has them."""
    extras = sorted({_EXTRAS[name] for name in missing if name in _EXTRAS})
    wanted = [f'"diffkern[{",".join(extras)}]"'] if extras else []
    wanted += [_DISTRIBUTIONS.get(name, name) for name in missing if name not in _EXTRAS]
    return f"pip install {' '.join(wanted)}"


def _run(path: Path, options: Sequence[str]) -> int:
    """Run an example as a program of its own would run."""
    # The example reads its options as any program does.
    before = sys.argv
    sys.argv = [str(path), *options]
    sys.path.append(str(path.parent))  # some examples import another
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    finally:
        sys.argv = before
        sys.path.remove(str(path.parent))
    return 0
