"""The XLA part of a handler: it answers for versions, checks a call's buffers, looks up the call, and returns errors.

It emits the function ``dk_xla_handler`` in a module of LLVM code, around the code that subclasses run. For a call it
leaves a context on the stack: the description of the call, its buffers and the dims of its launches. The registry's
address is read from an exported word, which is set when the module is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from diffkern.contracts import abi
from diffkern.contracts.division import LARGEST_DIVISOR
from diffkern.interop.jax import ffi_api, layout
from diffkern.runtime.native.builder import I32, I64, PTR, Code, Module, Word

__all__ = [
    "BUFFERS", "BUFFER_WORDS", "DATA", "DESCRIPTION", "DIMS", "ERROR", "NUMBERS", "SHAPE", "STEP", "STRIDE",
    "FrameModule",
]  # fmt: skip

_MESSAGE_BYTES = 1024

# The context of one call, on the handler's stack; in bytes.
DESCRIPTION, BUFFERS, DIMS, ERROR, STEP, NUMBERS = 0, 8, 16, 24, 32, 40
_CONTEXT_WORDS = 5 + 16
# A buffer in a call: its data, bytes from one batch element to the next, its shape.
DATA, STRIDE, SHAPE, BUFFER_WORDS = 0, 8, 16, 3

_FRAME = ffi_api.OFFSETS["XLA_FFI_CallFrame"]
_BUFFER = ffi_api.OFFSETS["XLA_FFI_Buffer"]
_API = ffi_api.OFFSETS["XLA_FFI_Api"]
_ARGS, _RETS, _ATTRS = (ffi_api.OFFSETS[f"XLA_FFI_{n}"] for n in ("Args", "Rets", "Attrs"))


class FrameModule(Module, ABC):
    """The module while it is made."""

    traits = 0

    def __init__(self) -> None:
        super().__init__("diffkern.xla")
        self.registry = self.exported_word(layout.REGISTRY)
        self.snprintf = self.external("snprintf", I32, [I64, I64, I64], var_arg=True)

    def error(self) -> Any:
        """Emit ``error(frame, message, code)``: an XLA_FFI_Error with a copy of a C string."""
        made, c = self.function("error", PTR, [I64] * 3)
        frame, message, code = made.args
        size = ffi_api.SIZES["XLA_FFI_Error_Create_Args"]
        fields = ffi_api.OFFSETS["XLA_FFI_Error_Create_Args"]
        arguments = c.words(size // 8 + 1)
        c.store(size, arguments, fields["struct_size"])
        c.store(0, arguments, fields["extension_start"])
        c.store(message, arguments, fields["message"])
        c.store32(code, arguments, fields["errc"])
        create = c.load(c.load(frame, _FRAME["api"]), _API["XLA_FFI_Error_Create"])
        c.leave(c.call(create, [c.pointer(arguments)], PTR))
        return made

    def handler(self, elements: Any, error: Any) -> None:
        made, c = self.function(layout.HANDLER, PTR, [PTR], is_exported=True)
        null = ir.Constant(PTR, None)
        frame = c.address(made.args[0])

        def refuse(condition: Any, code: str, text: str, *numbers: Word) -> None:
            with c.when(condition):
                buffer = c.words(_MESSAGE_BYTES // 8)
                form = c.address(self.string(text))
                c.b.call(self.snprintf, [buffer, c.word(_MESSAGE_BYTES), form, *numbers])
                c.leave(c.b.call(error, [frame, buffer, c.word(ffi_api.ERROR_CODES[code])]))

        # XLA asks for version and traits with a frame that has nothing else: before anything is read of it.
        self.metadata(c, frame, null)
        self.skip(c, c.load32(frame, _FRAME["stage"]), null)
        attributes = c.add(frame, _FRAME["attrs"])
        # An older XLA has a shorter frame. After the question for the version, which is the same in all.
        short = c.compare("<", c.load(frame), ffi_api.SIZES["XLA_FFI_CallFrame"])
        refuse(short, "UNIMPLEMENTED", "diffkern: this version of XLA passes calls in another form; update diffkern")
        single = c.compare("==", c.load(attributes, _ATTRS["size"]), 1)
        refuse(c.b.not_(single), "INVALID_ARGUMENT", "diffkern: the call has another form than this version's")
        attribute = c.load(c.load(attributes, _ATTRS["attrs"]))
        count, call = (c.load(attribute, ffi_api.OFFSETS["XLA_FFI_Array"][f]) for f in ("size", "data"))
        # Only now may the words of the attribute be read.
        refuse(c.compare("<", count, layout.CALL_DIMS), "INVALID_ARGUMENT", "diffkern: the attribute is too short")

        description = self.look_up(c, call)
        refuse(
            c.compare("==", description, 0),
            "NOT_FOUND",
            "diffkern: program %016llx is not known in this process; call dk.jax.register() with the directory of "
            "programs, or import and trace the function that made it",
            c.load(call, layout.CALL_KEY),
        )
        self.load(c, frame, description, error, null)
        name = c.load(description, layout.NAME)
        dims = c.variable(c.add(call, 8 * layout.CALL_DIMS))
        launches = c.load(description, layout.LAUNCHES)
        # Symbolic dims travel as shapes of additional operands: then the attribute ends before them.
        static = c.sub(count, layout.CALL_DIMS)
        has_dims = c.compare("==", static, c.mul(launches, abi.MAX_DIMS))
        has_none = c.compare("==", static, 0)
        refuse(
            c.b.not_(c.b.or_(has_dims, has_none)), "INVALID_ARGUMENT", "diffkern: %s: wrong number of launch dims", name
        )
        carried = c.choose(c.b.and_(has_none, c.b.not_(has_dims)), launches, 0)
        dims.set(c.choose(c.compare("!=", carried, 0), 0, dims.get()))

        operands, results = c.load(description, layout.OPERANDS), c.load(description, layout.RESULTS)
        arguments, returns = c.add(frame, _FRAME["args"]), c.add(frame, _FRAME["rets"])
        given = c.load(arguments, _ARGS["size"])
        refuse(
            c.compare("!=", given, c.add(operands, carried)),
            "INVALID_ARGUMENT",
            "diffkern: %s: takes %lld operands, not %lld",
            name, operands, given,
        )  # fmt: skip
        made_results = c.load(returns, _RETS["size"])
        refuse(
            c.compare("!=", made_results, results),
            "INVALID_ARGUMENT",
            "diffkern: %s: gives %lld results, not %lld",
            name, results, made_results,
        )  # fmt: skip

        context = c.words(_CONTEXT_WORDS)
        total = c.add(c.add(operands, results), carried)
        # At least one word, also for a call without buffers.
        buffers = c.words(c.add(c.mul(total, BUFFER_WORDS), 1))
        c.store(description, context, DESCRIPTION)
        c.store(buffers, context, BUFFERS)
        c.store(dims.get(), context, DIMS)
        c.store(0, context, ERROR)
        self.begin(c, frame, context)

        batch = c.variable(1)
        flags, mask = c.load(call, 8 * layout.CALL_FLAGS), c.load(call, 8 * layout.CALL_BATCHED)
        is_batched = c.b.and_(flags, c.word(layout.HAS_BATCH))
        kinds = c.add(description, c.load(description, layout.BUFFERS))
        with c.loop(c.add(operands, results)) as k:
            is_operand = c.compare("<", k, operands)
            lists = c.choose(is_operand, c.load(arguments, _ARGS["args"]), c.load(returns, _RETS["rets"]))
            place = c.choose(is_operand, k, c.sub(k, operands))
            buffer = c.load(lists, c.mul(place, 8))
            # The mask has no bits beyond 63 operands; results of a batch all have the axis.
            bit = c.b.and_(c.b.lshr(mask, c.min(k, 63)), c.word(1))
            batched = c.b.and_(c.choose(is_operand, bit, 1), is_batched)
            kind = c.add(kinds, c.mul(k, layout.BUFFER_BYTES))
            dtype, rank = c.load32(buffer, _BUFFER["dtype"]), c.load(buffer, _BUFFER["rank"])
            wanted = c.add(c.load(kind, layout.BUFFER_RANK), batched)
            same = c.b.and_(c.compare("==", dtype, c.load(kind, layout.BUFFER_TYPE)), c.compare("==", rank, wanted))
            refuse(
                c.b.not_(same),
                "INVALID_ARGUMENT",
                "diffkern: %s: buffer %lld has XLA data type %lld and rank %lld; %lld and %lld are wanted",
                name, k, dtype, rank, c.load(kind, layout.BUFFER_TYPE), wanted,
            )  # fmt: skip
            shape = c.load(buffer, _BUFFER["dims"])
            record = c.add(buffers, c.mul(k, 8 * BUFFER_WORDS))
            c.store(c.load(buffer, _BUFFER["data"]), record, DATA)
            # The shape behind the axis of the batch: a launch sees one element.
            c.store(c.add(shape, c.mul(batched, 8)), record, SHAPE)
            # A buffer without the axis has a stride of 0, and is the same for all elements.
            stride = c.variable(0)
            with c.when(c.compare("!=", batched, 0)):
                extent = c.load(shape)
                has_other = c.b.and_(c.compare("!=", batch.get(), 1), c.compare("!=", batch.get(), extent))
                refuse(has_other, "INVALID_ARGUMENT", "diffkern: %s: batches of different sizes", name)
                batch.set(extent)
                size = c.variable(c.load(kind, layout.BUFFER_ITEM))
                with c.loop(c.load(kind, layout.BUFFER_RANK)) as axis:
                    size.set(c.mul(size.get(), c.load(shape, c.add(c.mul(axis, 8), 8))))
                stride.set(size.get())
            c.store(stride.get(), record, STRIDE)
        with c.loop(carried) as k:
            buffer = c.load(c.load(arguments, _ARGS["args"]), c.mul(c.add(operands, k), 8))
            record = c.add(buffers, c.mul(c.add(c.add(operands, results), k), 8 * BUFFER_WORDS))
            rank = c.load(buffer, _BUFFER["rank"])
            refuse(
                c.b.or_(c.compare("<", rank, 2), c.compare(">", rank, 1 + abi.MAX_DIMS)),
                "INVALID_ARGUMENT",
                "diffkern: %s: a launch has 1 to 4 dims",
                name,
            )
            # In the place of the stride of such an operand: its rank, since only its shape is of interest.
            c.store(c.load(buffer, _BUFFER["dims"]), record, SHAPE)
            c.store(rank, record, STRIDE)
            self.check_extents(c, refuse, name, c.add(c.load(record, SHAPE), 8), c.sub(rank, 1))
        with c.loop(c.choose(c.compare("==", carried, 0), launches, 0)) as k:
            given_dims = c.add(dims.get(), c.mul(k, 8 * abi.MAX_DIMS))
            self.check_extents(c, refuse, name, given_dims, c.word(abi.MAX_DIMS))

        self.run(c, context, description, elements, batch.get())
        self.tell(c, frame, context, error)
        c.leave(null)

    def check_extents(self, c: Code, refuse: Callable[..., None], name: Word, dims: Word, count: Word) -> None:
        """Refuse a launch whose indices would not fit in 32 bits, unless it is empty."""
        largest, threads = c.variable(0), c.variable(1)
        with c.loop(count) as axis:
            extent = c.load(dims, c.mul(axis, 8))
            largest.set(c.max(largest.get(), extent))
            threads.set(c.min(threads.get(), extent))
        large = c.b.and_(c.compare(">=", largest.get(), LARGEST_DIVISOR), c.compare("!=", threads.get(), 0))
        text = "diffkern: %s: each extent of a launch is at least 0 and less than 2**31, not %lld"
        refuse(large, "INVALID_ARGUMENT", text, name, largest.get())

    def skip(self, c: Code, stage: Word, null: Any) -> None:
        """Do nothing in any stage but that of execution."""
        with c.when(c.compare("!=", stage, ffi_api.STAGE_EXECUTE)):
            c.leave(null)

    def load(self, c: Code, frame: Word, description: Word, error: Any, null: Any) -> None:
        """Prepare for the call's programs."""

    def begin(self, c: Code, frame: Word, context: Word) -> None:
        """Prepare for the call."""

    @abstractmethod
    def run(self, c: Code, context: Word, description: Word, elements: Any, count: Word) -> None:
        """Run all elements of the batch."""

    def metadata(self, c: Code, frame: Word, null: Any) -> None:
        """Answer the question for version and traits."""
        extension = c.load(frame, _FRAME["extension_start"])
        with c.when(c.compare("!=", extension, 0)):
            kind = c.load32(extension, ffi_api.OFFSETS["XLA_FFI_Extension_Base"]["type"])
            with c.when(c.compare("==", kind, ffi_api.METADATA_EXTENSION)):
                at = c.load(extension, ffi_api.OFFSETS["XLA_FFI_Metadata_Extension"]["metadata"])
                version = ffi_api.OFFSETS["XLA_FFI_Api_Version"]
                base = c.add(at, ffi_api.OFFSETS["XLA_FFI_Metadata"]["api_version"])
                # What is used here is in version 0.1, which later runtimes take as well.
                c.store32(0, base, version["major_version"])
                c.store32(1, base, version["minor_version"])
                c.store32(self.traits, at, ffi_api.OFFSETS["XLA_FFI_Metadata"]["traits"])
                c.leave(null)

    def look_up(self, c: Code, call: Word) -> Word:
        """Return the address of a call's description, or 0."""
        # Acquire: what was written before the table was published is visible.
        registry = c.b.load_atomic(self.registry, "acquire", 8, typ=I64)
        found = c.variable(0)
        with c.when(c.compare("!=", registry, 0)):
            mask = c.load(registry)
            first, second = c.load(call, 0), c.load(call, 8)
            at = c.variable(c.b.and_(first, mask))
            # A table is never more than half full: there is an empty slot to end the search.
            with c.forever() as stop:
                slot = c.add(c.add(registry, 8), c.mul(at.get(), 8 * layout.SLOT_WORDS))
                same = c.b.and_(c.compare("==", c.load(slot), first), c.compare("==", c.load(slot, 8), second))
                found.set(c.choose(same, c.load(slot, 16), 0))
                stop(c.b.or_(same, c.compare("==", c.load(slot, 16), 0)))
                at.set(c.b.and_(c.add(at.get(), 1), mask))
        return found.get()

    def tell(self, c: Code, frame: Word, context: Word, error: Any) -> None:
        """Return the error that a debug program found, if there is one."""
        message = c.load(context, ERROR)
        with c.when(c.compare("!=", message, 0)):
            numbers = c.add(context, NUMBERS)
            shown = []
            # The format's numbers are chosen from the sixteen by the message, so that one record serves all messages.
            for k in range(layout.MESSAGE_NUMBERS):
                which = c.load(message, layout.MESSAGE_ORDER + 8 * k)
                shown.append(c.load(numbers, c.mul(which, 8)))
            buffer = c.words(_MESSAGE_BYTES // 8)
            form = c.load(message, layout.MESSAGE_FORMAT)
            c.b.call(self.snprintf, [buffer, c.word(_MESSAGE_BYTES), form, *shown])
            c.leave(c.b.call(error, [frame, buffer, c.word(ffi_api.ERROR_CODES["INVALID_ARGUMENT"])]))
