"""Functions of tensors keep what searches of their kernels find, and their gradients do not search again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.launch import packed
from tests.e2e import logged_search_kernels as kernels

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint

from diffkern.interop.torch.saved_for_backward import AutogradCall

N, M = 9, 7
RNG = np.random.default_rng(11)
X, Y, W = (torch.from_numpy(RNG.normal(size=shape)) for shape in ((N, 3), (M, 3), (N,)))
LOGGED = dk.kernel(kernels.argmin)
AGAIN = dk.kernel(kernels.argmin, log_searches=False)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of several are rounded in any order; and small launches keep logs as well."""
    before, dk.config.num_threads = dk.config.num_threads, 1
    least, packed.LEAST_WORK = packed.LEAST_WORK, 0.0
    yield
    dk.config.num_threads, packed.LEAST_WORK = before, least


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each gradient whether it was computed from a log."""
    found: list[bool] = []
    plain = AutogradCall.gradients

    def gradients(self: AutogradCall, *args: Any) -> Any:
        found.append(bool(self.log))
        return plain(self, *args)

    monkeypatch.setattr(AutogradCall, "gradients", gradients)
    return found


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-14)


def function(kernel: dk.Kernel) -> Any:
    return dk.torch_function(kernel, launch_dims=N)


def inputs() -> tuple[Any, Any]:
    return X.clone().requires_grad_(), Y.clone().requires_grad_()


def test_gradients_read_what_the_call_has_found(calls: list[bool]):
    expected, found = [], []
    for kernel, made in ((AGAIN, expected), (LOGGED, found)):
        x, y = inputs()
        d = function(kernel)(x, y)
        made += [d.detach(), *torch.autograd.grad(d, (x, y), W, retain_graph=True)]
        made += torch.autograd.grad(d, (x,), W)
        made += torch.autograd.grad(function(kernel)(x, y.detach()), (x,), W)
    for a, b in zip(found, expected, strict=True):
        same(a, b)
    assert calls == [False] * 3 + [True] * 3


def test_second_derivatives(calls: list[bool]):
    assert torch.autograd.gradgradcheck(function(LOGGED), inputs())
    assert torch.autograd.gradcheck(function(LOGGED), inputs())
    assert any(calls)


def test_a_checkpoint_searches_again_if_its_tensors_are_of_another_launch(calls: list[bool]):
    x, y = inputs()
    wanted = torch.autograd.grad(function(AGAIN)(x, y), (x, y), W)
    for reentrant in (False, True):
        found = torch.autograd.grad if not reentrant else None
        d = checkpoint(function(LOGGED), x, y, use_reentrant=reentrant)
        if found is None:
            d.backward(W)
            same(x.grad, wanted[0])
            same(y.grad, wanted[1])
        else:
            for a, b in zip(found(d, (x, y), W), wanted, strict=True):
                same(a, b)
    assert calls == [False, False, True]


def test_torch_func_searches_again(calls: list[bool]):
    wanted = torch.autograd.grad(function(AGAIN)(*(given := inputs())), given, W)
    found = torch.func.grad(lambda x, y: (function(LOGGED)(x, y) * W).sum(), argnums=(0, 1))(X, Y)
    for a, b in zip(found, wanted, strict=True):
        same(a, b)
    assert not any(calls)


def test_a_checkpoint_with_a_search_is_differentiated_twice():
    x, y = inputs()
    checkpoint(function(AGAIN), x, y, use_reentrant=False).backward(W)
    expected = [x.grad, y.grad]
    x, y = inputs()
    d = checkpoint(function(LOGGED), x, y, use_reentrant=False)
    d.backward(W, retain_graph=True)
    d.backward(W)
    for held, once in zip((x, y), expected, strict=True):
        same(held.grad, 2.0 * once)
