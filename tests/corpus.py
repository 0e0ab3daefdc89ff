"""The kernels that every backend must compile, run and be measured by, and what must hold of their machine code.

In: the gradient tests' cases. Out: :data:`SAMPLES`, by name. What a sample demands (which cotangents threads share,
whether it has float64) is written down here by hand, not asked of the analyses that it is to check.

Use it as ``from corpus import SAMPLES``; a sample's function, arguments and launch dimensions are those of its case, so
whatever runs it has gradients to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grad.cases import Case
from grad.corpus import CASES

__all__ = ["SAMPLES", "Sample"]


@dataclass(frozen=True)
class Sample:
    """A kernel of the corpus.

    Attributes
    ----------
    name
        ``module.function`` of its case.
    case
        Function, launch dimensions, arguments, options.
    real
        ``float32``; ``float64``; ``mixed`` where a float32 kernel asks for float64 in one place.
    shared
        Parameters whose cotangent's elements several threads add to, so that the adjoint needs atomics there (after
        reduction where the address is uniform). Where this is empty, the adjoint must have none.
    forward_atomic
        Whether the kernel itself asks for atomic operations.
    sums
        Whether all threads of the kernel add to one element.
    exchanges
        Whether the adjoint hands a cotangent to one of several threads, by an atomic exchange.
    indexed_locally
        Whether a vector is indexed by a run-time value or a loop keeps states, so that local memory may be used.
    wide
        Whether vectors of four float32 are loaded and stored, 128 bits at once.
    """

    name: str
    case: Case
    real: str = "float32"
    shared: frozenset[str] = frozenset()
    forward_atomic: bool = False
    sums: bool = False
    exchanges: bool = False
    indexed_locally: bool = False
    wide: bool = False

    @property
    def function(self) -> Callable[..., Any]:
        """The Python function."""
        return self.case.function

    @property
    def dim(self) -> tuple[int, ...]:
        """Dimensions of the launch."""
        return self.case.dim

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the kernel."""
        return self.case.options

    def arguments(self) -> dict[str, Any]:
        """Fresh arguments, by parameter name: NumPy arrays and scalars."""
        return self.case.make()


def _samples() -> dict[str, Sample]:
    found: dict[str, Sample] = {}

    def add(name: str, shared: str = "", **facts: Any) -> None:
        found[name] = Sample(name, CASES[name], shared=frozenset(shared.split()), **facts)

    def straight() -> None:
        add("device.sine", "a")
        add("device.option_price", "strike rate vol")
        add("device.particles", "g dt")
        add("device.four_at_once", "a", wide=True)
        add("functions.func_tuple")
        add("functions.many_functions")
        add("functions.powers")
        add("functions.modulo", "m")
        add("composites.dot_cross")
        add("composites.normalize_length")
        add("composites.matvec")
        add("composites.matmul")
        add("composites.inverse_determinant")
        add("composites.vector_parameter", "centre")
        add("composites.component_assignment")
        add("memory.integrate_particles", "dt")
        add("memory.half_precision_storage")

    def branches() -> None:
        add("branches.if_else")
        add("branches.elif_chain")
        add("branches.clamp_safe")
        add("branches.where_sqrt")
        add("branches.early_return")
        add("branches.func_with_returns")
        add("branches.branch_on_int")
        add("composites.vector_branch")
        add("memory.store_under_condition")

    def loops() -> None:
        add("loops.sum_of_squares")
        add("loops.product", indexed_locally=True)
        add("loops.newton_sqrt", indexed_locally=True)
        add("loops.horner", "c", indexed_locally=True)
        add("loops.running_max", indexed_locally=True)
        add("loops.nested_state", "w", indexed_locally=True)
        add("loops.symplectic_euler", "dt", indexed_locally=True)
        add("loops.halve_until", indexed_locally=True)
        add("loops.logistic_map", indexed_locally=True)
        add("loops.long_two_slots", indexed_locally=True)
        add("loops.while_two_slots", indexed_locally=True)
        add("loops.linked_list", "x", indexed_locally=True)
        add("functions.func_with_loop", indexed_locally=True)
        add("branches.break_on_sum", indexed_locally=True)
        add("branches.continue_on_sign", indexed_locally=True)
        add("branches.return_in_loop", indexed_locally=True)
        add("branches.while_in_for_in_if", indexed_locally=True)
        add("composites.rotate_in_loop", "c s", indexed_locally=True)
        add("composites.rigid_spin", "dt", indexed_locally=True)
        add("composites.dynamic_component", indexed_locally=True)
        add("composites.n_body", "x")
        add("memory.all_pairs", "x")
        add("memory.matmul_loop", "a b")
        add("memory.row_view", indexed_locally=True)
        add("device.read_only_in_loop", "x")
        add("device.convolve", "x k")
        add("device.softmax_loss", forward_atomic=True, sums=True, indexed_locally=True)

    def memory() -> None:
        add("memory.stencil", "x")
        add("memory.heat_2d", "x")
        add("memory.cube_3d", "x")
        add("memory.gather", "x")
        add("memory.broadcast_read", "x")
        add("memory.scatter_permutation")
        add("memory.scatter_add", forward_atomic=True)
        add("memory.scatter_max", forward_atomic=True, exchanges=True)
        add("memory.uniform_loss", "target", forward_atomic=True, sums=True)
        add("memory.scalar_parameters", "a b", forward_atomic=True, sums=True)
        add("memory.matmul_atomic", "a b", forward_atomic=True)
        add("memory.atomic_in_loop", forward_atomic=True, indexed_locally=True)
        add("memory.triangle_area", "px py", forward_atomic=True, sums=True)
        add("memory.square_in_place")
        add("memory.scratch_array", indexed_locally=True)
        add("memory.time_steps_in_memory", indexed_locally=True)
        add("memory.strided_stores")
        add("memory.slice_with_step", "x")
        add("composites.spring_energy", "x k", forward_atomic=True, sums=True)
        add("composites.spring_forces", "x", forward_atomic=True)
        add("composites.vector_total", forward_atomic=True, sums=True)
        add("composites.edges_as_integer_vectors", "x", forward_atomic=True, sums=True)
        add("device.four_gathered", "x", wide=True)

    def double() -> None:
        add("functions.double_kernel", real="float64", indexed_locally=True)
        add("device.double_loss", real="float64", forward_atomic=True, sums=True)
        add("functions.mixed_precision", real="mixed")

    for group in (straight, branches, loops, memory, double):
        group()
    return found


SAMPLES: dict[str, Sample] = _samples()
