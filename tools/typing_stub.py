"""Write the stubs of the three APIs: every public name once, with its type, for type checkers and completion.

Most names of the kernel language come from tables, which type checkers cannot read, and those of ``diffkern.warp`` are
imported when they are asked for. ``python tools/typing_stub.py`` writes ``diffkern/__init__.pyi``,
``diffkern/warp/__init__.pyi`` and ``diffkern/cuda/__init__.pyi``; with ``--check`` it fails if one is stale, as a test
does too.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import diffkern
import diffkern.warp as wp
from diffkern import cuda, lang
from diffkern.cuda.types import TYPES
from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import Kind, Mat
from diffkern.lang.annotations import ArrayOf
from diffkern.lang.dtypes import CompositeType, DType
from diffkern.lang.intrinsics import INTRINSICS, Intrinsic
from diffkern.lang.library import Composed
from diffkern.lang.numba_cuda import LANGUAGE

PACKAGE = Path(__file__).parents[1] / "diffkern"
STUB = PACKAGE / "__init__.pyi"
WARP_STUB, CUDA_STUB = PACKAGE / "warp" / "__init__.pyi", PACKAGE / "cuda" / "__init__.pyi"

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

_NEEDED = {"transformation": 1, "texture_sample": 2}
"""How many arguments a built-in needs that is called in several ways under one signature."""

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
    returns = _returned(built_in)
    result = {"float": "float", "int": "int", "bool": "bool"}.get(returns, _RESULTS.get(name, "Any"))
    of_a_float = any(row.name == name and row.elementary and row.arity == 1 for row in all_ops().values())
    yield f"def {name}({_of_all(built_in, 'float' if of_a_float else 'Any')}) -> {result}:"
    lines = (built_in.__doc__ or "").splitlines()
    yield f'    """{lines[0]}'
    yield from (f"    {line}".rstrip() for line in lines[1:])
    yield '    """'
    yield ""


def _returned(built_in: Intrinsic | Composed) -> str:
    """What every overload of a built-in returns, or nothing where they differ."""
    if not isinstance(built_in, Composed):
        return ""
    kinds = {overload.returns() for overload in built_in.overloads}
    return kinds.pop() if len(kinds) == 1 else ""


def _of_all(built_in: Intrinsic | Composed, kind: str) -> str:
    """The parameters of all overloads together: those of the longest, of which some may leave out the last."""
    shown = built_in.signatures
    known = [[_PARAMETER.fullmatch(part) for part in text.split(", ")] if text else [] for text in shown]
    needed = _NEEDED.get(built_in.name)
    if len(shown) == 1 and needed is None:
        return _parameters(shown[0], kind)
    if not all(all(found) for found in known):
        return "*args: Any, **options: Any"
    longest = max(known, key=len)
    fewest = needed or min(sum(m[2] is None for m in found if m) for found in known)
    return _joined(longest, fewest)


def _joined(parameters: Iterable[re.Match[str] | None], needed: int) -> str:
    """Parameters of which the first are needed."""
    return ", ".join(f"{m[1]}: Any" if k < needed else f"{m[1]}: Any = ..." for k, m in enumerate(parameters) if m)


def _parameters(signature: str, kind: str) -> str:
    """The parameters of a signature; where it is not Python, any."""
    parts = signature.split(", ") if signature else []
    if parts and parts[-1] == "..." and all(map(str.isidentifier, parts[:-1])):
        return f"*{parts[0].rstrip('0123456789')}: {kind}"
    found = [_PARAMETER.fullmatch(part) for part in parts]
    if not all(found):
        return "*args: Any, **options: Any"
    return ", ".join(f"{m[1]}: Any = ..." if m[2] else f"{m[1]}: {kind}" for m in found if m)


# -- the two other APIs ------------------------------------------------------------------------------------------------

_OF_WARP = '''\
"""The names of diffkern.warp, with their types. Written by tools/typing_stub.py."""

from collections.abc import Callable, Sequence
from typing import Any, Generic
from typing import overload as _overload

from diffkern.kernels.kernel import Kernel as _Kernel
from diffkern.runtime.arrays.array import array as _array
from typing_extensions import TypeVar, dataclass_transform

_T = TypeVar("_T")
_E = TypeVar("_E", default=Any)
_A = TypeVar("_A", default=Any)

@_overload
def kernel(f: Callable[..., Any]) -> _Kernel: ...
@_overload
def kernel(f: None = None, **options: Any) -> Callable[[Callable[..., Any]], _Kernel]: ...

@_overload
@dataclass_transform()
def struct(c: type[_T]) -> type[_T]: ...
@_overload
@dataclass_transform()
def struct(c: None = None, *, module: Any = ...) -> Callable[[type[_T]], type[_T]]: ...

class array(_array[_E, _A]):
    def __init__(
        self, data: Any = ..., dtype: Any = ..., shape: int | Sequence[int] | None = ..., strides: Any = ...,
        ptr: int | None = ..., capacity: int | None = ..., device: Any = ..., pinned: bool = ..., copy: bool = ...,
        deleter: Any = ..., ndim: int | None = ..., grad: Any = ..., requires_grad: bool = ..., **options: Any,
    ) -> None: ...

class array1d(array[_E]): ...
class array2d(array[_E]): ...
class array3d(array[_E]): ...
class array4d(array[_E]): ...

class ref(Generic[_E]):
    """A parameter of a func that the func changes; in the func it is a variable of that type."""

    def __getattr__(self, name: str) -> Any: ...

__version__: str
'''
_WRITTEN = ("kernel", "struct", "array", "array1d", "array2d", "array3d", "array4d", "ref")


def warp_stub() -> str:
    """The text of the stub of ``diffkern.warp``."""
    lines = []
    for name in sorted(wp.__all__):
        module, inside = wp._PLACES.get(name, ("diffkern", name))
        if name not in _WRITTEN and name not in wp._SUBMODULES and not name.startswith("_"):
            lines.append(f"from {module} import {inside} as {name}")
    lines += [f"from diffkern.warp import {name} as {name}" for name in sorted(wp._SUBMODULES - {"_src"})]
    exported = "".join(f'    "{name}",\n' for name in sorted(wp.__all__) if not name.startswith("_"))
    return f"{_OF_WARP}{chr(10).join(lines)}\n\n__all__ = [\n{exported}]\n"


_OF_CUDA = '''\
"""The names of diffkern.cuda, with their types. Written by tools/typing_stub.py."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from typing_extensions import TypeAlias

import diffkern
from diffkern.cuda.jit import CudaKernel as CudaKernel, Launcher as Launcher

_F = TypeVar("_F", bound=Callable[..., Any])

@overload
def jit(func_or_sig: Callable[..., Any]) -> CudaKernel: ...
@overload
def jit(func_or_sig: Any = None, *, device: Literal[True], **options: Any) -> Callable[[_F], _F]: ...
@overload
def jit(
    func_or_sig: Any = None, device: Literal[False] = False, **options: Any
) -> Callable[[Callable[..., Any]], CudaKernel]: ...

'''


def cuda_stub() -> str:
    """The text of the stub of ``diffkern.cuda``."""
    lines = [f"from diffkern.cuda.host import {name} as {name}" for name in sorted(cuda.host.__all__)]
    for name, value in LANGUAGE.items():
        lines += _of_numba(name, value)
    for name, value in TYPES.items():
        if not hasattr(builtins, name):
            plain = "bool" if value is bool else getattr(value, "__name__", repr(value))
            inside = next((n for n, known in lang.COMPOSITES.items() if known == value), plain)
            lines.append(f"{name}: TypeAlias = {plain if plain == 'bool' else f'diffkern.{inside}'}")
    exported = "".join(f'    "{name}",\n' for name in sorted(cuda.__all__))
    return f"{_OF_CUDA}{chr(10).join(lines)}\n\n__all__ = [\n{exported}]\n"


def _of_numba(name: str, value: Any) -> Iterator[str]:
    """The declaration of a name of ``numba.cuda`` that kernels use."""
    if isinstance(value, Intrinsic):
        yield f"def {name}({_parameters(value.signature, 'Any')}) -> Any: ..."
    elif isinstance(value, type):
        yield f"class {name}:"
        for inside in sorted(n for n in vars(value) if not n.startswith("_")):
            member = getattr(value, inside)
            if isinstance(member, Intrinsic):
                yield f"    @staticmethod\n    def {inside}({_parameters(member.signature, 'Any')}) -> Any: ..."
            else:
                yield f"    {inside}: int"
    else:
        yield f"{name}: int"


def main() -> int:
    texts = {STUB: stub(), WARP_STUB: warp_stub(), CUDA_STUB: cuda_stub()}
    if "--check" in sys.argv[1:]:
        return int(any(not path.exists() or path.read_text(encoding="utf-8") != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
