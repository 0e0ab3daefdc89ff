"""Late imports: functions of upper layers that lower layers call, each by a dotted name, imported at its first call.

The table is the complete list of calls against the direction of imports. A module that needs such a function names its
entry; nothing has to be wired when the package is imported, and the upper layer is loaded only by those who use it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = [
    "ARRAY", "ARRAY_AT", "ARRAY_FROM_DATA", "ARRAY_OF_STRUCTS", "CONVERTED", "CUDA_KERNEL", "ELEMENTWISE", "EVALUATE",
    "EXTREME", "FORWARD_MODE", "FUNC_DERIVATIVE", "FUNC_TANGENTS", "GPU", "GRAPH", "INDEXED_ARRAY", "LINEAR_OPERATOR",
    "MATMUL", "NUMBA_TYPE", "OPERATED", "OUTLINE", "SPARSE_AXPY", "SPARSE_COPY", "SPARSE_OPERATOR",
    "SPARSE_PRECONDITIONER", "SPARSE_PRODUCT", "SPARSE_SCALE", "SPARSE_SUM", "SPARSE_TRANSPOSED", "SPARSE_VECTOR",
    "TOTAL", "Late",
]  # fmt: skip


class Late:
    """A function or class that is imported when it is first called or asked for.

    Parameters
    ----------
    name : str
        ``module:attribute``, where the attribute may be one of an object of the module.
    """

    __slots__ = ("_found", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    @property
    def value(self) -> Any:
        """The object that the name stands for."""
        found = self._found
        if found is None:
            found = self._found = self.find()
        return found

    def find(self) -> Any:
        """Return the object that the name stands for, looked up again."""
        module, _, path = self.name.partition(":")
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found


ARRAY = Late("diffkern.runtime.arrays.array:array")
"""The class of arrays, for what stands in the place of one and what makes one of data."""

ARRAY_AT = Late("diffkern.runtime.arrays.construct:at_address")
"""An array over memory given by its address, for the constructor of arrays."""

ARRAY_FROM_DATA = Late("diffkern.runtime.arrays.construct:from_data")
"""An array made from data, for the same."""

ARRAY_OF_STRUCTS = Late("diffkern.runtime.arrays.structured:StructuredArray")
"""The class of arrays whose elements are structs, for the same."""

GPU = Late("diffkern.runtime.cuda.entry:Gpu")
"""The run time on GPUs, for memory, devices and streams; loading it needs no driver."""

ELEMENTWISE = Late("diffkern.transforms.elementwise:find")
"""Kernels that copy and add arrays of a GPU, for its memory."""

CUDA_KERNEL = Late("diffkern.cuda.jit:CudaKernel.of_dispatcher")
"""The kernel of a function that ``numba.cuda.jit`` has decorated."""

FORWARD_MODE = Late("diffkern.kernels.derived_kernel:TangentKernel")
"""A kernel in forward mode, for ``Kernel.jvp``."""

MATMUL = Late("diffkern.transforms.matmul:matmul")
"""A product of matrices in arrays, for their operator."""

OPERATED = Late("diffkern.transforms.mapping:operated")
"""A built-in applied to the elements of arrays, for their operators."""

GRAPH = Late("diffkern.runtime.records.graph:Graph")
"""The graph of a sequence."""

INDEXED_ARRAY = Late("diffkern.transforms.indexed:indexedarray")
"""An array viewed through index arrays, for indexing of arrays."""

LINEAR_OPERATOR = Late("diffkern.optim.linear:LinearOperator")
"""Operators of solvers, which sparse matrices become."""

SPARSE_AXPY = Late("diffkern.sparse.sums:bsr_axpy")
SPARSE_COPY = Late("diffkern.sparse.structure:bsr_copy")
SPARSE_PRECONDITIONER = Late("diffkern.sparse.preconditioners:made_for")
"""A preconditioner of a sparse matrix with a factor, for methods of matrices."""

SPARSE_OPERATOR = Late("diffkern.sparse.operators:operator_of")
SPARSE_PRODUCT = Late("diffkern.sparse.products:bsr_mm")
SPARSE_SCALE = Late("diffkern.sparse.sums:bsr_scale")
SPARSE_SUM = Late("diffkern.sparse.sums:added")
SPARSE_TRANSPOSED = Late("diffkern.sparse.structure:bsr_transposed")
SPARSE_VECTOR = Late("diffkern.sparse.products:bsr_mv")
"""The operators and methods of sparse matrices."""

TOTAL = Late("diffkern.utils.sums:total")
"""The sum of an array, for its methods."""

EXTREME = Late("diffkern.utils.sums:extreme")
"""Its least or greatest element, for the same."""

CONVERTED = Late("diffkern.utils.sums:converted")
"""A copy of an array with elements of another type, for its methods."""

EVALUATE = Late("diffkern.host.evaluate:evaluate")
"""The value of a call from Python of a func's derivative or of a library function."""

NUMBA_TYPE = Late("diffkern.interop.numba:type_of")
"""Numba's type of a func, a kernel, or a form of one."""

OUTLINE = Late("diffkern.frontend.syntax.outline:outline_of")
"""The outline of a function, which evaluates its static expressions."""

FUNC_DERIVATIVE = Late("diffkern.compiler.pipeline:FUNCS.derivative")
"""Reverse mode of a func that a kernel calls: the function also takes a cotangent for each differentiable result, and
yields the results and the cotangents of the active parameters."""

FUNC_TANGENTS = Late("diffkern.compiler.pipeline:FUNCS.tangents")
"""Forward mode of such a func: the function also takes a tangent for each active parameter, and yields the results and
the tangents of the differentiable ones."""
