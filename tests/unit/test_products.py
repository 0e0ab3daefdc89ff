"""LTO code of matrix products: what is refused, keys, the cache, parallel making."""

from __future__ import annotations

import dataclasses
import sys
import threading
from pathlib import Path

import pytest

from diffkern.backends.cuda import mathdx
from diffkern.backends.cuda.mathdx import Product
from diffkern.cache.maintenance import artifacts
from diffkern.cache.store import Store
from diffkern.errors import CompileError
from diffkern.products import Products, generated, obtain, product_key
from diffkern.runtime.config import config

HALF = Product(64, 64, 32, "float16", "float16", "float32", 128, "sm_90")
FAKE = "import sys, json; sys.stdout.buffer.write(b'code of ' + sys.argv[1].encode())"


def fake(product: Product) -> list[str]:
    return [sys.executable, "-S", "-c", FAKE, product.symbol]


def failing(product: Product) -> list[str]:
    code = (
        "import sys, json; print(json.dumps({'message': 'too odd', 'remedy': 'be even'}), file=sys.stderr); sys.exit(1)"
    )
    return [sys.executable, "-S", "-c", code]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"m": 0}, "is empty"),
        ({"a": "int8"}, "no type 'int8'"),
        ({"threads": 48}, "multiple of 32"),
        ({"threads": 2048}, "multiple of 32"),
        ({"a": "bfloat16", "arch": "sm_75"}, "needs sm_80"),
        ({"c": "tf32"}, "summed in tf32"),
        ({"arch": "sm_60"}, "no matrix products for 'sm_60'"),
        ({"m": 512, "n": 512}, "bytes of shared memory"),
    ],
)
def test_what_the_library_would_refuse_is_refused_in_words(change: dict[str, object], said: str) -> None:
    with pytest.raises(CompileError, match=said):
        dataclasses.replace(HALF, **change).check()


def test_symbols_and_keys_tell_products_apart() -> None:
    others = [
        dataclasses.replace(HALF, **change)
        for change in (
            {"m": 32}, {"n": 32}, {"k": 64}, {"a": "bfloat16"}, {"b": "bfloat16"}, {"c": "float16"}, {"threads": 64},
            {"arch": "sm_80"}, {"columns_a": True}, {"columns_b": True},
        )
    ]  # fmt: skip
    every = [HALF, *others]
    assert len({p.symbol for p in every}) == len({product_key(p) for p in every}) == len(every)
    assert HALF.symbol == Product(64, 64, 32, "float16", "float16", "float32", 128, "sm_90").symbol


def test_shared_bytes_are_aligned_sums() -> None:
    assert HALF.shared_bytes == 2 * 64 * 32 + 2 * 32 * 64 + 4 * 64 * 64
    assert Product(3, 3, 3, "float16", "float16", "float32", 32, "sm_90").shared_bytes == 32 + 32 + 48


def test_code_is_made_once_and_kept(tmp_path: Path) -> None:
    second = dataclasses.replace(HALF, columns_a=True)
    found = obtain([HALF, second, HALF], store=Store(tmp_path), command=fake)
    assert found.made == (HALF, second)
    assert found.code[HALF] == b"code of " + HALF.symbol.encode()
    assert found.symbols == (HALF.symbol, second.symbol)
    again = obtain([second], store=Store(tmp_path), command=failing)
    assert again.made == ()
    assert again.code == {second: found.code[second]}


def test_products_stand_in_the_cache_beside_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "_cache_dir", tmp_path)
    before = generated()
    obtain([HALF], command=fake)
    obtain([HALF], command=failing)
    assert generated() == before + 1
    (found,) = artifacts(tmp_path)
    assert found.title == f"matrix product {HALF}"
    assert found.target == "sm_90"
    assert found.ingredients["threads"] == "128"


def test_of_two_that_want_the_same_product_one_makes_it(tmp_path: Path) -> None:
    calls: list[Product] = []

    def slow(product: Product) -> list[str]:
        calls.append(product)
        return [sys.executable, "-S", "-c", f"import time; time.sleep(0.5); {FAKE}", product.symbol]

    second = dataclasses.replace(HALF, columns_a=True)
    found: list[Products] = []
    orders = ([HALF, second], [second, HALF])
    workers = [
        threading.Thread(target=lambda p=p: found.append(obtain(p, store=Store(tmp_path), command=slow)))
        for p in orders
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(calls) == 2
    assert found[0].code == found[1].code


def test_a_failure_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    second = dataclasses.replace(HALF, columns_a=True)

    def command(product: Product) -> list[str]:
        return failing(product) if product == HALF else fake(product)

    with pytest.raises(CompileError, match="too odd") as caught:
        obtain([HALF, second], store=Store(tmp_path), command=command, processes=1)
    assert caught.value.remedy == "be even"
    assert obtain([second], store=Store(tmp_path), command=failing).made == ()


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="ended without code"):
        obtain([HALF], store=Store(tmp_path), command=lambda p: [sys.executable, "-S", "-c", "raise SystemExit(3)"])


def test_progress_is_shown_after_a_second(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def slow(product: Product) -> list[str]:
        return [sys.executable, "-S", "-c", f"import time; time.sleep(1.2); {FAKE}", product.symbol]

    obtain([HALF], store=Store(tmp_path), command=slow, progress=True)
    assert "matrix products [" in capfd.readouterr().err
    obtain([HALF], store=Store(tmp_path), command=slow, progress=True)
    assert capfd.readouterr().err == ""


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathdx, "_library", lambda: None)
    assert not mathdx.available()
    with pytest.raises(CompileError) as caught:
        mathdx.generate(HALF)
    assert "diffkern[tiles]" in str(caught.value)
