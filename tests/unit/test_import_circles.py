"""No modules import one another in a circle, imports inside of functions included."""

from __future__ import annotations

import graphlib
import sys
from pathlib import Path

import grimp

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from house.graphs import circles


def _imports(for_types: bool) -> dict[str, set[str]]:
    graph = grimp.build_graph("diffkern", exclude_type_checking_imports=not for_types, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_there_are_no_circles():
    try:
        graphlib.TopologicalSorter(_imports(for_types=False)).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_modules_of_different_folders_have_no_circles_even_for_types():
    found = circles(_imports(for_types=True))
    assert [part for part in found if len({name.rpartition(".")[0] for name in part}) > 1] == []
