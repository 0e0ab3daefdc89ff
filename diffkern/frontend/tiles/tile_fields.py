"""Tiles of structs: a :class:`Rec` of a :class:`TileStruct`, which has a tile for each field.

The functions here find the tiles of the fields by where they stand in the struct, and make such terms of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from diffkern.frontend.terms.terms import Rec, RecView, Term, TileStruct, Val
from diffkern.frontend.tiles.tile_terms import is_tile, tile_type
from diffkern.ir import types as T
from diffkern.ir.structs import FieldType, Struct, StructArray

__all__ = ["Path", "adds_up", "at", "built", "each", "first", "is_one", "leaves", "like", "paths"]

Path: TypeAlias = tuple[int, ...]


def is_one(term: Term | None) -> bool:
    """Return whether a term is a tile of structs."""
    return isinstance(term, Rec) and isinstance(term.struct, TileStruct)


def paths(struct: Struct) -> Iterator[tuple[Path, FieldType]]:
    """Yield the places of the numbers, vectors and arrays of a struct in it, with their types."""
    for k, (_, t) in enumerate(struct.fields):
        if isinstance(t, Struct):
            yield from (((k, *path), inner) for path, inner in paths(t))
        else:
            yield (k,), t


def adds_up(t: FieldType) -> bool:
    """Return whether values of a field can be added up: floats, integers of 32 bits and more, vectors of these."""
    if isinstance(t, (T.Array, StructArray, Struct)):
        return False
    scalar = T.scalar_of(t)
    return scalar.is_float or scalar.bits >= 32


def at(term: Term, path: Path) -> Term:
    """Return the part of a struct that stands at a path; of a type, that of the field."""
    for k in path:
        assert isinstance(term, (Rec, RecView))
        term = term.items[k]
    return term


def built(struct: Struct, leaves: Iterator[Term]) -> Term:
    """Return the struct whose parts are given in order: a tile of structs if they are tiles."""
    items = [built(t, leaves) if isinstance(t, Struct) else next(leaves) for _, t in struct.fields]
    # Parts that are structs of tiles have a shape as well.
    shapes = {item.struct.shape for item in items if isinstance(item, Rec) and isinstance(item.struct, TileStruct)}
    shapes |= {tile_type(item.value).shape for item in items if isinstance(item, Val) and is_tile(item)}
    return Rec(TileStruct.of(struct, shapes.pop()) if shapes else struct, tuple(items))


def first(tile: Val | Rec) -> Val:
    """Return the tile, or that of its first field."""
    while isinstance(tile, Rec):
        inner = tile.items[0]
        assert isinstance(inner, (Val, Rec))
        tile = inner
    return tile


def each(tile: Term, function: Callable[[Val], Term]) -> Term:
    """Return the result of a function for a tile, or for the tiles of all fields."""
    if isinstance(tile, Val):
        return function(tile)
    assert isinstance(tile, Rec)
    assert isinstance(tile.struct, TileStruct)
    struct = tile.struct.element
    made = []
    for path, _ in paths(struct):
        leaf = at(tile, path)
        assert isinstance(leaf, Val)
        made.append(function(leaf))
    return built(struct, iter(made))


def like(tile: Term, made: Iterator[Term]) -> Term:
    """Return a tile, or a tile of structs as the given one, of the tiles of its fields in order."""
    return (
        built(tile.struct.element, made)
        if isinstance(tile, Rec) and isinstance(tile.struct, TileStruct)
        else next(made)
    )


def leaves(term: Term) -> list[Val]:
    """Return the tile, or the tiles of all fields in order."""
    if isinstance(term, Rec):
        return [leaf for item in term.items for leaf in leaves(item)]
    return [term] if isinstance(term, Val) else []
