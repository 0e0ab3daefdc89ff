"""Races: what nothing orders is found in any order of warps, and what something orders is let through."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_harness import run
from support.ptx import RaceFault

ROOM = {"outside": ".shared .align 16 .b8 room[1024];"}
MINE = "mov.u32 %r0, room; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1;"
NEXT = "xor.b32 %r3, %r1, {mask}; add.u32 %r4, %r0, %r3;"
PLACE = "mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 64, %t; mul.wide.u32 %w0, %r8, 4; add.u64 %w1, %a0, %w0;"
FLAG = """
    setp.ne.u32 %p0, %r8, 0; @%p0 bra READ;
    st.global.u32 [%a0], 5; {fence} {hand}
    bra END;
READ: {find} setp.eq.u32 %p1, %r9, 0; @%p1 bra READ; {after}
    ld.global.u32 %r7, [%a0];
END:
"""
"""One block leaves a number and says so; the others wait and read it."""


def exchanged(barrier: str, mask: int) -> str:
    """Each thread leaves a word and reads that of another."""
    return f"{MINE} st.shared.u32 [%r2], %t; {barrier} {NEXT.format(mask=mask)} ld.shared.u32 %r9, [%r4];"


def flagged(fence="membar.gl;", after="membar.gl;", hand="red.global.add.u32 [%a0+4], 1;", find=None) -> str:
    find = find or "atom.global.add.u32 %r9, [%a0+4], 0;"
    return PLACE + FLAG.format(fence=fence, hand=hand, find=find, after=after)


RIGHT = {
    "words of their own": PLACE + "ld.global.u32 %r9, [%w1]; add.u32 %r9, %r9, 1; st.global.u32 [%w1], %r9;",
    "reads of one word": "ld.global.u32 %r9, [%a0];",
    "reads of what is constant": "ld.global.nc.u32 %r9, [%a0];",
    "one value from all": "st.global.u32 [%a0], 7; ",
    "a barrier": exchanged("bar.sync 0;", 0xFC),
    "a barrier of two warps": exchanged("bar.sync 1, 64;", 0xFC),
    "a meeting of a warp": exchanged("bar.warp.sync -1;", 0x7C),
    "a meeting of two lanes": MINE + "shl.b32 %r6, 3, %t; and.b32 %r6, %t, 30; shl.b32 %r6, 3, %r6;"
        + exchanged("bar.warp.sync %r6;", 4),
    "atomic sums": "red.global.add.u32 [%a0], 1;",
    "a sum and reads": "red.global.add.u32 [%a0], 1; ld.global.u32 %r9, [%a0];",
    "fences and a counter": flagged(),
    "a counter that is a fence": flagged("", "", "atom.release.gpu.global.add.u32 %r6, [%a0+4], 1;",
                                         "ld.acquire.gpu.global.u32 %r9, [%a0+4];"),
    "a flag with an order": flagged(hand="st.volatile.global.u32 [%a0+4], 1;",
                                    find="ld.volatile.global.u32 %r9, [%a0+4];"),
    "bytes of one word": PLACE + "cvt.u64.u32 %w5, %r8; add.u64 %w6, %a0, %w5; st.global.u8 [%w6], %t;",
    "an exchange around a half": PLACE + """
        setp.ne.u32 %p0, %r8, 0; @%p0 bra REST; st.global.u16 [%a0+2], 9; bra END;
    REST: ld.volatile.global.u32 %r5, [%a0]; and.b32 %r6, %r5, 0xffff0000; or.b32 %r6, %r6, 3;
        atom.global.cas.b32 %r7, [%a0], %r5, %r6;
    END:""",
}  # fmt: skip
WRONG = {
    "one word from all": ("st.global.u32 [%a0], %t;", "writes byte 0 of an allocation of 1024"),
    "a plain sum": ("ld.global.u32 %r9, [%a0]; add.u32 %r9, %r9, 1; st.global.u32 [%a0], %r9;", "byte 0 of an alloc"),
    "a sum and a write": (PLACE + "red.global.add.u32 [%a0], 5; st.global.u32 [%a0], 3;", "updates|writes"),
    "a write and reads": (
        "setp.eq.u32 %p0, %t, 33; @!%p0 ld.global.u32 %r9, [%a0]; @%p0 st.global.u32 [%a0], 5;", "read",
    ),
    "no barrier": (exchanged("", 0xFC), "of shared memory"),
    "a meeting of a warp for two": (exchanged("bar.warp.sync -1;", 0xFC), "of shared memory"),
    "lanes that do not meet": (exchanged("", 4), "of shared memory"),
    "a shuffle": (exchanged("shfl.sync.bfly.b32 %r9|%p3, %t, 1, 31, -1;", 4), "of shared memory"),
    "too late a barrier": (exchanged("", 0xFC) + "bar.sync 0;", "of shared memory"),
    "a second round": (exchanged("bar.sync 0;", 0xFC) + "st.shared.u32 [%r2], %r9;", "of shared memory"),
    "no fence before": (flagged(fence=""), "reads byte 0"),
    "no fence behind": (flagged(after=""), "reads byte 0"),
    "what is constant": (PLACE + "st.global.u32 [%w1], 7; ld.global.nc.u32 %r9, [%w1];", "takes to be constant"),
    "what was constant": (PLACE + "ld.global.nc.u32 %r9, [%w1]; st.global.u32 [%w1], 7;", "takes to be constant"),
    "a byte of a word": (
        "setp.eq.u32 %p0, %t, 40; @%p0 st.global.u32 [%a0], 9; @!%p0 ld.global.u8 %r9, [%a0];", "read",
    ),
}  # fmt: skip


def words() -> np.ndarray:
    """Enough for two blocks of 64 threads; it begins at a multiple of 8."""
    return np.zeros(128, np.uint64).view(np.uint32)


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_what_is_ordered(name):
    for seed in range(2):
        run(RIGHT[name], words(), threads=64, blocks=2, seed=seed, **ROOM)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_is_not_ordered(name):
    body, said = WRONG[name]
    for seed in range(3):
        with pytest.raises(RaceFault, match=said):
            run(body, words(), threads=64, blocks=2, seed=seed, **ROOM)


def test_launches_are_ordered():
    data = words()
    for _ in range(2):
        run(PLACE + "ld.global.u32 %r9, [%w1]; st.global.u32 [%w1], %t;", data, threads=64, blocks=2)
        run(PLACE + "xor.b64 %w0, %w0, 252; add.u64 %w1, %a0, %w0; st.global.u32 [%w1], %t;", data, threads=64)


def test_a_message_names_threads_and_lines():
    body = '.file 1 "waves.py"\n.loc 1 7 0\nld.global.u32 %r9, [%a0];\n.loc 1 8 3\nst.global.u32 [%a0], %r8;'
    with pytest.raises(RaceFault) as caught:
        run("mov.u32 %r8, %ctaid.x; add.u32 %r8, %r8, 1;\n" + body, words(), threads=1, blocks=2)
    read, write = r"line 14 of the PTX, waves.py:7: ld.global.u32 %r9, \[%a0\]", r"line 16 of the PTX, waves.py:8: st"
    assert re.search(r"thread 0 of block [01] (reads|writes) byte 0 of an allocation of 1024", str(caught.value))
    assert re.search(rf"now: +({read}|{write})", str(caught.value))
    assert re.search(rf"other: +({read}|{write})", str(caught.value))
