"""``import warp`` gives diffkern.warp to packages that know nothing of diffkern."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def run(program: str, *, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, cwd=at
    )


def test_a_package_that_imports_warp(tmp_path: Path) -> None:
    (tmp_path / "published.py").write_text(
        textwrap.dedent("""
            import warp as wp
            import warp.types
            from warp._src.types import Vector
            from warp.optim import Adam


            @wp.kernel
            def square(x: wp.array(dtype=float)):
                i = wp.tid()
                x[i] = x[i] * x[i]
        """)
    )
    done = run(
        """
        from diffkern.warp import finder

        finder.install()
        finder.install()
        import published
        import diffkern.warp
        import warp as wp
        import diffkern.warp.types

        assert wp is diffkern.warp and published.warp.types is diffkern.warp.types
        assert diffkern.warp.__spec__.name == "diffkern.warp" and wp.__name__ == "diffkern.warp"
        x = wp.array([3.0], dtype=float)
        wp.launch(published.square, dim=1, inputs=[x])
        print(x.numpy())
        try:
            import warp.nothing
        except ModuleNotFoundError as error:
            print(error.name, error)
        """,
        at=tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout == "[9.]\nwarp.nothing diffkern.warp has no module 'warp.nothing'\n"


def test_warp_that_is_imported_stays(tmp_path: Path) -> None:
    (tmp_path / "warp.py").write_text("")
    done = run(
        """
        import warp
        from diffkern.warp import finder

        try:
            finder.install()
        except RuntimeError as error:
            print(error)
        """,
        at=tmp_path,
    )
    assert (done.stdout, done.stderr) == (
        "warp is imported already: install the finder before the first import of it\n", "",
    )  # fmt: skip


def test_what_warp_no_longer_has_names_what_to_take() -> None:
    with pytest.raises(ModuleNotFoundError, match="take the package Newton"):
        importlib.import_module("diffkern.warp.sim")
