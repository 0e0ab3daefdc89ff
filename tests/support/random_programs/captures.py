"""What a program's kernels capture: tables of every type and byte order, and settings that are evaluated once."""

from __future__ import annotations

from .choices import Choices
from .writer import Writer

__all__ = ["Captures", "definitions"]

TABLE = 5
"""Elements of each table."""

_TYPES = ("f8", "f4", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
_OFFERED = 4
"""Tables of a program; a kernel reads some."""

_CLASSES = """\
@dataclasses.dataclass(frozen=True)
class Settings:
    gain: float
    weights: tuple

    @property
    def half(self):
        return 0.5 * self.gain

    def weight(self, k):
        return self.weights[k] + 0.125


class Point(typing.NamedTuple):
    x: float
    y: float

    def sum(self):
        return self.x + self.y


class Mode(enum.Enum):
    SLOW = 0.25
    FAST = 0.75

    @property
    def factor(self):
        return 2.0 * self.value
"""


def definitions(choices: Choices) -> str:
    """The text of the tables, classes and settings of a program."""
    lines = ["import dataclasses", "import enum", "import typing", "", "import numpy as np", "", "", _CLASSES, ""]
    for k in range(_OFFERED):
        kind = choices.pick(_TYPES)
        order = choices.pick(("<", ">")) if len(kind) == 2 and kind[1] != "1" else ""
        signed = kind[0] in "fi"
        numbers = [choices.below(7) - (3 if signed else 0) for _ in range(2 * TABLE)]
        values = [v != 0 for v in numbers] if kind == "?" else [v / 4 for v in numbers] if kind[0] == "f" else numbers
        part = choices.pick((f"[:{TABLE}]", "[::2]", f"[{TABLE}:]", "[::-2]"))
        lines.append(f"TABLE{k} = np.array({values}, dtype={order + kind!r}){part}")
    weights = choices.pick(((0.5, 0.25, -1.0), (1.5, 2.0, 0.75)))
    lines += [
        f"SETTINGS = Settings({choices.pick((0.5, -0.75, 1.25))}, {weights})",
        f"POINT = Point({choices.pick((0.5, -0.25))}, {choices.pick((1.5, -1.0))})",
    ]
    return "\n".join(lines)


class Captures:
    """Writes expressions of captured objects.

    Parameters
    ----------
    writer
        The kernel's.
    """

    def __init__(self, writer: Writer) -> None:
        self.w = writer

    def number(self) -> str:
        """A number that was captured, of the program's type of reals."""
        w = self.w
        if w.chance(50):
            return f"{w.type('real')}(TABLE{w.below(_OFFERED)}[{w.integers.leaf()} % {TABLE}])"
        return w.pick(
            (
                "dk.static(SETTINGS.gain)", "dk.static(SETTINGS.half)", "dk.static(SETTINGS.weight(1))",
                "dk.static(POINT.x)", "dk.static(POINT.sum())", "dk.static(Mode.FAST.value)",
                "dk.static(Mode.SLOW.factor)", "dk.static(sum(SETTINGS.weights))",
            )
        )  # fmt: skip

    def unrolled(self, v: str) -> None:
        """A loop that is unrolled, over what a container holds."""
        w = self.w
        k = w.fresh("s")
        with w.block(f"for {k} in range(3):"):
            value = w.pick((f"SETTINGS.weights[{k}]", f"SETTINGS.weight({k})", f"SETTINGS.weights[{k}] * POINT.sum()"))
            w.emit(f"{v} = 0.5 * {v} + 0.2 * dk.static({value})")
