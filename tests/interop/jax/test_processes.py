"""Across processes: exported programs and JAX's persistent cache without tracing or numba; eight host devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import require

require("jax")

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def run(code: str, cache: Path, **more: str) -> Any:
    """Run code in a fresh process with a cache directory of its own; return what it prints as JSON."""
    code = textwrap.dedent(code)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))),
        "DIFFKERN_CACHE_DIR": str(cache),
        "JAX_PLATFORMS": "cpu",
        **more,
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


EXPORT = """
    import sys, json, jax, jax.numpy as jnp
    from jax import export
    import diffkern as dk, jax_kernels as k
    f = dk.jax_kernel(k.heat)
    loss = lambda x, c: (f(x, c)[0] ** 2).sum()
    both = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    checks = [export.DisabledSafetyCheck.custom_call("diffkern_call_1")]
    m, n = export.symbolic_shape("m, n")
    args = jax.ShapeDtypeStruct((m, n), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
    with open(PATH, "wb") as out:
        out.write(export.export(both, disabled_checks=checks)(*args).serialize())
    x = jnp.sin(jnp.arange(40 * 30, dtype=jnp.float32)).reshape(40, 30)
    value, (gx, gc) = both(x, 0.1)
    print(json.dumps([float(value), float((gx * x).sum()), float(gc)]))
"""

CALL = """
    import sys, json, jax, jax.numpy as jnp
    from jax import export
    import diffkern as dk
    known = dk.jax.register(DIR)
    program = export.deserialize(open(PATH, "rb").read())
    sizes = {}
    for m, n in ((40, 30), (3, 4), (500, 400)):
        x = jnp.sin(jnp.arange(m * n, dtype=jnp.float32)).reshape(m, n)
        value, (gx, gc) = program.call(x, jnp.float32(0.1))
        sizes[f"{m}x{n}"] = [float(value), float((gx * x).sum()), float(gc)]
    heavy = [name for name in ("numba", "diffkern.compiler.pipeline", "diffkern.frontend") if name in sys.modules]
    print(json.dumps({"sizes": sizes, "known": known, "heavy": heavy}))
"""


def test_exported_program_with_symbolic_shapes_runs_where_nothing_is_traced(tmp_path):
    cache, path = tmp_path / "cache", tmp_path / "program"
    expected = run(f"    PATH = {str(path)!r}" + EXPORT, cache)
    got = run(f"    PATH, DIR = {str(path)!r}, {str(cache)!r}" + CALL, tmp_path / "other")
    assert got["heavy"] == []
    assert got["known"] == 2
    assert got["sizes"]["40x30"] == pytest.approx(expected, rel=1e-4)
    # The others against JAX.
    import jax
    import jax.numpy as jnp

    def in_jax(x, c):
        inner = x[1:-1, 1:-1]
        new = inner + c * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * inner)
        return (new**2).sum()

    for m, n in ((3, 4), (500, 400)):
        x = jnp.sin(jnp.arange(m * n, dtype=jnp.float32)).reshape(m, n)
        value, (gx, gc) = jax.value_and_grad(in_jax, argnums=(0, 1))(x, 0.1)
        assert got["sizes"][f"{m}x{n}"] == pytest.approx([float(v) for v in (value, (gx * x).sum(), gc)], rel=1e-3)


@pytest.mark.full
def test_unknown_program_is_an_error_that_says_what_to_do(tmp_path):
    cache, path = tmp_path / "cache", tmp_path / "program"
    run(f"    PATH = {str(path)!r}" + EXPORT, cache)
    code = f"""
        import json, jax, jax.numpy as jnp
        from jax import export
        import diffkern as dk
        known = dk.jax.register({str(tmp_path)!r})
        program = export.deserialize(open({str(path)!r}, "rb").read())
        try:
            jax.block_until_ready(program.call(jnp.zeros((4, 4)), jnp.float32(0.1)))
        except Exception as error:
            print(json.dumps([known, str(error)]))
        else:
            print(json.dumps("no error"))
    """
    known, message = run(code, tmp_path / "other")
    assert known == 0
    assert "is not known in this process" in message
    assert "dk.jax.register()" in message


def test_persistent_cache(tmp_path):
    code = f"""
        import sys, json, jax, jax.numpy as jnp
        jax.config.update("jax_compilation_cache_dir", {str(tmp_path / "xla")!r})
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        hits = []
        jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
        import diffkern as dk, jax_kernels as k
        f = jax.jit(jax.value_and_grad(lambda x: (dk.jax_kernel(k.smooth)(x)[0] ** 2).sum()))
        value, gradient = f(jnp.arange(1000, dtype=jnp.float32))
        print(json.dumps([float(value), float(gradient.sum()), len(hits) > 0, "numba" in sys.modules]))
    """
    first = run(code, tmp_path / "cache")
    second = run(code, tmp_path / "cache")
    assert second[:2] == first[:2]
    assert second[2:] == [True, False]


def test_keys_are_the_same_in_every_process(tmp_path):
    code = """
        import json, jax, jax.numpy as jnp, diffkern as dk, jax_kernels as k
        from diffkern.interop.jax.registry import CPU as registry
        x = jnp.ones(4)
        jax.grad(lambda x: dk.jax_kernel(k.wave)(x, x, 1.0)[0].sum())(x)
        print(json.dumps(sorted(registry.descriptions)))
    """
    first = run(code, tmp_path / "one", PYTHONHASHSEED="1")
    second = run(code, tmp_path / "two", PYTHONHASHSEED="2")
    assert len(first) == 2
    assert first == second


def test_nothing_grows_with_calls(tmp_path):
    code = """
        import json, jax, jax.numpy as jnp, diffkern as dk, jax_kernels as k
        from diffkern.interop.jax.registry import CPU as registry
        registered = []
        original = jax.ffi.register_ffi_target
        jax.ffi.register_ffi_target = lambda *a, **kw: (registered.append(a), original(*a, **kw))
        f, x = dk.jax_kernel(k.wave), jnp.ones(100)
        g = jax.grad(lambda x, a: f(x, x, a)[0].sum())
        f(x, x, 1.0), g(x, 1.0)
        before = len(registry.descriptions), len(f._compiled)
        for i in range(10_000):
            f(x, x, float(i))
        for i in range(50):
            g(x, float(i))
        compiled = next(iter(f._compiled.values()))._cache_size()
        print(json.dumps([len(registered), before, [len(registry.descriptions), len(f._compiled)], compiled]))
    """
    registered, before, after, compiled = run(code, tmp_path)
    assert registered == 1
    assert before == after == [2, 1]
    assert compiled <= 2


@pytest.mark.full
def test_many_programs_are_all_found(tmp_path):
    code = """
        import json, jax.numpy as jnp, diffkern as dk, jax_kernels as k
        from diffkern.interop.jax.registry import CPU as registry
        functions = [dk.jax_kernel(k.scaled(n)) for n in range(80)]
        for _ in range(2):
            results = [float(f(jnp.ones(1))[0][0]) for f in functions]
        print(json.dumps([results, len(registry.descriptions), registry.slots()]))
    """
    results, count, slots = run(code, tmp_path)
    assert results == [float(n) for n in range(80)]
    assert count == 80
    assert slots >= 160


SHARDED = """
    import json, jax, jax.numpy as jnp, numpy as np
    from functools import partial
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    import diffkern as dk, jax_kernels as k
    assert jax.device_count() == 8
    mesh = Mesh(np.array(jax.devices()), ("data",))
    f = dk.jax_kernel(k.wave)
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    x = jnp.sin(jnp.arange(8 * 5000, dtype=jnp.float32))
    y = jnp.cos(jnp.arange(8 * 5000, dtype=jnp.float32))
    place = NamedSharding(mesh, P("data"))
    xs, ys = jax.device_put(x, place), jax.device_put(y, place)
    one = shard_map(lambda x, y, a: f(x, y, a)[0], mesh=mesh, in_specs=(P("data"), P("data"), P()), out_specs=P("data"))
    loss = lambda g: (lambda x, y, a: (g(x, y, a) ** 2).mean())
    reference = lambda x, y, a: jnp.sin(a * x) * y
    errors = {}
    def compare(name, a, b):
        pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b))
        errors[name] = max(float(abs(p - q).max() / (abs(q).max() + 1e-9)) for p, q in pairs)
    compare("value", jax.jit(one)(xs, ys, 2.0), reference(x, y, 2.0))
    expected = jax.grad(loss(reference), argnums=(0, 1, 2))(x, y, 2.0)
    got = jax.jit(jax.grad(loss(one), argnums=(0, 1, 2)))(xs, ys, 2.0)
    compare("gradient", got, expected)
    sharded = len(got[0].sharding.device_set)
    automatic = jax.jit(jax.grad(loss(lambda *z: f(*z)[0]), argnums=(0, 1, 2)))(xs, ys, 2.0)
    compare("automatic", automatic, expected)
    # The gradient inside the map, summed over the devices by hand.
    inside = shard_map(
        lambda x, y, a: jax.lax.psum(jax.grad(lambda a: (f(x, y, a)[0] ** 2).sum())(a), "data"),
        mesh=mesh, in_specs=(P("data"), P("data"), P()), out_specs=P(), CHECK=False,
    )
    compare("inside", jax.jit(inside)(xs, ys, 2.0) / x.size, expected[2])
    two, step = jnp.float32(2.0), jnp.float32(1.0)
    along = lambda g: (lambda x, y, a: jax.jvp(jax.grad(loss(g), argnums=(0, 2)), (x, y, a), (y, x, step)))
    compare("forward over reverse", jax.jit(along(one))(xs, ys, two), along(reference)(x, y, two))
    linear = lambda g: (lambda x, y, a: jax.linearize(lambda x, a: g(x, y, a), x, a)[1](y, step))
    compare("linearize", jax.jit(linear(one))(xs, ys, two), linear(reference)(x, y, two))
    print(json.dumps([errors, sharded]))
"""


def test_eight_devices(tmp_path):
    import inspect

    import jax

    function = getattr(jax, "shard_map", None)
    check = (
        "check_vma" if function is not None and "check_vma" in inspect.signature(function).parameters else "check_rep"
    )
    code = SHARDED.replace("CHECK", check)
    errors, sharded = run(code, tmp_path, XLA_FLAGS="--xla_force_host_platform_device_count=8")
    assert max(errors.values()) < 1e-4, errors
    assert sharded == 8


def test_without_the_native_pool(tmp_path):
    code = """
        import json, jax, jax.numpy as jnp, diffkern as dk, jax_kernels as k
        from diffkern.runtime.native import pool
        pool.functions().clear()
        x = jnp.sin(jnp.arange(100_000, dtype=jnp.float32))
        f = lambda x: (dk.jax_kernel(k.smooth)(x)[0] ** 2).sum()
        value, gradient = jax.value_and_grad(f)(x)
        batch = jax.vmap(f)(x.reshape(100, 1000))
        print(json.dumps([float(value), float(gradient.sum()), float(batch.sum())]))
    """
    with_pool = run(code.replace("pool.functions().clear()", "pass"), tmp_path)
    assert run(code, tmp_path) == pytest.approx(with_pool, rel=1e-5)


def test_without_jax_installed(tmp_path):
    code = """
        import sys, json
        sys.modules["jax"] = None
        import diffkern as dk
        import jax_kernels as k
        try:
            dk.jax_kernel(k.wave)
        except ImportError as error:
            print(json.dumps(str(error)))
    """
    assert 'pip install "diffkern[jax]"' in run(code, tmp_path)


def test_after_a_fork(tmp_path):
    code = """
        import json, os, warnings, jax, jax.numpy as jnp, numpy as np, diffkern as dk, jax_kernels as k
        warnings.simplefilter("ignore")
        from diffkern.interop.jax.registry import CPU as registry
        registry.start()
        child = os.fork()
        if child == 0:
            x = jnp.sin(jnp.arange(100_000, dtype=jnp.float32))
            y = dk.jax_kernel(k.smooth)(x)[0]
            os._exit(0 if bool(jnp.isfinite(y).all()) else 1)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    """
    assert run(code, tmp_path) == 0
