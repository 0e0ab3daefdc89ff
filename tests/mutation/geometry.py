"""Faults in trees and meshes, each with the tests that must notice it."""

from __future__ import annotations

from diffkern.ad import activity, reverse
from diffkern.analysis import ids
from diffkern.library import bvhs
from diffkern.opt import sink
from diffkern.runtime.effects import tape_steps
from diffkern.runtime.launch import resources
from diffkern.runtime.rollouts import rollout
from diffkern.spatial import bvh, cube_cases, sparse_surface, surface_kernels

from .edits import Fault, edit, func_edit

_GRADIENTS = "tests/e2e/test_mesh_gradients.py"
_IDS = "tests/e2e/test_ids_of_objects.py"
_CHANGED = "tests/e2e/test_changed_meshes.py"
_BOXES = "tests/e2e/test_bvh.py"
_SURFACES = "tests/e2e/test_isosurfaces.py"
_CELLS = "tests/e2e/test_sparse_isosurfaces.py"
_READ = f"{_GRADIENTS}::test_what_is_read_of_a_mesh_has_a_gradient[False]"

# fmt: off
GEOMETRY = [
    Fault("what is read by an id gets no cotangent",
          edit(reverse, "_Reverse.fetch", "if ct is not None:", "if False:"), (_READ,)),
    Fault("what is read by an id does not vary",
          edit(activity, "Activity._forward", "elif op.name in DIFFERENTIATED_READS | ORDERED_READS",
               "elif op.name in ORDERED_READS"), (_READ,)),
    Fault("a func with a derivative of its own is guarded like a loop",
          edit(sink, "_Sinker.guard_loop", 'if op.name == "ruled":', "if False:"),
          ("tests/e2e/test_bvh.py::test_both_kinds_of_loops_have_the_same_values_and_gradients",)),
    Fault("a ray along a face of a box is outside of it",
          func_edit(bvhs, "inverse", "else float32(_FAR)", "else float32(3.0e38)"),
          ("tests/e2e/test_bvh.py::test_rays_along_faces_edges_and_corners_of_boxes",)),
    Fault("vertices may change before the adjoint",
          edit(resources, "Use._changed", "if before != now", "if False"),
          (f"{_GRADIENTS}::test_where_no_derivative_goes_to_the_vertices_there_is_an_error",)),
    Fault("NumPy may change vertices before the adjoint",
          edit(resources, "Content.look", "if self._exposures.inspect(held):", "if False:"),
          (f"{_CHANGED}::test_what_numpy_changes_after_a_launch_is_noticed",)),
    Fault("vertices are not looked at before NumPy gets them",
          edit(resources, "Content.before_exposure", "if held._memory is memory:", "if False:"),
          (f"{_CHANGED}::test_what_numpy_changes_after_a_launch_is_noticed",)),
    Fault("vertices that NumPy has are not looked at when they are launched on",
          edit(resources, "Content.add", "self._exposures.note(held)", "pass"),
          (f"{_CHANGED}::test_what_numpy_changes_after_a_launch_is_noticed",)),
    Fault("a launch takes what it finds for what all earlier ones have found",
          edit(resources, "Content.look", "use.changed = held", "pass"),
          (f"{_CHANGED}::test_a_later_launch_does_not_hide_a_change_from_an_earlier_one",)),
    Fault("a step of a roll-out takes other vertices",
          edit(rollout, "StepObjects.check", "use.check(", "str("),
          (f"{_CHANGED}::test_a_step_of_a_roll_out_finds_the_points_as_it_did_at_first",)),
    Fault("a step finds objects as the first one did",
          edit(rollout, "StepObjects.begin", "if again:", "if True:"),
          (f"{_CHANGED}::test_a_step_does_not_look_at_what_an_earlier_step_has_built",)),
    Fault("a graph leads no words",
          edit(resources, "Resource._follow", "self._content, self._known = found,",
               "self._content, self._known = self._content,"),
          ("tests/e2e/test_hash_grid.py::test_a_graph_builds_a_grid_that_tapes_look_at",)),
    Fault("a tree that is refit in place is not built",
          edit(bvh, "Bvh.refit", "self._resource.times_built += 1", "pass"),
          (f"{_CHANGED}::test_a_step_builds_what_it_looks_at",)),
    Fault("a sweep that fails leaves objects as an adjoint needs them",
          edit(tape_steps, "carry_out", "isinstance(item, PutBack)", "False"),
          (f"{_CHANGED}::test_a_sweep_that_fails_leaves_a_mesh_as_it_is",)),
    Fault("a gradient behind an id is contiguous",
          edit(tape_steps, "LaunchStep._of_objects", " or not ct.is_contiguous", ""),
          (f"{_CHANGED}::test_a_gradient_that_is_not_contiguous_arrives_in_its_elements_alone",)),
    Fault("an id that is no argument is none",
          edit(ids, "ids_of", "return None", "continue"),
          (f"{_IDS}::test_a_second_object_has_its_gradient_and_is_found_by_forward_mode[in_vector]",)),
    Fault("an id that is captured is none",
          edit(ids, "ids_of", "places.add(numbers[value] & _PLACE)", "pass"),
          (f"{_IDS}::test_a_second_object_has_its_gradient_and_is_found_by_forward_mode[captured]",)),
    Fault("any mask leaves an id what it is",
          edit(ids, "_sources", "numbers.get(v) != _PLACE", "v not in numbers"),
          (f"{_IDS}::test_a_second_object_has_its_gradient_and_is_found_by_forward_mode[masked]",)),
    Fault("a loop carries one id",
          edit(ids, "_sources", "(first, last)", "(first,)"), (f"{_IDS}::test_what_a_launch_knows_of_ids",)),
    Fault("boxes that take the place of others fit",
          edit(bvh, "Bvh.refit", "self._check()", "pass"),
          (f"{_BOXES}::test_boxes_that_take_the_place_of_others_are_checked",)),
    Fault("sides of triangles may lie on a face of a cube",
          edit(cube_cases, "_fillings", "if any(", "if False and any("),
          (f"{_SURFACES}::test_triangles_fill_the_loops_without_sides_on_faces",)),
    Fault("diagonal inside corners are separated",
          edit(cube_cases, "_segments", "step = 1 if is_separated else -1", "step = 1"),
          (f"{_SURFACES}::test_surfaces_are_warps",)),
    Fault("a place on an edge is taken from its lower end alone",
          func_edit(surface_kernels, "between", "t = 1.0 / (1.0 + high / low)", "t = low / (low + high)"),
          (f"{_SURFACES}::test_great_and_small_fields",)),
    Fault("the origin of cells is of float32",
          edit(sparse_surface, "sparse_marching_cubes_from_cells", "width * low", "np.float32(width * low)"),
          (f"{_CELLS}::test_all_cells_of_a_grid_give_its_surface[float32-first2]",)),
    Fault("cells of an octree end at the nodes",
          edit(sparse_surface, "_Search.cells", "0.5 * self._bound", "0.4 * self._bound"),
          (f"{_CELLS}::test_cells_of_an_octree_hold_the_surface",)),
]
# fmt: on
