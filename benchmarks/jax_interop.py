"""Compare kernels in JAX on the CPU with JAX's own operations and with NVIDIA Warp's ``jax_kernel``, in one run.

In: nothing but the command line. Out: a table of ratios (and a JSON file). All three compute ``sin(a * x) * y`` and its
gradient on the same arrays in one process; results are compared before anything is timed, and the readings alternate.
A call is timed until its result is there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax_kernels
import numpy as np
from harness import (
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
    version_of,
)

SIZES = {1_000: 500, 1_000_000: 20}
SCALE = 1.5


def work_of(name: str, function: Callable[..., Any], args: Sequence[Any], calls: int) -> Work:
    """Return a call as a piece of work."""
    import jax

    out: list[Any] = []

    def run() -> None:
        out[:] = [jax.block_until_ready(function(*args))]

    def results() -> dict[str, Any]:
        return {str(k): np.asarray(v) for k, v in enumerate(jax.tree.leaves(out))}

    return Work(name, run, results=results, calls=calls)


def cases(dk: Any, wp: Any, n: int, calls: int) -> list[tuple[str, Work, Work, Target]]:
    """Return the cases of one size."""
    import jax
    import jax.numpy as jnp

    own = dk.jax_kernel(jax_kernels.make(dk))
    kernel = jax_kernels.make(wp)
    peer, smooth_peer = wp.jax_kernel(kernel), wp.jax_kernel(kernel, enable_backward=True)
    x, y = jnp.linspace(-1.0, 2.0, n, dtype=jnp.float32), jnp.linspace(1.0, 3.0, n, dtype=jnp.float32)

    def native(x: Any, y: Any) -> Any:
        return jnp.sin(SCALE * x) * y

    forms: dict[str, Callable[..., Any]] = {
        "diffkern": lambda x, y: own(x, y, SCALE)[0],
        "jax": native,
        "warp": lambda x, y: peer(x, y, SCALE)[0],
    }
    smooth = {**forms, "warp": lambda x, y: smooth_peer(x, y, SCALE)[0]}

    def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
        return jax.jit(jax.grad(lambda x, y: (f(x, y) ** 2).mean(), argnums=(0, 1)))

    jitted = {name: work_of(name, jax.jit(f), (x, y), calls) for name, f in forms.items()}
    # Eager: JAX's primitive is one operation of the same shape.
    # A call of Warp's outside jit takes about a tenth of a second.
    eager = {name: work_of(name, forms[name], (x, y), calls) for name in ("diffkern", "warp")}
    eager["warp"] = replace(eager["warp"], calls=3)
    primitive = work_of("jax", jnp.sin, (x,), calls)
    gradients = {name: work_of(name, gradient(f), (x, y), calls) for name, f in smooth.items()}
    label = f"n={n}"
    return [
        (f"jitted, {label}", jitted["diffkern"], jitted["jax"], Target(at_most=1.2)),
        (f"jitted, {label}", jitted["diffkern"], jitted["warp"], Target(at_most=0.25) if n == 1_000 else Target()),
        (f"eager, {label}", eager["diffkern"], primitive, Target(at_most=1.5)),
        (f"eager, {label}", eager["diffkern"], eager["warp"], Target(at_most=0.02) if n == 1_000 else Target()),
        (f"jitted gradient, {label}", gradients["diffkern"], gradients["jax"], Target()),
        (
            f"jitted gradient, {label}", gradients["diffkern"], gradients["warp"],
            Target(at_most=0.25) if n == 1_000 else Target(),
        ),
    ]  # fmt: skip


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    pairs = rounds_of(arguments, 21, 5)
    facts = {**machine(), "jax": version_of("jax")}
    print_machine(facts)
    warp = load_peer()
    diffkern: Any = importlib.import_module("diffkern")
    rows: list[Row] = []
    for n, calls in SIZES.items():
        for name, top, bottom, target in cases(diffkern, warp, n, calls):
            if arguments.only not in name:
                continue
            if "eager" not in name or bottom.name != "jax":
                check_agreement(top, bottom, 1e-5)
            rows.append(measure_pair(name, top, bottom, target, pairs))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
