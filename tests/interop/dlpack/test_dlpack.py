"""Arrays given away and taken by DLPack: memory, types, read-only flags, versions, lifetimes."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.runtime.memory import dlpack

NATIVE_TYPES = [
    dk.bool_, dk.int8, dk.int16, dk.int32, dk.int64, dk.uint8, dk.uint16, dk.uint32, dk.uint64, dk.float16, dk.float32,
    dk.float64,
]  # fmt: skip


@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Producer:
    """An object that speaks DLPack as NumPy does, in one of the two forms of the protocol."""

    def __init__(self, a: dk.array, version: tuple[int, int] | None = None) -> None:
        self.a, self.version = a, version

    def __dlpack__(self, **kwargs: object) -> object:
        if self.version is None and kwargs:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.a.__dlpack__(max_version=self.version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def held() -> int:
    gc.collect()
    return sum(type(thing) is dlpack._Export for thing in gc.get_objects())


@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
def test_numpy_sees_the_same_memory(dtype):
    a = dk.zeros((2, 3), dtype=dtype)
    there = np.from_dlpack(a)
    assert there.dtype == dtype.numpy
    assert there.shape == (2, 3)
    a.fill_(1)
    np.testing.assert_array_equal(there, np.ones((2, 3), dtype.numpy))
    assert there.ctypes.data == a.ptr


@pytest.mark.parametrize("version", [None, (1, 0), (1, 1), (0, 8)])
def test_arrays_come_back_as_they_went(version):
    a = dk.array(np.arange(24.0).reshape(2, 3, 4), dtype=dk.float64)
    back = dk.from_dlpack(Producer(a[:, ::2], version))
    assert back.shape == (2, 2, 4)
    assert back.strides == a[:, ::2].strides
    np.testing.assert_array_equal(back.numpy(), a.numpy()[:, ::2])
    back.fill_(-1.0)
    assert (a.numpy()[:, ::2] == -1.0).all()
    assert (a.numpy()[:, 1] != -1.0).all()


def test_negative_strides_and_empty_arrays():
    backwards = dk.array(np.arange(6, dtype=np.int32), copy=False)[::-2]
    np.testing.assert_array_equal(dk.from_dlpack(backwards).numpy(), [5, 3, 1])
    empty = dk.from_dlpack(dk.zeros((0, 3), dtype=dk.vec3))
    assert empty.shape == (0, 3, 3)


def test_components_are_the_last_axes():
    a = dk.array(np.arange(12, dtype=np.float32).reshape(2, 2, 3), dtype=dk.vec3)
    there = np.from_dlpack(a)
    assert there.shape == (2, 2, 3)
    back = dk.from_dlpack(there, dtype=dk.vec3)
    assert back.dtype == dk.vec3
    assert back.shape == (2, 2)
    single = dk.from_dlpack(there[0, 0], dtype=dk.vec3)
    assert single.shape == (1,)


def test_bfloat16_keeps_its_bits_and_its_name():
    a = dk.zeros(3, dtype=dk.bfloat16)
    a.fill_(1.5)
    back = dk.from_dlpack(a)
    assert back.dtype == dk.bfloat16
    np.testing.assert_array_equal(back.numpy(), a.numpy())


def test_read_only_memory_stays_read_only():
    frozen = np.arange(3, dtype=np.float32)
    frozen.flags.writeable = False
    a = dk.array(frozen, copy=False)
    with pytest.raises(BufferError, match="read-only"):
        a.__dlpack__()
    back = dk.from_dlpack(Producer(a, (1, 0)))
    np.testing.assert_array_equal(back.numpy(), frozen)
    with pytest.raises(ValueError, match="read-only"):
        back.fill_(0.0)
    with pytest.raises(dk.LaunchError, match="writes to it, and the array is read-only"):
        double[3](dk.ones(3), back)


def test_a_copy_is_another_memory_and_says_so():
    a = dk.ones(3)
    capsule = a.__dlpack__(copy=True, max_version=(1, 0))
    managed = dlpack._Versioned.from_address(dlpack._pointer(capsule, b"dltensor_versioned"))
    assert managed.flags == dlpack._COPIED
    back = dk.from_dlpack(capsule)
    back.fill_(7.0)
    assert (a.numpy() == 1.0).all()


def test_devices_and_streams_that_do_not_exist_are_refused():
    a = dk.ones(3)
    assert a.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(a.__dlpack__(dl_device=(1, 0)) and a).shape == (3,)
    with pytest.raises(BufferError, match="not on \\(2, 0\\)"):
        a.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="without a stream"):
        a.__dlpack__(stream=1)


def test_structs_and_odd_strides_are_refused():
    @dk.struct
    class Ball:
        position: dk.vec3
        mass: float

    with pytest.raises(BufferError, match="DLPack, which has no structs"):
        dk.zeros(2, dtype=Ball).__dlpack__()
    odd = np.zeros(2, dtype=np.dtype([("a", np.float64), ("b", np.float32)], align=False))["a"]
    with pytest.raises((BufferError, TypeError), match=r"strides|aligned"):
        dk.array(odd, copy=False).__dlpack__()


def test_pending_work_is_waited_for():
    x, y = dk.ones(4), dk.zeros(4)
    gate = threading.Event()
    stream = dk.Stream()
    stream.enqueue(gate.wait)
    dk.launch(double, dim=4, inputs=[x], outputs=[y], stream=stream)
    threading.Timer(0.05, gate.set).start()
    assert (np.from_dlpack(y) == 2.0).all()


def test_memory_lives_as_long_as_somebody_needs_it():
    before = held()
    a = dk.ones(1000)
    gone = weakref.ref(a)
    there = np.from_dlpack(a)
    del a
    assert gone() is not None
    assert (there == 1.0).all()
    assert held() == before + 1
    del there
    assert held() == before
    assert gone() is None


def test_a_capsule_that_nobody_takes_is_let_go():
    before = held()
    for version in (None, (1, 0)):
        capsule = dk.ones(10).__dlpack__(max_version=version)
        assert held() == before + 1
        del capsule
        assert held() == before


def test_a_capsule_is_taken_once():
    capsule = dk.ones(3).__dlpack__()
    first = dk.from_dlpack(capsule)
    with pytest.raises(TypeError, match="used before"):
        dk.from_dlpack(capsule)
    del capsule
    assert (first.numpy() == 1.0).all()


def test_deleter_runs_once_and_from_any_thread():
    a = dk.ones(3)
    calls = []

    @DELETER
    def counting(address):
        calls.append(threading.get_ident())
        own(address)

    capsule = a.__dlpack__()
    managed = dlpack._Managed.from_address(dlpack._pointer(capsule, b"dltensor"))
    own = DELETER(managed.deleter)
    managed.deleter = ctypes.cast(counting, ctypes.c_void_p).value
    box = [dk.from_dlpack(capsule)]
    del capsule
    gc.collect()
    assert not calls
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert len(calls) == 1


def test_deleter_without_the_lock():
    """A consumer in native code lets go from a thread that does not hold the interpreter's lock."""
    before = held()
    capsule = dk.ones(3).__dlpack__(max_version=(1, 0))
    address = dlpack._pointer(capsule, b"dltensor_versioned")
    dlpack._rename(capsule, b"used_dltensor_versioned")
    assert held() == before + 1
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(dlpack._Versioned.from_address(address).deleter)(address)
    assert held() == before


class Unwilling:
    """A consumer that fails while a temporary of its own holds the capsule."""

    def __init__(self, version: tuple[int, int] | None) -> None:
        self.version = version

    def lose(self, a: dk.array) -> None:
        np.from_dlpack(Producer(a, self.version))[10]

    def drop(self, a: dk.array) -> None:
        a.__dlpack__(max_version=self.version)[10]

    def fail(self, a: dk.array) -> None:
        raise KeyError(np.from_dlpack(Producer(a, self.version)).tolist()[10])


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize(("way", "error"), [("lose", IndexError), ("drop", TypeError), ("fail", IndexError)])
def test_letting_go_while_an_exception_is_on_its_way(version, way, error):
    """The exception arrives as it was, nothing leaks, and the next export goes on."""
    before = held()
    a = dk.ones(3)
    gone = weakref.ref(a)
    for _ in range(3):
        with pytest.raises(error) as caught:
            getattr(Unwilling(version), way)(a)
        assert caught.value.__context__ is None
        del caught
        assert held() == before
    assert (np.from_dlpack(a) == 1.0).all()
    del a
    gc.collect()
    assert gone() is None


def test_letting_go_runs_what_the_owner_does_at_its_end():
    """Finalizers run Python, and may give arrays away themselves, while the exception waits."""
    ended = []

    class Owner:
        def __del__(self) -> None:
            ended.append(float(np.from_dlpack(dk.ones(2)).sum()))

    a = dk.from_dlpack(Producer(dk.ones(3)))
    with pytest.raises(TypeError, match="subscriptable"):
        dlpack.export(a._data, a._element, Owner(), True, None)[0]
    assert ended == [2.0]


@pytest.mark.skipif(os.name == "nt", reason="the C library is another one")
def test_consumers_that_outlive_the_interpreter():
    """At exit the last consumers let go before, while and after the interpreter is taken apart."""
    program = """
import ctypes, numpy as np, threading, diffkern as dk
from diffkern.runtime.memory import dlpack
kept = [np.from_dlpack(dk.ones(3)) for _ in range(3)]
dlpack.kept = np.from_dlpack(dk.ones(3))
np.kept = np.from_dlpack(dk.ones(3))
capsule = dk.ones(3).__dlpack__()
threading.kept = dk.ones(3).__dlpack__(max_version=(1, 0))
address = dlpack._pointer(capsule, b"dltensor")
deleter = dlpack._Managed.from_address(address).deleter
dlpack._rename(capsule, b"used_dltensor")
# The C library calls it with its argument after the interpreter has gone.
ctypes.CDLL(None).__cxa_atexit(ctypes.c_void_p(deleter), ctypes.c_void_p(address), None)
print("end")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_newer_versions_and_foreign_types_are_refused_before_the_capsule_is_used():
    capsule = dk.ones(3).__dlpack__(max_version=(1, 0))
    managed = dlpack._Versioned.from_address(dlpack._pointer(capsule, b"dltensor_versioned"))
    managed.major = 2
    with pytest.raises(BufferError, match="version 2"):
        dk.from_dlpack(capsule)
    managed.major = 1
    managed.tensor.dtype.code = 5
    with pytest.raises(TypeError, match="code 5"):
        dk.from_dlpack(capsule)
    managed.tensor.dtype.code = 2
    managed.tensor.device_type = 8
    with pytest.raises(BufferError, match="device of kind 8"):
        dk.from_dlpack(capsule)
    managed.tensor.device_type = 1
    assert (dk.from_dlpack(capsule).numpy() == 1.0).all()
    with pytest.raises(TypeError, match="no DLPack capsule"):
        dk.from_dlpack(3)


def test_to_dlpack_is_what_old_libraries_take():
    assert (dk.from_dlpack(dk.to_dlpack(dk.full(3, 2.0))).numpy() == 2.0).all()
    assert dk.from_dlpack(np.arange(3)).dtype == dk.int64


def test_two_views_of_foreign_memory_are_one_on_a_tape():
    """Taken twice, the same memory is known to be the same, so its gradient is right."""
    owner = np.ones(3, np.float32)
    first, second = dk.from_dlpack(owner), dk.from_dlpack(owner)
    assert first._memory is second._memory


def test_objects_with_dlpack_are_arguments():
    y = dk.zeros(3)
    double[3](Producer(dk.ones(3), (1, 0)), y)
    assert (y.numpy() == 2.0).all()


# -- GPUs: a driver that keeps device memory in host memory --------------------------------------------------------


@pytest.fixture
def gpu():
    with fake_cuda() as driver:
        yield driver


class OnDevice:
    shape = (3,)
    dtype = "float32"
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (64, False), "version": 3}  # noqa: RUF012


def test_memory_of_another_device_is_refused_before_the_launch(gpu):
    y = dk.zeros(3, device="cpu")
    with pytest.raises(dk.LaunchError, match="'y'"):
        double[3](OnDevice(), y)
    assert (y.numpy() == 0.0).all()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_gpu_gives_its_address(gpu, version):
    a = dk.full((2, 3), 4.0, device="cuda:0")
    assert a.__dlpack_device__() == (2, 0)
    back = dk.from_dlpack(GpuProducer(a, version))
    assert back.device == a.device
    assert back.ptr == a.ptr
    assert back.shape == (2, 3)
    np.testing.assert_array_equal(back.numpy(), np.full((2, 3), 4.0, np.float32))


class GpuProducer(Producer):
    def __dlpack__(self, stream=None, **kwargs):
        assert stream is not None
        if self.version is None and kwargs:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.a.__dlpack__(stream=stream, max_version=self.version)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def test_streams_of_a_gpu(gpu):
    a = dk.ones(3, device="cuda:0")
    for stream in (None, 1, 2, -1):
        assert dk.from_dlpack(a.__dlpack__(stream=stream)).ptr == a.ptr
    with pytest.raises(BufferError, match="ambiguous"):
        a.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="not on"):
        a.__dlpack__(dl_device=(1, 0))
    copy = dk.from_dlpack(a.__dlpack__(copy=True))
    assert copy.ptr != a.ptr
    assert copy.device == a.device
