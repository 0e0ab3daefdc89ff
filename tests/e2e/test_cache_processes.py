"""The cache among real processes: one key everywhere, one build, no harm from damage, death or full disks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import diffkern
from diffkern.cache.entries import sweep
from diffkern.cache.lock import exclusive
from diffkern.cache.maintenance import artifacts
from diffkern.cache.store import LOCK_PREFIX, Store
from diffkern.shipping.ship import runnable_targets

PACKAGES = str(Path(diffkern.__file__).parents[1])
PROGRAM = """
import numpy as np
import diffkern as dk

SCALE = 0.5

def make(k, offset):
    def outer():
        @dk.func
        def inner(v):
            return k * v + offset
        return inner
    inner = outer()

    @dk.kernel
    def energy(x: dk.array(dtype=float), loss: dk.array(dtype=float)):
        i = dk.tid()
        dk.atomic_add(loss, 0, SCALE * inner(x[i]) * x[i])
    return energy

energy = make(2.0, 0.0)
x = dk.array(np.arange(5, dtype=np.float32), requires_grad=True)
loss = dk.zeros(1, requires_grad=True)
with dk.Tape() as tape:
    energy[5](x, loss)
tape.backward(loss)
print(x.grad.numpy().tolist())
"""
GRADIENT = "[0.0, 2.0, 4.0, 6.0, 8.0]"


def start(path, cache, **environment):
    env = {**os.environ, "DIFFKERN_CACHE_DIR": str(cache), "PYTHONPATH": PACKAGES, "DIFFKERN_VERBOSE": "1"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", path],
        env={**env, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(path, cache, **environment):
    """Return how many programs the process compiled; its gradient must be right."""
    out, err = start(path, cache, **environment).communicate()
    assert out.strip() == GRADIENT, err
    return err.count("compiled")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache directory that one process has filled."""
    place = tmp_path_factory.mktemp("filled")
    path = place / "program.py"
    path.write_text(PROGRAM)
    assert run(path, place / "cache", PYTHONHASHSEED="0") == 2
    shutil.copytree(place / "cache", place / "pristine")
    return place


@pytest.mark.parametrize("seed", ["1", "2", "3", "4", "5"])
def test_every_hash_seed_finds_the_same_keys(filled, seed):
    assert run(filled / "program.py", filled / "cache", PYTHONHASHSEED=seed) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i = dk.tid()", "i = dk.tid()  # the thread\n"),
        ("    def energy", "    # Half the energy.\n    def energy"),
        ("        i = dk.tid()", "        '''The energy.'''\n\n        i = dk.tid()"),
        ("import numpy as np", "\n\n\nimport numpy as np"),
        ("SCALE * inner(x[i]) * x[i]", "(SCALE\n            * inner(x[i]) * x[i])"),
        ("SCALE = 0.5", "HALF = 0.5\nSCALE = HALF"),
        ("make(k, offset)", "make(k, offset, unused=1)"),
    ],
)
def test_what_does_not_count(filled, tmp_path, old, new):
    assert old in PROGRAM
    path = tmp_path / "moved.py"
    path.write_text(PROGRAM.replace(old, new))
    assert run(path, filled / "cache") == 0


@pytest.mark.parametrize("old", ["(v):\n            return k * v"])
def test_names_count_because_the_generated_source_shows_them(filled, tmp_path, old):
    path = tmp_path / "renamed.py"
    path.write_text(PROGRAM.replace(old, old.replace("v", "w")))
    assert run(path, filled / "cache") == 2


def test_eight_cold_processes_build_once(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    processes = [start(path, tmp_path / "cache") for _ in range(8)]
    results = [process.communicate() for process in processes]
    assert [out.strip() for out, _ in results] == [GRADIENT] * 8, results
    assert sum(err.count("compiled") for _, err in results) == 2
    assert not [path for path in (tmp_path / "cache").rglob("*") if "lock" in path.name]


def test_flipped_and_cut_artifacts_are_built_again(filled, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(filled / "pristine", cache)
    kernels = sorted(cache.glob("??/*/kernel.o"))
    whole = {path: path.read_bytes() for path in kernels}
    assert len(whole) >= 2
    for path, data in whole.items():
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :])
    assert run(filled / "program.py", cache) == 2
    assert {path: path.read_bytes() for path in kernels} == whole
    for path, data in whole.items():
        path.write_bytes(data[: len(data) // 2])
        manifest = path.with_name("manifest.json")
        manifest.write_bytes(manifest.read_bytes()[:200])
    assert run(filled / "program.py", cache) == 2
    assert run(filled / "program.py", cache) == 0


WRITER = """
import sys
from pathlib import Path
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.contracts.manifest import Manifest
store = Store(Path(sys.argv[1]))
entry = StoredArtifact(b"x" * 20_000_000, ("f",), "source", Manifest(1, 1.0, (), title="big"))
print("ready", flush=True)
k = 0
while True:
    k += 1
    with store.building("ab%062d" % k):
        store.put("ab%062d" % k, entry)
    if k > 3:
        k = 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_that_is_killed_while_it_writes_does_no_harm(tmp_path):
    for delay in (0.02, 0.05, 0.11):
        env = {**os.environ, "PYTHONPATH": PACKAGES}
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path / "cache"], env=env, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(delay)
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        store = Store(tmp_path / "cache")
        for artifact in artifacts(tmp_path / "cache"):
            assert store.get(artifact.key) is not None
        # The dead process holds no lock.
        with exclusive(str(tmp_path / "cache" / f"{LOCK_PREFIX}ab{1:062d}"), 0.05) as held:
            assert held
    sweep(tmp_path / "cache", 0.0)
    assert not list((tmp_path / "cache").glob("??/.new-*"))


FULL = """
import errno, warnings
import diffkern.cache.store as store
def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")
store._new_directory = full
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
"""


def test_a_full_disk_costs_one_warning(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        FULL + "\n".join("    " + line for line in PROGRAM.splitlines()) + "\nprint(len(seen), seen[0].message)"
    )
    out, err = start(path, tmp_path / "cache").communicate()
    lines = out.splitlines()
    assert lines[0] == GRADIENT, err
    assert lines[1].startswith("1 cannot write to the artifact cache")
    assert "No space left" in lines[1]


SHIPPED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "sympy"):
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Blocked())
import diffkern as dk
library = dk.load(sys.argv[0] + ".out")
print(*library.targets)
"""
MODEL = """
import numpy as np
import diffkern as dk

@dk.kernel
def scale(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    y[i] = dk.sin(a * x[i])
"""
USE = """
x = dk.array(np.zeros(4, dtype=np.float32), requires_grad=True)
y = dk.zeros(4, requires_grad=True)
with dk.Tape() as tape:
    dk.launch(scale, dim=4, inputs=[x, y, 3.0])
tape.backward(grads={y: dk.ones(4)})
print(x.grad.numpy().tolist())
"""


def test_a_shipped_directory_needs_no_compiler_and_is_not_written(tmp_path):
    if not runnable_targets()[2:]:
        pytest.skip("no named target for this machine")
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    program = tmp_path / "program.py"
    program.write_text(SHIPPED + MODEL + USE)
    target = diffkern.shipping.ship.runnable_targets()[-1]
    out = Path(f"{program}.out")
    env = {**os.environ, "PYTHONPATH": PACKAGES}
    command = "import sys; from diffkern.cli.command import main; sys.exit(main())"
    subprocess.run(
        [sys.executable, "-c", command, "compile", model, "--target", target, "--out", out], env=env, check=True
    )
    before = sorted(out.rglob("*"))
    assert out.stat().st_mode & 0o777 == 0o755
    printed, err = start(program, tmp_path / "cache").communicate()
    assert printed.splitlines() == [target, "[3.0, 3.0, 3.0, 3.0]"], err
    assert "compiled" not in err
    assert sorted(out.rglob("*")) == before


def test_settings_of_the_environment(tmp_path):
    program = "import diffkern as dk; print(dk.config.num_threads, dk.config.verbose, dk.config.mode)"
    env = {**os.environ, "PYTHONPATH": PACKAGES, "DIFFKERN_NUM_THREADS": "3", "DIFFKERN_VERBOSE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "True", "release"]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, "DIFFKERN_MODE": "fast"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "not 'fast'" in done.stderr
