"""Measures one program in one process, with as many processors as the process has."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.outside.results import Row

from .checkout import Published, published
from .own import Own
from .peers import JaxGradient, numba_version
from .ports import Port
from .ports_all import PORTS

Array = np.ndarray[Any, Any]
CHANGES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
ROUNDS, BUDGET = 15, 0.5


def relative(found: list[Array], expected: list[Array]) -> float:
    """Return the largest difference of any array, relative to the largest element of its array."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
        difference = float(np.max(np.abs(np.asarray(a) - b), initial=0.0)) / scale
        worst = max(worst, difference if np.isfinite(difference) else float("inf"))
    return worst


def weights_for(results: list[Array]) -> list[Array | None]:
    """Return random weights for the floating results, which make a loss of them; None for other results."""
    random = np.random.default_rng(7)
    found: list[Array | None] = []
    for result in results:
        if result.dtype.kind == "c":
            found.append(random.normal(size=result.shape) + 1j * random.normal(size=result.shape))
        else:
            found.append(random.normal(size=result.shape).astype(result.dtype) if result.dtype.kind == "f" else None)
    return found


def loss(results: list[Array], weights: list[Array | None]) -> float:
    """Return the weighted sum of the results."""
    return float(sum(np.vdot(w, r).real for r, w in zip(results, weights, strict=True) if w is not None))


def in_turn(prepared: dict[str, tuple[Callable[[], None], Callable[[], Any]]], quick: bool) -> dict[str, float]:
    """Time tools one after the other, round by round; return the median of each."""
    clock = time.process_time if one_processor() else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for number in range(4 if quick else ROUNDS):
        start = time.perf_counter()
        order = list(prepared.items())
        for name, (prepare, run) in order if number % 2 == 0 else reversed(order):
            prepare()
            begin = clock()
            run()
            times[name].append(clock() - begin)
        if number >= 3 and (time.perf_counter() - start) * number > BUDGET:
            break
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def one_processor() -> bool:
    """Tell whether the process may use one processor only."""
    return len(os.sched_getaffinity(0)) == 1


def directional(program: Published, port: Port, inputs: dict[str, Any], grads: list[Array], weights: Any) -> float:
    """Return the difference of the gradient from central differences of the NumPy version along a random direction.

    Of several step sizes the best counts; it is relative to the derivative.
    """
    random = np.random.default_rng(11)
    function = program.function("_numpy")
    direction = {}
    for name in port.wrt:
        value = inputs[name]
        step = random.normal(size=value.shape) * max(float(np.max(np.abs(value))), 1e-3)
        if value.dtype.kind == "c":
            step = step + 1j * random.normal(size=value.shape)
        direction[name] = step
    expected = sum(float(np.vdot(g, direction[name]).real) for g, name in zip(grads, port.wrt, strict=True))
    best = float("inf")
    for h in CHANGES:
        ends = [
            loss(
                program.results(function, {**inputs, **{n: inputs[n] + s * h * d for n, d in direction.items()}}),
                weights,
            )
            for s in (1.0, -1.0)
        ]
        found = (ends[0] - ends[1]) / (2.0 * h)
        best = min(best, abs(found - expected) / max(abs(expected), 1e-300))
        if best < 1e-7:
            break
    return best


def shaken(port: Port, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with the port's noise on those that have a gradient."""
    random = np.random.default_rng(5)
    noise = {n: port.noise * np.max(np.abs(inputs[n])) * random.normal(size=inputs[n].shape) for n in port.wrt}
    return {**inputs, **{name: inputs[name] + change for name, change in noise.items()}}


def checked(program: Published, port: Port, preset: str) -> float:
    """Return what :func:`directional` does, at the port's own place: other parameters, or inputs with noise."""
    inputs = shaken(port, program.inputs(preset, port.check))
    weights = weights_for(program.results(program.function("_numpy"), inputs))
    return directional(program, port, inputs, Own(port, inputs).taped_gradient(weights), weights)


def slower(seconds: dict[str, float], cause: str) -> str:
    """Return the cause where another tool is faster, and nothing elsewhere."""
    return cause if min(seconds.values()) < seconds["diffkern"] else ""


def measure(source: Path, name: str, preset: str, quick: bool) -> dict[str, Any]:
    """Return the rows of one program, and the tools that could not run, as data."""
    program, port = published(source, name), PORTS[name]
    inputs = program.inputs(preset)
    expected = program.results(program.function("_numpy"), inputs)
    own = Own(port, inputs)
    ending = "" if one_processor() else ", all threads"
    rows, missing = [], []
    forward = forward_row(program, own, inputs, expected, ending, quick, missing)
    rows.append(forward)
    if port.wrt:
        rows.append(gradient_row(program, own, inputs, expected, ending, preset, quick, missing))
    for row in rows:
        row.notes["preset"] = preset
    return {"rows": [asdict(row) for row in rows], "missing": missing}


def forward_row(
    program: Published,
    own: Own,
    inputs: dict[str, Any],
    expected: list[Array],
    ending: str,
    quick: bool,
    missing: list[str],
) -> Row:
    """Compare and time the program itself, beside its Numba version."""
    difference = relative(own.results(), expected)
    tools: dict[str, Any] = {}
    try:
        replay = own.recorded()
    except Exception as reason:  # a program that decides on the host is launched, not replayed
        missing.append(f"not recorded: {reason}")
        replay = own.run  # type: ignore[assignment]
    tools["diffkern"] = (own.prepare, replay)
    peer = numba_version(program, inputs, expected, parallel=bool(ending), missing=missing)
    if peer is not None:
        tools["numba"] = peer
    seconds = in_turn(tools, quick)
    return Row(
        own.port.name, f"forward{ending}", seconds, difference, "numpy", slower(seconds, own.port.cause["forward"])
    )


def gradient_row(
    program: Published,
    own: Own,
    inputs: dict[str, Any],
    expected: list[Array],
    ending: str,
    preset: str,
    quick: bool,
    missing: list[str],
) -> Row:
    """Compare and time the gradient with its forward, beside that of the JAX version."""
    port = own.port
    weights = weights_for(expected)
    taped = own.taped_gradient(weights)
    difference = (
        checked(program, port, preset)
        if port.noise or port.check
        else directional(program, port, inputs, taped, weights)
    )
    notes: dict[str, float | str] = {}
    tools: dict[str, Any] = {}
    try:
        replay, read = own.recorded_gradient(weights)
        own.prepare()
        replay()
        notes["replay against tape"] = relative(read(), taped)
    except Exception as reason:
        missing.append(f"gradient not recorded: {reason}")
        replay = lambda: own.taped_gradient(weights)  # type: ignore[assignment, return-value]  # noqa: E731
    tools["diffkern"] = (own.prepare, replay)
    try:
        jax = JaxGradient(program, inputs, port.wrt, expected, weights)
        found = jax.gradient()
        if not all(np.isfinite(g).all() for g in found):
            raise FloatingPointError("its gradient is not a number")
        notes["difference from jax"] = relative(taped, found)
        tools["jax"] = (lambda: None, jax.run)
    except Exception as reason:  # loops whose trips depend on a traced value have no reverse mode in JAX
        missing.append(
            f"jax has no gradient of its version: {type(reason).__name__}: {str(reason).partition(chr(10))[0][:200]}"
        )
    seconds = in_turn(tools, quick)
    return Row(
        port.name,
        f"gradient{ending}",
        seconds,
        difference,
        "differences",
        slower(seconds, port.cause["gradient"]),
        notes,
    )
