"""LLVM modules and passes whose memory is given back with them.

llvmlite parses into LLVM's global context by default, which keeps every constant and type of every module until the
process ends; and its pass managers inherit, in front of the method that frees them, one that does nothing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["parse", "run_passes"]


def parse(text: str, beside: Any = None) -> Any:
    """Return a module from LLVM's text, in a context of its own or in that of the module `beside`."""
    import llvmlite.binding as llvm

    return llvm.parse_assembly(text, llvm.create_context() if beside is None else beside._context)


def run_passes(passes: Any, module: Any, builder: Any) -> None:
    """Run the passes of a manager, once: it is freed."""
    from llvmlite.binding.newpassmanagers import NewPassManager

    try:
        passes.run(module, builder)
    finally:
        NewPassManager._dispose(passes)
        passes.detach()  # its finalizer has nothing left to do
