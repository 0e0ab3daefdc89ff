"""A digest of contiguous memory in native code, as LLVM IR text that joins the thread pool's module.

In: an address, and a range in bytes that the pool cuts into chunks. Out: 64 bits for each chunk. Every step is a
bijection of the state and of the bytes it takes, so that a change within 8 bytes always shows; others are missed with
a probability of about 2**-64.
"""

from __future__ import annotations

import re

__all__ = ["DIGEST_NAMES", "digest_ir"]

DIGEST_NAMES = ("dk_digest_bytes",)


def digest_ir() -> str:
    """Return the text."""
    text = _TEXT
    for k in range(4):
        text = text.replace(f"$INIT.{k}$", _vector([_FACTOR * (4 * k + lane + 1) % 2**62 for lane in range(4)]))
    text = re.sub(r"\$MIX (\S+) (\S+) (\S+)\$", lambda names: _mixed(*names.groups()), text)
    return text.replace("$FACTORS$", _vector([_FACTOR] * 4)).replace("$FACTOR$", str(_FACTOR))


_FACTOR = 11400714785074694791


def _mixed(result: str, state: str, words: str) -> str:
    """Return the text that takes four words into a state of four: a bijection of either."""
    return f"""
  %{result}.met = xor <4 x i64> %{state}, %{words}
  %{result}.product = mul <4 x i64> %{result}.met, $FACTORS$
  %{result}.high = lshr <4 x i64> %{result}.product, {_vector([29] * 4)}
  %{result} = xor <4 x i64> %{result}.product, %{result}.high"""


def _vector(words: list[int]) -> str:
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
  br label %wide
wide:                                               ; four states that do not wait for each other
  %w = phi i64 [ %lo, %entry ], [ %w.end, %sixteen ]
  %a.0 = phi <4 x i64> [ $INIT.0$, %entry ], [ %b.0, %sixteen ]
  %a.1 = phi <4 x i64> [ $INIT.1$, %entry ], [ %b.1, %sixteen ]
  %a.2 = phi <4 x i64> [ $INIT.2$, %entry ], [ %b.2, %sixteen ]
  %a.3 = phi <4 x i64> [ $INIT.3$, %entry ], [ %b.3, %sixteen ]
  %w.end = add i64 %w, 128
  %w.more = icmp sle i64 %w.end, %hi
  br i1 %w.more, label %sixteen, label %join
sixteen:
  %p.0 = getelementptr i8, ptr %source, i64 %w
  %p.1 = getelementptr i8, ptr %p.0, i64 32
  %p.2 = getelementptr i8, ptr %p.0, i64 64
  %p.3 = getelementptr i8, ptr %p.0, i64 96
  %x.0 = load <4 x i64>, ptr %p.0, align 1
  %x.1 = load <4 x i64>, ptr %p.1, align 1
  %x.2 = load <4 x i64>, ptr %p.2, align 1
  %x.3 = load <4 x i64>, ptr %p.3, align 1
$MIX b.0 a.0 x.0$
$MIX b.1 a.1 x.1$
$MIX b.2 a.2 x.2$
$MIX b.3 a.3 x.3$
  br label %wide
join:
$MIX a.01 a.0 a.1$
$MIX a.012 a.01 a.2$
$MIX a.0123 a.012 a.3$
  br label %lanes
lanes:
  %i = phi i64 [ %w, %join ], [ %i.end, %four ]
  %acc = phi <4 x i64> [ %a.0123, %join ], [ %mixed, %four ]
  %i.end = add i64 %i, 32
  %more = icmp sle i64 %i.end, %hi
  br i1 %more, label %four, label %fold
four:
  %p = getelementptr i8, ptr %source, i64 %i
  %words = load <4 x i64>, ptr %p, align 1
$MIX mixed acc words$
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
  %byte.wide = zext i8 %small to i64
  %t.met = xor i64 %t, %byte.wide
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
