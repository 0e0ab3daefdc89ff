"""The text form of the IR, for golden files, ``Kernel.ir`` and debugging.

The text is deterministic: values are numbered in program order and carry the user's name where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import Stack


class _Printer:
    def __init__(self, note: Callable[[Value], str]) -> None:
        self.note = note
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()

    def define(self, v: Value) -> str:
        # Hints need not be unique, since inlining and unrolling copy them: a number makes the text unambiguous.
        base = v.name or str(len(self.names))
        name, n = base, 0
        while name in self.taken:
            n += 1
            name = f"{base}.{n}"
        self.taken.add(name)
        self.names[v] = f"%{name}"
        return f"%{name}: {v.type}{self.note(v)}"

    def use(self, v: Value) -> str:
        return self.names.get(v, f"<undefined {v!r}>")

    def attrs(self, op: Op) -> str:
        # The result types of an `if` are printed with its results, and the body of a tile op as a region below.
        shown = {k: v for k, v in op.attrs.items() if not (op.name == "if" and k == "types" or k == "body")}
        if not shown:
            return ""
        return " {" + ", ".join(f"{k}={_attr(v)}" for k, v in sorted(shown.items())) + "}"

    # Invalid IR is printed as well, so that a verifier error can be looked into: `use` doesn't fail.
    def region(self, region: Region, depth: int) -> None:
        for op in region.ops:
            self.op(op, depth)
        if region.yields:
            self.lines.append("  " * depth + "yield " + ", ".join(map(self.use, region.yields)))

    def op(self, op: Op, depth: int) -> None:
        pad = "  " * depth
        uses = ", ".join(map(self.use, op.operands))
        head = f"{op.name} {uses}".rstrip() + self.attrs(op)
        line = f"  # {op.loc.line}" if op.loc is not None else ""
        body = op.attrs.get("body")
        if body is not None:
            out = ", ".join(map(self.define, op.results))
            # The results are numbered before the parameters of the body, in the order in which a reader meets them.
            self.lines.append(f"{pad}{out} = {head} {{{line}")
            params = ", ".join(map(self.define, body.params))
            self.lines.append(f"{pad}  each({params}):" if params else f"{pad}  each:")
            self.region(body, depth + 2)
            self.lines.append(f"{pad}}}")
            return
        if not op.regions:
            out = ", ".join(map(self.define, op.results))
            self.lines.append(f"{pad}{out} = {head}{line}" if out else f"{pad}{head}{line}")
            return
        self.lines.append(f"{pad}{head} {{{line}")
        labels = _labels(op)
        for label, sub in zip(labels, op.regions, strict=True):
            params = ", ".join(map(self.define, sub.params))
            self.lines.append(f"{pad}  {label}({params}):" if params else f"{pad}  {label}:")
            self.region(sub, depth + 2)
        # Results stand behind the regions, which is also where they become visible.
        out = ", ".join(map(self.define, op.results))
        self.lines.append(f"{pad}}}" + (f" -> {out}" if out else ""))


def _labels(op: Op) -> tuple[str, ...]:
    """Return the names of an op's regions."""
    if op.name == "ruled":
        return tuple(name for name, there in op.attrs.items() if name != "results" and there)
    return {"if": ("then", "else"), "for": ("body",), "while": ("cond", "body")}[op.name]


def _attr(value: Any) -> str:
    if isinstance(value, Stack):
        return str(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_attr, value)) + ")"
    return str(value)


def to_text(fn: Function, note: Callable[[Value], str] = lambda v: "") -> str:
    """Return the function as text, ending in a newline; ``note(v)`` follows the type where a value is defined."""
    p = _Printer(note)
    params = ", ".join(map(p.define, fn.params))
    p.lines.append(f"kernel {fn.name}({params}) tid={fn.tid_arity} {{")
    p.region(fn.body, 1)
    p.lines.append("}")
    return "\n".join(p.lines) + "\n"
