"""The published Numba and JAX versions of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .checkout import Published, without_jit

Array = np.ndarray[Any, Any]


def close(found: Array, expected: Array, tolerance: float) -> bool:
    """Tell whether two results agree, relative to the largest element."""
    if found.shape != expected.shape:
        return False
    scale = float(np.max(np.abs(expected), initial=0.0)) or 1.0
    return float(np.max(np.abs(found - expected), initial=0.0)) <= tolerance * scale


def numba_version(
    program: Published, inputs: dict[str, Any], expected: list[Array], *, parallel: bool, missing: list[str]
) -> tuple[Callable[[], None], Callable[[], Any]] | None:
    """Return how the best published Numba version is prepared and run, or None if none gives NumPy's results.

    With several processors the version for parallel arrays is taken, if there is one and it is right, and otherwise the
    serial one.
    """
    wanted = ("_numba_np", "_numba_npr", "_numba_op", "_numba_n", "_numba_o") if parallel else ("_numba_n", "_numba_o")
    for suffix in wanted:
        try:
            function = program.function(suffix)
            found = program.results(function, inputs)
        except FileNotFoundError:
            continue
        except Exception as reason:  # whatever the published version raises
            missing.append(f"numba{suffix[6:]} fails: {type(reason).__name__}")
            continue
        if len(found) < len(expected) or not all(
            close(a, b, 1e-3 if b.dtype == np.float32 else 1e-6) for a, b in zip(found, expected, strict=False)
        ):
            missing.append(f"numba{suffix[6:]} gives other results than NumPy")
            continue
        originals = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        working = {name: value.copy() for name, value in originals.items()}
        arguments = tuple({**inputs, **working}.values())

        def prepare(working: dict[str, Array] = working, originals: dict[str, Array] = originals) -> None:
            for name, value in working.items():
                value[...] = originals[name]

        return prepare, lambda function=function, arguments=arguments: function(*arguments)  # type: ignore[misc]
    return None


class JaxGradient:
    """The value and gradient of a weighted sum of the results of the published JAX version.

    Integers are constants of the traced program, as reverse mode needs known trips.
    """

    def __init__(
        self, program: Published, inputs: dict[str, Any], wrt: tuple[str, ...], expected: list[Array], weights: Any
    ) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        function = program.function("_jax")
        bare = without_jit(function)
        names = list(inputs)
        constants = {n: v for n, v in inputs.items() if not isinstance(v, np.ndarray)}
        self.wrt = wrt
        self.arrays = {n: jax.numpy.asarray(v) for n, v in inputs.items() if isinstance(v, np.ndarray)}

        def flat(arrays: dict[str, Any]) -> list[Any]:
            merged = {**constants, **arrays}
            found = bare(*(merged[n] for n in names))
            return list(found) if isinstance(found, tuple) else [found]

        values = [np.asarray(v) for v in jax.jit(flat)(self.arrays)]
        places = []
        for k, want in enumerate(expected):
            if weights[k] is None:
                continue
            same = [j for j, v in enumerate(values) if close(v, want, 1e-3 if want.dtype == np.float32 else 1e-6)]
            if not same:
                raise ValueError(f"its result {k} is missing or differs from NumPy's")
            places.append((k if k in same else same[0], jax.numpy.asarray(weights[k])))

        def weighted(active: dict[str, Any], others: dict[str, Any]) -> Any:
            results = flat({**others, **active})
            return sum(jax.numpy.vdot(w, results[j]).real for j, w in places)

        self.function = jax.jit(jax.value_and_grad(weighted))
        self.active = {n: self.arrays[n] for n in wrt}
        self.others = {n: v for n, v in self.arrays.items() if n not in wrt}
        self.block = jax.block_until_ready
        self.run()

    def run(self) -> Any:
        """Compute value and gradient, and wait for both."""
        return self.block(self.function(self.active, self.others))

    def gradient(self) -> list[Array]:
        """Return the gradient in diffkern's convention: conjugated for complex arguments."""
        grads = self.run()[1]
        return [np.conj(np.asarray(grads[n])) for n in self.wrt]
