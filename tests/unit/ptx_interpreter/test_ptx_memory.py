"""Memory: bounds, alignment, address spaces, vectors, atomic operations."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_harness import run
from support.ptx import PtxFault

AT = "cvt.u64.u32 %w0, %t; mad.lo.u64 %w2, %w0, 4, %a0;"


def aligned(count: int, dtype: type, alignment: int = 16) -> np.ndarray:
    """Zeros whose first one is at a multiple of a number of bytes."""
    room = np.zeros(count * np.dtype(dtype).itemsize + 2 * alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + count * np.dtype(dtype).itemsize].view(dtype)


# -- bounds and alignment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("ld.global.u32 %r0, [%a0+16];", "lies in no allocation"),
        ("ld.global.u32 %r0, [%a0+-4];", "lies in no allocation"),
        ("st.global.u32 [%a0+16], %t;", "lies in no allocation"),
        ("red.global.add.u32 [%a0+16], 1;", "lies in no allocation"),
        ("ld.global.v2.u32 {%r0, %r1}, [%a0+16];", "lies in no allocation"),
        ("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a0];", None),
        ("ld.global.v2.u32 {%r0, %r1}, [%a0+4];", r"a misaligned access of 8 bytes at 0x\w+4"),
        ("ld.global.v2.b64 {%w0, %w1}, [%a0+8];", r"a misaligned access of 16 bytes at 0x\w+8"),
        ("ld.global.u32 %r0, [%a0+2];", "a misaligned access of 4 bytes"),
        ("st.global.u64 [%a0+4], %a0;", "a misaligned access of 8 bytes"),
        ("atom.global.cas.b32 %r0, [%a0+2], 0, 1;", "a misaligned access of 4 bytes"),
        ("mov.u64 %w0, 0; ld.global.u32 %r0, [%w0];", "0x0 lies in no allocation"),
        ("mov.u32 %r0, room; st.shared.u32 [%r0+64], %t;", "beyond the end of a block's shared memory of 64"),
        ("st.local.u32 [depot+8], %t;", "an access of 4 bytes beyond the 8 of a thread's local memory"),
    ],
)
def test_bounds_and_alignment(body, said):
    data = aligned(4, np.uint32)
    declarations = ".local .align 8 .b8 depot[8];"
    given = {"outside": ".shared .align 4 .b8 room[64];"}
    if said is None:
        run(declarations + body, data, **given)
        return
    with pytest.raises(PtxFault, match=said):
        run(declarations + body, data, **given)


def test_an_access_that_begins_inside_and_ends_outside():
    """The last three of seven bytes belong to no aligned word of the allocation."""
    data = aligned(7, np.uint8)
    with pytest.raises(PtxFault, match="an access of 4 bytes reaches 1 beyond the end of an allocation of 7"):
        run("ld.global.u32 %r0, [%a0+4];", data)


def test_only_lanes_that_take_part_are_checked():
    data = aligned(3, np.uint32)
    run(f"{AT} setp.lt.u32 %p1, %t, 3; @%p1 st.global.u32 [%w2], %t;", data)
    np.testing.assert_array_equal(data, [0, 1, 2])


def test_an_access_to_several_allocations_at_once():
    even, odd = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    run("""
        and.b32 %r0, %t, 1; setp.eq.u32 %p1, %r0, 0; selp.b64 %w0, %a0, %a1, %p1;
        cvt.u64.u32 %w1, %t; mad.lo.u64 %w2, %w1, 4, %w0; st.global.u32 [%w2], %t; ld.global.u32 %r9, [%w2];
        add.u32 %r9, %r9, 1; st.global.u32 [%w2], %r9;
    """, even, odd)  # fmt: skip
    np.testing.assert_array_equal(even + odd, np.arange(1, 33))
    assert not even[1::2].any()


# -- spaces ------------------------------------------------------------------------------------------------------------


def test_narrow_elements():
    bytes_, out = np.array([200, 0x80], np.uint8), np.zeros(4, np.int32)
    run("""
        ld.global.u8 %r0, [%a0]; ld.global.s8 %r1, [%a0+1]; ld.global.u8 %h0, [%a0+1]; cvt.u32.u16 %r2, %h0;
        st.global.u32 [%a1], %r0; st.global.u32 [%a1+4], %r1; st.global.u32 [%a1+8], %r2;
        mov.u32 %r3, 511; st.global.u8 [%a0], %r3;
    """, bytes_, out, threads=1)  # fmt: skip
    np.testing.assert_array_equal(out, [200, -128, 128, 0])
    assert bytes_[0] == 255


def test_vectors():
    data = aligned(8, np.float32)
    data[:] = np.arange(8)
    run("""
        ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%a0+16];
        st.global.v2.f32 [%a0+8], {%f3, %f0}; ld.global.v2.b64 {%w0, %w1}, [%a0]; st.global.b64 [%a0+24], %w1;
    """, data, threads=1)  # fmt: skip
    np.testing.assert_array_equal(data, [0, 1, 7, 4, 4, 5, 7, 4])


def test_each_thread_has_its_local_memory():
    out = np.zeros(64, np.uint32)
    run(f"""
        .local .align 4 .b8 depot[12]; .reg .b64 %sp; mov.u64 %sp, depot; cvta.local.u64 %w5, %sp;
        st.local.u32 [%sp+4], %t; add.u32 %r0, %t, 5; st.u32 [%w5+8], %r0; ld.u32 %r1, [%w5+4];
        ld.local.u32 %r2, [depot+8]; add.u32 %r9, %r1, %r2; {AT} st.global.u32 [%w2], %r9;
    """, out, threads=64)  # fmt: skip
    np.testing.assert_array_equal(out, 2 * np.arange(64) + 5)


def test_generic_addresses_of_shared_memory():
    out = np.zeros(32, np.uint32)
    run(f"""
        mov.u64 %w5, room; cvta.shared.u64 %w6, %w5; cvt.u64.u32 %w0, %t; mad.lo.u64 %w7, %w0, 4, %w6;
        st.u32 [%w7], %t; cvta.to.shared.u64 %w8, %w7; ld.shared.u32 %r9, [%w8]; isspacep.shared %p1, %w7;
        @!%p1 trap; isspacep.global %p1, %a0; @!%p1 trap; {AT} st.u32 [%w2], %r9;
    """, out, outside=".shared .align 8 .b8 room[128];")  # fmt: skip
    np.testing.assert_array_equal(out, np.arange(32))


def test_blocks_do_not_share_shared_memory():
    out = np.zeros(8, np.uint32)
    run("""
        mov.u32 %r0, %ctaid.x; atom.shared.add.u32 %r2, [counter], 1; bar.sync 0; ld.shared.u32 %r1, [counter];
        mul.wide.u32 %w0, %r0, 4; add.u64 %w1, %a0, %w0; st.global.u32 [%w1], %r1;
    """, out, threads=64, blocks=8, outside=".shared .align 4 .u32 counter;")  # fmt: skip
    assert set(out) == {(0xA5A5A5A5 + 64) & 0xFFFFFFFF}


def test_shared_memory_that_the_launch_asks_for():
    out = np.zeros(32, np.uint32)
    text = f"""mov.u32 %r0, extra; mad.lo.u32 %r1, %t, 4, %r0; st.shared.u32 [%r1], %t; ld.shared.u32 %r9, [%r1];
        {AT} st.global.u32 [%w2], %r9;"""
    given = {"outside": ".shared .align 4 .b8 room[4]; .extern .shared .align 16 .b8 extra[];"}
    run(text, out, shared=128, **given)
    np.testing.assert_array_equal(out, np.arange(32))
    with pytest.raises(PtxFault, match="shared memory of 140"):
        run(text, out, shared=124, **given)


def test_tables_of_constants():
    out = np.zeros(3, np.uint32)
    run(
        f"and.b32 %r0, %t, 3; mov.u64 %w5, table; {AT} sub.u64 %w6, %w2, %a0; add.u64 %w7, %w5, %w6; "
        "ld.const.u32 %r9, [%w7]; st.global.u32 [%w2], %r9;",
        out, threads=3, outside=".const .align 4 .b8 table[12] = {1, 2, 0, 0, 5, 0, 0, 0, 255, 255, 255, 255};",
    )  # fmt: skip
    np.testing.assert_array_equal(out, [513, 5, 2**32 - 1])


# -- atomic operations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "dtype", "start", "expected"),
    [
        ("add.u32 [%a0], %t", np.uint32, 5, 5 + 31 * 32 // 2),
        ("add.u64 [%a0], %w0", np.uint64, 5, 5 + 31 * 32 // 2),
        ("max.u32 [%a0], %t", np.uint32, 5, 31),
        ("min.s32 [%a0], %r1", np.int32, 5, -31),
        ("or.b32 [%a0], %r2", np.uint32, 0, 2**32 - 1),
        ("xor.b32 [%a0], %t", np.uint32, 1, 1),
        ("and.b32 [%a0], %t", np.uint32, 2**32 - 1, 0),
        ("inc.u32 [%a0], 6", np.uint32, 0, 32 % 7),
        ("dec.u32 [%a0], 6", np.uint32, 0, 3),
        ("add.f32 [%a0], 0f3F000000", np.float32, 1, 17),
        ("add.f64 [%a0], 0d3FE0000000000000", np.float64, 1, 17),
    ],
)
def test_all_lanes_update_one_element(operation, dtype, start, expected):
    data = np.array([start], dtype)
    run(f"cvt.u64.u32 %w0, %t; neg.s32 %r1, %t; shl.b32 %r2, 1, %t; red.relaxed.gpu.global.{operation};".replace(
        "shl.b32 %r2, 1, %t", "mov.u32 %r3, 1; shl.b32 %r2, %r3, %t"), data)  # fmt: skip
    assert data[0] == expected


@pytest.mark.parametrize("seed", range(3))
def test_each_lane_gets_what_it_found(seed):
    total, tickets = np.zeros(1, np.uint32), np.zeros(96, np.uint32)
    run("atom.global.add.u32 %r0, [%a0], 1; mul.wide.u32 %w0, %r0, 4; add.u64 %w1, %a1, %w0; st.global.u32 [%w1], 1;",
        total, tickets, threads=96, seed=seed)  # fmt: skip
    assert total[0] == 96
    assert tickets.all()


def test_compare_and_swap_in_a_loop():
    """Each lane doubles the number once; those that come too late try again."""
    data = np.array([1], np.uint32)
    run("""
        setp.ge.u32 %p2, %t, 9; @%p2 bra END; ld.global.u32 %r0, [%a0];
    AGAIN: shl.b32 %r1, %r0, 1; atom.global.cas.b32 %r2, [%a0], %r0, %r1;
        setp.ne.u32 %p1, %r0, %r2; mov.u32 %r0, %r2; @%p1 bra AGAIN;
    END:
    """, data, threads=96)  # fmt: skip
    assert data[0] == 2**9


def test_exchange_and_16_bits():
    data, out = np.array([7, 9], np.uint16), np.zeros(1, np.uint32)
    run("""
        mov.u16 %h0, 7; mov.u16 %h1, 8; atom.global.cas.b16 %h2, [%a0], %h0, %h1; cvt.u32.u16 %r0, %h2;
        atom.global.exch.b32 %r1, [%a1], %r0; atom.global.exch.b32 %r1, [%a1], %r1;
    """, data, out, threads=1)  # fmt: skip
    np.testing.assert_array_equal(data, [8, 9])
    assert out[0] == 7 or out[0] == 0


def test_pairs_of_halves():
    halves, brains = np.array([1, 2], np.float16), np.array([0x3F80, 0x4000], np.uint16)
    run("""
        mov.b32 %r0, 0x3C008000; red.global.add.noftz.f16x2 [%a0], %r0;
        mov.b32 %r1, 0x80003F80; red.global.add.noftz.bf16x2 [%a1], %r1;
    """, aligned_copy(halves), aligned_copy(brains), threads=1)  # fmt: skip
    run("mov.b32 %r0, 0x3C008000; red.global.add.noftz.f16x2 [%a0], %r0;", halves, threads=3)
    np.testing.assert_array_equal(halves, [1, 5])
    run("mov.b32 %r1, 0x80003F80; red.global.add.noftz.bf16x2 [%a0], %r1;", brains, threads=3)
    np.testing.assert_array_equal(brains, [0x4080, 0x4000])


def aligned_copy(a: np.ndarray) -> np.ndarray:
    out = aligned(len(a), a.dtype.type)
    out[:] = a
    return out


def test_sums_in_global_memory_have_no_subnormal_numbers():
    tiny = np.array([1e-40], np.float32)
    run("red.global.add.f32 [%a0], 0f00000000;", tiny, threads=1)
    assert tiny[0] == 0


def test_of_lanes_that_store_to_one_place_any_is_last():
    found = set()
    for seed in range(6):
        data = np.zeros(1, np.uint32)
        run("st.global.u32 [%a0], %t;", data, seed=seed, races=False)
        found.add(int(data[0]))
    assert found == {0, 31}
