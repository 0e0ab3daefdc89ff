"""Faults in trees and meshes, each with the tests that must notice it."""

from __future__ import annotations

from diffkern.ad import activity, reverse
from diffkern.library import bvhs
from diffkern.opt import sink
from diffkern.runtime import resources

from .edits import Fault, edit, func_edit

_GRADIENTS = "tests/e2e/test_mesh_gradients.py"
_READ = f"{_GRADIENTS}::test_what_is_read_of_a_mesh_has_a_gradient[False]"

# fmt: off
GEOMETRY = [
    Fault("what is read by an id gets no cotangent",
          edit(reverse, "_Reverse.fetch", "if ct is not None:", "if False:"), (_READ,)),
    Fault("what is read by an id does not vary",
          edit(activity, "Activity._forward", 'elif op.name == "fetch":', "elif False:"), (_READ,)),
    Fault("a func with a derivative of its own is guarded like a loop",
          edit(sink, "_Sinker.guard_loop", 'if op.name == "ruled":', "if False:"),
          ("tests/e2e/test_bvh.py::test_both_kinds_of_loops_have_the_same_values_and_gradients",)),
    Fault("a ray along a face of a box is outside of it",
          func_edit(bvhs, "inverse", "else float32(_FAR)", "else float32(3.0e38)"),
          ("tests/e2e/test_bvh.py::test_rays_along_faces_edges_and_corners_of_boxes",)),
    Fault("vertices may change before the adjoint",
          edit(resources, "Use._check", "for held, before, now in", "for held, before, now in () and"),
          (f"{_GRADIENTS}::test_where_no_derivative_goes_to_the_vertices_there_is_an_error",)),
]
# fmt: on
