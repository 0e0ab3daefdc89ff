"""Who decides whether a kernel may be differentiated: the kernel, else its module, else the configuration."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelError
from diffkern.optim import first_order, lbfgs
from diffkern.runtime.launch import module_options
from diffkern.runtime.observe.config import Config


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
    with pytest.raises(KernelError, match=r"off in dk\.config"):
        gradient(kernel)


@pytest.mark.parametrize("own", [None, False])
@pytest.mark.parametrize("module", [None, False])
def test_always_counts_more_than_kernels_and_modules(own: bool | None, module: bool | None) -> None:
    kernel = dk.kernel(square) if own is None else dk.kernel(enable_backward=own)(square)
    dk.set_module_options({"enable_backward": module})
    dk.config.enable_backward = "always"
    assert gradient(kernel) == 6.0
    dk.config.enable_backward = True
    assert kernel.enable_backward is (own is None and module is None)


def test_kernels_of_diffkern_itself_decide_for_themselves() -> None:
    dk.config.enable_backward = "always"
    own = [v for part in (first_order, lbfgs) for v in vars(part).values() if isinstance(v, dk.Kernel)]
    assert own
    assert not any(kernel.enable_backward for kernel in own)


@pytest.mark.parametrize("why", ["made with", "its module '.*test_enable_backward'", "off in dk.config"])
def test_the_refusal_names_the_way(why: str) -> None:
    kernel = dk.kernel(enable_backward=False)(square) if why == "made with" else dk.kernel(square)
    if why.startswith("its"):
        dk.set_module_options({"enable_backward": False})
    elif why.startswith("off"):
        dk.config.enable_backward = False
    with pytest.raises(KernelError, match=why) as refused:
        gradient(kernel)
    assert 'dk.config.enable_backward = "always"' in str(refused.value)
    assert refused.value.loc is not None
    assert refused.value.loc.line == square.__code__.co_firstlineno


class Package:
    """What published packages write at their top and in factories."""

    def __init__(self) -> None:
        self.globals = {"__name__": "published_package.solver"}
        module = wp.get_module("published_package.solver")
        module.options["enable_backward"] = False
        function = types.FunctionType(square.__code__, {**globals(), **self.globals}, "square")
        function.__module__, function.__annotations__ = self.globals["__name__"], square.__annotations__
        self.kernels = [
            wp.kernel(function),
            wp.kernel(function, enable_backward=False),
            wp.kernel(function, module="unique", module_options={"enable_backward": False}),
        ]


def test_packages_that_switch_it_off() -> None:
    package = Package()
    for kernel in package.kernels:
        with pytest.raises(KernelError, match=r"wp\.config\.enable_backward = \"always\""):
            gradient(kernel)
    wp.config.enable_backward = "always"
    assert [gradient(kernel) for kernel in package.kernels] == [6.0] * 3
    wp.config.enable_backward = 1
    assert wp.config.enable_backward is True
    assert not any(kernel.enable_backward for kernel in package.kernels)


@pytest.mark.parametrize(("said", "meant"), [("", True), ("0", False), ("1", True), ("always", "always")])
def test_the_environment_says_it(monkeypatch: pytest.MonkeyPatch, said: str, meant: bool | str) -> None:
    monkeypatch.setenv("DIFFKERN_ENABLE_BACKWARD", said)
    assert Config().enable_backward == meant


@pytest.mark.parametrize("value", ["never", None, 2])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="True, False or 'always'"):
        dk.config.enable_backward = value


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
