"""Statements: assignments, branches, loops, stores to a thread's own elements, atomic updates, views."""

from __future__ import annotations

from .memory import KINDS, Parameter, Role
from .scalars import VARIABLES
from .writer import Writer

__all__ = ["Statements"]

_DEEPEST = 4


class Statements:
    """Writes the body of a kernel, one statement after the other.

    Parameters
    ----------
    writer
        The kernel's.
    budget
        How many statements there may be, about.
    """

    def __init__(self, writer: Writer, budget: int) -> None:
        self.w = writer
        self.budget = budget

    def several(self, most: int) -> None:
        """Some statements."""
        for _ in range(1 + self.w.below(most)):
            self.budget -= 1
            self.one()

    def one(self) -> None:
        """A statement."""
        w = self.w
        kind = w.below(100)
        deep = w.depth >= _DEEPEST or self.budget <= 0
        if kind < 18 or (deep and kind < 55):
            self.assign()
        elif kind < 28:
            self.branch()
        elif kind < 48:
            self.for_loop()
        elif kind < 55:
            self.while_loop()
        elif kind < 80:
            self.change()
        elif kind < 87:
            w.emit(f"p = {w.composites.vector(3, 2)} * {w.scalars.squashed(1)}")
        elif kind < 91:
            w.emit(f"j0 = ({w.integers.expression()}) % n")
        elif kind < 94 and w.counters:
            with w.block(f"if {w.scalars.condition()}:"):
                w.emit(w.pick(("break", "continue")))
        elif kind < 95 and w.depth >= 2:
            with w.block(f"if {w.scalars.condition()}:"):
                w.emit("return")
        elif kind < 97:
            self.view()
        elif kind < 98:
            w.captures.unrolled(w.pick(VARIABLES))
        else:
            w.emit(f"v0, v1 = v1, {w.scalars.squashed()}")

    def assign(self) -> None:
        """Give a variable a value."""
        w = self.w
        v = w.pick(VARIABLES)
        s = w.scalars
        w.emit(
            w.pick(
                (
                    lambda: f"{v} = {s.squashed(3)}",
                    lambda: f"{v} = {w.pick(('0.6', '-0.8', '0.9'))} * {v} + 0.5 * {s.squashed()}",
                    lambda: f"{v} *= {s.squashed()}",
                    lambda: f"{v} = {v} * {s.squashed(1)} + {s.squashed()}",
                    lambda: f"{v} += 0.25 * {s.squashed()}",
                    lambda: f"{v} = squash({s.expression(3)}, 0.8)",
                )
            )()
        )

    # -- control flow ------------------------------------------------------------------------------------------------

    def branch(self) -> None:
        """An ``if``."""
        w = self.w
        with w.block(f"if {w.scalars.condition()}:"):
            self.several(2)
        if w.chance(20):
            with w.block(f"elif {w.scalars.condition()}:"):
                self.several(2)
        if w.chance(50):
            with w.block("else:"):
                self.several(2)

    def for_loop(self) -> None:
        """A ``for`` of a few trips."""
        w = self.w
        if w.chance(25):
            self.own_array()
            return
        lists = [*w.having(Role.READ, "int32"), *w.having(Role.READ, "perm")]
        if lists and w.having(Role.READ, "line") and w.chance(60):
            self.neighbours(w.pick(lists).name)
            return
        again = [name for name, _ in w.counters if name.isidentifier() and name.startswith("k")]
        if w.chance(10):
            self.rebound(w.pick([*again, "j0"]))
            return
        k = w.fresh("k")
        head, counter = w.ranges.head(k)
        with w.block(head, counter):
            self.several(3)

    def rebound(self, name: str) -> None:
        """A loop whose variable has a value already: that of a loop around it, or an index."""
        w = self.w
        with w.block(f"for {name} in range({w.pick(('m', '2', 'j0 % 3'))}):"):
            w.emit(f"{w.pick(VARIABLES)} += 0.125 * {w.type('real')}({name}) * {w.scalars.squashed(1)}")
            if w.chance(30):
                with w.block(f"if {w.scalars.condition()}:"):
                    w.emit(w.pick(("break", "continue")))

    def all_pairs(self, read: Parameter, own: Parameter) -> None:
        """A sum over all elements of an array, whose adjoint adds to each of them: often as many as threads."""
        w, s = self.w, self.w.scalars
        k, total = w.fresh("k"), w.fresh("sum")
        w.emit(f"{total} = {w.pick((f'{read.name}[i]', 'v0'))} * 0.5")
        with w.block(f"for {k} in range({w.pick(('n', 'n', 'n', 'x.shape[0]', 'n - 1'))}):", (k, w.extents.length)):
            w.emit(f"gap = {read.name}[{k}] - {w.pick((f'{read.name}[i]', f'{read.name}[i]', *VARIABLES))}")
            term = w.pick(
                (
                    f"dk.sin(gap) * {read.name}[{k}]",
                    f"gap / (gap * gap + 0.5) * {w.pick(VARIABLES)}",
                    f"squash(gap * {read.name}[{k}], 0.8)",
                    f"dk.sqrt(gap * gap + 0.3) * {read.name}[i]",
                    f"dk.exp(-gap * gap) * {s.squashed(1)}",
                )
            )
            guard = w.below(6)
            if guard < 2:
                with w.block(f"if {f'i != {k}' if guard else s.condition()}:"):
                    w.emit(f"{total} += {term}")
            else:
                w.emit(f"{total} {w.pick(('+=', '-='))} {term}")
        w.emit(f"{own.name}[i] = {w.pick((f'dk.sin({total})', f'{total} / {w.extents.length}.0'))}")

    def own_array(self) -> None:
        """A loop that changes an array of the thread's own; threads may make different numbers of trips."""
        w, s = self.w, self.w.scalars
        cells, k, v = w.fresh("cells"), w.fresh("k"), w.pick(VARIABLES)
        size = w.pick((2, 3, 5))

        def cell() -> str:
            return f"{cells}[{w.pick((f'{k} % {size}', f'({w.flat} + {k}) % {size}', f'{w.below(size)}', '-1'))}]"

        w.emit(f"{cells} = dk.zeros({size}, dtype=dk.{w.real})")
        w.emit(f"{cells}[{w.below(size)}] = {s.squashed(1)}")
        with w.block(f"for {k} in range({w.pick(('m', '3', 'j0 % 4', 'j0 % 4'))}):", (k, 4)):
            w.emit(f"{cell()} = {cell()} * {s.squashed(1)} + {s.squashed()}")
            if w.chance(40):
                with w.block(f"if {s.condition()}:"):
                    w.emit(w.pick((f"{cell()} += 0.5 * {cell()}", "continue", "break", f"{cell()} *= {s.squashed()}")))
                w.emit(f"{cell()} += 0.25 * {s.squashed()}")
        w.emit(f"{v} = 0.5 * {v} + 0.3 * {cells}[{w.below(size)}] * {cells}[-1]")

    def neighbours(self, data: str) -> None:
        """A sum of elements that are found through an array of integers."""
        w, s = self.w, self.w.scalars
        line = w.pick(w.having(Role.READ, "line")).name
        k, j, v = w.fresh("k"), w.fresh("near"), w.pick(VARIABLES)
        trips = w.pick((3, 4, 6))
        with w.block(f"for {k} in range({trips}):", (k, trips)):
            w.emit(f"{j} = {data}[({w.flat} + {k}) % n]")
            value = (
                f"{w.pick(('+=', '-='))} 0.1 * {line}[{j}] * {w.pick((s.squashed(3), f'dk.sin({line}[{j}] * p[0])'))}"
            )
            if w.chance(50):
                with w.block(f"if {j} >= {w.below(3)}:"):
                    w.emit(f"{v} {value}")
            else:
                w.emit(f"{v} {value}")

    def while_loop(self) -> None:
        """A ``while`` of a few trips."""
        w = self.w
        c = w.fresh("c")
        w.emit(f"{c} = 0")
        with w.block(f"while {c} < {w.pick(('m', '3'))} and ({w.scalars.condition()}):", (c, 4)):
            w.emit(f"{c} += 1")
            self.several(2)

    # -- memory ------------------------------------------------------------------------------------------------------

    def view(self) -> None:
        """Read through a view of an array."""
        w = self.w
        v = w.pick(VARIABLES)
        if grids := w.having(Role.READ, "grid"):
            name = w.fresh("row")
            w.emit(f"{name} = {w.pick(grids).name}[{w.indices.anywhere()}]")
            w.emit(f"{v} = {v} * 0.5 + {name}[{w.indices.column()}] * {w.scalars.squashed(1)}")
        elif lines := w.having(Role.READ, "line"):
            name = w.fresh("part")
            source, at = w.pick(lines).name, w.pick(w.thread)
            slices = ["1:", ":-1", "::2", "1::2"] if w.extents.length > 2 * at[1] else ["::1"]
            w.emit(f"{name} = {source}[{w.pick(slices)}]")
            w.emit(f"{v} = {v} * 0.5 + {name}[{w.pick((at[0], '0', '-1'))}]")
        else:
            self.assign()

    def change(self) -> None:
        """Change an array."""
        w = self.w
        written = [p for p in w.parameters if p.written]
        self.update(w.pick(written))

    def update(self, p: Parameter) -> None:
        """Change an array, as its role allows."""
        w = self.w
        if p.role in (Role.SUM, Role.LEAST, Role.GREATEST):
            self.atomic(p)
        elif p.role is Role.PLACE:
            places = w.having(Role.READ, "perm")
            w.emit(f"{p.name}[{places[0].name}[{w.flat}]] = {w.scalars.squashed()}")
        elif p.kind == "body":
            w.structs.assign(p)
        elif KINDS[p.kind].components:
            self.composite(p)
        else:
            s = w.scalars
            place = s.own(p)
            if not w.places[p.name].readable:
                w.emit(f"{place} = {s.squashed()}")
                return
            w.emit(
                w.pick(
                    (
                        lambda: f"{place} = {s.squashed()}",
                        lambda: f"{place} = {s.squashed()}",
                        lambda: f"{place} = 0.5 * {place} + {s.squashed()}",
                        lambda: f"{place} += {s.squashed()}",
                        lambda: f"{place} -= {s.squashed(1)}",
                        lambda: f"{place} *= {s.squashed()}",
                        lambda: f"{place} = {place} * {s.squashed(1)}",
                    )
                )()
            )

    def composite(self, p: Parameter) -> None:
        """Change this thread's vector or matrix."""
        w = self.w
        place, n = w.own(p), KINDS[p.kind].components[0]
        if p.kind.startswith("mat"):
            value = w.composites.matrix(n)
        else:
            value = w.composites.vector(n, 2)
        kind = w.below(4) if w.places[p.name].readable else 2
        if kind == 0:
            w.emit(f"{place} = {place} * {w.scalars.squashed(1)}")
        elif kind == 1 and p.kind.startswith("vec"):
            w.emit(f"{place} += {value} * 0.5")
        else:
            w.emit(f"{place} = {value} * {w.scalars.squashed(1)}")

    def atomic(self, p: Parameter) -> None:
        """An update in which threads may meet: a call, or an assignment that is atomic because they may."""
        w = self.w
        if p.kind in ("few", "one"):
            place = w.pick(("0", "-1"))
        elif p.kind == "grid":
            place = f"{w.indices.anywhere()}, {w.indices.column()}"
        else:
            place = w.indices.anywhere()
        if p.role is Role.SUM:
            value = w.composites.vector(3) if p.kind == "vec3" else w.scalars.squashed()
            if w.below(3):
                w.emit(f"dk.atomic_{w.pick(('add', 'add', 'sub'))}({p.name}, {place}, {value})")
            else:
                w.emit(f"{p.name}[{place}] {w.pick(('+=', '-='))} {value}")
        else:
            w.emit(f"dk.atomic_{'min' if p.role is Role.LEAST else 'max'}({p.name}, {place}, {w.scalars.squashed()})")
