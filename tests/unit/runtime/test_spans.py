"""The launch log, traces and ranges for profilers."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import diffkern as dk
from diffkern.cli import command
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.observe.spans import span, watched

F = dk.array(dtype=float)


@dk.kernel
def double(x: F, y: F):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.kernel
def total(y: F, out: F):
    dk.atomic_add(out, 0, y[dk.tid()])


def _arrays(n=8):
    return dk.ones(n, requires_grad=True), dk.zeros(n, requires_grad=True), dk.zeros(1, requires_grad=True)


def _gradient(times=1):
    x, y, out = _arrays()
    tape = dk.Tape()
    with tape:
        dk.launch(double, 8, [x], [y])
        dk.launch(total, 8, [y], [out])
    for _ in range(times):
        tape.backward(out)
        tape_gradient = x.grad.numpy().copy()
        tape.zero()
    assert tape_gradient.tolist() == [2.0] * 8


@pytest.fixture
def trace(tmp_path):
    return dk.ScopedTrace(tmp_path / "trace.json")


def _names(trace, *kinds):
    return [e["name"] for e in trace.events if e.get("cat") in kinds]


def test_a_trace_has_launches_adjoints_and_sweeps(trace, tmp_path):
    with trace:
        _gradient(times=3)  # the second sweep would be one native call
    assert not watched.observers
    assert not slow_path_flags.word[0]
    assert _names(trace, "launch") == ["double", "total"]
    assert _names(trace, "adjoint") == ["adjoint of total", "adjoint of double"] * 3
    assert _names(trace, "backward") == ["tape.backward"] * 3
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["traceEvents"] == json.loads(json.dumps(trace.events))
    complete = [e for e in written["traceEvents"] if e["ph"] == "X"]
    assert {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"} == set(complete[0])
    assert min(e["ts"] for e in complete) == 0
    assert all(e["dur"] >= 0 for e in complete)
    (name,) = [e for e in written["traceEvents"] if e["ph"] == "M"]
    assert (name["name"], name["tid"], name["args"]) == (
        "thread_name", threading.get_ident(), {"name": threading.current_thread().name},
    )  # fmt: skip
    sweep = next(e for e in complete if e["cat"] == "backward")
    adjoint = next(e for e in complete if e["cat"] == "adjoint")
    assert sweep["ts"] <= adjoint["ts"]
    assert adjoint["ts"] + adjoint["dur"] <= sweep["ts"] + sweep["dur"]
    assert adjoint["args"]["dim"] == [8] or adjoint["args"]["dim"] == (8,)


def test_compilations_have_their_passes_and_come_from_the_cache_later(tmp_path, monkeypatch):
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path / "cache")

    def run(name):
        @dk.kernel
        def triple(x: F, y: F):
            i = dk.tid()
            y[i] = 3.0 * x[i]

        x, y, _ = _arrays()
        with dk.ScopedTrace(tmp_path / name) as trace:
            dk.launch(triple, 8, [x], [y])
        return trace

    first = run("first.json")
    (compiled,) = [e for e in first.events if e.get("cat") == "compile"]
    assert compiled["name"].startswith("compile forward of ")
    passes = [e for e in first.events if e.get("cat") == "pass"]
    assert {"lower", "cse", "dce"} <= {e["name"] for e in passes}
    assert all(compiled["ts"] <= e["ts"] for e in passes)
    assert sum(e["dur"] for e in passes) <= compiled["dur"]


def test_other_ways_to_launch(trace):
    x, y, _ = _arrays()
    kept = dk.launch(double, 8, [x], [y], record_cmd=True)
    with dk.record() as steps:
        dk.launch(double, 8, [x], [y])
        dk.copy(x, y)
    x.fill_(1.0)
    kept.launch()
    thread = threading.Thread(target=lambda: dk.launch(double, 8, [x], [y]), name="other")
    with trace:
        kept.launch()
        steps.replay()
        steps.replay()
        dk.launch(double, 8, [x], [y], stream=dk.Stream("cpu"))
        dk.synchronize()
        thread.start()
        thread.join()
    assert _names(trace, "launch") == ["double"] * 5
    assert _names(trace, "memory") == ["copy"] * 2
    assert _names(trace, "replay") == ["replay of a sequence"] * 2
    assert "other" in {e["args"]["name"] for e in trace.events if e["ph"] == "M"}
    assert len({e["tid"] for e in trace.events if e.get("cat") == "launch"}) == 3
    assert x.numpy().tolist() == [4.0] * 8


def test_an_error_ends_the_trace_and_is_in_it(trace, tmp_path):
    @dk.kernel(mode="debug")
    def wrong(x: F):
        x[dk.tid() + 8] = 1.0

    with pytest.raises(dk.KernelRuntimeError), trace:
        dk.launch(wrong, 8, [dk.zeros(8)])
    assert not watched.observers
    (event,) = [e for e in trace.events if e.get("cat") == "launch"]
    assert event["args"]["error"] == "KernelRuntimeError"
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_without_an_observer_nothing_changes(trace):
    with trace:
        pass
    x, y, _ = _arrays()
    dk.launch(double, 8, [x], [y])
    assert trace.events == []


@pytest.mark.parametrize("synchronize", [False, True])
def test_on_a_gpu_launches_are_waited_for_if_that_is_asked(driver, tmp_path, synchronize):
    x, y = dk.ones(8, device="cuda:0"), dk.zeros(8, device="cuda:0")
    dk.launch(double, 8, [x], [y])
    gpu = dk.get_device("cuda:0")
    waited = []
    synchronize_gpu = type(gpu).synchronize
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(gpu), "synchronize", lambda self: (waited.append(self), synchronize_gpu(self))[1])
        with dk.ScopedTrace(tmp_path / "trace.json", synchronize) as trace:
            dk.launch(double, 8, [x], [y])
            with dk.ScopedCapture("cuda:0") as capture:
                dk.launch(double, 8, [x], [y])
            dk.capture_launch(capture.graph)
    assert bool(waited) is synchronize
    assert y.numpy().tolist() == [2.0] * 8
    assert "a graph of double" in _names(trace, "replay")
    assert trace.events[-1]["args"]["device"] == "cuda:0"


def test_the_log(caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path)

    @dk.kernel
    def fourfold(x: F, y: F):
        i = dk.tid()
        y[i] = 4.0 * x[i]

    x, y, _ = _arrays()
    dk.config.log_launches = True
    try:
        assert dk.config.log_launches
        for _ in range(2):
            dk.launch(fourfold, 8, [x], [y])
    finally:
        dk.config.log_launches = False
    dk.launch(fourfold, 8, [x], [y])
    first, second = [r for r in caplog.records if r.name == "diffkern.launches"]
    assert first.levelno == logging.INFO
    assert (first.kernel, first.dim, first.device) == ("fourfold", (8,), "cpu")
    assert first.origin.startswith("compiled in ")
    assert second.origin == "in memory"
    assert second.milliseconds > 0
    assert second.getMessage() == f"fourfold dim=(8,) on cpu: {second.milliseconds:.3f} ms, in memory"


_PROGRAM = """
import sys
import diffkern as dk

@dk.kernel
def double(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = 2.0 * x[i]

x = dk.ones(4)
dk.launch(double, 4, [x])
print(x, *sys.argv[1:])
sys.exit(3)
"""


def test_the_log_by_the_environment(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    for origin in ("compiled in", "from the cache"):
        asked = {"DIFFKERN_LOG_LAUNCHES": "1", "DIFFKERN_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, program], env={**os.environ, **asked},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 3, done.stderr
        assert done.stderr.startswith("double dim=(4,) on cpu: ")
        assert origin in done.stderr


def test_ranges_for_profilers(monkeypatch):
    calls = []
    nvtx = types.SimpleNamespace(
        push_range=lambda message, domain, category: calls.append((message, domain, category)),
        pop_range=lambda domain: calls.append(domain),  # noqa: PLW0108 - it is called by this name
    )
    x, y, _ = _arrays()
    dk.launch(double, 8, [x], [y])
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    dk.config.nvtx = True
    try:
        dk.launch(double, 8, [x], [y])
    finally:
        dk.config.nvtx = False
    dk.launch(double, 8, [x], [y])
    assert calls == [("double", "diffkern", "launch"), "diffkern"]
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ImportError, match="pip install nvtx"):
        dk.config.nvtx = True
    assert not dk.config.nvtx


def test_spans_lie_in_one_another(trace):
    with trace, span("load", "outer"), span("load", "inner", found=np.bool_(True).item()):
        pass
    assert _names(trace, "load") == ["outer", "inner"]


def test_the_command(tmp_path, capfd, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    out = tmp_path / "out.json"
    assert command.main(["trace", "-o", str(out), str(program), "a", "--b"]) == 3
    shown = capfd.readouterr()
    assert shown.out == "[2. 2. 2. 2.] a --b\n"
    assert shown.err == f"1 launch in {out}: open it in https://ui.perfetto.dev\n"
    assert any(e["name"] == "double" for e in json.loads(out.read_text())["traceEvents"])
    program.write_text("import diffkern as dk\n1 / 0\n")
    assert command.main(["trace", "-o", str(out), str(program)]) == 1
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert command.main(["trace", str(tmp_path / "none.py")]) == 2
    assert command.main(["trace", "-o", str(tmp_path / "none" / "t.json"), str(program)]) == 2
