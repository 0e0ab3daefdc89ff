"""Faults in what the dialects of Warp and of numba mean, each with tests that must notice it.

They are put in as those of :mod:`mutation.elsewhere` are.
"""

from __future__ import annotations

from diffkern.analysis import dependence
from diffkern.frontend.builtins import library_vector
from diffkern.frontend.numba import numba_grid
from diffkern.frontend.terms import arith, views
from diffkern.targets.emit import scalars
from diffkern.warp import axes, differenced

from .edits import Fault, edit

_MEANS = "tests/unit/frontend/test_dialects.py"
_AXES = "tests/e2e/test_launch_axes.py"
_KERNELS = "tests/cuda_dialect/test_kernels.py::test_results_are_those_of_the_simulator"

DIALECTS = [
    # Warp
    Fault("a number divided by -1 is itself",
          edit(scalars, "_truncdiv", "b.select(minus, b.neg(x), b.sdiv(x, divisor))", "b.sdiv(x, divisor)"),
          (f"{_MEANS}::test_quotients_and_remainders_of_integers[warp]",)),
    Fault("a remainder has the divisor's sign in every dialect",
          edit(arith, "binary", 'return Val(cx.b.one("rem", left, right))', 'return Val(cx.b.one("mod", left, right))'),
          (f"{_MEANS}::test_remainders_of_floats[warp]",)),
    Fault("literals are divided as Python does in every dialect",
          edit(arith, "_in_dialect", 'return "truncdiv"', 'return "div"'), (f"{_MEANS}::test_literals",)),
    Fault("a launch with more axes than the kernel asks for runs the kernel of fewer",
          edit(axes, "_OfAxes.__init__", "self._axes: Final = axes", "self._axes: Final = 0"),
          (f"{_AXES}::test_axes_that_lack_have_one_thread_and_more_share_an_index[dim1-1]",)),
    Fault("threads that repeat each other have elements of their own",
          edit(dependence, "_Classes.implied", "or self.repeated or", "or"),
          (f"{_AXES}::test_that_holds_in_recorded_sequences_too",)),
    Fault("a NaN is the smaller number in every dialect",
          edit(library_vector, "_extremum", "cx.dialect.nan is Nan.PASSED_ON or not", "True or not"),
          (f"{_MEANS}::test_nan_in_extrema[warp]",)),
    Fault("a NaN wins an atomic extremum in every dialect",
          edit(views, "atomic", 'kind = f"f{kind}"', "pass"), (f"{_MEANS}::test_nan_in_atomic_extrema[warp]",)),
    Fault("what is read from an array of float16 is a float32",
          edit(views, "load", "if cx.dialect.narrow_elements else element", "if False else element"),
          (f"{_MEANS}::test_elements_of_float16_are_rounded_where_they_are_named",)),
    Fault("all components of an input are moved together",
          edit(differenced, "Run.moved", "values.reshape(-1)[at] += by", "values.reshape(-1)[:] += by"),
          ("tests/e2e/test_warp_host_tools.py::test_jacobians",)),
    # numba
    Fault("axes of a grid are in the order of the launch's",
          edit(numba_grid, "_position", "axis=layout.axes - 1 - axis", "axis=axis"), (f"{_KERNELS}[two_axes]",)),
    Fault("sizes of a grid are in the order of the launch's",
          edit(numba_grid, "_size", "axis=layout.axes - 1 - axis", "axis=axis"), (f"{_KERNELS}[two_axes]",)),
    Fault("blocks of threads that work together are counted along y first",
          edit(numba_grid, "_block", 'return cx.b.one("mod", block, along_x)',
               'return cx.b.one("floordiv", block, along_x)'),
          (f"{_KERNELS}[transposed]",)),
    Fault("threads of a block are counted along z first",
          edit(numba_grid, "_part", "lengths[0] if axis == 1", "lengths[2] if axis == 1"),
          (f"{_KERNELS}[where_they_stand_together]",)),
    Fault("the start of a block is that of one of any size",
          edit(numba_grid, "combined", "y == Const(layout.threads[axis])", "isinstance(y, Const)"),
          ("tests/cuda_dialect/test_language.py::test_blocks_may_be_given_more_room_than_they_have_threads",)),
]  # fmt: skip
