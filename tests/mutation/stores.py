"""Faults in what is known of plain stores: which threads make them, to which components, from which elements.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.ad import reverse, sources
from diffkern.ad import stamps as ad_stamps
from diffkern.analysis import collisions, components
from diffkern.compiler import program
from diffkern.lower import component_stores
from diffkern.runtime.accumulate import adjoint
from diffkern.runtime.launch import race_checks, stamps

from .edits import Fault, edit

_SHARED = "tests/e2e/test_shared_stores.py"
_REPEATED = f"{_SHARED}::test_a_repetition_is_an_error_that_names_both_threads_the_line_and_the_remedy"
_ONE_SOURCE = f"{_SHARED}::test_values_of_one_source_have_one_writer"
_COMPONENTS = f"{_SHARED}::test_threads_share_vectors_and_no_component"
_NUMBERS = f"{_SHARED}::test_numbers_that_rule_repetitions_out_spare_the_look"
_ONLY_WHERE = f"{_SHARED}::test_it_is_an_error_only_where_a_gradient_passes_it"

STORES = [
    Fault(
        "launches of kernels that scatter are not looked at",
        edit(program, "forward_manifest", "own == len(fn.params) and may_collide(forward)", "False"),
        (_REPEATED,),
    ),
    Fault(
        "stores in one place are made by one thread",
        edit(collisions, "_pairs", "combinations_with_replacement(ops, 2)", "zip(ops, ops[1:])"),
        (_REPEATED,),
    ),
    Fault(
        "kernels with arrays of a thread work on tiles",
        edit(collisions, "_stores", " or of_block(op)", ' or op.name.startswith("tile_")'),
        (
            f"{_SHARED}::test_kernels_with_arrays_of_a_thread_are_looked_at",
            f"{_SHARED}::test_a_table_beside_a_query_is_looked_at",
        ),
    ),
    Fault(
        "any two stores set components of their own",
        edit(collisions, "_are_disjoint", "one.keys().isdisjoint(other)", "True"),
        ("tests/unit/analysis/test_collisions.py::test_pairs_of_stores",),
    ),
    Fault(
        "what numbers rule out is looked at all the same",
        edit(
            race_checks, "TakenForGranted._of", "s.check is None or racing(s.check, dims, numbers) is not None", "True"
        ),
        (_NUMBERS,),
    ),
    Fault(
        "numbers of a launch rule out any repetition",
        edit(race_checks, "TakenForGranted._of", "is not None)", "is None)"),
        (_NUMBERS,),
    ),
    Fault(
        "equal numbers have one source",
        edit(stamps, "_Stamps.check_stores", "self._differ(SOURCE)", "self._differ(VALUE)"),
        (f"{_SHARED}::test_values_that_are_equal_by_chance_have_two_writers",),
    ),
    Fault(
        "it does not count from which element a value was loaded",
        edit(sources, "Sources._compute", "*(self.bits(b, k) for k in self._places(b, access))", ""),
        (f"{_SHARED}::test_values_that_are_equal_by_chance_have_two_writers",),
    ),
    Fault(
        "what a branch yields has the source of the other one",
        edit(sources, "Sources.leave", "self.of(b, region.yields[k])", "self.of(b, op.regions[0].yields[k])"),
        (f"{_SHARED}::test_loops_and_branches_are_part_of_a_source",),
    ),
    Fault(
        "where elements come from is not looked at again",
        edit(stamps, "_key", "if with_sources else ()", "if False else ()"),
        (_ONE_SOURCE,),
    ),
    Fault(
        "threads that share an element are remembered as threads that do not",
        edit(stamps, "_look", "return found", "return False"),
        (_ONE_SOURCE,),
    ),
    Fault(
        "an error is not remembered",
        edit(stamps, "_look", "if known is not None:", "if known is not None and found is False:"),
        (_ONLY_WHERE,),
    ),
    Fault(
        "a store of a component is one of the whole vector",
        edit(components, "Components.stored", "return found if", "return None and found if"),
        (_COMPONENTS,),
    ),
    Fault(
        "what a store sets a component of is read",
        edit(components, "Components.loaded", "left.append(op.result)", "return None"),
        ("tests/unit/analysis/test_collisions.py::test_what_is_read",),
    ),
    Fault(
        "stores behind each other set components alone",
        edit(
            components,
            "Components._is_content",
            "not all(exclusive(write, before) for write in between)",
            "False",
        ),
        ("tests/unit/analysis/test_collisions.py::test_what_is_set",),
    ),
    Fault(
        "arrays of which the order of threads decides are asked for",
        edit(ad_stamps, "decided_by_order", "found.add(array)", "pass"),
        ("tests/unit/analysis/test_collisions.py::test_places_that_the_order_of_threads_decides",),
    ),
    Fault(
        "adjoints by hand are not looked at",
        edit(adjoint, "AdjointLaunch.__init__", "at_once and program.granted is not None", "False"),
        (f"{_SHARED}::test_grad_and_adjoints_by_hand_are_looked_at",),
    ),
    Fault(
        "stores of components write the whole element",
        edit(component_stores, "store_components", "if parts:", "if not stores:"),
        ("tests/e2e/test_component_stores.py::test_threads_of_a_warp_in_executed_ptx",),
    ),
    Fault(
        "cotangents of the other components are gone for a while",
        edit(reverse, "_Reverse.store", "if parts is not None:", "if parts is not None and not parts:"),
        ("tests/e2e/test_component_stores.py::test_adjoints_of_a_warp_in_executed_ptx",),
    ),
    Fault(
        "what a thread has stored is not the content of an element",
        edit(components, "Components._last_before", "if not before:", "if before:"),
        ("tests/e2e/test_component_stores.py::test_stores_that_are_marked",),
    ),
    Fault(
        "an earlier insertion has the cotangent of a later one",
        edit(reverse, "_Reverse.store_of_components", 'ct = self.b.one("insert_dyn", ct, zero, env[place])', "pass"),
        ("tests/e2e/test_component_stores.py::test_components_that_are_set_twice",),
    ),
    Fault(
        "components that a load does not know yet are stamped",
        edit(ad_stamps, "_Stamping._are_known", "isinstance(k, int) or k in self.visible", "True"),
        ("tests/e2e/test_component_stores.py::test_an_index_in_the_element_itself",),
    ),
    Fault(
        "loads of indices go in front of a load",
        edit(ad_stamps, "_put_before", "lookup(op.name).effect is not Effect.PURE", "False"),
        ("tests/e2e/test_component_stores.py::test_an_index_in_the_element_itself",),
    ),
]
