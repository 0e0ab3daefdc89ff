"""Faults in what a sweep begins with and in gradients of tensors, each with tests that must notice it."""

from __future__ import annotations

import importlib
import importlib.util

from diffkern.runtime.arrays import alias
from diffkern.runtime.effects import cotangents, seeds, tape, tape_memory

from .edits import Fault, edit

_ALIAS = "tests/unit/runtime/test_alias.py"
_VIEWS = f"{_ALIAS}::test_views_of_any_strides_find_their_elements"
_TENSORS = "tests/interop/torch/test_tensors_on_a_tape.py"


def _of_torch() -> list[Fault]:
    observers, passed = (importlib.import_module(f"diffkern.interop.torch.{name}") for name in ("observers", "passed"))
    return [
        Fault("a seed is set once for an element at several indices",
              edit(seeds, "seeds_of", "and not is_injective(goal):", "and False:"),
              (f"{_TENSORS}::test_a_tensor_with_an_element_at_several_indices_is_no_seed",)),
        Fault("a dropped gradient of a tensor is not made again",
              edit(passed, "_Followed._present", "create and", "False and"),
              (f"{_TENSORS}::test_the_usual_order_of_an_optimizer",)),
        Fault("a gradient of a tensor stays where it was first",
              edit(passed, "_Followed._take", "grad is self._grad and place == self._is_at", "self._grad is not None"),
              (f"{_TENSORS}::test_a_gradient_that_was_replaced_after_recording",)),
        Fault("a tensor that a slice was computed from is no place",
              edit(passed, "as_place", "_known(t, None)", "as_argument(t, None)"),
              (f"{_TENSORS}::test_a_part_of_a_tensor_as_the_loss",)),
        Fault("a frozen parameter gets the gradient that it had",
              edit(passed, "_Followed.update", "and not is_result", "and False"),
              (f"{_TENSORS}::test_a_gradient_of_a_constant_is_refused_or_left_alone",)),
        Fault("what is zeroed is a gradient that the tensor has no more",
              edit(tape, "Tape.zero", "self._follow(False)", "pass"),
              (f"{_TENSORS}::test_zeroing_a_tape_leaves_a_gradient_alone_that_was_taken_away",)),
        Fault("a wrong call in a graph has no reason",
              edit(observers, "refusal", "if torch.compiler.is_compiling():", "if False:"),
              ("tests/interop/torch/test_torch_gradients_in_graphs.py::test_a_graph_says_what_is_wrong_with_a_call",)),
    ]  # fmt: skip


SEEDS = [
    Fault("an alias of an array with a gradient has a cotangent of its own",
          edit(cotangents, "Cotangents.of", "and a._data.size:", "and False:"),
          (f"{_ALIAS}::test_arrays_made_of_the_view_of_another_as_seeds",)),
    Fault("an alias with a gradient of its own begins there",
          edit(cotangents, "Cotangents.begun", "grad is not None and", "False and"),
          (f"{_ALIAS}::test_arrays_made_of_the_view_of_another_as_seeds",)),
    Fault("a view has its cotangent in a gradient that is not its array's",
          edit(tape_memory, "TapeMemory._check_gradients", "grad is not None and", "False and"),
          (f"{_ALIAS}::test_a_view_that_got_a_gradient_of_its_own_after_it_was_recorded",)),
    Fault("an alias may reach beyond the array",
          edit(alias, "_strides", "return tuple(strides) if fits else None", "return tuple(strides)"), (_VIEWS,)),
    Fault("a gradient has the strides of its array",
          edit(alias, "_axes", "-other if stride < 0 else other", "abs(stride)"), (_VIEWS,)),
    Fault("axes are one whatever the gradient is like",
          edit(alias, "_joined", "if ends == (before.stride, before.in_gradient):", "if ends[0] == before.stride:"),
          (_VIEWS,)),
    *(_of_torch() if importlib.util.find_spec("torch") else ()),
]  # fmt: skip
