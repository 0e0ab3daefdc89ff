"""``dk.Launch``: a launch as an object that runs repeatedly, with other parameters if need be.

A record is made by :func:`diffkern.launch` with ``record_cmd=True``. Its ``launch`` is a native built-in function, and
everything that can be checked is checked before it: when the record is made or changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from diffkern.contracts.extents import several
from diffkern.errors import LaunchError, MisuseError
from diffkern.ir.types import Mat, Scalar, Vec, value_type
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import brief
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.given_cotangents import (
    cotangent,
    values_by_leaf,
    with_default_gradients,
)
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_protocols import ArrayC
from diffkern.runtime.launch.arguments import wrong_count
from diffkern.runtime.launch.kernel_protocol import KernelProtocol, check_kernel
from diffkern.runtime.launch.schedule import USUAL, Blocks
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.records.launch_record import LaunchRecord, from_ctype
from diffkern.runtime.records.open_launch import OpenLaunch

__all__ = ["Launch"]


@dataclass(frozen=True)
class Bounds:
    """The dimensions of a launch.

    Attributes
    ----------
    shape : tuple of int
        The threads along each axis.
    """

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of threads."""
        return math.prod(self.shape)


class Launch(Uncopied):
    """A recorded launch. Made by :func:`launch` with ``record_cmd=True``, or by indexing a :class:`Sequence`.

    ``record.launch(stream=None)`` runs it: on the stream given here, or the one it was recorded with, or the current
    one. Inside a :class:`Tape` it is recorded there, inside :func:`record` by the sequence. It runs the kernel in the
    version that was recorded; numbers, vectors and structs are those of that time too. It keeps alive the arrays
    that it
    points to. Any number of threads may launch it at once.

    ``record.set_param_at_index(index, value, adjoint=False)`` sets a parameter by its position to whatever may be
    passed in a launch; with ``adjoint=True`` its gradient, of the record of an adjoint, None for the argument's own.
    What does not fit is a :class:`LaunchError`, and the record is as before then.

    ``dk.Launch(kernel, device)`` is a launch put together by hand: ``set_dim``, then the parameters, in any order.
    Numbers, vectors and structs begin as zeros, and what does not fit together is reported when it is launched.

    Parameters
    ----------
    kernel : Kernel
        The kernel to launch.
    device : str or Device, optional
        The device to run on; that of the arrays by default.
    hooks, params_addr, bounds, fwd_args, adj_args : optional
        Accepted where they are None.
    params : sequence, optional
        Arguments to begin with.
    max_blocks, block_dim : int, optional
        As in :func:`launch`.
    adjoint : bool, optional
        Whether the adjoint runs.
    """

    __slots__ = ("__weakref__", "_open", "_packed_record", "launch", "set_param_at_index")

    launch: Callable[..., None]
    set_param_at_index: Callable[..., None]
    _open: OpenLaunch | None
    _packed_record: LaunchRecord | None

    @brief
    def __init__(
        self,
        kernel: Any,
        device: Any = None,
        hooks: None = None,
        params: Sequence[Any] | None = None,
        params_addr: None = None,
        bounds: None = None,
        max_blocks: int = 0,
        block_dim: int | None = None,
        adjoint: bool = False,
        fwd_args: None = None,
        adj_args: None = None,
    ) -> None:
        self._packed_record = self._open = None
        if isinstance(kernel, LaunchRecord):
            self._packed_record = kernel
            # Both attributes are native built-ins that fall back to the Python functions where these are needed.
            self.launch = kernel.plan.call(kernel.run)
            self.set_param_at_index = kernel.setter.call(kernel.set_param)
            return
        check_kernel(kernel)
        if any(part is not None for part in (hooks, params_addr, bounds, fwd_args, adj_args)):
            raise MisuseError("a launch is put together of values", remedy="set them by set_params and set_dim")
        blocks = Blocks(block_dim, max_blocks or None) if block_dim or max_blocks else USUAL
        place = None if device is None else get_device(device)
        self._take(OpenLaunch(kernel, place, blocks, adjoint, params))

    @classmethod
    def _of(cls, launch: OpenLaunch) -> Launch:
        made = object.__new__(cls)
        made._packed_record = None
        made._take(launch)
        return made

    def _take(self, launch: OpenLaunch) -> None:
        self._open = launch
        self.launch, self.set_param_at_index = launch.run, launch.set

    @property
    def _record(self) -> LaunchRecord:
        """The record; of an open launch one of what it is now."""
        if self._packed_record is None:
            assert self._open is not None
            return LaunchRecord(self._open.packed())
        return self._packed_record

    # -- description -------------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> KernelProtocol:
        """The kernel."""
        return self._record.launch.kernel if self._open is None else self._open.kernel

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self._record.launch.device

    @property
    def dim(self) -> tuple[int, ...]:
        """The dimensions."""
        if self._open is not None:
            return self._open.dim if isinstance(self._open.dim, tuple) else (self._open.dim,)
        return self._record.launch.dims

    @property
    def bounds(self) -> Bounds:
        """The dimensions, and how many threads they are."""
        return Bounds(tuple(self.dim))

    @property
    def is_adjoint(self) -> bool:
        """True if it runs the adjoint."""
        return self._record.adjoint is not None if self._open is None else self._open.adjoint

    @property
    def params(self) -> tuple[Any, ...]:
        """The arguments of a launch put together by hand."""
        if self._open is None:
            raise MisuseError("the arguments of a record are packed", remedy="ask for record.arrays")
        return tuple(self._open.values)

    @property
    def stream(self) -> Stream | None:
        """The stream it was recorded with, None for the current one of each launch."""
        return self._record.stream

    @property
    def arrays(self) -> dict[str, array]:
        """The arrays it points to, by parameter (``s.x`` for a field); gradients as ``adj_name``."""
        record = self._record
        names = [leaf.name for leaf in record.launch.leaves]
        held = {name: a for name, a in zip(names, record.launch.arrays, strict=True) if a is not None}
        if record.adjoint is not None:
            held |= {f"adj_{names[i]}": ct for i, ct in record.adjoint.cotangents.items()}
        return held

    def __repr__(self) -> str:
        if self._open is not None:
            return f"<dk.Launch of {self.kernel.name}, put together by hand>"
        if self._record.released:
            return "<dk.Launch released>"
        what = "adjoint of " if self.is_adjoint else ""
        return f"<dk.Launch {what}{self.kernel.name} dim={self.dim}>"

    # -- parameters --------------------------------------------------------------------------------------------------

    @brief
    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Set a parameter by its name, as ``set_param_at_index`` does by its position."""
        index = self._index_of(name)
        if adjoint:
            self.set_param_at_index(index, value, adjoint)
        else:
            self.set_param_at_index(index, value)

    @brief
    def set_param_at_index_from_ctype(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set a parameter by value to a number, or an array of numbers, of :mod:`ctypes`, of exactly its type."""
        if isinstance(value, ArrayC):
            self.set_param_at_index(index, value.array, adjoint)
        elif self._open is not None:
            annotation = self.kernel.parameters[index].annotation
            if isinstance(annotation, (Scalar, Vec, Mat)):
                value = from_ctype(value, value_type(annotation))
            self.set_param_at_index(index, value, adjoint)
        else:
            self._record.set(index, self._from_ctype(index, value, adjoint))

    def _index_of(self, name: str) -> int:
        if self._open is None:
            return self._record.index_of(name)
        names = [p.name for p in self.kernel.parameters]
        if name not in names:
            raise LaunchError(
                f"kernel {self.kernel.name!r} has no parameter {name!r}; it has {', '.join(names)}",
                remedy="take one of these names",
            )
        return names.index(name)

    def _from_ctype(self, index: int, value: Any, adjoint: bool = False) -> Any:
        index = self._record.check_index(index)
        parameter = self.kernel.parameters[index]
        if adjoint:
            raise parameter.error("a gradient is an array, not a value of ctypes", "use set_param_at_index")
        launch = self._record.launch
        leaf = launch.leaves[launch.span(index).start]
        if leaf.path:
            raise parameter.error("a struct is not set from ctypes", "pass the struct")
        if launch.arrays[launch.span(index).start] is not None:
            raise parameter.error("an array is not set from ctypes: nothing would keep it alive", "pass the array")
        try:
            return from_ctype(value, value_type(leaf.type))
        except TypeError as error:
            raise parameter.error(str(error), "pass a value of the parameter's own type") from None

    @brief
    def set_param_by_name_from_ctype(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Set a parameter by its name; see :meth:`set_param_at_index_from_ctype`."""
        self.set_param_at_index_from_ctype(self._index_of(name), value, adjoint)

    @brief
    def set_params(self, values: Sequence[Any] | None = None, adj_values: Sequence[Any] | None = None) -> None:
        """Set all parameters, all gradients, or both at once: then their shapes may change together.

        Parameters
        ----------
        values : sequence, optional
            One for each parameter; for an adjoint's record optionally followed by the gradients.
        adj_values : sequence, optional
            For an adjoint's record, one gradient for each parameter, None for the argument's own.
        """
        parameters = self.kernel.parameters
        for given in (values, adj_values):
            if given is not None and not isinstance(given, Sequence):
                raise LaunchError(
                    f"kernel {self.kernel.name!r}: the values are in a list, not {given!r}",
                    remedy="write [x, y], with a value for each parameter in order",
                )
        if values is not None and adj_values is None and self.is_adjoint and len(values) == 2 * len(parameters):
            values, adj_values = values[: len(parameters)], values[len(parameters) :]
        for given in (values, adj_values):
            if given is not None and len(given) != len(parameters):
                raise wrong_count(self.kernel.name, parameters, len(given))
        if self._open is not None:
            for index, value in enumerate(values or ()):
                self._open.set(index, value)
            for index, value in enumerate(adj_values or ()):
                self._open.set(index, value, adjoint=True)
            return
        record = self._record
        record.check_alive()
        forward = (
            {} if values is None else {p.index: p.convert_leaves(v) for p, v in zip(parameters, values, strict=True)}
        )
        gradients = {} if adj_values is None else record.gradients(dict(enumerate(adj_values)), False)
        record.change(forward, gradients)

    @brief
    def set_params_from_ctypes(self, values: Sequence[Any]) -> None:
        """Set all parameters, none of which may be an array, to values of :mod:`ctypes`."""
        if len(values) != len(self.kernel.parameters):
            raise wrong_count(self.kernel.name, self.kernel.parameters, len(values))
        # Converted before the first is set: an error leaves the record as it was.
        numbers = [self._from_ctype(index, value) for index, value in enumerate(values)]
        for index, number in enumerate(numbers):
            self._record.set(index, number)

    @brief
    def set_dim(self, dim: int | Sequence[int]) -> None:
        """Set the dimensions."""
        if self._open is None:
            self._record.set_dim(dim)
        else:
            self._open.dim = several(dim)

    # -- the rest ----------------------------------------------------------------------------------------------------

    @brief
    def adjoint(self, adj_values: Mapping[str, Any] | None = None) -> Launch:
        """Return the record of the adjoint of a forward record.

        Parameters
        ----------
        adj_values : mapping of str to array, optional
            Gradients by the names of the parameters; the arguments' own for the others.
        """
        record = self._record
        record.check_alive()
        if record.adjoint is not None:
            raise LaunchError(
                "this record runs an adjoint already; there is no adjoint of it",
                remedy="take the adjoint of the record of the forward launch",
            )
        packed = record.launch.copy()
        by_argument: list[Any] = [None] * len(packed.keys)
        for name, value in (adj_values or {}).items():
            by_argument[record.index_of(name)] = value
        leaves = enumerate(values_by_leaf(packed, by_argument))
        given = [None if value is None else cotangent(packed, leaf, value) for leaf, value in leaves]
        adjoint = AdjointLaunch(packed, with_default_gradients(packed, given))
        return Launch(LaunchRecord(packed, adjoint, given, record.stream))

    @brief
    def release(self) -> None:
        """Release the arrays, when launches in progress have ended. The record cannot be used any more."""
        self._record.release()

    def __enter__(self) -> Launch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
