"""Programs of Numba's users after one changed import: results as in numba's simulator, gradients as differences.

The simulator is chosen when numba is imported, so all programs run, unedited, in one child process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk

from .changed import PROGRAMS, changed
from .child import results
from .gradients import CASES, Case

require("numba.cuda")

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.fixture(scope="module")
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the results of the simulator, of the programs that tests of this run compare with."""
    items = [item for item in request.session.items if "simulated" in getattr(item, "fixturenames", ())]
    names = sorted({item.callspec.params["name"] for item in items})
    out = tmp_path_factory.mktemp("simulated")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "programs.child", str(out), *names]
    subprocess.run(command, cwd=Path(__file__).parents[1], env=environment, check=True)
    return out


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the changed programs."""
    return tmp_path_factory.mktemp("changed")


@pytest.mark.parametrize("place", ["cpu", "fake GPU"])
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_the_simulator(
    name: str, place: str, simulated: Path, programs: Path, request: pytest.FixtureRequest
) -> None:
    """On the CPU; and with a driver in host memory, on which all copies to the device and back are made."""
    failure = simulated / f"{name}.txt"
    assert not failure.exists(), failure.read_text(encoding="utf-8")
    with np.load(simulated / f"{name}.npz") as file:
        expected = [file[key] for key in file.files]
    driver = request.getfixturevalue("driver") if place == "fake GPU" else None
    found = results(changed(name, programs))
    assert driver is None or driver.launches
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in expected]
    for ours, theirs in zip(found, expected, strict=True):
        if theirs.dtype.kind == "f":
            small = 1e-5 if theirs.dtype == np.float32 else 1e-11
            np.testing.assert_allclose(ours, theirs, rtol=small, atol=small)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_central_differences(name: str, programs: Path) -> None:
    """Along two directions in the space of all inputs."""
    case = CASES[name]
    module = changed(case.program, programs)
    rng = np.random.default_rng(len(name))
    values = {key: 0.5 + rng.random(shape) for key, shape in case.shapes.items()}
    weights = rng.normal(size=case.out)
    gradients = adjoint(case, module, values, weights)
    assert any(np.any(gradient) for gradient in gradients.values())
    for _ in range(2):
        direction = {key: rng.normal(size=value.shape) for key, value in values.items()}
        ends = []
        for sign in (1.0, -1.0):
            moved = {key: value + sign * case.step * direction[key] for key, value in values.items()}
            ends.append(float((weights * forward(case, module, moved)).sum()))
        expected = (ends[0] - ends[1]) / (2.0 * case.step)
        along = sum(float((gradients[key] * direction[key]).sum()) for key in values)
        assert along == pytest.approx(expected, rel=case.tolerance, abs=case.tolerance)


def test_what_cannot_be_differentiated_is_refused(programs: Path) -> None:
    """A thread reads again what it wrote, at indices that are its own only because of the stride of its loop."""
    module = changed("softmax", programs)
    x, out = module.cuda.to_device(np.ones((2, 40))), module.cuda.to_device(np.zeros((2, 40)))
    x.requires_grad = out.requires_grad = True
    with dk.Tape() as tape:
        module.softmax[2, module.THREADS](x, out)
    with pytest.raises(dk.AutodiffError, match=r"softmax\.py:\d+: this reads out, which another thread"):
        tape.backward(grads={out: np.ones((2, 40))})


def forward(case: Case, module: Any, values: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    out = module.cuda.to_device(np.zeros(case.out))
    case.launches(module, {**{key: module.cuda.to_device(value) for key, value in values.items()}, "out": out})
    result: np.ndarray[Any, Any] = out.copy_to_host()
    return result


def adjoint(
    case: Case, module: Any, values: dict[str, np.ndarray[Any, Any]], weights: np.ndarray[Any, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    arrays = {key: module.cuda.to_device(value) for key, value in values.items()}
    for array in arrays.values():
        array.requires_grad = True
    out = module.cuda.to_device(np.zeros(case.out))
    out.requires_grad = True
    with dk.Tape() as tape:
        case.launches(module, {**arrays, "out": out})
    tape.backward(grads={out: weights})
    return {key: array.grad.numpy().copy() for key, array in arrays.items()}
