"""The CUDA target: IR to LLVM code for NVIDIA's virtual machine, PTX, LTO code and cubins. No driver is needed."""

from diffkern.targets.cuda.compiler import (
    CudaObject,
    ProductLibrary,
    compile_function,
    products_of,
    shared_limit,
    target_description,
)
from diffkern.targets.cuda.kernel import alignment
from diffkern.targets.cuda.lowering import lowering

__all__ = [
    "CudaObject",
    "ProductLibrary",
    "alignment",
    "compile_function",
    "lowering",
    "products_of",
    "shared_limit",
    "target_description",
]
