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


def test_the_finder_hands_that_on(tmp_path: Path) -> None:
    done = run(
        """
        import importlib.util
        from diffkern.warp import finder

        finder.install()
        try:
            import warp.sim
        except ModuleNotFoundError as error:
            print(error.name, "Newton" in str(error))
        import warp.torch
        print(importlib.util.find_spec("warp.torch").name, "from_torch" in dir(warp.torch))
        """,
        at=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("warp.sim True\ndiffkern.warp.torch True\n", "")


@pytest.mark.filterwarnings("always::DeprecationWarning")
def test_modules_of_older_releases_have_todays_names(capsys: pytest.CaptureFixture[str]) -> None:
    import diffkern.warp as wp
    from diffkern.warp.namespaces import OLDER

    for module, names in OLDER.items():
        older = importlib.import_module(f"diffkern.warp.{module}")
        assert older.__all__ == sorted(entry.rpartition("=")[2] for entry in names.split())
        for entry in names.split():
            now, _, then = entry.partition("=")
            if now == "StructInstance":
                continue
            assert getattr(older, then or now) is getattr(wp, now)
            said = f"wp.{module}.{then or now} is a name of older releases of Warp. Use wp.{now} instead."
            assert said in capsys.readouterr().err
    assert wp.torch is importlib.import_module("diffkern.warp.torch")
    with pytest.raises(AttributeError, match=r"wp\.context, a module of older releases of Warp, has no 'spam'"):
        wp.context.spam


def test_modules_of_older_releases_are_imported_as_such(tmp_path: Path) -> None:
    done = run(
        """
        from diffkern.warp import finder

        finder.install()
        import warp as wp
        import warp.torch
        import warp.jax_experimental.ffi
        from warp.context import Devicelike
        from warp.jax_experimental import jax_kernel

        print(warp.torch is wp.torch, warp.jax_experimental.ffi is wp.jax_experimental.ffi)
        print(Devicelike is wp.DeviceLike, jax_kernel is wp.jax_kernel)
        """,
        at=tmp_path,
    )
    assert done.stdout == "True True\nTrue True\n"
    assert done.stderr.count("is a name of older releases of Warp") == 2


def test_structs_are_instances_of_the_older_class() -> None:
    import diffkern.warp as wp

    @wp.struct
    class Ball:
        mass: float

    assert isinstance(Ball(), wp.codegen.StructInstance)
    assert not isinstance(Ball, wp.codegen.StructInstance)
    assert not isinstance(wp.vec3(), wp.codegen.StructInstance)
