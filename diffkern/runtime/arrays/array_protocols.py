"""The array protocols of other libraries: NumPy's, DLPack's and CUDA's.

They show an array's memory in the form of a protocol, after pending work on it. Writes by others are not seen, so that
the memory counts as lent for as long as they hold a reference. Of memory on a GPU NumPy gets a copy.
"""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import numpy as np

from diffkern.contracts.argument_block import address_of
from diffkern.errors import described
from diffkern.ir.ops.scalar import FLOAT_FUNCTIONS
from diffkern.ir.structs import Stored, Struct, StructArray
from diffkern.ir.types import BFLOAT16, Array, Scalar, is_complex, scalar_of
from diffkern.lang.dtypes import complex_dtype
from diffkern.runtime.arrays.addresses import note
from diffkern.runtime.arrays.array_text import values_of
from diffkern.runtime.arrays.complexes import shown
from diffkern.runtime.arrays.convert import MAX_NDIM, component_shape, with_bfloat16
from diffkern.runtime.memory import dlpack
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import Memory, lend
from diffkern.runtime.memory.state import note_read
from diffkern.runtime.memory.stream import drain

__all__ = ["ArrayC", "Exposed", "Lease"]


def _is_bfloat16(element: Stored) -> bool:
    return not isinstance(element, Struct) and scalar_of(element) == BFLOAT16


class Lease:
    """A reference that keeps an array alive for another library; it dies when that library releases it."""

    __slots__ = ("__weakref__", "array")

    def __init__(self, array: object) -> None:
        self.array = array


class _Bytes:
    """A range of memory with NumPy's interface.

    NumPy makes views of views refer to the array that is made of this object, which so outlives all of them.
    """

    __slots__ = ("__array_interface__", "_data")

    def __init__(self, low: int, high: int, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self.__array_interface__ = {"shape": (high - low,), "typestr": "|u1", "data": (low, False), "version": 3}


class ArrayC(ctypes.Structure):
    """An array as a C struct. It keeps the array alive, as ``array``, and launches take it in its place."""

    array: Any

    _fields_: ClassVar = [
        ("data", ctypes.c_uint64), ("grad", ctypes.c_uint64), ("shape", ctypes.c_int32 * MAX_NDIM),
        ("strides", ctypes.c_int32 * MAX_NDIM), ("ndim", ctypes.c_int32), ("flags", ctypes.c_int32),
    ]  # fmt: skip


_ELSEWHERE: Final[Mapping[str, str]] = {
    **{name: f"write dk.map(dk.{name}, x), which passes gradients" for name in sorted(FLOAT_FUNCTIONS)},
    "append": "an array has a fixed number of elements",
    "at": "kernels write elements in place, as in x[i] += v",
    "backward": "write with dk.Tape() as tape: around the launches, then tape.backward(loss)",
    "block_until_ready": "write dk.synchronize()",
    "clamp": "write dk.map(dk.clamp, x, low, high), which passes gradients",
    "clip": "write dk.map(dk.clamp, x, low, high), which passes gradients",
    "copy": "write dk.clone(x)",
    "copy_": "write x.assign(values)",
    "copy_to_host": "write x.numpy()",
    "cpu": "write x.numpy(), or x.to('cpu')",
    "cuda": "write x.to('cuda:0')",
    "detach": "no graph hangs on an array: x.numpy() has its contents, and launches outside a tape are not recorded",
    "dot": "write (x * y).sum()",
    "from_numpy": "write x.assign(values)",
    "relu": "write dk.map(lambda v: dk.max(v, 0.0), x), which passes gradients",
    "requires_grad_": "write x.requires_grad = True",
    "sign": "write dk.map(dk.sign, x), which passes gradients",
    "to_numpy": "write x.numpy()",
    "zero_grad": "write tape.zero(), or x.grad.zero_()",
}
"""Names that arrays of other libraries have, with what to write here."""


class Exposed:
    """The part of an array that implements the protocols."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for type checkers an array has the attributes that it has

        def __getattr__(self, name: str) -> NoReturn:
            # A property that has raised comes here too: its own words are better.
            found = getattr(type(self), name, None)
            if isinstance(found, property):
                found.fget(self)
            instead = _ELSEWHERE.get(name)
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(said if instead is None else f"{said}; {instead}", name=name, obj=self)

    _data: np.ndarray[Any, Any]
    _element: Stored
    _memory: Memory
    _packed: bytes
    _range: tuple[int, int]
    _type: Array | StructArray
    _writable: bool

    @property
    def device(self) -> Device:
        """The device of the array."""
        return self._memory.device

    if TYPE_CHECKING:  # an abstract class would make every isinstance() of an array slow

        def _host(self) -> np.ndarray[Any, Any]:
            """Return the elements in host memory: in place, or copied from a GPU."""
            ...

        def _copied(self) -> Exposed:
            """Return a copy in new memory."""
            ...

        def _value(self, element: Any) -> Any:
            """Return an element, as NumPy gives it, as a value of its own."""
            ...

    # -- NumPy -------------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory; components are its last axes, bfloat16 elements their 16 bits.

        Those of arrays made by names of :mod:`diffkern.warp` are bfloat16 of the package ml_dtypes, if it is installed.
        Complex numbers are NumPy's. Of an array on a GPU it is a copy, made after all work that the GPU was given
        before.
        """
        data = self._host()
        given = shown(self._lent() if data is self._data else data, self._element)
        return with_bfloat16(given) if self._memory.warp_dialect and _is_bfloat16(self._element) else given

    def _lent(self) -> np.ndarray[Any, Any]:
        """Return a view for others; the memory counts as lent for as long as the view, or a view of it, is alive."""
        data, memory = self._data, self._memory
        note(self)  # type: ignore[arg-type]
        if memory.foreign or not self._writable or not data.size:
            return data.view()
        low, high = self._range
        # NumPy lets a view of a view refer to the owner of the memory directly. Without this object in between, a
        # user's slice would outlive the view whose death tells that the memory has come back.
        raw = np.asarray(_Bytes(low, high, data))
        lend(memory, raw)
        offset = address_of(self._packed) - low
        view: np.ndarray[Any, Any] = np.ndarray(data.shape, data.dtype, raw, offset, data.strides)
        return view

    def list(self) -> builtins.list[Any]:
        """Return the elements as nested Python lists.

        Of arrays made by names of :mod:`diffkern.warp` they are one flat list of numbers, vectors, matrices or structs.
        """
        if not self._memory.warp_dialect:
            return self._nested()
        data, parts = self._host(), component_shape(self._element)
        if isinstance(self._element, Scalar):
            numbers: builtins.list[Any] = values_of(data, self._element).ravel().tolist()
            return numbers
        return [self._value(element) for element in data.reshape(-1, *parts)]

    def _nested(self) -> builtins.list[Any]:
        """Return the elements as nested Python lists."""
        values: builtins.list[Any] = values_of(self._host(), self._element).tolist()
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False and not self._memory.is_host:
            raise ValueError(f"{described(self)} lies on {self.device}: NumPy cannot have it without a copy")
        data = self._host()
        elements = shown(data, self._element)
        wanted = elements.dtype if dtype is None else np.dtype(dtype)
        # The elements were copied from a GPU already, so that nobody else has them.
        if data is not self._data:
            return elements.astype(wanted, copy=False)
        if copy or wanted != elements.dtype:
            return elements.astype(wanted)
        return shown(self._lent(), self._element)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self._memory.is_host:
            raise AttributeError(f"{described(self)} lies on {self.device}; .numpy() copies it to the host")
        # Pending work is awaited before the address is handed out: nothing tells the other library when to wait.
        note_read(self)
        drain()
        lend(self._memory, self)
        note(self)  # type: ignore[arg-type]
        return shown(self._data, self._element).__array_interface__

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule over the same memory; components are its last axes. Pending work is waited for.

        Parameters
        ----------
        stream : optional
            The consumer's stream on a GPU, as the protocol writes it: it waits for the array's work. For the CPU None.
        max_version : tuple of int, optional
            The newest version of the protocol that the consumer knows.
        dl_device : tuple of int, optional
            The device the consumer asks for, which must be the array's.
        copy : bool, optional
            True for a copy; False and None for the memory itself.

        Raises
        ------
        BufferError
            If the array cannot be given away in this way: structs, read-only memory for a consumer from before
            version 1, another device.
        """
        note_read(self)
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != here:
            raise BufferError(f"this array lies on {self.device}, device {here}, not on {tuple(dl_device)}")
        given = self._copied() if copy else self
        self.device.let_wait(stream)
        writable = given._writable
        owner: object = given
        # Released by the consumer's last reference: from then on nobody else can write to the memory.
        if writable and given is self:
            owner = Lease(given)
            lend(given._memory, owner)
            note(given)  # type: ignore[arg-type]
        return dlpack.export(given._data, given._element, owner, writable, max_version, given is not self, here)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device in DLPack's notation: ``(1, 0)``, the CPU, or ``(2, k)``, ``cuda:k``."""
        return self.device.dlpack_kind, max(self.device.ordinal, 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The interface of a GPU's memory for other libraries; the array's work so far is ordered before theirs."""
        if self._memory.is_host:
            raise AttributeError(f"{described(self)} lies in host memory")
        note_read(self)
        lend(self._memory, self)
        note(self)  # type: ignore[arg-type]
        data = self._data
        interface: dict[str, Any] = {
            "shape": data.shape, "typestr": data.dtype.str, "strides": data.strides, "version": 3,
            "data": (self._range[0] if data.flags.c_contiguous else int(data.ctypes.data), not self._writable),
            # 1 stands for the default stream.
            "stream": self.device.stream.cuda_stream or 1,
        }  # fmt: skip
        if data.dtype.names:
            interface["descr"] = data.dtype.descr
        if is_complex(self._element):
            interface["shape"], interface["strides"] = data.shape[:-1], data.strides[:-1]
            interface["typestr"] = complex_dtype(self._element).str  # type: ignore[arg-type]
        return interface
