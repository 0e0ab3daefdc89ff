"""A launch whose arguments are checked and packed.

A :class:`PackedLaunch` can run, run again, and be kept by a tape or a sequence. Arguments that do not fit raise
:class:`LaunchError`.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any

from diffkern.contracts.extents import several
from diffkern.contracts.manifest import Log
from diffkern.contracts.options import PLAIN, SEARCHED, AdjointForm, LogKind
from diffkern.errors import CompileError, LaunchError, MisuseError
from diffkern.ir.stamp_layout import FIELDS
from diffkern.ir.structs import Leaf
from diffkern.ir.types import INT64, parse_array_type
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, Operation, perform, submit
from diffkern.runtime.arrays.type_keys import key_on
from diffkern.runtime.launch.arguments import Bound, bind, keys_on, leaves_of
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.launch_checks import check_fit, grid_of
from diffkern.runtime.launch.nested_arrays import nested_arrays, pointed_by
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.resources import make_writable, stored_by
from diffkern.runtime.launch.schedule import USUAL, WITHOUT_BLOCKS, Blocks, Grid
from diffkern.runtime.launch.shared_memory import check_tangents
from diffkern.runtime.launch.value_log import new_log
from diffkern.runtime.memory.device import CPU, Device, get_device
from diffkern.runtime.memory.state import current
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.replay import Steps

__all__ = ["Leaves", "PackedLaunch", "dispatch"]

LEAST_WORK = 20_000.0
"""Simple operations of a launch from which on a log of what it finds is worth its making."""
_NOTHING: Mapping[int, int] = MappingProxyType({})
_SAME = object()
Leaves = tuple[str, Sequence[bytes], Sequence["array | None"]]
"""An argument: the key of its type, and of each leaf its bytes in the block and the array it is."""


class PackedLaunch(Operation):
    """A launch whose arguments are checked and packed: it can run, and run again.

    Attributes
    ----------
    kernel
        The kernel.
    keys
        Types of the arguments.
    executable
        The forward program.
    dim
        The launch's dimensions as given.
    arrays
        For each leaf the array that was passed, None for a value. A leaf is an argument, or a field of a struct.
    parts
        For each leaf its bytes in the argument block.
    generation
        The generation of the kernel at the launch: its derivative is that of this program.
    log
        The arrays to which it writes what its adjoint needs; None if it writes none.
    logged
        The description of the log.
    stamped
        Whether stamps have shown that no two of its threads race, of which its adjoint is not sure by itself.
    """

    __slots__ = (
        "_disjoint", "_leaves", "_merged", "arrays", "blocks", "dim", "executable", "generation", "grid", "kernel",
        "keys", "log", "logged", "parts", "stamped",
    )  # fmt: skip

    def __init__(
        self,
        kernel: KernelProtocol,
        dim: Any,
        args: Sequence[Any],
        place: Device | None = None,
        blocks: Blocks = USUAL,
        of: KernelVersion | None = None,
    ) -> None:
        of = of or kernel.current()
        self._take(kernel, dim, bind(kernel.name, kernel.parameters, args), place, blocks, of)

    @classmethod
    def of_bound(
        cls, kernel: KernelProtocol, dim: Any, bound: Bound, place: Device | None, blocks: Blocks, of: KernelVersion
    ) -> PackedLaunch:
        """Return the checked launch of a version of a kernel on arguments that are bound already."""
        made = object.__new__(cls)
        made._take(kernel, dim, bound, place, blocks, of)
        return made

    def _take(
        self,
        kernel: KernelProtocol,
        dim: Any,
        bound: Bound,
        place: Device | None,
        blocks: Blocks,
        of: KernelVersion,
    ) -> None:
        """Check the launch, and find its program."""
        self.kernel, self.generation = kernel, of
        self.keys, self.parts, self.arrays = bound
        self._leaves: tuple[Leaf, ...] = ()
        self._merged: Mapping[int, int] | None = None
        self._disjoint: bool | None = None
        self.log: tuple[array, ...] | None = None
        self.logged: Log | None = None
        self.stamped = False
        self.blocks = blocks
        self.grid: Grid
        fitting = self.generation.programs.get(self.keys) if place is None and blocks in WITHOUT_BLOCKS else None
        if fitting is not None and fitting.is_told and self._has_fitted(fitting, dim):
            return
        self.executable = self._program(self.keys)
        if place is not None or (current.device is not None and self.executable.device is CPU):
            self._move_to(place or get_device(), place is not None)
        self.dim = several(dim)
        self._check()
        if fitting is self.executable and fitting.is_told:
            self._note_fit()

    @classmethod
    def passed(
        cls,
        kernel: KernelProtocol,
        dim: Any,
        of: KernelVersion,
        keys: tuple[str, ...],
        parts: list[bytes],
        arrays: list[array | None],
        executable: Executable,
        grid: Grid,
    ) -> PackedLaunch:
        """Return a launch, on arrays that are apart, that has passed all checks."""
        made = object.__new__(cls)
        made.kernel, made.generation, made.dim, made.blocks = kernel, of, dim, USUAL
        made.keys, made.parts, made.arrays = keys, parts, arrays
        made.executable, made.grid, made._leaves = executable, grid, ()
        made._merged, made._disjoint = _NOTHING, True
        made.log = made.logged = None
        made.stamped = False
        return made

    def _has_fitted(self, executable: Executable, dim: Any) -> bool:
        """Return whether a launch on these very arrays has passed all checks, and take what is known from that."""
        # True and 2.0 are equal to dimensions and are none.
        is_exact = type(dim) is int or (type(dim) is tuple and all(type(extent) is int for extent in dim))
        grid = executable.grids.get(dim) if is_exact else None
        fitted: object = None if grid is None else executable.fits.get(executable.deciding(self.parts))
        if grid is None or fitted is not grid:
            return False
        # Addresses and extents decide all else.
        for index in executable.writes:
            if (held := self.arrays[index]) is not None and not held._writable:
                return False
        self.executable, self.dim, self.grid = executable, dim, grid
        self._disjoint, self._merged = True, _NOTHING
        return True

    def _note_fit(self) -> None:
        """Note that the launch has passed all checks, for the next one on the same arrays."""
        executable = self.executable
        # Without arrays the current device decides where it runs, and structs have more to them than their bytes.
        is_told = len(self.arrays) == len(self.keys) and any(held is not None for held in self.arrays)
        if is_told and self.is_disjoint:
            executable.fit(executable.deciding(self.parts), self.grid)

    def _move_to(self, place: Device, named: bool) -> None:
        """Move the launch to a device, which arrays have to be on if it was named; without arrays it runs there."""
        for index, held in enumerate(self.arrays):
            if held is not None:
                if named and held._memory.device is not place:
                    raise LaunchError(
                        f"kernel {self.kernel.name!r}, parameter {self.leaves[index].name!r}: the array is on "
                        f"{held.device}, and the launch on {place}",
                        remedy=f"pass array.to({place.alias!r}), or leave device= out",
                    )
                # Arrays decide where the launch runs; the current device counts only without any.
                if not named:
                    return
        if place is not CPU and not any(held is not None for held in self.arrays):
            if self.keys:
                self.keys = (place.keyed(self.keys[0]), *self.keys[1:])
            keys = self.keys or keys_on(place.alias)
            self.executable = self._program(keys)

    def _program(self, keys: tuple[str, ...]) -> Executable:
        block_dim = self.blocks.block_dim
        if self.logged is not None:
            merged = tuple(self.merged.items())
            kind: LogKind = "searched" if self.logged.searches else "written"
            active, of = self.logged.active, self.generation
            return self.kernel.logged(keys, kind, active, block_dim, of, merged, self.stamped)
        found = self._usual_program(keys)
        if found.distinct and any(self.parts[a] == self.parts[b] for a, b in found.distinct):
            one = self.merged
            if any(one.get(a, a) == one.get(b, b) for a, b in found.distinct):
                check_tangents(self.kernel.name, self.generation.variant.layers, self.leaves, self.parts, one)
                return self.kernel.merged_forward(keys, tuple(one.items()), block_dim, self.generation)
        return found

    def _usual_program(self, keys: tuple[str, ...]) -> Executable:
        """Return the program of a launch that keeps no log and gives no array to several parameters."""
        block_dim = self.blocks.block_dim
        found = self.generation.programs.get(keys) if block_dim is None else None
        return found or self.kernel.forward(keys, block_dim, self.generation)

    @property
    def is_usual(self) -> bool:
        """True if it runs the program of launches that keep no log and give no array to several parameters."""
        return self.executable is self._usual_program(self.keys)

    def is_particular(self, leaf: int, held: array) -> bool:
        """Return whether it runs another program than the usual one, or would with another array for a leaf."""
        usual = self._usual_program(self.keys)
        if self.executable is not usual:
            return True
        others = (self.arrays[b if a == leaf else a] for a, b in usual.distinct if leaf in (a, b))
        return any(other is not None and other._packed == held._packed for other in others)

    def adjoint(self, active: frozenset[int], form: AdjointForm = PLAIN) -> Executable:
        """Return an adjoint of the program that it runs."""
        merged = self.merged
        pairs = tuple(merged.items()) if merged else ()
        form = form._replace(stamped=True) if self.stamped else form
        log = self.logged
        # Adjoints for other parameters search once more, so that nothing depends on which of them the log is for.
        if log is not None and log.searches and not self.stamped and log.active == tuple(sorted(active)):
            form = form._replace(searched=True)
        return self.kernel.adjoint(self.keys, active, form, self.blocks.block_dim, self.generation, pairs)

    def optional_adjoint(self, active: frozenset[int], form: AdjointForm) -> Executable | None:
        """Return an adjoint that another can stand in for; None where it was not shipped and there is no compiler."""
        try:
            return self.adjoint(active, form)
        except (CompileError, ImportError) as error:
            if not isinstance(error, ImportError) and not isinstance(error.__cause__, ImportError):
                raise
            return None

    def searched_adjoint(self, active: frozenset[int]) -> Executable | None:
        """Return the adjoint that reads from a log what searches of the launch find.

        None if there is none, if it is not wanted or too little work, or if the launch cannot keep a log. It need not
        read a log.
        """
        executable, dims = self.executable, self.dims
        if not executable.manifest.searches or not self.kernel.log_searches or self.stamped:
            return None
        # A log counts threads by the index that the kernel asks for.
        if any(extent > 1 for extent in dims[executable.manifest.tid_arity :]):
            return None
        # No cost is that of threads which run one after the other, whatever they do.
        if 0.0 < executable.cost * math.prod(dims) < LEAST_WORK:
            return None
        return self.optional_adjoint(active, SEARCHED)

    def with_searches(self, log: Log) -> PackedLaunch | None:
        """Return the launch that keeps what its searches find; None if its program was not shipped."""
        try:
            return self.with_log(log)
        except (CompileError, ImportError) as error:
            if not isinstance(error, ImportError) and not isinstance(error.__cause__, ImportError):
                raise
            return None

    @property
    def merged(self) -> Mapping[int, int]:
        """The parameters that are given the very array of an earlier one that the kernel writes, each with that one."""
        found = self._merged
        if found is None:
            found = self._merged = self._find_merged()
        return found

    @property
    def is_apart(self) -> bool:
        """True if no array overlaps another one, and that is known; there may be no such array without."""
        return self._disjoint is True and self.log is None and not self.stamped

    @property
    def is_disjoint(self) -> bool:
        """True if no array overlaps another one."""
        found = self._disjoint
        if found is None:
            found = self._disjoint = _are_disjoint([held._range for held in self.arrays if held is not None])
        return found

    def _find_merged(self) -> Mapping[int, int]:
        # Disjoint ranges are the usual case, and rule everything below out.
        if self.is_disjoint:
            return _NOTHING
        # Others take them as one already.
        executable, arrays = self._usual_program(self.keys), self.arrays
        found: dict[int, int] = {}
        for index in executable.writes:
            held = arrays[index]
            if held is None or not held.size or index in found:
                continue
            # Only the very same elements can be treated as one array; views that overlap otherwise are an error
            # elsewhere. Two arrays may have been made of one address.
            others = [k for k in executable.uses if (a := arrays[k]) is not None and a._packed == held._packed]
            others = [k for k in others if (a := arrays[k]) is not None and a._element == held._element]
            found.update((k, others[0]) for k in others[1:])
        return found

    def copy(self) -> PackedLaunch:
        """Return the same launch with arguments of its own."""
        made = object.__new__(PackedLaunch)
        for name in PackedLaunch.__slots__:
            setattr(made, name, getattr(self, name))
        made.parts, made.arrays = list(self.parts), list(self.arrays)
        # Caches about the arguments, and what stamps have shown for them, do not hold for others.
        made._merged = made._disjoint = None
        made.stamped = False
        return made

    def put(self, leaf: int, held: array) -> None:
        """Replace the array of a leaf by one of the same type."""
        deque(self.putting(leaf, held), maxlen=0)

    def putting(self, leaf: int, held: array) -> Iterator[object]:
        """Return an iterator that replaces the array of a leaf by one of the same type.

        It runs no Python code, so that neither another thread nor an interrupt comes in between. Whoever runs it has to
        keep the former array until then, which may run code when it ends.
        """
        lists: tuple[list[Any], ...] = self.arrays, self.parts
        places = map(operator.setitem, lists, repeat(leaf), (held, held._packed))
        return chain(places, map(setattr, repeat(self), ("_merged", "_disjoint"), repeat(None)))

    def with_log(self, log: Log) -> PackedLaunch:
        """Return the launch that writes what its adjoint needs to a new log.

        Raises
        ------
        LaunchError
            If it cannot have one.
        """
        made = self.copy()
        made.logged, made.stamped = log, self.stamped
        # The count runs the original program, before this launch takes the one that writes the log.
        made.log = new_log(self, made, log)
        made.executable = made._program(made.keys)
        made._check()
        return made

    def without_log(self) -> PackedLaunch:
        """Return the launch as it was before a tape took it."""
        made = self.copy()
        made.log = made.logged = None
        made.executable = made._program(made.keys)
        made._check()
        return made

    def count(self, log: Log, act: Callable[[Operation], object] = submit) -> array:
        """Return for each thread the number of log slots that it takes; `act` performs the operations for that."""
        counting, copies, counts = self.counting(log)
        for operation in (*copies, counting):
            act(operation)
        return counts

    def counting(self, log: Log) -> tuple[PackedLaunch, list[Operation], array]:
        """Return the launch that counts the log slots of each thread.

        With it come the copies to be made before, of the arrays that it writes to, and the array of counts.
        """
        made = self.copy()
        merged = tuple(self.merged.items())
        made.executable = self.kernel.logged(
            self.keys, "counted", log.active, self.blocks.block_dim, self.generation, merged, self.stamped
        )
        threads = math.prod(self.dims[: made.executable.manifest.tid_arity])
        counts = new((threads,), parse_array_type(made.executable.manifest.params[-1].type).dtype, True, self.device)
        # The counting program runs the kernel's stores as well, as later loads depend on them; they go to copies.
        copies = made.spare()
        made.log, made.logged = (counts,), None
        made._check()
        return made, copies, counts

    def stamper(self, arrays: tuple[int, ...]) -> Executable:
        """Return the program that stamps elements of some arrays with the threads that read and write them."""
        merged = tuple(self.merged.items())
        return self.kernel.logged(self.keys, "stamped", arrays, self.blocks.block_dim, self.generation, merged)

    def stamping(self, stamper: Executable) -> tuple[PackedLaunch, list[Operation]]:
        """Return a launch of a stamping program, with the stamps as its log, and the copies that it needs before.

        The copies are of the arrays that it writes to.
        """
        made = self.copy()
        made.executable = stamper
        copies = made.spare()
        stamped = [(made.arrays[one.array], one.rows) for one in made.executable.manifest.stamped]
        sizes = [math.prod(held.shape) * rows for held, rows in stamped if held is not None]
        made.log = tuple(new((max(1, size), FIELDS), INT64, True, self.device) for size in sizes)
        made.logged = None
        made._check()
        return made, copies

    def spare(self) -> list[Operation]:
        """Replace the arrays that it writes to by copies, and return the operations that make these."""
        copies: list[Operation] = []
        for index in self.executable.writes:
            if (held := self.arrays[index]) is not None:
                copied = new(held.shape, held._element, False, self.device)
                copies.append(Copy(copied, held))
                self.put(index, copied)
        return copies

    def span(self, index: int) -> slice:
        """Return the slice of leaves that belong to an argument."""
        # Without structs each argument is one leaf.
        if len(self.parts) == len(self.keys):
            return slice(index, index + 1)
        places = [k for k, leaf in enumerate(self.leaves) if leaf.argument == index]
        return slice(places[0], places[-1] + 1)

    def changed(self, arguments: Mapping[int, Leaves] = MappingProxyType({}), dim: Any = _SAME) -> PackedLaunch:
        """Return the launch with some other arguments, or other dimensions, checked all together.

        Raises
        ------
        LaunchError, KernelError
            If the kernel cannot run on them.
        """
        made = self.copy()
        for index, (key, packed, held) in arguments.items():
            span, alias = made.span(index), made.keys[index].partition("@")[2]
            if len(packed) != span.stop - span.start:
                raise self.kernel.parameters[index].error(
                    "another struct cannot take the place of this one", "make another record for it"
                )
            if alias and not any(a is not None for a in held):
                key = key_on(key, alias)  # a launch without arrays stays where it is
            made.keys = (*made.keys[:index], key, *made.keys[index + 1 :])
            made.arrays[span], made.parts[span] = held, packed
            made._leaves = ()
        # Merged parameters are part of some programs, so that other arrays may need another one though types agree.
        if made.keys != self.keys or made.merged != self.merged:
            made.executable = made._program(made.keys)
        if dim is not _SAME and self.log is not None:
            raise LaunchError(
                f"kernel {self.kernel.name!r}: the dimensions of a launch that keeps what its calls returned are fixed",
                remedy="record it anew",
            )
        if dim is not _SAME:
            made.dim = several(dim)
        made._check()
        return made

    def _check(self) -> None:
        """Choose the grid, and raise unless the program takes it with these arguments."""
        self.grid = grid_of(self.kernel, self.executable, self.dim, self.blocks)
        check_fit(self.kernel, self.executable, self.grid, self._passed, self.arrays)

    @property
    def label(self) -> str:
        """The name of the launch for messages."""
        return self.kernel.name

    kind = "launch"

    def facts(self) -> dict[str, Any]:
        """Return the dimensions, the device and the title of the program."""
        return {"dim": self.dims, "device": str(self.device), "title": self.executable.manifest.title}

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return self.executable.device

    @property
    def arguments(self) -> bytes:
        """The packed parameters, which follow the header in the block."""
        return b"".join(self._passed)

    @property
    def _passed(self) -> Sequence[bytes]:
        """The bytes of each parameter of the program."""
        return self.parts if self.log is None else (*self.parts, *(a._packed for a in self.log))

    def touch(self) -> None:
        """Raise the versions of the memory that it changes."""
        # The general path also covers the log and arrays behind elements; the one below is a plain loop for every
        # launch.
        if self.log is not None or self.executable.writes_elements or self.executable.changes:
            super().touch()
            return
        for index in self.executable.writes:
            if (held := self.arrays[index]) is not None:
                held._memory.version += 1

    def execute(self) -> None:
        """Run all threads."""
        self.executable.run(self.grid, self.arguments)

    def reads(self) -> list[array]:
        """Return the arrays that are read."""
        read = [held for index in self.executable.reads if (held := self.arrays[index]) is not None]
        return [*read, *pointed_by(self.executable, self.arrays)] if self.executable.by_id else read

    def writes(self) -> list[array]:
        """Return the arrays that are written."""
        written = [held for index in self.executable.writes if (held := self.arrays[index]) is not None]
        if self.executable.writes_elements:
            written += nested_arrays(self.executable, self.arrays, self.executable.writes)
        if self.executable.changes:
            written += stored_by(self)
        return written if self.log is None else [*written, *self.log]

    def block(self) -> bytearray:
        """Return the argument block of a GPU's launch; empty on the CPU."""
        return self.executable.block(self.grid, self.arguments)

    def constants(self) -> bytes:
        """Return nothing: roll-outs compare the parts of a launch."""
        return b""

    def steps(self) -> Steps | None:
        """Return the launch in native code, or None if Python has to watch the program run."""
        return self.executable.steps(self.grid, self.arguments)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The description of each entry of `arrays` and `parts`."""
        if not self._leaves:
            self._leaves = leaves_of(tuple([p.name for p in self.kernel.parameters]), self.keys)
        return self._leaves

    @property
    def dims(self) -> tuple[int, ...]:
        """The extents of the launch."""
        if self.blocks.tiled:
            return self.executable.dims_of(self.dim, self.blocks)
        return self.dim if isinstance(self.dim, tuple) else (int(self.dim),)


def _are_disjoint(ranges: list[tuple[int, int]]) -> bool:
    """Return whether no two of some ranges of addresses overlap, and none is empty."""
    ranges.sort()
    end = 0
    for low, high in ranges:
        if low < end or high <= low:
            return False
        end = high
    return True


def dispatch(bound: PackedLaunch, record_tape: bool = True, stream: Stream | None = None) -> None:
    """Hand a launch to the tape, to a sequence or to a stream, or run it."""
    if stream is not None and not isinstance(stream, Stream):
        raise MisuseError(
            f"stream must be a dk.Stream, not {stream!r}", remedy="make one with dk.Stream(), or leave it out"
        )
    if bound.executable.changes:
        make_writable(bound)
    perform(bound, stream, record_tape)
