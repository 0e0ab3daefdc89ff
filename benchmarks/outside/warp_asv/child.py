"""One library's side: prepares a case of a benchmark when it is named, and times it when it is asked.

Standard input has a line of JSON per request, ``{"module", "class"}`` for the number of choices of parameters,
``{"module", "class", "method", "params"}`` or ``{"calls"}``; standard output a line per answer.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import itertools
import json
import math
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

_LONG = 10.0
"""Seconds of a first call after which there is no second one."""


class Bodies(importlib.abc.SourceLoader):
    """Loads modules of the benchmarks, with the CPU in the place of the GPU."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get_filename(self, fullname: str) -> str:
        """Return where the module is."""
        return self.path

    def get_data(self, path: str | bytes) -> bytes:
        """Return its text."""
        return Path(os.fsdecode(path)).read_bytes().replace(b'"cuda:0"', b'"cpu"')


class BodyFinder(importlib.abc.MetaPathFinder):
    """Finds the benchmarks under the name ``asv_bodies``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a module of the benchmarks."""
        if name.partition(".")[0] != "asv_bodies":
            return None
        place = self.folder.joinpath(*name.split(".")[1:])
        if place.is_dir():
            return importlib.util.spec_from_loader(name, Bodies(str(place / "__init__.py")), is_package=True)
        return importlib.util.spec_from_loader(name, Bodies(f"{place}.py"))


def stand_in() -> None:
    """Give the marks of asv, which say what asv should skip, where it is not installed."""
    if importlib.util.find_spec("asv_runner") is not None:
        return
    mark = types.ModuleType("asv_runner.benchmarks.mark")
    mark.skip_benchmark_if = _skipping
    mark.skip_for_params = _skipping_some
    mark.skip_benchmark = mark.SkipNotImplemented = _skipping(True)
    for name in ("asv_runner", "asv_runner.benchmarks"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[mark.__name__] = mark


def _skipping(condition: bool) -> Any:
    def mark(benchmark: Any) -> Any:
        benchmark.is_skipped = bool(condition)
        return benchmark

    return mark


def _skipping_some(params: Any) -> Any:
    def mark(benchmark: Any) -> Any:
        benchmark.skipped_params = [tuple(each) for each in params]
        return benchmark

    return mark


def count(request: dict[str, Any]) -> int:
    """Return how many choices of parameters a benchmark has."""
    module = importlib.import_module(f"asv_bodies.{request['module']}")
    return max(1, len(combinations(getattr(module, request["class"]))))


class Case:
    """A prepared case."""

    def __init__(self, request: dict[str, Any]) -> None:
        module = importlib.import_module(f"asv_bodies.{request['module']}")
        self.benchmark = getattr(module, request["class"])()
        self.method = getattr(self.benchmark, request["method"])
        if getattr(self.method, "is_skipped", False) or getattr(self.benchmark, "is_skipped", False):
            raise NotImplementedError("the benchmark says that it does not run here")
        given = list(combinations(self.benchmark)[request["params"]])
        if tuple(given) in getattr(self.method, "skipped_params", []):
            raise NotImplementedError("the benchmark says that it does not run with these parameters")
        if hasattr(self.benchmark, "setup_cache"):
            given.insert(0, self.benchmark.setup_cache())
        self.given = given

    def seconds(self, calls: int) -> float:
        """Return the processor time of a call: of several after a setup, but no more than the benchmark makes."""
        best = math.inf
        number = min(calls, getattr(self.method, "number", 0) or getattr(self.benchmark, "number", 0) or calls)
        for _ in range(calls // number):
            best = min(best, self._sample(number))
        return best

    def _sample(self, calls: int) -> float:
        if hasattr(self.benchmark, "setup"):
            self.benchmark.setup(*self.given)
        begin = time.process_time_ns()
        for _ in range(calls):
            self.method(*self.given)
        took = time.process_time_ns() - begin
        if hasattr(self.benchmark, "teardown"):
            self.benchmark.teardown(*self.given)
        return 1e-9 * took / calls


def combinations(benchmark: Any) -> list[tuple[Any, ...]]:
    """Return the parameters of all cases of a benchmark, as asv does."""
    params = getattr(benchmark, "params", [])
    if params and not isinstance(params[0], (list, tuple)):
        params = [params]
    return list(itertools.product(*params))


def main() -> None:
    """Answer requests."""
    library, folder = sys.argv[1], Path(sys.argv[2])
    if library == "diffkern":
        from diffkern.warp import finder

        finder.install()
    stand_in()
    sys.meta_path.insert(0, BodyFinder(folder))
    out, sys.stdout = sys.stdout, sys.stderr
    case: Case | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "method" not in request and "module" in request:
                answer: dict[str, Any] = {"count": count(request)}
            elif "module" in request:
                case = Case(request)
                first = case.seconds(1)
                answer = {"seconds": first if first > _LONG else min(first, case.seconds(1))}
            else:
                assert case is not None
                answer = {"seconds": case.seconds(request["calls"])}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
