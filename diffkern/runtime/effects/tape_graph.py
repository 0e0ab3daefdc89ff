"""Pictures of a tape: its launches and arrays as a graph in the language of GraphViz.

The recorded steps, in their order, and their scopes become text for the program ``dot``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array
from diffkern.runtime.effects.operation_step import OperationStep
from diffkern.runtime.effects.step import TapeStep
from diffkern.runtime.effects.tape_steps import FuncStep, LaunchStep

__all__ = ["Picture", "ScopeMark", "draw"]

ScopeMark = tuple[int, str | None, Mapping[str, Any] | None]
"""Before which step a scope begins, its name and what is said of it; None and None where one ends."""


@dataclass(frozen=True)
class Picture:
    """The options of a picture; the fields are the parameters of ``Tape.visualize``."""

    simplify_graph: bool = True
    hide_readonly_arrays: bool = False
    array_labels: Mapping[array, str] | None = None
    choose_longest_node_name: bool = True
    ignore_graph_scopes: bool = False
    track_inputs: Sequence[array] | None = None
    track_outputs: Sequence[array] | None = None
    graph_direction: str = "LR"


@dataclass(slots=True)
class _Node:
    """A launch, a copy or a function, or several equal ones after another."""

    label: str
    reads: dict[array, str]
    writes: dict[array, str]
    times: int = 1

    def same(self, other: _Node) -> bool:
        return (self.label, [*self.reads], [*self.writes]) == (other.label, [*other.reads], [*other.writes])


def draw(steps: Sequence[TapeStep], scopes: Sequence[ScopeMark], picture: Picture) -> str:
    """Return the graph."""
    return "\n".join(_Drawing(picture).lines(steps, [] if picture.ignore_graph_scopes else scopes)) + "\n"


@dataclass
class _Drawing:
    picture: Picture
    names: dict[int, str] = field(default_factory=dict)
    arrays: list[array] = field(default_factory=list)

    def lines(self, steps: Sequence[TapeStep], scopes: Sequence[ScopeMark]) -> Iterator[str]:
        yield "digraph tape {"
        yield f"  rankdir={self.picture.graph_direction};"
        yield "  node [fontname=Helvetica];"
        nodes: list[_Node] = []
        depth = 0
        marks = list(scopes)
        # One position more than there are steps, for scopes that end behind the last one.
        for k in range(len(steps) + 1):
            while marks and marks[0][0] <= k:
                _, name, about = marks.pop(0)
                depth += 1 if name is not None else -1
                yield (
                    f"  subgraph cluster_{k}_{len(marks)} {{ label={_text(name, about)};" if name is not None else "  }"
                )
            node = _node(steps[k]) if k < len(steps) else None
            if node is None:
                continue
            here = (depth, len(marks))
            if self.picture.simplify_graph and nodes and nodes[-1].same(node) and self.place == here:
                nodes[-1].times += 1
                continue
            self.place = here
            nodes.append(node)
            yield f"  step{len(nodes)};"
        # The shapes come after the clusters: naming a node in a cluster places it, and its attributes may follow
        # anywhere.
        for k, node in enumerate(nodes, 1):
            yield from self.described(f"step{k}", node)
        yield from self.nodes_of_arrays(_written(nodes))
        yield "}"

    place: tuple[int, int] = (-1, -1)

    def described(self, name: str, node: _Node) -> Iterator[str]:
        times = f"\\nrepeated {node.times}x" if node.times > 1 else ""
        yield f'  {name} [shape=box, style=filled, fillcolor="#dde8f8", label="{node.label}{times}"];'
        for held, parameter in node.reads.items():
            yield f'  {self.node_of(held, parameter)} -> {name} [tooltip="{parameter}"];'
        for held, parameter in node.writes.items():
            yield f'  {name} -> {self.node_of(held, parameter)} [tooltip="{parameter}"];'

    def node_of(self, held: array, parameter: str) -> str:
        for k, known in enumerate(self.arrays):
            if known._same_place(held):
                if self.picture.choose_longest_node_name and len(parameter) > len(self.names[k]):
                    self.names[k] = parameter
                return f"array{k}"
        self.arrays.append(held)
        self.names[len(self.arrays) - 1] = parameter
        return f"array{len(self.arrays) - 1}"

    def nodes_of_arrays(self, written: Collection[bytes]) -> Iterator[str]:
        for k, held in enumerate(self.arrays):
            read_only = held._packed not in written
            colour = self.colour(held)
            hidden = ", style=invis" if self.picture.hide_readonly_arrays and read_only else colour
            tip = f"array: dtype={held._element}, shape={held.shape}, requires_grad={bool(held.requires_grad)}"
            yield f'  array{k} [shape=ellipse, label="{self.label(k, held)}", tooltip="{tip}"{hidden}];'

    def colour(self, held: array) -> str:
        for chosen, colour in ((self.picture.track_inputs, "#d8f0d0"), (self.picture.track_outputs, "#f8dcd0")):
            if any(held._same_place(a) for a in chosen or ()):
                return f', style=filled, fillcolor="{colour}"'
        return ""

    def label(self, k: int, held: array) -> str:
        for given, label in (self.picture.array_labels or {}).items():
            if held._same_place(given):
                return label
        return self.names[k]


def _text(name: str, about: Mapping[str, Any] | None) -> str:
    more = "".join(f"\\n{key}: {value}" for key, value in (about or {}).items())
    return f'"{name}{more}"'


def _node(step: TapeStep) -> _Node | None:
    """Return the node of a step; None for one that only ends the life of contents."""
    if isinstance(step, LaunchStep):
        executable, arrays = step.launch.executable, step.launch.arrays

        def named(indices: Collection[int]) -> dict[array, str]:
            return {a: executable.name_of(k) for k in sorted(indices) if (a := arrays[k]) is not None}

        return _Node(step.launch.kernel.name, named(executable.reads), named(executable.writes))
    if isinstance(step, OperationStep) and step.varied:
        read, written = dict.fromkeys(step.flow.sources, "source"), dict.fromkeys(step.flow.written, "destination")
        return _Node(step.operation.label, read, written)
    if isinstance(step, FuncStep):
        return _Node(step.name, dict.fromkeys(step.arrays, "array"), {})
    return None


def _written(nodes: Sequence[_Node]) -> set[bytes]:
    return {held._packed for node in nodes for held in node.writes}
