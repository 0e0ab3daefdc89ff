"""Faults in forward mode, second order, gathers and the derivatives of decompositions.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.ad import forward
from diffkern.ad import pair_symmetry as exchange
from diffkern.library import decompositions
from diffkern.lower import marks
from diffkern.opt import cancel_pow2 as halves
from diffkern.opt import reciprocals, terms
from diffkern.runtime.arrays import operation
from diffkern.runtime.effects import (
    checked_call,
    custom_operation,
    custom_operations_met,
    function_tape,
    influence,
    inside,
    second_order,
    tangents,
    unchanged,
)
from diffkern.transforms import implicit, jacobians

from .edits import Fault, edit, func_edit

_ALONG = "tests/grad/test_forward.py::test_along_tangents"
_FORWARD = "tests/e2e/test_forward_mode.py"
_CUSTOM = "tests/e2e/test_custom_operations.py"
_MISTAKES = "tests/e2e/test_custom_operation_mistakes.py"
_CHANGED = "tests/e2e/test_changed_arguments.py"
_TWICE = "tests/e2e/test_gradients_of_gradients.py"
_ORDERS = f"{_TWICE}::test_all_orders_agree"
_GATHER = "tests/grad/test_gather.py"
_EXACT = "tests/e2e/test_decompositions.py::test_factors_are_exact_to_some_units_in_the_last_place"
_WINNERS = "tests/e2e/test_extrema.py"
_COINCIDE = (
    "tests/e2e/test_decompositions.py::"
    "test_what_does_not_depend_on_the_choice_of_columns_has_its_derivative_where_values_coincide"
)
_FACTORS = "tests/e2e/test_decompositions.py::test_factors_have_their_derivatives"

DERIVATIVES = [
    # forward mode
    Fault("a loop begins without tangents",
          edit(forward, "_Forward.loop", "self.tangent(old.init[k])", "self.b.zero(old.init[k].type)"),
          (f"{_ALONG}[loops.symplectic_euler]",)),
    Fault("what is subtracted atomically is added to a tangent",
          edit(forward, "_Forward.atomic", 'tangent, **attrs)', 'tangent, **{**attrs, "kind": "add"})'),
          (f"{_ALONG}[memory.scatter_sub]",)),
    Fault("a constant that is stored leaves the tangent that was there",
          edit(forward, "_Forward.store", 'if twin is not None and', 'if Access(op).value in self.tangents and'),
          (f"{_FORWARD}::test_what_is_overwritten_with_a_constant_has_no_tangent",)),
    Fault("a fill leaves the tangent that was there",
          edit(tangents, "Tangents._take_other", "self._outside(old.zero_)", "pass"),
          (f"{_FORWARD}::test_views_fills_and_constants",)),
    # operations that state their derivatives
    Fault("a custom operation reads what is no argument",
          edit(inside, "Inside._check_read", "not self._around.is_differentiated(held)", "True"),
          (f"{_CUSTOM}::test_an_array_that_is_no_argument",)),
    Fault("a custom operation reads another part of an argument's array",
          edit(inside, "_is_part", "first <= low and high <= last", "True"),
          (f"{_CUSTOM}::test_a_part_that_is_no_argument",)),
    Fault("a derivative that went through the host is differentiated",
          edit(custom_operation, "_Application._paired", "handler.check_not_read", "str"),
          (f"{_MISTAKES}::test_numbers_of_an_argument_that_were_read_before[True]",)),
    Fault("the host reads numbers in a derivative that is differentiated",
          edit(influence, "Influence.note_read", "self._derivatives[-1] is not None", "False"),
          (f"{_MISTAKES}::test_numbers_of_an_argument_in_a_part_of_a_derivative",)),
    Fault("a derivative uses numbers that were read before it is differentiated",
          edit(influence, "Influence._check_in_derivative", "self.check_not_read", "str"),
          (f"{_MISTAKES}::test_numbers_of_an_argument_that_were_read_before",)),
    Fault("what a custom operation has made and not returned is a constant",
          edit(custom_operations_met, "CustomOperationsMet._check_not_inside", "began < serial", "False"),
          (f"{_MISTAKES}::test_an_array_that_is_made_inside_and_used_outside",)),
    Fault("elements between those of an argument count as the argument's",
          edit(inside, "_is_part", "view is given or view._same_place(given)", "True"),
          (f"{_MISTAKES}::test_elements_between_those_of_an_argument",)),
    Fault("a custom operation looks at vertices that are no argument",
          edit(inside, "Inside.note_unrecorded", "given_to(launch)", "()"),
          (f"{_MISTAKES}::test_vertices_that_are_no_argument",)),
    Fault("derivatives of arguments that share memory are taken for all of them together",
          edit(custom_operation, "separate", "id(value._memory) in met", "False"),
          (f"{_MISTAKES}::test_a_vjp_that_takes_derivatives_of_arguments_that_share_memory",)),
    Fault("a derivative may write to what it reads",
          edit(custom_operation, "_Application._call",
               "is not None:\n        raise _writes", "is False:\n        raise _writes"),
          (f"{_MISTAKES}::test_a_derivative_that_writes_to_what_it_reads",)),
    Fault("constants are those of the caller",
          edit(custom_operation, "kept", "value.copy()", "value"),
          (f"{_MISTAKES}::test_a_constant_is_what_it_was_when_the_operation_ran",)),
    Fault("an argument that an operation overwrites keeps its influence",
          edit(influence, "Influence._feed_by",
               "elif len(flow.ended) < len(flow.written):\n        ended = [*map(id, flow.ended)]",
               "else:\n        ended = []"),
          ("tests/unit/runtime/test_new_effect.py::test_an_argument_that_it_overwrites_has_no_influence",)),
    Fault("the bytes between the fields of a struct are constants",
          edit(operation, "_numbers_in", "values.dtype.names is None", "True"),
          (f"{_MISTAKES}::test_what_lies_between_the_fields_of_a_struct_is_no_constant",)),
    Fault("what a custom operation needs is not kept",
          edit(custom_operation, "_Application.needs", "(*self._given, *self._results)", "()"),
          (f"{_CUSTOM}::test_arguments_and_results_are_as_they_were",)),
    Fault("a constant that a custom operation has read may change before its derivative",
          edit(unchanged, "DigestOfArray.is_same", "digest(self.held) == self._digest", "True"),
          (f"{_MISTAKES}::test_an_array_without_derivative_that_changes_before_the_derivative",)),
    Fault("what a custom operation has read is no state of a roll-out",
          edit(custom_operation, "_Application.reads", "if self._constants", "if False"),
          (f"{_MISTAKES}::test_an_array_without_derivative_that_changes_before_the_derivative",)),
    Fault("a residual may be another one when its derivative is taken",
          edit(implicit, "_ResidualProbe.check", "known is None", "True"),
          (f"{_MISTAKES}::test_a_residual_that_is_another_one_in_the_sweep",)),
    Fault("a function may write to what the rest of a sweep reads",
          edit(checked_call, "CheckedCall.execute", "memory.now == version", "True"),
          (f"{_MISTAKES}::test_a_vjp_that_writes_to_what_the_gradient_needs",)),
    Fault("what NumPy writes in a derivative is not seen",
          edit(unchanged, "Unchanged.before_exposure", "held._memory is memory", "False"),
          (f"{_MISTAKES}::test_functions_that_write_to_arguments_through_numpy",)),
    Fault("what an error carries out of a custom operation is a constant",
          edit(custom_operation, "CustomOperation.__call__",
               "handler.hide(began, births(), results,", "results and handler.hide(began, births(), results,"),
          (f"{_MISTAKES}::test_an_array_that_an_error_carries_out",)),
    Fault("the host reads what a custom operation has made and not returned",
          edit(influence, "Influence.note_read", "self._insides", "False"),
          (f"{_MISTAKES}::test_an_array_that_is_made_inside_and_read_on_the_host",)),
    Fault("a recorded derivative reads on the host",
          edit(custom_operation, "_Application._call", "read_by(called)", "read_by(None)"),
          (f"{_MISTAKES}::test_a_recorded_derivative_reads_nothing_on_the_host",)),
    # functions that change their arguments
    Fault("a derivative is taken where the function has left its argument",
          edit(jacobians, "_Start.restore", "copy(self._x, self._contents)", "pass"),
          (f"{_CHANGED}::test_a_hessian_of_a_function_that_overwrites_its_argument",)),
    Fault("tangents do not see what NumPy writes",
          edit(tangents, "Tangents.before_exposure", "memory in self._found.pairs", "False"),
          (f"{_CHANGED}::test_what_numpy_changes_in_a_function",)),
    Fault("an argument that no launch has read may be changed",
          edit(function_tape, "FunctionTape._used", "memory in self._own.pairs", "False"),
          (f"{_CHANGED}::test_what_numpy_changes_in_a_function",)),
    Fault("tangents that a step has made are as old as their arrays",
          edit(tangents, "Tangents._made", "max(root._memory.born, self._born)", "root._memory.born"),
          (f"{_CHANGED}::test_tangents_in_a_step_of_a_roll_out",)),
    # second order
    Fault("an adjoint takes nothing of what it is given",
          edit(second_order, "AdjointStep.prepare", "for index in written})", "for index in ()})"), (_ORDERS,)),
    Fault("what an adjoint has read has no part in gradients",
          edit(second_order, "AdjointStep.prepare", "self.inputs[index]._memory for index in self.varied", "()"),
          (_ORDERS, f"{_TWICE}::test_against_differences")),
    Fault("an adjoint is differentiated with the cotangents behind it",
          edit(second_order, "AdjointStep._towards_inputs", "begin.append(Copy(along[index], ct))", "pass"),
          (_ORDERS, f"{_TWICE}::test_against_differences")),
    Fault("tangents of cotangents begin without what these were",
          edit(tangents, "Tangents._adjoint_along", "*begin, ", ""), (_ORDERS,)),
    # what an adjoint decides by
    Fault("an adjoint finds winners by products with reciprocals",
          edit(reciprocals, "share_reciprocals", "compared(fn) if quotients else set()", "set()"),
          (f"{_WINNERS}::test_winners_that_are_quotients_by_roots[steep-max-float64-1500]",
           f"{_WINNERS}::test_an_element_chosen_by_a_quotient_is_the_same_in_the_adjoint")),
    Fault("an adjoint decides without a half and a double",
          edit(halves, "_Halves.parted", " or op.result in self.decisive", ""),
          ("tests/unit/opt/test_halves.py::test_what_stays[decides]",)),
    Fault("an adjoint decides by collected terms",
          edit(terms, "_Collector.region", " and op.result not in self.decisive", ""),
          ("tests/unit/opt/test_terms.py::test_left_alone[decides]",)),
    Fault("a kernel and its adjoint fuse what makes an element's index each in its own way",
          edit(marks, "mark_as_written", "found = made_integral(fn)", "found = set()"),
          (f"{_WINNERS}::test_an_element_chosen_by_a_sum_of_products_is_the_same_in_the_adjoint[int-1500]",)),
    # gathers
    Fault("a difference turned round keeps its sign",
          edit(exchange, "Exchange._simple", "self._signed[op.result] = turned[0], True",
               "self._signed[op.result] = turned[0], False"),
          (f"{_GATHER}::test_the_gradient_is_that_of_the_program_that_scatters[kernel_matrix]",)),
    Fault("a negative number keeps its sign",
          edit(exchange, "Exchange._with_signs", "return values[0], not signs[0]", "return values[0], signs[0]"),
          (f"{_GATHER}::test_the_gradient_is_that_of_the_program_that_scatters[kernel_matrix]",)),
    # decompositions
    Fault("two components between the factors change places",
          func_edit(decompositions, "_coupled", "difference + total, difference - total",
                    "difference - total, difference + total"),
          (_FACTORS,)),
    Fault("the sum of singular values is taken for their difference",
          func_edit(decompositions, "_coupled", "0.5 * (x - y), t + s, scale", "0.5 * (x - y), t - s, scale"),
          (_FACTORS,)),
    Fault("columns that change places turn the determinant",
          func_edit(decompositions, "_longer_first", "a, b = b, -a", "a, b = b, a"), (_EXACT,)),
    Fault("eigenvectors that change places turn the determinant",
          func_edit(decompositions, "_smaller_first", "q[r, j], -q[r, i]", "q[r, j], q[r, i]"), (_EXACT,)),
    Fault("a column is made orthogonal once",
          func_edit(decompositions, "_rest", "c = c - a * dot(a, c)", "c = c"), (_EXACT,)),
    Fault("two sweeps make columns orthogonal",
          func_edit(decompositions, "_svd3", "for _ in range(8):", "for _ in range(2):"), (_EXACT,)),
    Fault("columns are divided by numbers that round to nothing",
          func_edit(decompositions, "_over_gap", "if scale + 0.125 * abs(gap) != scale:", "if True:"),
          (_COINCIDE,)),
]  # fmt: skip
