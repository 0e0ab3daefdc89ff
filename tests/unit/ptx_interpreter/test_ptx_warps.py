"""Branches, calls, lanes that read each other, barriers, and the order of warps."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_harness import evaluate, run
from support.ptx import PtxFault

AT = "cvt.u64.u32 %w0, %t; shl.b64 %w1, %w0, 2; add.u64 %w2, %a0, %w1;"
"""The address of the thread's 32 bits in the first array, in %w2."""


def words(body: str, count: int = 32, **launch) -> np.ndarray:
    """What each thread leaves in %r9."""
    out = np.zeros(count, np.uint32)
    run(f"{AT}\n{body}\nst.global.u32 [%w2], %r9;", out, threads=launch.pop("threads", count), **launch)
    return out


# -- branches ----------------------------------------------------------------------------------------------------------


def test_a_guard_changes_the_lanes_for_which_it_holds():
    found = words("mov.u32 %r9, 1; setp.lt.u32 %p1, %t, 5; @%p1 mov.u32 %r9, 2; @!%p1 add.u32 %r9, %r9, %t;")
    np.testing.assert_array_equal(found, [2 if t < 5 else 1 + t for t in range(32)])


def test_nested_branches():
    found = words("""
        and.b32 %r0, %t, 1; setp.eq.u32 %p1, %r0, 0;
        and.b32 %r1, %t, 2; setp.eq.u32 %p2, %r1, 0;
        @%p1 bra EVEN;
        @%p2 bra ONE;
        mov.u32 %r9, 33; bra ODD;
    ONE: mov.u32 %r9, 11;
    ODD: add.u32 %r9, %r9, 100; bra END;
    EVEN:
        @%p2 bra ZERO;
        mov.u32 %r9, 22; bra END;
    ZERO: mov.u32 %r9, 0;
    END: add.u32 %r9, %r9, 1000;
    """)
    np.testing.assert_array_equal(found, [1000 + [0, 111, 22, 133][t % 4] for t in range(32)])


def test_loops_of_different_lengths():
    found = words("""
        mov.u32 %r0, 0; mov.u32 %r9, 0;
    LOOP:
        setp.ge.u32 %p1, %r0, %t; @%p1 bra DONE;
        add.u32 %r9, %r9, %r0; add.u32 %r0, %r0, 1; bra.uni LOOP;
    DONE:
    """)
    np.testing.assert_array_equal(found, [t * (t - 1) // 2 for t in range(32)])


def test_lanes_meet_again_behind_a_loop():
    """All of a warp take part in what comes after: else the vote would wait for ever."""
    found = words("""
        mov.u32 %r0, 0;
    LOOP:
        add.u32 %r0, %r0, 1; setp.le.u32 %p1, %r0, %t; @%p1 bra LOOP;
        setp.gt.u32 %p2, %r0, 16; vote.sync.ballot.b32 %r9, %p2, -1;
    """)
    assert set(found) == {0xFFFF0000}


def test_a_thread_that_returns_early():
    found = words("mov.u32 %r9, 7; setp.ge.u32 %p1, %t, 20; @%p1 ret; @%p1 trap;", threads=32)
    np.testing.assert_array_equal(found, [7] * 20 + [0] * 12)


def test_a_branch_by_a_table():
    found = words("""
        and.b32 %r0, %t, 3;
    TABLE: .branchtargets A, B, A, C;
        brx.idx %r0, TABLE;
    A: mov.u32 %r9, 1; bra END;
    B: mov.u32 %r9, 2; bra END;
    C: mov.u32 %r9, 3;
    END:
    """)
    np.testing.assert_array_equal(found, [[1, 2, 1, 3][t % 4] for t in range(32)])


def test_a_label_that_goes_round_for_some():
    """The registers of lanes that wait are not touched by those that go on."""
    found = words("""
        mov.u32 %r9, 0; mov.u32 %r1, 100;
        setp.eq.u32 %p1, %t, 3; @!%p1 bra END;
    AGAIN: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 9; @%p2 bra AGAIN; mov.u32 %r1, 200;
    END: add.u32 %r9, %r9, %r1;
    """)
    np.testing.assert_array_equal(found, [209 if t == 3 else 100 for t in range(32)])


FACTORIAL = """
.func (.param .b32 result) factorial (.param .b32 n);
.func (.param .b32 result) factorial (.param .b32 n)
{
    .reg .pred %q; .reg .b32 %x<4>;
    ld.param.b32 %x0, [n]; setp.gt.u32 %q, %x0, 1; @%q bra MORE;
    st.param.b32 [result], 1; ret;
MORE:
    sub.u32 %x1, %x0, 1;
    { .param .b32 given; .param .b32 back;
    st.param.b32 [given], %x1; call (back), factorial, (given); ld.param.b32 %x2, [back]; }
    mul.lo.u32 %x3, %x2, %x0; st.param.b32 [result], %x3; ret;
}
"""


def test_a_function_that_calls_itself():
    found = words("""
        and.b32 %r0, %t, 7; mov.u32 %r9, 0; setp.lt.u32 %p1, %t, 9; @%p1 bra END;
        { .param .b32 given; .param .b32 back;
        st.param.b32 [given], %r0; call.uni (back), factorial, (given); ld.param.b32 %r9, [back]; }
    END:
    """, outside=FACTORIAL)  # fmt: skip
    factorials = [1, 1, 2, 6, 24, 120, 720, 5040]
    np.testing.assert_array_equal(found, [0 if t < 9 else factorials[t % 8] for t in range(32)])


SQUARES = """
.func (.param .b32 result) square(.param .b32 given) {
    .reg .b32 %x<2>; ld.param.b32 %x0, [given]; mul.lo.u32 %x1, %x0, %x0; st.param.b32 [result], %x1; ret;
}
.func (.param .b64 result) wide(.param .b64 given) {
    .reg .b64 %x<2>; ld.param.b64 %x0, [given]; mul.lo.u64 %x1, %x0, %x0; st.param.b64 [result], %x1; ret;
}
"""


def test_parameters_of_one_name_have_the_sizes_of_their_calls():
    found = words("""
        cvt.u64.u32 %w5, %t; shl.b64 %w5, %w5, 17;
        { .param .b64 param0; .param .b64 retval0;
        st.param.b64 [param0], %w5; call.uni (retval0), wide, (param0); ld.param.b64 %w6, [retval0]; }
        { .param .b32 param0; .param .b32 retval0;
        st.param.b32 [param0], %t; call.uni (retval0), square, (param0); ld.param.b32 %r9, [retval0]; }
        shr.u64 %w6, %w6, 34; cvt.u32.u64 %r8, %w6; add.u32 %r9, %r9, %r8;
    """, outside=SQUARES)  # fmt: skip
    np.testing.assert_array_equal(found, [2 * t * t for t in range(32)])


# -- other lanes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "b", "c", "source"),
    [
        ("up", 1, 0, lambda t: t - 1 if t >= 1 else t),
        ("down", 3, 31, lambda t: t + 3 if t + 3 <= 31 else t),
        ("down", 3, 9, lambda t: t + 3 if t + 3 <= 9 else t),
        ("bfly", 5, 31, lambda t: t ^ 5),
        ("idx", 7, 31, lambda t: 7),
        # in rows of eight lanes
        ("up", 2, 24 << 8, lambda t: t - 2 if t % 8 >= 2 else t),
        ("down", 2, 24 << 8 | 7, lambda t: t + 2 if t % 8 < 6 else t),
        ("idx", 3, 24 << 8 | 7, lambda t: t // 8 * 8 + 3),
    ],
)
def test_shuffles(way, b, c, source):
    body = f"""mul.lo.u32 %r0, %t, 10; shfl.sync.{way}.b32 %r1|%p1, %r0, {b}, {c}, -1;
        selp.u32 %r2, 1, 0, %p1; add.u32 %r9, %r1, %r2;"""
    expected = []
    for t in range(32):
        moved = source(t) != t or way == "idx"
        expected.append(10 * source(t) + (1 if moved else 0))
    np.testing.assert_array_equal(words(body), expected)


def test_a_shuffle_from_a_lane_that_takes_no_part_gives_garbage():
    body = """mov.u32 %r9, 0; setp.ge.u32 %p1, %t, 8; @%p1 bra END;
        mov.u32 %r0, 5; shfl.sync.down.b32 %r9, %r0, 4, 31, 255;
    END:"""
    np.testing.assert_array_equal(words(body)[:8], [5] * 4 + [0x7FC0DEAD] * 4)


def test_a_shuffle_waits_for_all_lanes_that_it_names():
    body = "mov.u32 %r9, 0; setp.ge.u32 %p1, %t, 8; @%p1 bra END; shfl.sync.down.b32 %r9, %t, 4, 31, -1; END:"
    with pytest.raises(PtxFault, match=r"lanes wait for others that do not come: lanes 0xff at shfl"):
        words(body + " add.u32 %r9, %r9, 1; vote.sync.any.pred %p2, %p1, -1;")


@pytest.mark.parametrize(("how", "expected"), [("all", [0, 1]), ("any", [1, 1]), ("uni", [0, 1])])
def test_votes(how, expected):
    found = [
        words(f"setp.ge.u32 %p1, %t, {n}; vote.sync.{how}.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;")[0]
        for n in (3, 0)
    ]
    assert found == expected


def test_special_registers():
    out = np.zeros(3 * 40, np.uint32)
    run("""
        mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mad.lo.u32 %r2, %r0, %r1, %t;
        mul.wide.u32 %w0, %r2, 4; add.u64 %w1, %a0, %w0;
        mov.u32 %r3, %laneid; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %lanemask_lt; popc.b32 %r6, %r5;
        mad.lo.u32 %r7, %r4, 1000, %r3; mad.lo.u32 %r7, %r6, 10000, %r7; add.u32 %r7, %r7, WARP_SZ;
        st.global.u32 [%w1], %r7;
    """, out, threads=40, blocks=3)  # fmt: skip
    np.testing.assert_array_equal(out.reshape(3, 40), [[10001 * (t % 32) + 3032 for t in range(40)]] * 3)


# -- barriers ----------------------------------------------------------------------------------------------------------

SHARED = ".shared .align 4 .b8 room[1024];"
NEIGHBOUR = """
    mov.u32 %r0, room; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1; st.shared.u32 [%r2], %t;
    {barrier}
    xor.b32 %r3, %r1, 508; add.u32 %r4, %r0, %r3; ld.shared.u32 %r9, [%r4];
"""
"""Each of 128 threads reads what the one on the other side has stored."""


@pytest.mark.parametrize("seed", range(4))
def test_a_barrier_orders_what_warps_do(seed):
    found = words(NEIGHBOUR.format(barrier="bar.sync 0;"), 128, outside=SHARED, seed=seed)
    np.testing.assert_array_equal(found, np.arange(128)[::-1])


def test_a_missing_barrier_shows():
    """In nearly every order."""
    bodies = (words(NEIGHBOUR.format(barrier=""), 128, outside=SHARED, seed=seed, races=False) for seed in range(20))
    assert sum((found != np.arange(128)[::-1]).any() for found in bodies) >= 18


def test_a_seed_repeats_an_order():
    once, again, other = (
        words(NEIGHBOUR.format(barrier=""), 128, outside=SHARED, seed=seed, races=False).tobytes() for seed in (1, 1, 2)
    )
    assert once == again
    assert once != other


def test_barriers_of_some_of_the_warps():
    """Two warps meet at barrier 1, which the others never reach; all meet at barrier 0."""
    found = words("""
        mov.u32 %r0, room; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1;
        setp.ge.u32 %p1, %t, 64; @%p1 bra REST;
        st.shared.u32 [%r2], %t; bar.sync 1, 64; xor.b32 %r3, %r1, 252; add.u32 %r4, %r0, %r3; ld.shared.u32 %r9, [%r4];
        bra END;
    REST: mov.u32 %r9, 1;
    END: bar.sync 0;
    """, 128, outside=SHARED)  # fmt: skip
    np.testing.assert_array_equal(found, [*range(64)[::-1], *[1] * 64])


def test_threads_that_have_ended_are_not_waited_for():
    found = words("mov.u32 %r9, 1; setp.ge.u32 %p1, %t, 40; @%p1 ret; bar.sync 0; mov.u32 %r9, 2;", 128)
    np.testing.assert_array_equal(found, [2] * 40 + [0] * 88)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("setp.eq.u32 %p1, %t, 3; @%p1 bra SKIP; bar.sync 0; SKIP: mov.u32 %r9, 1; bar.sync 0;", "do not come"),
        (
            "setp.ge.u32 %p1, %t, 32; @%p1 bra SKIP; bar.sync 1; SKIP: mov.u32 %r9, 1; bar.sync 0;",
            "wait for each other",
        ),
        (
            "setp.ge.u32 %p1, %t, 32; @%p1 bra SKIP; bar.sync 0, 64; SKIP: bar.sync 0; mov.u32 %r9, 1;",
            "different numbers",
        ),
        ("bar.sync 0, 40; mov.u32 %r9, 1;", "not whole warps"),
    ],
)
def test_barriers_that_part_of_the_threads_reach(body, said):
    with pytest.raises(PtxFault, match=said):
        words(body, 64)


# -- warps and memory --------------------------------------------------------------------------------------------------

COUNT = "ld.global.u32 %r0, [%a0]; add.u32 %r1, %r0, 1; st.global.u32 [%a0], %r1;"


@pytest.mark.parametrize(("blocks", "threads"), [(5, 96), (40, 1)])
def test_a_plain_sum_in_the_place_of_an_atomic_one_shows(blocks, threads):
    """Also if each warp has one thread alone, in nearly every order."""
    wrong = 0
    for seed in range(10):
        total = np.zeros(2, np.uint32)
        run("red.global.add.u32 [%a0+4], 1;" + COUNT, total, threads=threads, blocks=blocks, seed=seed, races=False)
        assert total[1] == blocks * threads
        wrong += total[0] != blocks * threads
    assert wrong >= 9


def test_limits_of_a_block():
    with pytest.raises(PtxFault, match="a block of 65 threads, where kernel allows 64"):
        words("mov.u32 %r9, 1;", 65, limits=".maxntid 64")


def test_registers_begin_as_garbage():
    assert set(words("")) == {0xDEADBEEF}


def test_one_lane():
    np.testing.assert_array_equal(evaluate("add.u32 %r9, %r0, 1;", "%r9", np.uint32, r0=np.uint32([4])), [5])
