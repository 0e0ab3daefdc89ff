"""``torch.autograd.Function`` written by hand around launches on a tape, as programs for Warp do."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import diffkern as dk
import diffkern.warp as wp


@wp.kernel
def square(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = wp.from_torch(x)
        ctx.y = wp.zeros(x.shape, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as ctx.tape:
            wp.launch(square, x.shape, inputs=[ctx.x], outputs=[ctx.y])
        return wp.to_torch(ctx.y)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.y.grad = wp.from_torch(gradient.contiguous())
        ctx.tape.backward()
        return wp.to_torch(ctx.x.grad)


def leaf() -> Any:
    return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


def test_the_gradient_of_a_leaf_is_added_once():
    w = leaf()
    Square.apply(w).sum().backward()
    assert w.grad.tolist() == [2, 4, 6]
    Square.apply(w).sum().backward()
    assert w.grad.tolist() == [4, 8, 12]


def test_a_tensor_that_pytorch_computed_hands_its_gradient_on():
    w = leaf()
    Square.apply(3 * w).sum().backward()
    assert w.grad.tolist() == [18, 36, 54]
    w = leaf()
    Square.apply(Square.apply(w)).sum().backward()
    assert w.grad.tolist() == [4, 32, 108]


def test_grad_leaves_the_field_of_the_leaf_alone():
    w = leaf()
    (gradient,) = torch.autograd.grad(Square.apply(w).sum(), w)
    assert gradient.tolist() == [2, 4, 6]
    assert w.grad is None


def test_a_custom_operator_is_a_function_too():
    @torch.library.custom_op("diffkern_test::square", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        y = wp.zeros(x.shape, dtype=wp.float64)
        wp.launch(square, x.shape, inputs=[wp.from_torch(x), y])
        return wp.to_torch(y, requires_grad=False)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        own = wp.from_torch(x.detach(), grad=torch.zeros_like(x))
        y = wp.zeros(x.shape, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(square, x.shape, inputs=[own, y])
        tape.backward(grads={y: wp.from_torch(gradient.contiguous())})
        return wp.to_torch(own.grad)

    operator.register_autograd(backward, setup_context=save)
    w = leaf()
    operator(2 * w).sum().backward()
    assert w.grad.tolist() == [8, 16, 24]


class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        held, y = wp.from_torch(x), wp.zeros(x.shape, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(square, x.shape, inputs=[held, y])
        tape.backward(grads={y: wp.from_torch(gradient.contiguous())})
        return wp.to_torch(held.grad)


class Enabled(Square):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        with torch.enable_grad():
            return Square.forward(ctx, x).detach()


@pytest.mark.parametrize("function", [Recomputed, Enabled])
def test_arrays_that_are_made_in_backward_or_with_gradients_enabled(function: Any):
    w = leaf()
    function.apply(w).sum().backward()
    assert w.grad.tolist() == [2, 4, 6]
    w = leaf()
    function.apply(3 * w).sum().backward()
    assert w.grad.tolist() == [18, 36, 54]


def test_a_hook_of_a_leaf_sees_its_gradient():
    w, seen = leaf(), []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(wp.from_torch(p).grad.numpy().tolist()))
    Square.apply(w).sum().backward()
    assert seen == [[2, 4, 6]]


def test_the_gradient_is_shared_elsewhere():
    w = leaf()
    assert wp.from_torch(w).grad.ptr == w.grad.data_ptr()
    with torch.no_grad():
        assert wp.from_torch(w).grad.ptr == w.grad.data_ptr()
    with pytest.raises(TypeError, match="PyTorch keeps no gradient for a tensor that it computed"):
        wp.from_torch(2 * w)


def test_a_tape_takes_no_tensor_that_would_be_counted_twice():
    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = dk.zeros(x.shape, dtype=dk.float64, requires_grad=True)
            with dk.Tape():
                dk.launch(square, x.shape, [x, y])
            return dk.to_torch(y)

    with pytest.raises(TypeError, match=r"pass from_torch\(tensor\), an array with a gradient of its own"):
        Direct.apply(leaf())
    with pytest.raises(TypeError, match=r"pass from_torch\(tensor\), an array with a gradient of its own"):
        Direct.apply(2 * leaf())
    assert Direct.apply(leaf().detach()).tolist() == [1, 4, 9]
