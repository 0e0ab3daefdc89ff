"""Errors of the user's own code, and of wrong calls: as they are, or one error that says what there is."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelTypeError, MisuseError


class OwnError(Exception):
    """What only the user's code raises."""


class Failing:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __index__(self) -> int:
        raise self.error("of mine")

    __len__ = __int__ = __index__


@dk.kernel
def fill(x: dk.array(dtype=float), n: int):
    x[dk.tid()] = float(n)


X = dk.zeros(3, dtype=float)
CALLS: dict[str, Callable[[Any], Any]] = {
    "grid": lambda n: fill[n](X, 1),
    "one axis of a grid": lambda n: fill[(1, n)](X, 1),
    "argument": lambda n: fill[3](X, n),
    "launch": lambda n: dk.launch(fill, n, [X, 1]),
    "argument of launch": lambda n: dk.launch(fill, 3, [X, n]),
    "record": lambda n: dk.launch(fill, n, [X, 1], record_cmd=True),
    "block": lambda n: dk.launch(fill, 3, [X, 1], block_dim=n),
    "shape": dk.zeros,
    "one extent": lambda n: dk.zeros((2, n)),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_a_special_method_is_the_user_s(name: str) -> None:
    with pytest.raises(OwnError, match="of mine"):
        CALLS[name](Failing(OwnError))


@pytest.mark.parametrize("name", ["grid", "launch", "shape", "one extent"])
def test_a_type_error_too(name: str) -> None:
    with pytest.raises(TypeError, match="of mine"):
        CALLS[name](Failing(TypeError))


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "source": (lambda: fill.source(adjoint=True), r"'adjoint'; it has target\nhelp: write adjoint_source\(...\)"),
    "adjoint_source": (lambda: fill.adjoint_source(activ="x"), "no keyword argument 'activ'; it has active, target"),
    "report": (lambda: fill.report(target="cuda"), "no keyword argument 'target'; it has adjoint, active"),
    "ir": (lambda: fill.ir(forward=True), "no keyword argument 'forward'; it has adjoint, active"),
    "adjoint_report": (lambda: fill.adjoint_report(adjoint=True), "no keyword argument 'adjoint'; it has active"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_keyword_that_does_not_exist(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(MisuseError, match=message) as info:
        call()
    assert "report it" not in str(info.value)


def test_what_fails_inside_is_still_an_error_in_diffkern(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise TypeError("inside")

    monkeypatch.setattr(dk.Kernel, "_compilation", failing)
    with pytest.raises(dk.KernelError, match=r"inside.*\n.*report it"):
        fill.source()


ANNOTATIONS = [
    "dk.sin(float)",
    "dk.sin('a')",
    "dk.atan2(1.0)",
    "dk.length(object())",
    "dk.sin(1.0)",
    "nothing_known(3)",
]


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_an_annotation_that_calls_something_wrongly(annotation: str) -> None:
    def kernel(x):
        x[0] = 1.0

    kernel.__annotations__["x"] = annotation
    with pytest.raises(KernelTypeError, match="annotation") as info:
        dk.kernel(kernel)[1](X)
    error = info.value
    assert error.loc is not None
    assert error.loc.file.endswith("test_user_code.py")
    assert "".join(traceback.format_exception(error)).count("Traceback") == 1


@pytest.mark.parametrize("given", [(float,), ("a",), (1.0, 2.0), (), (np.zeros(2),)])
def test_a_built_in_function_that_is_called_wrongly(given: tuple[Any, ...]) -> None:
    with pytest.raises(KernelTypeError, match=r"dk\.sin is called with") as info:
        dk.sin(*given)
    assert info.value.__cause__ is None
