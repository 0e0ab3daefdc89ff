"""Structs in cache keys: the same in every process and under every hash seed, different for every difference."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import diffkern as dk
from diffkern.compiler.specialize import Specialization, artifact_key
from diffkern.contracts.options import Variant

ROOT = Path(__file__).parents[3]

PROGRAM = """
import hashlib
import diffkern as dk
from diffkern.lang import definition_of
from diffkern.contracts.options import Variant
from diffkern.compiler.specialize import Specialization
from diffkern.cache.key import key
from diffkern.runtime.launch.arguments import bind
from diffkern.runtime.arrays.type_keys import type_of_key

@dk.struct
class Inner:
    {inner}

@dk.struct
class {name}:
    {fields}

@dk.struct
class Holder:
    items: dk.array(dtype={name})
    xs: dk.array(dtype=float)
    scale: float = {scale}

@dk.kernel
def k(items: dk.array(dtype={name}), s: {name}, h: Holder, out: dk.array(dtype=float)):
    i = dk.tid()
    made = Holder(items=h.items, xs=h.xs)
    items[i].a = s.a + h.items[i].a + h.xs[i] * made.scale
    out[i] = items[i].inner.n

items = dk.zeros(4, dtype={name})
xs = dk.zeros(8)[{cut}]
keys, _, _ = bind(k.name, k.parameters, [items, {name}(), Holder(items, xs), dk.zeros(4)])
types = tuple(type_of_key(text) for text in keys)
for active in (None, frozenset([0, 3])):
    fields = Specialization(k.func, types, Variant(active=active)).fields()
    assert not any(str(id(o)).encode() in v or hex(id(o)).encode() in v for _, v in fields for o in (items, {name}, k))
    assert not any(b"tmp" in v or b"__main__" in v for _, v in fields)
    print(key(fields))
"""
USUAL = {
    "inner": "n: float",
    "fields": "a: float; inner: Inner; k: int = 3",
    "name": "Item",
    "scale": "2.0",
    "cut": ":4",
}


def keys_of(directory, seed="0", **changed):
    directory.mkdir(exist_ok=True)
    path = directory / "program.py"
    path.write_text(PROGRAM.format(**{**USUAL, **changed}))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return keys_of(tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("seed", ["1", "2", "3", "12345", "4294967295", "random"])
def test_same_under_every_hash_seed_and_in_every_directory(tmp_path, usual, seed):
    assert keys_of(tmp_path / f"d{seed}", seed) == usual


@pytest.mark.parametrize(
    "changed",
    [
        {"fields": "inner: Inner; a: float; k: int = 3"},
        {"fields": "a: dk.float64; inner: Inner; k: int = 3"},
        {"fields": "a: float; inner: Inner; kk: int = 3"},
        {"fields": "a: float; inner: Inner; k: int = 3; more: float"},
        {"inner": "n: float; m: float"},
        {"name": "Thing"},
        {"scale": "2.0000002"},
        {"cut": "::2"},
    ],
    ids=["order", "type", "field name", "added", "nested", "struct name", "default", "layout of an array inside"],
)
def test_every_difference_counts(tmp_path, usual, changed):
    found = keys_of(tmp_path / "changed", **changed)
    assert len(found) == len(usual) == 2
    assert set(found).isdisjoint(usual)


def test_default_of_a_struct_that_no_kernel_makes_does_not_count(tmp_path, usual):
    assert keys_of(tmp_path / "same", fields="a: float; inner: Inner; k: int = 4") == usual


METHODS = """
import diffkern as dk

@dk.struct
class Inner:
    a: float
    def weighed(self):
        return {inner} * self.a

@dk.struct
class Outer:
    inner: Inner
    def weighed(self):
        return {outer} * self.inner.weighed()

@dk.kernel
def k(s, y: dk.array(dtype=float)):
    y[0] = s.weighed()

@dk.kernel
def of_elements(s, y: dk.array(dtype=float)):
    y[0] = s[0].weighed()
"""


def keys_with_methods(path, inner, outer, above="", mode="release"):
    """Keys of kernels whose parameters say nothing of the structs that they get."""
    path.write_text(METHODS.format(inner=inner, outer=outer).replace("    def", f"{above}    def"))
    spec = importlib.util.spec_from_file_location("structs_with_methods", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    y = dk.array(dtype=float)
    given = [(module.k, module.Outer), (module.of_elements, dk.array(dtype=module.Outer))]
    return [
        artifact_key(Specialization(k.func, k.argument_types(t, y), Variant(mode=mode)).fields(), "native")
        for k, t in given
    ]


def test_the_text_of_methods_of_what_is_passed_counts(tmp_path):
    texts = [("2.0", "3.0"), ("2.5", "3.0"), ("2.0", "3.5")]
    found = [keys_with_methods(tmp_path / f"{k}.py", *text) for k, text in enumerate(texts)]
    assert len({key for keys in found for key in keys}) == 6
    assert keys_with_methods(tmp_path / "again.py", *texts[0]) == found[0]


def test_the_lines_of_methods_count_in_debug_programs_alone(tmp_path):
    path = tmp_path / "lines.py"
    for mode, alike in (("release", True), ("debug", False)):
        before, after = (keys_with_methods(path, "2.0", "3.0", above, mode) for above in ("", "    # a comment\n"))
        assert (before == after) == alike
