"""What libmathdx is told of a matrix product, by a library in its place that writes down its calls."""

from __future__ import annotations

import ctypes
import re
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from itertools import product as combinations
from pathlib import Path
from typing import Any

import pytest
from conftest import require

from diffkern.errors import CompileError
from diffkern.targets.cuda import mathdx
from diffkern.targets.cuda.mathdx import ITEMSIZE, Product, generate

HALF = Product(64, 32, 16, "float16", "float16", "float32", threads=128, arch="sm_90")
CODE = b"\xedCN\x7f of a product"
OPERATORS = {
    0: "FUNCTION", 1: "SIZE", 2: "TYPE", 3: "PRECISION", 4: "SM", 5: "EXECUTION", 6: "BLOCK_DIM",
    9: "API", 10: "ARRANGEMENT", 11: "ALIGNMENT", 12: "STATIC_BLOCK_DIM",
}  # fmt: skip


class Recorder:
    """Stands in for libmathdx; the call named ``failing`` returns a status."""

    def __init__(self, failing: str = "", status: int = 0, operator: int | None = None) -> None:
        self.failing, self.status, self.operator = failing, status, operator
        self.operators: dict[str, list[int]] = {}
        self.calls: list[str] = []
        self.symbol = b""

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name.startswith("cublasdxSetOperator"):
                number, value = arguments[1], arguments[-1]
                values = list(value) if name.endswith("s") else [value.value]
                assert not name.endswith("s") or arguments[2].value == len(values)
                self.operators[OPERATORS[number]] = values
                if number == self.operator:
                    return self.status
            elif name == "cublasdxSetOptionStr":
                self.symbol = arguments[2].value
            elif name == "commondxGetCodeLTOIRSize":
                arguments[1]._obj.value = len(CODE)
            elif name == "commondxGetCodeLTOIR":
                ctypes.memmove(arguments[2], CODE, len(CODE))
            return self.status if name == self.failing else 0

        return call


def told(monkeypatch: pytest.MonkeyPatch, product: Product) -> Recorder:
    library = Recorder()
    monkeypatch.setattr(mathdx, "_needed", lambda: mathdx._Library(library, None))
    assert generate(product) == CODE
    return library


def test_everything_about_a_product_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    library = told(monkeypatch, HALF)
    assert library.operators == {
        "FUNCTION": [0],
        "SIZE": [64, 32, 16],
        "TYPE": [0],
        "PRECISION": [3, 3, 5],
        "SM": [900],
        "EXECUTION": [1],
        "API": [0],
        "BLOCK_DIM": [128, 1, 1],
        "ARRANGEMENT": [1, 1, 1],
        "ALIGNMENT": [16, 16, 16],
        "STATIC_BLOCK_DIM": [1],
    }
    assert library.symbol == HALF.symbol.encode()
    assert library.calls[-2:] == ["commondxDestroyCode", "cublasdxDestroyDescriptor"]


@pytest.mark.parametrize(("columns_a", "columns_b"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_transposed_factor_lies_by_columns(monkeypatch: pytest.MonkeyPatch, columns_a: bool, columns_b: bool) -> None:
    library = told(monkeypatch, replace(HALF, columns_a=columns_a, columns_b=columns_b))
    assert library.operators["ARRANGEMENT"] == [int(not columns_a), int(not columns_b), 1]
    assert library.operators["SIZE"] == [64, 32, 16]


@pytest.mark.parametrize(
    ("dtype", "sum_", "numbers"),
    [
        ("float16", "float32", [3, 3, 5]),
        ("bfloat16", "float32", [2, 2, 5]),
        ("tf32", "float32", [4, 4, 5]),
        ("float32", "float32", [5, 5, 5]),
        ("float64", "float64", [6, 6, 6]),
    ],
)
def test_types(monkeypatch: pytest.MonkeyPatch, dtype: str, sum_: str, numbers: list[int]) -> None:
    library = told(monkeypatch, replace(HALF, a=dtype, b=dtype, c=sum_))
    assert library.operators["PRECISION"] == numbers


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_100", "sm_120"])
def test_architectures(monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    library = told(monkeypatch, replace(HALF, arch=arch))
    assert library.operators["SM"] == [10 * int(arch[3:])]


def test_types_that_do_not_go_together_are_refused_before_the_library_is_asked() -> None:
    sums = {"float16": "float32", "bfloat16": "float32", "tf32": "float32", "float32": "float32", "float64": "float64"}
    for a, b, c in combinations(ITEMSIZE, repeat=3):
        product = replace(HALF, a=a, b=b, c=c)
        if a == b and c == sums[a]:
            product.check()
            continue
        with pytest.raises(CompileError, match=rf"{a}\*{b}->{c} .* (two types|summed in {c})") as caught:
            product.check()
        assert caught.value.remedy is not None


@pytest.mark.parametrize(
    ("failing", "operator", "status", "said", "remedy"),
    [
        ("", 1, 1, "of this size: it does not accept one of the values", "change the sizes"),
        ("", 3, 1, "of these types: it does not accept one of the values", "dtypes"),
        ("", 4, 1, "on this architecture: it does not accept", "change the sizes"),
        ("", 6, 1, "with this block: it does not accept", "block_dim"),
        ("cublasdxCreateDescriptor", None, 2, "it failed internally", "LIBMATHDX_LOG_LEVEL=1"),
        ("cublasdxFinalizeCode", None, 3, "its code did not compile", "LIBMATHDX_LOG_LEVEL=1"),
        ("commondxGetCodeLTOIR", None, 5, "could not use its temporary files", "LIBMATHDX_LOG_LEVEL=1"),
        ("commondxGetCodeLTOIR", None, 42, "status 42", "LIBMATHDX_LOG_LEVEL=1"),
    ],
)
def test_the_librarys_numbers_become_words(
    monkeypatch: pytest.MonkeyPatch, failing: str, operator: int | None, status: int, said: str, remedy: str
) -> None:
    library = Recorder(failing, status, operator)
    monkeypatch.setattr(mathdx, "_needed", lambda: mathdx._Library(library, None))
    with pytest.raises(CompileError) as caught:
        generate(HALF)
    assert str(HALF) in caught.value.message
    assert said in caught.value.message
    assert remedy in str(caught.value.remedy)
    made = [call for call in library.calls if "Create" in call and call != failing]
    assert len(made) == len([call for call in library.calls if "Destroy" in call])


def test_nothing_is_asked_for_a_product_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Recorder()
    monkeypatch.setattr(mathdx, "_needed", lambda: mathdx._Library(library, None))
    with pytest.raises(CompileError, match="multiple of 32"):
        generate(replace(HALF, threads=100))
    assert library.calls == []


def test_the_numbers_are_those_of_the_librarys_headers() -> None:
    """Its headers come with it; an enumeration that grew in the middle would ask for another product."""
    require("nvidia")
    found = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu1*/include/lib*dx.h"))
    text = "".join(path.read_text() for path in found if path.name in ("libcommondx.h", "libcublasdx.h"))
    if not text:
        pytest.skip("libmathdx is not installed")
    numbers = {name: int(value) for name, value in re.findall(r"^\s*(C\w+DX_\w+) = (\d+),", text, re.MULTILINE)}
    for number, name in OPERATORS.items():
        assert numbers[f"CUBLASDX_OPERATOR_{name}"] == number
    precisions = {"BF16": "bfloat16", "F16": "float16", "TF32": "tf32", "F32": "float32", "F64": "float64"}
    assert {t: numbers[f"COMMONDX_PRECISION_{name}"] for name, t in precisions.items()} == mathdx._PRECISION
    assert numbers["COMMONDX_EXECUTION_BLOCK"] == mathdx._BLOCK
    assert numbers["CUBLASDX_API_SMEM"] == mathdx._SHARED_MEMORY
    assert numbers["CUBLASDX_TYPE_REAL"] == mathdx._REAL
    assert numbers["CUBLASDX_FUNCTION_MM"] == mathdx._MATRIX_PRODUCT
    assert (numbers["CUBLASDX_ARRANGEMENT_ROW_MAJOR"], numbers["CUBLASDX_ARRANGEMENT_COL_MAJOR"]) == (1, 0)
    assert numbers["COMMONDX_OPTION_SYMBOL_NAME"] == mathdx._OPTION_SYMBOL
    assert numbers["COMMONDX_OPTION_TARGET_SM"] == mathdx._OPTION_SM
    assert numbers["COMMONDX_INVALID_VALUE"] == 1
    assert numbers["COMMONDX_COMPILATION_ERROR"] == 3
