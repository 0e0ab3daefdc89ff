"""The operation table: every row of every family, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from diffkern.ir.ops import block, buffer, composite, memory, output, rule, scalar, tile, warps
from diffkern.ir.ops.row import OpDef

__all__ = ["all_ops", "lookup", "table_of"]


def table_of(rows: Iterable[OpDef]) -> dict[str, OpDef]:
    """Return the rows by name; each name may be taken only once."""
    table: dict[str, OpDef] = {}
    for row in rows:
        if table.setdefault(row.name, row) is not row:
            raise ValueError(f"operation {row.name!r} has two rows")
    return table


_FAMILIES: Final = (scalar, composite, memory, block, warps, tile, buffer, rule, output)
_TABLE: Final = table_of(row for family in _FAMILIES for row in family.ROWS)


def lookup(name: str) -> OpDef:
    """Return the row of an operation."""
    return _TABLE[name]


def all_ops() -> Mapping[str, OpDef]:
    """Return the whole table, by name."""
    return _TABLE
