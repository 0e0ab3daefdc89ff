"""Run Warp's own unit tests, as they stand in the installed wheel, with ``diffkern.warp`` in the place of ``warp``.

    python tools/warp_tests.py                      # all modules: passed and failed by module and by reason
    python tools/warp_tests.py test_math tile/      # some: by name, or those of a folder
    python tools/warp_tests.py test_math -v         # with each failure
    python tools/warp_tests.py --only 'test_math.*erf.*' -v   # tests whose identifier matches
    python tools/warp_tests.py --json all.json      # keeps what became of each test
    python tools/warp_tests.py --from all.json --table docs/generated/warp_tests.inc   # the table of the page on Warp
    python tools/warp_tests.py --record             # under Warp itself: which tests pass on this machine's CPU

A module finder maps ``warp`` and its public modules to ``diffkern.warp`` and nothing else; the tests themselves come
from the wheel, unedited. What counts are the tests that pass under Warp on a CPU, which are listed in
``tests/programs/warp/passing.txt.gz``. A test's process is ended where it takes too long or dies; the next one goes on
with the tests after it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import gzip
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import unittest
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PASSING = ROOT / "tests" / "programs" / "warp" / "passing.txt.gz"
FROM_THE_WHEEL = ("warp.tests", "warp.examples")
INTERNAL = "warp._src."
PUBLIC = (
    "warp.autograd",
    "warp.config",
    "warp.fem",
    "warp.geometry",
    "warp.optim",
    "warp.sparse",
    "warp.types",
    "warp.utils",
)


# -- the module finder -------------------------------------------------------------------------------------------------


class Finder(importlib.abc.MetaPathFinder):
    """Finds ``warp.tests`` and ``warp.examples`` in the wheel, and Warp's public modules in ``diffkern.warp``."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name in FROM_THE_WHEEL:
            folder = self.wheel / name.partition(".")[2]
            return importlib.util.spec_from_file_location(
                name, folder / "__init__.py", submodule_search_locations=[str(folder)]
            )
        if name == "warp._src" or name.startswith(INTERNAL):
            return importlib.util.spec_from_loader(name, _Known(Internal(name)), is_package=True)
        if name.startswith(PUBLIC) and (ours := found("diffkern." + name)) is not None:
            return importlib.util.spec_from_loader(name, _Known(ours))
        if name.startswith("warp.") and not name.startswith(FROM_THE_WHEEL):
            return importlib.util.spec_from_loader(name, _Known(Internal(name)), is_package=True)
        return None


def found(name: str) -> Any:
    """Return a module of diffkern, if there is one of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


class Internal(types.ModuleType):
    """A module that is not there, most often one of Warp's internals: of its names there are the public ones.

    What a test's module imports from it besides is a placeholder, so that its tests that do without can run.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        internal = (name + ".").startswith(INTERNAL)
        known = ("diffkern." + name, "diffkern.warp." + name.removeprefix(INTERNAL)) if internal else ()
        self.ours = list(filter(None, map(found, known)))

    def __getattr__(self, name: str) -> Any:
        for place in () if name.startswith("__") else (*self.ours, sys.modules["warp"]):
            if (ours := getattr(place, name, None)) is not None:
                return ours
        if (
            self.__name__.startswith("warp._src")
            and (wheel() / self.__name__.partition(".")[2].replace(".", "/") / f"{name}.py").exists()
        ):
            return importlib.import_module(f"{self.__name__}.{name}")
        if not self.__name__.startswith("warp._src") and name[:1].isupper():  # a struct, such as those of warp.fem
            return sys.modules["warp"].struct(type(name, (), {"__module__": self.__name__}))
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __getitem__(self, _: Any) -> Internal:
        return self


class _Known(importlib.abc.Loader):
    """Gives a module that is loaded already."""

    def __init__(self, module: Any) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: Any) -> Any:
        return self.module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self.spec


def wheel() -> Path:
    """Return the folder of the installed package ``warp``."""
    spec = importlib.machinery.PathFinder.find_spec("warp")
    if spec is None or spec.origin is None:
        raise SystemExit("warp-lang is not installed")
    return Path(spec.origin).parent


def take_the_place_of_warp() -> None:
    """Let ``import warp`` give ``diffkern.warp``."""
    sys.meta_path.insert(0, Finder(wheel()))
    sys.modules["warp"] = importlib.import_module("diffkern.warp")
    importlib.import_module("diffkern.warp._src")
    importlib.import_module("warp._src")  # which is the attribute of the package from here on


# -- one module, in a process of its own -------------------------------------------------------------------------------


class Recorder(unittest.TestResult):
    """Writes a line for each test, before and after it runs."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out = out

    def write(self, **line: Any) -> None:
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.started = time.perf_counter()
        self.found: dict[str, Any] = {"outcome": "passed"}
        self.write(id=test.id(), outcome="started")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.write(id=test.id(), seconds=round(time.perf_counter() - self.started, 3), **self.found)

    def addError(self, test: Any, err: Any) -> None:
        if isinstance(test, unittest.TestCase):
            self.found = {"outcome": "error", **told(err)}
        else:
            self.write(id=test.id(), outcome="error", **told(err))

    def addFailure(self, test: Any, err: Any) -> None:
        self.found = {"outcome": "failed", **told(err)}

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.found = {"outcome": "failed", **told(err)}

    def addSkip(self, test: Any, reason: str) -> None:
        if isinstance(test, unittest.TestCase) and hasattr(self, "found"):
            self.found = {"outcome": "skipped", "reason": reason}

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.found = {"outcome": "passed"}

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.found = {"outcome": "failed", "reason": "unexpected success"}


def told(err: Any) -> dict[str, str]:
    """Return what is said of an exception: its reason in a line, and where it was raised."""
    kind, value, trace = err
    frames = traceback.extract_tb(trace)
    last = frames[-1] if frames else None
    where = f"{Path(last.filename).name}:{last.lineno}" if last else ""
    text = "".join(traceback.format_exception(kind, value, trace))
    return {"reason": f"{kind.__name__}: {value}"[:2000], "where": where, "trace": text[-6000:]}


def cases(suite: Iterable[Any]) -> Iterable[unittest.TestCase]:
    """Yield the tests of a suite, those of suites in it as well."""
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        else:
            yield part


def run_module(module: str, out: Any, wanted: frozenset[str] | None, done: frozenset[str]) -> None:
    """Run the tests of a module in this process."""
    recorder = Recorder(out)
    try:
        imported = importlib.import_module(module)
    except BaseException:
        recorder.write(id=module, outcome="import", **told(sys.exc_info()))
        return
    found = [t for t in cases(unittest.defaultTestLoader.loadTestsFromModule(imported)) if t.id() not in done]
    if wanted is not None:
        found = [t for t in found if t.id() in wanted]
    unittest.TestSuite(found).run(recorder)


def child(arguments: Sequence[str]) -> None:
    """The process of a module: its name, where to write, whose tests, and which."""
    module, path, under, chosen = arguments
    asked = json.loads(Path(chosen).read_text())
    if under == "diffkern":
        take_the_place_of_warp()
    wanted = None if asked["wanted"] is None else frozenset(asked["wanted"])
    with open(path, "a", encoding="utf-8") as out:
        run_module(module, out, wanted, frozenset(asked["done"]))
        out.write(json.dumps({"id": module, "outcome": "end"}) + "\n")
        out.flush()
    os._exit(0)  # without what threads and libraries still want to do


# -- all modules -------------------------------------------------------------------------------------------------------


def modules(patterns: Sequence[str]) -> list[str]:
    """Return the test modules of the wheel that fit one of the patterns, all without any."""
    folder = wheel() / "tests"
    found = sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("test_*.py"))
    named = [p.removesuffix(".py").replace(".", "/") for p in patterns]
    chosen = [m for m in found if not named or any(fits(m, p) for p in named)]
    return ["warp.tests." + m.replace("/", ".") for m in chosen]


def fits(module: str, pattern: str) -> bool:
    """Whether a module is meant by a pattern: its name, its path, a folder, or with wildcards."""
    return (
        module.startswith(pattern)
        if pattern.endswith("/")
        else any(fnmatch.fnmatchcase(name, pattern) for name in (module, module.rpartition("/")[2]))
    )


def in_processes(module: str, under: str, wanted: Sequence[str] | None, limit: float) -> dict[str, dict[str, Any]]:
    """Run a module in as many processes as it takes; returns what became of each test."""
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path, chosen = Path(folder) / "out", Path(folder) / "chosen"
        for _ in range(40):
            chosen.write_text(json.dumps({"wanted": wanted, "done": list(results)}))
            path.write_text("")
            told_by = one_process(module, path, under, chosen, limit)
            ended = False
            last = None
            for line in map(json.loads, path.read_text().splitlines()):
                ended = ended or line["outcome"] in ("end", "import")
                if line["outcome"] != "end":
                    results[line["id"]] = last = line
            if last is not None and last["outcome"] == "started":
                last.update(outcome="error", reason=told_by, where="")
            elif not ended:
                results[module] = {"id": module, "outcome": "import", "reason": told_by, "where": ""}
                break
            if ended:
                break
    return results


def one_process(module: str, path: Path, under: str, chosen: Path, limit: float) -> str:
    """Run one process until it ends, or until it has written nothing for so long; returns how it ended."""
    command = [sys.executable, __file__, "--child", module, str(path), under, str(chosen)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
        size, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            if (written := path.stat().st_size) != size:
                size, since = written, time.monotonic()
            if time.monotonic() - since > limit:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"Timeout: longer than {limit:g} seconds"
        output.seek(0)
        tail = output.read()[-300:].decode(errors="replace").strip().replace("\n", " | ")
    return f"Died: exit status {process.returncode}: {tail}"


# -- reports -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why tests do not pass: what is said of it, and by which modules or texts it is known."""

    text: str
    modules: str = "(?!)"
    said: str = "(?!)"

    def fits(self, test: str, found: dict[str, Any]) -> bool:
        told = f"{found.get('reason', '')}\n{found.get('where', '')}"
        return bool(re.match(self.modules, test) or re.search(self.said, told))


REASONS = (
    Reason(
        "gradients that are the derivative here and something else under Warp (overwritten values, remainders, ties)",
        r"matrix\.test_mat\.\w+\.test_mat_slicing_assign_backward|test_arithmetic\.\w+\.test_binary_ops|"
        r"test_array\.\w+\.test_retain_grad|test_tape\.\w+\.test_tape_copy_adjoint_cons|"
        r"test_special_values\.\w+\.test_atomic_minmax_adjoint|"
        r"geometry\.test_volume\.\w+\.test_volume_transform_gradient",
    ),
    Reason(
        "blocks of several threads on the CPU (wp.config.enable_cpu_blocks)",
        r"(tile\.|interop\.test_jax\.).*_cpu_blocks_cpu$|test_cpu_block|tile\.test_tile_reduce\.\w+\.test_tile_(reduce|scan)"
        r"(_axis)?(_empty)?_partial|tile\.test_tile\.\w+\.test_tile_(component_assign_then|from_thread_storage|random_gen)|"
        r"interop\.test_jax\.\w+\.test_ffi_jax_kernel_block_dim_(autodiff|tile)",
    ),
    Reason("the finite element library", r"fem\."),
    Reason(
        "meshes, trees, volumes, isosurfaces, textures",
        r"geometry\.(?!test_hash_grid)|cuda\.test_texture|test_(mesh|bvh|volume|texture|marching|closest_point|intersect)",
        r"Warp has (Mesh|Bvh|Volume|Texture|MarchingCubes)",
    ),
    Reason(
        "sparse matrices and linear solvers",
        r"(sparse\.)?test_(sparse|bsr|linear_solvers|linear_operator|fsai)",
        r"BsrMatrix",
    ),
    Reason(
        "internals of Warp: generated code, hashes of modules, its cache, logger and allocators",
        r"(aot|deterministic)\.|(cuda\.)?test_(clang|compile|module_hash|hash|logger|log|allocator|mempool|ref|apic|"
        r"build|nvrtc|kernel_cache|cache|stdlib|core_library|entry_point|external_build|fabric|version|verify_fp)",
        r"'warp\._src|_src\.|\.adj\b|codegen|hash_module|kernel_hash|source_code|has no attribute '_(?!_)",
    ),
    Reason("GPUs", r"cuda\.", r"CUDA driver|no device 'cuda"),
    Reason(
        "names that are not there",
        said=r"has no attribute '|cannot import name|Warp has \w+|unexpected keyword argument",
    ),
    Reason("the text of a message, which is another one here", said=r"does not match|not found in"),
    Reason(
        "refused by Warp and accepted here, or refused later", said=r"(Error|Exception|Warning) not (raised|triggered)"
    ),
    Reason(
        "refused here with a reason",
        said=r"^(Kernel|Autodiff|Launch|Gradient|Conflict|Tile)\w*Error|^(Type|Value)Error: ",
    ),
    Reason("takes too long, or ends its process", said=r"^(Timeout|Died)"),
    Reason("other values, types or attributes"),
)


def table(results: dict[str, dict[str, dict[str, Any]]], counted: dict[str, list[str]]) -> list[tuple[str, int, str]]:
    """The tests that do not pass: reasons, how many tests, and the modules with most of them."""
    modules: dict[str, collections.Counter[str]] = {reason.text: collections.Counter() for reason in REASONS}
    for module, of_module in results.items():
        short = module.removeprefix("warp.tests.")
        for test in counted[module]:
            found = outcome(of_module, module, test)
            if found["outcome"] != "passed":
                name = test.removeprefix("warp.tests.")
                reason = next((r for r in REASONS if r.fits(name, found)), REASONS[-1])
                modules[reason.text][short] += 1
    return [
        (text, sum(of.values()), ", ".join(f"{m} ({n})" for m, n in of.most_common(6)) + (", …" if len(of) > 6 else ""))
        for text, of in modules.items()
        if of
    ]


def write_table(path: Path, rows: list[tuple[str, int, str]], passed: int, total: int) -> None:
    """Write the table as reStructuredText, for the page on Warp."""
    day = time.strftime("%Y-%m-%d")
    lines = [
        f"{passed:,} of {total:,} pass ({day}, Warp {version('warp-lang')}). The others, by reason:",
        "",
        ".. list-table::",
        "   :header-rows: 1",
    ]
    lines += ["   :widths: 34 8 58", "", "   * - reason", "     - tests", "     - modules with most of them"]
    for text, count, modules in rows:
        lines += [f"   * - {text}", f"     - {count}", f"     - {modules}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def normalised(reason: str) -> str:
    """Return a reason without what differs from test to test."""
    lines = [line for line in reason.splitlines() if line.strip()] or [""]
    line = lines[0]
    line = re.sub(r"^(\w+: )/\S*/(\w+\.py):\d+: ", r"\1", line)
    line = re.sub(r"0x[0-9a-f]+", "0x…", line)
    line = re.sub(r"/\S*/", "", line)
    line = re.sub(r"-?\b\d+(\.\d+)?(e[+-]?\d+)?\b", "#", line)
    return line[:150]


def report(
    results: dict[str, dict[str, dict[str, Any]]], counted: dict[str, list[str]], verbose: bool, to: Path | None = None
) -> None:
    """Print passed and failed by module and by reason; ``to`` is where the table goes."""
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    total = passed = 0
    for module, of_module in sorted(results.items()):
        good = [i for i in counted[module] if outcome(of_module, module, i)["outcome"] == "passed"]
        total, passed = total + len(counted[module]), passed + len(good)
        for test in counted[module]:
            found = outcome(of_module, module, test)
            if found["outcome"] != "passed":
                reasons[normalised(found.get("reason", found["outcome"]))].append(test)
                if verbose:
                    print(f"\n-- {test}\n{found.get('trace') or found.get('reason', found['outcome'])}")
    print(f"\n{total - passed} not passed, by reason:")
    for reason, tests in sorted(reasons.items(), key=lambda item: -len(item[1])):
        short = ", ".join(t.removeprefix("warp.tests.") for t in tests[:2])
        print(f"{len(tests):5}  {reason}\n       {short}")
    missing_names(results, counted)
    rows = table(results, counted)
    print("\nby kind of reason:")
    for text, count, modules in rows:
        print(f"{count:5}  {text}\n       {modules}")
    print(f"\npassed: {passed} of {total}")
    if to is not None:
        write_table(to, rows, passed, total)


def missing_names(results: dict[str, dict[str, dict[str, Any]]], counted: dict[str, list[str]]) -> None:
    """Print which names are missing, and in how many tests."""
    names: collections.Counter[str] = collections.Counter()
    for module, of_module in results.items():
        for test in counted[module]:
            reason = outcome(of_module, module, test).get("reason", "")
            if found := re.search(
                r"(?:diffkern\.warp|wp|warp)' has no attribute '(\w+)'|Warp has (?:\w+\.)?(\w+)", reason
            ):
                names[found[1] or found[2]] += 1
    if names:
        print("\nmissing names:", ", ".join(f"{name} ({n})" for name, n in names.most_common(60)))


def outcome(of_module: dict[str, dict[str, Any]], module: str, test: str) -> dict[str, Any]:
    """Return what became of a test: if it was not found, what became of its module."""
    if test in of_module:
        return of_module[test]
    of_class = of_module.get(f"setUpClass ({test.rpartition('.')[0]})")
    return of_class or of_module.get(module, {"outcome": "missing", "reason": "the test does not exist"})


def passing() -> list[str]:
    """Return the identifiers of the tests that pass under Warp on a CPU."""
    return gzip.decompress(PASSING.read_bytes()).decode().split() if PASSING.exists() else []


def record(module: str, of_module: dict[str, dict[str, Any]]) -> None:
    """Write which tests of a module passed, beside what is known of others."""
    good = {i for i, line in of_module.items() if line["outcome"] == "passed"}
    known = good | {i for i in passing() if not i.startswith(module + ".")}
    PASSING.parent.mkdir(parents=True, exist_ok=True)
    PASSING.write_bytes(gzip.compress("\n".join(sorted(known)).encode(), mtime=0))
    print(f"{module}: {len(good)} of {len(of_module)} pass under Warp", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", help="names of test modules, or folders with a slash at the end")
    parser.add_argument("-j", type=int, default=2, help="processes at a time")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one test may take")
    parser.add_argument("--only", help="run only tests whose identifier matches this regular expression")
    parser.add_argument("--json", type=Path, help="where to write what became of each test")
    parser.add_argument("--from", dest="known", type=Path, help="take what became of each test from such a file")
    parser.add_argument("--table", type=Path, help="where to write the table of reasons")
    parser.add_argument("--record", action="store_true", help="run under Warp itself, and keep which tests pass")
    parser.add_argument("-v", action="store_true", help="print each failure")
    return parser.parse_args()


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
    args = arguments()
    under = "warp" if args.record else "diffkern"
    by_module: dict[str, list[str]] = {m: [] for m in modules(args.modules)}
    for test in [] if args.record else passing():
        module = ".".join(test.split(".")[:-2])
        if module in by_module and (args.only is None or re.search(args.only, test)):
            by_module[module].append(test)
    known = {".".join(test.split(".")[:-2]) for test in passing()}
    todo = [m for m, tests in by_module.items() if tests or args.record or (args.modules and m not in known)]
    if args.known:
        results = {m: lines for m, lines in json.loads(args.known.read_text()).items() if m in by_module}
        report(results, {m: by_module[m] for m in results}, args.v, args.table)
        return
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        jobs = {m: pool.submit(in_processes, m, under, by_module[m] or None, args.limit) for m in todo}
        results = {}
        for m, job in jobs.items():
            results[m] = job.result()
            good = sum(line["outcome"] == "passed" for line in results[m].values())
            print(f"{m.removeprefix('warp.tests.'):45} {good:4} of {len(by_module[m] or results[m]):4}", flush=True)
            by_module[m] = by_module[m] or [i for i in results[m] if i != m] or [m]
            if args.record:
                record(m, results[m])
            if args.json:
                args.json.write_text(json.dumps(results, indent=1))
    if not args.record:
        report(results, by_module, args.v, args.table)


if __name__ == "__main__":
    main()
