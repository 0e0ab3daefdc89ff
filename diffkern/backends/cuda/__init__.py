"""The CUDA target: IR to LLVM code for NVIDIA's virtual machine, PTX, LTO code and cubins. No driver is needed."""

from diffkern.backends.cuda.compiler import CudaObject, compile_function, target_description

__all__ = ["CudaObject", "compile_function", "target_description"]
