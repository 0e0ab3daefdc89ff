"""Write ``diffkern/__init__.pyi``: every public name once, with its type, for type checkers and completion.

Most names of the kernel language come from tables, which type checkers cannot read. ``python tools/typing_stub.py``
writes the file; with ``--check`` it fails if the file is stale, as a test does too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import diffkern
from diffkern import lang
from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import Kind, Mat
from diffkern.lang.annotations import ArrayOf
from diffkern.lang.dtypes import CompositeType, DType
from diffkern.lang.intrinsics import INTRINSICS, Intrinsic
from diffkern.lang.library import Composed

PACKAGE = Path(__file__).parents[1] / "diffkern"
STUB = PACKAGE / "__init__.pyi"

_HEAD = '''\
"""The public names of diffkern, with their types. Written by tools/typing_stub.py."""

from typing import Any, TypeVar, overload

from typing_extensions import Self, TypeAlias, dataclass_transform

'''

_CLASSES = """
_T = TypeVar("_T")

@dataclass_transform()
def struct(cls: type[_T]) -> type[_T]: ...

class _Composite:
    def __init__(self, *components: Any, **named: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Any: ...
    def __add__(self, other: Self) -> Self: ...
    def __sub__(self, other: Self) -> Self: ...
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
    def __rmul__(self, other: float) -> Self: ...
    def __truediv__(self, other: float) -> Self: ...

class _Vector(_Composite):
    x: Any
    y: Any
    z: Any
    w: Any
    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: _Matrix) -> Any: ...
    def __matmul__(self, other: _Matrix) -> Any: ...

class _Matrix(_Composite):
    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: _Composite) -> Any: ...
    def __matmul__(self, other: _Composite) -> Any: ...

"""

_RESULTS = {
    **{row.built_in.name or row.name: row.built_in.returns for row in all_ops().values() if row.built_in is not None},
    **dict.fromkeys(("frac", "degrees", "radians", "ddot", "smoothstep"), "float"),
    **dict.fromkeys(("block_dim", "thread_index", "block_index"), "int"),
    "syncthreads": "None",
}
"""What a built-in returns where that does not depend on its arguments."""

_PARAMETER = re.compile(r"(\w+)(=[^,]+)?")


def stub() -> str:
    """The text of the stub."""
    names = {**lang.public_names(), **lang.COMPOSITES, **INTRINSICS}
    body = [*_imports(), _CLASSES]
    for name, value in names.items():
        body.extend(_declaration(name, value))
    exported = "".join(f'    "{name}",\n' for name in sorted(diffkern.__all__))
    return f"{_HEAD}{chr(10).join(body)}\n__all__ = [\n{exported}]\n"


def _imports() -> Iterator[str]:
    """What ``diffkern/__init__.py`` gives from other modules, spelled as exports."""
    yield "from diffkern._version import __version__ as __version__"
    eager = {"Kernel": ("diffkern.kernels.kernel", "Kernel"), "kernel": ("diffkern.kernels.decorator", "kernel")}
    for name, (module, inside) in sorted((eager | diffkern._PLACES).items(), key=lambda item: (item[1], item[0])):
        if name != "struct":
            yield f"from {module} import {inside} as {name}"
    for name, module in diffkern._PACKAGES.items():
        parent, _, last = module.rpartition(".")
        yield f"from {parent} import {last} as {name}"


def _declaration(name: str, value: object) -> Iterator[str]:
    if isinstance(value, (Intrinsic, Composed)):
        yield from _function(name, value)
    elif isinstance(value, DType):
        python = {Kind.BOOL: "bool", Kind.FLOAT: "float"}.get(value.ir.kind, "int")
        if name != python:
            yield f"{name}: TypeAlias = {python}"
    elif isinstance(value, CompositeType):
        first = next(n for n, known in lang.COMPOSITES.items() if known == value)
        if first != name:
            yield f"{name}: TypeAlias = {first}"
        else:
            yield f"class {name}({'_Matrix' if isinstance(value.ir, Mat) else '_Vector'}): ..."
    elif isinstance(value, ArrayOf):
        yield f"class {name}(array[_T]): ..."
    elif isinstance(value, float):
        yield f"{name}: float"
    elif value is lang.ANY:
        yield f"{name}: Any"


def _function(name: str, built_in: Intrinsic | Composed) -> Iterator[str]:
    returns = built_in.entry.returns if isinstance(built_in, Composed) else ""
    result = {"float": "float", "int": "int", "bool": "bool"}.get(returns, _RESULTS.get(name, "Any"))
    of_a_float = any(row.name == name and row.elementary and row.arity == 1 for row in all_ops().values())
    yield f"def {name}({_parameters(built_in.signature, 'float' if of_a_float else 'Any')}) -> {result}:"
    lines = (built_in.__doc__ or "").splitlines()
    yield f'    """{lines[0]}'
    yield from (f"    {line}".rstrip() for line in lines[1:])
    yield '    """'
    yield ""


def _parameters(signature: str, kind: str) -> str:
    """The parameters of a signature; where it is not Python, any."""
    parts = signature.split(", ") if signature else []
    if parts and parts[-1] == "..." and all(map(str.isidentifier, parts[:-1])):
        return f"*{parts[0].rstrip('0123456789')}: {kind}"
    found = [_PARAMETER.fullmatch(part) for part in parts]
    if not all(found):
        return "*args: Any, **options: Any"
    return ", ".join(f"{m[1]}: Any = ..." if m[2] else f"{m[1]}: {kind}" for m in found if m)


def main() -> int:
    text = stub()
    if "--check" in sys.argv[1:]:
        return int(STUB.read_text(encoding="utf-8") != text)
    STUB.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
