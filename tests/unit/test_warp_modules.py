"""``wp.Module``: what identifies its programs, what it was loaded for; texts that identify types."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import pytest

import diffkern.warp as wp
from diffkern.warp._src.types import ARRAY_TYPE_INDEXED, ARRAY_TYPE_REGULAR, array_type_id, get_type_code

FACTOR = 2.0


@wp.func
def doubled(x: float) -> float:
    return 2.0 * x


@wp.func
def tripled(x: float) -> float:
    return 3.0 * x


CALLED = doubled


def scaled(x: wp.array[float]):
    i = wp.tid()
    x[i] = FACTOR * CALLED(x[i])


def generic(x: wp.array[Any]):
    x[0] = x[1]


def module_of(function: Any, name: str = "m", **options: Any) -> wp.Module:
    return wp.Kernel(function, module=wp.Module(name), options=options).module


def test_a_hash_follows_texts_constants_functions_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(scaled)
    gc.collect()  # the module keeps its kernel
    before = module.hash_module()
    assert before == module_of(scaled).hash_module() == module.get_module_hash()
    assert module.load("cpu").hash_module() == before
    found = {before, module_of(generic).hash_module(), module_of(scaled, launch_bounds=64).hash_module()}
    found |= {module_of(scaled, cluster_dim=2).hash_module(), module.get_module_hash(64)}
    for name, value in (("FACTOR", 3.0), ("CALLED", tripled)):
        with monkeypatch.context() as changed:
            changed.setitem(globals(), name, value)
            found.add(module.hash_module())
    with monkeypatch.context() as changed:
        changed.setattr(wp.config, "verify_fp", True)
        found.add(module.hash_module())
    module.options["optimization_level"] = 3
    found.add(module.hash_module())
    assert len(found) == 9
    del module.options["optimization_level"]
    assert module.hash_module() == before


def test_options_of_the_configuration_count_where_there_are_none() -> None:
    module, explicit = module_of(scaled), module_of(scaled, "explicit")
    explicit.options["mode"] = "debug"
    assert module.hash_module() != explicit.hash_module()
    before = wp.config.mode
    wp.config.mode = "debug"
    try:
        assert module.hash_module() == explicit.hash_module()
        options = module.resolve_options(wp.config, block_dim=32)
    finally:
        wp.config.mode = before
    assert (options["mode"], options["block_dim"]) == ("debug", 32)


def test_overloads_count() -> None:
    kernel = wp.Kernel(generic, module=wp.Module("g"))
    before = kernel.module.hash_module()
    wp.overload(kernel, [wp.zeros(2, dtype=wp.float64)])
    after = kernel.module.hash_module()
    wp.overload(kernel, [wp.array[wp.float64]])
    assert before != after == kernel.module.hash_module()
    assert len(kernel.overloads) == 1


def test_another_process_has_the_same_hash() -> None:
    text = "from unit.test_warp_modules import module_of, scaled; print(module_of(scaled).hash_module().hex())"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
    found = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == module_of(scaled).hash_module().hex()


def test_what_a_module_was_loaded_for() -> None:
    module = module_of(scaled)
    assert not module.execs
    module.load("cpu", block_dim=32)
    assert list(module.execs) == [(None, 32)]
    module.unload()
    assert not module.execs


@wp.struct
class Named:
    x: float


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (wp.bool, "b"), (int, "i4"), (wp.uint64, "u8"), (wp.float16, "f2"), (wp.bfloat16, "bf2"), (float, "f4"),
        (wp.vec3, "v3f4"), (wp.mat33d, "m33f8"), (wp.quat, "qf4"), (wp.transformd, "tf8"), (Any, "?"),
        (wp.array[Any], "a1?"), (wp.array2d[wp.vec3], "a2v3f4"), (wp.array(dtype=wp.vec3, ndim=2), "a2v3f4"),
        (wp.indexedarray[float], "ia1f4"), (wp.tile[float], "tr?f4"), (tuple[float, wp.vec3], "tpl2f4v3f4"),
        (tuple[wp.vec3, ...], "tpl2v3f4?"), (Named, "Named"),
    ],
    ids=str,
)  # fmt: skip
def test_texts_of_types(given: Any, code: str) -> None:
    assert get_type_code(given) == code


def test_what_is_no_type() -> None:
    for wrong in (5, (1, 2.0), str):
        with pytest.raises(TypeError, match="none that kernels have"):
            get_type_code(wrong)
    values = wp.zeros(3)
    assert array_type_id(values) == array_type_id(wp.array[float]) == ARRAY_TYPE_REGULAR
    seen = wp.indexedarray(values, [wp.array([0, 2], dtype=int)])
    assert array_type_id(seen) == array_type_id(wp.indexedarray[float]) == ARRAY_TYPE_INDEXED
    with pytest.raises(TypeError, match="is no array"):
        array_type_id(wp.vec3)


def test_what_programs_ask_of_a_struct() -> None:
    assert Named.cls is Named
    assert Named.key == "Named"
    assert (Named.vars["x"].label, Named.vars["x"].type) == ("x", float)
    assert not any(hasattr(Named(), name) for name in ("cls", "key", "vars"))

    @wp.struct
    class Clashing:
        key: int
        vars: wp.vec3

    made = Clashing()
    made.key = 3
    assert (made.key, Clashing.cls) == (3, Clashing)
    assert not hasattr(Clashing, "vars")
