"""Random kernels: the adjoint against central differences in float64, thousands of programs if one asks for them.

``DIFFKERN_FUZZ_EXAMPLES=N`` asks for N kernels per batch instead of the default; of kernels of tiles, which take longer
to compile, for a twelfth as many. A kernel may be refused, with a reason, but not many may; a kernel whose point lies
too near a kink is compared where it can be.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support.clashes import ClashCollector, undeclared
from support.fuzz import Choose, RandomKernel, load_module, random_kernel
from support.fuzz_tiles import random_tile_kernel
from support.seeds import run_seed

from diffkern.errors import AutodiffError
from diffkern.frontend.statements import lowering
from diffkern.opt.widen import widen
from diffkern.testing.gradcheck import KinkWarning, Tolerances, Vjp, check_vjp
from diffkern.testing.programs import CompiledFunction, Interpreted, as_double

BATCHES = 6
USUAL = 2
"""Of them, without ``--full``."""
TILE_SHARE = 12
MAX_REFUSED = 0.10
MANY = 200
"""Among so many kernels the share must not be greater; of fewer, which resemble one another, it says little."""


@st.composite
def kernels(draw: st.DrawFn, make: Callable[[Choose], RandomKernel]) -> RandomKernel:
    """Random kernels, which shrink towards few and simple statements."""
    return make(lambda n: draw(st.integers(0, n - 1)))


class Tally:
    """What became of the kernels of a batch."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.checked = self.elements = self.kinks = 0

    def __str__(self) -> str:
        lines = [f"{self.checked} checked ({self.elements} elements, {self.kinks} more near kinks)"]
        lines += [f"{count} refused: {reason}" for reason, count in self.refused.most_common()]
        return "\n".join(lines)

    @property
    def total(self) -> int:
        return self.checked + sum(self.refused.values())

    @property
    def refuses_few(self) -> bool:
        """Whether the share of refused kernels is small; two among a handful say nothing about it."""
        return sum(self.refused.values()) <= max(2, MAX_REFUSED * self.total)

    def refuse(self, error: AutodiffError) -> None:
        for single in error.errors:
            self.refused[re.sub(r"\(?\bline \d+\)?|\b(y|s|q|acc|loss)\b", "_", single.message)] += 1


def check(kernel: RandomKernel, tally: Tally, directory: str) -> None:
    """Check one kernel in two ways."""
    fuzzed = load_module(kernel.source, directory).fuzzed
    fn = lowering.lower(fuzzed.func, fuzzed.argument_types(*kernel.arguments))
    try:
        derived = Vjp(widen(fn), Interpreted, **kernel.options)
    except AutodiffError as error:
        tally.refuse(error)
        return
    # Compiling large adjoints takes most of the time, so every second one runs in its Python spelling alone.
    compiled = tally.checked % 2 == 0
    vjp = derived.running(CompiledFunction, CompiledFunction if compiled else Interpreted)
    point = vjp.arguments([as_double(t, a) for t, a in zip(vjp.types, kernel.arguments, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KinkWarning)  # they are counted
        report = check_vjp(vjp, kernel.dim, point, Tolerances(max_elements=24, seed=tally.checked))
    tally.checked += 1
    tally.elements += report.checked
    tally.kinks += len(report.kinks)
    if compiled:
        check_python(vjp, kernel, point)


def check_python(vjp: Vjp, kernel: RandomKernel, point: list[object]) -> None:
    """The readable spelling computes the same, and threads meet only where the analysis says so."""
    weights = vjp.weights(point, np.random.default_rng(1))
    collector = ClashCollector()
    found = vjp.running(Interpreted, lambda fn: Interpreted(fn, collector)).gradients(kernel.dim, point, weights)
    for i, gradient in vjp.gradients(kernel.dim, point, weights).items():
        np.testing.assert_allclose(found[i], gradient, rtol=1e-8, atol=1e-9, err_msg=vjp.names[i])
    clashes = undeclared(collector, vjp.declared_conflicts(), kernel.dim)
    assert not clashes, "\n".join(map(str, clashes[:5]))


def batch(number: int, make: Callable[[Choose], RandomKernel], share: int = 1) -> Callable[..., None]:
    def test(tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]) -> None:
        directory: Path = tmp_path_factory.mktemp("fuzz")
        tally = Tally()

        @settings(max_examples=max(1, settings.default.max_examples // share))
        @given(kernels(make))
        def run(kernel: RandomKernel) -> None:
            try:
                check(kernel, tally, str(directory))
            except Exception:
                print(kernel.source)
                raise

        for more in itertools.count():
            seed((run_seed() + more) * BATCHES * 2 + number)(run)()
            if tally.refuses_few or tally.total >= MANY:
                break
        record_property("fuzz", str(tally))
        assert tally.refuses_few, str(tally)

    test.__doc__ = f"Batch {number} of random kernels."
    return test


for _number in range(BATCHES):
    _batch = batch(_number, random_kernel)
    globals()[f"test_random_kernels_{_number}"] = _batch if _number < USUAL else pytest.mark.full(_batch)

test_random_kernels_of_tiles = batch(BATCHES, random_tile_kernel, TILE_SHARE)
