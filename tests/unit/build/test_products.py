"""LTO code of matrix products: what is refused, keys, the cache, parallel making."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import products_made, require

import diffkern as dk
from diffkern.cache.maintenance import artifacts
from diffkern.cache.store import Store
from diffkern.compiler.products import Products, generated, obtain, product_key
from diffkern.errors import CompileError
from diffkern.process import wheels
from diffkern.runtime.observe.config import config
from diffkern.shipping.ahead import BuildTask, make, specializations
from diffkern.targets.cuda import mathdx
from diffkern.targets.cuda.mathdx import Product

HALF = Product(64, 64, 32, "float16", "float16", "float32", threads=128, arch="sm_90")
SECOND = dataclasses.replace(HALF, columns_a=True)
FAKE = "import sys, json; sys.stdout.buffer.write(b'code of ' + sys.argv[1].encode())"


def fake(product: Product) -> list[str]:
    return [sys.executable, "-S", "-c", FAKE, product.symbol]


def saying(log: str, message: str = "too odd", nvrtc: list[int] | None = None) -> Callable[[Product], list[str]]:
    """A process that logs something and fails as the one that calls libmathdx does."""
    last = json.dumps({"message": message, "remedy": "be even", "nvrtc": nvrtc})
    code = f"import sys; sys.stderr.write({log + last!r}); sys.exit(1)"
    return lambda product: [sys.executable, "-S", "-c", code]


failing = saying("")


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
    assert HALF.symbol == Product(64, 64, 32, "float16", "float16", "float32", threads=128, arch="sm_90").symbol


def test_shared_bytes_are_aligned_sums() -> None:
    assert HALF.shared_bytes == 2 * 64 * 32 + 2 * 32 * 64 + 4 * 64 * 64
    assert Product(3, 3, 3, "float16", "float16", "float32", threads=32, arch="sm_90").shared_bytes == 32 + 32 + 48


def test_code_is_made_once_and_kept(tmp_path: Path) -> None:
    found = obtain([HALF, SECOND, HALF], store=Store(tmp_path), command=fake)
    assert found.made == (HALF, SECOND)
    assert found.code[HALF] == b"code of " + HALF.symbol.encode()
    assert found.symbols == (HALF.symbol, SECOND.symbol)
    again = obtain([SECOND], store=Store(tmp_path), command=failing)
    assert again.made == ()
    assert again.code == {SECOND: found.code[SECOND]}


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX permissions")
def test_code_that_others_can_write_to_is_made_again(tmp_path: Path) -> None:
    obtain([HALF], store=Store(tmp_path), command=fake)
    (code,) = tmp_path.rglob("kernel.ltoir")
    code.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="others can write"):
        assert obtain([HALF], store=Store(tmp_path), command=fake).made == (HALF,)
    assert obtain([HALF], store=Store(tmp_path), command=failing).made == ()


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


def test_the_products_of_a_test_run_are_counted(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes([0xED, 0x43, 0x4E, 0x7F]) + b' and more')"
    assert products_made(tmp_path) == []
    obtain([HALF], store=Store(tmp_path), command=lambda p: [sys.executable, "-S", "-c", code])
    obtain([SECOND], store=Store(tmp_path), command=fake)
    assert products_made(tmp_path) == [f"matrix product {HALF}"]


def test_of_two_that_want_the_same_product_one_makes_it(tmp_path: Path) -> None:
    calls: list[Product] = []

    def slow(product: Product) -> list[str]:
        calls.append(product)
        return [sys.executable, "-S", "-c", f"import time; time.sleep(0.5); {FAKE}", product.symbol]

    found: list[Products] = []
    orders = ([HALF, SECOND], [SECOND, HALF])
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


@pytest.mark.parametrize(("processes", "count", "together"), [(2, 3, 3), (2, 4, 2), (1, 3, 1), (4, 2, 2)])
def test_the_last_products_share_the_processors(tmp_path: Path, processes: int, count: int, together: int) -> None:
    """Two at a time would leave one processor idle while the third is made."""
    waits = (
        "import os, sys, time\n"
        "folder, wanted = sys.argv[2], int(sys.argv[3])\n"
        "os.mkdir(os.path.join(folder, sys.argv[1]))\n"
        "end = time.monotonic() + 30\n"
        "while len(os.listdir(folder)) < wanted and time.monotonic() < end: time.sleep(0.01)\n"
        "seen = len(os.listdir(folder))\n"
        "sys.stdout.write(str(seen))"
    )
    started = tmp_path / "started"
    started.mkdir()
    products = [dataclasses.replace(HALF, k=16 * (n + 1)) for n in range(count)]
    found = obtain(
        products,
        store=Store(tmp_path / "cache"),
        processes=processes,
        command=lambda p: [sys.executable, "-S", "-c", waits, p.symbol, str(started), str(together)],
    )
    # The first one has seen all that were begun with it, and no more.
    assert min(int(code) for code in found.code.values()) == together


def test_a_failure_is_told_and_the_others_are_kept(tmp_path: Path) -> None:

    def command(product: Product) -> list[str]:
        return failing(product) if product == HALF else fake(product)

    with pytest.raises(CompileError, match="too odd") as caught:
        obtain([HALF, SECOND], store=Store(tmp_path), command=command, processes=1)
    assert caught.value.remedy == "be even"
    assert obtain([SECOND], store=Store(tmp_path), command=failing).made == ()


HEADER = 'cute/array.hpp(452): catastrophic error: cannot open source file "cccl/structured_bindings.h"'
ASSERTION = 'libmathdx.cuh(12): error: static assertion failed with "the size of the block does not fit"'


@pytest.mark.parametrize(
    ("log", "nvrtc", "said", "remedy"),
    [
        (HEADER, [13, 5], "cannot open source file", "does not compile with NVRTC 13.5: install nvidia-cuda-nvrtc bef"),
        (HEADER, [13, 2], "cannot open source file", "the headers of libmathdx do not fit this NVRTC: install nvid"),
        (ASSERTION, [13, 5], r"the size of the block does not fit.* \(NVRTC 13.5\)", "change the sizes of the tiles"),
        ("", [13, 5], "^too odd$", "^be even$"),
        ("", None, "^too odd$", "^be even$"),
    ],
)
def test_the_compilers_own_words_are_told(
    tmp_path: Path, log: str, nvrtc: list[int] | None, said: str, remedy: str
) -> None:
    """The version is blamed where it is the cause, and not because it is there."""
    failed = "[2026-11-21 16:30:52][libmathdx][9244][Error][cublasdxFinalizeCode] NVRTC failed.\n"
    before = f"{failed}warning #20012-D: nothing\n{log}\n1 error detected in the compilation.\n" if log else ""
    with pytest.raises(CompileError) as caught:
        obtain([HALF], store=Store(tmp_path), command=saying(before, nvrtc=nvrtc))
    assert re.search(said, caught.value.message)
    assert re.search(remedy, str(caught.value.remedy))


def test_what_the_library_logs_without_a_compiler_is_told(tmp_path: Path) -> None:
    log = "[2026-11-21 16:30:52][libmathdx][9244][Error][cublasdxCreateDescriptor] no room\n"
    with pytest.raises(CompileError, match="too odd: no room"):
        obtain([HALF], store=Store(tmp_path), command=saying(log, nvrtc=[13, 4]))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("raise SystemExit(3)", "ended with status 3, without code"),
        ("raise SystemExit(0)", "ended with status 0, without code"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by signal 9, without code"),
        ("raise OSError('no disk')", "(?s)ended with status 1, without code: .*no disk"),
    ],
)
def test_a_process_that_dies_is_told(tmp_path: Path, end: str, said: str) -> None:
    with pytest.raises(CompileError, match=said) as caught:
        obtain([HALF], store=Store(tmp_path), command=lambda p: [sys.executable, "-S", "-c", end])
    assert str(HALF) in caught.value.message


def test_a_process_ends_with_the_one_that_wanted_the_code() -> None:
    code = (
        "import json, sys, time, diffkern.targets.cuda.mathdx_child as child\n"
        "child.generate = lambda product: time.sleep(100)\n"
        "child.main(sys.argv[1])"
    )
    argument = json.dumps(dataclasses.asdict(HALF))
    with subprocess.Popen([sys.executable, "-c", code, argument], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 1


def test_progress_is_shown_after_a_second(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def slow(product: Product) -> list[str]:
        return [sys.executable, "-S", "-c", f"import time; time.sleep(1.2); {FAKE}", product.symbol]

    obtain([HALF], store=Store(tmp_path), command=slow, progress=True)
    assert re.search(r"matrix products:.*0/1.*\r.*1/1", capfd.readouterr().err)
    obtain([HALF], store=Store(tmp_path), command=slow, progress=True)
    assert capfd.readouterr().err == ""


def test_a_bar_takes_no_thread_and_can_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    threads = threading.active_count()
    obtain([HALF], store=Store(tmp_path), command=fake, progress=True)
    assert threading.active_count() == threads
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert obtain([SECOND], store=Store(tmp_path), command=fake, progress=True).made == (SECOND,)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load = wheels.load
    monkeypatch.setattr(wheels, "load", lambda name: None if "mathdx" in name else load(name))
    monkeypatch.setattr(mathdx, "_needed", mathdx._needed.__wrapped__)
    assert not mathdx.available()
    with pytest.raises(CompileError) as caught:
        mathdx.generate(HALF)
    assert "diffkern[tiles]" in str(caught.value)


def test_a_build_makes_the_products_of_all_programs_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require("cuda.bindings.nvjitlink", "nvidia")
    half = dk.array2d(dtype=dk.float16)

    @dk.kernel(enable_mathdx_gemm=True, block_dim=32)
    def gemm(a, b, c):
        x, y = dk.tile_load(a, shape=(16, 16)), dk.tile_load(b, shape=(16, 16))
        dk.tile_store(c, dk.tile_matmul(x, y))

    asked: list[Product] = []
    monkeypatch.setattr("diffkern.compiler.products.obtain", lambda wanted, **options: asked.extend(wanted))
    programs = [s.for_block(32, True) for s in specializations(gemm, [half] * 3, True, None)]
    make([BuildTask(s, s.fields(), "sm_90", Store(tmp_path)) for s in programs], 1, False)
    product = Product(16, 16, 16, "float16", "float16", "float32", threads=32, arch="sm_90")
    turned = [dataclasses.replace(product, columns_b=True), dataclasses.replace(product, columns_a=True)]
    assert asked == [product, *turned]
    asked.clear()
    make([BuildTask(s, s.fields(), "native", Store(tmp_path)) for s in programs], 1, False)
    assert asked == []
