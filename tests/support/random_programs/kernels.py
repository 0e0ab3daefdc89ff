"""One random kernel: its parameters by chance, then its statements."""

from __future__ import annotations

from dataclasses import dataclass

from .captures import Captures
from .choices import Choices
from .composites import Composites
from .indices import Indices
from .integers import Integers
from .memory import Parameter, Role, annotation, typed
from .ranges import Ranges
from .scalars import Scalars
from .statements import Statements
from .structs import Structs
from .writer import Extents, Place, Writer

__all__ = ["FUNCTIONS", "RandomKernel", "random_kernel"]

_READ = ("line", "line", "grid", "vec3", "vec2", "vec4", "mat33", "mat22", "mat44", "body", "few", "one",
         "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32")  # fmt: skip
_OWN = ("line", "line", "line", "grid", "grid", "vec3", "vec2", "vec4", "mat33", "mat22", "body")

_MOST_PAIRED = 16
"""Elements up to which sums over all pairs take no time."""

FUNCTIONS = """\
@dk.func
def squash(v: {real}, k: {real} = 1.0):
    return v / (k + v * v)


@dk.func
def pieces(v: {real}, limit: {real}):
    if v > limit:
        return dk.sin(v) * limit
    if v < -0.4:
        return 0.3 * v * v
    return v + 0.1 * limit


@dk.func
def repeat(v: {real}, trips: int):
    r = 0.4 * v
    for t in range(trips):
        r = 0.5 * r + dk.tanh(v * r)
        if r > 0.9:
            break
    return r
"""


@dataclass(frozen=True)
class RandomKernel:
    """A kernel's text, its array parameters, and how many axes its threads have. Values come after the arrays."""

    name: str
    source: str
    parameters: tuple[Parameter, ...]
    axes: int


def _parameters(choices: Choices, statements: int) -> tuple[Parameter, ...]:
    found = [Parameter("x", "line", Role.READ)]
    for k, kind in enumerate(choices.some(_READ, 1 + choices.below(statements))):
        found.append(Parameter(f"r{k}", kind, Role.READ))
    for k, kind in enumerate(choices.some(_OWN, 1 + choices.below(2 if statements < 4 else 3))):
        found.append(Parameter(f"y{k}", kind, Role.OWN))
    if choices.chance(35):
        kind = choices.pick(("few", "one", "line", "line", "grid", "vec3"))
        found.append(Parameter("total", kind, Role.SUM))
    if choices.chance(15):
        found.append(Parameter("extreme", choices.pick(("line", "few")), choices.pick((Role.LEAST, Role.GREATEST))))
    if choices.chance(12):
        found += [Parameter("perm", "perm", Role.READ), Parameter("placed", "line", Role.PLACE)]
    return tuple(found)


def _place(w: Writer, p: Parameter) -> Place:
    columns = tuple(w.choices.some(("0", "1", "-1", "2"), 2))
    if w.axes == 2:
        return Place((w.flat,), p.kind == "grid" or w.chance(10), columns)
    if w.chance(85):
        return Place(("i",), True, columns)
    if w.extents.threads == w.extents.length and w.chance(50):  # in the opposite order
        spellings = ("n - 1 - i", "-i - 1")
    else:
        spellings = ("i", w.pick(("i - n", "dk.int32(dk.int64(i))")))
    return Place(spellings[1:], True, columns) if w.chance(60) else Place(spellings, w.chance(50), columns)


def random_kernel(choices: Choices, name: str, real: str, extents: Extents, statements: int) -> RandomKernel:
    """Write a kernel.

    Parameters
    ----------
    choices
        Where choices come from.
    name
        Its name.
    real
        ``"float32"`` or ``"float64"``.
    extents
        The program's sizes.
    statements
        About how many it has.
    """
    axes = 1 if choices.chance(75) else 2
    w = Writer(choices, real, extents, axes, _parameters(choices, statements))
    w.integers, w.indices, w.scalars = Integers(w), Indices(w), Scalars(w)
    w.composites, w.structs = Composites(w), Structs(w)
    w.ranges, w.captures = Ranges(w), Captures(w)
    w.places = {p.name: _place(w, p) for p in w.parameters if p.role is Role.OWN}
    body = Statements(w, statements)
    w.emit("i = dk.tid()" if axes == 1 else "i, j = dk.tid()")
    w.emit(f"v0 = x[{w.flat}]")
    w.emit(f"v1 = {w.pick(('a', 'x[0]', 'u[1]'))}")
    w.emit(f"v2 = {w.pick(('b', 'x[n - 1]', 'h.mass'))}")
    w.emit("p = u")
    w.emit(f"j0 = {w.flat} % n")
    while body.budget > 0:
        body.budget -= 1
        body.one()
    for p in w.parameters:
        if p.written:
            body.update(p)
    parameters, options = w.parameters, []
    if axes == 1 and extents.length <= _MOST_PAIRED and choices.chance(15):
        parameters += (Parameter("near", "line", Role.READ), Parameter("pull", "line", Role.OWN))
        body.all_pairs(*parameters[-2:])
        options += ["fast_math=True"] * choices.chance(70)  # only then the adjoint may gather
    if choices.chance(60):
        options.append(f"stack_bytes={choices.pick((8, 40, 120))}")  # few states of a loop, which has several segments
    t = typed("real", real)
    values = [f"a: {t}", f"b: {t}", f"u: {typed('vec3', real)}", "h: Body", "n: int", "m: int"]
    arrays = [f"{p.name}: {annotation(p.kind, real)}" for p in parameters]
    given = f"({', '.join(options)})" if options else ""
    head = f"@dk.kernel{given}\ndef {name}(\n" + "".join(f"    {line},\n" for line in (*arrays, *values)) + "):\n"
    return RandomKernel(name, head + "\n".join(w.lines) + "\n", parameters, axes)
