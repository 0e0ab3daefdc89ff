"""What ``tools/house`` counts, on a small package of which each number is known."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from house import counts, graphs
from house.flow import Flow
from house.index import Index
from house.measures import Measure, Start, measures, start_of
from house.sources import Package

OPERATIONS = ("add", "mul", "load", "store")
FILES = {
    "__init__.py": """
        from made.entry import launch as launch
        from made.tape import Tape as Tape
        from made.low.store import set_reader
        import made.low.store

        set_reader(print)
        made.low.store.Array.library = None
        """,
    "entry.py": '''
        """In: nothing. Out: nothing."""
        from made.bind import bound
        from made.bind import checked
        from made.mid.packed import Packed

        def launch(kernel, inputs, outputs=()):
            """What runs a kernel."""
            args = [*inputs, *outputs]
            checked(len(inputs))  # of which only the length is handed on
            values = bound(kernel, args)
            Packed(values).run()
            return give(values)

        def give(values):
            return Packed.of(values)
        ''',
    "bind.py": '''
        from typing import TYPE_CHECKING
        from made.low.store import write

        if TYPE_CHECKING:
            from made.entry import launch

        def bound(kernel, args):
            """Return arguments."""
            found = []
            for arg in args:
                found.append(converted(arg))
            return [converted(a) for a in args]

        def converted(a):
            # A comment of its own.
            return write(a)

        def checked(number):
            return number > 0
        ''',
    "tape.py": '''
        from made.mid.packed import Packed

        class Tape:
            """How it is recorded."""

            packed: Packed
            """Whether it is."""

            def backward(self, loss=None):
                self.packed.note(loss)
                self.packed.keep(key=loss)
        ''',
    "mid/__init__.py": "",
    "mid/packed.py": """
        from __future__ import annotations
        from made.low.store import Place, write

        NAMES = {"add", "mul"}
        MIXED = {"add", "other"}

        class Packed:
            place: Place

            def __init__(self, values):
                self.values = values

            @classmethod
            def of(cls, values):
                return cls(values)

            def run(self):
                pass

            def note(self, held):
                self.place.put(held)

            def keep(self, *, key=None):
                write(key)

        def cases(op, name):
            if op.name == "add" or op.name in ("load", "store") or op.name in CASTS or op.name in SUMS:
                return 1
            if name != "mul" or op.name == "other":
                return 2
            match op.name:
                case "add" | "mul":
                    return 3
                case "other":
                    return 4
        """,
    "mid/above.py": """
        from made.low.store import Place
        from made.mid.packed import Packed

        class Shelf(Place):
            def put(self, held):
                pass

        class Array:
            pass
        """,
    "low/__init__.py": "",
    "low/store.py": """
        _reader = None

        def set_reader(function):
            global _reader
            _reader = function

        class Array:
            pass

        class Place:
            def put(self, held):
                pass

        def write(a):
            import made.mid.packed
            return a
        """,
    "ir/ops/__init__.py": 'ROWS = ("add", "mul")\n',
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    root = tmp_path_factory.mktemp("house") / "made"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
    return Package(root)


@pytest.fixture(scope="module")
def found(package: Package) -> dict[str, Measure]:
    starts = (Start("inputs", "launch", "inputs"), Start("loss", "Tape.backward", "loss"))
    return {one.key: one for one in measures(package, OPERATIONS, starts, ["CASTS"])}


def handed(package: Package, start: Start, with_objects: bool = False) -> set[str]:
    index = Index(package)
    flow = Flow(index, start_of(index, start), start.parameter, with_objects)
    return {f"{h.caller.label} {h.callee.label}".replace("made.", "") for h in flow.hands}


def test_a_value_is_followed_through_calls_loops_and_results(package: Package) -> None:
    assert handed(package, Start("inputs", "launch", "inputs")) == {
        "entry:launch bind:bound",
        "bind:bound bind:converted",
        "bind:converted low.store:write",
        "entry:launch mid.packed:Packed.__init__",  # what came back
        "entry:launch entry:give",
        "entry:give mid.packed:Packed.of",
        "mid.packed:Packed.of mid.packed:Packed.__init__",
    }


def test_a_value_goes_to_methods_and_to_those_of_derived_classes(package: Package) -> None:
    assert handed(package, Start("loss", "Tape.backward", "loss")) == {
        "tape:Tape.backward mid.packed:Packed.note",
        "tape:Tape.backward mid.packed:Packed.keep",
        "mid.packed:Packed.note low.store:Place.put",
        "mid.packed:Packed.note mid.above:Shelf.put",
        "mid.packed:Packed.keep low.store:write",
    }


def test_objects_are_followed_if_they_are_to_be(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "__init__.py").write_text("from made.one import begin\n")
    (tmp_path / "made" / "one.py").write_text(
        "class Held:\n    def __init__(self, x): ...\n\n\ndef take(held): ...\n\n\ndef begin(x):\n    take(Held(x))\n"
    )
    package, start = Package(tmp_path / "made"), Start("x", "begin", "x")
    assert handed(package, start) == {"one:begin one:Held.__init__"}
    assert handed(package, start, with_objects=True) == {"one:begin one:Held.__init__", "one:begin one:take"}


def flow_of(tmp_path: Path, text: str) -> set[str]:
    """Return the functions that `x` of `begin` is handed to."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "__init__.py").write_text("from made.one import begin\n")
    (tmp_path / "made" / "one.py").write_text(dedent(text))
    package = Package(tmp_path / "made")
    return {edge.partition("begin one:")[2] for edge in handed(package, Start("x", "begin", "x")) if "begin " in edge}


def test_of_a_tuple_the_parts_are_followed_that_are_the_value(tmp_path: Path) -> None:
    text = """
        def typed(x, element=None): return x, element or x.dtype
        def first(x): ...
        def second(element): ...
        def third(k): ...
        def fourth(x): ...
        def fifth(element): ...
        def both(pair):
            first_of, other = pair
            sixth(first_of)
            seventh(other)
        def sixth(x): ...
        def seventh(element): ...
        def begin(x):
            data, element = typed(x)
            first(data)
            second(element)
            second(typed(x)[1])
            for k, (one, kind) in enumerate(zip(x, element)):
                third(k)
                fourth(one)
                fifth(kind)
            both((x, element))
        """
    assert flow_of(tmp_path, text) == {"typed", "first", "fourth", "both"}


def test_a_list_holds_what_is_added_to_it(tmp_path: Path) -> None:
    text = """
        def first(x): ...
        def second(number): ...
        def third(pairs): ...
        def fourth(found): ...
        def fifth(data): ...
        def begin(x):
            pairs, table = [], {}
            pairs.append((x, 1))
            for one, number in pairs:
                first(one)
                second(number)
            third(pairs)
            fourth(table.get(x))  # what is looked up by it is something else
            fifth(np.asarray(x).view(float))
        """
    assert flow_of(tmp_path, text) == {"first", "third", "fifth"}


def test_a_parameter_of_an_object_in_a_loop_has_the_type_of_the_entries(tmp_path: Path) -> None:
    text = """
        class Parameter:
            def __init__(self, pack): self.pack = pack
            def convert(self, value): ...
        class Module:
            def pack(self, code): ...
        def begin(x, parameters: list[Parameter]):
            for parameter, value in zip(parameters, x):
                parameter.pack(value)  # which is no method, and none of another class
                parameter.convert(value)
        """
    assert flow_of(tmp_path, text) == {"Parameter.convert"}


def test_steps_up_and_back(found: dict[str, Measure]) -> None:
    assert (found["inputs"].number, found["inputs-modules"].number, found["inputs-back"].number) == (4, 3, 1)
    assert found["inputs-up"].number == 0
    # `Shelf` stands above the module that calls it; that the store imports `Packed` later makes it no module above.
    assert [place.partition(" -> ")[2] for place in found["loss-up"].places] == ["made.mid.above:Shelf.put"]
    assert (found["inputs-objects"].number, found["inputs-objects-up"].number) == (4, 0)


def test_layout(found: dict[str, Measure]) -> None:
    assert found["top"].places == ["__init__", "bind", "entry", "ir", "low", "mid", "tape"]
    assert found["loose"].places == ["made.bind", "made.entry", "made.tape"]
    # entry and bind are one circle by an import for types, low and mid by one in a function.
    assert (found["circles"].number, found["circle"].number, found["circle-run"].number) == (1, 2, 2)
    assert found["circle-run"].places == ["2 modules  made.low.store made.mid.packed"]
    assert [place.rpartition(":")[0] for place in found["against"].places] == ["made.bind", "made.low.store"]
    assert found["layers"].number == 3


def test_files_and_functions(found: dict[str, Measure], package: Package) -> None:
    assert found["small"].number == len(package.modules) == 10
    assert found["full"].number == 0
    assert found["lines"].number == sum(1 for m in package.modules.values() for line in m.text.splitlines() if line)
    sizes = [size for size, _ in counts.functions(package)]
    assert sizes[0] == found["functions"].number == 10  # cases


def test_names(found: dict[str, Measure]) -> None:
    assert [place.split(maxsplit=1)[1] for place in found["hooks"].places] == [
        "set_reader of made.low.store", "made.low.store.Array.library",
    ]  # fmt: skip
    assert found["classes"].places == ["Array  made.low.store, made.mid.above"]
    assert [place.split(maxsplit=1)[1] for place in found["sets"].places] == ["add mul", "load store"]
    assert [place.split(maxsplit=1)[1] for place in found["tests"].places] == [
        "op.name == 'add'", "op.name in ('load', 'store')",
    ]  # fmt: skip
    assert [place.split(maxsplit=1)[1] for place in found["tests-single"].places] == ["op.name in CASTS"]
    assert {place.split(maxsplit=1)[1] for place in found["tests-others"].places} == {"name != 'mul'", "'add' | 'mul'"}


def test_what_is_current(tmp_path: Path) -> None:
    state = tmp_path / "made" / "runtime" / "memory" / "state.py"
    state.parent.mkdir(parents=True)
    for folder in (tmp_path / "made", tmp_path / "made" / "runtime", state.parent):
        (folder / "__init__.py").write_text("")
    state.write_text("def is_taken():\n    return current.tape or current.recorder\n\n\ndef told(): ...\n")
    text = """
        from made.runtime.memory.state import current, is_taken as asked, told
        def is_taken(): ...
        def begin():
            put("tape", None), put("stream", None)
            if current.stream or asked() or asked():
                told(is_taken())
            here, current.recorder = current.recorder, None
        """
    (tmp_path / "made" / "one.py").write_text(dedent(text).lstrip())
    package = Package(tmp_path / "made")
    assert counts.reads_of_current(package) == ["made.one:4", "made.one:7", "made.runtime.memory.state:2"]
    assert counts.questions_about_current(package) == ["made.one:5  asked"]


def test_texts(found: dict[str, Measure]) -> None:
    assert found["docstrings-in"].places == ["made.entry:1"]
    assert found["docstrings-what"].number == 3
    assert 0 < found["comments"].number < 3
    assert not any("made.bind " in place for place in found["comments"].places)


def test_lines_of_code_and_of_comments(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    text = '"""Text\nof two."""\n\n# why\nx = 1  # and how\ny = """a\nb"""\n# ruff: noqa\n\n\n'
    text += 'def f():\n    """Return 1."""\n    return 1\n'
    (tmp_path / "made" / "__init__.py").write_text(text)
    assert counts.lines_of(Package(tmp_path / "made").modules["made"]) == (5, 1)


def test_imports_for_types_and_late_ones(package: Package) -> None:
    said = {(one.importer, one.imported): (one.for_types, one.is_late) for one in package.imports}
    assert said["made.bind", "made.entry"] == (True, False)
    assert said["made.low.store", "made.mid.packed"] == (False, True)
    assert said["made.mid.above", "made.low.store"] == (False, False)
    assert len(package.imports) == len(said) + 2  # the package's own file and `entry` import a module in two statements


def test_goals() -> None:
    assert Measure("a", "", 3, most=3).is_reached
    assert not Measure("a", "", 4, most=3).is_reached
    assert Measure("a", "", 4.0, least=4).is_reached
    assert Measure("a", "", 4).is_reached is None


def test_order_against_which_few_imports_go() -> None:
    weights = {("a", "b"): 5, ("b", "c"): 5, ("c", "a"): 1, ("d", "a"): 1, ("c", "e"): 1}
    assert graphs.against(weights) == [("c", "a")]
    edges = graphs.edges_of(weights, "abcde")
    assert graphs.circles(edges) == [["a", "b", "c"]]
    assert graphs.layers(edges) == {"e": 0, "a": 1, "b": 1, "c": 1, "d": 2}
    assert graphs.below(edges)["d"] == {"a", "b", "c", "e"}
    assert graphs.against({("a", "b"): 1, ("b", "c"): 1}) == []


@pytest.mark.parametrize(("sizes", "expected"), [([1] * 99 + [50], 1), ([1] * 98 + [40, 50], 40), ([7], 7), ([], 0)])
def test_percentile(sizes: list[int], expected: int) -> None:
    assert counts.percentile(sizes, 0.99) == expected
