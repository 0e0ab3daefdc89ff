"""Faults in calls from JAX and PyTorch and in their derivatives, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are. Where a framework is not installed there are none of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from .edits import Fault, edit

_FUNCTION = "tests/interop/torch/test_function.py"
_BATCH = f"{_FUNCTION}::test_a_batch_is_one_launch"
_PRODUCT = "tests/interop/torch/test_torch_second_order.py::test_a_product_with_second_derivatives_is_that_of_diffkern"
_SIZES = "tests/interop/torch/test_torch_sizes.py"
_GRAPHS = "tests/interop/torch/test_torch_gradients_in_graphs.py"
_KERNEL = "tests/interop/jax/test_kernel.py"
_SECOND = "tests/interop/jax/test_jax_derivatives.py::test_second_order"


def _module(framework: str, name: str) -> ModuleType:
    return importlib.import_module(f"diffkern.interop.{framework}.{name}")


def _of_torch() -> list[Fault]:
    along, batch, function, gradient, operator = (
        _module("torch", name) for name in ("forward_mode", "batch", "function", "gradient", "operator")
    )
    return [
        Fault("an axis of examples is taken for one in front",
              edit(batch, "move_batch_axis", "a.movedim(axis, 0)", "a"), (f"{_FUNCTION}::test_batches", _BATCH)),
        Fault("what examples share has the gradient of the first one",
              edit(gradient, "backward_of", "ct.sum(0)", "ct[0]"),
              (f"{_FUNCTION}::test_backward_through_a_batch_sums_what_its_examples_share",)),
        Fault("gradients of tangents get lost on the way to inputs",
              edit(along, "AlongTangents.cotangents", "if own is not None:", "if own is None:"), (_PRODUCT,)),
        Fault("the gradient that was given has none itself",
              edit(gradient, "backward_of_gradient", "t if needed else None", "None"),
              ("tests/interop/torch/test_torch_second_order.py::test_a_gradient_depends_on_the_gradient_of_the_results",)),
        Fault("sizes of a call do not reach the graph",
              edit(operator, "_numbers", "if sizes is None", "if True"),
              (f"{_SIZES}::test_compiled_once_for_all_sizes",)),
        Fault("tangents of outputs have the sizes of others",
              edit(along, "AlongTangents.sized", "self.function.sized(Sizes(sizes.dims, ordered))", "self.function"),
              (f"{_SIZES}::test_second_derivatives_of_calls_with_sizes",)),
        Fault("a function keeps the sizes of its first call",
              edit(function, "TorchFunction.sized", "self._of_sizes.get(sizes)",
                   "next(iter(self._of_sizes.values()), None)"),
              (f"{_SIZES}::test_outputs_of_another_size_in_each_call",)),
        Fault("gradients are returned in the order of parameters",
              edit(function, "TorchFunction.value_and_grad", "for k in places])", "for k in ordered])"),
              (f"{_GRAPHS}::test_the_order_of_the_names",)),
        Fault("the gradient of a gradient in a graph has no part of the arguments",
              edit(operator, "Operator._second", "*_flat(self._by_value, found)",
                   "*_flat(self._by_value, [None] * len(found))"),
              (f"{_GRAPHS}::test_graphs_of_molecules_of_any_size",)),
    ]  # fmt: skip


def _of_jax() -> list[Fault]:
    derivative, forward, function, primitive = (
        _module("jax", name) for name in ("derivative", "forward", "function", "primitive")
    )
    return [
        Fault("a function for JAX has no options in its signature",
              edit(function, "JaxFunction._signature", "if p.kind is inspect.Parameter.KEYWORD_ONLY", "if False"),
              (f"{_KERNEL}::test_sizes_as_static_arguments",)),
        Fault("a pulled cotangent does not change with the cotangent",
              edit(derivative, "Pulled.jvp", "    if dx:\n", "    if dx:\n        dw = {}\n"), (f"{_SECOND}[decay]",)),
        Fault("a pulled cotangent changes with the cotangent alone",
              edit(derivative, "Pulled.jvp", "    if dx:\n", "    if dx and not dw:\n"), (f"{_SECOND}[decay]",)),
        Fault("what is changed in place begins at zero",
              edit(forward, "_ForwardCall.result", "self.call.take_over(source, goal)", "self.call.clear(goal)"),
              (f"{_KERNEL}::test_in_out_arguments_are_returned_and_differentiable",)),
        Fault("what examples share has the mean of their gradients",
              edit(primitive, "_transpose", "ct.sum(shared, dtype=ct.dtype)", "ct.mean(shared, dtype=ct.dtype)"),
              (f"{_KERNEL}::test_gradients_of_what_examples_share",)),
        Fault("a function of launches fills with zeros",
              edit(forward, "_ForwardCall.constant", "if not np.any(step.values):", "if True:"),
              ("tests/interop/jax/test_callable.py::test_in_out_copies_fills_and_constants",)),
    ]  # fmt: skip


FRAMEWORKS = [
    *(_of_torch() if importlib.util.find_spec("torch") else ()),
    *(_of_jax() if importlib.util.find_spec("jax") else ()),
]
