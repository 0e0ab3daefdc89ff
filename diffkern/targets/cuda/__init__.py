"""The CUDA target: IR to LLVM code for NVIDIA's virtual machine, PTX, LTO code and cubins. No driver is needed."""

from diffkern.targets.cuda.compiler import target

__all__ = ["target"]
