"""A kernel: the place where compile time and run time meet.

A :class:`Kernel` is made of a Python function and can be launched, differentiated and inspected. Its programs are built
when first needed, one for each combination of argument types and, for an adjoint, of active parameters.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from diffkern.compiler.specialize import Specialization, load, load_entry
from diffkern.contracts.options import (
    PLAIN,
    AdjointForm,
    KernelOptions,
    LogKind,
    Merged,
    Variant,
    VmapLayer,
    names,
)
from diffkern.errors import AutodiffError, KernelError, Loc, MisuseError, raise_all
from diffkern.ir.structs import Argument, declared
from diffkern.kernels.inspection import Inspection
from diffkern.lang.called import Called, KnownToNumba, RequestedForm
from diffkern.lang.dialects import NATIVE, Dialect, bind_dialect
from diffkern.lang.func import ByPath, check_function
from diffkern.lang.lazy_annotations import keep_annotations
from diffkern.lang.static import resolve_static
from diffkern.lang.structs import functions_of
from diffkern.lang.text import capture_source
from diffkern.process.forks import cached_property, free_in_child
from diffkern.process.gc_policy import rare_collections
from diffkern.process.late import FORWARD_MODE, GPU
from diffkern.process.tracebacks import PASSED, brief, fail_launch, place_of, shorten
from diffkern.runtime.arrays.type_keys import is_long, type_of_key
from diffkern.runtime.launch.arguments import NO_DEFAULT, Parameter, device_of_keys
from diffkern.runtime.launch.kernel_version import AdjointKey, KernelVersion
from diffkern.runtime.launch.module_options import module_option
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.device import gpu_named
from diffkern.runtime.observe.config import config

if TYPE_CHECKING:
    from typing_extensions import Self

    from diffkern.frontend.syntax.canonical import Meaning
    from diffkern.frontend.syntax.guards import Capture
    from diffkern.frontend.syntax.taken import Read
    from diffkern.runtime.cuda.program import CudaExecutable

    _computed_once = property  # which is how type checkers see one in a protocol
else:
    _computed_once = cached_property

__all__ = ["Kernel"]


class Kernel(Inspection, ByPath, KnownToNumba):
    """A function that runs once for every index of a launch's grid. Made by :func:`~diffkern.kernel`.

    ``kernel[dim](x, y, 0.5)`` launches it; so does :func:`launch`.

    Attributes
    ----------
    func : callable
        The Python function.
    name, key : str
        Its name.
    dialect : Dialect
        The dialect that its source is in.
    """

    dialect: Dialect = NATIVE

    def __init__(self, func: Callable[..., Any], **options: Any) -> None:
        check_function(func, "@dk.kernel")
        for name in options:
            if name not in names("kernel"):
                raise MisuseError(
                    f"a kernel has no option {name!r}; it has {', '.join(names('kernel'))}", remedy="leave it out"
                )
        self._begin(func, KernelOptions(**options))

    def _begin(self, func: Callable[..., Any], options: KernelOptions, name: str | None = None) -> None:
        """Make a kernel of a function with options that are checked, under the function's name or another one."""
        # The source is read now: its file may change before the kernel is compiled, and notebooks reuse theirs.
        capture_source(func)
        keep_annotations(func)
        resolve_static(func)
        functools.update_wrapper(self, func)
        self.options = options
        self.func = bind_dialect(func, self.dialect)
        self.name = self.key = name or func.__name__
        self._current = KernelVersion(0, self.variant, self.enable_mathdx_gemm)
        self.programs = self._current.programs
        # What the function takes from its surroundings, as of the last look: compared at every launch.
        self._captures: list[Capture] = []
        self._meaning: Meaning | None = None
        # Of structs of which instances were passed.
        self._methods: tuple[Callable[..., Any], ...] = ()
        # Attributes that lowering has read of objects whose contents the fingerprint does not tell.
        self._reads: tuple[Read, ...] = ()
        # Compiling one specialization in two threads at once would be wasted work.
        self._lock = free_in_child(threading.RLock())
        # It with an axis of examples, by which arguments differ.
        self.batches: dict[VmapLayer, Kernel] = {}
        # A change of dk.config that decides about programs makes the kernel forget its programs.
        config.watch(self)

    def __repr__(self) -> str:
        return f"<dk.kernel {self.name}>"

    def with_options(self, **options: Any) -> Self:
        """Return a kernel of the same code with other options; those that are not named are as they are here.

        Parameters
        ----------
        **options
            Options of :func:`~diffkern.kernel` by name; None for one that is not given.

        Raises
        ------
        MisuseError
            If there is no such option, or it has no such value.
        """
        for name in options:
            if name not in names("kernel"):
                raise MisuseError(
                    f"a kernel has no option {name!r}; it has {', '.join(names('kernel'))}", remedy="leave it out"
                )
        # Without __init__, whose parameters differ between the classes of kernels.
        made = object.__new__(type(self))
        made._take_over(self)
        made._begin(self.func, replace(self.options, **options), self.name)
        return made

    def _take_over(self, of: Any) -> None:
        """Take over what a kernel of the same class has been given besides its function and its options."""

    def _function(self) -> Callable[..., Any]:
        return self.func

    @brief
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raise: a kernel runs on a grid."""
        raise MisuseError(
            "a kernel needs a grid", remedy=f"write {self.name}[n](…) or dk.launch({self.name}, dim=n, inputs=[…])"
        )

    @cached_property
    def thread(self) -> Called:
        """One thread, for programs that numba compiles.

        ``kernel.thread(i, x, y)`` does what thread i of a launch does. The index is an integer, or a tuple of as many
        as ``dk.tid()`` is unpacked into.
        """
        return Called(self, self.func, RequestedForm.THREAD, "One thread of the kernel.")

    @cached_property
    def thread_adjoint(self) -> Called:
        """One thread of the adjoint, for programs that numba compiles.

        It is called as ``kernel.thread_adjoint(i, x, y, ct_x, ct_y)``. After the index and the arguments there is a
        cotangent for each argument: an array like the argument, an array of one element for an argument by value, None
        where none is wanted.
        """
        return Called(self, self.func, RequestedForm.THREAD_ADJOINT, "One thread of the kernel's adjoint.")

    @cached_property
    def jvp(self) -> Kernel:
        """The kernel in forward mode, which takes the kernel's arguments, and a tangent for each that can have one.

        ``kernel.jvp[n](x, y, t_x, t_y)`` does what ``kernel[n](x, y)`` does, and writes the change of what is written
        along the tangents. It is a kernel: ``kernel.jvp.jvp`` takes second derivatives, and so do gradients of it.
        """
        # Imported late, as the module that makes kernels in forward mode imports this one.
        made: Kernel = FORWARD_MODE(self)
        return made

    def __getitem__(self, dim: Any) -> Callable[..., None]:
        """Return what launches the kernel over `dim` with the arguments it is called with."""

        def launch(*args: Any, **named: Any) -> None:
            try:
                if named:
                    raise MisuseError(
                        f"kernel {self.name!r} takes its arguments in order, not by name: {', '.join(named)}",
                        remedy=f"write {self.name}[…]({', '.join(p.name for p in self.parameters)})",
                    )
                run(self, dim, args)
            # The shortened error is raised here, in the frame that the user's line calls directly.
            except KernelError as error:
                shorten(error)
                raise
            except PASSED:
                raise
            except Exception as error:
                try:
                    fail_launch(self, error)
                except KernelError as made:
                    shorten(made)
                    raise

        return launch

    @property
    def module_name(self) -> str:
        """The name of the module whose options count for it."""
        return self.func.__module__

    @property
    def enable_backward(self) -> bool:
        """True if it may be differentiated, by its own option, else its module's, else ``dk.config``.

        ``dk.config.enable_backward = "always"`` overrides both, except for diffkern's own kernels.
        """
        # diffkern's own kernels without an adjoint, such as steps of optimizers, have it switched off on purpose.
        if config.enable_backward == "always" and self.func.__module__.partition(".")[0] != "diffkern":
            return True
        return bool(self._nearest("enable_backward"))

    @property
    def enable_mathdx_gemm(self) -> bool | None:
        """True if libmathdx multiplies tiles on a GPU, by its own option, else its module's, else ``dk.config``."""
        return self._nearest("enable_mathdx_gemm")

    @property
    def race_free(self) -> bool:
        """True if its threads are trusted not to race, by its own option, else its module's."""
        option = self.options.race_free
        return bool(module_option(self.module_name, "race_free") if option is None else option)

    @property
    def log_searches(self) -> bool:
        """True if launches on tapes keep what loops have found, by its own option, else its module's."""
        option = self.options.log_searches
        option = module_option(self.module_name, "log_searches") if option is None else option
        return option is None or bool(option)

    def _nearest(self, name: str) -> bool | None:
        """Return an option of the kernel, else of its module, else of ``dk.config``."""
        option = getattr(self.options, name)
        if option is None:
            option = module_option(self.module_name, name)
        if option is not None:
            return bool(option)
        found: bool | None = getattr(config, name)
        return found

    @property
    def block_dim(self) -> int:
        """Threads of a block where a launch does not say, its own option, else 256 or as many as are allowed."""
        return self.options.usual_block_dim

    @_computed_once
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters.

        Raises
        ------
        KernelError
            If the signature or an annotation is not one a kernel can have.
        """
        # Imports of the frontend are left to the first use, as a process that only runs cached programs does not need
        # all of it.
        from diffkern.frontend.syntax.signature import signature

        wraps = self.dialect.integers_wrap
        return tuple(
            Parameter(self.name, index, p.name, p.annotation, p.default if p.has_default else NO_DEFAULT, wraps)
            for index, p in enumerate(signature(self.func).params)
        )

    @property
    def variant(self) -> Variant:
        """The forward program for the CPU, with the current options and ``dk.config``."""
        options = self.options
        mode = options.mode or module_option(self.module_name, "mode") or config.mode
        compiler = options.compiler or config.cuda_compiler
        fuse = module_option(self.module_name, "fuse_fp") if options.fuse_fp is None else options.fuse_fp
        is_fixed = bool(self._nearest("deterministic"))
        return Variant(options, mode=mode, compiler=compiler, deterministic=is_fixed, fuse_fp=fuse is not False)

    def generation(self) -> int:
        """Return a number that grows when something the kernel captured changed; programs are current after it."""
        return self.current().number

    def current(self) -> KernelVersion:
        """Return what the kernel means now, for a launch to keep."""
        try:
            # The hot path of each launch: identity is enough, as an object that is rebound to an equal one is looked at
            # in detail below.
            for look, name, value in self._captures:
                if look(name) is not value:
                    break
            else:
                return self._current
        except (AttributeError, ValueError):  # a class's attribute or the value of a closure variable is gone
            pass
        self._notice_changes()
        return self._current

    @property
    def may_change(self) -> bool:
        """True if it captures something that can be rebound, other than modules and Python's built-ins."""
        if self._meaning is None:
            self._notice_changes()
        return any(value is not None and not isinstance(value, ModuleType) for _, _, value in self._captures)

    def _notice_changes(self) -> None:
        """Begin again if a captured name really means something else, not just another equal number."""
        from diffkern.frontend.syntax.canonical import captures, meaning_of

        with self._lock:
            try:
                meaning = meaning_of(self.func, self._methods)
            except KernelError:  # the launch reports it, when the program is made
                self.forget_programs()
                self._meaning, self._captures = None, []
                return
            # Equal meanings keep the programs: rebinding a global to an equal number costs only this comparison.
            reads_hold = all(read.holds() for read in self._reads)
            if not reads_hold or (self._meaning is not None and meaning.fields != self._meaning.fields):
                self.forget_programs()
            if not reads_hold:
                self._reads = ()
            # In any case, as the captured objects are new ones even where they mean the same.
            self._meaning = meaning
            self._captures = [*captures(meaning), *(read.capture() for read in self._reads)]

    def _watch_methods(self, types: Sequence[Argument]) -> None:
        """Count the methods of structs among the types of arguments as part of what the kernel means."""
        self._watch([func.pyfunc for t in types for _, func in functions_of(declared(t))])

    def _watch(self, functions: Sequence[Callable[..., Any]], reads: Sequence[Read] = ()) -> None:
        """Count functions and attributes as part of what the kernel means."""
        # Only an extension of the set makes the fingerprint stale.
        new = [function for function in dict.fromkeys(functions) if function not in self._methods]
        more = [read for read in reads if not any(read.is_of(known) for known in self._reads)]
        if new or more:
            self._methods, self._reads, self._meaning = (*self._methods, *new), (*self._reads, *more), None
            self._notice_changes()

    def function_of(self, generation: KernelVersion) -> Callable[..., Any]:
        """Return the function to compile for what the kernel means, or meant."""
        with self._lock:
            # A recorded launch may be differentiated after its globals changed: its adjoint must see the old values.
            if generation is self.current() or generation.meaning is None:
                return self.func
            if generation.function is None:
                from diffkern.frontend.syntax.frozen import frozen

                generation.function = frozen(self.func, generation.meaning, generation.reads)
            return generation.function

    def sequential(self, generation: KernelVersion) -> KernelVersion:
        """Return what the kernel means, or meant, with threads that run one after the other, by number.

        Each launch of its programs, those with tangents or a log among them, gets the same from atomic updates.
        """
        with self._lock:
            # Made once, so that its programs are shared by all launches that need this order.
            made = generation.sequential
            if made is None:
                if generation.meaning is None and self._meaning is None:
                    self._notice_changes()
                given = generation.variant
                # Lanes would run several threads at once; without them and on one core the order is that of indices.
                variant = replace(given, options=replace(given.options, lanes=False), deterministic=True)
                made = generation.sequential = KernelVersion(generation.number, variant, generation.library)
                made.meaning, made.function = generation.meaning or self._meaning, generation.function
            return made

    # -- programs ----------------------------------------------------------------------------------------------------

    @property
    def _adjoints(self) -> Mapping[AdjointKey, Executable]:
        """Adjoint programs of what the kernel means now."""
        return self._current.adjoints

    def forward(
        self, keys: tuple[str, ...], block_dim: int | None = None, of: KernelVersion | None = None
    ) -> Executable:
        """Return the forward program for argument types, built if need be.

        Parameters
        ----------
        keys : tuple of str
            Types of the arguments.
        block_dim : int, optional
            Threads of a block; the usual number by default.
        of : Generation, optional
            An earlier generation of the kernel, if not the current one.
        """
        with self._lock:
            generation, threads = of or self._current, block_dim or self.block_dim
            found = self._known(generation, generation.programs, keys, threads)
            if found is None:
                # Types are checked only when a program is built; a known key has been checked before.
                types = self._checked_types(keys)
                found = self._load(generation, generation.variant, keys, threads, types)
                self._check_extents(keys, found)
                # From now on launches compare what the kernel captures with what this program was made of.
                if self._meaning is None:
                    self._notice_changes()
                self._keep(generation, generation.programs, keys, threads, found)
            return found

    def merged_forward(
        self,
        keys: tuple[str, ...],
        merged: Merged,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
    ) -> Executable:
        """Return the forward program for launches that give several parameters one array; as ``forward``.

        ``merged`` are parameters that are given the array of another one, each with that one.
        """
        with self._lock:
            generation, threads = of or self._current, block_dim or self.block_dim
            found = self._known(generation, generation.merged, (keys, merged), threads)
            if found is None:
                variant = replace(generation.variant, merged=merged)
                found = self._load(generation, variant, keys, threads, self._checked_types(keys))
                self._keep(generation, generation.merged, (keys, merged), threads, found)
            return found

    def check_types(self, keys: tuple[str, ...]) -> None:
        """Raise unless arguments of these types may be passed; nothing is built.

        Parameters
        ----------
        keys : tuple of str
            Types of the arguments.
        """
        fitting = self._current.fitting
        if keys not in fitting:
            self._checked_types(keys)
            fitting.add(keys)

    def _check_extents(self, keys: tuple[str, ...], program: Executable) -> None:
        """Refuse arrays whose extents the kernel reads and an int32 does not hold."""
        for p in program.manifest.params:
            if p.shape_read and is_long(keys[p.argument]):
                raise self.parameters[p.argument].error(
                    "the kernel reads its shape, whose extents are int32 in kernels, and one of them is 2**31 or more",
                    "pass the extent as an int64 of its own, or parts of the array",
                )

    def _not_differentiated(self) -> KernelError:
        settings = "wp.config" if self.dialect.name == "warp" else "dk.config"
        if self.options.enable_backward is not None:
            why = "it was made with enable_backward=False"
        elif module_option(self.module_name, "enable_backward") is not None:
            why = f"enable_backward is off for its module {self.module_name!r}"
        else:
            why = f"enable_backward is off in {settings}"
        return KernelError(
            f"kernel {self.name!r} is not differentiated: {why}",
            loc=place_of(self.func),
            remedy=f'leave that option out, or set {settings}.enable_backward = "always", which counts more; if no '
            "gradient is meant to go through it, launch it with record_tape=False",
        )

    def adjoint(
        self,
        keys: tuple[str, ...],
        active: frozenset[int],
        form: AdjointForm = PLAIN,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
        merged: Merged = (),
    ) -> Executable:
        """Return an adjoint program for argument types and active parameters, built if need be; as ``forward``.

        ``merged`` are parameters that are given the array of another one, each with that one.
        """
        if not self.enable_backward:
            raise self._not_differentiated()
        # Without the lock, as the sweep asks for this at each launch; the dictionary only grows.
        key = (keys, active, form, merged)
        generation = of or self._current
        found = generation.adjoints.get(key) if block_dim is None else None  # which all are for the usual blocks
        if found is not None:
            return found
        threads = block_dim or self.block_dim
        # Under the lock from the look-up on: two threads must not build the same program.
        with self._lock:
            found = self._known(generation, generation.adjoints, key, threads)
            if found is None:
                # A kernel that cannot be differentiated is not analysed again each time a tape asks.
                refused = generation.refused.get((key, threads))
                if refused is not None:
                    raise copy(refused)
                types = self._checked_types(keys)
                variant = replace(generation.variant, active=active, merged=merged, form=form)
                try:
                    found = self._load(generation, variant, keys, threads, types)
                except AutodiffError as error:
                    generation.refused[key, threads] = copy(error)  # without what its traceback holds
                    raise
                self._keep(generation, generation.adjoints, key, threads, found)
            return found

    def logged(
        self,
        keys: tuple[str, ...],
        log: LogKind,
        active: tuple[int, ...] | None,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
        merged: Merged = (),
        stamped: bool = False,
    ) -> Executable:
        """Return the forward program that writes a log, that counts what it takes, or that stamps elements of arrays.

        ``active`` are the parameters for whose adjoint the values of loads or the results of searches are logged, None
        for what atomic updates return, or the arrays that are stamped; the others are those of ``forward``.
        """
        generation, threads, key = (
            of or self._current,
            block_dim or self.block_dim,
            (keys, log, active, merged, stamped),
        )
        with self._lock:
            found = self._known(generation, generation.logged, key, threads)
            if found is None:
                wanted = None if active is None else frozenset(active)
                form = PLAIN._replace(stamped=stamped)
                variant = replace(generation.variant, log=log, log_for=wanted, merged=merged, form=form)
                found = self._load(generation, variant, keys, threads, self._checked_types(keys))
                self._keep(generation, generation.logged, key, threads, found)
            return found

    def _known(
        self, generation: KernelVersion, programs: Mapping[Any, Executable], key: Any, block_dim: int
    ) -> Executable | None:
        """Return a program that there is for blocks of so many threads."""
        found = programs.get(key)
        if found is not None and _serves(found, block_dim):
            return found
        return generation.sized.get((key, block_dim))

    def _keep(
        self, generation: KernelVersion, programs: dict[Any, Executable], key: Any, block_dim: int, found: Executable
    ) -> None:
        # Most programs do not depend on the number of threads in a block, and are found by their types alone.
        if _serves(found, self.block_dim):
            programs[key] = found
        else:
            generation.sized[key, block_dim] = found

    def _load(
        self,
        generation: KernelVersion,
        variant: Variant,
        keys: tuple[str, ...],
        block_dim: int,
        types: tuple[Argument, ...],
    ) -> Executable:
        """Return a program for where its arrays are."""
        with rare_collections():
            return self._found_or_built(generation, variant, keys, block_dim, types)

    def _found_or_built(
        self,
        generation: KernelVersion,
        variant: Variant,
        keys: tuple[str, ...],
        block_dim: int,
        types: tuple[Argument, ...],
    ) -> Executable:
        # Before the program is made, so that its fingerprint has the methods of structs.
        self._watch_methods(types)

        def specialization() -> Specialization:
            return Specialization(self.function_of(generation), types, variant)

        # Lowering tells which functions and attributes it has read; a cached program brings that list along.
        if generation is self._current and (taken := specialization().taken()) is not None:
            self._watch(taken.reached, taken.attributes)
        # The device is part of the types of arrays; None means the CPU.
        alias = device_of_keys(self.name, self.parameters, keys)
        if alias is None:
            return load(specialization())
        gpus = GPU.value
        gpus.watch(self)
        device = gpu_named(alias)

        def on_device() -> Specialization:
            return specialization().for_block(block_dim, generation.library, device.target)

        def made(of: Specialization, careful: Callable[[], CudaExecutable] | None = None) -> CudaExecutable:
            entry = load_entry(of, device.target)
            program: CudaExecutable = gpus.executable(device, entry, self.name, careful)
            return program

        # Most launches have no overlapping arrays: the program for others is made when there is one.
        return made(on_device().for_arrays_apart(), functools.cache(lambda: made(on_device())))

    def update_of_all_threads(self, program: Executable) -> Loc | None:
        """Return where all threads of a launch of a program change one element that they have read, if they do."""
        known: list[tuple[Any, Executable]] = [*self.programs.items(), *self._current.merged.items()]
        known += [(key, one) for (key, _), one in self._current.sized.items()]
        key = next((key for key, one in known if one is program), None)
        if key is None:
            return None
        keys, merged = key if key in self._current.merged else (key, ())
        return self._compilation(self._checked_types(keys), merged=merged).update_of_all_threads()

    def forget_programs(self) -> None:
        """Begin again: programs are loaded again when needed; launches that were made keep those of their time."""
        with self._lock:
            before = self._current
            # Launches on a tape keep the old generation, which then needs the meaning to build adjoints later.
            before.meaning, before.reads = self._meaning, self._reads
            self._current = KernelVersion(before.number + 1, self.variant, self.enable_mathdx_gemm)
            self.programs = self._current.programs

    def _checked_types(self, keys: tuple[str, ...]) -> tuple[Argument, ...]:
        # Arrays of several devices are an error, which comes before any about types.
        device_of_keys(self.name, self.parameters, keys)
        types = tuple(type_of_key(key) for key in keys[: len(self.parameters)])
        # All arguments are checked, so that one error shows everything that does not fit.
        errors: list[KernelError] = []
        for parameter, t in zip(self.parameters, types, strict=True):
            try:
                parameter.check_type(t)
            except KernelError as error:
                errors.append(error)
        raise_all(errors)
        self._check_generic(types)
        return types

    @_computed_once
    def _check_generic(self) -> Callable[[Sequence[Argument]], None]:
        """Return the check of argument types against generic parameters."""
        from diffkern.frontend.syntax.signature import signature

        return signature(self.func).check_generic


if sys.version_info < (3, 12):  # until then such a property has a lock for all kernels
    free_in_child(vars(Kernel)["parameters"].lock)


def _serves(program: Executable, block_dim: int) -> bool:
    return not program.manifest.block_dim_fixed or program.manifest.block_dim == block_dim
