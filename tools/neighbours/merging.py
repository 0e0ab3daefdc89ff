"""What is known of the kernels of a piece for some targets, with what was found for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["merged", "missing_targets"]

_BY_TARGET = ("forward", "adjoint")


def missing_targets(known: dict[str, Any], targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets for which nothing is known of the kernels of a piece; none of a piece without kernels."""
    found = known["found"]
    tried = [reply["forward"] for reply in found.get("kernels", ()) if "forward" in reply] if found else []
    return tuple(target for target in targets if tried and not any(target in reply for reply in tried))


def merged(known: dict[str, Any], found: dict[str, Any], targets: Sequence[str]) -> dict[str, Any]:
    """Return what is known with what was found for other targets.

    Parameters
    ----------
    known, found : dict
        The results of a piece.
    targets : sequence of str
        The other targets.
    """
    others = {reply["name"]: reply for reply in found["found"]["kernels"] if "name" in reply}
    kernels = [_both(reply, others.get(reply.get("name"), {}), targets) for reply in known["found"]["kernels"]]
    return {**known, "found": {**known["found"], "kernels": kernels}}


def _both(reply: dict[str, Any], other: dict[str, Any], targets: Sequence[str]) -> dict[str, Any]:
    if "error" in other:  # its process died of it
        other = {"forward": dict.fromkeys(targets, other["error"])}
    if "forward" not in reply or "forward" not in other:
        return reply
    made = dict(reply)
    for direction in _BY_TARGET:
        if direction in reply or direction in other:
            made[direction] = {**reply.get(direction, {}), **other.get(direction, {})}
    if "looked at" in other:
        made["looked at"] = sorted({*reply.get("looked at", ()), *other["looked at"]})
    return made
