"""Numbers: elementary functions, powers and logarithms, choices, reads of arrays, values that all threads share.

What is assigned to a variable or stored stays bounded, so that differences are exact enough; functions are asked only
where they are defined.
"""

from __future__ import annotations

from .memory import Parameter, Role
from .writer import Writer

__all__ = ["VARIABLES", "Scalars"]

VARIABLES = ("v0", "v1", "v2")
_BOUNDED = ("sin", "cos", "tanh", "erf", "atan")


class Scalars:
    """Writes expressions of the program's type of reals.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def number(self) -> str:
        """A literal that is the same number in both types, so that comparisons go the same way."""
        return self.w.pick(("0.5", "-0.75", "1.25", "0.375", "2.0", "-1.125", "0.0625"))

    def leaf(self) -> str:
        """A number without an operation."""
        w = self.w
        kind = w.below(20)
        if kind < 5:
            return w.pick(VARIABLES)
        if kind < 10 and (lines := w.having(Role.READ, "line")):
            return f"{w.pick(lines).name}[{w.indices.anywhere()}]"
        if kind < 12 and (grids := w.having(Role.READ, "grid")):
            return f"{w.pick(grids).name}{w.indices.row()}"
        if kind < 14 and (own := w.readable("line", "grid")):
            return self.own(w.pick(own))
        if kind == 14:
            return self.shared(0)
        if kind == 15:
            return w.structs.number()
        if kind == 16:
            return f"{self.number()} * {w.type('real')}({w.integers.leaf()} % 4)"
        if kind == 17:
            return w.captures.number() if w.chance(70) else w.pick(("p[0]", "p.y", "p[-1]"))
        return w.pick((*VARIABLES, *VARIABLES, self.number()))

    def own(self, p: Parameter) -> str:
        """This thread's element of an array, or one of its elements in an array of two axes."""
        w = self.w
        if p.kind == "line":
            return w.own(p)
        if w.axes == 2:
            return f"{p.name}{'[i, j]' if w.chance(80) else '[i][j]'}"
        place = w.places[p.name]
        row, column = w.pick(place.spellings), w.pick(place.columns)
        if w.counters and w.chance(12):
            column = f"{w.pick(w.counters)[0]} % {w.pick(('2', '4'))}"
        return f"{p.name}{w.pick((f'[{row}, {column}]', f'[{row}, {column}]', f'[{row}][{column}]'))}"

    def shared(self, depth: int = 2) -> str:
        """A number that is the same for all threads, or for all with one first index."""
        w = self.w
        if depth <= 0:
            known = ["a", "b", "h.mass", "u[0]"]
            known += [f"{p.name}[{k}]" for p in w.having(Role.READ, "few") for k in ("0", "1", "-1", "0")]
            known += [f"{p.name}[{k}]" for p in w.having(Role.READ, "one") for k in ("0", "0", "-1")]
            lines = w.having(Role.READ, "line")
            if w.axes == 2 and lines and w.chance(40):
                return f"{w.pick(lines).name}[i]"
            return w.pick(known)
        a = self.shared(depth - 1)
        kind = w.below(9)
        if kind < 3:
            return f"dk.{w.pick(('sin', 'cos', 'tanh', 'atan', 'erf'))}({a})"
        if kind == 3:
            return f"dk.exp({w.pick(('-', ''))}dk.sin({a}))"
        if kind == 4:
            return f"dk.pow(0.5 + dk.abs({a}), {self.shared(0)})"
        if kind == 5:
            return f"dk.exp(-{self.shared(0)} * dk.sin({a}))"
        if kind == 6:
            return f"({a} {w.pick('+-*')} {self.shared(0)})"
        if kind == 7:
            return f"dk.log(1.1 + dk.abs({a}))"
        return f"dk.sqrt(0.4 + {a} * {a})"

    def expression(self, depth: int = 2) -> str:
        """Any number."""
        w = self.w
        if depth <= 0 or w.chance(20):
            return self.leaf()
        a = self.expression(depth - 1)
        kind = w.below(19)
        if kind < 2:
            return f"({a} {w.pick('+-')} {self.expression(depth - 1)})"
        if kind < 4:
            return f"{self.squashed(depth - 1)} * {self.expression(depth - 1)}"
        if kind == 4:
            other = self.leaf()
            return f"({a} / {w.pick((f'(1.3 + dk.abs({other}))', f'dk.sqrt(0.3 + ({other}) * ({other}))'))})"
        if kind == 5:
            return f"dk.{w.pick(('min', 'max'))}({a}, {self.expression(depth - 1)})"
        if kind == 6:
            return f"({a} if {self.condition()} else {self.expression(depth - 1)})"
        if kind == 7:
            return f"dk.where({self.condition()}, dk.sqrt(0.5 + dk.abs({a})), {self.leaf()})"
        if kind == 8:
            return f"dk.clamp({a}, -0.8, 0.9)"
        if kind == 9:
            return w.composites.number()
        if kind == 10:
            return self.power(a)
        if kind < 14:
            return self.function(a)
        if kind == 14:
            return self.shared()
        if kind == 15:
            other = w.pick(("0.1", "0.7", "-1.3"))
            return w.pick(
                (f"(-{a})", f"dk.abs({a})", f"({a}) ** 2", f"({a}) ** 3", f"({other} * {a})", f"({other} - {a})",
                 f"({a} * (0.1 if {self.condition()} else 0.2))")
            )  # fmt: skip
        if kind == 16:
            return f"{w.type('real')}({w.integers.expression(1)} % 5)"
        if kind == 17:
            return w.pick((f"squash({a})", f"pieces(dk.sin({a}), 0.5)", f"repeat(dk.sin({a}), {w.pick(('2', 'm'))})"))
        return self.squashed(depth)

    def power(self, a: str) -> str:
        """A power whose base is positive."""
        w = self.w
        exponent = w.pick(("2.5", "-1.5", "0.3", f"1.5 * dk.tanh({self.leaf()})", f"dk.sin({self.shared(1)})"))
        return w.pick((f"dk.pow(0.4 + dk.abs({a}), {exponent})", f"(0.4 + dk.abs({a})) ** ({exponent})"))

    def function(self, a: str) -> str:
        """An elementary function where it is defined."""
        w = self.w
        return w.pick(
            (
                f"dk.log(1.2 + dk.abs({a}))", f"dk.log2(1.2 + dk.abs({a}))", f"dk.log10(1.2 + dk.abs({a}))",
                f"dk.log1p(dk.abs({a}))", f"dk.sqrt(0.3 + {a} * {a})", f"dk.rsqrt(0.6 + dk.abs({a}))",
                f"dk.cbrt(0.2 + dk.abs({a}))", f"dk.exp(dk.sin({a}))", f"dk.exp2(dk.tanh({a}))",
                f"dk.expm1(0.5 * dk.sin({a}))", f"dk.sin({a})", f"dk.cos({a})", f"dk.tan(0.6 * dk.sin({a}))",
                f"dk.asin(0.8 * dk.tanh({a}))", f"dk.acos(0.8 * dk.tanh({a}))", f"dk.atan({a})",
                f"dk.sinh(dk.sin({a}))", f"dk.cosh(dk.tanh({a}))", f"dk.asinh({a})",
                f"dk.acosh(1.3 + dk.abs({a}))", f"dk.atanh(0.7 * dk.sin({a}))", f"dk.erf({a})",
                f"dk.erfc(dk.tanh({a}))", f"dk.lgamma(1.7 + dk.sin({a}))", f"dk.gamma(0.6 + dk.abs(dk.sin({a})))",
                f"dk.digamma(1.9 + dk.tanh({a}))", f"dk.atan2({a}, 1.5 + dk.abs({self.leaf()}))", f"dk.hypot({a}, 1.1)",
                f"dk.degrees(0.01 * dk.sin({a}))", f"dk.radians(20.0 * {a})", f"dk.lerp({a}, 0.5, {self.leaf()})",
                f"dk.smoothstep(-1.0, 1.0, {a})", f"dk.copysign({a}, {self.leaf()})", f"dk.sign({a}) * {self.leaf()}",
                f"dk.frac(3.0 * dk.sin({a}))", f"dk.floor(2.0 * dk.sin({a})) * {self.leaf()}",
                f"({a}) % 1.7", f"({a}) // 0.6 * {self.leaf()}",
            )
        )  # fmt: skip

    def squashed(self, depth: int = 2) -> str:
        """A number between about -1.5 and 1.5."""
        w = self.w
        inner = self.expression(max(depth - 1, 0))
        kind = w.below(6)
        if kind < 3:
            return f"dk.{w.pick(_BOUNDED)}({inner})"
        if kind == 3:
            return f"squash({inner}, k={w.pick(('0.7', '2.0'))})"
        if kind == 4:
            return f"dk.exp(-({inner}) * ({inner}))"
        return f"dk.clamp({inner}, -0.9, 1.1)"

    def condition(self) -> str:
        """A comparison."""
        w = self.w
        kind = w.below(6)
        if kind < 3:
            return f"{self.leaf()} {w.pick(('<', '>', '<=', '>='))} {self.leaf()}"
        if kind == 3:
            return w.integers.condition()
        if kind == 4:
            return f"{self.leaf()} > -0.2 {w.pick(('and', 'or'))} {w.integers.condition()}"
        return f"not ({self.leaf()} > {self.number()})"
