"""A call's description in the words that native code reads.

A :class:`~diffkern.interop.jax.call.XlaCall` and its programs in memory give a block of words, with everything that it
points to, which has to live as long as the process.
"""

from __future__ import annotations

import ctypes
from array import array as words
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from diffkern.contracts import abi
from diffkern.contracts.argument_block import Layout
from diffkern.contracts.manifest import Manifest
from diffkern.interop.jax import ffi_api, layout
from diffkern.interop.jax.call import BoundBuffer, BufferCopy, Clear, ProgramLaunch, XlaCall
from diffkern.interop.jax.messages import messages
from diffkern.ir.types import parse_array_type, scalar_of
from diffkern.process.dataclass import dataclass
from diffkern.runtime.launch.derivative import DerivativePlan
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import cost_units, grain_of
from diffkern.runtime.native.processors import processors

__all__ = ["Code", "Description", "DeviceCode"]

_KINDS = {"array": layout.ARRAY, "value": layout.VALUE, "view": layout.VIEW, "constant": layout.CONSTANT}


@dataclass(frozen=True)
class DeviceCode:
    """A program that a GPU's driver has loaded.

    Attributes
    ----------
    kernel : int
        Its ``CUkernel``.
    blocks, shared, threads : int
        Most blocks of a grid, bytes of dynamic shared memory, threads of a block.
    manifest : Manifest
        Its facts.
    """

    kernel: int
    blocks: int
    shared: int
    threads: int
    manifest: Manifest


Code: TypeAlias = Executable | DeviceCode


class Description:
    """The words of a call, which lie at ``address``."""

    def __init__(self, call: XlaCall, programs: Mapping[str, Code], pool: int) -> None:
        # The words hold addresses, which keep nothing alive: their owners are kept here.
        self._kept: list[Any] = [programs]
        steps = words("q")
        launches = 0
        for step in call.steps:
            if isinstance(step, ProgramLaunch):
                steps.extend(self._launch(step, programs, launches))
                launches += 1
            elif isinstance(step, Clear):
                steps.extend((layout.CLEAR, 40, step.buffer, step.axes, step.launch))
            else:
                assert isinstance(step, BufferCopy)
                steps.extend((layout.COPY, 32, step.source, step.target))
        buffers = words("q")
        for b in (*call.operands, *call.results):
            buffers.extend((ffi_api.DATA_TYPES[b.dtype], b.rank, b.item))
        first = layout.HEADER + 8 * len(buffers)
        head = (
            len(call.operands), len(call.results), launches, len(call.steps), first, layout.HEADER,
            self._string(call.name), pool,
        )  # fmt: skip
        self._words = words("q", head) + buffers + steps
        self.address = self._words.buffer_info()[0]

    def _string(self, text: str) -> int:
        held = ctypes.create_string_buffer(text.encode())
        self._kept.append(held)
        return ctypes.addressof(held)

    def _launch(self, launch: ProgramLaunch, programs: Mapping[str, Code], index: int) -> words[int]:
        plain = programs[launch.plain]
        manifest = plain.manifest
        # Blocks whose threads work together are cut like a forward: threads that race there add atomically.
        adjoint = manifest.is_adjoint and not manifest.blockwise
        flags = 0
        reach: tuple[int, ...] = (0,) * abi.MAX_DIMS
        # Conflicts for extents of 1: which axes matter is decided from the actual dims by the handler.
        if adjoint:
            conflicts = DerivativePlan.of(manifest).conflicts((1,) * launch.dims)
            flags = layout.IS_ADJOINT | (layout.IS_GENERAL if conflicts.general else 0)
            reach = (*conflicts.reach, 0, 0, 0, 0)[: abi.MAX_DIMS]
        block = Layout(manifest)
        fields, size = block.fields, block.size
        stamps, texts, sites = self._checks(launch, manifest, fields)
        out = words("q", (layout.LAUNCH, 0, index))
        out.extend(_program(plain))
        out.extend(_program(programs[launch.atomic]) if launch.atomic else (0,) * layout.PROGRAM_WORDS)
        cotangents = _cotangents(launch, manifest, fields) if adjoint and isinstance(plain, Executable) else []
        out.extend((manifest.tid_arity, flags, *reach, len(launch.params), size, texts, sites, len(stamps)))
        out.extend((cost_units(manifest.cost), len(cotangents), 0, _block_of(plain)))
        for bound in launch.params:
            out.extend(self._param(bound))
        out.extend(stamps)
        # The entries follow the parameters and stamps, whose number varies: the handler finds them by this distance.
        out[layout.LAUNCH_COPIES // 8] = 8 * len(out)
        for entry in cotangents:
            out.extend(entry)
        out[1] = 8 * len(out)
        return out

    def _param(self, bound: BoundBuffer) -> tuple[int, ...]:
        extents = 0
        if bound.extents or bound.constant:
            held = words("q", bound.extents or bytes.fromhex(bound.constant))
            self._kept.append(held)
            extents = held.buffer_info()[0]
        return _KINDS[bound.kind], bound.buffer, bound.count, bound.item, extents, bound.start

    def _checks(self, launch: ProgramLaunch, manifest: Manifest, fields: Any) -> tuple[list[int], int, int]:
        """Return the stamps, the address of the messages, and the number of sites of a debug program."""
        checks = manifest.checks
        if checks is None:
            return [], 0, 0
        # Threads with one index may race in elements that are proved to be apart for distinct indices.
        repeated = launch.dims > manifest.tid_arity
        stamps = []
        for stamp in checks.stamps:
            t = parse_array_type(manifest.params[stamp.array].type)
            place = fields[stamp.array].offset + 8
            stamps.append(0 if stamp.proved and not repeated else t.ndim << 32 | place)
        table = words("q")
        for text, order in messages(manifest, launch.dims):
            table.append(self._string(text))
            table.extend((*order, *(0,) * (layout.MESSAGE_NUMBERS - len(order))))
        self._kept.append(table)
        return stamps, table.buffer_info()[0], max(1, len(checks.sites))


def _cotangents(launch: ProgramLaunch, manifest: Manifest, fields: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the cotangents: buffer, place in the argument block, bytes of a scalar, and whether threads race there."""
    found: list[tuple[int, ...]] = []
    for param, bound, field in zip(manifest.params, launch.params, fields, strict=True):
        if param.conflict is not None:
            scalar = scalar_of(parse_array_type(param.type))
            copyable = param.conflict.private and scalar.bits >= 32  # narrower sums round at each step
            flags = (layout.RACES if param.conflict.kind == "general" else 0) | (layout.COPYABLE if copyable else 0)
            found.append((bound.buffer, field.offset, scalar.itemsize, flags))
    return found


def _program(program: Code) -> tuple[int, ...]:
    if isinstance(program, DeviceCode):
        share = 1 if program.manifest.tiled else program.threads * program.manifest.resources.elements
        facts = program.kernel, program.blocks, program.shared, program.threads, share
        return (*facts, *(0,) * (layout.PROGRAM_WORDS - len(facts)))
    return (
        program.address,
        program.finish,
        program.sites,
        *grain_of(program.cost * (_block_of(program) or 1), program.lane_counts),
        processors(),
    )


def _block_of(program: Code) -> int:
    """Return how many threads of a block work together, on the CPU; 0 if each is on its own."""
    return program.block_dim if isinstance(program, Executable) and program.blockwise else 0
