"""Which cases of a table run by default: chosen by a hash of the name, so that a new case does not move the others.

The others are marked ``full``: ``--full`` runs them, and with it the nightly command.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["THINNED", "is_usual", "one_in", "thin_out"]

THINNED = {
    # the corpus, each kernel of which many tests run
    "grad/test_corpus.py::test_case": 10,
    "grad/test_forward.py::test_along_tangents": 12,
    "grad/test_forward.py::test_second_derivatives": 8,
    "grad/test_joint.py::test_one_program_does_what_two_do": 8,
    "grad/test_launched.py::test_backward_through_a_launch": 12,
    "grad/test_launched.py::test_backward_with_lanes_and_without": 4,
    "grad/test_singular.py::test_a_zero_cotangent_stays_zero": 6,
    "grad/test_singular.py::test_what_is_not_chosen_has_gradient_zero": 8,
    "simulator/test_corpus.py::test_agrees_with_the_cpu": 12,
    "unit/ir/test_stages.py::test_a_kernel_of_the_corpus": 10,
    "unit/printing/test_cuda_source.py::test_numba_cuda_compiles_it": 10,
    "unit/printing/test_one_program.py::test_the_printed_program_is_the_compiled_one": 10,
    "unit/runtime/cuda/test_cuda_corpus.py::test_case": 10,
    "unit/targets/cuda/test_corpus_compiles.py::test_a_case_compiles": 8,
    "unit/targets/cuda/test_corpus_compiles.py::test_a_sample_compiles_for_every_architecture": 8,
    "unit/targets/cuda/test_corpus_on_host.py::test_gradients_agree_with_the_cpu": 12,
    # each built-in function of the language
    "e2e/test_builtin_table.py::test_all_compile_for_cuda": 8,
    "e2e/test_builtin_table.py::test_values_and_derivatives_are_right": 24,
    "e2e/test_half_functions.py::test_every_function_of_numbers": 3,
    "e2e/test_reference.py::test_examples_are_differentiated_in_both_modes_and_for_gpus": 6,
    "e2e/test_reference.py::test_examples_of_kernels_run": 6,
    "unit/frontend/test_names_of_builtins.py::test_functions_that_change_a_tile": 4,
    # products of kinds of arguments, dimensions and types
    "e2e/test_indices.py::test_one_axis": 6,
    "e2e/test_indices.py::test_rows_columns_and_vectors": 6,
    "e2e/test_indices.py::test_threads_meet_only_where_it_is_announced": 6,
    "e2e/test_lanes.py::test_elements_of_16_bits": 6,
    "e2e/test_logged_searches.py::test_derivatives": 2,
    "e2e/test_logged_searches.py::test_nothing_else_changes": 24,
    "e2e/test_logged_searches.py::test_on_a_gpu": 3,
    "e2e/test_logged_searches.py::test_random_programs": 40,
    "e2e/test_lanes.py::test_lanes_compute_what_single_threads_do": 3,
    "e2e/test_ranges_on_gpu.py::test_executed": 3,
    "e2e/test_ranges_on_gpu.py::test_what_numba_cuda_compiles": 4,
    "e2e/test_builtins_memory.py::test_tiles": 3,
    "e2e/test_constant_divisors.py::test_quotients_and_remainders_are_those_of_python": 3,
    "e2e/test_elementary_errors.py::test_errors_in_lanes": 3,
    "grad/test_blocks.py::test_against_differences": 5,
    "grad/test_second_order_launched.py::test_all_orders_agree": 2,
    "grad/test_tools.py::test_numbers_stay_finite": 4,
    "unit/targets/test_sunk_loads.py::test_threads_swap_elements_under_a_condition": 3,
    "e2e/test_extrema.py::test_winners_that_are_quotients_by_roots": 3,
    "interop/jax/test_adbench.py::test_derivatives_are_those_of_jax": 3,
    "interop/numba/test_gpu_code.py::test_gradients_are_inlined": 3,
    "interop/torch/test_torch_second_order.py::test_pytorchs_own_checks": 3,
    "interop/torch/test_torch_second_order.py::test_transformations_of_transformations": 3,
    "unit/targets/cuda/test_kernel_products.py::test_products_are_those_that_are_wanted": 3,
    "unit/targets/cuda/test_launch_loop.py::test_every_thread_runs_once": 3,
    "unit/targets/cuda/test_ptx_invariants.py::test_a_case": 6,
    "unit/targets/cuda/test_tiles_on_host.py::test_agrees_with_the_cpu": 4,
    "unit/targets/test_cpu_random.py::test_random_programs": 3,
    "unit/targets/test_uniform.py::test_results_are_the_same_to_the_last_bit": 4,
    "e2e/test_hash_grid_table.py::test_order_and_content_are_those_of_a_search_through_all": 3,
    "e2e/test_executed_ptx.py::test_a_case_by_numba_cuda": 2,
    "e2e/test_random.py::test_derivatives_of_noise": 2,
    "grad/test_untaken.py::test_gradients_of_what_is_not_taken": 2,
    "grad/test_rules.py::test_rules_against_central_differences": 2,
    "grad/test_blocks.py::test_the_threads_of_a_gpu_do_not_meet": 3,
    "interop/jax/test_jax_derivatives.py::test_derivatives_of_what_is_transformed": 2,
    "programs/test_numba_cuda.py::test_gradients_are_central_differences": 3,
    "unit/ad/test_segments.py::test_gradients_are_those_with_all_states_kept": 2,
    "unit/frontend/test_fuzz.py::test_random_programs_do_what_python_does": 3,
    "unit/frontend/test_long.py::test_values_of_a_chain_that_has_no_else_keep_what_was_before": 2,
    "unit/targets/cuda/test_products_on_host.py::test_results_and_gradients_are_those_of_the_cpu": 2,
    "unit/targets/test_cpu_control.py::test_threads_of_every_arity_in_chunks": 3,
    "unit/test_gallery.py::test_a_notebook_runs": 2,
    # seeded faults, each of which takes a process
    "mutation/test_faults.py::test_its_tests_notice": 96,
    "mutation/test_faults.py::test_the_subset_notices": 6,
    # what takes processes or whole programs
    "e2e/test_cache.py::test_a_change_gives_the_new_result": 3,
    "natural/test_natural.py::test_derivatives": 10,
    "programs/test_numba_cuda.py::test_results_are_those_of_the_simulator": 5,
    "unit/frontend/test_long.py::test_chains_whose_branches_leave": 2,
    "unit/frontend/test_long.py::test_many_statements_that_leave": 3,
    "programs/test_warp_tests.py::test_they_pass": 8,
    # products that libmathdx makes, each of which takes some 20 seconds
    "unit/targets/cuda/test_kernel_products.py::test_products_stand_beside_everything_else": 12,
}
"""Tests of which one case in so many runs by default, since other tests show the same faults.

That they do is what ``tests/mutation`` shows: the cases that notice its faults run by default.
"""


def is_usual(name: str, every: int) -> bool:
    """Whether what is called ``name`` is among the one in ``every`` that run by default."""
    return zlib.crc32(name.encode()) % every == 0


def one_in(every: int, names: Iterable[str], always: Iterable[str] = ()) -> list[Any]:
    """Parameters of a test: one case in ``every`` and those of ``always`` run by default, the others with --full."""
    kept = set(always)
    return [
        name if name in kept or is_usual(name, every) else pytest.param(name, marks=pytest.mark.full) for name in names
    ]


def thin_out(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of :data:`THINNED` that do not run by default.

    Of each test at least one does, and all that notice a fault of ``tests/mutation``.
    """
    from mutation.catalogue import TARGETED

    noticing = {test for fault in TARGETED for test in fault.tests}
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        test, bracket, _ = item.nodeid.removeprefix("tests/").partition("[")
        if bracket and test in THINNED:
            tests.setdefault(test, []).append(item)
    for test, cases in tests.items():
        # By the name of the test as well, so that tests of one corpus run other parts of it.
        usual = [item for item in cases if item.nodeid in noticing or is_usual(item.nodeid, THINNED[test])]
        usual = usual or cases[:1]
        for item in cases:
            if item not in usual:
                item.add_marker(pytest.mark.full)
