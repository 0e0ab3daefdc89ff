"""The measures of a package, with their goals: a number each, and where it comes from."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from house import counts
from house.flow import Flow, Hand
from house.graphs import against, below, circles, edges_of, layers
from house.index import Class, Function, Index
from house.sources import Package


@dataclass
class Measure:
    """One number.

    Attributes
    ----------
    key
        What ``--list`` takes.
    text
        What is counted.
    number
        How much it is now.
    most, least
        The goal; None for both if there is none.
    places
        What was counted, the largest first where there are sizes.
    """

    key: str
    text: str
    number: float
    most: float | None = None
    least: float | None = None
    places: list[str] = field(default_factory=list)

    @property
    def is_reached(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.most is None and self.least is None:
            return None
        return (self.most is None or self.number <= self.most) and (self.least is None or self.number >= self.least)

    @property
    def goal(self) -> str:
        if self.is_reached is None:
            return ""
        sign, bound = ("≤", self.most) if self.most is not None else ("≥", self.least)
        return f"{sign} {bound:g}"


@dataclass(frozen=True)
class Start:
    """A parameter that is followed: the public name of a function, or of a class and its method."""

    key: str
    function: str
    parameter: str


STARTS = (
    Start("inputs", "launch", "inputs"),
    Start("loss", "Tape.backward", "loss"),
    Start("source", "copy", "src"),
)


def measures(
    package: Package,
    operations: Collection[str],
    starts: Collection[Start] = STARTS,
    singles: Collection[str] = (),
) -> list[Measure]:
    """Return all measures, in the order of the table; `singles` are the names of sets that hold one operation."""
    return [
        *_of_values(package, starts),
        *_of_layout(package),
        *_of_files(package),
        *_of_names(package, operations, singles),
        *_of_texts(package),
    ]


# -- values that are handed on -----------------------------------------------------------------------------------------


def _of_values(package: Package, starts: Collection[Start]) -> Iterator[Measure]:
    index = Index(package)
    # The order in which modules are imported: what a function imports later may stand above it.
    pairs = {(one.importer, one.imported) for one in package.imports if not one.for_types and not one.is_late}
    reached = below(edges_of(pairs, package.modules))
    for start in starts:
        function = start_of(index, start)
        for with_objects in (False, True):
            flow = Flow(index, function, start.parameter, with_objects)
            yield from _of_flow(start, flow.hands, reached, with_objects)


def _of_flow(
    start: Start, hands: Collection[Hand], reached: dict[str, set[str]], with_objects: bool
) -> Iterator[Measure]:
    crossing = [hand for hand in hands if hand.caller.module is not hand.callee.module]
    # A module is above another one that it imports, be it by way of others.
    up = [hand for hand in crossing if hand.caller.module.name in reached[hand.callee.module.name]]
    entered = sorted({hand.callee.module.name for hand in crossing})
    if with_objects:
        text = f"{start.parameter} of {start.function}: the same with objects that are made with it"
        yield Measure(f"{start.key}-objects", text, len(crossing), places=_places(crossing))
        text = "  of these to a module above the caller"
        yield Measure(f"{start.key}-objects-up", text, len(up), most=4, places=_places(up))
        return
    text = f"{start.parameter} of {start.function}: handed on to another module"
    yield Measure(start.key, text, len(crossing), most=30, places=_places(crossing))
    yield Measure(f"{start.key}-up", "  of these to a module above the caller", len(up), most=4, places=_places(up))
    yield Measure(f"{start.key}-modules", "  modules on the way", len(entered), places=entered)
    yield Measure(f"{start.key}-back", "  into a module where it was before", len(crossing) - len(entered))


def _places(hands: Collection[Hand]) -> list[str]:
    return [f"{hand.caller.label}:{hand.line} -> {hand.callee.label}" for hand in hands]


def start_of(index: Index, start: Start) -> Function:
    """Return the function that a public name means, as the stub of the package says or its own file imports it."""
    package = index.package
    stub = package.root / "__init__.pyi"
    text = stub.read_text(encoding="utf-8") if stub.exists() else package.modules[package.root.name].text
    first, _, method = start.function.partition(".")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module in package.modules:
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    found = index.meaning(package.modules[node.module], ast.Name(alias.name))
                    if isinstance(found, Class):
                        found = found.method(method)
                    if isinstance(found, Function):
                        return found
    raise SystemExit(
        f"tools/house: {package.root.name} has no {start.function}, of which {start.parameter} is followed"
    )


# -- folders and imports -----------------------------------------------------------------------------------------------


def _of_layout(package: Package) -> Iterator[Measure]:
    top = counts.entries_at_the_top(package)
    yield Measure("top", "folders and files at the top", len(top), most=36, places=top)
    weights: Counter[tuple[str, str]] = Counter()
    for one in package.imports:
        pair = package.top(one.importer), package.top(one.imported)
        if pair[0] != pair[1]:
            weights[pair] += 1
    level = layers(edges_of(weights, top))
    number = max(level.values()) + 1
    rows = [f"{k}  {' '.join(name for name in top if level[name] == k)}" for k in reversed(range(number))]
    yield Measure("layers", "layers of these, imports for types counted", number, most=14, places=rows)
    arrows = [f"{a} -> {b}  {count}" for (a, b), count in weights.most_common()]
    yield Measure("arrows", "pairs of these with an import", len(arrows), places=arrows)
    wrong = {*against(weights)}
    places = [
        f"{one.importer}:{one.line} -> {one.imported}{'  for types' if one.for_types else ''}"
        for one in package.imports
        if (package.top(one.importer), package.top(one.imported)) in wrong
    ]
    yield Measure("against", "imports against the order of the layers", len(places), most=0, places=places)
    yield from _of_circles(package)


def _of_circles(package: Package) -> Iterator[Measure]:
    every = edges_of({(one.importer, one.imported) for one in package.imports}, package.modules)
    folders = {name: module.folder for name, module in package.modules.items()}
    found = circles(every)
    wide = [part for part in found if len({folders[name] for name in part}) > 1]
    text = "circles of imports, those for types counted, among folders"
    yield Measure("circles", text, len(wide), most=0, places=[_circle(part) for part in wide])
    yield Measure(
        "circle", "modules in the largest circle", max(map(len, found), default=0), places=found[0] if found else []
    )
    run = edges_of({(one.importer, one.imported) for one in package.imports if not one.for_types}, package.modules)
    at_run = circles(run)
    text = "  modules in circles without imports for types"
    yield Measure("circle-run", text, sum(map(len, at_run)), places=[_circle(part) for part in at_run])


def _circle(part: list[str]) -> str:
    return f"{len(part)} modules  {' '.join(part)}"


# -- files -------------------------------------------------------------------------------------------------------------


def _of_files(package: Package) -> Iterator[Measure]:
    modules = package.modules.values()
    written = sum(1 for module in modules for line in module.lines if line.strip())
    sizes = sorted(((len(m.lines), m.name) for m in modules), reverse=True)
    yield Measure(
        "lines", "lines of Python that are not empty", written, 108_000, None, [f"{n}  {s} lines" for s, n in sizes]
    )
    small, full, loose = counts.small_files(package), counts.full_folders(package), counts.loose_files(package)
    yield Measure("small", f"files with less than {counts.SMALL_FILE} lines", len(small), 60, None, small)
    yield Measure("full", f"folders with more than {counts.FULL_FOLDER} files of their own", len(full), 0, None, full)
    yield Measure("loose", "loose files at the top", len(loose), 6, None, loose)
    functions = counts.functions(package)
    long = counts.percentile([size for size, _ in functions], 0.99)
    places = [place for size, place in functions if size > long]
    yield Measure("functions", "lines that 99 % of functions do not exceed", long, 45, None, places)


# -- names and texts ---------------------------------------------------------------------------------------------------


def _of_names(package: Package, operations: Collection[str], singles: Collection[str]) -> Iterator[Measure]:
    hooks, shared = counts.hooks(package), counts.shared_class_names(package)
    yield Measure("hooks", "hooks: wiring while modules are imported", len(hooks), 2, None, hooks)
    yield Measure("classes", "names that several classes have", len(shared), 15, None, shared)
    read, asked = counts.reads_of_current(package), counts.questions_about_current(package)
    files = sorted({place.partition(":")[0] for place in read})
    yield Measure("current", "lines that read the current tape or recorder", len(read), 30, None, read)
    yield Measure("current-files", "  files with such lines", len(files), 5, None, files)
    yield Measure("current-asked", "  and lines that ask a function of its module", len(asked), None, None, asked)
    sets = counts.operation_sets(package, operations)
    yield Measure("sets", "literal collections of names of operations", len(sets), 20, None, sets)
    compared, others = counts.operation_tests(package, operations)
    yield Measure("tests", "comparisons of .name with names of operations", len(compared), 150, None, compared)
    one = counts.single_tests(package, singles)
    yield Measure("tests-single", "  and with sets of one operation", len(one), None, None, one)
    yield Measure("tests-others", "  and of variables, and cases of match", len(others), None, None, others)


def _of_texts(package: Package) -> Iterator[Measure]:
    lines = {module.name: counts.lines_of(module) for module in package.modules.values()}
    code, comments = (sum(one[k] for one in lines.values()) for k in (0, 1))
    bare = sorted((-size, name) for name, (size, found) in lines.items() if not found)
    places = [f"{name}  {-size} lines of code without a comment" for size, name in bare]
    share = round(100 * comments / max(1, code), 2)
    yield Measure("comments", "lines of comments for 100 lines of code", share, None, 4, places)
    opened, asked = counts.stiff_docstrings(package)
    yield Measure("docstrings-in", 'docstrings with "In: …"', len(opened), 0, None, opened)
    yield Measure("docstrings-what", "docstrings that begin with What, Whether, How", len(asked), 0, None, asked)
