"""The handler for CUDA, as LLVM code: the same walk through the call, with launches on XLA's stream.

The module exports ``dk_xla_handler`` for the platform CUDA, for the stages *initialize* and *execute*, and reads the
addresses of the registry and of the driver's functions from exported words. It only puts launches, copies and clears on
the stream, always the same ones for the same call, and declares so: XLA may capture it into CUDA graphs. The argument
block is the CPU's, byte for byte, and is passed to the driver as the kernel's one parameter. Kernels are ``CUkernel``s,
which are good for every device; *initialize* makes the driver load them there, so that none is loaded while a graph is
captured. Values are not read here, as they lie on the device: the programs take them by reference.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.interop.jax import ffi_api, layout
from diffkern.interop.jax.frame import DESCRIPTION, ERROR, NUMBERS
from diffkern.interop.jax.handler import HandlerModule
from diffkern.runtime.native.builder import I32, I64, PTR, Code, Word

__all__ = ["cuda_handler_ir"]

_STREAM = NUMBERS  # of the context; the stream stands where the CPU has numbers of an error
_MESSAGE_BYTES = 512


def cuda_handler_ir() -> str:
    """Return the module's text."""
    return _CudaModule().text()


class _CudaModule(HandlerModule):
    traits = ffi_api.COMMAND_BUFFER_COMPATIBLE

    def __init__(self) -> None:
        super().__init__()
        self.driver = self.exported_word(layout.DRIVER)

    def function_of(self, c: Code, which: int) -> Word:
        return c.load(c.b.load(self.driver, typ=I64), which)

    # The handler goes on after a failure: later work on the stream fails as well, and the first code tells the cause.
    def note(self, c: Code, context: Word, status: Any) -> None:
        """Keep the first failure."""
        failed = c.b.and_(c.compare("!=", c.b.zext(status, I64), 0), c.compare("==", c.load(context, ERROR), 0))
        with c.when(failed):
            c.store(c.b.zext(status, I64), context, ERROR)

    def copy_buffer(self, c: Code, context: Word, to: Word, source: Word, count: Word) -> None:
        stream = c.load(context, _STREAM)
        # The driver refuses copies and sets of zero bytes.
        with c.when(c.compare("!=", count, 0)):
            self.note(c, context, c.call(self.function_of(c, layout.DRIVER_COPY), [to, source, count, stream], I32))

    def clear_buffer(self, c: Code, context: Word, at: Word, count: Word) -> None:
        arguments = [at, ir.Constant(ir.IntType(8), 0), count, c.load(context, _STREAM)]
        with c.when(c.compare("!=", count, 0)):
            self.note(c, context, c.call(self.function_of(c, layout.DRIVER_CLEAR), arguments, I32))

    def launch(self) -> Any:
        made, c = self.function("launch", ir.VoidType(), [I64] * 3)
        context, step, element = made.args
        description = c.load(context, DESCRIPTION)
        dims, n = self.dims(c, context, description, c.load(step, layout.LAUNCH_INDEX))
        with c.when(c.compare("==", n, 0)):
            c.b.ret_void()
        # On the handler's stack: cuLaunchKernel copies the parameter before it returns.
        block = c.words(c.div(c.load(step, layout.LAUNCH_BLOCK), 8))
        self.pack(c, context, step, element, block)
        c.store(0, block, abi.STATUS)
        for axis in range(abi.MAX_DIMS):
            c.store(c.load(dims, 8 * axis), block, abi.DIMS + 8 * axis)
        self.dividers(c, block)
        program = c.add(step, layout.LAUNCH_PLAIN)
        threads = c.load(program, layout.DEVICE_THREADS)
        # A grid-stride loop in the program covers what the grid does not.
        blocks = c.min(c.ceil_div(n, c.load(program, layout.DEVICE_SHARE)), c.load(program, layout.DEVICE_BLOCKS))
        params = c.words(1)
        c.store(block, params)
        narrow = [c.b.trunc(w, I32) for w in (blocks, c.word(1), c.word(1), threads, c.word(1), c.word(1))]
        arguments = [
            c.load(program, layout.DEVICE_KERNEL), *narrow, c.b.trunc(c.load(program, layout.DEVICE_SHARED), I32),
            c.load(context, _STREAM), params, c.word(0),
        ]  # fmt: skip
        self.note(c, context, c.call(self.function_of(c, layout.DRIVER_LAUNCH), arguments, I32))
        c.b.ret_void()
        return made

    def dividers(self, c: Code, block: Word) -> None:
        """Store what divides by the extents but the first, as ``contracts.division.divider`` finds it."""
        b, shifts = c.b, c.word(0)
        for axis in range(1, abi.MAX_DIMS):
            extent = c.load(block, abi.DIMS + 8 * axis)
            shift = b.sub(c.word(64), b.ctlz(b.sub(extent, c.word(1)), ir.Constant(ir.IntType(1), 0)))
            rest = b.shl(b.sub(b.shl(c.word(1), shift), extent), c.word(32))
            multiplier = b.trunc(b.add(b.udiv(rest, extent), c.word(1)), I32)
            at = b.inttoptr(c.add(block, abi.MULTIPLIERS + 4 * (axis - 1)), PTR)
            b.store(multiplier, at)
            shifts = b.or_(shifts, b.shl(shift, c.word(8 * (axis - 1))))
        # The last byte says nothing of rounds.
        b.store(b.trunc(shifts, I32), b.inttoptr(c.add(block, abi.SHIFTS), PTR))

    def skip(self, c: Code, stage: Word, null: Any) -> None:
        with c.when(c.compare("<", stage, ffi_api.STAGE_INITIALIZE)):
            c.leave(null)

    def load(self, c: Code, frame: Word, description: Word, error: Any, null: Any) -> None:
        """Make the driver load the kernels on the current device, in the stage before execution."""
        stage = c.load32(frame, ffi_api.OFFSETS["XLA_FFI_CallFrame"]["stage"])
        with c.when(c.compare("==", stage, ffi_api.STAGE_INITIALIZE)):
            step = c.variable(c.add(description, c.load(description, layout.FIRST_STEP)))
            failed, found = c.variable(0), c.words(1)
            with c.loop(c.load(description, layout.STEPS)):
                with c.when(c.compare("==", c.load(step.get(), layout.STEP_KIND), layout.LAUNCH)):
                    kernel = c.load(c.add(step.get(), layout.LAUNCH_PLAIN), layout.DEVICE_KERNEL)
                    status = c.call(self.function_of(c, layout.DRIVER_FUNCTION), [found, kernel], I32)
                    failed.set(c.choose(c.compare("==", failed.get(), 0), c.b.zext(status, I64), failed.get()))
                step.set(c.add(step.get(), c.load(step.get(), layout.STEP_BYTES)))
            self.refuse_failure(c, frame, description, failed.get(), error)
            c.leave(null)

    # Stages before *initialize* have no device.
    def begin(self, c: Code, frame: Word, context: Word) -> None:
        """Ask XLA for the stream."""
        fields = ffi_api.OFFSETS["XLA_FFI_Stream_Get_Args"]
        frames, api = ffi_api.OFFSETS["XLA_FFI_CallFrame"], ffi_api.OFFSETS["XLA_FFI_Api"]
        size = ffi_api.SIZES["XLA_FFI_Stream_Get_Args"]
        arguments = c.words(size // 8)
        c.store(size, arguments, fields["struct_size"])
        c.store(0, arguments, fields["extension_start"])
        c.store(c.load(frame, frames["ctx"]), arguments, fields["ctx"])
        c.store(0, arguments, fields["stream"])
        get = c.load(c.load(frame, frames["api"]), api["XLA_FFI_Stream_Get"])
        problem = c.call(get, [c.pointer(arguments)], PTR)
        with c.when(c.compare("!=", c.address(problem), 0)):
            c.leave(problem)
        c.store(c.load(arguments, fields["stream"]), context, _STREAM)

    def run(self, c: Code, context: Word, description: Word, elements: Any, count: Word) -> None:
        # A stream runs in order: the elements of a batch are enqueued one after the other.
        c.b.call(elements, [context, c.word(0), count])

    def tell(self, c: Code, frame: Word, context: Word, error: Any) -> None:
        self.refuse_failure(c, frame, c.load(context, DESCRIPTION), c.load(context, ERROR), error)

    def refuse_failure(self, c: Code, frame: Word, description: Word, status: Word, error: Any) -> None:
        with c.when(c.compare("!=", status, 0)):
            buffer = c.words(_MESSAGE_BYTES // 8)
            form = c.address(self.string("diffkern: %s: the CUDA driver refused it with error %lld"))
            name = c.load(description, layout.NAME)
            c.b.call(self.snprintf, [buffer, c.word(_MESSAGE_BYTES), form, name, status])
            c.leave(c.b.call(error, [frame, buffer, c.word(ffi_api.ERROR_CODES["INTERNAL"])]))
