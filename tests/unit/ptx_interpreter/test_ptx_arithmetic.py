"""Instructions that compute, against values worked out by hand from the PTX ISA."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from ptx_harness import evaluate
from support.ptx import PtxFault

i16, i32, i64, u16, u32, u64 = np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64
f16, f32, f64 = np.float16, np.float32, np.float64
LEAST32, MOST32, LEAST64 = -(2**31), 2**31 - 1, -(2**63)
NAN, INF = math.nan, math.inf

INTEGERS = [
    # wrapping
    ("add.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([MOST32, 1]), "r1": i32([1, -2])}, [LEAST32, -1]),
    ("sub.u32 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([0]), "r1": u32([1])}, [2**32 - 1]),
    ("add.s16 %h9, %h0, %h1;", "%h9", i16, {"h0": i16([2**15 - 1]), "h1": i16([1])}, [-(2**15)]),
    ("mul.lo.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([65537, -3]), "r1": i32([65537, 5])}, [131073, -15]),
    ("neg.s32 %r9, %r0;", "%r9", i32, {"r0": i32([LEAST32, 7])}, [LEAST32, -7]),
    ("abs.s32 %r9, %r0;", "%r9", i32, {"r0": i32([LEAST32, -7])}, [LEAST32, 7]),
    ("add.sat.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([MOST32, LEAST32]), "r1": i32([1, -1])}, [MOST32, LEAST32]),
    # halves of products
    ("mul.hi.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([-1, MOST32]), "r1": i32([1, MOST32])}, [-1, 2**30 - 1]),
    ("mul.hi.u32 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([2**32 - 1]), "r1": u32([2**32 - 1])}, [2**32 - 2]),
    ("mul.hi.u64 %w9, %w0, %w1;", "%w9", u64, {"w0": u64([2**64 - 1]), "w1": u64([2**64 - 1])}, [2**64 - 2]),
    ("mul.hi.s64 %w9, %w0, %w1;", "%w9", i64, {"w0": i64([LEAST64, -1]), "w1": i64([2, 3])}, [-1, -1]),
    ("mul.wide.s32 %w9, %r0, %r1;", "%w9", i64, {"r0": i32([LEAST32]), "r1": i32([LEAST32])}, [2**62]),
    ("mul.wide.u32 %w9, %r0, %r1;", "%w9", u64, {"r0": u32([2**32 - 1]), "r1": u32([2])}, [2**33 - 2]),
    ("mad.lo.s32 %r9, %r0, %r1, 5;", "%r9", i32, {"r0": i32([-3]), "r1": i32([4])}, [-7]),
    ("mad.wide.s32 %w9, %r0, %r1, %w0;", "%w9", i64,
     {"r0": i32([-3]), "r1": i32([4]), "w0": i64([2**40])}, [2**40 - 12]),
    ("dp2a.lo.u32.u32 %r9, %r0, %r1, 7;", "%r9", u32, {"r0": u32([0x0003_0005]), "r1": u32([0x0908_0402])}, [29]),
    ("dp2a.hi.u32.u32 %r9, %r0, %r1, 7;", "%r9", u32, {"r0": u32([0x0003_0005]), "r1": u32([0x0908_0402])}, [74]),
    # quotients
    ("div.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([7, -7, 7, -7]), "r1": i32([2, 2, -2, -2])}, [3, -3, -3, 3]),
    ("rem.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([7, -7, 7, -7]), "r1": i32([2, 2, -2, -2])}, [1, -1, 1, -1]),
    ("div.s32 %r9, %r0, -1;", "%r9", i32, {"r0": i32([LEAST32])}, [LEAST32]),
    ("rem.s32 %r9, %r0, -1;", "%r9", i32, {"r0": i32([LEAST32])}, [0]),
    ("div.u32 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([2**32 - 1, 5]), "r1": u32([2, 0])}, [MOST32, 2**32 - 1]),
    ("rem.s64 %w9, %w0, 10;", "%w9", i64, {"w0": i64([-(10**18) - 7])}, [-7]),
    # shifts by all bits and more
    ("shl.b32 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([1, 1, 3, 3]), "r1": u32([31, 32, 33, 2**31])}, [2**31, 0, 0, 0]),
    ("shr.u32 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([2**31] * 3), "r1": u32([31, 32, 255])}, [1, 0, 0]),
    ("shr.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([-8, -8, 8]), "r1": u32([1, 40, 40])}, [-4, -1, 0]),
    ("shr.s64 %w9, %w0, %r1;", "%w9", i64, {"w0": i64([LEAST64, LEAST64]), "r1": u32([63, 64])}, [-1, -1]),
    ("shl.b16 %h9, %h0, %r1;", "%h9", u16, {"h0": u16([1, 1]), "r1": u32([15, 16])}, [2**15, 0]),
    ("shf.l.wrap.b32 %r9, %r0, %r1, %r2;", "%r9", u32,
     {"r0": u32([0x80000001] * 2), "r1": u32([2] * 2), "r2": u32([1, 33])}, [5, 5]),
    ("shf.r.clamp.b32 %r9, %r0, %r1, %r2;", "%r9", u32,
     {"r0": u32([9] * 2), "r1": u32([7] * 2), "r2": u32([32, 60])}, [7, 7]),
    # fields and bits
    ("bfe.u32 %r9, %r0, %r1, %r2;", "%r9", u32,
     {"r0": u32([0xABCD1234] * 4), "r1": u32([8, 28, 4, 40]), "r2": u32([8, 8, 0, 4])}, [0x12, 0xA, 0, 0]),
    ("bfe.s32 %r9, %r0, %r1, %r2;", "%r9", i32,
     {"r0": u32([0xF0, 0x70, 0x80000000, 0x80000000]), "r1": u32([4, 4, 28, 40]), "r2": u32([4, 4, 8, 4])},
     [-1, 7, -8, -1]),
    ("bfi.b32 %r9, %r0, %r1, 8, 4;", "%r9", u32, {"r0": u32([0xFF]), "r1": u32([0])}, [0xF00]),
    ("bfi.b64 %w9, %w0, %w1, 60, 20;", "%w9", u64, {"w0": u64([0xFF]), "w1": u64([1])}, [(0xF << 60) + 1]),
    ("prmt.b32 %r9, %r0, %r1, %r2;", "%r9", u32,
     {"r0": u32([0x03020180] * 2), "r1": u32([0x07060504] * 2), "r2": u32([0x7531, 0x8888])}, [0x07050301, 0xFFFFFFFF]),
    ("brev.b32 %r9, %r0;", "%r9", u32, {"r0": u32([1, 0xF])}, [2**31, 0xF0000000]),
    ("brev.b64 %w9, %w0;", "%w9", u64, {"w0": u64([1])}, [2**63]),
    ("clz.b32 %r9, %r0;", "%r9", u32, {"r0": u32([0, 1, 2**31])}, [32, 31, 0]),
    ("clz.b64 %r9, %w0;", "%r9", u32, {"w0": u64([0, 1])}, [64, 63]),
    ("popc.b64 %r9, %w0;", "%r9", u32, {"w0": u64([2**64 - 1, 5])}, [64, 2]),
    ("bfind.u32 %r9, %r0;", "%r9", u32, {"r0": u32([0, 1, 2**31])}, [2**32 - 1, 0, 31]),
    ("bfind.s32 %r9, %r0;", "%r9", u32, {"r0": i32([-1, -2, 4])}, [2**32 - 1, 0, 2]),
    ("lop3.b32 %r9, %r0, %r1, %r2, 0x96;", "%r9", u32,
     {"r0": u32([0b1100]), "r1": u32([0b1010]), "r2": u32([0b1111])}, [0b1001]),
    ("not.b32 %r9, %r0;", "%r9", u32, {"r0": u32([0])}, [2**32 - 1]),
    ("min.s32 %r9, %r0, %r1;", "%r9", i32, {"r0": i32([-1]), "r1": i32([1])}, [-1]),
    ("min.u32 %r9, %r0, %r1;", "%r9", u32, {"r0": i32([-1]), "r1": i32([1])}, [1]),
    # carries
    ("add.cc.u32 %r8, %r0, %r1; addc.u32 %r9, 0, 0;", "%r9", u32,
     {"r0": u32([2**32 - 1, 1]), "r1": u32([1, 1])}, [1, 0]),
    ("add.cc.u32 %r8, %r0, %r1; addc.cc.u32 %r7, %r0, 0; addc.u32 %r9, 0, 0;", "%r9", u32,
     {"r0": u32([2**32 - 1]), "r1": u32([1])}, [1]),
    ("sub.cc.u32 %r8, %r0, %r1; subc.u32 %r9, 5, 0;", "%r9", u32, {"r0": u32([0, 2]), "r1": u32([1, 1])}, [4, 5]),
    ("mad.lo.cc.u32 %r8, %r0, %r1, %r2; madc.hi.u32 %r9, %r0, %r1, 0;", "%r9", u32,
     {"r0": u32([2**32 - 1]), "r1": u32([2**32 - 1]), "r2": u32([2**32 - 1])}, [2**32 - 1]),
    # choices
    ("setp.lt.s32 %p1, %r0, %r1; selp.s32 %r9, 1, 2, %p1;", "%r9", i32,
     {"r0": i32([-1, 1]), "r1": i32([1, -1])}, [1, 2]),
    ("setp.lt.u32 %p1, %r0, %r1; selp.s32 %r9, 1, 2, %p1;", "%r9", i32,
     {"r0": i32([-1, 1]), "r1": i32([1, -1])}, [2, 1]),
    ("setp.lo.u32 %p1|%p2, %r0, 5; selp.s32 %r9, 1, 2, %p2;", "%r9", i32, {"r0": i32([4, 5])}, [2, 1]),
    ("setp.eq.s32 %p1, %r0, 5; setp.lt.and.s32 %p2, %r0, 9, !%p1; selp.s32 %r9, 1, 2, %p2;", "%r9", i32,
     {"r0": i32([4, 5, 9])}, [1, 2, 2]),
]  # fmt: skip

FLOATS = [
    (f"setp.{relation}.f32 %p1, %f0, %f1; selp.s32 %r9, 1, 0, %p1;", "%r9", i32,
     {"f0": f32([1, 1, 2, NAN]), "f1": f32([1, 2, 1, 1])}, expected)
    for relation, expected in [
        ("eq", [1, 0, 0, 0]), ("ne", [0, 1, 1, 0]), ("lt", [0, 1, 0, 0]), ("ge", [1, 0, 1, 0]),
        ("equ", [1, 0, 0, 1]), ("neu", [0, 1, 1, 1]), ("ltu", [0, 1, 0, 1]), ("geu", [1, 0, 1, 1]),
        ("num", [1, 1, 1, 0]), ("nan", [0, 0, 0, 1]),
    ]
] + [
    ("min.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([NAN, 0.0, -0.0, NAN]), "f1": f32([1, -0.0, 0.0, NAN])},
     [1, -0.0, -0.0, NAN]),
    ("max.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([NAN, 0.0, -0.0]), "f1": f32([1, -0.0, 0.0])}, [1, 0.0, 0.0]),
    ("max.NaN.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([NAN, 2]), "f1": f32([1, NAN])}, [NAN, NAN]),
    # one rounding, not two: 1 + 2^-24 + 2^-60 is above the middle
    ("fma.rn.f32 %f9, %f0, %f1, %f2;", "%f9", f32,
     {"f0": f32([2.0**-30] * 2), "f1": f32([2.0**-30, -(2.0**-30)]), "f2": f32([1 + 2**-23] * 2)}, [1 + 2**-23] * 2),
    ("fma.rn.f32 %f9, %f0, %f1, %f2;", "%f9", f32,
     {"f0": f32([1 + 2**-12]), "f1": f32([1 + 2**-12]), "f2": f32([-1])}, [2**-11 + 2**-24]),
    ("fma.rn.f64 %d9, %d0, %d1, %d2;", "%d9", f64,
     {"d0": f64([1 + 2**-27]), "d1": f64([1 + 2**-27]), "d2": f64([-1])}, [2**-26 + 2**-54]),
    ("add.rz.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1, -1]), "f1": f32([-(2.0**-60), 2.0**-60])},
     [1 - 2**-24, -1 + 2**-24]),
    ("add.rp.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1, -1]), "f1": f32([2.0**-60, 2.0**-60])},
     [1 + 2**-23, -1 + 2**-24]),
    ("add.rm.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1, -1]), "f1": f32([2.0**-60, -(2.0**-60)])},
     [1, -1 - 2**-23]),
    ("fma.rm.f32 %f9, %f0, %f0, %f1;", "%f9", f32, {"f0": f32([2.0**-40]), "f1": f32([-1])}, [-1]),
    ("mul.rz.f32 %f9, %f0, %f0;", "%f9", f32, {"f0": f32([3e38])}, [np.finfo(f32).max]),
    ("add.sat.f32 %f9, %f0, 0f00000000;", "%f9", f32, {"f0": f32([-1, 0.5, 2, NAN])}, [0, 0.5, 1, 0]),
    ("mul.ftz.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1e-40, -1e-30]), "f1": f32([1, 1e-10])}, [0, -0.0]),
    ("mul.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1e-40]), "f1": f32([1])}, [f32(1e-40)]),
    ("rcp.approx.ftz.f32 %f9, %f0;", "%f9", f32, {"f0": f32([4, 1e-40, INF, -0.0])}, [0.25, INF, 0, -INF]),
    ("rsqrt.approx.ftz.f32 %f9, %f0;", "%f9", f32, {"f0": f32([4, 0, INF, -1])}, [0.5, INF, 0, NAN]),
    ("sqrt.rn.f32 %f9, %f0;", "%f9", f32, {"f0": f32([2, -0.0, -1])}, [f32(math.sqrt(2)), -0.0, NAN]),
    ("div.rn.f32 %f9, %f0, %f1;", "%f9", f32,
     {"f0": f32([1, 1, 0]), "f1": f32([3, 0, 0])}, [f32(1) / f32(3), INF, NAN]),
    ("div.approx.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1, 1]), "f1": f32([4, 2.0**127])}, [0.25, 0]),
    ("div.full.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([1]), "f1": f32([2.0**127])}, [2.0**-127]),
    ("ex2.approx.ftz.f32 %f9, %f0;", "%f9", f32, {"f0": f32([3, -200, 200])}, [8, 0, INF]),
    ("lg2.approx.ftz.f32 %f9, %f0;", "%f9", f32, {"f0": f32([8, 0, -1])}, [3, -INF, NAN]),
    ("copysign.f32 %f9, %f0, %f1;", "%f9", f32, {"f0": f32([-0.0, 1]), "f1": f32([2, -3])}, [-2, 3]),
    ("neg.f32 %f9, %f0;", "%f9", f32, {"f0": f32([0.0, -1])}, [-0.0, 1]),
    # 16 bits: each result is rounded to them
    ("add.rn.f16 %h9, %h0, %h1;", "%h9", f16, {"h0": f16([2048, 65504]), "h1": f16([1, 16])}, [2048, INF]),
    ("fma.rn.f16 %h9, %h0, %h0, %h1;", "%h9", f16, {"h0": f16([1 + 2**-10]), "h1": f16([-1])}, [2**-9 + 2**-20]),
    ("add.rn.f16x2 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([0x3C004000]), "r1": u32([0x3C003C00])}, [0x40004200]),
    ("fma.rn.bf16 %h9, %h0, %h1, %h2;", "%h9", u16,
     {"h0": u16([0x3F80]), "h1": u16([0x3F80]), "h2": u16([0x3B80])}, [0x3F80]),  # 1 + 2^-8: to even
    ("fma.rn.bf16 %h9, %h0, %h1, %h2;", "%h9", u16,
     {"h0": u16([0x3F81]), "h1": u16([0x3F80]), "h2": u16([0x3B80])}, [0x3F82]),
    ("add.rn.bf16x2 %r9, %r0, %r1;", "%r9", u32, {"r0": u32([0x3F803F80]), "r1": u32([0x3F804000])}, [0x40004040]),
    ("testp.subnormal.f32 %p1, %f0; selp.s32 %r9, 1, 0, %p1;", "%r9", i32, {"f0": f32([1e-40, 0, 1])}, [1, 0, 0]),
]  # fmt: skip

CONVERSIONS = [
    ("cvt.s64.s32 %w9, %r0;", "%w9", i64, {"r0": i32([-5])}, [-5]),
    ("cvt.u64.u32 %w9, %r0;", "%w9", u64, {"r0": i32([-5])}, [2**32 - 5]),
    ("cvt.u16.u32 %h9, %r0;", "%h9", u16, {"r0": u32([0x12345678])}, [0x5678]),
    ("cvt.s32.s8 %r9, %r0;", "%r9", i32, {"r0": u32([0x80, 0x17F])}, [-128, 127]),
    ("cvt.u32.u8 %r9, %r0;", "%r9", i32, {"r0": u32([0x1FF])}, [255]),
    ("cvt.s16.s8 %h9, %h0;", "%h9", i16, {"h0": u16([0x0080])}, [-128]),
    ("cvt.sat.u8.s32 %r9, %r0;", "%r9", u32, {"r0": i32([-5, 300, 7])}, [0, 255, 7]),
    ("cvt.sat.s16.s32 %r9, %r0;", "%r9", i32, {"r0": i32([-40000, 40000])}, [-(2**15), 2**15 - 1]),
    ("cvt.rzi.s32.f32 %r9, %f0;", "%r9", i32, {"f0": f32([2.9, -2.9, 3e9, -3e9, NAN])}, [2, -2, MOST32, LEAST32, 0]),
    ("cvt.rni.s32.f32 %r9, %f0;", "%r9", i32, {"f0": f32([0.5, 1.5, -2.5])}, [0, 2, -2]),
    ("cvt.rmi.s32.f32 %r9, %f0;", "%r9", i32, {"f0": f32([-0.5])}, [-1]),
    ("cvt.rpi.s32.f32 %r9, %f0;", "%r9", i32, {"f0": f32([-0.5, 0.5])}, [0, 1]),
    ("cvt.rzi.u32.f64 %r9, %d0;", "%r9", u32, {"d0": f64([-1, 5e9])}, [0, 2**32 - 1]),
    ("cvt.rzi.s64.f64 %w9, %d0;", "%w9", i64, {"d0": f64([NAN, 1e30])}, [LEAST64, 2**63 - 1]),
    ("cvt.rn.f32.s32 %f9, %r0;", "%f9", f32, {"r0": i32([2**24 + 1, 2**24 + 3])}, [2**24, 2**24 + 4]),
    ("cvt.rz.f32.s32 %f9, %r0;", "%f9", f32, {"r0": i32([2**24 + 3, -(2**24) - 3])}, [2**24 + 2, -(2**24) - 2]),
    ("cvt.rp.f32.u64 %f9, %w0;", "%f9", f32, {"w0": u64([2**63 + 1])}, [2**63 + 2**40]),
    ("cvt.rn.f32.u64 %f9, %w0;", "%f9", f32, {"w0": u64([2**64 - 1])}, [2.0**64]),
    ("cvt.rn.f32.f64 %f9, %d0;", "%f9", f32, {"d0": f64([1 + 2**-24, 1 + 2**-24 + 2**-50])}, [1, 1 + 2**-23]),
    ("cvt.rm.f32.f64 %f9, %d0;", "%f9", f32, {"d0": f64([1 + 2**-24, -1 - 2**-50])}, [1, -1 - 2**-23]),
    ("cvt.f64.f32 %d9, %f0;", "%d9", f64, {"f0": f32([0.1])}, [float(f32(0.1))]),
    ("cvt.rni.f32.f32 %f9, %f0;", "%f9", f32, {"f0": f32([2.5, -0.4])}, [2, -0.0]),
    ("cvt.sat.f32.f32 %f9, %f0;", "%f9", f32, {"f0": f32([-3, 0.25, 7])}, [0, 0.25, 1]),
    ("cvt.rn.f16.f32 %h9, %f0;", "%h9", f16, {"f0": f32([65520, 2**-25, 1 + 2**-11])}, [INF, 0, 1]),
    ("cvt.f32.f16 %f9, %h0;", "%f9", f32, {"h0": f16([0.1])}, [f32(f16(0.1))]),
    ("cvt.rn.bf16.f32 %h9, %f0;", "%h9", u16, {"f0": f32([1 + 2**-8, 1 + 3 * 2**-8, NAN])}, [0x3F80, 0x3F82, 0x7FFF]),
    ("cvt.f32.bf16 %f9, %h0;", "%f9", f32, {"h0": u16([0x4049])}, [3.140625]),
    ("cvt.rn.f16x2.f32 %r9, %f0, %f1;", "%r9", u32, {"f0": f32([1]), "f1": f32([2])}, [0x3C004000]),
    ("cvt.rn.bf16x2.f32 %r9, %f0, %f1;", "%r9", u32, {"f0": f32([1]), "f1": f32([2])}, [0x3F804000]),
]  # fmt: skip

MOVES = [
    ("mov.b64 {%r8, %r9}, %w0;", "%r9", u32, {"w0": u64([7 << 32 | 3])}, [7]),
    ("mov.b64 %w9, {%r0, %r1};", "%w9", u64, {"r0": u32([3]), "r1": u32([7])}, [7 << 32 | 3]),
    ("mov.b32 {%h8, %h9}, %r0;", "%h9", u16, {"r0": u32([0x12345678])}, [0x1234]),
    ("mov.f32 %f9, 0f40490FDB;", "%f9", f32, {}, [math.pi]),
    ("mov.f64 %d9, 0d400921FB54442D18;", "%d9", f64, {}, [math.pi]),
    ("{ .reg .u32 %x; mov.u32 %x, 3; { .reg .u32 %x; mov.u32 %x, 4; } mov.u32 %r9, %x; }", "%r9", u32, {}, [3]),
]


@pytest.mark.parametrize(
    ("text", "result", "dtype", "given", "expected"),
    [*INTEGERS, *FLOATS, *CONVERSIONS, *MOVES],
    ids=lambda value: value.split(";")[0] if isinstance(value, str) and " " in value else "",
)
def test_a_value(text, result, dtype, given, expected):
    found = evaluate(text, result, dtype, **given)
    np.testing.assert_array_equal(found, np.array(expected, dtype), err_msg=text)
    if found.dtype.kind == "f":
        numbers = ~np.isnan(found)
        signs = np.signbit(np.array(expected, dtype))
        np.testing.assert_array_equal(np.signbit(found)[numbers], signs[numbers], err_msg=text)


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_fused_products_are_rounded_once(rounding):
    """Against fractions: operands whose exact results lie around the middle of two float32 are among them."""
    chance = np.random.default_rng(1)
    a, b = (chance.normal(size=256).astype(f32) for _ in range(2))
    c = (chance.normal(size=256) * 2.0 ** chance.integers(-40, 40, 256)).astype(f32)
    c[:64] = -(a[:64] * b[:64])
    found = np.concatenate(
        [
            evaluate(f"fma.{rounding}.f32 %f9, %f0, %f1, %f2;", "%f9", f32, f0=a[k], f1=b[k], f2=c[k])
            for k in np.split(np.arange(256), 8)
        ]
    )
    for x, y, z, value in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        below, above = (Fraction(float(np.nextafter(value, f32(side)))) for side in (-INF, INF))
        got = Fraction(float(value))
        match rounding:
            case "rn":
                assert abs(got - exact) <= min(abs(below - exact), abs(above - exact))
            case "rm":
                assert got <= exact < above
            case "rp":
                assert below < exact <= got
            case _:
                assert abs(got) <= abs(exact) < max(abs(below), abs(above))


@pytest.mark.parametrize(
    "text",
    ["add.sat.u32 %r9, %r0, 1;", "frobnicate.b32 %r9, %r0;", "mul.s32 %r9, %r0, 2;", "fma.f32 %f9, %f0, %f0, %f0;"],
)
def test_an_instruction_that_is_not_in_the_table_is_refused(text):
    with pytest.raises(PtxFault, match="there is no row for the instruction"):
        evaluate(text, "%r9", u32, r0=u32([1]))
