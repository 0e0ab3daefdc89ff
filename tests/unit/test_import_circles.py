"""No modules import one another in a circle, imports inside of functions included."""

from __future__ import annotations

import graphlib

import grimp

DOORS = {
    # What few programs use is loaded when it is asked for, and imports what stands below it.
    ("diffkern.runtime.memory.gpu", "diffkern.runtime.cuda.entry"),
}


def test_there_are_no_circles():
    graph = grimp.build_graph("diffkern", exclude_type_checking_imports=True, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    for importer, imported in DOORS:
        imports[importer].remove(imported)
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None
