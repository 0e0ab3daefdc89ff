"""Faults in what programs for Warp do with names, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.frontend.statements import inline
from diffkern.frontend.syntax import encoding, flow
from diffkern.lang import annotations, dtypes, values
from diffkern.runtime.arrays import pickled
from diffkern.runtime.effects import gradients, tape
from diffkern.runtime.launch import arguments
from diffkern.runtime.records import other_launches
from diffkern.utils import sums
from diffkern.warp import arrays, capturing, coloring, modules, pools, snippets
from diffkern.warp.c import c_expressions, c_statements, c_text

from .edits import Fault, edit

_HERE = "tests/unit/test_warp_programs.py"
_MACHINE = "tests/unit/test_warp_machine.py"
_VALUES = "tests/unit/test_warp_values.py"

WARP_PROGRAMS = [
    Fault("an element that a text in C makes larger is stored to by each thread",
          edit(c_statements, "Statements._extreme", "wp.atomic_{'max' if sign == '>' else 'min'}(",
               "wp.atomic_{'min' if sign == '>' else 'max'}("),
          ("tests/unit/test_warp_snippets.py::test_a_larger_number_is_kept_by_many_threads",)),
    Fault("gradients that are to be retained are copied after the launch has taken them",
          edit(gradients, "keeping", "made.append([Copy(copy, grad)])", "restored.insert(0, Copy(copy, grad))"),
          ("tests/unit/runtime/test_retained.py::test_of_several_launches_the_last_one_counts_and_no_gradient_goes_past_it",)),
    Fault("gradients that are given for outputs are taken",
          edit(other_launches, "_left_alone", "shared[ct._memory] == 1", "False"),
          (f"{_VALUES}::test_gradients_that_are_given_for_outputs_stay",)),
    Fault("gradients of what a kernel reads and overwrites stay",
          edit(other_launches, "_left_alone", "{*executable.writes} - {*executable.reads}", "{*executable.writes}"),
          (f"{_VALUES}::test_gradients_of_arrays_themselves_and_of_what_is_read_are_taken",)),
    Fault("the first elements along an axis are all",
          edit(sums, "_first_along", "count is None or count == extent", "True"),
          (f"{_VALUES}::test_sums_of_the_first_elements_along_an_axis",)),
    Fault("a transform of nothing is zeros",
          edit(values, "_from_nothing", "(0, 0, 0, *_IDENTITY) if is_transform else (0,)", "(0,)"),
          (f"{_VALUES}::test_a_transform_of_nothing_is_the_identity_on_the_host_and_zeros_in_kernels_and_structs",)),
    Fault("a gradient that a result gets after it was recorded is not seen",
          edit(tape, "Tape._take_new_gradients", "grad is None", "True"),
          ("tests/e2e/test_tape_without_gradients.py::test_a_result_may_get_its_gradient_after_it_was_recorded",)),
    Fault("loops do not carry what funcs change by reference",
          edit(flow, "_updated", "key if isinstance(key, Mapping) else", "{} if isinstance(key, Mapping) else"),
          ("tests/e2e/test_references.py::test_gradients_go_through_references",)),
    Fault("returns in branches do not give back what a func changed",
          edit(inline, "_Returns.visit_Return", "for name in self.names", "for name in self.names[::-1]"),
          ("tests/e2e/test_references.py::test_variables_are_what_the_func_left_in_its_parameters",)),
    Fault("values of matrices are rows of numbers to NumPy",
          edit(dtypes, "InMemoryType._in_c", "for extent in ir.shape[:0:-1]:", "for extent in ():"),
          ("tests/unit/lang/test_values.py::test_functions_of_c_take_values_by_reference",)),
    Fault("a threshold of one byte and less is a number of bytes",
          edit(pools, "set_mempool_release_threshold", "0 < threshold <= 1", "False"),
          (f"{_MACHINE}::test_sizes_of_a_pool",)),
    Fault("pinned memory is out of a GPU's reach",
          edit(pools, "can_access", "(resource.pinned and place.is_cuda)", "False"),
          (f"{_MACHINE}::test_pools_are_reached_with_peer_access",)),
    Fault("a graph as text has each wait the other way round",
          edit(capturing, "capture_debug_dot_print", "step{first} -> step{k}", "step{k} -> step{first}"),
          (f"{_MACHINE}::test_a_graph_as_text",)),
    Fault("a class with members is another name of the type",
          edit(dtypes, "_derived", "_DOCUMENTATION.issuperset(body)", "True"),
          (f"{_HERE}::test_values_of_a_derived_class",)),
    Fault("a derived type differs from the one that it is",
          edit(dtypes, "DerivedType.__eq__", "isinstance(other, CompositeType) and cls.ir == other.ir", "cls is other"),
          (f"{_HERE}::test_a_class_with_members_is_the_type_to_kernels",)),
    Fault("an annotation's hash depends on its form",
          edit(annotations, "ArrayAnnotation.__hash__", "self._fields", "(type(self), self._fields)"),
          (f"{_HERE}::test_annotations_take_attributes",)),
    Fault("no array of any type is taken",
          edit(arguments, "Parameter._check_placeholder", "wanted.element != value.element", "False"),
          (f"{_HERE}::test_no_array_in_an_argument_and_a_field",)),
    Fault("a deep copy shares attributes",
          edit(pickled, "Copied.__deepcopy__", "copy.deepcopy(vars(self), memo)", "vars(self)"),
          (f"{_HERE}::test_arrays_take_attributes",)),
    Fault("lists wrap around as NumPy's arrays do",
          edit(arrays, "array.__new__", "isinstance(data, np.ndarray):", "(data := np.asarray(data)) is not None:"),
          (f"{_HERE}::test_arrays_of_numpys_integers_wrap_around",)),
    Fault("an enumeration that says no is a yes",
          edit(modules, "as_native", "bool(value)", "True"), (f"{_HERE}::test_enumerations_as_options",)),
    Fault("a processor sees a GPU's text",
          edit(c_text, "preprocessed", "gpu is not (directive", "True is not (directive"),
          ("tests/unit/test_warp_snippets.py::test_branches_of_the_preprocessor",)),
    Fault("differences are taken from the right",
          edit(c_expressions, "Expression._binary", "> lowest:", ">= lowest and level:"),
          ("tests/unit/test_warp_snippets.py::test_texts",)),
    Fault("a GPU runs the processor's text",
          edit(snippets, "TranslatedFunction.on", "self.on_gpu if simt else self.on_cpu", "self.on_cpu"),
          ("tests/unit/test_warp_snippets.py::test_a_gpu_has_a_text_of_its_own",)),
    Fault("keys do not tell what a GPU runs",
          edit(encoding, "_func", "if f is not func", "if False"),
          ("tests/unit/test_warp_snippets.py::test_keys_tell_what_a_gpu_runs",)),
    Fault("a colour that a neighbour has is taken",
          edit(coloring, "_first_free", "while color in taken:", "if color in taken:"),
          (f"{_HERE}::test_no_two_neighbours_have_one_color",)),
    Fault("nodes are taken in their order",
          edit(coloring, "_Buckets.raise_weight", "self.add(node, weight + 1)", "self.add(node, 1)"),
          (f"{_HERE}::test_colors_by_cardinality_search_are_few",)),
    Fault("balancing moves nodes next to their like",
          edit(coloring, "_movable", "colors[other] != color", "colors[other] != -1"),
          (f"{_HERE}::test_no_two_neighbours_have_one_color",)),
]  # fmt: skip
