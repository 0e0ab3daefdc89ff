"""What an editor offers behind ``dk.``, and of an array, a kernel and a tape."""

from __future__ import annotations

import pytest
from conftest import require

import diffkern as dk


@pytest.fixture(scope="module")
def offered():
    require("jedi")
    import jedi

    def complete(line):
        text = f"import diffkern as dk\n{line}"
        found = jedi.Script(text, path=__file__).complete(2, len(line))
        return {completion.name: completion for completion in found}

    return complete


def test_every_public_name(offered):
    names = offered("dk.")
    packages = {"cuda", "jax", "optim", "testing", "types", "utils"}
    assert not ({*dk.__all__, "compile", "map"} | packages) - names.keys()
    for name in ("sin", "vec3", "launch", "array", "float32"):
        assert name in names
    assert "Sine." in names["sin"].docstring()


def test_of_what_functions_return(offered):
    assert {"numpy", "grad", "fill_", "sum", "astype"} <= offered("dk.zeros(3).").keys()
    assert {"backward", "gradients"} <= offered("dk.Tape().").keys()
