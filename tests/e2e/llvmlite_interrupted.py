"""A process that gets a KeyboardInterrupt once at each place of llvmlite's Python code that its main thread passes.

Each round compiles a kernel, launches it and drops it. It is interrupted at places where no round was before: in each
finalizer, and in the rest once. Prints what functions these places are in.
"""

import gc
import os
import sys
import tempfile
import types
from pathlib import Path

import llvmlite.binding
import numpy as np

import diffkern as dk

TEXT = """
import diffkern as dk

@dk.kernel
def {name}(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * dk.sin(x[i]) + {value}.0
"""

BINDING = os.path.dirname(llvmlite.binding.__file__)


class Interrupter:
    """Raises at places that it has not seen."""

    def __init__(self) -> None:
        self.seen: set[tuple[types.CodeType, int]] = set()
        self.raised = False

    def calls(self, frame: types.FrameType, event: str, arg: object) -> object:
        if not frame.f_code.co_filename.startswith(BINDING):
            return None
        frame.f_trace_opcodes = True
        return self.opcodes

    def opcodes(self, frame: types.FrameType, event: str, arg: object) -> object:
        place = (frame.f_code, frame.f_lasti)
        if event == "opcode" and place not in self.seen:
            self.seen.add(place)
            self.raised = True
            raise KeyboardInterrupt
        return self.opcodes

    def after_finalizer(self, _: object) -> None:
        """Go on after what a finalizer raised, which Python reports here, and which ended the tracing."""
        sys.settrace(self.calls)


def one(directory: str, number: int) -> None:
    """Compile, load, launch and drop a kernel."""
    path = Path(directory, f"k{number}.py")
    path.write_text(TEXT.format(name=path.stem, value=number))
    module = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), module)
    x, y = dk.zeros(4), dk.zeros(4)
    module[path.stem][4](x, y)
    assert (y.numpy() == np.float32(number)).all()
    module.clear()
    gc.collect()


def main() -> None:
    interrupter = Interrupter()
    sys.unraisablehook = interrupter.after_finalizer
    with tempfile.TemporaryDirectory() as directory:
        one(directory, 0)
        number = 0
        while interrupter.raised or not number:
            number += 1
            interrupter.raised = False
            sys.settrace(interrupter.calls)
            try:
                one(directory, number)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
        one(directory, number + 1)
    print(*sorted({code.co_name for code, _ in interrupter.seen}))


if __name__ == "__main__":
    main()
