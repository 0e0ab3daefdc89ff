"""Facts about control flow and names, read off the syntax tree before anything is lowered.

From the body of a function this module finds the names it assigns, the statements that leave the straight path, and
which names are still read after which statement (:class:`NameLiveness`), so that branches and loops carry no value that
is not read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend.syntax.survey import walk
from diffkern.ir.ops.tile_functions import TILE_FUNCTIONS
from diffkern.lang.library import COMPOSED

__all__ = [
    "UPDATES",
    "NameLiveness",
    "assigned",
    "chain_of",
    "changed_through_views",
    "contains",
    "falls_off",
    "leaves",
    "names_read",
]

Names: TypeAlias = frozenset[str]
Loop: TypeAlias = ast.For | ast.While
Escape: TypeAlias = type[ast.Break] | type[ast.Continue] | type[ast.Return]


UPDATES: Final[Mapping[str, Mapping[str, int]]] = {
    name: changed for name, row in TILE_FUNCTIONS.items() if (changed := row.changed)
}
"""Functions that change variables passed to them, by key: parameter and position."""

Called: TypeAlias = Callable[[ast.expr], "str | None"]
"""Says which built-in an expression is that is called, by its key; None for anything else."""

Changing: TypeAlias = Callable[[ast.expr], "str | Mapping[str, int] | None"]
"""The same, and of a func that changes variables of its caller by which parameters, with their positions."""


def assigned(stmts: Iterable[ast.AST], called: Changing = lambda _: None) -> list[str]:
    """Return the names that the statements assign, each once, in the order of the source."""
    found: dict[str, None] = {}
    for stmt in stmts:
        for node in walk(stmt):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                # A dictionary keeps the order of the source, which makes programs the same in each process.
                found[node.id] = None
            elif isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                name = _root(node)  # v[0] = ... replaces the vector v
                found.update({} if name is None else {name: None})
            elif isinstance(node, ast.Call):
                found.update(dict.fromkeys(_updated(node, called(node.func))))
    return list(found)


def _updated(call: ast.Call, key: str | Mapping[str, int] | None) -> list[str]:
    """Return the variables that a call changes."""
    own = isinstance(key, Mapping)
    # Of a built-in, the table or the library says which arguments change.
    places = key if isinstance(key, Mapping) else {} if key is None else UPDATES.get(key) or _set_by_library(key)
    given = [call.args[k] for k in places.values() if k < len(call.args)]
    # An argument may be given by name as well.
    given += [keyword.value for keyword in call.keywords if keyword.arg in places]
    names = [_root(node) if own else node.id if isinstance(node, ast.Name) else None for node in given]
    return [name for name in names if name is not None]


_VIEWS: Final = {name: row.listed()[0].name for name, row in TILE_FUNCTIONS.items() if row.is_view}
"""Functions whose result is a view of a tile, by key: the parameter that is that tile."""


def changed_through_views(stmts: Iterable[ast.stmt], called: Called) -> list[str]:
    """Return the names of tiles of which the statements make views and change these."""
    of: dict[str, set[str]] = {}
    pending: list[str] = []
    for node in (node for stmt in stmts for node in walk(stmt)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            # ``b = a`` and ``b = a[1:3]`` alike: a change of `b` may be one of `a`.
            shown = _shown(node.value, called)
            of.setdefault(node.targets[0].id, set()).update(() if shown is None else (shown,))
        elif isinstance(node, ast.Call):
            pending += _updated(node, called(node.func))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            pending.append(node.target.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            pending += [name for name in (_root(node),) if name is not None]
    found: dict[str, None] = {}
    # Transitively: a view may be of another view.
    while pending:
        for name in sorted(of.pop(pending.pop(), ())):
            found[name] = None
            pending.append(name)
    return list(found)


def _shown(node: ast.expr, called: Called) -> str | None:
    """Return the variable of whose tile an expression may be a view, if any."""
    if isinstance(node, ast.Call):
        parameter = _VIEWS.get(called(node.func) or "")
        given = node.args[:1] or [k.value for k in node.keywords if k.arg == parameter]
        return _shown(given[0], called) if parameter is not None and given else None
    return _root(node)


def _set_by_library(key: str) -> Mapping[str, int]:
    """Return the parameters that some overload of a library function changes, and their positions."""
    overloads = COMPOSED[key].overloads if key in COMPOSED else ()
    return {name: list(o.signature.parameters).index(name) for o in overloads for name in o.sets}


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def names_read(node: ast.AST) -> Names:
    """Return the names read anywhere in an expression or statement."""
    return frozenset(n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def contains(stmts: Sequence[ast.stmt], kinds: tuple[Escape, ...]) -> bool:
    """Return whether the statements contain one of the escapes that leads out of them.

    ``break`` and ``continue`` inside a nested loop stay in that loop; ``return`` never does.
    """
    pending = [(stmts, kinds)]
    while pending:
        block, wanted = pending.pop()
        for stmt in block:
            if isinstance(stmt, wanted):
                return True
            if isinstance(stmt, ast.If):
                pending += [(stmt.body, wanted), (stmt.orelse, wanted)]
            elif isinstance(stmt, (ast.For, ast.While)):
                outward = tuple(k for k in wanted if k is ast.Return)
                # A `break` in the `else` of a loop belongs to the loop around it.
                pending += [(stmt.body, outward), (stmt.orelse, wanted)]
    return False


def leaves(stmts: Sequence[ast.stmt]) -> bool:
    """Return whether control never reaches the end of the statements."""
    return any(_leaves(stmt) for stmt in stmts)


def _leaves(stmt: ast.stmt) -> bool:
    if isinstance(stmt, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(stmt, ast.If):
        chain = chain_of(stmt)
        # Without an `else` the last block is empty, which does not leave.
        return all(leaves(link.body) for link in chain) and leaves(chain[-1].orelse)
    if isinstance(stmt, (ast.For, ast.While)) and not contains(stmt.body, (ast.Break,)):
        # Without a break, a loop that ends goes through its `else`.
        return is_endless(stmt) or leaves(stmt.orelse)
    return False


def chain_of(stmt: ast.If) -> list[ast.If]:
    """Return an ``if`` and its ``elif``s, each with the next one as its ``else``."""
    chain = [stmt]
    while len(chain[-1].orelse) == 1 and isinstance(following := chain[-1].orelse[0], ast.If):
        chain.append(following)
    return chain


def falls_off(stmts: Sequence[ast.stmt]) -> bool:
    """Return whether a function body can end without ``return``."""
    return not leaves(stmts)


def is_endless(loop: Loop) -> bool:
    """Return whether it is a ``while True``, which ends only by ``break`` or ``return``."""
    return isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)


class NameLiveness:
    """The names that may still be read after a branch, a loop, or the last statement of a block.

    The analysis is the usual backward one, over structured statements; loops are iterated until nothing changes.
    Names in ``always`` count as read everywhere.
    """

    def __init__(self, body: Sequence[ast.stmt], always: Names = frozenset()) -> None:
        # Read in any case, as flags of the lowering are.
        self._always = always
        self._after: dict[ast.stmt, Names] = {}
        self._head: dict[ast.stmt, Names] = {}
        self._block(body, frozenset(), None, None)

    def after(self, stmt: ast.stmt) -> Names:
        """Return the names read after a branch, a loop or the last statement of a block, on some path."""
        return self._after.get(stmt, frozenset()) | self._always

    def stands_for(self, copy: ast.stmt, stmt: ast.stmt) -> None:
        """Make a statement of the lowering inherit what follows a statement of the source."""
        self._after[copy] = self._after.get(stmt, frozenset())
        self._head[copy] = self._head.get(stmt, frozenset())

    def stands_in(self, made: ast.stmt, loop: ast.stmt) -> None:
        """Make a statement of the lowering part of a loop of the source, followed by the loop's next trip."""
        self._after[made] = self._head[made] = self.head(loop) | self.after(loop)

    def keep(self, names: Iterable[str]) -> None:
        """Treat variables that the lowering has made as read in any case."""
        self._always |= frozenset(names)

    def head(self, loop: ast.stmt) -> Names:
        """Return the names whose value at the start of an iteration is read, in it or later."""
        return self._head.get(loop, frozenset()) | self._always

    def _block(self, stmts: Sequence[ast.stmt], live: Names, brk: Names | None, cont: Names | None) -> Names:
        now = set(live)
        for k in range(len(stmts) - 1, -1, -1):
            stmt = stmts[k]
            compound = isinstance(stmt, (ast.If, ast.For, ast.While, ast.Break, ast.Continue, ast.Return))
            if compound or k == len(stmts) - 1:  # a set for each statement would take quadratic memory
                # Joined with what was there: a statement in a loop is visited once for each iteration of the analysis.
                self._after[stmt] = self._after.get(stmt, frozenset()) | now
            if compound:
                now = set(self._stmt(stmt, frozenset(now), brk, cont))
            else:
                read, stored = _uses(stmt)
                now -= stored
                now |= read
        return frozenset(now)

    def _stmt(self, stmt: ast.stmt, live: Names, brk: Names | None, cont: Names | None) -> Names:
        if isinstance(stmt, ast.Break):
            return brk or frozenset()
        if isinstance(stmt, ast.Continue):
            return cont or frozenset()
        if isinstance(stmt, ast.Return):
            return names_read(stmt)
        if isinstance(stmt, ast.If):
            chain = chain_of(stmt)
            before = self._block(chain[-1].orelse, live, brk, cont)
            for link in reversed(chain):
                self._after[link] = self._after.get(link, frozenset()) | live
                before = before | self._block(link.body, live, brk, cont) | names_read(link.test)
            return before
        if isinstance(stmt, ast.While):
            return self._loop(stmt, names_read(stmt.test), frozenset(), live, brk, cont)
        if isinstance(stmt, ast.For):
            head = self._loop(stmt, frozenset(), frozenset(assigned([stmt.target])), live, brk, cont)
            return head | names_read(stmt.iter)
        raise AssertionError(f"{type(stmt).__name__} has no control flow")

    def _loop(
        self, stmt: Loop, test: Names, target: Names, live: Names, brk: Names | None, cont: Names | None
    ) -> Names:
        at_end = live if is_endless(stmt) else self._block(stmt.orelse, live, brk, cont)
        head = at_end | test | self._head.get(stmt, frozenset())
        # Sets only grow, and the names are finitely many.
        while True:
            new = head | (self._block(stmt.body, head, live, head) - target) | test
            if new == head:
                break
            head = new
        self._head[stmt] = head
        return head


def _uses(stmt: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names that a simple statement reads, and the names it sets."""
    read: set[str] = set()
    stored: set[str] = set()
    parts = walk(stmt)
    by_chance = {node.target for node in parts if isinstance(node, ast.NamedExpr)}
    for node in parts:
        if isinstance(node, ast.Name) and node not in by_chance:
            (stored if isinstance(node.ctx, ast.Store) else read).add(node.id)
    if isinstance(stmt, ast.AugAssign) and isinstance(stmt.target, ast.Name):
        read.add(stmt.target.id)
    return read, stored
