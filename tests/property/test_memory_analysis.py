"""Random index expressions: the analyses of memory may refuse, but what they accept must be right.

Kernels that read and write one array in loops must have the gradient of central differences or be refused; kernels
that gather must not let threads meet anywhere that the analysis does not announce.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from support.clashes import ClashCollector, undeclared
from support.fuzz import load_module
from support.seeds import run_seed

from diffkern.compiler import pipeline
from diffkern.contracts.race_search import needed
from diffkern.errors import AutodiffError
from diffkern.frontend.statements import lowering
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.opt.widen import widen
from diffkern.runtime.launch.race_checks import check_races
from diffkern.testing.gradcheck import KinkWarning, Tolerances, Vjp, check_vjp
from diffkern.testing.programs import Interpreted, as_argument

EXAMPLES = 3 * settings.default.max_examples

GATHERS_1 = (
    "i  i+1  i+2  2*i  2*i+1  3*i-i  i+k  i*n+k  (i+3)%n  i//2  n-1-i  min(i,2)  idx[i]  idx[k]  3  k  n-1".split()
)
GATHERS_2 = [*GATHERS_1, "j", "i+j", "i*n+j", "j*n+i", "i-j+4", "j+1", "min(i,j)", "i*dk.int32(1)"]
ROWS = ("i", "i", "i", "i", "i", "n-1-i", "idx[i]")
COLUMNS = ("k", "k+1", "k+2", "n-k", "2*k", "k//2", "0", "1", "m", "k%2", "idx[k]")


def _module(body: list[str], arity: int) -> str:
    tid = "i = dk.tid()" if arity == 1 else "i, j = dk.tid()"
    lines = "\n    ".join([tid, *body])
    return f"""import diffkern as dk

@dk.kernel
def fuzzed(x: dk.array(dtype=float), g: dk.array(dtype=float, ndim=2), idx: dk.array(dtype=int), n: int, m: int,
           s: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    {lines}
"""


def _arguments(seed: int) -> list[object]:
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(0.3, 1.2, 80), rng.uniform(0.3, 1.2, (16, 16)), rng.permutation(5).astype(np.int32), 5, seed % 4,
        rng.uniform(0.3, 1.2, (5, 12)), rng.uniform(0.3, 1.2, (5, 5)),
    ]  # fmt: skip


@st.composite
def gathers(draw: st.DrawFn) -> tuple[str, tuple[int, ...]]:
    """A kernel that reads x and g at several places, and launch dimensions."""
    arity = draw(st.sampled_from((1, 2)))
    indices = st.sampled_from(GATHERS_1 if arity == 1 else GATHERS_2)
    terms = [f"x[{index}] * {k + 2}.0" for k, index in enumerate(draw(st.lists(indices, max_size=3)))]
    terms += [f"g[{a}, {b}]" for a, b in draw(st.lists(st.tuples(indices, indices), max_size=2)) if "*n" not in a + b]
    target = "y[i, 0]" if arity == 1 else "y[i, j]"
    body = ["t = 0.5", "for k in range(m):", f"    t = t + dk.sin({' + '.join(terms or ['t'])})", f"{target} = t"]
    if draw(st.booleans()):
        body.insert(3, "    if x[i] > 0.6:\n            t = t * x[i+1]")
    dims = tuple(draw(st.integers(1, 5)) for _ in range(arity))
    return _module(body, arity), dims


@st.composite
def updates(draw: st.DrawFn) -> str:
    """A kernel that reads and writes s in one or two loops."""
    body: list[str] = []
    row = draw(st.sampled_from(ROWS))
    places = st.sampled_from(draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(1, 2))):
        body.append(
            draw(st.sampled_from(("for k in range(m):", "for k in range(m, -1, -1):", "for k in range(1, 4):")))
        )
        for _ in range(draw(st.integers(1, 2))):
            to, a, b = draw(places), draw(places), draw(places)
            value = draw(
                st.sampled_from(
                    (
                        f"dk.sin(s[{row}, {a}]) * s[{row}, {b}]",
                        f"0.5 * s[{row}, {a}] + x[k]",
                        f"s[{row}, {a}] * x[k] + 0.5 * s[{row}, {b}]",
                        f"x[i + k] * s[{row}, {a}]",
                        "x[k] * x[i]",
                    )
                )
            )
            statement = f"s[{row}, {to}] = {value}"
            if draw(st.integers(0, 3)) == 0:
                body.append(f"    if x[i + k] > 0.7:\n            {statement}")
            else:
                body.append(f"    {statement}")
    last = draw(places).replace("k", "1")
    body.append(f"y[i, 0] = y[i, 0] * s[{row}, {last}]")
    return _module(body, 1)


TARGETS = "x[i] x[i+1] x[2*i] x[2*i+1] x[i*n+k] x[i*m+k] x[idx[i]] x[0] x[k] x[n-1-i] x[i//2] x[i-1]".split()
TARGETS += "s[i,0] s[i,k] s[k,i] s[i,i] s[i,idx[i]] s[idx[i],k] s[0,i] s[2,3]".split()


@st.composite
def augmented(draw: st.DrawFn) -> str:
    """A kernel that updates elements by augmented assignments, here and there beside a plain store or an atomic."""
    places = st.sampled_from(draw(st.lists(st.sampled_from(TARGETS), min_size=1, max_size=3)))
    body = [f"for k in range({draw(st.sampled_from(('n', 'm', '3', 'x.shape[0] - 77')))}):"]
    for _ in range(draw(st.integers(1, 3))):
        value = draw(st.sampled_from(("g[i, k]", "0.5 * g[k, i]", "dk.sin(g[i, k])")))
        statement = f"{draw(places)} {draw(st.sampled_from(('+=', '-=')))} {value}"
        if draw(st.integers(0, 4)) == 0:
            statement = f"dk.atomic_add({draw(places).replace('[', ', ', 1)[:-1]}, {value})"
        body.append(f"    if g[i, k] > 0.7:\n            {statement}" if draw(st.booleans()) else f"    {statement}")
    if draw(st.integers(0, 3)) == 0:
        own = draw(st.sampled_from(("x[i]", "x[2*i+1]", "x[idx[i]]", "x[n-1-i]", "s[i,0]", "s[i,i]", "s[0,i]")))
        body.insert(0, f"{own} = g[i, 1]")
    return _module(body, 1)


def _vjp(source: str, directory: str) -> Vjp:
    fuzzed = load_module(source, directory).fuzzed
    arguments = _narrow(_arguments(0))
    return Vjp(widen(lowering.lower(fuzzed.func, fuzzed.argument_types(*arguments))), Interpreted)


def _check_launch(vjp: Vjp, seed: int) -> None:
    """Check what only a launch can say of the pairs of accesses that the adjoint relies on, as a launch does."""
    races, given = vjp.adjoint.adjoint.races, _arguments(seed)
    numbers = {(k, axis): given[k] if axis < 0 else given[k].shape[axis] for k, axis in needed(races)}  # type: ignore[attr-defined]
    check_races("fuzzed", races, vjp.names, (5,), numbers)  # type: ignore[arg-type]


def test_gathers_meet_where_the_analysis_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = str(tmp_path_factory.mktemp("gathers"))
    kinds: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(gathers(), st.integers(0, 3))
    def run(kernel: tuple[str, tuple[int, ...]], seed: int) -> None:
        source, dims = kernel
        vjp = _vjp(source, directory)
        point = vjp.arguments(_arguments(seed))
        collector = ClashCollector()
        watched = vjp.running(Interpreted, lambda fn: Interpreted(fn, collector))
        watched.gradients(dims, point, vjp.weights(point, np.random.default_rng(seed)))
        declared = vjp.declared_conflicts()
        kinds.update(entry.kind for entry in declared.values())
        clashes = undeclared(collector, declared, dims)
        assert not clashes, f"{source}\n{dims}\n{declared}\n" + "\n".join(map(str, clashes[:5]))

    for more in range(4):  # one run may lack a class
        seed(run_seed() + more)(run)()
        if EXAMPLES < 100 or {"none", "bounded", "general", "reduce"} <= set(kinds):
            return
    raise AssertionError(f"only these classes: {dict(kinds)}")


def test_updates_are_right_or_refused(
    tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]
) -> None:
    directory = str(tmp_path_factory.mktemp("updates"))
    outcome: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(updates(), st.integers(0, 3))
    def run(source: str, seed: int) -> None:
        try:
            vjp = _vjp(source, directory)
            _check_launch(vjp, seed)
        except AutodiffError:
            outcome["refused"] += 1
            return
        outcome["accepted"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KinkWarning)
            try:
                check_vjp(vjp, (5,), vjp.arguments(_arguments(seed)), Tolerances(max_elements=12, seed=seed))
            except Exception:
                print(source)
                raise

    run()
    record_property("fuzz", ", ".join(f"{count} {what}" for what, count in sorted(outcome.items())))
    assert EXAMPLES < 100 or outcome["accepted"] > 0.2 * sum(outcome.values())


def test_no_two_threads_meet_in_a_plain_update(
    tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]
) -> None:
    """The oracle runs the settled kernel thread by thread; its result is that of the kernel as it is written."""
    directory = str(tmp_path_factory.mktemp("augmented"))
    outcome: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(augmented(), st.integers(0, 3))
    def run(source: str, seed: int) -> None:
        fuzzed = load_module(source, directory).fuzzed
        types = fuzzed.argument_types(*_narrow(_arguments(seed)))
        settled = widen(pipeline.lower_kernel(fuzzed.func, types))
        atomics = sum(op.name == "atomic" for op in walk(settled.body))
        outcome["atomic" if atomics else "plain"] += 1
        collector = ClashCollector()
        found = _run(settled, seed, Interpreted(pipeline.optimise(clone_function(settled)), collector))
        written = widen(lowering.lower(fuzzed.func, types))
        written.updates = ()  # each stays the load, addition and store that it was lowered to
        expected = _run(written, seed, Interpreted(pipeline.optimise(written)))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=source)
        if " = g" not in source:
            clashes = list(collector.clashes())
            assert not clashes, f"{source}\n" + "\n".join(map(str, clashes[:5]))
        try:
            vjp = Vjp(settled, Interpreted)
            _check_launch(vjp, seed)
        except AutodiffError:
            outcome["refused"] += 1
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KinkWarning)
            check_vjp(vjp, (5,), vjp.arguments(_arguments(seed)), Tolerances(max_elements=12, seed=seed))

    run()
    record_property("fuzz", ", ".join(f"{count} {what}" for what, count in sorted(outcome.items())))
    assert EXAMPLES < 100 or min(outcome["atomic"], outcome["plain"]) > 0.05 * sum(outcome.values())


def _narrow(arguments: list[object]) -> list[object]:
    return [np.float32(a) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a for a in arguments]


def _run(fn: Function, seed: int, program: Interpreted) -> list[np.ndarray]:
    arguments = [as_argument(p.type, a) for p, a in zip(fn.params, _arguments(seed), strict=True)]
    program.run((5,), arguments)
    return [a for a in arguments if isinstance(a, np.ndarray)]
