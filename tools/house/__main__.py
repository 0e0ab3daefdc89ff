"""Count how well the package's layout shows what happens: ``python tools/house``.

The table has a number and a goal for each measure; ``--list NAME`` shows where the number comes from, the largest
offenders first. Everything is read from the sources with ``ast``; the names of operations are those of the table in
``diffkern.ir.ops``.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[1]
sys.path[:0] = [str(TOOLS), str(TOOLS.parent)]

from house.measures import Measure, measures  # noqa: E402
from house.sources import Package  # noqa: E402


def table(found: list[Measure]) -> str:
    """Return the measures as text."""
    width = max(len(one.text) for one in found)
    keys = max(len(one.key) for one in found)
    rows = [f"{'name':<{keys}}  {'what is counted':<{width}}  {'now':>7}  {'goal':>9}"]
    for one in found:
        mark = {True: "reached", False: "", None: ""}[one.is_reached]
        rows.append(f"{one.key:<{keys}}  {one.text:<{width}}  {one.number:>7g}  {one.goal:>9}  {mark}".rstrip())
    return "\n".join(rows)


def _singles() -> list[str]:
    """Return the names of the sets of operations that hold one."""
    import diffkern.ir.ops as folder

    modules = [
        importlib.import_module(f"{folder.__name__}.{one.name}") for one in pkgutil.iter_modules(folder.__path__)
    ]
    held = {name: value for module in modules for name, value in vars(module).items() if name.isupper()}
    return [name for name, value in held.items() if isinstance(value, frozenset) and len(value) == 1]


def main(argv: list[str] | None = None) -> int:
    """Print the table, or what a number of it comes from."""
    parser = argparse.ArgumentParser(prog="python tools/house", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", metavar="NAME", help="where the number of this name comes from")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="only the first N places")
    options = parser.parse_args(argv)

    from diffkern.ir.ops.table import all_ops

    found = measures(Package(TOOLS.parent / "diffkern"), all_ops(), singles=_singles())
    if options.list is None:
        print(table(found))
        return 0
    chosen = [one for one in found if one.key == options.list]
    if not chosen:
        parser.error(f"there is no {options.list!r}; names are {', '.join(one.key for one in found)}")
    print(*chosen[0].places[: options.limit or None], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
