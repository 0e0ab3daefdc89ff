"""Warp's decorators, which make kernels, funcs and structs of :mod:`diffkern` in Warp's dialect.

Keywords that concern Warp's unit of compilation, the module, have no effect here: the unit is the kernel.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeVar
from typing import overload as form

from diffkern.contracts.options import KernelOptions, names
from diffkern.errors import MisuseError
from diffkern.kernels.kernel import Kernel as NativeKernel
from diffkern.lang.annotations import ArrayAnnotation, array_annotation
from diffkern.lang.dialects import WARP, copied
from diffkern.lang.func import Func, check_function
from diffkern.lang.structs import public_type
from diffkern.process.tracebacks import Entrance, brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.structs import declared
from diffkern.warp.described import Argument, Declaration, describe_struct
from diffkern.warp.modules import Module, as_native, check_option, get_module, module_of, note_options

__all__ = ["Kernel", "func", "kernel", "overload", "struct"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OF_WARP: Final = {"cuda_max_registers": "max_registers"}
"""Options that have another name here."""


class Kernel(NativeKernel):
    """A kernel in Warp's dialect.

    Parameters
    ----------
    func : callable
        The function.
    key : str, optional
        The kernel's name; that of the function by default.
    module : Module or str, optional
        The module whose options apply; "unique" for a module of its own. The function's module by default.
    options : mapping, optional
        Options of the kernel by name. What has no meaning here has no effect.
    code_transformers, source : optional
        Accepted where they are empty.

    Attributes
    ----------
    given : mapping
        The options as they were given, also those that have no effect here.
    module : Module
        The module whose options apply.
    overloads : dict
        The instances of a generic kernel, by the types that they are for.
    of_axes : dict
        The kernels of the same code for launches with more axes than it asks ``tid()`` for, by the number of axes.
    """

    dialect = WARP

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        module: Any = None,
        options: Mapping[str, Any] | None = None,
        code_transformers: Sequence[Any] | None = None,
        source: str | None = None,
    ) -> None:
        check_function(func, "@wp.kernel")
        # The cache key is made of the function's own source, which these would bypass.
        if code_transformers or source is not None:
            raise MisuseError(
                "a kernel is made of a function as it is written", remedy="leave out transformers and source"
            )
        # None means that an option was not given, so that the module's value applies.
        given = {_OF_WARP.get(name, name): value for name, value in (options or {}).items() if value is not None}
        self.given: Mapping[str, Any] = given
        self.module: Module = module_of(func, module)
        own = {name: as_native(name, value) for name, value in given.items() if name in names("kernel")}
        # A module of a kernel's own shows the options of its only kernel.
        if module == "unique":
            note_options(self.module, given)
        # Warp accepts a tuple with the number of threads alone.
        if isinstance(bounds := own.get("launch_bounds"), (tuple, list)) and len(bounds) == 1:
            own["launch_bounds"] = bounds[0]
        self._begin(func, KernelOptions(**own), key)
        # Under its name, so that a kernel that is defined again replaces the earlier one.
        self.module.kernels[self.key] = self
        self.overloads: dict[tuple[Any, ...], Kernel] = {}
        self.of_axes: dict[int, Kernel] = {}

    def _take_over(self, of: Kernel) -> None:
        self.given, self.module = of.given, of.module
        self.overloads, self.of_axes = {}, {}

    @property
    def adj(self) -> Declaration:
        """The declaration of its parameters, as Warp has it under ``kernel.adj.args``."""
        types = ((p.name, p.annotation) for p in self.parameters)
        return Declaration(tuple(Argument(name, _public(annotation)) for name, annotation in types))

    def add_overload(self, arg_types: Mapping[str, Any] | Sequence[Any]) -> Kernel:
        """Return the kernel of the same code for parameters of given types, which is made once.

        Parameters
        ----------
        arg_types : sequence or mapping
            The types, in order or by name.

        Raises
        ------
        MisuseError
            If there is no such parameter, or the types are not as many.
        """
        return _instance(self, _by_name(self, arg_types))

    @property
    def is_generic(self) -> bool:
        """True if the type of some parameter is taken from the arguments of each launch."""
        return any(getattr(p.annotation, "element", p.annotation) is None for p in self.parameters)

    @property
    def module_name(self) -> str:
        """The name of the module whose options count for it."""
        return self.module.name


def _public(annotation: Any) -> Any:
    """Return the annotation of a parameter in the spelling that users write."""
    if annotation is None:
        return Any
    return annotation if isinstance(annotation, ArrayAnnotation) else public_type(annotation)


@brief
def kernel(
    f: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    enable_backward: bool | None = None,
    launch_bounds: int | tuple[int, ...] | None = None,
    cuda_max_registers: int | None = None,
    enable_cuda_smem_spilling: bool | None = None,
    cluster_dim: int | None = None,
    module: Any = None,
    module_options: Mapping[str, Any] | None = None,
    entry_point_abi: str | None = None,
    grid_stride: bool | None = None,
) -> Any:
    """Make a kernel of a function in Warp's dialect.

    Parameters
    ----------
    f : callable
        The function.
    name : str, optional
        The kernel's name; that of the function by default.
    enable_backward, launch_bounds, cuda_max_registers : optional
        Options of :func:`diffkern.kernel`, where the last one is ``max_registers``.
    module : Module or str, optional
        The module whose options apply; "unique" for a module of its own. The function's module by default.
    module_options : mapping, optional
        Options of the module of its own, where the kernel does not have them itself.
    enable_cuda_smem_spilling, cluster_dim, entry_point_abi, grid_stride : optional
        Accepted; they have no effect.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        If ``module_options`` are given for a module of other kernels, or have an option that no module has.
    """
    if name is not None and not isinstance(name, str):
        raise MisuseError(f"the name of a kernel is text, not {name!r}", remedy="leave it out for the function's")
    if module_options is not None and not isinstance(module_options, Mapping):
        raise MisuseError(
            f"module_options has the values of options by their names, not {module_options!r}",
            remedy='write module_options={"enable_backward": False}',
        )
    if module_options is not None:
        _check_module_options(module_options, module)
    own = {
        "enable_backward": enable_backward,
        "launch_bounds": launch_bounds,
        "cuda_max_registers": cuda_max_registers,
        "enable_cuda_smem_spilling": enable_cuda_smem_spilling,
        "cluster_dim": cluster_dim,
        "entry_point_abi": entry_point_abi,
        "grid_stride": grid_stride,
    }
    options = {**(module_options or {}), **{key: value for key, value in own.items() if value is not None}}

    def made(function: Callable[..., Any]) -> Kernel:
        with Entrance("@wp.kernel", function):
            return Kernel(function, name, module, options)

    with Entrance("@wp.kernel", f):
        return made if f is None else made(f)


def _check_module_options(options: Mapping[str, Any], module: Any) -> None:
    """Raise for options of a module that other kernels share, and for options that no module has."""
    if module != "unique":
        raise ValueError(
            'module_options are for a kernel with a module of its own: write module="unique", or set the options of '
            "all kernels of the module with wp.set_module_options"
        )
    for name, value in options.items():
        check_option(name, value)


def overload(kernel: Any, arg_types: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
    """Declare an instance of a generic kernel, for parameters of given types.

    ``wp.overload(kernel, [types])`` takes the types in order, ``wp.overload(kernel, {name: type})`` those of single
    parameters. As a decorator it takes them from the annotations of a function of the kernel's name, which stays that
    of the generic kernel.

    Parameters
    ----------
    kernel : Kernel or callable
        The kernel; as a decorator, the function.
    arg_types : sequence or mapping, optional
        The types, in order or by name.

    Returns
    -------
    Kernel
        The kernel for just those types; as a decorator, the generic one.

    Raises
    ------
    MisuseError
        If there is no such kernel or parameter.
    """
    # Annotations of a stub may name local types of the caller.
    scope = sys._getframe(1).f_locals
    with Entrance("@wp.overload", kernel):
        return _overload(kernel, arg_types, scope)


def _overload(kernel: Any, arg_types: Any, scope: Mapping[str, Any]) -> Any:
    if not isinstance(kernel, Kernel):
        if arg_types is not None or not callable(kernel):
            raise MisuseError(
                f"wp.overload takes a kernel and types, not {kernel!r}", remedy="write wp.overload(kernel, [types])"
            )
        types = _annotated(kernel, scope)
        # The decorator returns the generic kernel, as the name it binds is that of the generic one.
        generic = _generic_of(kernel)
        _instance(generic, types)
        return generic
    if arg_types is None:
        return lambda stub: _instance(kernel, _annotated(stub, scope))
    return kernel.add_overload(arg_types)


def _annotated(stub: Any, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter types that a stub's annotations declare."""
    types = inspect.get_annotations(stub, eval_str=True, locals=scope)
    if types.pop("return", None) not in (None, type(None)):
        raise TypeError(
            f"{stub.__name__} is an overload of a kernel, which returns nothing: leave out its return annotation"
        )
    return types


def _generic_of(stub: Any) -> Kernel:
    """Return the generic kernel that has the name of a stub."""
    module = get_module(stub.__module__)
    # By the qualified name, which tells functions of different scopes apart; by key, for kernels that were given a
    # name.
    same = [k for k in list(module.kernels.values()) if k.func.__qualname__ == stub.__qualname__]
    # Kernels compare by identity here: one that is found both ways counts once.
    found = {id(k): k for k in (*same, module.kernels.get(stub.__name__)) if isinstance(k, Kernel)}
    if not found:
        raise MisuseError(
            f"there is no kernel {stub.__name__!r} in {stub.__module__}",
            remedy="decorate the generic kernel of this name with @wp.kernel before",
        )
    if len(found) > 1:
        keys = ", ".join(sorted(k.key for k in found.values()))
        raise MisuseError(
            f"{stub.__name__} is the function of several kernels: {keys}",
            remedy="write wp.overload(kernel, [types])",
        )
    return next(iter(found.values()))


def _by_name(kernel: Kernel, types: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    """Return types by parameter name; an array stands for its type."""
    if isinstance(types, Mapping):
        return {name: _annotation_of(t) for name, t in types.items()}
    parameters = list(inspect.signature(kernel.func).parameters)
    if len(types) != len(parameters):
        raise MisuseError(
            f"kernel {kernel.name!r} has {len(parameters)} parameters, not {len(types)}",
            remedy="give a type for each parameter, or {name: type} for some",
        )
    return dict(zip(parameters, map(_annotation_of, types), strict=True))


def _annotation_of(t: Any) -> Any:
    return array_annotation(t.dtype, t.ndim) if isinstance(t, array) else t


def _instance(generic: Kernel, types: Mapping[str, Any]) -> Kernel:
    """Return the kernel of the same code whose parameters have the given types."""
    parameters = inspect.signature(generic.func).parameters
    for name in types:
        if name not in parameters:
            raise MisuseError(
                f"kernel {generic.name!r} has no parameter {name!r}; it has {', '.join(parameters)}",
                remedy="take one of these names",
            )
    # In the order of the parameters, so that the order of a mapping does not matter.
    key = tuple((name, types[name]) for name in parameters if name in types)
    if key in generic.overloads:
        return generic.overloads[key]
    function: Any = generic.func
    # A copy, so that the annotations of the generic kernel stay.
    made = copied(function, function.__globals__, function.__closure__)
    made.__annotations__ |= types
    # A module object of its own under the same name: the instance must not replace the generic kernel in the registered
    # one.
    options = {name: value for name in names("kernel") if (value := getattr(generic.options, name)) is not None}
    instance = generic.overloads[key] = Kernel(made, generic.key, Module(generic.module.name), options)
    return instance


@form
def func(
    f: Callable[_P, _R], *, name: str | None = None, module: Any = None, inline: bool | None = None
) -> Callable[_P, _R]: ...


@form
def func(
    f: None = None, *, name: str | None = None, module: Any = None, inline: bool | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...


def func(
    f: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    module: Any = None,
    inline: bool | None = None,
) -> Any:
    """Make a function in Warp's dialect callable from kernels.

    A second one of the same name in the same scope, with other annotations, is an overload: a call takes the one that
    its arguments fit.

    Parameters
    ----------
    f : callable
        The function.
    name : str, optional
        The func's name; that of the function by default. In a kernel a func goes by the variable that holds it.
    module, inline : optional
        Accepted; they have no effect: a func belongs to the kernels that call it.

    Returns
    -------
    Func
    """
    scope = sys._getframe(1).f_locals

    def made(function: Callable[..., Any]) -> Func:
        if isinstance(function, Func):
            return function
        with Entrance("@wp.func", function):
            check_function(function, "@wp.func")
            # A func of the same name and place that is already bound in the caller's scope is extended by an overload,
            # not replaced.
            before = scope.get(function.__name__)
            place = function.__module__, function.__qualname__
            others: tuple[Func, ...] = ()
            if isinstance(before, Func) and (before.pyfunc.__module__, before.pyfunc.__qualname__) == place:
                others = before.overloads
            found = Func(function, WARP, others)
            found.__name__ = name or function.__name__
            return found

    with Entrance("@wp.func", f):
        return made if f is None else made(f)


def struct(c: type | None = None, *, module: Any = None) -> Any:
    """Make a class of structs.

    Parameters
    ----------
    c : type
        The class.
    module : optional
        Accepted; it has no effect.

    Returns
    -------
    type
        It has ``cls``, itself, ``key``, its name, and ``vars``, its fields by name with ``label`` and ``type``, unless
        a field is called so.
    """
    # The frame resolves forward references in the annotations.
    frame = sys._getframe(1)

    def made(cls: type) -> type:
        with Entrance("@wp.struct", cls):
            found = declared(cls, frame, WARP)
            describe_struct(found)
            return found

    with Entrance("@wp.struct", c):
        return made if c is None else made(c)
