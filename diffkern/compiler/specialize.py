"""From a kernel's specialization to code in memory: look in the cache, else compile, then load.

A Python function, argument types, a direction and options give an :class:`Executable`. The compiler is imported only
when neither the cache nor a loaded directory has an artifact, so that a process whose kernels are all cached imports
neither it nor numba.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from diffkern.cache.environment import compiler_digest, distribution_versions, has_mathdx
from diffkern.cache.key import key
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.store import Store
from diffkern.compiler.stores import current_store, shipped_stores
from diffkern.contracts.options import ATOMIC, FORWARD, JvpLayer, Variant
from diffkern.contracts.platforms import HOST, LINKER, LLVM, NATIVE, native_fields, platform_named, runnable
from diffkern.errors import CompileError
from diffkern.ir.structs import Argument, declared
from diffkern.lang.structs import functions_of
from diffkern.process import wheels
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import free_in_child
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.native.loader import ObjectLoadError, host_cpu, load_code
from diffkern.runtime.observe.config import config
from diffkern.runtime.observe.spans import Span, past, span, watched

if TYPE_CHECKING:
    from diffkern.compiler.compilation import Compilation
    from diffkern.compiler.program import Program
    from diffkern.frontend.syntax.taken import TakenResults
    from diffkern.ir.nodes import Function
    from diffkern.ir.passes import PassOptions
    from diffkern.ir.stages import Stage
    from diffkern.targets.cuda.mathdx import Product

__all__ = [
    "Specialization",
    "artifact_key",
    "build_entry",
    "is_for_this_machine",
    "load",
    "load_entry",
    "load_stored",
    "obtain_products",
    "runnable_targets",
]

# A program that nothing can run any more leaves memory, with its machine code.
_loaded: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
_entries: dict[str, StoredArtifact] = {}
_ACCUMULATING = {"plain": "", "atomic": ", with atomics", "stored": ", sums stored", "sorted": ", sums sorted"}
_COMPILER = "compiler for GPUs"
"""The field that has no say in a program for a processor."""
_lock = free_in_child(threading.Lock())


@dataclass(frozen=True)
class Specialization:
    """One program of one kernel; its target is given when it is compiled.

    Parameters
    ----------
    pyfunc : callable
        The kernel's Python function.
    types : tuple of Argument
        Types of its arguments.
    variant : Variant
        The variant of the program for these types, with the kernel's options.
    """

    pyfunc: Callable[..., Any]
    types: tuple[Argument, ...]
    variant: Variant = FORWARD

    def with_variant(self, **changes: Any) -> Specialization:
        """Return another program of the kernel."""
        return replace(self, variant=replace(self.variant, **changes))

    def for_block(self, threads: int, library: bool | None, target: str = NATIVE) -> Specialization:
        """Return the program for blocks of `threads` threads, if it depends on that; else itself.

        It does where a library may make matrix products for it, and where it makes tiles of what threads hold.

        Parameters
        ----------
        threads : int
            Threads of a block.
        library : bool or None
            Whether products are libmathdx's: True, or an error; None where it is installed; False for loops.
        target : str, optional
            The architecture for which a program with such products, if there is one in a directory of shipped programs,
            is taken without libmathdx too.
        """
        from diffkern.frontend.syntax.canonical import may_make_tiles_of_threads, may_multiply_tiles

        multiplies = library is not False and may_multiply_tiles(self.pyfunc)
        made = self.with_variant(block_dim=threads) if may_make_tiles_of_threads(self.pyfunc) else self
        # Without products of a library the block size does not matter for them.
        if not multiplies:
            return made
        called = self.with_variant(block_dim=threads, library="required" if library else "wanted", compiler=LINKER)
        # A machine without libmathdx still runs shipped programs with such products, which were linked when they were
        # made.
        if library is None and not has_mathdx():
            shipped = any(_shipped_entry(one.fields(), target) for one in (called.for_arrays_apart(), called))
            return called if shipped else made
        return called

    def with_atomics(self) -> Specialization:
        """Return the adjoint that adds to cotangents atomically wherever threads of any launch may race."""
        return self.with_variant(form=ATOMIC)

    def for_arrays_apart(self) -> Specialization:
        """Return the program for launches on a GPU in which no array that is written overlaps another one.

        It is the one that nearly all launches run; the program without this option is made when arrays do overlap.
        """
        return self.with_variant(may_alias=False)

    def fields(self) -> list[tuple[str, bytes]]:
        """Return everything that determines the code besides the target, in a fixed order."""
        from diffkern.frontend.syntax.canonical import meaning_of, positions

        active, accumulate = self.variant.active, self.variant.form.accumulate
        direction = "forward" if active is None else f"adjoint {sorted(active)} {accumulate}"
        fields = [("types", ", ".join(map(str, self.types)).encode()), ("direction", direction.encode())]
        fields.append(("options", self.variant.key()))
        fields.append((_COMPILER, self.variant.compiler.encode()))
        fields.extend(meaning_of(self.pyfunc).fields)
        functions = [self.pyfunc]
        # Arguments may bring functions of their own, such as methods of structs, whose code is part of the program.
        for name, func in (pair for t in self.types for pair in functions_of(declared(t))):
            fields.extend((f"{name} {label}", value) for label, value in meaning_of(func.pyfunc).fields)
            functions.append(func.pyfunc)
        if (taken := self.taken()) is not None:
            functions += taken.reached
            fields.extend(taken.fields)
            for k, reached in enumerate(taken.reached):
                # Functions that lowering reaches through objects are part of the program like those the fingerprint
                # covers.
                fields.extend((f"taken {k} {label}", value) for label, value in meaning_of(reached).fields)
        if self.variant.is_debug:  # its errors say where
            fields.extend(field for function in functions for field in positions(function))
        fields.append(("diffkern", compiler_digest()))
        return fields

    def taken(self) -> TakenResults | None:
        """Return what lowering takes from objects whose contents the fingerprint does not cover; None without such."""
        from diffkern.compiler.lowered import taken

        return taken(self.pyfunc, self.types, self.variant)

    def compilation(self, target: str, lowered: Function | None = None) -> Compilation:
        """Return its compilation for a target; ``lowered`` as for :class:`Compilation`."""
        from diffkern.compiler.compilation import Compilation

        # Passes are watched only while somebody observes: telling them apart costs time.
        context = _watching(self.variant.is_debug) if watched.observers else None
        variant = replace(self.variant, target=target)
        return Compilation(self.pyfunc, self.types, variant, context=context, lowered=lowered)

    def products(self, target: str) -> tuple[Product, ...]:
        """Return the matrix products that its program for a GPU takes from a library, without making them."""
        return self.compilation(target).products(obtain_products) if self.variant.library else ()

    @property
    def direction(self) -> str:
        """``forward`` or ``adjoint``."""
        return "forward" if self.variant.active is None else "adjoint"

    @property
    def title(self) -> str:
        """Its title for messages and lists."""
        types = ", ".join(map(str, self.types))
        modes = "".join("jvp of " if isinstance(x, JvpLayer) else "batch of " for x in reversed(self.variant.layers))
        return f"{self.direction} of {modes}{self.pyfunc.__qualname__}({types})"

    def title_for(self, target: str) -> str:
        """Return its title, with what distinguishes it from the other programs of the kernel for the target."""
        more = [", arrays may overlap"] if platform_named(target).tells_overlaps and self.variant.may_alias else []
        more += [f", log {self.variant.log}"] if self.variant.log else []
        more += [_ACCUMULATING[self.variant.form.accumulate]]
        more += [", sums gathered"] if self.variant.form.gathers else []
        more += [", only clearing"] if self.variant.form.clears else []
        more += [", with the launch"] if self.variant.form.joint else []
        more += [", cotangents kept"] if self.variant.form.preserve_cotangents else []
        return self.title + "".join(more)


def obtain_products(products: Sequence[Product]) -> list[bytes]:
    """Return the code of matrix products, from the cache or made."""
    from diffkern.compiler.products import codes

    return codes(products)


def load(specialization: Specialization) -> Executable:
    """Return a program in memory, from the cache if it is there.

    Raises
    ------
    KernelError
        If the kernel cannot be compiled or differentiated. Nothing is cached then.
    """
    fields = specialization.fields()
    name = artifact_key(fields, NATIVE)
    found = _loaded.get(name)
    if found is not None:
        return found
    store = current_store()
    with _looking_up(specialization) as look:
        # The cache comes first, as its entries are for exactly this processor.
        executable = _from_cache(store.get(name)) or _from_directories(fields)
        if executable is not None:
            look.facts["title"] = executable.manifest.title
    if executable is None:
        with store.building(name):
            # Another process may have built it while this one waited.
            executable = _from_cache(store.get(name))
            if executable is None:
                entry = build_entry(specialization, fields, NATIVE)
                # Loaded before it is stored, so that code which cannot be loaded is not found by other processes.
                executable = _executable(entry)
                store.put(name, entry)
    with _lock:
        # Another thread may have loaded the same program meanwhile; one of them is enough.
        return _loaded.setdefault(name, executable)


def load_stored(store: Store, name: str) -> Executable | None:
    """Return a program by its key, from memory or a store; None if it is not there or not for this machine."""
    found = _loaded.get(name) or _from_cache(store.get(name))
    if found is None:
        return None
    with _lock:
        return _loaded.setdefault(name, found)


def is_for_this_machine(ingredients: Mapping[str, str]) -> bool:
    """Return whether an artifact for exactly one processor is for this one, by the ingredients in its manifest."""
    return all(ingredients.get(name) == value.decode() for name, value in native_fields(_host_cpu()))


def load_entry(specialization: Specialization, target: str) -> StoredArtifact:
    """Return the artifact of a program for a target: for a GPU, to be loaded by its driver, or only to be looked at.

    Of shipped programs one for a lesser architecture serves too: its machine code if the major version is the same,
    else its PTX where nothing can be compiled here.

    Parameters
    ----------
    specialization : Specialization
        The specialization to compile.
    target : str
        As in :func:`build_entry`.

    Raises
    ------
    KernelError
        If the kernel cannot be compiled or differentiated. Nothing is cached then.
    """
    fields = specialization.fields()
    name = artifact_key(fields, target)
    entry = _entries.get(name)
    if entry is None:
        store = current_store()
        with _looking_up(specialization) as look:
            entry = store.get(name) or _shipped_entry(fields, target)
            if entry is not None:
                look.facts["title"] = entry.manifest.title
        if entry is None:
            with store.building(name):
                entry = store.get(name) or _built_or_translated(specialization, fields, target, store)
        # One object per program, whichever thread found it first: programs hold state of their own.
        with _lock:
            entry = _entries.setdefault(name, entry)
    return entry


def _built_or_translated(
    specialization: Specialization, fields: Sequence[tuple[str, bytes]], target: str, store: Store
) -> StoredArtifact:
    """Compile a program into a store; where that fails, take a shipped one that the GPU's driver can compile."""
    try:
        entry = build_entry(specialization, fields, target)
    # Without a compiler for the target, PTX that the driver compiles is better than none.
    except CompileError:
        found = _shipped_entry(fields, target, translated=True)
        if found is None:
            raise
        return found
    store.put(artifact_key(fields, target), entry)
    return entry


def build_entry(
    specialization: Specialization, fields: Sequence[tuple[str, bytes]], target: str, shipped: bool = False
) -> StoredArtifact:
    """Compile a specialization for a target.

    Parameters
    ----------
    specialization : Specialization
        The specialization to compile.
    fields : sequence of (str, bytes)
        Its fields.
    target : str
        ``native`` or the name of a target.
    shipped : bool, optional
        Whether it is for machines that may have other compilers, or none.

    Raises
    ------
    KernelError
        If it cannot be compiled or differentiated.
    """
    started = time.perf_counter()
    platform, called = platform_named(target), f"{specialization.pyfunc.__name__}_{specialization.direction}"
    # The symbol is made from the key, so that programs in one process do not define a name twice.
    symbol = platform.symbol(called, artifact_key(fields, target, shipped))
    title = specialization.title_for(target)
    with span("compile", f"compile {title}", title=title, target=target):
        program = _program(specialization, fields, NATIVE if target == HOST else target, symbol)
    manifest = replace(program.manifest, title=title, target=target)
    # Readable ingredients let `diffkern cache` tell why two artifacts differ.
    ingredients = _readable(_with_target(fields, target, shipped))
    if config.verbose:
        print(f"diffkern: compiled {title} in {time.perf_counter() - started:.2f} s", file=sys.stderr)
    name, files = platform.object_name, program.files
    return StoredArtifact(program.object_code, program.symbols, program.source, manifest, ingredients, name, files)


def _looking_up(specialization: Specialization) -> AbstractContextManager[Span]:
    """Tell observers of the search for a program; one that was found gets its title as a fact."""
    return span("load", f"look up {specialization.title}")


def _watching(verify: bool) -> PassOptions:
    """Return the context that tells observers of passes: each lasts from the end of the one before."""
    from diffkern.ir.passes import PassOptions

    before = time.perf_counter_ns()

    def told(name: str, stage: Stage, fn: Function) -> None:
        nonlocal before
        begin, before = before, time.perf_counter_ns()
        past(Span("pass", name, {"stage": stage.name}, begin, before))

    return PassOptions(verify=verify, watch=told)


def _program(specialization: Specialization, fields: Sequence[tuple[str, bytes]], target: str, symbol: str) -> Program:
    """Compile, with the IR that the forward program has left for the adjoint."""
    from diffkern.compiler.lowered import keep, take

    pyfunc, is_forward = specialization.pyfunc, specialization.variant.active is None
    variant = replace(specialization.variant, target=target).as_lowered
    # Of direction and options only what lowering depends on counts, and that is in `variant`.
    depends = variant, tuple(field for field in fields if field[0] not in ("direction", "options"))
    compilation = specialization.compilation(target, None if is_forward else take(pyfunc, depends))
    program = compilation.build(symbol, obtain_products)
    # Kept for the adjoint, which is mostly compiled next and begins with the same IR.
    if is_forward:
        keep(pyfunc, depends, compilation.primal)
    return program


def artifact_key(fields: Sequence[tuple[str, bytes]], target: str, shipped: bool = False) -> str:
    """Return the key of a specialization's artifact for a target: that of its fields with those of the target."""
    return key(_with_target(fields, target, shipped))


def _with_target(fields: Sequence[tuple[str, bytes]], target: str, shipped: bool) -> list[tuple[str, bytes]]:
    chosen = dict(fields)[_COMPILER].decode()
    # The compiler for GPUs is dropped for a processor's program, which another choice must not compile again.
    own = [field for field in fields if field[0] != _COMPILER]
    return [*own, *_target_fields(target, shipped, chosen)]


def _shipped_entry(fields: Sequence[tuple[str, bytes]], target: str, translated: bool = False) -> StoredArtifact | None:
    """Return the best artifact that a shipped directory has for a GPU architecture, or whose PTX is good for it."""
    platform = platform_named(target)
    candidates = (platform.translated() if translated else platform.runs()) if shipped_stores() else []
    if not candidates:
        return None
    # First what was copied from a cache of the same compilers.
    names = [artifact_key(fields, target)]
    names += [artifact_key(fields, candidate, shipped=True) for candidate in candidates]
    found = (store.get(name) for name in names for store in shipped_stores())
    return next((entry for entry in found if entry is not None), None)


def _from_directories(fields: Sequence[tuple[str, bytes]]) -> Executable | None:
    """Load the best artifact that a shipped directory has for this machine."""
    if not shipped_stores():
        return None
    # Best first: the first that is found is taken.
    for target in runnable_targets():
        name = artifact_key(fields, target, shipped=True)
        for store in shipped_stores():
            executable = _from_cache(store.get(name))
            if executable is not None:
                return executable
    return None


def _from_cache(entry: StoredArtifact | None) -> Executable | None:
    """Load an artifact; None if it is not for this machine or not complete, so that it is built again."""
    if entry is None:
        return None
    try:
        return _executable(entry)
    except (ObjectLoadError, KeyError, TypeError, ValueError):
        return None


def _executable(entry: StoredArtifact) -> Executable:
    symbols: Sequence[str] = entry.symbols
    code = load_code(entry.object_code, symbols, title=entry.manifest.title)
    finish = code[symbols[1]] if entry.manifest.sites else 0
    made = Executable
    if entry.manifest.reports:
        from diffkern.runtime.launch.reporting import ReportingExecutable

        made = ReportingExecutable
    return made(code[symbols[0]], finish, entry.manifest, code)


@functools.cache
def _host_cpu() -> tuple[str, str]:
    return host_cpu()


@functools.cache
def runnable_targets() -> tuple[str, ...]:
    """Return the targets whose programs this process can run, best first."""
    return (NATIVE, HOST, *runnable(_host_cpu))


@functools.cache
def _target_fields(target: str, shipped: bool = False, chosen: str = LLVM) -> list[tuple[str, bytes]]:
    platform = platform_named(target)
    compiler = platform.family.compiler(chosen)

    def compilers() -> list[tuple[str, bytes]]:
        found = [*distribution_versions(compiler.distributions), *_settings(compiler.settings)]
        found += _unversioned(compiler.libraries)
        return [(name, value.encode()) for name, value in found]

    named = [(_COMPILER, compiler.name.encode())] if platform.family.others else []
    return [*named, *platform.key_fields(_host_cpu, compilers, shipped=shipped)]


def _unversioned(libraries: Iterable[str]) -> list[tuple[str, str]]:
    """Return what identifies the files of compilers that come with no distribution whose version is a field."""
    found = []
    for file in libraries:
        usual, *others = distribution_versions(wheels.distributions(file))
        # No distribution with a version provides the file: its wheel, or else the file itself, has to tell versions
        # apart.
        if usual[1] == "none":
            wheel = next((f"{name} {version}" for name, version in others if version != "none"), None)
            found.append((file, wheel or wheels.identity(file)))
    return found


def _settings(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, os.environ[name]) for name in names if name in os.environ]


def _readable(fields: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Return the fields as text for the manifest; a repeated label gets a number."""
    shown: dict[str, str] = {}
    for label, value in fields:
        name, count = label, 1
        while name in shown:
            count += 1
            name = f"{label} {count}"
        try:
            shown[name] = value.decode()
        except UnicodeDecodeError:
            shown[name] = value.hex()
    return shown
