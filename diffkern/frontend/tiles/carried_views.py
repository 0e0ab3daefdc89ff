"""Views of tiles in loops: a change of a tile in a trip is one of the views that were made of it before the loop.

The views are carried from trip to trip beside their tile. At the start of a trip, and behind the loop, what is carried
is noted to be the same view of what the tile has become by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Binding, Rec, Term, Tup, Val
from diffkern.ir.nodes import Value

__all__ = ["are_still", "follow_their_tiles", "kept", "sharing"]


def sharing(cx: Context, names: Collection[str], live: Collection[str]) -> list[str]:
    """Return what else changes with these variables.

    These are views of their tiles that are read later, and what they are views of themselves.
    """
    held = {v for name in names if name in cx.env for v in _values(cx.env[name].term)}
    above = {whole for v in held for whole in _wholes(cx, v)}
    found = []
    for name, known in cx.env.items():
        # Names with `$` are the frontend's own, which no later statement reads.
        if name in names or name.startswith("$"):
            continue
        values = list(_values(known.term))
        is_view = any(whole in held or whole in above for v in values for whole in _wholes(cx, v))
        if any(v in above for v in values) or (is_view and name in live):
            found.append(name)
    return found


def _values(term: Term | None) -> Iterator[Value]:
    """Yield the values of a variable, or of the parts of a tuple or struct."""
    if isinstance(term, Val):
        yield term.value
    elif isinstance(term, (Tup, Rec)):
        for item in term.items:
            yield from _values(item)


def _wholes(cx: Context, v: Value) -> Iterator[Value]:
    """Yield the tile that another one is a view of, what that is a view of, and so on."""
    while (view := cx.tile_views.get(v)) is not None and view.whole is not None:
        v = view.whole
        yield v


def kept(cx: Context, entry: Mapping[str, Binding | None], names: Collection[str]) -> dict[str, str]:
    """Return the carried variables that are views of what another one holds alone, each with that one."""
    holders: dict[Value, list[str]] = {}
    for name, known in cx.env.items():
        for v in _values(known.term):
            holders.setdefault(v, []).append(name)
    found = {}
    for name in names:
        binding = entry[name]
        term = None if binding is None else binding.term
        view = cx.tile_views.get(term.value) if isinstance(term, Val) else None
        if view is None or view.whole is None or view.remake is None:
            continue
        of = holders.get(view.whole, [])
        if len(of) == 1 and of[0] in names and isinstance(cx.env[of[0]].term, Val):
            found[name] = of[0]
    return found


def follow_their_tiles(
    cx: Context, views: Mapping[str, str], entry: Mapping[str, Binding | None], terms: Mapping[str, Term]
) -> None:
    """Note that carried variables are the views of their tiles that they were before the loop."""
    for name, of in views.items():
        binding, part, whole = entry[name], terms[name], terms[of]
        assert binding is not None
        assert isinstance(binding.term, Val)
        assert isinstance(part, Val)
        assert isinstance(whole, Val)
        cx.tile_views[part.value] = replace(cx.tile_views[binding.term.value], whole=whole.value)


def are_still(cx: Context, name: str, of: str, entry: Term | None, env: Mapping[str, Binding]) -> bool:
    """Return whether a variable is at the end of a trip the view of another one that it was before the loop."""
    part, whole = (None if known is None else known.term for known in (env.get(name), env.get(of)))
    if not (isinstance(part, Val) and isinstance(whole, Val) and isinstance(entry, Val)):
        return False
    view = cx.tile_views.get(part.value)
    return view is not None and view.whole is whole.value and view.remake is cx.tile_views[entry.value].remake
