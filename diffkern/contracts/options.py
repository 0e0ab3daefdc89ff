"""The settings from which a kernel's programs are made: the user's options, and the variant of the program.

:class:`KernelOptions` is the one definition of an option: its name, type, check and text. The decorator's parameters,
``dk.compile``, ``dk.set_module_options``, cache keys and the table in the documentation follow it.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np

from diffkern.contracts.launch_layout import Layout
from diffkern.contracts.manifest import DEFAULT_BLOCK_DIM
from diffkern.contracts.platforms import CUDA_COMPILERS, LLVM, NATIVE
from diffkern.errors import MisuseError
from diffkern.process.dataclass import dataclass

__all__ = [
    "ATOMIC", "CLEARING", "FORWARD", "GATHERING", "PLAIN", "SEARCHED", "SORTED", "AdjointForm", "JvpLayer",
    "KernelOptions", "Mode", "Variant", "checked", "describe", "names",
]  # fmt: skip

Mode = Literal["release", "debug", "finite"]
LogKind = Literal["written", "searched", "counted", "stamped"]
Accumulate = Literal["plain", "atomic", "stored", "sorted"]
_T = TypeVar("_T")
MAX_BLOCK_DIM = 1024
"""Most threads of a block."""


def _option(wanted: str, check: Callable[[Any], bool], doc: str, *where: str, in_key: bool = True) -> Any:
    """An option: what its values are, a test of them, its text, and where it is given besides ``dk.compile``."""
    metadata = {"wanted": wanted, "check": check, "doc": doc, "where": where, "in_key": in_key}
    return field(default=None, metadata=metadata)


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_mode(value: Any) -> bool:
    return isinstance(value, str) and value in ("release", "debug", "finite")


def _is_compiler(value: Any) -> bool:
    return isinstance(value, str) and value in CUDA_COMPILERS


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**31


def _are_bounds(value: Any) -> bool:
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, 0)
    whole = len(pair) == 2 and all(type(n) is int for n in pair)
    return whole and bool(1 <= pair[0] <= MAX_BLOCK_DIM and pair[1] >= 0)


def _is_register_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 255


def _as_python(value: Any) -> Any:
    """An integer of NumPy as one of Python; another value as it is."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(_as_python, value)) if type(value) in (tuple, list) else value
    return int(value) if isinstance(value, np.integer) else value


@dataclass(frozen=True)
class KernelOptions:
    """A kernel's options as the user gave them; None where nothing was given.

    Raises
    ------
    MisuseError
        If a value is none that the option has.
    """

    enable_backward: bool | None = _option(
        "True or False", _is_bool,
        "Whether the kernel may be differentiated; by default what ``dk.set_module_options`` says for its module, or "
        "else ``dk.config.enable_backward``, which counts more than both if it is ``\"always\"``.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    stack_bytes: int | None = _option(
        "a positive number of bytes", _is_size,
        "Memory per thread in which the adjoint keeps the state of loops; past it, states are computed again.",
        "kernel",
    )  # fmt: skip
    mode: Literal["release", "debug", "finite"] | None = _option(
        "'release', 'debug' or 'finite'", _is_mode,
        "Whether the programs check indices, integer divisions and stores while they run, or with ``\"finite\"`` also "
        "that no number becomes infinite or NaN; ``dk.config.mode`` by default, or what ``dk.set_module_options`` says "
        "for its module.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    deterministic: bool | None = _option(
        "True or False", _is_bool,
        "Whether results are the same to the last bit from run to run: where they depend on the order of threads, "
        "these run one after the other on the CPU, while a GPU adds up floats exactly and refuses what else depends on "
        "it; by default what ``dk.set_module_options`` says for its module, or else ``dk.config.deterministic``.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    enable_mathdx_gemm: bool | None = _option(
        "True or False", _is_bool,
        "Whether matrix products of tiles on a GPU are made by libmathdx (True, or an error) or are loops (False); by "
        "default what ``dk.set_module_options`` says for its module, or else ``dk.config.enable_mathdx_gemm``.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    block_dim: int | None = _option(
        "a number of threads from 1 to {most}", _is_size,
        "Threads of a block where a launch does not say, in calls from JAX and PyTorch too; 256 by default, or as many "
        "as ``launch_bounds`` allows.",
        "kernel", in_key=False,
    )  # fmt: skip
    launch_bounds: int | tuple[int, int] | None = _option(
        "the most threads of a block, 1 to 1024, or that and the fewest blocks of a multiprocessor", _are_bounds,
        "The most threads that a block of a GPU will have, and the fewest blocks that are to fit one multiprocessor "
        "(0: no wish): the compiler gives each thread registers accordingly.",
        "kernel",
    )  # fmt: skip
    compiler: Literal["llvm", "numba"] | None = _option(
        "'llvm' or 'numba'", _is_compiler,
        "What compiles the programs for GPUs: LLVM, or numba-cuda from the source that "
        "``kernel.source(target=\"cuda\")`` shows; ``dk.config.cuda_compiler`` by default.",
        "kernel", in_key=False,
    )  # fmt: skip
    lanes: bool | None = _option(
        "True or False", _is_bool,
        "Whether neighbouring threads of a launch on a processor run in one vector register, where they can; by "
        "default where that is likely to pay.",
        "kernel",
    )  # fmt: skip
    max_registers: int | None = _option(
        "a number of registers from 1 to 255", _is_register_count,
        "The most registers of a GPU that a thread may have; what does not fit lies in local memory.",
        "kernel",
    )  # fmt: skip
    private_copies: bool | None = _option(
        "True or False", _is_bool,
        "Whether groups of threads of a processor that add to elements anywhere may add to copies of their own, which "
        "are then added up: where that is likely to pay, by default and with True; with False they add atomically.",
        "kernel",
    )  # fmt: skip
    fast_math: bool | None = _option(
        "True or False", _is_bool,
        "Whether arithmetic may be reassociated, divisions be products with reciprocals, and a GPU's elementary "
        "functions be less exact; the page on the mathematics of the CPU backend lists what that gives up.",
        "kernel",
    )  # fmt: skip
    fuse_fp: bool | None = _option(
        "True or False", _is_bool,
        "Whether a product and a sum may be rounded once, as one instruction does it; without that, results are those "
        "of each operation by itself, as NumPy has them. By default what ``dk.set_module_options`` says for its "
        "module, or else True.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    race_free: bool | None = _option(
        "True or False", _is_bool,
        "Whether to take for granted that no thread reads what another thread of the same launch writes, or stores to "
        "the same element, where that is not proved: launches on tapes are then not looked at, and if two threads do "
        "race the gradient is wrong without an error; by default what ``dk.set_module_options`` says for its module, "
        "or else False.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    log_searches: bool | None = _option(
        "True or False", _is_bool,
        "Whether a launch on a tape keeps the integers that loops have found, if they are all that its adjoint needs "
        "of the loops, so that these do not run once more; by default what ``dk.set_module_options`` says for its "
        "module, or else True.",
        "kernel", "module", in_key=False,
    )  # fmt: skip
    lineinfo: bool | None = _option(
        "True or False", _is_bool, "Whether a GPU's machine code says which source line each instruction is of."
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            # NumPy's numbers become Python's: options are compared, hashed and written to JSON as part of the key.
            object.__setattr__(self, option.name, _as_python(getattr(self, option.name)))
        given: Any = self.launch_bounds
        if given is not None:
            # Before the others, since the greatest number of threads follows from it.
            checked("launch_bounds", given)
            object.__setattr__(self, "launch_bounds", (given, 0) if isinstance(given, int) else tuple(given))
        for option in fields(self):
            # None means that the option was not given.
            if (value := getattr(self, option.name)) is not None:
                checked(option.name, value, self.most_threads)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option that was given, or else a default."""
        value = getattr(self, name, None)
        return default if value is None else value

    @property
    def most_threads(self) -> int:
        """The greatest number of threads that a block may have."""
        return self.bounds[0] if self.bounds else MAX_BLOCK_DIM

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The launch bounds, both of them."""
        return self.launch_bounds  # type: ignore[return-value]  # the pair, as it was made

    @property
    def usual_block_dim(self) -> int:
        """Threads of a block where a launch does not say."""
        return self.block_dim or min(DEFAULT_BLOCK_DIM, self.most_threads)


def checked(name: str, value: Any, most_threads: int = MAX_BLOCK_DIM, called: str | None = None) -> Any:
    """Return the value of an option, which may have another name where it was given.

    Raises
    ------
    MisuseError
        If it is none that the option has.
    """
    option = KernelOptions.__dataclass_fields__[name].metadata
    if not option["check"](value) or (name == "block_dim" and value > most_threads):
        raise MisuseError(
            f"{called or name} is {option['wanted'].format(most=most_threads)}, not {value!r}",
            remedy="write one of these, or leave it out",
        )
    return value


def names(where: str) -> tuple[str, ...]:
    """Return the options that are given in a place: ``"kernel"`` or ``"module"``."""
    return tuple(option.name for option in fields(KernelOptions) if where in option.metadata["where"])


class JvpLayer(NamedTuple):
    """The signature of a kernel in forward mode.

    Attributes
    ----------
    arguments
        The arguments that have tangents.
    leading
        The number of arguments that come first. Their tangents follow them, then the other arguments, then theirs.
    """

    arguments: tuple[int, ...]
    leading: int

    def parted(self, taken: Sequence[_T]) -> tuple[list[_T], list[_T]]:
        """Return what belongs to the arguments and what belongs to their tangents, of what belongs to parameters."""
        # Tangents follow the group of arguments that they belong to: first those of the leading ones.
        early = self.leading + sum(k < self.leading for k in self.arguments)
        late = len(taken) - sum(k >= self.leading for k in self.arguments)
        return [*taken[: self.leading], *taken[early:late]], [*taken[self.leading : early], *taken[late:]]

    def own(self, taken: Sequence[_T]) -> list[_T]:
        """Return what belongs to the arguments, of what belongs to parameters."""
        return self.parted(taken)[0]

    def joined(self, own: Sequence[_T], tangents: Sequence[_T]) -> list[_T]:
        """Return what belongs to parameters, of what belongs to the arguments and to their tangents."""
        early = sum(k < self.leading for k in self.arguments)
        return [*own[: self.leading], *tangents[:early], *own[self.leading :], *tangents[early:]]


class VmapLayer(NamedTuple):
    """The signature of a kernel with an axis of examples.

    Attributes
    ----------
    arguments
        Those that differ from example to example: arrays have an additional axis, values are arrays of one axis.
    values
        Those of them that are values.
    single
        True if a kernel that asks for no axis of threads has one thread for each example.
    """

    arguments: tuple[int, ...]
    values: tuple[int, ...]
    single: bool

    def own(self, types: Sequence[Any]) -> list[Any]:
        """Return the types of the arguments of one example, from those for a batch."""
        own = list(types)
        for k in self.arguments:
            t = types[k]
            # A value that differs from example to example is passed as an array with one axis.
            own[k] = t.dtype if k in self.values else replace(t, ndim=t.ndim - 1)
        return own


class AdjointForm(NamedTuple):
    """A choice among the adjoint programs of a launch. The manifest of the plain one lists the others.

    Attributes
    ----------
    accumulate
        How it adds to cotangents: with ``"atomic"`` to those of class ``general`` atomically; with ``"stored"`` it
        stores what it adds to elements that get nothing else, which have to begin at zero; with ``"sorted"`` it stores
        what it would add to those of class ``general`` into other arrays, to be added up by sorted destinations.
    joint
        True if its threads first run the primal of the launch.
    preserve_cotangents
        True if cotangents that it reads once, and would then set to zero, keep their values.
    gathers
        True if each thread computes the contributions of others to its own elements.
    clears
        True if it does nothing but set to zero what the one that gathers has left for this.
    stamped
        True if it belongs to a launch whose reads and writes were stamped: there, no two threads race.
    searched
        True if it reads from a log what searches of the launch have found, where it would find that once more.
    """

    accumulate: Accumulate = "plain"
    joint: bool = False
    preserve_cotangents: bool = False
    gathers: bool = False
    clears: bool = False
    stamped: bool = False
    searched: bool = False


PLAIN, ATOMIC, GATHERING = AdjointForm(), AdjointForm("atomic"), AdjointForm(gathers=True)
CLEARING = AdjointForm(clears=True)
SORTED, SEARCHED = AdjointForm("sorted"), AdjointForm(searched=True)


Merged = tuple[tuple[int, int], ...]
"""Parameters that are given the array of another one, each with that one."""

_ELSEWHERE: Final = {"in_key": False}
"""Of a field of a variant that goes into a key in another place, or has no say in the code."""


@dataclass(frozen=True)
class Variant:
    """The identity of one of a kernel's programs for arguments of given types.

    A field that is added goes into the key of the cache, unless its metadata say otherwise.

    Attributes
    ----------
    options
        The kernel's options.
    target
        The platform that it is compiled for.
    mode
        ``"release"``, or the checks that it makes while it runs.
    active
        None for the forward; else the parameters to differentiate for.
    form
        The choice among the adjoints for these parameters, of which a program with a log only has ``stamped``.
    block_dim
        Threads of a block, as far as the program depends on them; by default the kernel's option.
    library
        Whether matrix products of tiles are a library's: wherever it has them, or else an error; None for loops.
    may_alias
        Whether, on a GPU, an array that is written may overlap another one.
    by_reference
        Whether numbers are passed by reference.
    layout
        For a kernel in numba's spelling, the launches that it is for; None for kernels in diffkern's own.
    log
        For a forward: whether it writes the values that its adjoint needs to a log, or what searches have found, or
        only counts the values; or stamps elements with the threads that read and write them.
    log_for
        The parameters for whose adjoint the log has the values of loads, or what searches have found; None if it has
        the results of atomic updates. For a program that stamps: the arrays.
    compiler
        The compiler of a GPU program. It goes into the key with the versions of that compiler.
    merged
        Parameters to which a launch passes the array of another one, each with that one: they count as one parameter.
    layers
        The transformations that were applied to the kernel, in order: forward mode, an axis of examples.
    deterministic
        Whether its results are bit-identical from run to run.
    fuse_fp
        Whether a product and a sum may be rounded once.
    axes
        The fewest axes that its launches have where the kernel asks for an index; threads that differ only along axes
        beyond those it asks for have one index.
    """

    options: KernelOptions = field(default=KernelOptions(), metadata=_ELSEWHERE)
    target: str = field(default=NATIVE, metadata=_ELSEWHERE)
    mode: Mode = "release"
    active: frozenset[int] | None = None
    form: AdjointForm = PLAIN
    block_dim: int | None = None
    library: Literal["wanted", "required"] | None = None
    may_alias: bool = True
    by_reference: bool = False
    layout: Layout | None = None
    log: LogKind | None = None
    log_for: frozenset[int] | None = None
    compiler: str = field(default=LLVM, metadata=_ELSEWHERE)
    layers: tuple[JvpLayer | VmapLayer, ...] = ()
    merged: Merged = ()
    deterministic: bool = False
    fuse_fp: bool = True
    axes: int = 0

    def __post_init__(self) -> None:
        # Set here rather than as a default, so that equal programs have equal keys however the number was given.
        if self.block_dim is None:
            object.__setattr__(self, "block_dim", self.options.block_dim)

    @property
    def is_debug(self) -> bool:
        """True if the program makes checks while it runs."""
        return self.mode != "release"

    @property
    def as_lowered(self) -> Variant:
        """The program whose lowering is that of all of its form: the plain forward."""
        return replace(self, active=None, log=None, log_for=None, form=PLAIN)

    def key(self) -> bytes:
        """Return what of it has a say in the code as text for a cache's key: all fields that do not stand elsewhere."""
        return json.dumps(_fields_told(self.options) | _fields_told(self), sort_keys=True).encode()


def _fields_told(holder: KernelOptions | Variant) -> dict[str, Any]:
    """The fields that have a say in the code and are not as usual."""
    # Only fields that differ from their defaults go into the key: an option that is added later keeps the artifacts
    # that exist.
    told = {f.name: (getattr(holder, f.name), f.default) for f in fields(holder) if f.metadata.get("in_key", True)}
    return {name: _told(value) for name, (value, usual) in told.items() if value != usual}


def _told(value: Any) -> Any:
    """A value as JSON has it, with the names of the types of tuples."""
    if isinstance(value, frozenset):
        # Sets have no order of their own, and a key must be the same in every process.
        return sorted(value)
    if isinstance(value, tuple):
        # Layers of different kinds may have equal fields.
        named = [type(value).__name__] if hasattr(value, "_fields") else []
        return [*named, *map(_told, value)]
    return value


FORWARD = Variant()
"""The forward program for the processor at hand, without options."""


def describe(function: Callable[..., Any]) -> None:
    """Put the decorator's options into its signature and, where ``{options}`` stands, into its docstring."""
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    given = {f.name: f for f in fields(KernelOptions) if "kernel" in f.metadata["where"]}
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=f.type)
        for name, f in given.items()
    ]
    # One definition of the options serves the decorator's checks, its signature and the documentation.
    function.__signature__ = inspect.Signature([*own, *keywords])  # type: ignore[attr-defined]
    lines: list[str] = []
    for name, f in given.items():
        lines.append(f"{name} : {str(f.type).removesuffix(' | None')}, optional")
        lines += textwrap.wrap(f.metadata["doc"], 112, initial_indent="    ", subsequent_indent="    ")
    text = function.__doc__ or ""
    # Python takes the indentation off from version 3.13 on.
    before = next((line for line in text.splitlines() if line.endswith("{options}")), "")
    function.__doc__ = text.replace("{options}", ("\n" + before.removesuffix("{options}")).join(lines))
