"""Rows of functions: what is read from the text of their parameters, and that each function of tiles can be called."""

from __future__ import annotations

from diffkern.frontend.tiles import tiles
from diffkern.ir.ops import buffer, composite, memory, scalar
from diffkern.ir.ops.function import NONE, FunctionRow, RowParameter, Subject, TileFunction
from diffkern.ir.ops.tile_functions import TILE_FUNCTIONS


def row(parameters: str) -> TileFunction:
    return TileFunction("f", parameters, "A function.", "A tile.", NONE, "f()")


def test_a_signature_shows_defaults_and_brackets() -> None:
    made = row("a!, b : tile; [c] : tile; k=1.0, mode='x' : number")
    assert made.signature == "a, b, [c], k=1.0, mode='x'"
    assert made.entry.takes == "a, b : tile; c : tile, optional; k, mode : number, optional"
    assert made.listed()[0] == RowParameter("a", is_optional=False, is_changed=True)
    assert [p.is_optional for p in made.listed()] == [False, False, True, True, True]
    assert made.changed == {"a": 0}


def test_an_index_has_as_many_parameters_as_axes() -> None:
    made = row("a : tile; i, [j, ...] : int; value : number")
    assert made.signature == "a, i, [j, ...] value"
    assert made.entry.takes == "a : tile; i, ... : int; value : number"
    assert [p.name for p in made.listed(axes=3)] == ["a", "i", "j", "k", "value"]
    assert not any(p.is_optional for p in made.listed(axes=3))


def test_functions_without_parameters() -> None:
    made = FunctionRow("f", "", "A function.", "int", NONE, "f()", family=Subject.THREADS)
    assert made.signature == made.entry.takes == ""
    assert made.listed() == []
    assert made.in_kernels_alone


def test_each_row_of_tiles_is_lowered() -> None:
    assert all(map(tiles.is_function, TILE_FUNCTIONS))
    assert {name for name in tiles._CALLS if name not in TILE_FUNCTIONS} == set()


def test_views_and_changes_name_tiles() -> None:
    for made in TILE_FUNCTIONS.values():
        groups = [group.partition(" : ") for group in made.parameters.split("; ")]
        assert all(kind.startswith("tile") for names, _, kind in groups if "!" in names), made.name
        assert not made.is_view or groups[0][2].startswith("tile")


def test_sets_that_are_made_of_rows() -> None:
    assert scalar.SUMS == {"add", "sub"}
    assert scalar.DIVISIONS == {"floordiv", "mod", "truncdiv", "rem"}
    assert scalar.BOUNDS == {"min", "max"}
    assert scalar.LOGIC == {"and", "or", "xor"}
    assert scalar.EQUALITIES == {"eq", "ne"}
    assert scalar.ORDERS == {"lt", "le", "gt", "ge"}
    assert memory.ELEMENTS == {"load", "store", "atomic", "accumulate"}
    assert memory.ELEMENT_WRITES == {"store", "atomic", "accumulate"}
    assert memory.UPDATES == {"atomic", "accumulate"}
    assert memory.PRIMAL_ELEMENTS == {"load", "store", "atomic"}
    assert memory.BY_ADDRESS == {"peek", "fetch"}
    assert memory.SLOTS == {"stack_get", "stack_set"}
    assert buffer.PLACES == {"buffer_get", "buffer_set"}
    assert composite.INSERTS == {"insert", "insert_dyn"}
