"""Compare kernels as functions of tensors with what one writes by hand for PyTorch, and with NVIDIA Warp's usual way.

In: nothing but the command line. Out: a table of ratios (and a JSON file). The tensors have 64 elements, so that the
times are those of calling: a call, and a call with its gradient. By hand means a ``torch.autograd.Function`` with the
same formula in PyTorch's operations, or one that launches the kernel and its adjoint; Warp's way is ``from_torch`` with
a tape. All run in one process on one thread of PyTorch, results are compared first, and readings alternate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch_kernels
from harness import (
    Results,
    Row,
    Target,
    Work,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_pair,
    options,
    print_machine,
    print_table,
    rounds_of,
    save_json,
)

import diffkern as dk

N = 64
CALLS = 1000


wave = torch_kernels.make(dk)


class Operations(torch.autograd.Function):
    """The same formula in PyTorch's operations."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, a: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.a = a
        return torch.sin(a * x) * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,), a = ctx.saved_tensors, ctx.a
        ax = a * x
        return g * (torch.cos(ax) * ax + torch.sin(ax)), None


class Launches(torch.autograd.Function):
    """The same kernel, launched by hand."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, a: float) -> torch.Tensor:
        y = torch.zeros_like(x)
        dk.launch(wave, dim=x.shape[0], inputs=[x.detach(), a], outputs=[y])
        ctx.save_for_backward(x, y)
        ctx.a = a
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, y = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        dk.launch(
            wave, dim=x.shape[0], inputs=[x.detach(), ctx.a], outputs=[y], adjoint=True,
            adj_inputs=[dk.from_torch(gradient), None], adj_outputs=[dk.from_torch(g.clone())],
        )  # fmt: skip
        return gradient, None


def works(name: str, call: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Work]:
    """Return the cases of one way to call."""
    x = torch.linspace(-2.0, 2.0, N).requires_grad_()
    given = torch.ones(N)
    kept: dict[str, torch.Tensor] = {}

    def forward() -> None:
        kept["y"] = call(x)

    def both() -> None:
        kept["y"] = y = call(x)
        (kept["gradient"],) = torch.autograd.grad(y, x, given)

    def result() -> Results:
        return {"y": kept["y"].detach().numpy()}

    def results() -> Results:
        return {**result(), "gradient": kept["gradient"].detach().numpy()}

    return {
        "call": Work(name, forward, results=result, calls=CALLS),
        "call and gradient": Work(name, both, results=results, calls=CALLS),
    }


def warp_works() -> dict[str, Work]:
    """Return what Warp's documentation shows: arrays made from the tensors, a tape, gradients in the tensors."""
    wp = load_peer()
    kernel = torch_kernels.make(wp)
    kept: dict[str, torch.Tensor] = {}
    tensor = torch.linspace(-2.0, 2.0, N).requires_grad_()

    def forward() -> None:
        x, y = wp.from_torch(tensor), wp.zeros(N, dtype=float, device="cpu")
        wp.launch(kernel, dim=N, inputs=[x, 0.7], outputs=[y], device="cpu")
        kept["y"] = wp.to_torch(y)

    def both() -> None:
        tensor.grad = None
        x, y = wp.from_torch(tensor), wp.zeros(N, dtype=float, device="cpu", requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=N, inputs=[x, 0.7], outputs=[y], device="cpu")
        y.grad.fill_(1.0)
        tape.backward()
        kept["y"], kept["gradient"] = wp.to_torch(y), tensor.grad

    def result() -> Results:
        return {"y": kept["y"].detach().numpy()}

    def results() -> Results:
        return {**result(), "gradient": kept["gradient"].detach().numpy()}

    return {
        "call": Work("warp", forward, results=result, calls=CALLS),
        "call and gradient": Work("warp", both, results=results, calls=CALLS),
    }


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    pairs = rounds_of(arguments, 21, 5)
    torch.set_num_threads(1)
    facts = {**machine(), "torch": torch.__version__}
    print_machine(facts)
    function = dk.torch_function(wave)
    own = works("torch_function", lambda x: function(x, 0.7))
    peers = [
        (works("operations by hand", lambda x: Operations.apply(x, 0.7)), Target(at_most=1.5)),
        (works("launches by hand", lambda x: Launches.apply(x, 0.7)), Target(at_most=1.5)),
        (warp_works(), Target()),
    ]
    rows: list[Row] = []
    for peer, target in peers:
        for case, top in own.items():
            label = f"{case}, {peer[case].name}"
            if arguments.only not in label:
                continue
            check_agreement(top, peer[case], 1e-5)
            rows.append(replace(measure_pair(case, top, peer[case], target, pairs), only=label))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
