"""Arrays that kernels read and write, with their gradients.

An :class:`array` is made of data or a shape and an element type, over one block of memory, which ``numpy()`` shows as a
NumPy array without a copy; components of composite elements are its last axes. Views share the memory, its version and
the gradient. Every change made here raises the version and is recorded by the current tape.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from diffkern.contracts.argument_block import pack_array
from diffkern.errors import described
from diffkern.ir.structs import Stored, Struct, StructArray, carries_gradient, holds_arrays
from diffkern.ir.types import BOOL, FLOAT32, Array, is_complex, scalar_of
from diffkern.lang.annotations import ANY, ArrayAnnotation, subscripted
from diffkern.lang.dtypes import CompositeType, DType
from diffkern.lang.structs import resolve_type
from diffkern.lang.values import CompositeValue
from diffkern.process.late import ARRAY_AT, ARRAY_FROM_DATA, ARRAY_OF_STRUCTS, GPU
from diffkern.process.tracebacks import Entrance, warn
from diffkern.runtime.arrays.addresses import note
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.arrays.array_copy import copy as copy_elements
from diffkern.runtime.arrays.array_protocols import ArrayC, Exposed
from diffkern.runtime.arrays.array_text import to_repr, values_of
from diffkern.runtime.arrays.componentwise import Componentwise
from diffkern.runtime.arrays.convert import (
    MAX_NDIM,
    as_numpy,
    as_shape,
    component_shape,
    convert,
    in_place,
    numbers_for,
    stored_type,
    wrapped,
)
from diffkern.runtime.arrays.numeric import Numeric
from diffkern.runtime.arrays.operation import Assign, perform
from diffkern.runtime.arrays.pickled import Copied
from diffkern.runtime.arrays.placeholder import Placeholder
from diffkern.runtime.arrays.recast import is_recast, keeps_numbers
from diffkern.runtime.arrays.type_keys import array_type, dtype_of, key_of_long
from diffkern.runtime.arrays.viewable import Viewable
from diffkern.runtime.memory.allocations import noted, tracker
from diffkern.runtime.memory.device import CPU, Device, get_device
from diffkern.runtime.memory.memory import Memory, byte_range, expose, memory_of, overwrite, put
from diffkern.runtime.memory.state import is_fill_noted, is_handled, note_read, runs_at_once
from diffkern.runtime.memory.stream import drain, settle
from diffkern.runtime.native.slow_path import slow_path_flags

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    _Element = TypeVar("_Element", default=Any)
    _Axes = TypeVar("_Axes", default=Any)
else:
    from typing import TypeVar

    _Element, _Axes = TypeVar("_Element"), TypeVar("_Axes")

__all__ = ["array", "new", "wrap"]

_LONG = 2**31


class array(Exposed, Viewable, Copied, Componentwise, Numeric, Generic[_Element, _Axes]):
    """An array of scalars, vectors, matrices or structs along one to four axes.

    Called without `data` and `shape`, as in ``dk.array(dtype=float, ndim=2)``, it returns the annotation of a kernel's
    parameter, which stands for no array where one is passed. ``dk.array[float, 2]`` is the same annotation in a form
    that type checkers know.

    Parameters
    ----------
    data : array_like, optional
        Contents. For composite elements the last axes are the components; structs are given as a list of them or as
        one of NumPy's structured arrays.
    dtype : optional
        Element type: ``dk.float32``, ``dk.vec3``, ``float`` (float32), ``int`` (int32), a NumPy type, a
        struct class, …; that of `data` by default.
    shape : int or tuple of int, optional
        Number of elements along each axis; that of `data` by default. Without data the elements are not initialized.
    ndim : int, optional
        Number of axes; checked against the shape.
    requires_grad : bool, optional
        Whether to allocate a gradient, filled with zeros.
    copy : bool, optional
        Whether to copy `data`. False makes an array over the memory of a NumPy array of the right type, or raises.
    grad : array, optional
        An array of the same type and shape to take as gradient.
    device : str or Device, optional
        The device of the array; the current one by default.
    pinned : bool, optional
        Whether an array of the CPU lies in memory that GPUs reach by themselves, so that copies run beside the program.
    strides : tuple of int, optional
        With `ptr`, distance of neighbours along each axis, in bytes; row-major by default.
    ptr : int, optional
        Address of memory to make an array over, with `shape` and `dtype`. Within an array it is a view of that, which
        it keeps alive, with a view of its gradient where the numbers are of the same type. Other memory its owner
        keeps alive; it is the CPU's, unless `device` is a GPU.
    capacity : int, optional
        Bytes that there are from `ptr`, checked against the shape.
    owner : bool, optional
        Accepted; memory that is given by its address belongs to who made it, or to `deleter`.
    retain_grad : bool, optional
        Whether :meth:`Tape.backward` keeps the gradient with respect to what the array holds when the tape ends,
        although launches on the tape wrote it; without it the gradient is that with respect to what it held before.
    deleter : callable, optional
        Called with `ptr` and the size in bytes when the array is gone.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_alone", "_data", "_element", "_grad", "_key", "_memory", "_packed", "_parent",
        "_range", "_smooth", "_type", "_view", "_writable", "shape",
    )  # fmt: skip

    _alone: bytes | None
    _data: np.ndarray[Any, Any]
    _element: Stored
    _grad: array | None
    _key: str
    _memory: Memory
    _packed: bytes
    _parent: array | None
    _range: tuple[int, int]
    _smooth: bool
    _type: Array | StructArray
    _view: Any
    _writable: bool
    shape: tuple[int, ...]

    def __new__(
        cls,
        data: Any = None,
        dtype: Any = ANY,
        shape: int | Sequence[int] | None = None,
        ndim: int | None = None,
        requires_grad: bool = False,
        copy: bool = True,
        grad: array | None = None,
        device: Any = None,
        pinned: bool = False,
        *,
        strides: Sequence[int] | None = None,
        ptr: int | None = None,
        capacity: int | None = None,
        owner: bool = False,
        retain_grad: bool = False,
        deleter: Callable[[int, int], Any] | None = None,
    ) -> Any:
        if data is None and shape is None:
            with Entrance("dk.array", dtype):
                return Placeholder.of(dtype, 1 if ndim is None else ndim)
        element = None if dtype is ANY or dtype is None or dtype is Any else resolve_type(dtype)
        if ptr is not None:
            kind, has_own = FLOAT32 if element is None else element, requires_grad or grad is not None
            made = ARRAY_AT(ptr, as_shape(shape), kind, strides, capacity, deleter, device, has_own)
        elif data is None:
            made = new(as_shape(shape), FLOAT32 if element is None else element, False, get_device(device), pinned)
        else:
            made = ARRAY_FROM_DATA(data, element, None if shape is None else as_shape(shape), copy, device, pinned)
        if ndim is not None and made.ndim != ndim:
            raise ValueError(f"the data have {made.ndim} axes of elements, not ndim={ndim}")
        if grad is not None:
            made.grad = grad
        elif requires_grad:
            made.requires_grad = True
        if retain_grad:
            made.retain_grad = True
        # A copy of an array is differentiable like an assignment. The elements are copied a second time, as an
        # operation that the tape records.
        if copy and is_handled() and isinstance(data, array) and made._is_like(data):
            copy_elements(made, data)
        return made

    if not TYPE_CHECKING:  # where it is the element type of the class itself

        def __class_getitem__(cls, item: Any) -> ArrayAnnotation:
            with Entrance("dk.array", item):
                return subscripted(item)

    if TYPE_CHECKING:  # of arrays of structs, whose class no annotation tells

        def field(self, path: str) -> array[Any, Any]:
            """Return the view of one field of all elements; ``"pose.x"`` is a field of a nested struct."""
            ...

    # -- description -------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType | CompositeType | type:
        """The element type; of an array of structs the struct's class."""
        assert not isinstance(self._element, Struct)
        return dtype_of(self._element)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance of neighbours along each axis, in bytes."""
        return self._data.strides[: len(self.shape)]

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        # From here on code that diffkern does not see may read or write the memory, which optimizations have to
        # respect.
        settle()
        expose(self._memory)
        note(self)
        return self._address

    @property
    def _address(self) -> int:
        """The address of the first element for diffkern's own bookkeeping: not given away, so not registered."""
        return self._range[0] if self._type.layout == "C" else int(self._data.ctypes.data)

    @property
    def is_contiguous(self) -> bool:
        """True if the elements lie one after the other in row-major order."""
        return self._type.layout == "C"

    @property
    def pinned(self) -> bool:
        """True if the array lies in host memory that GPUs access directly."""
        return self._memory.is_pinned

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return to_repr(self)

    def _summary(self) -> str:
        return f"array(shape={self.shape}, dtype={self.dtype!r})"

    def __str__(self) -> str:
        return str(values_of(self._host(), self._element))

    def _host(self) -> np.ndarray[Any, Any]:
        """Return the elements in host memory for the caller to read: in place, or copied from a GPU."""
        note_read(self)
        return self._elements()

    def _elements(self) -> np.ndarray[Any, Any]:
        """Return the elements in host memory, for diffkern's own purposes."""
        drain()
        return self._memory.contents(self._data)

    # -- gradient ----------------------------------------------------------------------------------------------------

    @property
    def grad(self) -> array[_Element, _Axes] | Any:
        """The gradient, an array of the same type and shape, or None. That of a view is a view of the gradient."""
        # The gradient of a view is derived on demand: a gradient that the parent is given later is seen by older views
        # too.
        if self._grad is None and self._parent is not None:
            whole = self._parent.grad
            if whole is not None and self._smooth and keeps_numbers(self):  # a field may have none
                return whole._derive(self._view, self._element)
        return self._grad

    @grad.setter
    def grad(self, value: array | np.ndarray[Any, Any] | None) -> None:
        if value is not None:
            if not isinstance(value, array):
                value = _given(value, self._element)
            if value._memory.device is not self._memory.device:
                raise ValueError(
                    f"the gradient of {described(self)} lies on {value.device}, the array on {self.device}"
                )
            if value.shape != self.shape or value._element != self._element:
                raise ValueError(
                    f"the gradient of {described(self)} must have the same shape and dtype, not {described(value)}"
                )
            if not carries_gradient(self._type):
                raise TypeError(f"elements of type {self._element} have no gradient; only floating-point types do")
        self._grad = value

    @property
    def requires_grad(self) -> bool:
        """True if there is a gradient. Setting it to True allocates one of zeros, to False drops it."""
        return self.grad is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value:
            if self._parent is None:
                self._memory.retains = False
            # Without its parent, a view no longer derives the gradient of the array that it is a view of.
            self._grad = self._parent = None
        elif self.grad is None:
            if not carries_gradient(self._type):
                said = f"elements of type {self._element} have no gradient: requires_grad has no effect"
                warn(f"{said}; make the array with dtype=float, or leave requires_grad out", UserWarning)
                return
            self._grad = new(self.shape, self._element, True, self._memory.device)
            self._grad._memory.warp_dialect = self._memory.warp_dialect

    @property
    def retain_grad(self) -> bool:
        """True if :meth:`Tape.backward` keeps the gradient with respect to what the array holds when the tape ends.

        Without it the gradient of what launches on the tape wrote is that with respect to what was there before. It
        holds for an array and its views together, and needs a gradient.
        """
        return self._memory.retains

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value and self.grad is None:
            raise ValueError(f"{described(self)} has no gradient to retain: set requires_grad=True first")
        self._memory.retains = bool(value)

    @property
    def in_warps_dialect(self) -> bool:
        """True if the array was made by names of :mod:`diffkern.warp`, whose rules its operators follow."""
        return self._memory.warp_dialect

    def _speak(self, warp: bool) -> None:
        """Make an array and its gradient follow Warp's dialect, or the native one."""
        for held in (self, self._grad):
            if held is not None:
                held._memory.warp_dialect = warp

    def _stored(self, values: Any) -> np.ndarray[Any, Any]:
        """Return values as they are stored in this array."""
        assert not isinstance(self._element, Struct)
        data = self._data
        # Values that this array's own memory could hold are stored as they are; identity of the dtype is the quickest
        # test.
        if type(values) is np.ndarray and values.dtype is data.dtype and values.shape == data.shape:
            return values
        return convert(numbers_for(values, self._element, data.shape), scalar_of(self._element))

    def mark_init(self) -> None:
        """Do nothing; exists for Warp's API. Reads and writes are known from the kernels."""

    def mark_read(self) -> None:
        """Do nothing; exists for Warp's API. Reads and writes are known from the kernels."""

    def mark_write(self, **kwargs: Any) -> None:
        """Do nothing; exists for Warp's API. Reads and writes are known from the kernels."""

    def __ctype__(self) -> ArrayC:
        """Return the array as the struct that C programs take: data, grad, shape, strides, ndim, flags."""
        grad = self.grad
        made = ArrayC(self.ptr, 0 if grad is None else grad.ptr, self.shape, self.strides, self.ndim, 0)
        made.array = self
        return made

    def _copied(self) -> array:
        return clone(self, requires_grad=False)

    def _like(self) -> array:
        return self._new_on(self._memory.device, False)

    def _new_on(self, place: Device, pinned: bool) -> array:
        """Return a new array of the same shape and type, not initialized."""
        return new(self.shape, self._element, False, place, pinned)

    def _is_like(self, other: array) -> bool:
        """Return whether another array has the same element type and shape."""
        own, given = self._element, other._element
        return (own is given or own == given) and self.shape == other.shape

    def contiguous(self) -> array:
        """Return the array itself if it is contiguous, else a contiguous copy."""
        return self if self.is_contiguous else clone(self)

    @property
    def _whole(self) -> array:
        """The array that a user passed if this one is a leaf of it: for a field, the array of all structs."""
        parent = self._parent
        # A slice has its parent's element type and a recast is a view of its own; what is left is a field of structs.
        return self if parent is None or parent._element == self._element or is_recast(self) else parent

    def _same_place(self, other: array) -> bool:
        """Return whether another array is a view of the very same elements."""
        return self._packed == other._packed and self._memory is other._memory and self._element == other._element

    def _leaves(self) -> builtins.list[array]:
        """Return the arrays that a kernel takes for this one: itself, or one for each field."""
        return [self]

    def _derive(self, view: Any, element: Stored | None = None) -> array:
        part = _make(view(self._data), self._element if element is None else element, self._memory, self._writable)
        part._parent, part._view = self, view
        return part

    # -- changes -----------------------------------------------------------------------------------------------------

    def to(self, device: Any, requires_grad: bool | None = None) -> array:
        """Return the array itself if it lies on a device, else a copy there, with a gradient if this one has one."""
        return self if self.device == get_device(device) else clone(self, requires_grad, device)

    def assign(self, src: Any) -> None:
        """Copy the values of an array, a NumPy array or nested lists of the same shape.

        Under a tape, assigning an array is a copy that gradients flow through; anything else is a constant.
        """
        if isinstance(src, array):
            copy_elements(self, src)
            return
        # Lists of integers that do not fit are errors in every dialect.
        given = self._wrapped(src) if isinstance(src, np.ndarray) or self._element == BOOL else _on_host(src)
        values = self._stored(given)
        if values.shape != self._data.shape:
            if values.size != self._data.size:
                raise ValueError(f"values of shape {values.shape} do not fit into {described(self)}")
            values = values.reshape(self._data.shape)
        self._overwrite(values)

    def _wrapped(self, values: Any) -> Any:
        """Return values with integers wrapped around if the dialect of this memory says so."""
        element = self._element
        if not self._memory.warp_dialect or isinstance(element, Struct):
            return values
        return wrapped(values, scalar_of(element))

    def fill_(self, value: Any) -> None:
        """Set every element to one value: a number, or a vector, a matrix or a struct.

        A vector or matrix may be given by its components; a bool by any number, of which 0 is False.
        """
        value, inner = self._wrapped(value), component_shape(self._element)
        if inner and not isinstance(value, CompositeValue) and not is_complex(self._element):
            given = as_numpy(value)
            value = given.reshape(inner) if given.size == math.prod(inner) and given.ndim == 1 else given
        elif self._element == BOOL and isinstance(value, (int, float, np.number)):
            value = bool(value)
        self._overwrite(self._stored(value)[()])  # of a number, which has no memory that could be this array's

    def zero_(self) -> None:
        """Set every element to zero."""
        data, memory, alone = self._data, self._memory, not slow_path_flags.word[0]
        if alone and memory.is_host and self._writable:
            put(data, 0)
            memory.version += 1
        elif not (slow_path_flags.reasons == 1 and memory.is_host and self._writable and is_fill_noted(self)):
            self._overwrite(0)
        # The mark lets later launches skip clearing this memory again. Under a recorder or on a stream the fill has not
        # run yet, or runs again later, and says nothing about what the memory holds now.
        if data.nbytes == memory.nbytes and (alone or runs_at_once()):
            memory.zero_version = memory.now

    def _overwrite(self, values: Any) -> None:
        self._check_writable()
        # Nothing observes the change (no tape, recorder, stream or queue): write at once.
        if not slow_path_flags.word[0] and self._memory.is_host:
            if isinstance(values, np.ndarray):
                overwrite(self._data, values)
            else:
                put(self._data, values)
            self._memory.version += 1
            return
        perform(Assign(self, values))

    def _check_writable(self) -> None:
        if not self._writable:
            raise ValueError(f"{described(self)} lies over read-only memory of NumPy; make it with copy=True")


# -- construction ----------------------------------------------------------------------------------------------------


def new(shape: tuple[int, ...], element: Stored, zero: bool, device: Device = CPU, pinned: bool = False) -> array:
    """Return a new array, of zeros or not initialized."""
    return new_of(fresh_kind(element, len(shape)), shape, zero, device, pinned)


class FreshKind:
    """Facts that all new arrays with the same elements and number of axes share.

    Attributes
    ----------
    element, stored, inner
        The elements, NumPy's type of their components, and the extents of these.
    cls
        The class of the arrays.
    type, key, smooth, pack
        As arrays have them that are contiguous and no longer than 32 bits count.
    addresses
        Whether elements are addresses, which have to be zero where there is nothing yet.
    """

    __slots__ = ("addresses", "cls", "element", "inner", "key", "pack", "smooth", "stored", "type")

    def __init__(self, element: Stored, ndim: int) -> None:
        self.element = element
        self.inner, self.stored = component_shape(element), stored_type(element)
        self.addresses = isinstance(element, Struct) and holds_arrays(element)
        self.cls: type[array] = ARRAY_OF_STRUCTS.value if isinstance(element, Struct) else array
        self.type, self.key, self.smooth = array_type(element, ndim, "C")
        self.pack = pack_array[ndim]


@functools.cache
def fresh_kind(element: Stored, ndim: int) -> FreshKind:
    """Return what new arrays with these elements and this number of axes have in common."""
    _check_axes(ndim)
    return FreshKind(element, ndim)


def _check_axes(ndim: int) -> None:
    if not 1 <= ndim <= MAX_NDIM:
        raise ValueError(f"an array has 1 to {MAX_NDIM} axes, not {ndim}")


def new_of(kind: FreshKind, shape: tuple[int, ...], zero: bool, device: Device, pinned: bool) -> array:
    """Return a new array of a kind."""
    data, memory = device.new(shape + kind.inner, kind.stored, zero or kind.addresses, pinned)
    if tracker.is_on:
        noted(memory, kind.element, shape)
    size = memory.nbytes
    # Of another device, without elements, or with so many that their number may need more than 32 bits.
    if device is not CPU or pinned or not 0 < size < _LONG:
        made = _make(data, kind.element, memory, True)
        made._alone = made._packed
        return made
    made = object.__new__(kind.cls)
    made._data, made._element, made._memory, made._writable = data, kind.element, memory, True
    made._grad = made._parent = made._view = None
    made.shape = shape
    made._type, made._key, made._smooth = kind.type, kind.key, kind.smooth
    address = memory.address
    # No other array shares its memory, but for views of it.
    made._packed = made._alone = kind.pack(address, *shape, *data.strides[: len(shape)])
    made._range = (address, address + size)
    return made


def _given(value: Any, element: Stored | None) -> array:
    """Return an array over the memory of another library's array, on the CPU or on a GPU."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__"):
        made: array = GPU.value.imported(value, element)
        return made
    return wrap(value, element)


def _on_host(value: Any) -> Any:
    """Return an array over what another library has on a GPU copied to the host; other values unchanged."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__cuda_array_interface__"):
        return value
    return _given(value, None)._host()


def wrap(data: Any, element: Stored | None = None) -> array:
    """Return an array over memory in NumPy's form, whose last axes are the components of `element`.

    Raises
    ------
    TypeError
        If kernels cannot work on this memory: another type, foreign byte order, components not adjacent, unaligned.
    """
    plain, element = in_place(data, element)
    return _make(plain, element, memory_of(plain), plain.flags.writeable)


def _make(data: np.ndarray[Any, Any], element: Stored, memory: Memory, writable: bool) -> array:
    ndim = data.ndim - len(component_shape(element))
    _check_axes(ndim)
    made: array = object.__new__(ARRAY_OF_STRUCTS.value if isinstance(element, Struct) else array)
    made._data = data
    made._element = element
    made._memory = memory
    made._writable = writable
    made._grad = made._parent = made._view = made._alone = None
    made.shape = data.shape[:ndim]
    made._type, made._key, made._smooth = array_type(element, ndim, "C" if data.flags.c_contiguous else "A")
    # Kernels index with 32 bits unless an extent needs more, which is part of the key. Broadcast axes have an extent of
    # their own and no memory, so that the size alone does not tell.
    if (data.size >= _LONG or not data.size) and max(made.shape) >= _LONG:
        made._key = key_of_long(made._key)
    made._key = memory.device.keyed(made._key)
    # Elements one after the other that are as many bytes as their memory begin where it does; NumPy takes its time.
    whole = made._type.layout == "C" and data.nbytes == memory.nbytes != 0
    address = memory.address if whole else data.ctypes.data
    # The bytes that a kernel takes for the array never change, and are packed once instead of at each launch.
    made._packed = pack_array[ndim](address, *made.shape, *data.strides[:ndim])
    made._range = (address, address + data.nbytes) if made._type.layout == "C" else byte_range(data)
    return made
