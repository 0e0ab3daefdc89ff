"""Who decides whether a kernel may be differentiated: the kernel, else its module, else the configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelError
from diffkern.runtime import module_options
from diffkern.runtime.config import Config


def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    yield
    dk.config.enable_backward = True
    module_options._options.pop(__name__, None)


def gradient(kernel: dk.Kernel) -> float:
    x = dk.array(np.array([3.0], dtype=np.float32), requires_grad=True)
    y = dk.zeros(1, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=1, inputs=[x], outputs=[y])
    tape.backward(grads={y: dk.array(np.array([1.0], dtype=np.float32))})
    return float(x.grad.numpy()[0])


@pytest.mark.parametrize("own", [None, True, False])
@pytest.mark.parametrize("module", [None, True, False])
@pytest.mark.parametrize("everywhere", [True, False])
def test_the_nearest_says_it(own: bool | None, module: bool | None, everywhere: bool) -> None:
    kernel = dk.kernel(square) if own is None else dk.kernel(enable_backward=own)(square)
    dk.config.enable_backward = everywhere
    if module is not None:
        dk.set_module_options({"enable_backward": module})
    wanted = next(option for option in (own, module, everywhere) if option is not None)
    assert kernel.enable_backward is wanted
    if wanted:
        assert gradient(kernel) == 6.0
    else:
        with pytest.raises(KernelError, match="is not differentiated"):
            gradient(kernel)


def test_an_adjoint_that_exists_is_not_used_when_it_is_switched_off() -> None:
    kernel = dk.kernel(square)
    assert gradient(kernel) == 6.0
    dk.config.enable_backward = False
    with pytest.raises(KernelError, match=r"off for its module or in dk\.config"):
        gradient(kernel)


def test_options_are_those_of_the_module_named() -> None:
    dk.set_module_options({"enable_backward": False}, module=sys.modules[__name__])
    assert dk.get_module_options() == {"enable_backward": False}
    assert dk.get_module_options(sys) == {}


@pytest.mark.parametrize(("said", "meant"), [("", None), ("0", False), ("1", True)])
def test_the_environment_says_who_makes_products(
    monkeypatch: pytest.MonkeyPatch, said: str, meant: bool | None
) -> None:
    monkeypatch.setenv("DIFFKERN_ENABLE_MATHDX_GEMM", said)
    assert Config().enable_mathdx_gemm is meant


@pytest.mark.parametrize("options", [{"max_unroll": 4}, {"enable_backward": 1}])
def test_other_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"has no option|is True or False"):
        dk.set_module_options(options)
    assert dk.get_module_options() == {}
