"""What is counted file by file.

Lines, comments, functions, docstrings, hooks, questions about what is current, names of classes and of operations.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from house.sources import Module, Package

SMALL_FILE = 60
FULL_FOLDER = 40
_OPENS_WITH_IN = re.compile(r"(^|\n)\s*In: ")
_OPENS_WITH_QUESTION = re.compile(r"\s*(What|Whether|How)\b")
_FOR_TOOLS = re.compile(r"#\s*(fmt|ruff|mypy|type|noqa)\b")
_NO_CODE = frozenset({
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING,
})  # fmt: skip
_OPERATION_FOLDERS = ("ir.ops", "lang")
_STATE = "runtime.memory.state"
_TAKERS = ("tape", "recorder")


def small_files(package: Package) -> list[str]:
    """Return files with less lines than a screen has."""
    sizes = {module.name: len(module.lines) for module in package.modules.values()}
    return [f"{name}  {size} lines" for name, size in sorted(sizes.items(), key=lambda e: e[1]) if size < SMALL_FILE]


def full_folders(package: Package) -> list[str]:
    """Return folders with too many files of their own; ``__init__.py`` is none of them."""
    found = Counter(module.folder for module in package.modules.values() if not module.is_package)
    return [f"{name}  {count} files" for name, count in found.most_common() if count > FULL_FOLDER]


def entries_at_the_top(package: Package) -> list[str]:
    """Return the folders and files at the top, the package's own file among them."""
    return sorted({package.top(name) for name in package.modules})


def loose_files(package: Package) -> list[str]:
    """Return the files at the top that are no folder's, ``__init__.py`` left out."""
    return [m.name for m in package.modules.values() if m.name.count(".") == 1 and not m.is_package]


# -- lines -------------------------------------------------------------------------------------------------------------


def lines_of(module: Module) -> tuple[int, int]:
    """Return how many lines of a module are code, docstrings left out, and how many are comments alone."""
    strings = {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code, comments = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type == tokenize.COMMENT:
            if not _FOR_TOOLS.match(token.string):
                comments.add(token.start[0])
        elif token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - strings), len(comments - code)


def functions(package: Package) -> list[tuple[int, str]]:
    """Return the lines of each function from ``def`` to its end, the longest first."""
    found = []
    for module in package.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((size, f"{module.name}:{node.name}  {size} lines"))
    return sorted(found, key=lambda one: (-one[0], one[1]))


def percentile(sizes: list[int], part: float) -> int:
    """Return the size that so large a part of all sizes does not exceed."""
    ordered = sorted(sizes)
    return ordered[max(0, -int(-len(ordered) * part // 1) - 1)] if ordered else 0


# -- docstrings --------------------------------------------------------------------------------------------------------


def docstrings(package: Package) -> Iterator[tuple[str, str]]:
    """Yield each docstring with where it stands, those of attributes too."""
    for module in package.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                for k, inner in enumerate(node.body):
                    value = inner.value if isinstance(inner, ast.Expr) else None
                    stands = k == 0 or isinstance(node.body[k - 1], (ast.Assign, ast.AnnAssign))
                    if stands and isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield f"{module.name}:{inner.lineno}", value.value


def stiff_docstrings(package: Package) -> tuple[list[str], list[str]]:
    """Return docstrings with a paragraph that opens ``In:``, and those that begin with What, Whether or How."""
    found = list(docstrings(package))
    return (
        [place for place, text in found if _OPENS_WITH_IN.search(text)],
        [place for place, text in found if _OPENS_WITH_QUESTION.match(text)],
    )


# -- classes and hooks -------------------------------------------------------------------------------------------------


def shared_class_names(package: Package) -> list[str]:
    """Return names of classes that several have, with where they are."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in package.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    shared = [(name, where) for name, where in places.items() if len(where) > 1]
    return [f"{name}  {', '.join(where)}" for name, where in sorted(shared, key=lambda one: (-len(one[1]), one[0]))]


def hooks(package: Package) -> list[str]:
    """Return what is wired while modules are imported, in place of an import.

    These are calls, at the level of a module, of a function of another module that only keeps what it is given in a
    variable of its own module; and assignments, at that level, to attributes of what was imported.
    """
    assert package.imports is not None
    return [hook for module in package.modules.values() for hook in _hooks_of(package, module)]


def _hooks_of(package: Package, module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            place, inside = module.names.get(node.value.func.id, ("", None))
            if inside is not None and _is_setter(package.modules[place], inside):
                yield f"{module.name}:{node.lineno}  {inside} of {place}"
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and _first(target) in module.names:
                    yield f"{module.name}:{node.lineno}  {ast.unparse(target)}"


def _first(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_setter(module: Module, name: str) -> bool:
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return any(isinstance(inner, ast.Global) for inner in node.body) or any(
                isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Attribute)
                and isinstance(inner.value, ast.Name) and inner.value.id in {a.arg for a in node.args.args}
                for inner in node.body
            )  # fmt: skip
    return False


# -- what is current ---------------------------------------------------------------------------------------------------


def reads_of_current(package: Package) -> list[str]:
    """Return the lines that read or set the current tape or recorder themselves."""
    return [f"{module.name}:{line}" for module in package.modules.values() for line in _reads_of_current(module)]


def questions_about_current(package: Package) -> list[str]:
    """Return the lines that call a function of the state's own module which reads the current tape or recorder."""
    assert package.imports is not None
    state = f"{package.root.name}.{_STATE}"
    if state not in package.modules:
        return []
    asked = {(state, name) for name in _questions(package.modules[state])}
    found: list[str] = []
    for module in package.modules.values():
        lines = {
            f"{module.name}:{node.lineno}  {node.func.id}"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and module.names.get(node.func.id) in asked
        }  # fmt: skip
        found += sorted(lines, key=lambda line: int(line.split()[0].rpartition(":")[2]))
    return found


def _questions(state: Module) -> Iterator[str]:
    for node in state.tree.body:
        if isinstance(node, ast.FunctionDef) and any(map(_is_read_of_current, ast.walk(node))):
            yield node.name


def _reads_of_current(module: Module) -> list[int]:
    return sorted({node.lineno for node in ast.walk(module.tree) if _is_read_of_current(node)})  # type: ignore[attr-defined]


def _is_read_of_current(node: ast.AST) -> bool:
    """Whether a node is ``current.tape``, or a call of ``put("tape", …)``."""
    if isinstance(node, ast.Attribute):
        return node.attr in _TAKERS and isinstance(node.value, ast.Name) and node.value.id == "current"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "put" or not node.args:
        return False
    first = node.args[0]
    return isinstance(first, ast.Constant) and first.value in _TAKERS


# -- names of operations -----------------------------------------------------------------------------------------------


def _elsewhere(package: Package) -> Iterator[Module]:
    """Yield the modules of other packages than those that define operations and the language."""
    roots = [f"{package.root.name}.{folder}" for folder in _OPERATION_FOLDERS]
    yield from (m for m in package.modules.values() if not any(f"{m.name}.".startswith(f"{root}.") for root in roots))


def _strings(node: ast.AST) -> list[str] | None:
    """Return the strings of a literal collection, or of a literal string that is split; None if it is neither."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "split" and not node.args:
            value = node.func.value
            return value.value.split() if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
        return None
    elements = node.elts if isinstance(node, (ast.Set, ast.Tuple, ast.List)) else None
    if elements is None or not all(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in elements):
        return None
    return [e.value for e in elements]  # type: ignore[attr-defined]  # constants, all of them


def operation_sets(package: Package, operations: Collection[str]) -> list[str]:
    """Return literal collections of at least two names, all of operations, those in comparisons too."""
    found = []
    for module in _elsewhere(package):
        for node in ast.walk(module.tree):
            names = _strings(node)
            if names is not None and len(names) > 1 and {*names} <= {*operations}:
                found.append(f"{module.name}:{node.lineno}  {' '.join(names)[:70]}")  # type: ignore[attr-defined]
    return found


def operation_tests(package: Package, operations: Collection[str]) -> tuple[list[str], list[str]]:
    """Return where a name is compared with that of an operation, or with a literal collection of such names.

    The first are comparisons of an attribute ``name``, the second those of a variable, and cases of a ``match``.
    """
    compared, others = [], []
    for module in _elsewhere(package):
        for node in ast.walk(module.tree):
            at = node.pattern if isinstance(node, ast.match_case) else node
            kind = _kind_of_test(node, operations)
            if kind:
                place = f"{module.name}:{at.lineno}  {ast.unparse(at)[:70]}"  # type: ignore[attr-defined]
                (compared if kind == "attribute" else others).append(place)
    return compared, others


def single_tests(package: Package, singles: Collection[str]) -> list[str]:
    """Return where an attribute ``name`` is compared with a set of the table that holds one operation."""
    found = []
    for module in _elsewhere(package):
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Attribute):
                continue
            sides = {side.id for side in node.comparators if isinstance(side, ast.Name)}
            if node.left.attr == "name" and not sides.isdisjoint(singles):
                found.append(f"{module.name}:{node.lineno}  {ast.unparse(node)[:70]}")
    return found


def _kind_of_test(node: ast.AST, operations: Collection[str]) -> str:
    if isinstance(node, ast.match_case):
        values = [inner.value for inner in ast.walk(node.pattern) if isinstance(inner, ast.MatchValue)]
        return "case" if any(_is_operation(value, operations) for value in values) else ""
    if not isinstance(node, ast.Compare):
        return ""
    sides = [node.left, *node.comparators]
    if not any(_is_operation(side, operations) for side in sides):
        return ""
    if any(isinstance(side, ast.Attribute) and side.attr == "name" for side in sides):
        return "attribute"
    return "variable" if any(map(_is_name, sides)) else ""


def _is_name(node: ast.expr) -> bool:
    """Whether an expression is called a name: ``name``, ``op.kind``, ``call_name``."""
    named = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return named in ("name", "callee", "kind") or named.endswith("_name")


def _is_operation(node: ast.expr, operations: Collection[str]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in operations if isinstance(node.value, str) else False
    names = _strings(node)
    return bool(names) and {*names} <= {*operations}
