"""Which elements do two threads of a launch touch at once? The oracle for accumulation without atomics.

In: every access that a program makes to its arrays, thread by thread, as ``diffkern.printing.executor`` reports them.
Out: the conflicts: elements that two threads touch, not both only reading and not both in a way that another thread
cannot disturb. A program with a conflict that its manifest does not announce gives results that depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diffkern.contracts.manifest import Conflict
from diffkern.printing.executor import ElementAccess

__all__ = ["Clash", "ClashCollector", "undeclared"]


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses of one element that may not happen in two threads at once."""

    first: ElementAccess
    second: ElementAccess

    def __str__(self) -> str:
        a, b = self.first, self.second
        index = ", ".join(map(str, b.index))
        return f"{b.param}[{index}]: {a.kind} by thread {a.thread} (as {a.param}), {b.kind} by thread {b.thread}"


@dataclass(slots=True)
class ClashCollector:
    """An observer for the executor that remembers each thread's accesses of each element.

    It knows every pair of threads, and counts a thread that reads what another one changes.
    """

    _touched: dict[int, dict[tuple[int, str], ElementAccess]] = field(default_factory=dict)
    _reads: list[ElementAccess] = field(default_factory=list)  # since the last access that was not a read

    def __call__(self, access: ElementAccess) -> None:
        if access.kind == "read":
            self._reads.append(access)
            return
        # In Python ``a[i] += b[j]`` reads a[i], reads b[j] and writes a[i]: together one addition and a read.
        added = [r for r in self._reads if (r.thread, r.address) == (access.thread, access.address)]
        if access.kind == "write" and added:
            self._reads.remove(added[0])
            access = replace(access, kind="plain")
        self._flush()
        self._enter(access)

    def _flush(self) -> None:
        for read in self._reads:
            self._enter(read)
        self._reads.clear()

    def _enter(self, access: ElementAccess) -> None:
        self._touched.setdefault(access.address, {}).setdefault((access.thread, access.kind), access)

    def clashes(self, param: str | None = None) -> Iterator[Clash]:
        """All clashes, of one parameter or of all."""
        self._flush()
        for accesses in self._touched.values():
            seen = sorted(accesses.values(), key=lambda a: (a.thread, a.kind))
            for k, b in enumerate(seen):
                for a in seen[:k]:
                    if _clash(a, b) and (param is None or param in (a.param, b.param)):
                        yield Clash(a, b)


def _clash(a: ElementAccess, b: ElementAccess) -> bool:
    kinds = {a.kind, b.kind}
    if "reduce" in kinds:
        # Partial sums arrive when all threads have run: other additions do not matter, but whoever looks at the
        # element or overwrites it, be it the same thread, does so too early.
        return not kinds <= {"reduce", "atomic", "plain"}
    if a.thread == b.thread or kinds == {"read"} or kinds == {"atomic"}:
        return False
    return True


def undeclared(
    collector: ClashCollector,
    conflicts: Mapping[str, Conflict],
    dim: Sequence[int],
) -> list[Clash]:
    """Clashes that the analysis of an adjoint does not announce.

    Parameters
    ----------
    collector
        What watched the run.
    conflicts
        By name of the cotangent parameter, what the manifest says.
    dim
        The launch's dimensions.
    """
    return [clash for clash in collector.clashes() if not _announced(clash, conflicts, dim)]


def _announced(clash: Clash, conflicts: Mapping[str, Conflict], dim: Sequence[int]) -> bool:
    entry = conflicts.get(clash.second.param)
    if entry is None or "reduce" in (clash.first.kind, clash.second.kind):
        return False
    if entry.kind == "general":
        return True
    if entry.kind != "bounded":
        return False
    first, second = _coordinates(clash.first.thread, dim), _coordinates(clash.second.thread, dim)
    differences = [b - a for a, b in zip(first, second, strict=True)]
    inside = zip(differences, entry.reach, strict=False)
    return all(low <= d <= high for d, (low, high) in inside) and not any(differences[len(entry.reach) :])


def _coordinates(thread: int, dim: Sequence[int]) -> list[int]:
    out = []
    for extent in reversed(dim):
        thread, k = divmod(thread, extent)
        out.append(k)
    return out[::-1]
