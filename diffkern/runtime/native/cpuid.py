"""The processor as its own instructions describe it, which takes microseconds where LLVM takes its libraries.

The answers are those from which LLVM finds its name for a processor and the features: equal answers, equal findings.
"""

from __future__ import annotations

import ctypes
import struct

from diffkern.runtime.native.elf import executable, is_possible

__all__ = ["identity"]

# void (uint32_t leaf, uint32_t subleaf, uint32_t answer[4]), in which rdx, with the third argument, is overwritten.
_CPUID = bytes.fromhex(
    "53"  # push rbx
    "89f8 89f1 4989d0"  # mov eax, edi; mov ecx, esi; mov r8, rdx
    "0fa2"  # cpuid
    "418900 41895804 41894808 4189500c"  # mov [r8], eax; mov [r8 + 4], ebx; mov [r8 + 8], ecx; mov [r8 + 12], edx
    "5b c3"  # pop rbx; ret
)
# The same of a register that says which parts of the processor's state the system keeps: two of the four words.
_XGETBV = bytes.fromhex("89f9 4989d0 0f01d0 418900 41895004 c3")
# The leaves that LLVM reads, with the words of each answer that count. The others hold the number of the core.
_LEAVES = (
    (0x0, 0, (0, 1, 2, 3)),  # the last leaf and the vendor
    (0x1, 0, (0, 2, 3)),  # family, model and features
    (0x7, 0, (0, 1, 2, 3)),  # more features
    (0x7, 1, (0, 1, 2, 3)),
    (0xD, 1, (0,)),  # ways to save the state
    (0x14, 0, (0, 1, 2)),  # traces
    (0x19, 0, (0, 1, 2)),  # key locker
    (0x1E, 1, (0,)),  # matrix units
    (0x24, 0, (0, 1)),  # AVX10
    (0x80000000, 0, (0,)),  # the last of the extended leaves
    (0x80000001, 0, (2, 3)),  # extended features
    (0x80000008, 0, (1,)),
)
_HAS_XGETBV = 1 << 27


def identity() -> bytes | None:
    """Return what distinguishes this processor for LLVM; None where that cannot be read."""
    code = executable(_CPUID.ljust(64, b"\xcc") + _XGETBV) if is_possible() else None
    if code is None:
        return None
    kind = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
    cpuid, xgetbv = kind(code.base), kind(code.base + 64)
    answer = (ctypes.c_uint32 * 4)()

    def asked(leaf: int, subleaf: int) -> list[int]:
        cpuid(leaf, subleaf, ctypes.addressof(answer))
        return list(answer)

    last, last_more = asked(0, 0)[0], asked(0x80000000, 0)[0]
    found: list[int] = []
    for leaf, subleaf, words in _LEAVES:
        # Beyond its last leaf a processor answers with the contents of some other one.
        known = leaf <= (last_more if leaf >= 0x80000000 else last)
        words_of = asked(leaf, subleaf) if known else [0] * 4
        found += [words_of[word] for word in words]
    if asked(1, 0)[2] & _HAS_XGETBV:
        xgetbv(0, 0, ctypes.addressof(answer))
        found += answer[:2]
    return struct.pack(f"<{len(found)}I", *found)
