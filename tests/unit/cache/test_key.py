"""Keys depend on their fields and on nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from diffkern.cache.environment import compiler_digest, distribution_versions
from diffkern.cache.key import key

FIELDS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=5)


@given(FIELDS, FIELDS)
def test_different_fields_have_different_keys(a, b):
    assert (key(a) == key(b)) == (a == b)


def test_a_value_that_looks_like_further_fields():
    def written(label: bytes, value: bytes, lengths: tuple[bool, bool]) -> bytes:
        parts = (
            (len(x).to_bytes(8, "little") if wanted else b"") + x
            for x, wanted in zip((label, value), lengths, strict=True)
        )
        return b"".join(parts)

    apart = key([("a", b"x"), ("b", b"y")])
    for lengths in ((False, False), (False, True), (True, False), (True, True)):
        assert key([("a", b"x" + written(b"b", b"y", lengths))]) != apart
    assert key([("ab", b"x")]) != key([("a", b"bx")])


def test_the_key_of_a_known_sequence_never_changes():
    assert key([("types", b"float32"), ("", b"")]) == key(iter([("types", b"float32"), ("", b"")]))
    assert key([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert len(key([("a", b"b")])) == 64


def test_keys_do_not_depend_on_the_process():
    code = "from diffkern.cache.key import key; print(key([('a', b'b'), ('c', b'')]))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "012"
    }
    assert len(seen) == 1


def test_versions_are_those_of_the_installed_packages():
    from importlib.metadata import version

    found = dict(distribution_versions(("numpy", "llvmlite", "no_such_package")))
    assert found == {"numpy": version("numpy"), "llvmlite": version("llvmlite"), "no_such_package": "none"}


def test_the_compilers_digest_is_stable():
    assert compiler_digest() == compiler_digest()
    assert len(compiler_digest()) == 32
