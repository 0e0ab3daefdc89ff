"""Keys depend on their fields and on nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import diffkern
import diffkern as dk
from diffkern.cache import environment
from diffkern.cache.environment import compiler_digest, distribution_versions
from diffkern.cache.key import key
from diffkern.compiler import specialize
from diffkern.compiler.specialize import Specialization
from diffkern.contracts.options import ATOMIC, GATHERING, PLAIN, SORTED, AdjointForm, KernelOptions, Variant
from diffkern.ir.types import FLOAT32, FLOAT64, Array
from diffkern.process import wheels

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
    known = key(iter([("types", b"float32"), ("", b"")]))
    assert known == "bf3304a91996e2b7dea9478bac25ea9a08575069d9e693159151a57ef3c17ddb"
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


def test_fields_are_told_apart():
    """Labels and values are hashed with their lengths: nothing moves from one to the next."""
    others = [
        [("ab", b"c")], [("a", b"bc")], [("abc", b"")], [("", b"abc")], [("a", b"b"), ("c", b"")],
        [("a", b""), ("b", b"c")], [("c", b"ab")], [("ab", b"c"), ("", b"")], [],
    ]  # fmt: skip
    assert len({key(fields) for fields in others}) == len(others)


ROOT = Path(diffkern.__file__).parent
# Messages, where libraries are found, locks, who waits for a compiler, memory: nothing that code depends on.
NO_SAY = {
    "errors.py", "process/__init__.py", "compiler/__init__.py", "process/wheels.py", "process/forks.py",
    "process/late.py", "process/interrupts.py", "process/tracebacks.py", "process/gc_policy.py",
}  # fmt: skip


def imported(path: Path) -> set[Path]:
    """The modules of this package that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("diffkern"):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("diffkern.")]
        for name in names:
            place = ROOT.joinpath(*name.split(".")[1:])
            found |= {p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file() and place != ROOT}
    return found


def compile_side() -> set[Path]:
    """What compiling needs, by its imports: all that :mod:`diffkern.compiler.compilation` reaches."""
    found, waiting = set(), [ROOT / "compiler" / "compilation.py"]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(path)
    return {path for path in found if path.relative_to(ROOT).as_posix() not in NO_SAY}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package, whose digest is taken instead."""
    copy = tmp_path / "diffkern"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(environment, "__file__", str(copy / "cache" / "environment.py"))
    return copy


def test_every_module_that_compiles_counts(package):
    digest = compiler_digest.__wrapped__
    before = digest()
    assert before == compiler_digest()
    modules = sorted(path.relative_to(ROOT) for path in compile_side())
    assert {path.parts[0] for path in modules} == {
        "ad", "analysis", "compiler", "contracts", "frontend", "ir", "lang", "lower", "opt", "printing", "process",
        "targets", "types.py", "vecmath",
    }  # fmt: skip
    for module in modules:
        path = package / module
        text = path.read_text()
        path.write_text(text + "#\n")
        assert digest() != before, module
        path.write_text(text)
    assert digest() == before


def test_names_and_tables_count_and_caches_do_not(package):
    digest = compiler_digest.__wrapped__
    before = digest()
    (package / "ir" / "ops" / "__pycache__").mkdir()
    (package / "ir" / "ops" / "__pycache__" / "tile.py").write_text("x = 1")
    (package / "runtime" / "array.py").write_text("")
    assert digest() == before
    (package / "opt" / "more.py").write_text("")
    added = digest()
    assert added != before
    (package / "opt" / "more.py").rename(package / "opt" / "most.py")
    assert digest() not in (before, added)
    (package / "opt" / "most.py").unlink()
    (package / "ad" / "rules" / "table.json").write_text("{}")
    assert digest() != before


def test_a_digest_is_kept_for_files_that_have_not_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "cache" / "environment.py"))
    (tmp_path / "ir" / "ops").mkdir(parents=True)
    (tmp_path / "types.py").write_text("x = 1")
    source = tmp_path / "ir" / "ops" / "row.py"
    source.write_text("a = 1")
    kept: dict[bytes, bytes] = {}
    monkeypatch.setattr(environment, "_memory", (kept.get, kept.__setitem__))
    digest = compiler_digest.__wrapped__
    first = digest()
    assert kept == {}  # a change at this moment might leave all times as they are
    monkeypatch.setattr(environment, "_STEP_S", -1e9)
    assert digest() == first
    assert [*kept.values()] == [first] * (os.name == "posix")
    kept.update(dict.fromkeys(kept, b"kept"))
    assert digest() == (b"kept" if os.name == "posix" else first)
    # A text of the same length and the old time of modification are noticed.
    status = source.stat()
    source.write_text("a = 2")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = digest()
    assert second not in (b"kept", first)
    source.unlink()
    assert digest() not in (b"kept", first, second)


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_link_to_nothing_hides_no_other_file(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "cache" / "environment.py"))
    folder = tmp_path / "ir"
    (folder / "ops").mkdir(parents=True)
    (tmp_path / "types.py").write_text("x = 1")
    sources = [*[folder / f"row{k}.py" for k in range(8)], folder / "ops" / "table.py"]
    for source in sources:
        source.write_text("a = 1")
    # Such links are the locks of an editor.
    for name in ".#0row.py", ".#row.py", "zz.py":
        (folder / name).symlink_to("me@host.123:456")
    digest = compiler_digest.__wrapped__
    found = {digest()}
    for source in sources:
        source.write_text("a = 2")
        found.add(digest())
    assert len(found) == 1 + len(sources)


def test_the_compilers_digest_is_that_of_any_process(tmp_path):
    code = "from diffkern.cache.environment import compiler_digest; print(compiler_digest().hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT.parent)},
            cwd=tmp_path, capture_output=True, check=True, text=True,
        ).stdout.strip()
        for seed in "01"
    }  # fmt: skip
    assert found == {compiler_digest().hex()}


@dk.kernel
def doubled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[dk.tid()] = x[dk.tid()] * 2.0


@dk.kernel
def tripled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[dk.tid()] = x[dk.tid()] * 3.0


def of(kernel=doubled, types=(), **variant):
    return Specialization(kernel.func, types or kernel.argument_types(), Variant(**variant)).fields()


def test_every_field_of_a_program_counts(monkeypatch):
    both = frozenset({0, 1})
    every = [
        of(), of(tripled), of(types=(Array(FLOAT64, 1), Array(FLOAT32, 1))),
        of(types=(Array(FLOAT32, 1), Array(FLOAT64, 1))), of(types=(Array(FLOAT32, 1, "A"), Array(FLOAT32, 1))),
        of(active=frozenset()), of(active=frozenset({0})), of(active=frozenset({1})), of(active=both),
        *(of(active=both, form=form) for form in (
            ATOMIC, GATHERING, SORTED, AdjointForm("stored"), *(PLAIN._replace(**{name: True}) for name in (
                "joint", "preserve_cotangents", "stamped",
            )),
        )),
        *(of(options=KernelOptions(**one)) for one in (
            {"fast_math": True}, {"lineinfo": True}, {"stack_bytes": 64}, {"launch_bounds": 64},
            {"launch_bounds": (64, 2)}, {"block_dim": 64},
        )),
        of(block_dim=128), of(mode="debug"), of(may_alias=False), of(library="wanted"), of(library="required"),
        of(by_reference=True),
    ]  # fmt: skip
    monkeypatch.setattr(specialize, "compiler_digest", lambda: b"another")
    every.append(of())
    assert len({specialize.artifact_key(fields, "native") for fields in every}) == len(every)
    # What has no say in the code, or comes to the same.
    assert of(options=KernelOptions(enable_backward=False, enable_mathdx_gemm=False)) == of()
    assert of(options=KernelOptions(block_dim=64)) == of(block_dim=64)
    assert of(options=KernelOptions(launch_bounds=64)) == of(options=KernelOptions(launch_bounds=[64, 0]))
    assert of(target="sm_90") == of()  # the target's own fields follow
    labels = [label for label, _ in every[0] if label != "compiler for GPUs"]
    assert len(labels) == len(every[0]) - 1
    for label in labels:  # each has a say of its own
        changed = [(name, value + b"!" if name == label else value) for name, value in every[0]]
        assert specialize.artifact_key(changed, "native") != specialize.artifact_key(every[0], "native")


def test_fields_of_options_and_variants_are_told_apart_by_their_names():
    told = [{f.name for f in fields(holder) if f.metadata.get("in_key", True)} for holder in (Variant, KernelOptions)]
    assert told[0].isdisjoint(told[1])


@pytest.mark.parametrize("holder", [Variant, KernelOptions])
def test_every_field_counts_unless_it_says_otherwise(holder):
    """What says otherwise stands elsewhere in the key, or has no say in the code."""
    elsewhere = {
        Variant: {"options", "target", "compiler"},
        KernelOptions: {
            "enable_backward", "mode", "deterministic", "enable_mathdx_gemm", "block_dim", "compiler", "fuse_fp",
            "log_searches", "race_free",
        },
    }  # fmt: skip
    seen = {Variant().key()}
    for field in fields(holder):
        variant, options = Variant(), KernelOptions()
        object.__setattr__(variant, "options", options)
        object.__setattr__(variant if holder is Variant else options, field.name, "another")
        if field.name == "options":
            continue
        assert (variant.key() not in seen) == (field.name not in elsewhere[holder]), field.name
        seen.add(variant.key())


def test_the_compiler_for_gpus_counts_for_them_alone():
    by_llvm, by_numba = of(), of(compiler="numba")
    assert specialize.artifact_key(by_llvm, "native") == specialize.artifact_key(by_numba, "native")
    for shipped in (False, True):
        keys = {specialize.artifact_key(fields, "sm_90", shipped) for fields in (by_llvm, by_numba)}
        assert len(keys) == 2


SETTINGS = {
    "native": ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"),
    "sm_90": ("DIFFKERN_NVRTC",),
}
VERSIONS = {
    "native": ("llvmlite", "numba"),
    "sm_90": ("llvmlite", "nvidia_nvvm", "nvidia_nvjitlink", "nvidia_libmathdx_cu13", "nvidia_cuda_nvrtc"),
}


def target_key(target):
    return key(specialize._target_fields.__wrapped__(target))


@pytest.mark.parametrize(("target", "name"), [(t, name) for t, names in SETTINGS.items() for name in names])
def test_what_the_environment_says_counts(monkeypatch, target, name):
    monkeypatch.delenv(name, raising=False)
    seen = [target_key(target)]
    for value in ("1", "2"):
        monkeypatch.setenv(name, value)
        seen.append(target_key(target))
    assert len(set(seen)) == 3


@pytest.mark.parametrize(("target", "name"), [(t, name) for t, names in VERSIONS.items() for name in names])
def test_versions_of_compilers_count(monkeypatch, target, name):
    before = target_key(target)

    def newer(names):
        return tuple((n, v + ".1" if n == name else v) for n, v in distribution_versions(names))

    monkeypatch.setattr(specialize, "distribution_versions", newer)
    assert target_key(target) != before


TOOLKIT = {
    "lib64/libnvJitLink.so.13.0.88": "lib64/libnvJitLink.so.13.1.5",
    "nvvm/lib64/libnvvm.so.4.0.0": "nvvm/lib64/libnvvm.so.4.1.0",
    "nvvm/libdevice/libdevice.10.bc": None,
}
TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH")


@pytest.mark.parametrize("variable", TOOLKIT_VARIABLES)
@pytest.mark.parametrize("file", TOOLKIT)
def test_a_toolkit_counts_where_it_is_used(monkeypatch, tmp_path, variable, file):
    """Without wheels the compilers are those of a toolkit, whose version no distribution tells."""
    for name in TOOLKIT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(wheels, "_SYSTEM", ())
    with_wheels = target_key("sm_90")
    place = tmp_path / file
    place.parent.mkdir(parents=True)
    place.write_bytes(b"one")
    monkeypatch.setenv(variable, str(place.parent if variable == "LD_LIBRARY_PATH" else tmp_path))
    assert target_key("sm_90") == with_wheels
    monkeypatch.setattr(specialize, "distribution_versions", lambda names: tuple((n, "none") for n in names))
    monkeypatch.setattr(wheels, "find", lambda name: None)
    seen = [target_key("sm_90")]
    place.write_bytes(b"another")
    seen.append(target_key("sm_90"))
    if TOOLKIT[file]:
        place.rename(tmp_path / TOOLKIT[file])
        seen.append(target_key("sm_90"))
    monkeypatch.delenv(variable)
    seen.append(target_key("sm_90"))
    assert len(set(seen)) == len(seen)


def test_wheels_of_an_older_cuda_count(monkeypatch):
    def installed(version):
        return lambda names: tuple((n, version if n.endswith("cu12") else "none") for n in names)

    monkeypatch.setattr(specialize, "distribution_versions", installed("12.8"))
    before = target_key("sm_90")
    monkeypatch.setattr(specialize, "distribution_versions", installed("12.9"))
    assert target_key("sm_90") != before


@pytest.mark.parametrize("k", [0, 1])
def test_the_processor_counts(monkeypatch, k):
    before = target_key("native")
    host = list(specialize._host_cpu())
    host[k] += "+more"
    monkeypatch.setattr(specialize, "_host_cpu", lambda: tuple(host))
    assert target_key("native") != before
