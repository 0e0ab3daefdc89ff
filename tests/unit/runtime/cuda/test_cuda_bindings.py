"""The driver over ``cuda.bindings``: what is called with what, and what comes of error codes."""

from __future__ import annotations

import ctypes
import inspect
import re
from enum import IntEnum
from types import SimpleNamespace

import pytest
from conftest import require

import diffkern as dk
from diffkern.runtime.cuda import bindings, condition
from diffkern.runtime.cuda.bindings import Bindings
from diffkern.runtime.cuda.driver import Driver


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910


class Api:
    """Stands for the module: every function succeeds and returns what a test says."""

    CUresult = Result
    CUdevice_attribute = CUfunction_attribute = CUmemPool_attribute = cuuint64_t = staticmethod(int)

    def __init__(self):
        self.calls, self.answers = [], {}

    def cuGetErrorName(self, code):
        return Result.CUDA_SUCCESS, code.name.encode()

    def cuGetErrorString(self, code):
        return Result.CUDA_SUCCESS, b"what it means"

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def called(*args):
            self.calls.append((name, args))
            return self.answers.get(name, (Result.CUDA_SUCCESS, 0x77))

        return called


@pytest.fixture
def api():
    return Api()


def test_launch_passes_all_parameters_as_one_buffer(api):
    seen = []

    def launch(*args):
        words = (ctypes.c_uint64 * 6).from_address(args[-1])
        assert (words[0], words[2], words[4]) == (1, 2, 0)  # pointer, size, end
        size = ctypes.c_uint64.from_address(words[3]).value
        seen.append((args[:-1], ctypes.string_at(words[1], size)))
        return (Result.CUDA_SUCCESS,)

    api.cuLaunchKernel = launch
    driver = Bindings(api)
    driver.launch(0x10, 7, 128, 1024, 0x20, b"12345678abcdefgh")
    driver.launch(0x10, 1, 32, 0, 0, bytearray(b"87654321"))
    assert seen[0] == ((0x10, 7, 1, 1, 128, 1, 1, 1024, 0x20, 0), b"12345678abcdefgh")
    assert seen[1] == ((0x10, 1, 1, 1, 32, 1, 1, 0, 0, 0), b"87654321")


def test_errors(api):
    driver = Bindings(api)
    api.answers["cuMemAllocAsync"] = (Result.CUDA_ERROR_INVALID_VALUE, None)
    with pytest.raises(dk.CudaError, match=r"cuMemAllocAsync failed: CUDA_ERROR_INVALID_VALUE \(1\): what it means"):
        driver.alloc(16, 0)
    api.answers["cuLaunchKernel"] = (Result.CUDA_ERROR_ILLEGAL_ADDRESS,)
    with pytest.raises(dk.CudaError, match="start a new process"):
        driver.launch(1, 1, 32, 0, 0, b"")


def test_functions_that_the_driver_does_not_have(api):
    def missing(*_):
        raise RuntimeError('Function "cuGraphAddNode_v2" not found')

    api.cuGraphDestroy = missing
    with pytest.raises(dk.CudaError, match='cuGraphDestroy: Function "cuGraphAddNode_v2" not found') as info:
        Bindings(api).graph_destroy(1)
    assert "install an NVIDIA driver for CUDA 13" in str(info.value)


def test_questions(api):
    driver = Bindings(api)
    api.answers["cuStreamQuery"] = (Result.CUDA_ERROR_NOT_READY,)
    assert driver.stream_query(5) is False
    api.answers["cuStreamQuery"] = (Result.CUDA_SUCCESS,)
    assert driver.stream_query(5) is True
    api.answers["cuEventQuery"] = (Result.CUDA_ERROR_ILLEGAL_ADDRESS,)
    with pytest.raises(dk.CudaError, match="cuEventQuery"):
        driver.event_query(5)
    api.answers["cuGraphExecUpdate"] = (Result.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, None)
    assert driver.graph_update(1, 2) is False
    api.answers["cuGraphExecUpdate"] = (Result.CUDA_SUCCESS, None)
    assert driver.graph_update(1, 2) is True
    api.answers["cuMemGetInfo"] = (Result.CUDA_SUCCESS, 5, 9)
    assert driver.memory_info() == (5, 9)
    api.answers["cuDeviceGetName"] = (Result.CUDA_SUCCESS, b"H200\0\0\0")
    assert driver.device_name(0) == "H200"
    api.answers["cuDeviceGetUuid"] = (Result.CUDA_SUCCESS, SimpleNamespace(bytes=bytes(range(16))))
    assert driver.device_uuid(0) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    api.answers["cuDeviceGetAttribute"] = (Result.CUDA_SUCCESS, 9)
    assert driver.target(0) == "sm_90"  # the nearest


@pytest.mark.parametrize(("pattern", "name"), [(b"\1", "D8"), (b"\1\2", "D16"), (b"\1\2\3\4", "D32")])
def test_fill(api, pattern, name):
    Bindings(api).fill(0x100, pattern, 10, 3)
    assert api.calls == [(f"cuMemset{name}Async", (0x100, int.from_bytes(pattern, "little"), 10, 3))]


def test_the_pool_keeps_a_part_of_the_memory(api):
    api.answers["cuDeviceTotalMem"] = (Result.CUDA_SUCCESS, 1000)
    api.answers["cuDeviceGetDefaultMemPool"] = (Result.CUDA_SUCCESS, 0x55)
    api.answers["cuMemPoolGetAttribute"] = (Result.CUDA_SUCCESS, 0)
    api.answers["cuMemPoolSetAttribute"] = (Result.CUDA_SUCCESS,)
    assert Bindings(api).primary_context(0) == 0x77
    assert ("cuMemPoolSetAttribute", (0x55, 4, 250)) in api.calls


@pytest.mark.parametrize(("before", "is_set"), [(0, True), (249, True), (250, False), (2**64 - 1, False)])
def test_what_the_pool_keeps_is_never_made_less(api, before, is_set):
    """It is the pool of the process, and another library may have said that it keeps everything."""
    api.answers["cuDeviceTotalMem"] = (Result.CUDA_SUCCESS, 1000)
    api.answers["cuMemPoolGetAttribute"] = (Result.CUDA_SUCCESS, before)
    api.answers["cuMemPoolSetAttribute"] = (Result.CUDA_SUCCESS,)
    Bindings(api).primary_context(0)
    assert any(name == "cuMemPoolSetAttribute" for name, _ in api.calls) is is_set


def test_capture_states(api):
    """Work for the default stream is refused while a blocking stream captures; an ended capture is noticed."""
    driver = Bindings(api)
    api.CUstreamCaptureStatus = SimpleNamespace(
        CU_STREAM_CAPTURE_STATUS_NONE=0, CU_STREAM_CAPTURE_STATUS_ACTIVE=1, CU_STREAM_CAPTURE_STATUS_INVALIDATED=2
    )
    for answer, captures in [((Result.CUDA_SUCCESS, 0), False), ((Result.CUDA_SUCCESS, 1), True),
                             ((Result.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, None), True)]:  # fmt: skip
        api.answers["cuStreamIsCapturing"] = answer
        assert driver.is_capturing(0) is captures
    api.answers["cuStreamGetCaptureInfo"] = (Result.CUDA_SUCCESS, 1, 5, 6, [7, 8], None, 2)
    assert driver.capture_tail(3) == (7, 8)
    api.answers["cuStreamGetCaptureInfo"] = (Result.CUDA_SUCCESS, 2, 5, None, None, None, 0)
    with pytest.raises(dk.CudaError, match="STREAM_CAPTURE_INVALIDATED"):
        driver.capture_tail(3)


def test_loading_is_no_part_of_another_librarys_capture(api):
    api.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    api.answers["cuThreadExchangeStreamCaptureMode"] = (Result.CUDA_SUCCESS, 0)
    Bindings(api).load_module(b"image")
    exchange = "cuThreadExchangeStreamCaptureMode"
    assert api.calls == [(exchange, (2,)), ("cuModuleLoadData", (b"image",)), (exchange, (0,))]


def test_why_there_is_no_driver(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(bindings.ctypes, "CDLL", missing)
    assert bindings.find() == "no CUDA driver is installed (libcuda was not found)"
    monkeypatch.setattr(bindings.ctypes, "CDLL", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    assert 'pip install "diffkern[cuda]"' in bindings.find()


def test_every_function_exists():
    """Also those that only some machines come to."""
    require("cuda.bindings.driver")
    from cuda.bindings import driver as real

    found = {name.partition("_v")[0] for name in re.findall(r"\bcu[A-Z]\w+", inspect.getsource(bindings))}
    assert len(found) > 50
    assert sorted(name for name in found if not hasattr(real, name) and not name.endswith("Extra")) == []


class Checked:
    """The real package without a driver: it converts arguments before it looks for the library that is not there.

    Results are made of what the package's own documentation says a function returns.
    """

    def __init__(self, real):
        self.real, self.called = real, []

    def __getattr__(self, name):
        found = getattr(self.real, name)
        if not name.startswith("cu") or isinstance(found, type):
            return found

        def call(*args):
            with pytest.raises(RuntimeError, match=r"NVIDIA driver library|Function .* not found"):
                found(*args)
            self.called.append(name)
            return (self.real.CUresult.CUDA_SUCCESS, *self.results(found))

        return call

    def results(self, function):
        section = (function.__doc__ or "").partition("Returns\n-------\n")[2].partition("\n\nSee Also")[0]
        for kind in re.findall(r"^\w+ : (.*)$", section, re.MULTILINE):
            many, name = kind.startswith(("list", "List")), re.search(r"(\w+)`?\]?$", kind)[1]
            made = {"int": 7, "bool": True, "bytes": b"text", "float": 0.5, "Any": 7}.get(name)
            if made is None:
                t = getattr(self.real, name)
                made = next(iter(t)) if hasattr(t, "__members__") else t() if name == "CUuuid" else t(7)
                if name == "CUstreamCaptureStatus":
                    made = t.CU_STREAM_CAPTURE_STATUS_ACTIVE
            yield [made] if many else made


def test_every_call_is_one_that_the_package_takes(monkeypatch):
    """All functions of the interface, down to the real package's conversion of every argument and back."""
    require("cuda.bindings.driver")
    from cuda.bindings import driver as real

    if not isinstance(bindings.find(), str):
        pytest.skip("there is a driver, which would be called")
    monkeypatch.setattr(bindings, "condition_setter", lambda target: (b"image", "name"))
    api = Checked(real)
    driver = Bindings(api)
    samples = {"pattern": b"abcd", "image": b"image", "name": "kernel", "block": b"12345678", "nodes": (3, 4)}
    samples |= {"timing": False, "non_blocking": True, "negate": True, "loop": True, "attribute": 1, "source": 4096}
    functions = {name: f for name, f in vars(Driver).items() if inspect.isfunction(f) and not name.startswith("_")}
    assert len(functions) > 50
    driver.init()
    for name, function in functions.items():
        given = [samples.get(p, 5) for p in list(inspect.signature(function).parameters)[1:]]
        before = len(api.called)
        found = getattr(driver, name)(*given)
        assert len(api.called) > before or name in ("version", "has_conditional_nodes")
        wanted = {"None": type(None), "int": int, "bool": bool, "str": str, "float": float}
        wanted |= {"int | None": (int, type(None)), "CudaError": dk.CudaError}
        returned = function.__annotations__["return"]
        assert isinstance(found, wanted.get(returned, tuple)), (name, found)
        if isinstance(found, tuple):
            assert all(type(part) is int for part in found)
    for pattern in (b"a", b"ab"):
        driver.fill(5, pattern, 5, 5)
    driver.capture_behind(5, ())
    for loop in (False, True):
        driver.conditional_body(5, 6, 7, 8, loop)
    assert len(set(api.called)) > 50


def test_attributes_have_the_drivers_numbers():
    require("cuda.bindings.driver")
    from cuda.bindings import driver as real

    from diffkern.runtime.cuda.driver import Attribute, FunctionAttribute

    names = {
        Attribute.MAX_THREADS_PER_BLOCK: "MAX_THREADS_PER_BLOCK",
        Attribute.MAX_SHARED_PER_BLOCK: "MAX_SHARED_MEMORY_PER_BLOCK",
        Attribute.WARP_SIZE: "WARP_SIZE",
        Attribute.CLOCK_RATE: "CLOCK_RATE",
        Attribute.SM_COUNT: "MULTIPROCESSOR_COUNT",
        Attribute.UNIFIED_ADDRESSING: "UNIFIED_ADDRESSING",
        Attribute.PCI_BUS_ID: "PCI_BUS_ID",
        Attribute.PCI_DEVICE_ID: "PCI_DEVICE_ID",
        Attribute.PCI_DOMAIN_ID: "PCI_DOMAIN_ID",
        Attribute.MEMORY_CLOCK_RATE: "MEMORY_CLOCK_RATE",
        Attribute.MEMORY_BUS_WIDTH: "GLOBAL_MEMORY_BUS_WIDTH",
        Attribute.L2_CACHE_SIZE: "L2_CACHE_SIZE",
        Attribute.COMPUTE_MAJOR: "COMPUTE_CAPABILITY_MAJOR",
        Attribute.COMPUTE_MINOR: "COMPUTE_CAPABILITY_MINOR",
        Attribute.MAX_SHARED_OPT_IN: "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
        Attribute.MEMORY_POOLS: "MEMORY_POOLS_SUPPORTED",
    }
    assert set(names) == set(Attribute)
    for attribute, name in names.items():
        assert int(getattr(real.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")) == attribute
    functions = {
        FunctionAttribute.MAX_THREADS_PER_BLOCK: "MAX_THREADS_PER_BLOCK",
        FunctionAttribute.SHARED_BYTES: "SHARED_SIZE_BYTES",
        FunctionAttribute.LOCAL_BYTES: "LOCAL_SIZE_BYTES",
        FunctionAttribute.REGISTERS: "NUM_REGS",
        FunctionAttribute.MAX_DYNAMIC_SHARED: "MAX_DYNAMIC_SHARED_SIZE_BYTES",
    }
    for attribute, name in functions.items():
        assert int(getattr(real.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")) == attribute
    flags = real.CUevent_flags.CU_EVENT_DISABLE_TIMING, real.CUstream_flags.CU_STREAM_NON_BLOCKING
    assert tuple(map(int, flags)) == (2, 1)
    assert real.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT == 1
    assert real.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT == 2


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_condition_setter_links(target):
    require("cuda.bindings.nvjitlink")
    image, name = condition.condition_setter(target)
    assert image[:4] == b"\x7fELF"
    assert name.encode() in image


@pytest.mark.parametrize(("kind", "ordinal", "locked"), [(1, None, True), (2, 1, True), (4, 1, True)])
def test_what_the_driver_knows_of_an_address(api, kind, ordinal, locked):
    def asked(attribute, address):
        api.calls.append(("cuPointerGetAttribute", (attribute, address)))
        return Result.CUDA_SUCCESS, kind if attribute == "kind" else 1

    api.CUpointer_attribute = SimpleNamespace(
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE="kind", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL="device"
    )
    api.cuPointerGetAttribute = asked
    assert Bindings(api).device_of(64) == ordinal
    assert Bindings(api).is_page_locked(64) is locked
    api.cuPointerGetAttribute = lambda *_: (Result.CUDA_ERROR_INVALID_VALUE, None)
    assert Bindings(api).device_of(64) is None
    assert Bindings(api).is_page_locked(64) is False
