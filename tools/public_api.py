"""Write or compare ``tests/golden/public_api.txt``: every public name with its signature, one a line.

The names and signatures are read from the sources with ``ast``; nothing is imported. Those of ``diffkern`` itself are
the exports of the stub that ``tools/typing_stub.py`` writes. ``python tools/public_api.py`` adds what is new to the
list, and refuses to take anything away from it unless it is given ``--breaking``; ``--check`` only compares.

Signatures are without annotations: they name classes of the implementation, and ``tests/typing`` checks what users see
of them.

The list of the last release, ``tests/golden/public_api_released.txt``, is written by ``--release`` at each release.
``--check`` compares with it too: a name or a parameter that is gone since is an error, unless ``docs/deprecated.csv``
has a row for the name with the version that removed it, and the four months of warning before that are over.
"""

from __future__ import annotations

import argparse
import ast
import csv
import datetime as dt
import difflib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "golden" / "public_api.txt"
RELEASED = LIST.with_name("public_api_released.txt")
DEPRECATED = ROOT / "docs" / "deprecated.csv"
MONTHS_OF_WARNING = 4

MODULES = {
    "diffkern.interop.jax": "diffkern.jax",
    "diffkern.optim": "diffkern.optim",
    "diffkern.optim.linear": "diffkern.optim.linear",
    "diffkern.sparse": "diffkern.sparse",
    "diffkern.testing": "diffkern.testing",
    "diffkern.types": "diffkern.types",
    "diffkern.utils": "diffkern.utils",
    "diffkern.cuda.host": "diffkern.cuda",
    "diffkern.cuda.jit": "diffkern.cuda",
    "diffkern.cuda.random": "diffkern.cuda.random",
    "diffkern.warp.autograd": "diffkern.warp.autograd",
    "diffkern.warp.optim": "diffkern.warp.optim",
    "diffkern.warp.types": "diffkern.warp.types",
    "diffkern.warp.utils": "diffkern.warp.utils",
}
"""Modules whose ``__all__`` is public, with the names by which programs know them."""

OWN_ALONE = frozenset({"Tape", "Sequence"})
"""Classes whose bases hold what the run time calls: only what their own bodies define is for users."""

_PLUMBING = frozenset(
    "__init__ __new__ __repr__ __str__ __del__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __copy__ "
    "__deepcopy__ __init_subclass__ __set_name__ __class_getitem__ __getattr__ __dir__".split()
)


class Found(NamedTuple):
    """A definition and the module it stands in."""

    module: str
    node: ast.AST


class Sources:
    """The modules of a package, parsed when they are asked for.

    Parameters
    ----------
    root : Path
        The directory that holds the package.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.tree = cache(self._parse)

    def path(self, module: str) -> Path | None:
        """Return the file of a module, None if there is none."""
        base = self._root.joinpath(*module.split("."))
        return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)

    def _parse(self, module: str) -> ast.Module | None:
        path = self.path(module)
        return None if path is None else ast.parse(path.read_text(encoding="utf-8"))

    def find(self, module: str, name: str) -> Found | None:
        """Return where a name of a module is defined, following imports and plain aliases."""
        found: Found | None = None
        tree = self.tree(module)
        for node in [] if tree is None else _statements(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                found = Found(module, node)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        found = self.find(node.module, alias.name) or found
            elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                aliased = self.find(module, node.value.id) if isinstance(node.value, ast.Name) else None
                found = aliased or Found(module, node)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                found = Found(module, node)
        return found

    def literal(self, module: str, name: str) -> Any:
        """Return a constant of a module: a literal, a set of one, or a list with names spliced in left out."""
        found = self.find(module, name)
        if found is None or not isinstance(found.node, (ast.Assign, ast.AnnAssign)) or found.node.value is None:
            raise SystemExit(f"tools/public_api.py: {module} has no constant {name}, of which names are read")
        value: ast.expr = found.node.value
        if isinstance(value, ast.Call) and len(value.args) == 1:
            value = value.args[0]
        if isinstance(value, ast.List):
            value.elts = [element for element in value.elts if isinstance(element, ast.Constant)]
        return ast.literal_eval(value)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those under ``if TYPE_CHECKING`` too."""
    for node in tree.body:
        if isinstance(node, ast.If):
            yield from node.body
        else:
            yield node


def listing(sources: Sources) -> list[str]:
    """Return the lines of the list, sorted."""
    lines = [*_of_diffkern(sources), *_of_warp(sources), *_of_cuda(sources)]
    for module, shown in MODULES.items():
        for name in sources.literal(module, "__all__"):
            lines += _entry(sources, module, name, shown)
    return sorted(set(lines))


def _of_diffkern(sources: Sources) -> Iterator[str]:
    """The exports of the stub: of other modules, or defined in it."""
    stub = ast.parse((ROOT / "diffkern" / "__init__.pyi").read_text(encoding="utf-8"))
    exported: list[str] = []
    for node in stub.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            exported = ast.literal_eval(node.value)
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("diffkern"):
            for alias in node.names:
                yield from _entry(sources, node.module, alias.name, "diffkern", alias.asname)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield f"diffkern.{node.name}{_signature(node.args)}"
    yield from (f"diffkern.{name}" for name in exported if not _is_function(stub, name))


def _is_function(stub: ast.Module, name: str) -> bool:
    """Whether a name of the stub has an entry with more than its name."""
    for node in stub.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return True
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return True
    return False


def _places(table: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield module, name there and public name of a table of late imports."""
    for module, names in table.items():
        for entry in names.split():
            name, _, public = entry.partition("=")
            yield module, name, public or name


def _of_warp(sources: Sources) -> Iterator[str]:
    """What ``diffkern.warp`` has of its own; the names it shares with diffkern are in one line each."""
    module, own = "diffkern.warp", set()
    for place, name, public in _places(sources.literal(module, "_MODULES")):
        own.add(public)
        yield from _entry(sources, place, name, module, public)
    yield from (f"{module}.{name}" for name in sources.literal(module, "_SUBMODULES"))
    stub = ast.parse((ROOT / "diffkern" / "__init__.pyi").read_text(encoding="utf-8"))
    everything = ast.literal_eval(stub.body[-1].value)  # type: ignore[attr-defined]  # its last statement is __all__
    for name in everything:
        if not name.startswith("_") and name not in own | sources.literal(module, "_NATIVE"):
            yield f"{module}.{name} is diffkern.{name}"


def _of_cuda(sources: Sources) -> Iterator[str]:
    """The kernel language and the types of ``diffkern.cuda``, which tables define."""
    for name, (parameters, _) in sources.literal("diffkern.lang.numba_cuda", "_CALLS").items():
        yield f"diffkern.cuda.{name}({parameters})"
    types = sources.literal("diffkern.cuda.types", "_NAMES")
    yield from (f"diffkern.cuda.{name}" for first, others in types.items() for name in (first, *others.split()))
    for name, (_, *c_types) in sources.literal("diffkern.cuda.types", "_VECTORS").items():
        for width in (2, 3, 4):
            yield from (
                f"diffkern.cuda.{spelling}" for spelling in (f"{name}x{width}", *(f"{c}{width}" for c in c_types))
            )


def _entry(sources: Sources, module: str, name: str, shown: str, public: str | None = None) -> Iterator[str]:
    """Yield the lines of one public name."""
    called = f"{shown}.{public or name}"
    found = sources.find(module, name)
    if found is not None and isinstance(found.node, ast.FunctionDef):
        yield called + _signature(found.node.args)
    elif found is not None and isinstance(found.node, ast.ClassDef):
        yield from _class(sources, found, called)
    else:
        yield called


def _class(sources: Sources, found: Found, called: str) -> Iterator[str]:
    """Yield the constructor of a class, and its public members."""
    assert isinstance(found.node, ast.ClassDef)
    members: dict[str, str] = {}
    fields: list[str] = []
    constructor = None
    for owner in _classes(sources, found, found.node.name not in OWN_ALONE):
        for node in owner.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                if not node.target.id.startswith("_"):
                    default = "" if node.value is None else f"={_default(node.value)}"
                    fields.append(node.target.id + default)
                    members.setdefault(node.target.id, "")
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and not target.id.startswith("_"):
                        members.setdefault(target.id, "")
            elif isinstance(node, ast.FunctionDef):
                if node.name in ("__init__", "__new__") and constructor is None:
                    constructor = _signature(node.args, bound=True)
                if node.name not in _PLUMBING and (not node.name.startswith("_") or node.name.startswith("__")):
                    members.setdefault(node.name, _method(node))
    if constructor is None:
        decorators = {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in found.node.decorator_list}
        bases = {ast.unparse(b).rpartition(".")[2] for b in found.node.bases}
        constructor = f"({', '.join(fields)})" if "dataclass" in decorators or "NamedTuple" in bases else ""
    yield called + constructor
    yield from (f"{called}.{name}{signature}" for name, signature in members.items())


def _classes(sources: Sources, found: Found, inherited: bool) -> Iterator[ast.ClassDef]:
    """Yield a class and, if `inherited`, its bases that the package defines."""
    assert isinstance(found.node, ast.ClassDef)
    yield found.node
    for base in found.node.bases if inherited else ():
        name = base.value if isinstance(base, ast.Subscript) else base
        above = sources.find(found.module, name.id) if isinstance(name, ast.Name) else None
        if above is not None and isinstance(above.node, ast.ClassDef):
            yield from _classes(sources, above, True)


def _method(node: ast.FunctionDef) -> str:
    """Return the signature of a method, nothing for a property."""
    decorators = [ast.unparse(d).rpartition(".")[2] for d in node.decorator_list]
    if any(d.endswith("property") or d == "setter" for d in decorators):
        return ""
    return _signature(node.args, bound="staticmethod" not in decorators)


def _signature(args: ast.arguments, bound: bool = False) -> str:
    """Return parameters with their kinds and defaults, without annotations; of a bound method without the first."""
    first, parts = args.posonlyargs + args.args, []
    defaults: list[ast.expr | None] = [*[None] * (len(first) - len(args.defaults)), *args.defaults]
    for place, (one, default) in enumerate(zip(first, defaults, strict=True)):
        if not (bound and place == 0):
            parts.append(_parameter(one, default))
        if args.posonlyargs and place == len(args.posonlyargs) - 1 and parts:
            parts.append("/")
    if args.vararg is not None:
        parts.append(f"*{args.vararg.arg}")
    elif args.kwonlyargs:
        parts.append("*")
    parts += [_parameter(one, default) for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg is not None:
        parts.append(f"**{args.kwarg.arg}")
    return f"({', '.join(parts)})"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    return one.arg if default is None else f"{one.arg}={_default(default)}"


def _default(value: ast.expr) -> str:
    """Return a default as written; a private constant's name says nothing."""
    text = ast.unparse(value)
    return "..." if text.startswith("_") else text


def differences(listed: list[str], found: list[str]) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Return what was added, what was removed, and what has another signature, as it was and is."""
    before, now = ({line.partition("(")[0].partition(" is ")[0]: line for line in lines} for lines in (listed, found))
    added = [line for name, line in now.items() if name not in before]
    removed = [line for name, line in before.items() if name not in now]
    changed = [(line, now[name]) for name, line in before.items() if name in now and now[name] != line]
    return added, removed, changed


def message(listed: list[str], found: list[str]) -> str:
    """Return what is to be done where the list and the sources differ; nothing where they agree."""
    added, removed, changed = differences(listed, found)
    said: list[str] = []
    if removed or changed:
        said.append("public names were removed or have another signature, so programs that use them break:")
        for line in removed:
            near = difflib.get_close_matches(line, added, 1)
            said.append(f"  - {line}" + (f"   (renamed to {near[0]}?)" if near else ""))
        said += [f"  - {before}\n  + {after}" for before, after in changed]
        said.append(
            "keep the old name or parameters working; if the break is meant, run python tools/public_api.py "
            "--breaking, and say in changelog.d what programs write instead"
        )
    if added:
        said += ["public names were added; run python tools/public_api.py to list them:", *(f"  + {a}" for a in added)]
    return "\n".join(said)


class Parameters(NamedTuple):
    """The parameters of an entry: those by position, those by keyword alone, and which of all have defaults."""

    positional: list[str]
    by_keyword: set[str]
    optional: set[str]
    rest: set[str]


def parameters(line: str) -> Parameters | None:
    """Return the parameters of an entry, None if it has none or is no function in Python's words."""
    name, opened, given = line.partition("(")
    try:
        made = ast.parse(f"def f({given}: pass").body[0] if opened and " " not in name else None
    except SyntaxError:
        return None
    if not isinstance(made, ast.FunctionDef):
        return None
    args = made.args
    positional = [a.arg for a in (*args.posonlyargs, *args.args)]
    optional = set(positional[len(positional) - len(args.defaults) :])
    optional |= {a.arg for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is not None}
    rest = {mark for mark, a in (("*", args.vararg), ("**", args.kwarg)) if a is not None}
    return Parameters(positional, {a.arg for a in args.kwonlyargs}, optional, rest)


def takes_the_same(before: str, after: str) -> bool:
    """Return whether each call that fits an entry fits another one, too."""
    old, new = parameters(before), parameters(after)
    if old is None or new is None:
        return before == after
    added = {*new.positional, *new.by_keyword} - {*old.positional, *old.by_keyword}
    return (
        new.positional[: len(old.positional)] == old.positional
        and old.by_keyword <= {*new.by_keyword, *new.positional}
        and added | old.optional <= new.optional
        and old.rest <= new.rest
    )


def broken(released: list[str], found: list[str], deprecated: list[dict[str, str]], today: dt.date) -> list[str]:
    """Return what programs for the last release miss, without what was removed after its time of warning.

    Parameters
    ----------
    released, found : list of str
        Entries of the last release, and of the sources.
    deprecated : list of dict
        The rows of ``docs/deprecated.csv``.
    today : datetime.date
        The day of the comparison.

    Returns
    -------
    list of str
        A line for each.
    """
    now: dict[str, list[str]] = {}
    for line in found:
        now.setdefault(line.partition("(")[0], []).append(line)
    gone = {row["name"] for row in deprecated if row["removed in"] and _is_over(row["since"], today)}
    said = []
    for line in released:
        name = line.partition("(")[0]
        if not any(takes_the_same(line, other) for other in now.get(name, [])) and name not in gone:
            said.append(f"  - {line}" + "".join(f"\n  + {other}" for other in now.get(name, [])))
    return said


def _is_over(since: str, today: dt.date) -> bool:
    """Return whether the time of warning is over that began on a day."""
    begun = dt.date.fromisoformat(since)
    months = (today.year - begun.year) * 12 + today.month - begun.month - (today.day < begun.day)
    return months >= MONTHS_OF_WARNING


def against_release(found: list[str]) -> str:
    """Return what is to be done where the last release had what the sources have not; nothing where all is there."""
    with DEPRECATED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    today = dt.datetime.now(dt.timezone.utc).date()
    said = broken(RELEASED.read_text(encoding="utf-8").splitlines(), found, rows, today)
    if not said:
        return ""
    head = "programs for the last release break (a name goes after four months of warning: docs/compatibility.rst):"
    return "\n".join([head, *said])


def main(argv: list[str] | None = None) -> int:
    """Write the list, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--breaking", action="store_true", help="also take away what is no longer there")
    parser.add_argument("--release", action="store_true", help="write the list of the release that is made")
    options = parser.parse_args(argv)
    found = listing(Sources())
    if options.release:
        RELEASED.write_text("\n".join(found) + "\n", encoding="utf-8")
        return 0
    listed = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    said = message(listed, found)
    _, removed, changed = differences(listed, found)
    if options.check and (against := against_release(found)):
        said = "\n".join(filter(None, [said, against]))
    if options.check or ((removed or changed) and not options.breaking):
        if said:
            print(said, file=sys.stderr)
        return bool(said)
    LIST.write_text("\n".join(found) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
