"""Faults in the exchange with PyTorch and JAX by Warp's names, each with the tests that must notice it."""

from __future__ import annotations

from diffkern.kernels import kernel
from diffkern.warp import declare, exchange

from .edits import Fault, edit

_TESTS = "tests/interop/test_warp_exchange.py"

EXCHANGE = [
    Fault("a kernel in JAX has the usual blocks",
          edit(exchange, "jax_kernel", "if block_dim is None else", "if True else"),
          (f"{_TESTS}::test_threads_of_a_block[32-warp]",)),
    Fault("a kernel with other blocks is of no module",
          edit(declare, "Kernel._take_over", "self.given, self.module = of.given, of.module", "self.given = of.given"),
          (f"{_TESTS}::test_options_of_a_kernel_stay_with_other_blocks",)),
    Fault("a kernel with other blocks loses its options",
          edit(kernel, "Kernel.with_options", "replace(self.options, **options)", "type(self.options)(**options)"),
          (f"{_TESTS}::test_options_of_a_kernel_stay_with_other_blocks",)),
    Fault("functions for JAX are the same whatever their options are",
          edit(exchange, "_as_key", "return type(option), tuple(option) if isinstance(option, list) else option",
               "return None"),
          (f"{_TESTS}::test_a_function_that_is_made_for_each_call_is_the_same",)),
    Fault("a kernel in JAX has no dimensions of its own",
          edit(exchange, "jax_kernel", "launch_dims=launch_dims", "launch_dims=None"),
          (f"{_TESTS}::test_dimensions_and_results_in_place",)),
    Fault("a function in JAX changes no argument",
          edit(exchange, "jax_callable", "in_out_argnames=in_out_argnames", "in_out_argnames=None"),
          (f"{_TESTS}::test_functions_that_change_an_argument",)),
    Fault("a structure of a tensor has no address",
          edit(exchange, "TensorC.of", "cls.from_buffer_copy(fields)", "cls()"),
          (f"{_TESTS}::test_a_tensor_as_a_structure_of_c_is_an_argument",)),
    Fault("a structure of a tensor has no gradient",
          edit(exchange, "from_torch", 'not getattr(t, "requires_grad", False) and', "True and"),
          (f"{_TESTS}::test_the_gradient_of_a_tensor_as_a_structure",)),
    Fault("tensors have the native dialect's integers",
          edit(exchange, "from_torch", "in_dialect(", "("),
          (f"{_TESTS}::test_integers_that_do_not_fit_wrap_around",)),
]  # fmt: skip
