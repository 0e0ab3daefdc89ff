"""The results as tables: a printed one, and those of the documentation."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from packages import Package

__all__ = ["kernel_counts", "largest", "list_table", "printed", "program_rows", "reasons", "rst"]

_MANY = 60
"""How many reasons are shown of a package."""


def printed(packages: Sequence[Package], data: dict[str, Any]) -> str:
    """Return what is known as text."""
    lines = [f"versions: {_versions(packages, data)}"]
    for package in packages:
        lines += ["", package.distribution]
        lines += [f"  {line}" for line in _imports(package, data)]
        for where in ("kernels", "launched"):
            counts = kernel_counts(package, data, where)
            shown = {"kernels": "kernels of modules", "launched": "kernels launched"}[where]
            lines += [f"  {shown}, {what}: {good} of {all_}" for what, (good, all_) in counts.items()]
        lines += [f"  {count:4} {reason}" for reason, count in reasons(package, data)]
        lines += ["  " + " | ".join(row) for row in program_rows(package, data)]
    return "\n".join(lines)


def rst(packages: Sequence[Package], data: dict[str, Any]) -> str:
    """Return the tables of the documentation."""
    ours = [piece for name, piece in data["pieces"].items() if any(_is_of(p, name, data) for p in packages)]
    dates = sorted({piece["date"] for piece in ours})
    days = f"on {dates[0]}" if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}" if dates else ""
    lines = [f"Made by ``python tools/neighbours`` {days}, with {_versions(packages, data)}.", ""]
    heads = ("package", "modules imported", "kernels forward", "adjoints", "forward for sm_90", "programs that agree")
    lines += list_table(heads, (_summary(package, data) for package in packages), (22, 16, 16, 16, 16, 14))
    programs = [row for package in packages for row in program_rows(package, data)]
    columns = ("program", "result", "difference", "from the reference", "first step cold", "warm", "a step")
    lines += ["", "Programs:", "", *list_table(columns, programs, (18, 22, 12, 12, 14, 11, 11))]
    refused = [(p.distribution, str(count), f"``{_safe(why)}``") for p in packages for why, count in reasons(p, data)]
    if refused:
        lines += ["", "Modules and kernels that are refused, by reason:", ""]
        lines += list_table(("package", "how many", "reason"), refused, (20, 10, 70))
    out = [(p.distribution, _named(pattern), why) for p in packages for pattern, why in _excluded(p)]
    lines += ["", "Left out:", "", *list_table(("package", "what", "reason"), out, (20, 45, 35))]
    return "\n".join(lines) + "\n"


def _versions(packages: Sequence[Package], data: dict[str, Any]) -> str:
    """Return the versions of what was installed in the environments of packages."""
    known = data.get("environments", {})
    own = [known.get(package.distribution) for package in packages]
    told = [versions for versions in ([data["versions"]] if None in own else []) + own if versions]
    return "; ".join(", ".join(f"{name} {version}" for name, version in versions.items()) for versions in told)


def _safe(text: str) -> str:
    return text.replace("`", "'").strip()


def _named(pattern: str) -> str:
    return f"``{pattern}``" if re.search(r"[\\|$]", pattern) else pattern


def _excluded(package: Package) -> Iterator[tuple[str, str]]:
    yield from package.excluded.items()
    yield from package.absent.items()


def list_table(heads: Iterable[str], rows: Iterable[Iterable[str]], widths: Iterable[int]) -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in (heads, *rows):
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(row)]
    return lines


# -- what is counted ---------------------------------------------------------------------------------------------------


def _found(data: dict[str, Any], name: str) -> Any:
    return data["pieces"].get(name, {}).get("found")


def _imports(package: Package, data: dict[str, Any]) -> Iterator[str]:
    for under in ("warp", "diffkern"):
        if (found := _found(data, f"imports-{package.distribution}-{under}")) is not None:
            yield f"imports under {under}: {found['imported']} of {found['modules']}"


def _kernels(package: Package, data: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Yield the replies about kernels, each signature once; ``where`` is ``kernels`` or ``launched``."""
    seen = set()
    for name, piece in data["pieces"].items():
        found = piece["found"]
        if not name.startswith(f"{where}-") or not _is_of(package, name, data):
            continue
        for reply in found["kernels"]:
            if "name" in reply and reply["name"] not in seen:
                seen.add(reply["name"])
                yield reply


def _is_of(package: Package, name: str, data: dict[str, Any]) -> bool:
    kind, _, rest = name.partition("-")
    if kind in ("kernels", "imports"):
        return rest.rpartition("-")[0] == package.distribution
    found = _found(data, f"program-{rest}")
    return found is not None and found["package"] == package.distribution


def kernel_counts(package: Package, data: dict[str, Any], where: str) -> dict[str, tuple[int, int]]:
    """Return by direction and target how many kernels are accepted, of how many.

    Kernels whose types are not known before a launch are not counted.
    """
    good: collections.Counter[str] = collections.Counter()
    total: collections.Counter[str] = collections.Counter()
    for reply in _kernels(package, data, where):
        for direction in ("forward", "adjoint"):
            for target, error in _outcomes(reply, direction):
                total[f"{direction}, {target}"] += 1
                good[f"{direction}, {target}"] += error is None
    return {what: (good[what], total[what]) for what in total}


def _outcomes(reply: dict[str, Any], direction: str) -> Iterator[tuple[str, str | None]]:
    if "error" in reply and direction == "forward":  # its process died of it
        yield "cpu", reply["error"]
    yield from reply.get(direction, {}).items()


def reasons(package: Package, data: dict[str, Any]) -> list[tuple[str, int]]:
    """Return why modules are not imported and kernels not accepted, and how many each, the most first."""
    counts: collections.Counter[str] = collections.Counter()
    imports = _found(data, f"imports-{package.distribution}-diffkern") or {"failed": {}}
    under_warp = _found(data, f"imports-{package.distribution}-warp") or {"failed": {}}
    for module, error in imports["failed"].items():
        if module not in under_warp["failed"]:
            counts[f"import: {_general(error)}"] += 1
    for where in ("kernels", "launched"):
        for reply in _kernels(package, data, where):
            for direction in ("forward", "adjoint"):
                errors: dict[str, list[str]] = {}
                for target, error in _outcomes(reply, direction):
                    if error is not None:
                        errors.setdefault(_general(error), []).append(target)
                counts.update(f"{_where(direction, targets)}: {error}" for error, targets in errors.items())
    return counts.most_common(_MANY)


def _where(direction: str, targets: Sequence[str]) -> str:
    """Return a direction, with the target if it is not the processor."""
    return direction if "cpu" in targets else f"{direction} for {', '.join(targets)}"


def _general(error: str) -> str:
    """Return an error without the place, which differs from case to case."""
    return re.sub(r" \(line \d+\)|/?[\w./-]+\.py:\d+(:\d+)?: ", "", error)


def largest(differences: dict[str, Any]) -> float | str | None:
    """Return the largest of several differences, or what is said instead of one."""
    told = [value for value in differences.values() if isinstance(value, str)]
    return told[0] if told else max(differences.values(), default=None)


def program_rows(package: Package, data: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each program: how it ended, differences, times under Warp and here."""
    for name, piece in data["pieces"].items():
        found = piece["found"]
        if not name.startswith("program-") or found["package"] != package.distribution:
            continue
        warp, ours = found["warp"], found["diffkern"]
        times = (_both(warp, ours, what, scale) for what, scale in (("cold", 1.0), ("warm", 1.0), ("step", 1e3)))
        off = found.get("differences", {})
        reference = largest(ours.get("from reference", {}))
        yield (
            name.removeprefix("program-"), _safe(outcome(found)), _number(largest(off)), _number(reference), *times
        )  # fmt: skip


def outcome(found: dict[str, Any]) -> str:
    """Return how a program ended: ``agrees``, or what is wrong."""
    for under, name in (("warp", "Warp"), ("diffkern", "here")):
        if "error" in found[under]:
            return f"stops under {name}: {_general(found[under]['error'])}"
    off = largest(found["differences"])
    return "agrees" if not isinstance(off, str) and (off or 0.0) <= found["tolerance"] else "differs"


def _both(warp: dict[str, Any], ours: dict[str, Any], what: str, scale: float) -> str:
    unit = "s" if scale == 1.0 else "ms"
    pair = [f"{side[what] * scale:.3g}" if what in side else "-" for side in (warp, ours)]
    return "-" if pair == ["-", "-"] else f"{pair[0]} / {pair[1]} {unit}"


def _looked_at(package: Package, data: dict[str, Any]) -> int:
    """How many adjoints are there for launches of which a tape has seen that no threads race."""
    replies = (reply for where in ("kernels", "launched") for reply in _kernels(package, data, where))
    return sum("cpu" in reply.get("looked at", ()) for reply in replies)


def _number(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.1g}"


def _imported(package: Package, data: dict[str, Any]) -> str:
    """Return how many modules are imported of those that are under Warp."""
    ours = _found(data, f"imports-{package.distribution}-diffkern")
    theirs = (_found(data, f"imports-{package.distribution}-warp") or {"failed": {}})["failed"]
    wanted = ours["modules"] - len(theirs)
    return f"{wanted - len(ours['failed'].keys() - theirs.keys())} of {wanted}"


def _summary(package: Package, data: dict[str, Any]) -> tuple[str, ...]:
    imports = _found(data, f"imports-{package.distribution}-diffkern")
    cells = [package.distribution, _imported(package, data) if imports else "-"]
    for which in ("forward, cpu", "adjoint, cpu", "forward, sm_90"):
        good = total = 0
        for where in ("kernels", "launched"):
            right, all_ = kernel_counts(package, data, where).get(which, (0, 0))
            good, total = good + right, total + all_
        looked = _looked_at(package, data) if which == "adjoint, cpu" else 0
        cells.append(f"{good} of {total}{f' ({looked})' if looked else ''}" if total else "-")
    rows = list(program_rows(package, data))
    return (*cells, f"{sum(row[1] == 'agrees' for row in rows)} of {len(rows)}" if rows else "-")
