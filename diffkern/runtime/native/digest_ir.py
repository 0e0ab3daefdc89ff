"""A digest of contiguous memory in native code, as LLVM IR text that joins the thread pool's module.

In: an address, and a range in bytes that the pool cuts into chunks. Out: 64 bits for each chunk. Every step is a
bijection of the state and of the bytes it takes, so that a change within 8 bytes always shows; others are missed with
a probability of about 2**-64.
"""

from __future__ import annotations

__all__ = ["DIGEST_NAMES", "digest_ir"]

DIGEST_NAMES = ("dk_digest_bytes",)


def digest_ir() -> str:
    """Return the text."""
    factor = "11400714785074694791"
    return (
        _TEXT.replace("$FACTORS$", _vector([factor] * 4))
        .replace("$SHIFTS$", _vector(["29"] * 4))
        .replace(
            "$INIT$", _vector(["2870177450012600261", "9029957443421411467", "5533983203021451", "67280421310721"])
        )
        .replace("$FACTOR$", factor)
    )


def _vector(words: list[str]) -> str:
    return f"<{', '.join(f'i64 {word}' for word in words)}>"


_TEXT = r"""
; A block: source, where the digests go, length of a chunk.
define void @dk_digest_bytes(i64 %block, i64 %lo, i64 %hi) uwtable {
entry:
  %b = inttoptr i64 %block to ptr
  %source = load ptr, ptr %b
  %p.goal = getelementptr i64, ptr %b, i64 1
  %goal = load ptr, ptr %p.goal
  %p.chunk = getelementptr i64, ptr %b, i64 2
  %chunk = load i64, ptr %p.chunk
  %place = udiv i64 %lo, %chunk
  %out = getelementptr i64, ptr %goal, i64 %place
  br label %lanes
lanes:
  %i = phi i64 [ %lo, %entry ], [ %i.end, %four ]
  %acc = phi <4 x i64> [ $INIT$, %entry ], [ %mixed, %four ]
  %i.end = add i64 %i, 32
  %more = icmp sle i64 %i.end, %hi
  br i1 %more, label %four, label %fold
four:
  %p = getelementptr i8, ptr %source, i64 %i
  %words = load <4 x i64>, ptr %p, align 1
  %met = xor <4 x i64> %acc, %words
  %product = mul <4 x i64> %met, $FACTORS$
  %high = lshr <4 x i64> %product, $SHIFTS$
  %mixed = xor <4 x i64> %product, %high
  br label %lanes
fold:
  %h = phi i64 [ %lo, %lanes ], [ %h.next, %lane ]
  %k = phi i32 [ 0, %lanes ], [ %k.next, %lane ]
  %left = icmp slt i32 %k, 4
  br i1 %left, label %lane, label %tail
lane:
  %one = extractelement <4 x i64> %acc, i32 %k
  %h.met = xor i64 %h, %one
  %h.product = mul i64 %h.met, $FACTOR$
  %h.high = lshr i64 %h.product, 29
  %h.next = xor i64 %h.product, %h.high
  %k.next = add i32 %k, 1
  br label %fold
tail:
  %j = phi i64 [ %i, %fold ], [ %j.next, %byte ]
  %t = phi i64 [ %h, %fold ], [ %t.next, %byte ]
  %rest = icmp slt i64 %j, %hi
  br i1 %rest, label %byte, label %done
byte:
  %p.byte = getelementptr i8, ptr %source, i64 %j
  %small = load i8, ptr %p.byte
  %wide = zext i8 %small to i64
  %t.met = xor i64 %t, %wide
  %t.product = mul i64 %t.met, $FACTOR$
  %t.high = lshr i64 %t.product, 29
  %t.next = xor i64 %t.product, %t.high
  %j.next = add i64 %j, 1
  br label %tail
done:
  store i64 %t, ptr %out
  ret void
}
"""
