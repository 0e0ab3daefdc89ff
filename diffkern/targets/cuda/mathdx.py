"""Matrix products of blocks of threads as LTO code, made by NVIDIA's libmathdx (cuBLASDx).

A :class:`Product` has sizes, dtypes, the layout of each operand, threads of a block, and architecture. :func:`generate`
gives LTO code that defines :attr:`Product.symbol`, ``void f(C* alpha, A* a, B* b, C* beta, C* c)`` with ``c = alpha * a
@ b + beta * c`` on shared memory, for nvJitLink to inline into a kernel. The library is called by ctypes; it needs
neither a driver nor a GPU.

A transposed operand is one that is stored column by column, so no product needs a copy. The alignment of the operands
and the size of the block are part of the product: cuBLASDx makes better code for both when it knows them.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any, Final

from diffkern.analysis.tile_products import TileProduct
from diffkern.errors import CompileError
from diffkern.process import wheels
from diffkern.process.dataclass import dataclass

__all__ = [
    "ITEMSIZE",
    "LOG_LEVEL",
    "SHARED_LIMIT",
    "Product",
    "available",
    "explain",
    "generate",
    "nvrtc_version",
    "version",
]

ITEMSIZE: Final = {"float16": 2, "bfloat16": 2, "tf32": 4, "float32": 4, "float64": 8}
SHARED_LIMIT: Final = {
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    89: 99,
    90: 227,
    100: 227,
    103: 227,
    110: 227,
    120: 99,
    121: 99,
}
"""KiB of shared memory that a block may have, by architecture."""

_INSTALL = 'run: pip install "diffkern[tiles]"; without it products of tiles are loops'
_PRECISION: Final = {"bfloat16": 2, "float16": 3, "tf32": 4, "float32": 5, "float64": 6}
_CHANGE = "change the sizes of the tiles, their dtypes or block_dim, or take loops: enable_mathdx_gemm=False"
_NVRTC = "DIFFKERN_NVRTC"
LOG_LEVEL: Final = "LIBMATHDX_LOG_LEVEL"
_TOO_NEW: Final = (13, 5)
_OTHER_NVRTC = f"install nvidia-cuda-nvrtc before 13.5, or name such a libnvrtc.so in the environment variable {_NVRTC}"
_COMPILER_ERROR = re.compile(r"^(?!\[).*\berror\b.*: ")
_LIBRARY_ERROR = re.compile(r"\[Error\]\[\w+\](.*)")
_STATUS: Final = {
    1: "it does not accept one of the values",
    2: "it failed internally",
    3: "its code did not compile",
    4: "a library it depends on failed",
    5: "it could not use its temporary files",
}
_FUNCTION, _SIZE, _TYPE, _PRECISIONS, _SM, _EXECUTION, _BLOCK_DIM = range(7)
_API, _ARRANGEMENT, _ALIGNMENT, _STATIC_BLOCK_DIM = 9, 10, 11, 12
_OPTION_SYMBOL, _OPTION_SM = 0, 1
_BLOCK, _SHARED_MEMORY, _REAL, _MATRIX_PRODUCT = 1, 0, 0, 0
_ALIGN = 16


@dataclass(frozen=True, slots=True)
class Product(TileProduct):
    """A product of tiles as the library makes code for it; its types are keys of :data:`ITEMSIZE`.

    Attributes
    ----------
    threads
        Threads of the block.
    arch
        The architecture, as in ``sm_90``.
    """

    _: KW_ONLY
    threads: int
    arch: str

    def __str__(self) -> str:
        layout = "".join("t" if columns else "n" for columns in (self.columns_a, self.columns_b))
        return f"{self.m}x{self.n}x{self.k} {self.a}*{self.b}->{self.c} ({layout}), {self.threads} threads, {self.arch}"

    @property
    def fields(self) -> list[tuple[str, bytes]]:
        """The labelled fields that distinguish it from other products, for a key."""
        names = ("m", "n", "k", "a", "b", "c", "threads", "arch", "columns_a", "columns_b")
        return [(name, str(getattr(self, name)).encode()) for name in names]

    @property
    def symbol(self) -> str:
        """The name of the function: the same for the same product in any process."""
        text = "\0".join(f"{label}={value.decode()}" for label, value in self.fields)
        return f"dk_mm_{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    @property
    def shared_bytes(self) -> int:
        """The shared memory of the three operands in bytes."""
        # Each operand is padded to the alignment that the library is told.
        sizes = ((self.m * self.k, self.a), (self.k * self.n, self.b), (self.m * self.n, self.c))
        return sum(-(-count * ITEMSIZE[dtype] // _ALIGN) * _ALIGN for count, dtype in sizes)

    def check(self) -> None:
        """Check what the library would refuse with a status number only, or after minutes.

        Raises
        ------
        CompileError
            With the problem and a remedy.
        """
        # The library reports a status only, or compiles for minutes first; these conditions are known beforehand.
        number = _number(self.arch)
        if min(self.m, self.n, self.k) < 1:
            raise CompileError(f"the matrix product {self} is empty")
        unknown = [t for t in (self.a, self.b, self.c) if t not in ITEMSIZE]
        if unknown:
            known = ", ".join(ITEMSIZE)
            raise CompileError(f"the matrix product {self} has no type {unknown[0]!r}", remedy=f"take one of {known}")
        if self.threads % 32 or not 32 <= self.threads <= 1024:
            raise CompileError(
                f"the matrix product {self} is for whole warps of threads",
                remedy="launch with a block_dim that is a multiple of 32, up to 1024",
            )
        if number < 80 and {"bfloat16", "tf32"} & {self.a, self.b, self.c}:
            raise CompileError(f"the matrix product {self} needs sm_80", remedy="use float16 or float32")
        if self.a != self.b:
            raise CompileError(f"the matrix product {self} has factors of two types", remedy="convert one of them")
        sum_ = "float64" if self.a == "float64" else "float32"
        if self.c != sum_:
            raise CompileError(f"the matrix product {self} is summed in {self.c}", remedy=f"sum in {sum_}")
        limit = SHARED_LIMIT[number] * 1024
        if self.shared_bytes > limit:
            raise CompileError(
                f"the matrix product {self} needs {self.shared_bytes} bytes of shared memory for its operands, and a "
                f"block of {self.arch} has {limit}",
                remedy="use smaller tiles, and a loop over the inner size",
            )


def _number(arch: str) -> int:
    text = arch.removeprefix("sm_").rstrip("af")
    if not text.isdigit() or int(text) not in SHARED_LIMIT:
        raise CompileError(
            f"there are no matrix products for {arch!r}",
            remedy=f"take one of sm_{', sm_'.join(map(str, SHARED_LIMIT))}",
        )
    return int(text)


class _Library:
    """The functions of libmathdx, with their statuses checked."""

    def __init__(self, handle: Any, compiler: Any) -> None:
        self.handle, self.compiler = handle, compiler

    def call(self, name: str, *arguments: Any, what: str) -> None:
        function: Callable[..., int] = getattr(self.handle, name)
        status = function(*arguments)
        if status:
            reason = _STATUS.get(status, f"status {status}")
            raise CompileError(f"libmathdx refuses {what}: {reason} (in {name})", remedy=_remedy(status))

    def number(self, descriptor: Any, operator: int, value: int, what: str) -> None:
        self.call("cublasdxSetOperatorInt64", descriptor, operator, ctypes.c_longlong(value), what=what)

    def numbers(self, descriptor: Any, operator: int, values: Sequence[int], what: str) -> None:
        array = (ctypes.c_longlong * len(values))(*values)
        count = ctypes.c_size_t(len(values))
        self.call("cublasdxSetOperatorInt64s", descriptor, operator, count, array, what=what)


def _remedy(status: int) -> str:
    if status == 1:
        return _CHANGE
    return f"set the environment variable {LOG_LEVEL}=1 to see what the library says"


def explain(error: CompileError, log: str, nvrtc: tuple[int, int] | None) -> CompileError:
    """Return the error with the messages of the library as it failed, and with a remedy for them.

    Parameters
    ----------
    error
        The error that :func:`generate` raised.
    log
        The library's messages, of level 1 or more.
    nvrtc
        The version of the compiler it used.
    """
    line = next((line for line in log.splitlines() if _COMPILER_ERROR.search(line)), None)
    if line is None:
        found = _LIBRARY_ERROR.search(log)
        return CompileError(f"{error.message}: {found[1].strip()}", remedy=error.remedy) if found else error
    message, remedy = f"{error.message}: {line.strip()}", _CHANGE
    if nvrtc is not None:
        message += f" (NVRTC {nvrtc[0]}.{nvrtc[1]})"
    if "cannot open source file" in line:
        remedy = f"the headers of libmathdx do not fit this NVRTC: {_OTHER_NVRTC}"
        if nvrtc is not None and nvrtc >= _TOO_NEW:
            remedy = f"libmathdx 0.4 does not compile with NVRTC 13.5: {_OTHER_NVRTC}"
    return CompileError(message, remedy=remedy)


@functools.cache
def _needed() -> _Library:
    """Return the library with the compiler that it uses.

    Raises
    ------
    CompileError
        If one of them is not installed or cannot be loaded.
    """
    try:
        # It looks for these two among the libraries that are loaded.
        compiler, _ = _compiler(), _loaded("libnvJitLink.so.*", "nvJitLink")
        library = wheels.load("libmathdx.so.*")
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: of the search in cuda.pathfinder
        raise CompileError(f"libmathdx cannot be used: {error}", remedy=_INSTALL) from error
    if library is None:
        raise CompileError("libmathdx is not installed", remedy=_INSTALL)
    return _Library(library, compiler)


def _compiler() -> ctypes.CDLL:
    """Return NVRTC: the one that the environment names, or the installed one."""
    chosen = os.environ.get(_NVRTC)
    if not chosen:
        return _loaded("libnvrtc.so.*", "nvrtc")
    # The built-ins of the chosen NVRTC have to be loaded first, or it would find those of another version.
    for part in sorted(Path(chosen).parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(part), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(chosen, mode=ctypes.RTLD_GLOBAL)


def _loaded(file: str, name: str) -> ctypes.CDLL:
    """Return a library that comes in a wheel or with a toolkit."""
    found = wheels.load(file)
    if found is None:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        found = ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    return found


def available() -> bool:
    """Return whether libmathdx is installed."""
    try:
        _needed()
    except CompileError:
        return False
    return True


@functools.cache
def version() -> str:
    """Return the version of libmathdx."""
    parts = [ctypes.c_int() for _ in range(3)]
    _needed().call("mathdxGetVersionEx", *map(ctypes.byref, parts), what="to tell its version")
    return ".".join(str(part.value) for part in parts)


def nvrtc_version() -> tuple[int, int] | None:
    """Return the version of the compiler that libmathdx uses; None if there is none."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    if not available() or _needed().compiler.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)):
        return None
    return major.value, minor.value


def generate(product: Product) -> bytes:
    """Return the LTO code of a product. Takes from seconds to a minute.

    Raises
    ------
    CompileError
        If libmathdx is not installed or refuses the product.
    """
    product.check()
    library, what = _needed(), f"the matrix product {product}"
    descriptor, code = ctypes.c_longlong(), ctypes.c_longlong()
    library.call("cublasdxCreateDescriptor", ctypes.byref(descriptor), what=what)
    try:
        _describe(library, descriptor, product, what)
        library.call("commondxCreateCode", ctypes.byref(code), what=what)
        try:
            sm = ctypes.c_longlong(10 * _number(product.arch))
            library.call("commondxSetCodeOptionInt64", code, _OPTION_SM, sm, what=what)
            library.call("cublasdxFinalizeCode", code, descriptor, what=what)
            size = ctypes.c_size_t()
            library.call("commondxGetCodeLTOIRSize", code, ctypes.byref(size), what=what)
            out = (ctypes.c_char * size.value)()
            library.call("commondxGetCodeLTOIR", code, size, out, what=what)
            return bytes(out)
        # Handles of the library are released even if a step fails, as one process makes many products.
        finally:
            library.call("commondxDestroyCode", code, what=what)
    finally:
        library.call("cublasdxDestroyDescriptor", descriptor, what=what)


def _describe(library: _Library, descriptor: Any, product: Product, what: str) -> None:
    p = product
    library.number(descriptor, _FUNCTION, _MATRIX_PRODUCT, what)
    library.numbers(descriptor, _SIZE, (p.m, p.n, p.k), f"{what} of this size")
    library.number(descriptor, _TYPE, _REAL, what)
    library.numbers(descriptor, _PRECISIONS, [_PRECISION[t] for t in (p.a, p.b, p.c)], f"{what} of these types")
    library.number(descriptor, _SM, 10 * _number(p.arch), f"{what} on this architecture")
    library.number(descriptor, _EXECUTION, _BLOCK, what)
    library.number(descriptor, _API, _SHARED_MEMORY, what)
    library.numbers(descriptor, _BLOCK_DIM, (p.threads, 1, 1), f"{what} with this block")
    # The arrangement is 1 for row-major operands and 0 for column-major ones.
    library.numbers(descriptor, _ARRANGEMENT, (int(not p.columns_a), int(not p.columns_b), 1), what)
    library.numbers(descriptor, _ALIGNMENT, (_ALIGN, _ALIGN, _ALIGN), what)
    library.number(descriptor, _STATIC_BLOCK_DIM, 1, what)
    name = p.symbol.encode()
    library.call("cublasdxSetOptionStr", descriptor, _OPTION_SYMBOL, ctypes.c_char_p(name), what=what)
