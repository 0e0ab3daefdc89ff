"""LTO code of matrix products: from the cache where it is known, otherwise made in parallel and kept.

The properties of a product decide its key (with the versions of libmathdx and of the compiler it uses), so that kernels
share code, and so do processes. Making one takes seconds to a minute; several are made at once, each in a process of
its own, with a progress bar on a terminal once that takes more than a second. They take about equally long, so that one
after another for each processor would leave processors idle at the end: of three products on two processors, one for a
third of the time. The last ones therefore share the processors.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import IO

from diffkern.cache.environment import distribution_versions
from diffkern.cache.key import key
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.compiler.stores import current_store
from diffkern.contracts.platforms import MATHDX
from diffkern.errors import CompileError, KernelError, raise_all
from diffkern.process.dataclass import dataclass
from diffkern.runtime.native.pool import processors
from diffkern.runtime.rollouts.progress import Bar
from diffkern.targets.cuda.mathdx import Product, explain

__all__ = ["Products", "codes", "generated", "obtain", "product_key"]

_CODE = "kernel.ltoir"
_MEMORY = 2 << 30
"""Bytes that a process takes at most: 16 x 16 x 16 float16 takes 2.1 GB."""

Command = Callable[[Product], list[str]]

_generated = 0


def generated() -> int:
    """Return the number of products that this process has had made because the cache did not have them."""
    return _generated


@dataclass(frozen=True)
class Products:
    """The code of some products.

    Attributes
    ----------
    code
        LTO code by product.
    made
        The products that were made for this, the others being known.
    """

    code: dict[Product, bytes]
    made: tuple[Product, ...] = ()
    symbols: tuple[str, ...] = field(default=())


def codes(products: Sequence[Product]) -> list[bytes]:
    """Return the code of each of some products.

    Raises
    ------
    CompileError
        If libmathdx is not installed, or one of them cannot be made.
    """
    found = obtain(products).code
    return [found[product] for product in products]


def product_key(product: Product) -> str:
    """Return the key under which a product's code is kept."""
    nvrtc = os.environ.get("DIFFKERN_NVRTC", "")
    versions = [(name, version.encode()) for name, version in distribution_versions(MATHDX)]
    return key([("kind", b"matrix product"), *product.fields, *versions, ("nvrtc", nvrtc.encode())])


def obtain(
    products: Iterable[Product],
    *,
    store: Store | None = None,
    processes: int | None = None,
    progress: bool | None = None,
    command: Command | None = None,
) -> Products:
    """Return the code of products.

    Parameters
    ----------
    products : iterable of Product
        The products; the same one may come several times.
    store : Store, optional
        The store of their code; the cache directory by default.
    processes : int, optional
        Number of products to make at once, the last ones excepted; by default as many as processors, and as fit into
        the
        memory.
    progress : bool, optional
        Whether to show a progress bar on standard error; by default where that is a terminal.
    command : callable, optional
        Returns the command that makes a product's code.

    Raises
    ------
    CompileError
        If one of them cannot be made; the others are kept all the same.
    """
    wanted = list(dict.fromkeys(products))
    # All are checked before any is made, as making one takes up to a minute.
    for product in wanted:
        product.check()
    kept = current_store() if store is None else store
    code: dict[Product, bytes] = {}
    for product in wanted:
        entry = kept.get(product_key(product))
        if entry is not None and _CODE in entry.more:
            code[product] = entry.more[_CODE]
    symbols = tuple(p.symbol for p in wanted)
    missing = [product for product in wanted if product not in code]
    if not missing:
        return Products(code, symbols=symbols)
    with contextlib.ExitStack() as building:
        # In one order, so that two processes that want the same products never wait for each other.
        for name, product in sorted({product_key(p): p for p in missing}.items()):
            building.enter_context(kept.building(name))
            entry = kept.get(name)
            if entry is not None and _CODE in entry.more:  # made by another process while this one waited
                code[product] = entry.more[_CODE]
        missing = [product for product in missing if product not in code]
        errors = _Makers(missing, code, kept, processes or _processes(), progress, command or _command).run()
    _count(len(missing) - len(errors))
    raise_all(errors)
    return Products(code, tuple(missing), symbols)


def _processes() -> int:
    """Return the number of processors, or fewer so that twice as many processes fit into the memory."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # only libmathdx's own systems can tell
        return processors()
    return max(1, min(processors(), memory // (2 * _MEMORY)))


def _count(made: int) -> None:
    global _generated
    _generated += made


def _command(product: Product) -> list[str]:
    # It finds what this process finds, whose whole path it is given: nothing less, and no other installation.
    return [sys.executable, "-S", "-m", "diffkern.targets.cuda.mathdx_child", json.dumps(asdict(product))]


@dataclass
class _Maker:
    """A process that makes the code of one product."""

    product: Product
    process: subprocess.Popen[bytes]
    out: IO[bytes]
    log: IO[bytes]


class _Makers:
    """The processes, a few at a time."""

    def __init__(
        self,
        missing: list[Product],
        code: dict[Product, bytes],
        store: Store,
        limit: int,
        shown: bool | None,
        command: Command,
    ) -> None:
        self.waiting, self.code, self.store, self.limit, self.command = list(missing), code, store, limit, command
        self.running: list[_Maker] = []
        self.errors: list[KernelError] = []
        self.bar = Bar(len(missing), "matrix products", shown)

    def run(self) -> list[KernelError]:
        try:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < self.room():
                    self.running.append(self.start(self.waiting.pop(0)))
                # In the order in which they end, so that the bar moves as soon as one is done.
                for maker in [m for m in self.running if m.process.poll() is not None]:
                    self.running.remove(maker)
                    self.finish(maker)
                    self.show(1)
                self.show(0)
                if self.running:
                    time.sleep(0.02)
        # Also after an interrupt: the processes would go on for a minute, for nobody.
        finally:
            for maker in self.running:
                maker.process.kill()
                maker.process.communicate()
            self.bar.close()
        return self.errors

    def room(self) -> int:
        """Return the largest number of processes: all that are left, if the processors have no two for each."""
        left = len(self.waiting) + len(self.running)
        # Near the end, two processes for each processor end sooner than one after the other.
        return left if left < 2 * self.limit else self.limit

    def show(self, done: int) -> None:
        self.bar.update(done)

    def start(self, product: Product) -> _Maker:
        out, log = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  closed when the process has ended
        package = str(Path(__file__).parents[2])
        path = [package, os.environ.get("PYTHONPATH", ""), *sys.path]
        # The child imports diffkern from where this process has it, also without an installation.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        # The pipe ends when this process does, however: the other one then ends too.
        process = subprocess.Popen(
            self.command(product), stdin=subprocess.PIPE, stdout=out, stderr=log, env=environment
        )
        return _Maker(product, process, out, log)

    def finish(self, maker: _Maker) -> None:
        maker.process.communicate()
        maker.out.seek(0)
        maker.log.seek(0)
        found, said = maker.out.read(), maker.log.read().decode(errors="replace").strip()
        maker.out.close()
        maker.log.close()
        # A process that ends well without output has failed as well.
        if maker.process.returncode or not found:
            self.errors.append(_error(maker.product, said, maker.process.returncode))
            return
        self.code[maker.product] = found
        ingredients = {name: value.decode() for name, value in maker.product.fields}
        facts = {"what": "matrix product", "title": f"matrix product {maker.product}", "target": maker.product.arch}
        entry = StoredArtifact(b"", (maker.product.symbol,), facts=facts, ingredients=ingredients, more={_CODE: found})
        self.store.put(product_key(maker.product), entry)


def _error(product: Product, said: str, status: int) -> CompileError:
    """Return the error that a failed process reported, or one that says how it ended."""
    log, _, last = said.rpartition("\n")
    try:
        # The child reports its error as one line of JSON, the last that it prints.
        parts = json.loads(last)
        error = CompileError(parts["message"], remedy=parts["remedy"])
        nvrtc = parts["nvrtc"]
        return explain(error, log, None if nvrtc is None else (nvrtc[0], nvrtc[1]))
    except (ValueError, KeyError, TypeError):
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return CompileError(f"the process that makes the matrix product {product} {how}, without code: {said[-300:]}")
