"""A built-in is what it is under every name that Python gives it: of the module, of an import, of another variable."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend.syntax.flow import UPDATES

SHAPE = (4, 4)
RNG = np.random.default_rng(0)
SPREAD = RNG.uniform(-1.0, 1.0, SHAPE)
MATRIX = (SPREAD @ SPREAD.T + 4.0 * np.eye(4)).astype(np.float32)

CALLS = {
    "tile_assign": "@tile_assign(t, s)",
    "tile_add_inplace": "@tile_add_inplace(t, s)",
    "tile_sub_inplace": "@tile_sub_inplace(t, s)",
    "tile_axpy": "@tile_axpy(0.5, s, t)",
    "tile_cholesky_inplace": "@tile_cholesky_inplace(t)",
    "tile_cholesky_solve_inplace": "@tile_cholesky_solve_inplace(@tile_cholesky(s), t)",
    "tile_lower_solve_inplace": "@tile_lower_solve_inplace(s, t)",
    "tile_upper_solve_inplace": "@tile_upper_solve_inplace(s, t)",
    "tile_matmul": "@tile_matmul(s, s, t)",
    "tile_sort": "row = @tile_load(x, shape=4)\n    n = @tile_arange(4, dtype=int)\n    @tile_sort(row, n)\n"
    "    t = t + @tile_broadcast(row, shape=SHAPE)",
    "tile_scatter_add": "@tile_scatter_add(t, 1, 2, 5.0, n > 1)",
    "tile_scatter_masked": "@tile_scatter_masked(t, 1, 2, 5.0, n > 1)",
    **{
        f"tile_{name}": "z = @tile_zeros(shape=4, dtype=@vec2)\n    z[1] = @vec2(2.0, 1.0)\n"
        f"    @tile_{name}(z)\n    t[0, 1] = z[1][1]"
        for name in ("fft", "ifft")
    },
    **{
        f"tile_bit_{name}_inplace": "b = @tile_ones(shape=4, dtype=int)\n"
        f"    @tile_bit_{name}_inplace(b, 1, 6)\n    t[0, 1] = float(b[1])"
        for name in ("and", "or", "xor")
    },
}
KERNEL = """{imports}
SHAPE = (4, 4)

@@kernel
def changed(a: @array(dtype=float, ndim=2), x: @array(dtype=float), y: @array(dtype=float, ndim=2), n: int):
    s = @tile_load(a, shape=SHAPE)
    t = s * 3.0
    {call}
    @tile_store(y, t)
"""
LOOP = KERNEL.replace("    {call}\n", "    for k in range(n):\n        if n > 1:\n            {call}\n")
MODULES = {"dk": "import diffkern as dk", "wp": "import diffkern as wp", "diffkern": "import diffkern"}


def result(tmp_path, text: str) -> np.ndarray:
    """What a kernel of such a text computes."""
    path = tmp_path / "module.py"
    path.write_text(text)
    names: dict[str, object] = {"__name__": f"module_{next(COUNT)}"}
    path = tmp_path / f"{names['__name__']}.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    y = dk.zeros(SHAPE, dtype=float)
    x = np.array([3.0, 1.0, 2.0, 0.0], np.float32)
    dk.launch_tiled(names["changed"], dim=[1], inputs=[MATRIX, x, y, 2], block_dim=32)
    return y.numpy()


COUNT = itertools.count()


def spelled(text: str, module: str) -> str:
    return text.replace("@@", "@\0").replace("@", f"{module}.").replace(f"{module}.\0", f"@{module}.")


def by_import(text: str, rename: str) -> str:
    """The text with every function imported by name, under its own or another one."""
    found = sorted(set(re.findall(r"@(\w+)", text)))
    line = "from diffkern import " + ", ".join(f"{name} as {name}{rename}" for name in found)
    body = text.replace("@@", "\0").replace("{imports}", line)
    return re.sub(r"@(\w+)", rf"\1{rename}", body).replace("\0kernel", f"@kernel{rename}")


def test_every_function_that_changes_a_tile_is_tried() -> None:
    assert CALLS.keys() == UPDATES.keys()


@pytest.mark.parametrize("shape", [KERNEL, LOOP], ids=["straight", "in a loop"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_functions_that_change_a_tile(tmp_path, name: str, shape: str) -> None:
    if "\n" in CALLS[name] and shape is LOOP:
        pytest.skip("a tile that is made in a branch is a variable of the branch")
    text = shape.replace("{call}", CALLS[name])
    expected = result(tmp_path, spelled(text.replace("{imports}", MODULES["dk"]), "dk"))
    for module, line in MODULES.items():
        found = result(tmp_path, spelled(text.replace("{imports}", line), module))
        np.testing.assert_array_equal(found, expected, err_msg=module)
    for rename in ("", "_renamed"):
        np.testing.assert_array_equal(result(tmp_path, by_import(text, rename)), expected, err_msg=rename)
    assert not np.array_equal(expected, 3.0 * MATRIX)


TID = """
{line}

@{module}kernel
def count(y: {module}array(dtype=int, ndim=2)):
    i, j = {tid}()
    y[i, j] = 10 * i + j
"""


@pytest.mark.parametrize(
    ("line", "module", "tid"),
    [
        ("import diffkern", "diffkern.", "diffkern.tid"),
        ("import diffkern as wp", "wp.", "wp.tid"),
        ("from diffkern import array, kernel, tid as index", "", "index"),
    ],
)
def test_tid_by_any_name(tmp_path, line: str, module: str, tid: str) -> None:
    path = tmp_path / "count.py"
    path.write_text(TID.format(line=line, module=module, tid=tid))
    names: dict[str, object] = {"__name__": "count"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    y = dk.zeros((2, 3), dtype=int)
    dk.launch(names["count"], dim=(2, 3), inputs=[y])
    assert y.numpy().tolist() == [[0, 1, 2], [10, 11, 12]]
