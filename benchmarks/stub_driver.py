"""A CUDA driver that costs nothing: a shared object named ``libcuda.so.1`` whose functions succeed at once.

In: nothing. Out: the object, loaded into this process under the driver's name, so that NVIDIA's Python package and
diffkern take it for the driver. Nothing runs and no memory is behind the addresses that it gives out: what is measured
with it is what the host does before and after each call of the driver. Linux on x86-64 and 64-bit ARM; no compiler is
needed, because native code comes from llvmlite and the object is written byte by byte.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diffkern.runtime.native.builder import I64, Module
from diffkern.runtime.native.loader import load_object, make_target_machine

__all__ = ["install"]

_SONAME = "libcuda.so.1"
_CONTEXT = 0x1000
_MACHINES = {"x86_64": 62, "aarch64": 183}  # ELF's numbers
_PAGE = 1 << 16

_AT_ONCE = (
    "cuInit cuThreadExchangeStreamCaptureMode cuCtxSetCurrent cuCtxSynchronize cuCtxEnablePeerAccess "
    "cuMemPoolSetAttribute cuMemFreeAsync cuMemFreeHost cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery "
    "cuStreamWaitEvent cuEventDestroy_v2 cuEventRecord cuEventQuery cuEventSynchronize cuMemcpyHtoDAsync_v2 "
    "cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuModuleUnload "
    "cuFuncSetAttribute cuLaunchKernel cuStreamBeginCapture_v2 cuGraphDestroy cuGraphExecDestroy cuGraphLaunch "
    "cuGraphExecUpdate_v2 cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2"
).split()
"""Functions that return success and nothing else."""
_ATTRIBUTES = {1: 1024, 8: 48 << 10, 10: 32, 16: 132, 41: 1, 75: 9, 76: 0, 97: 227 << 10, 115: 1}


def install() -> None:
    """Load the stub under the driver's name; the process must not have loaded a driver yet."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _MACHINES:
        sys.exit("The driver that costs nothing is for Linux on x86-64 and 64-bit ARM")
    functions = {**_native(), **_in_python()}
    table = {name.partition("_v")[0]: address for name, address in functions.items()}
    functions["cuGetProcAddress_v2"] = _kept(_finder(table))
    folder = Path(tempfile.mkdtemp(prefix="diffkern-stub-"))
    path = folder / _SONAME
    path.write_bytes(_shared_object(functions, machine))
    ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    path.unlink()
    folder.rmdir()
    # Whoever asks for the driver by its name gets what has that name already.
    assert ctypes.CDLL(_SONAME).cuInit(0) == 0


# -- functions ---------------------------------------------------------------------------------------------------------


def _native() -> dict[str, int]:
    """Return the addresses of what a launch calls, in machine code."""
    m = Module("stub")
    _, c = m.function("stub_success", I64, [], is_exported=True)
    c.leave(0)
    made, c = m.function("stub_current", I64, [I64], is_exported=True)
    c.store(_CONTEXT, made.args[0])
    c.leave(0)
    import llvmlite.binding as llvm

    machine = make_target_machine(opt=2)
    module = llvm.parse_assembly(str(m))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    found = load_object(bytes(machine.emit_object(module)), ("stub_success", "stub_current"))
    return {**dict.fromkeys(_AT_ONCE, found["stub_success"]), "cuCtxGetCurrent": found["stub_current"]}


_callbacks: list[Any] = []
_addresses = itertools.count(0x7000_0000_0000, 1 << 24)
_handles = itertools.count(0x2000, 16)


def _kept(function: Any) -> int:
    _callbacks.append(function)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _in_python() -> dict[str, int]:
    """Return the addresses of what is called seldom: functions that store an answer behind their first argument."""
    word, narrow = ctypes.c_uint64, ctypes.c_int

    def answering(answer: Callable[..., int], kind: Any = word, place: int = 0, count: int = 6) -> int:
        def call(*arguments: int) -> int:
            kind.from_address(arguments[place]).value = answer(*arguments)
            return 0

        return _kept(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * count)(call))

    def name(text: bytes) -> Any:
        def call(goal: int, size: int, device: int) -> int:
            ctypes.memmove(goal, text + b"\0", len(text) + 1)
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, word, ctypes.c_int, ctypes.c_int)(call)

    def capturing(stream: int, *places: int) -> int:
        for place, kind in zip(places, (narrow, word, word, word, word, word), strict=True):
            if place:
                kind.from_address(place).value = int(kind is narrow)  # the status: it captures
        return 0

    handle = answering(lambda *_: next(_handles))
    address = answering(lambda *_: next(_addresses))
    return {
        "cuDriverGetVersion": answering(lambda *_: 13000, narrow, count=1),
        "cuDeviceGetCount": answering(lambda *_: 1, narrow, count=1),
        "cuDeviceGet": answering(lambda *_: 0, narrow, count=2),
        "cuDeviceGetName": _kept(name(b"a driver that costs nothing")),
        "cuDeviceGetAttribute": answering(lambda _, k, *__: _ATTRIBUTES.get(k & 0xFFFFFFFF, 0), narrow, count=3),
        "cuDeviceTotalMem_v2": answering(lambda *_: 1 << 36, count=2),
        "cuDevicePrimaryCtxRetain": answering(lambda *_: _CONTEXT, count=2),
        "cuDeviceGetDefaultMemPool": handle,
        "cuMemPoolGetAttribute": answering(lambda *_: 0, place=2, count=3),
        "cuCtxGetStreamPriorityRange": answering(lambda *_: 0, narrow, count=2),
        "cuCtxGetDevice": answering(lambda *_: 0, narrow, count=1),
        "cuPointerGetAttribute": _kept(ctypes.CFUNCTYPE(ctypes.c_int, word, ctypes.c_int, word)(lambda *_: 1)),
        "cuStreamCreateWithPriority": handle,
        "cuStreamIsCapturing": answering(lambda *_: 0, narrow, place=1, count=2),
        "cuEventCreate": handle,
        "cuMemAllocAsync": address,
        "cuMemHostAlloc": address,
        "cuModuleLoadData": handle,
        "cuModuleGetFunction": handle,
        "cuFuncGetAttribute": answering(lambda *_: 1024, narrow, count=3),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": answering(lambda *_: 8, narrow, count=4),
        "cuStreamGetCaptureInfo_v3": _kept(ctypes.CFUNCTYPE(ctypes.c_int, *[word] * 7)(capturing)),
        "cuStreamEndCapture": answering(lambda *_: next(_handles), place=1, count=2),
        "cuGraphGetNodes": answering(lambda *_: 1, place=2, count=3),
        "cuGraphInstantiateWithFlags": handle,
    }


def _finder(table: Mapping[str, int]) -> Any:
    """Return ``cuGetProcAddress``: the address of a function by its name without a version."""

    def find(symbol: bytes, place: int, version: int, flags: int, status: int) -> int:
        found = table.get(symbol.decode(), 0)
        if not found and symbol == b"cuGraphInstantiate":
            found = table["cuGraphInstantiateWithFlags"]
        ctypes.c_uint64.from_address(place).value = found
        if status:
            ctypes.c_int.from_address(status).value = 0 if found else 1
        return 0 if found else 500

    word = ctypes.c_uint64
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, word, ctypes.c_int, word, word)(find)


# -- the shared object -------------------------------------------------------------------------------------------------


def _jump(address: int, machine: str) -> bytes:
    """Return 16 bytes of code that go to an address of this process."""
    if machine == "x86_64":
        return b"\x48\xb8" + struct.pack("<Q", address) + b"\xff\xe0" + bytes(4)  # mov rax, address; jmp rax
    return struct.pack("<IIQ", 0x58000050, 0xD61F0200, address)  # ldr x16, next; br x16; next: address


def _shared_object(functions: Mapping[str, int], machine: str) -> bytes:
    """Return an ELF file that exports a jump to each function; it is of use in this process alone."""
    names, offsets = b"\0", {}
    for name in (*functions, _SONAME):
        offsets[name] = len(names)
        names += name.encode() + b"\0"
    count = len(functions) + 1
    # One page that is read and executed: headers, symbols, their one chain of a hash table, names, code.
    symbols_at = 64 + 3 * 56
    hash_at = symbols_at + 24 * count
    names_at = hash_at + 4 * (3 + count)
    code_at = -(-(names_at + len(names)) // 16) * 16
    symbols = bytes(24)
    for k, name in enumerate(functions):
        symbols += struct.pack("<IBBHQQ", offsets[name], 0x12, 0, 1, code_at + 16 * k, 16)
    hashes = struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0)
    page = bytes(symbols_at) + symbols + hashes + names
    page += bytes(code_at - len(page)) + b"".join(_jump(address, machine) for address in functions.values())
    assert len(page) <= _PAGE
    entries = ((4, hash_at), (5, names_at), (6, symbols_at), (10, len(names)), (11, 24), (14, offsets[_SONAME]), (0, 0))
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    headers = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, _MACHINES[machine], 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0
    )
    headers += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, len(page), len(page), _PAGE)
    headers += struct.pack("<IIQQQQQQ", 1, 6, _PAGE, _PAGE, _PAGE, len(dynamic), len(dynamic), _PAGE)
    headers += struct.pack("<IIQQQQQQ", 2, 6, _PAGE, _PAGE, _PAGE, len(dynamic), len(dynamic), 8)
    return headers + page[symbols_at:] + bytes(_PAGE - len(page)) + dynamic
