"""The struct of the random programs: fields of several types, as elements of arrays and passed by value."""

from __future__ import annotations

from .memory import Parameter, Role, typed
from .writer import Writer

__all__ = ["Structs", "definition"]


def definition(real: str) -> str:
    """The text of the struct."""
    return (
        "@dk.struct\n"
        "class Body:\n"
        f"    pos: {typed('vec3', real)}\n"
        f"    mass: {typed('real', real)}\n"
        "    tag: dk.int32\n"
        f"    vel: {typed('vec2', real)}\n"
    )


class Structs:
    """Writes what reads and changes structs.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def element(self) -> str | None:
        """A struct, if the kernel has any."""
        w = self.w
        found = [f"{p.name}[{w.indices.anywhere(0)}]" for p in w.having(Role.READ, "body")]
        found += [w.own(p) for p in w.readable("body")]
        return w.pick([*found, "h"]) if found else "h"

    def number(self) -> str:
        """A number in a struct."""
        w = self.w
        return f"{self.element()}.{w.pick(('mass', 'pos[0]', 'pos[2]', 'pos.y', 'vel[1]', 'vel.x'))}"

    def assign(self, p: Parameter) -> None:
        """Change this thread's element of an array of structs."""
        w = self.w
        place = w.own(p)
        kind = w.below(6) if w.places[p.name].readable else 4
        if kind == 0:
            w.emit(f"{place}.mass = {w.scalars.squashed()}")
        elif kind == 1:
            w.emit(f"{place}.pos = {w.composites.vector(3)} * {w.scalars.squashed(1)}")
        elif kind == 2:
            w.emit(f"{place}.vel = {place}.vel * 0.5 + {w.composites.vector(2)}")
        elif kind == 3:
            local = w.fresh("o")
            w.emit(f"{local} = {self.element()}")
            w.emit(f"{local}.mass = {local}.mass * {w.scalars.squashed(1)}")
            w.emit(f"{local}.pos += {w.composites.vector(3)} * 0.5")
            w.emit(f"{place} = {local}")
        elif kind == 4:
            fields = f"mass={w.scalars.squashed(1)}, tag={w.integers.leaf()}"
            w.emit(f"{place} = Body(pos={w.composites.vector(3)}, {fields}, vel={w.composites.vector(2)})")
        else:
            w.emit(f"{place}.tag = {w.integers.expression(1)}")
