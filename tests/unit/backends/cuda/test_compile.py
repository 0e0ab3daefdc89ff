"""Kernels become cubins for every architecture, without a driver."""

from __future__ import annotations

import pytest
from conftest import require

import diffkern as dk
from diffkern import pipeline
from diffkern.backends import cuda
from diffkern.backends.cuda import toolchain
from diffkern.backends.cuda.cubin import resources

require("cuda.bindings.nvjitlink", "nvidia")

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


@dk.kernel
def spring(
    x: dk.array(dtype=dk.vec3),
    edges: dk.array(dtype=dk.vec2i),
    rest: dk.array(dtype=float),
    energy: dk.array(dtype=float),
):
    e = dk.tid()
    i, j = edges[e][0], edges[e][1]
    stretch = dk.length(x[i] - x[j]) - rest[e]
    dk.atomic_add(energy, 0, 0.5 * stretch * stretch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_forward_and_adjoint_become_cubins(arch: str) -> None:
    types = spring.argument_types()
    options = {"target": arch}
    forward = pipeline.build_forward(spring.func, types, "forward", options)
    adjoint = pipeline.build_adjoint(spring.func, types, frozenset({0, 2, 3}), "plain", "adjoint", options)
    for program, name in ((forward, b"forward"), (adjoint, b"adjoint")):
        assert program.object_code.startswith(b"\x7fELF")
        assert name in program.object_code
        assert program.symbols == (name.decode(),)
        assert program.manifest["target"] == arch


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_lto_code_links_to_the_same_kernel(arch: str) -> None:
    d = pipeline.adjoint_ir(spring.func, spring.argument_types(), frozenset({0, 2, 3}), {"target": arch})
    pipeline.use_atomics(d.fn, d.buffers)
    compiled = cuda.compile_function(d.fn, "adjoint", arch=arch)
    linked = toolchain.link([compiled.ltoir], arch, "adjoint")
    assert resources(linked).keys() == {"adjoint"}
    own, other = resources(compiled.cubin)["adjoint"], resources(linked)["adjoint"]
    assert other.stack_bytes == own.stack_bytes == 0
    assert other.parameter_bytes == own.parameter_bytes
    assert other.shared_bytes == own.shared_bytes
