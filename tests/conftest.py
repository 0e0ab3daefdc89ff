"""Settings shared by all tests: a private artifact cache, hypothesis' profile, which markers run.

Random tests draw from a fixed seed (:mod:`support.seeds`), which is printed at the top of a run.
``DIFFKERN_FUZZ_SEED=N`` sets another one; ``DIFFKERN_FUZZ_EXAMPLES=N`` asks for N examples per property.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import shutil
import signal
import tempfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, core, settings

os.environ.setdefault("DIFFKERN_VERIFY_IR", "1")  # before diffkern is imported; processes of the tests inherit it

from support.fake_driver.driver import FakeDriver, fake_cuda
from support.rings import is_in_ring0, nothing_is_compiled
from support.seeds import run_seed
from support.selection import thin_out

from diffkern.cache.maintenance import artifacts
from diffkern.runtime.observe.config import config as runtime_config

DEFAULT_EXAMPLES = 12
LTO_LIMIT = 12
"""Matrix products that a run without ``--full`` may have libmathdx make: each takes some 20 seconds of a processor."""
_LTO_CODE = b"\xedCN\x7f"
_ROOM_IN_MEMORY = 4 << 30
"""Bytes; what a run keeps in its cache takes a tenth of it."""
_NEW_OBJECTS = 20_000
"""After which there is a collection of garbage. Each file of tests ends with one."""
FUZZ_EXAMPLES = int(os.environ.get("DIFFKERN_FUZZ_EXAMPLES", DEFAULT_EXAMPLES))

# Compiling takes longer than hypothesis' deadline allows, and a shared data base of failures would make a run depend
# on the ones before it.
settings.register_profile(
    "diffkern",
    max_examples=FUZZ_EXAMPLES,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("diffkern")
core.global_force_seed = run_seed()  # what --hypothesis-seed sets, which goes before


def pytest_report_header() -> str:
    """The seed of the random tests, at the top of a run."""
    return f"random tests draw from DIFFKERN_FUZZ_SEED={run_seed()}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked 'full'")
    parser.addoption("--part", metavar="K/N", help="only one of N parts of the tests, which is chosen by their names")
    parser.addoption("--ring0", action="store_true", help="only the tests that need no compiler and no process")
    parser.addoption("--lanes", choices=("on", "wide", "off"), help="threads in lanes wherever they can be, or nowhere")


def directory_in_memory() -> str | None:
    """Where files need no disk, if there is such a place with room: a disk may take 5 ms to delete an artifact."""
    place = Path("/dev/shm")
    usable = os.access(place, os.W_OK | os.X_OK) and shutil.disk_usage(place).free >= _ROOM_IN_MEMORY
    return str(place) if usable else None


def directory_of_run(config: pytest.Config, name: str) -> str:
    """A new directory, in memory where there is room, which is gone after the run."""
    directory = tempfile.mkdtemp(prefix=f"diffkern-test-{name}-", dir=directory_in_memory())
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
    return directory


def runs_programs(directory: str | None) -> bool:
    """Whether programs and libraries that tests make in a directory can be run, which its mount may forbid."""
    return directory is not None and not os.statvfs(directory).f_flag & os.ST_NOEXEC


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores Ctrl-C in what it starts in the background, and so would the tests of Ctrl-C and their children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (lanes := config.getoption("--lanes")) is not None:
        from support import lanes as lanes_of_tests

        os.environ[lanes_of_tests.VARIABLE] = lanes
        lanes_of_tests.force()
    # Making a matrix product takes minutes of processor time: tests that want one say so.
    os.environ["DIFFKERN_ENABLE_MATHDX_GEMM"] = "0"
    runtime_config.enable_mathdx_gemm = False
    # Every run begins with an empty cache, shared by its own workers, which inherit the environment.
    if not hasattr(config, "workerinput"):
        os.environ["DIFFKERN_CACHE_DIR"] = directory_of_run(config, "cache")
        # Without --basetemp, which keeps them, the files of tests need no disk either.
        if config.option.basetemp is None and runs_programs(directory_in_memory()):
            config.option.basetemp = Path(directory_of_run(config, "files"), "made")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do without collections of garbage while all that is made stays; later they are rare.

    Each also has XLA collect its own, once JAX was imported.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(_NEW_OBJECTS)


def products_made(directory: Path) -> list[str]:
    """The matrix products in a cache directory that libmathdx has made, not those that tests pretend."""
    kept = [a for a in artifacts(directory) if a.title.startswith("matrix product")]
    return [a.title for a in kept if any(f.read_bytes()[:4] == _LTO_CODE for f in a.place.iterdir() if f.is_file())]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Hold the tests of ring 0 to what they promise."""
    with nothing_is_compiled() if item.config.getoption("--ring0") else contextlib.nullcontext():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave what a file of tests has made out of later collections: fake drivers collect at each change."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput") or config.getoption("--full"):
        return
    made = products_made(Path(os.environ["DIFFKERN_CACHE_DIR"]))
    if len(made) > LTO_LIMIT:
        print(f"\n{len(made)} matrix products were made, {LTO_LIMIT} are allowed without --full:", *made, sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def require(*names: str) -> Any:
    """The first of the modules ``names``; skips the test, or the tests of the module, if one of them is not installed.

    With ``DIFFKERN_REQUIRE_ALL=1`` (continuous integration) nothing is skipped: the import fails.
    """
    find = importlib.import_module if os.environ.get("DIFFKERN_REQUIRE_ALL") == "1" else pytest.importorskip
    return next(iter([find(name) for name in names]), None)


def has_cuda_driver() -> bool:
    """Whether NVIDIA's driver library can be loaded and reports a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def fakes_gpu() -> bool:
    """Whether the GPU suite is to run on the fake driver, which shows that the suite works and nothing about a GPU.

    With ``DIFFKERN_FAKE_GPU=1`` launches run the CPU's programs, with ``ptx`` what a GPU would be given.
    """
    return os.environ.get("DIFFKERN_FAKE_GPU") in ("1", "ptx")


def keep_part(config: pytest.Config, items: list[pytest.Item], number: int, parts: int) -> None:
    """Leave part ``number`` of 0 to ``parts`` - 1."""
    chosen = {item for item in items if zlib.crc32(item.nodeid.encode()) % parts == number}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    thin_out(items)
    if (part := config.getoption("--part")) is not None:
        keep_part(config, items, *map(int, part.split("/")))
    if config.getoption("--ring0"):
        config.hook.pytest_deselected(items=[item for item in items if not is_in_ring0(item.nodeid)])
        items[:] = [item for item in items if is_in_ring0(item.nodeid)]
    if not config.getoption("--full"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full")])
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    if (lanes := config.getoption("--lanes")) is not None:
        for item in items:
            if (marker := item.get_closest_marker("lanes_choice")) is not None:
                (reason,) = marker.args
                item.add_marker(pytest.mark.skip(reason=f"--lanes {lanes}: {reason}"))
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if fakes_gpu():
        for item in gpu_items:
            if item.get_closest_marker("real_gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a real GPU"))
            else:
                item.fixturenames.insert(0, "two_devices")  # type: ignore[attr-defined]  # of a function
    elif gpu_items and not has_cuda_driver():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    """A fake CUDA driver with one device."""
    with fake_cuda() as made:
        yield made


@pytest.fixture
def two_devices() -> Iterator[FakeDriver]:
    """A fake CUDA driver with two devices."""
    with fake_cuda(devices=2, run="ptx" if os.environ.get("DIFFKERN_FAKE_GPU") == "ptx" else "cpu") as made:
        yield made
