"""A launch whose arguments are checked and packed, and the quick way for one that nobody keeps.

In: a kernel, dimensions, arguments. Out: the kernel has run; or a :class:`LaunchError` before anything ran. The plain
launch is written for little overhead; a launch that a tape keeps is a :class:`PackedLaunch` that can run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol

from diffkern.errors import KernelRuntimeError, LaunchError, Loc, MisuseError
from diffkern.ir.structs import Leaf
from diffkern.runtime.arguments import Parameter, bind, keys_on, leaves_of
from diffkern.runtime.array import array
from diffkern.runtime.device import CPU, Device, get_device
from diffkern.runtime.extents import several
from diffkern.runtime.generation import Generation
from diffkern.runtime.grid import Grid
from diffkern.runtime.grid_checks import OneThreadError, named
from diffkern.runtime.native.replay import Steps
from diffkern.runtime.operation import Operation, perform
from diffkern.runtime.program import Executable
from diffkern.runtime.schedule import USUAL, Blocks
from diffkern.runtime.state import attention, current
from diffkern.runtime.stream import Stream, settle
from diffkern.runtime.type_keys import key_on

__all__ = [
    "Accumulate",
    "Launchable",
    "PackedLaunch",
    "check_kernel",
    "check_shapes",
    "check_writable",
    "dispatch",
    "refusal",
    "run",
]

Accumulate = Literal["plain", "atomic"]
_SAME = object()
Leaves = tuple[str, Sequence[bytes], Sequence["array | None"]]
"""An argument: the key of its type, and of each leaf its bytes in the block and the array it is."""


class Launchable(Protocol):
    """What the launch path needs of a kernel."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    @property
    def programs(self) -> Mapping[tuple[str, ...], Executable]:
        """Forward programs by the keys of the argument types."""
        ...

    def generation(self) -> int:
        """Return a number that grows when something the kernel captured changed; programs are current after it."""
        ...

    def current(self) -> Generation:
        """Return what the kernel means now."""
        ...

    def forward(self, keys: tuple[str, ...], block_dim: int | None = None, of: Generation | None = None) -> Executable:
        """Return the forward program for argument types, built if need be; without `block_dim` for the usual one."""
        ...

    def update_of_all_threads(self, program: Executable) -> Loc | None:
        """Return where all threads of a launch of a program change one element that they have read, if they do."""
        ...

    def adjoint(
        self,
        keys: tuple[str, ...],
        active: frozenset[int],
        accumulate: Accumulate,
        block_dim: int | None = None,
        of: Generation | None = None,
    ) -> Executable:
        """Return the adjoint program for argument types and active parameters, built if need be."""
        ...


class PackedLaunch(Operation):
    """A launch whose arguments are checked and packed: it can run, and run again.

    Attributes
    ----------
    kernel
        What is launched.
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
        What the kernel meant at the time of the launch: its derivative is that of this program.
    """

    __slots__ = (
        "_leaves", "arrays", "blocks", "dim", "executable", "generation", "grid", "kernel", "keys", "parts",
    )  # fmt: skip

    def __init__(
        self,
        kernel: Launchable,
        dim: Any,
        args: Sequence[Any],
        place: Device | None = None,
        blocks: Blocks = USUAL,
        of: Generation | None = None,
    ) -> None:
        self.kernel = kernel
        self.generation = of or kernel.current()
        self.keys, self.parts, self.arrays = bind(kernel.name, kernel.parameters, args)
        self._leaves: tuple[Leaf, ...] = ()
        self.blocks = blocks
        self.executable = self._program(self.keys)
        if place is not None or (current.device is not None and self.executable.device is CPU):
            self._move_to(place or get_device(), place is not None)
        self.dim = several(dim)
        self._check()

    def _move_to(self, place: Device, named: bool) -> None:
        """Run on a device, which arrays have to be on if it was named; a launch without arrays has no place else."""
        for index, held in enumerate(self.arrays):
            if held is not None:
                if named and held._memory.device is not place:
                    raise LaunchError(
                        f"kernel {self.kernel.name!r}, parameter {self.leaves[index].name!r}: the array is on "
                        f"{held.device}, and the launch on {place}",
                        remedy=f"pass array.to({place.alias!r}), or leave device= out",
                    )
                if not named:
                    return
        if place is not CPU and not any(held is not None for held in self.arrays):
            if self.keys:
                self.keys = (place.keyed(self.keys[0]), *self.keys[1:])
            keys = self.keys or keys_on(place.alias)
            self.executable = self._program(keys)

    def _program(self, keys: tuple[str, ...]) -> Executable:
        block_dim = self.blocks.block_dim
        found = self.generation.programs.get(keys) if block_dim is None else None
        return found or self.kernel.forward(keys, block_dim, self.generation)

    def adjoint(self, active: frozenset[int], accumulate: Accumulate = "plain") -> Executable:
        """Return the adjoint of the program that it runs."""
        return self.kernel.adjoint(self.keys, active, accumulate, self.blocks.block_dim, self.generation)

    def copy(self) -> PackedLaunch:
        """Return the same launch with arguments of its own."""
        made = object.__new__(PackedLaunch)
        for name in PackedLaunch.__slots__:
            setattr(made, name, getattr(self, name))
        made.parts, made.arrays = list(self.parts), list(self.arrays)
        return made

    def span(self, index: int) -> slice:
        """Return which leaves stand for an argument."""
        if len(self.parts) == len(self.keys):
            return slice(index, index + 1)
        places = [k for k, leaf in enumerate(self.leaves) if leaf.argument == index]
        return slice(places[0], places[-1] + 1)

    def changed(self, arguments: Mapping[int, Leaves] = MappingProxyType({}), dim: Any = _SAME) -> PackedLaunch:
        """Return the launch with some other arguments, or other dimensions, which are checked all together.

        Raises
        ------
        LaunchError, KernelError
            If the kernel cannot run on them.
        """
        made = self.copy()
        for index, (key, packed, held) in arguments.items():
            span, alias = made.span(index), made.keys[index].partition("@")[2]
            if len(packed) != span.stop - span.start:
                raise self.kernel.parameters[index].error("another struct cannot take the place of this one")
            if alias and not any(a is not None for a in held):
                key = key_on(key, alias)  # a launch without arrays stays where it is
            made.keys = (*made.keys[:index], key, *made.keys[index + 1 :])
            made.arrays[span], made.parts[span] = held, packed
            made._leaves = ()
        if made.keys != self.keys:
            made.executable = made._program(made.keys)
        if dim is not _SAME:
            made.dim = several(dim)
        made._check()
        return made

    def _check(self) -> None:
        """Choose the grid, and raise unless the program takes it with these arguments."""
        self.grid = _grid(self.kernel, self.executable, self.dim, self.blocks)
        check_shapes(self.kernel, self.executable, self.grid, self.parts)
        check_writable(self.kernel, self.executable, self.arrays)
        self.executable.check(lambda: self.arguments)

    @property
    def label(self) -> str:
        """What it is, for a person."""
        return self.kernel.name

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.executable.device

    @property
    def arguments(self) -> bytes:
        """The packed parameters, as they stand behind the header."""
        return b"".join(self.parts)

    def execute(self) -> None:
        """Run all threads."""
        self.executable.run(self.grid, self.arguments)

    def reads(self) -> list[array]:
        """Return the arrays that are read."""
        return [held for index in self.executable.reads if (held := self.arrays[index]) is not None]

    def writes(self) -> list[array]:
        """Return the arrays that are written."""
        return [held for index in self.executable.writes if (held := self.arrays[index]) is not None]

    def block(self) -> bytearray:
        """Return the argument block of a GPU's launch; empty on the CPU."""
        return self.executable.block(self.grid, self.arguments)

    def steps(self) -> Steps | None:
        """Return the launch in native code, or None if the program has to be watched while it runs."""
        return self.executable.steps(self.grid, self.arguments)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """What stands for each entry of `arrays` and `parts`."""
        if not self._leaves:
            self._leaves = leaves_of(tuple([p.name for p in self.kernel.parameters]), self.keys)
        return self._leaves

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions as a tuple."""
        return self.dim if isinstance(self.dim, tuple) else (int(self.dim),)


def dispatch(bound: PackedLaunch, record_tape: bool = True, stream: Stream | None = None) -> None:
    """Give a launch to whoever takes it: the tape, a sequence, a stream, or run it."""
    if stream is not None and not isinstance(stream, Stream):
        raise MisuseError(f"stream must be a dk.Stream, not {stream!r}")
    if record_tape and current.tape is not None:
        settle()
        current.tape.record_launch(bound)
    else:
        perform(bound, stream)


def run(kernel: Launchable, dim: Any, args: Sequence[Any], record_tape: bool = True) -> None:
    """Launch with all arguments in one sequence."""
    if attention.word[0]:
        dispatch(PackedLaunch(kernel, dim, args), record_tape)
        return
    programs = kernel.current().programs
    keys, parts, arrays = bind(kernel.name, kernel.parameters, args)
    executable = programs.get(keys) or kernel.forward(keys)
    grid = executable.grids.get(dim) if type(dim) is int else None
    if grid is None:
        grid = _grid(kernel, executable, dim)
    arguments = b"".join(parts)
    extents = executable.extents
    if extents is not None:
        last = extents.last
        if last[1] != arguments or last[0] is not grid:
            extents.check(kernel.name, grid, arguments)
    writes = executable.writes
    if not writes and current.device is not None:  # without arrays it runs there
        dispatch(PackedLaunch(kernel, dim, args), record_tape)
        return
    for index in writes:
        held = arrays[index]
        if held is not None:
            if not held._writable:
                check_writable(kernel, executable, arrays)
            held._memory.version += 1
    try:
        executable.run(grid, arguments)
    except LaunchError as error:
        if not isinstance(error, KernelRuntimeError):  # a GPU's program does not take the arguments: nothing has run
            for index in writes:
                held = arrays[index]
                if held is not None:
                    held._memory.version -= 1
        raise


def check_kernel(obj: Any) -> None:
    """Refuse something else in a kernel's place."""
    refused = refusal(obj)
    if refused is not None:
        raise refused


def refusal(obj: Any) -> MisuseError | None:
    """Return the error for something else in a kernel's place, None for a kernel."""
    if hasattr(obj, "programs"):
        return None
    name = getattr(obj, "__name__", None)
    what = f"{name} ({type(obj).__name__})" if isinstance(name, str) else f"a {type(obj).__name__}"
    return MisuseError(f"{what} is no kernel, so it cannot be launched", remedy="decorate a function with @dk.kernel")


def check_writable(kernel: Launchable, executable: Executable, arrays: Sequence[array | None]) -> None:
    """Raise if the kernel writes to memory that is read-only."""
    for index in executable.writes:
        held = arrays[index]
        if held is not None and not held._writable:
            raise LaunchError(
                f"kernel {kernel.name!r}, parameter {executable.name_of(index)!r}: the kernel writes to it, and the "
                "array is read-only",
                remedy="pass a copy",
            )


def _grid(kernel: Launchable, executable: Executable, dim: Any, blocks: Blocks = USUAL) -> Grid:
    try:
        return executable.grid(dim, blocks)
    except ValueError as error:
        raise LaunchError(f"kernel {kernel.name!r}: {error}") from None
    except OneThreadError as error:
        error.loc = kernel.update_of_all_threads(executable)
        raise named(kernel.name, error) from None
    except LaunchError as error:
        raise named(kernel.name, error) from None


def check_shapes(kernel: Launchable, executable: Executable, grid: Grid, parts: Sequence[bytes]) -> None:
    """Raise if threads of the launch would leave an array where no condition guards the access."""
    if executable.extents is not None:
        executable.extents.check(kernel.name, grid, b"".join(parts))
