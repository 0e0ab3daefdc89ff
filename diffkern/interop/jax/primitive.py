"""The JAX primitive for acts: its tracing, compilation, differentiation, division and batching.

An act is a function of arrays with a derivative; :func:`apply` makes it an operation of JAX's.

An act may be two in one: a function of some operands, and a part that is linear in the others. If everything is known,
as in forward mode, it runs at once; if the known part runs before the unknown one, as in reverse mode, it is divided.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import Primitive, Var
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from diffkern.interop.jax.arguments import CallArgument
from diffkern.interop.jax.manual import agree, like, type_of
from diffkern.process.dataclass import dataclass

__all__ = ["Act", "LinearizedPair", "apply"]

Batch = tuple[tuple[Any, tuple[bool, ...]], ...]
"""The axes that ``vmap`` has added, innermost first: the size, and the operands that have it as their leading axis."""

Bind = Callable[["Act", Batch, Sequence[Any]], Sequence[Any]]

_MAX_COMPILED = 256


class Act(ABC):
    """A function of arrays."""

    @property
    @abstractmethod
    def made(self) -> list[CallArgument]:
        """The results, described as arguments."""

    @property
    def parts(self) -> LinearizedPair | None:
        """The two acts that a divisible act consists of, or None."""
        return None

    @abstractmethod
    def evaluate(self, *operands: Any) -> Sequence[Any]:
        """Return the results."""

    @abstractmethod
    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the results and their tangents; None is a tangent that is zero."""

    def transpose(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        """Return the cotangents of the operands that are None, in which it is linear; None for one that is zero."""
        raise NotImplementedError(f"{self} is not linear")


@dataclass(frozen=True)
class LinearizedPair:
    """Two acts that make one, whose results are those of the first and then those of the second.

    Attributes
    ----------
    first : Act
        The act of the first operands.
    second : Act
        The act of the first operands, the results of the first act, and the other operands, in which it is linear.
    operands, results : int
        How many operands and results the first act has.
    """

    first: Act
    second: Act
    operands: int
    results: int

    def batches(self, batch: Batch) -> tuple[Batch, Batch]:
        """Return the batches of the two acts: the first has only those levels at which its operands differ."""
        n = self.operands
        first = tuple((size, mask[:n]) for size, mask in batch if any(mask[:n]))
        second = ((size, (*mask[:n], *[any(mask[:n])] * self.results, *mask[n:])) for size, mask in batch)
        return first, tuple(second)

    def run(self, batch: Batch, operands: Sequence[Any], bind: Bind) -> list[Any]:
        """Return the results, of one act after the other."""
        own, others = operands[: self.operands], operands[self.operands :]
        first, second = self.batches(batch)
        out = bind(self.first, first, own)
        return [*out, *bind(self.second, second, [*own, *out, *others])]


def apply(act: Act, operands: Sequence[Any]) -> list[Any]:
    """Return the results of an act."""
    # Nothing to bind: JAX has no equations without operands.
    if not operands:
        return list(act.evaluate())
    return _bind(act, (), agree(operands))


def _bind(act: Act, batch: Batch, operands: Sequence[Any]) -> list[Any]:
    return list(_primitive(act).bind(*operands, act=act, batch=batch))


def _primitive(act: Act) -> Primitive:
    return _ACT if act.parts is None else _DIVISIBLE


# -- batches -----------------------------------------------------------------------------------------------------------


# The innermost level is applied first, so the outermost one is the first axis of the results.
def _batched(function: Callable[..., Any], batch: Batch) -> Callable[..., Any]:
    """Return a function of batches; its results have all axes of the batch, the outermost first."""
    for _, mask in batch:
        function = jax.vmap(function, in_axes=tuple(0 if has_axis else None for has_axis in mask))
    return function


def _axes(act: Act, batch: Batch) -> list[tuple[bool, ...]]:
    """Return for each result at which levels, the outermost first, it has an axis."""
    parts, count = act.parts, len(act.made)
    every = (True,) * len(batch)
    if parts is None:
        return [every] * count
    own = tuple(any(mask[: parts.operands]) for _, mask in reversed(batch))
    return [own] * parts.results + [every] * (count - parts.results)


def _reduced(values: Sequence[Any], axes: Sequence[tuple[bool, ...]]) -> list[Any]:
    """Return results without the axes along which they are the same."""
    return [
        y if y is None or all(has) else y[tuple(slice(None) if is_axis else 0 for is_axis in has)]
        for y, has in zip(values, axes, strict=True)
    ]


def _vmapped(operands: Sequence[Any], axes: Sequence[Any], *, act: Act, batch: Batch) -> tuple[list[Any], list[Any]]:
    moved = [x if axis is None else jax.numpy.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    mask = tuple(axis is not None for axis in axes)
    size = moved[mask.index(True)].shape[0]
    levels = (*batch, (size, mask))
    has_axis = [has[0] for has in _axes(act, levels)]
    if act.parts is not None and isinstance(size, int) and size == 0:
        # The first element cannot be taken of an empty axis.
        out = act.parts.run(levels, agree(moved), _bind)
    else:
        out = _bind(act, levels, agree(moved))
    return out, [0 if has else None for has in has_axis]


# -- values, types -----------------------------------------------------------------------------------------------------


def _evaluate(*operands: Any, act: Act, batch: Batch) -> list[Any]:
    found = _batched(lambda *given: tuple(act.evaluate(*given)), batch)(*operands)
    return _reduced(found, _axes(act, batch))


@functools.lru_cache(_MAX_COMPILED)
def _compiled(act: Act, batch: Batch) -> Callable[..., list[Any]]:
    compiled: Callable[..., list[Any]] = jax.jit(functools.partial(_evaluate, act=act, batch=batch))
    return compiled


def _types(*operands: Any, act: Act, batch: Batch) -> list[Any]:
    sizes = [size for size, _ in reversed(batch)]
    types = []
    for a, has in zip(act.made, _axes(act, batch), strict=True):
        own = (size for size, is_axis in zip(sizes, has, strict=True) if is_axis)
        types.append(like(operands[0], (*own, *a.shape), a.dtype))
    return types


# -- derivatives -------------------------------------------------------------------------------------------------------


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, act: Act, batch: Batch) -> tuple[list[Any], list[Any]]:
    moving = [k for k, t in enumerate(tangents) if not _is_zero(t)]
    has_tangent: list[bool] = []

    def unbatched(*given: Any) -> tuple[Any, ...]:
        every: list[Any] = [None] * len(primals)
        for k, t in zip(moving, given[len(primals) :], strict=True):
            every[k] = t
        out, changes = act.jvp(given[: len(primals)], every)
        has_tangent[:] = [t is not None for t in changes]
        return (*out, *(t for t in changes if t is not None))

    # Tangents are batched like the operands that they belong to.
    levels = tuple((size, (*mask, *(mask[k] for k in moving))) for size, mask in batch)
    found = iter(_batched(unbatched, levels)(*primals, *(tangents[k] for k in moving)))
    axes = _axes(act, batch)
    out = _reduced([next(found) for _ in has_tangent], axes)
    changes = _reduced([next(found) if has else None for has in has_tangent], axes)
    return out, [ad.Zero(type_of(y).to_tangent_aval()) if t is None else t for y, t in zip(out, changes, strict=True)]


def _transpose(cotangents: Sequence[Any], *operands: Any, act: Act, batch: Batch) -> list[Any]:
    unknown = [k for k, x in enumerate(operands) if ad.is_undefined_primal(x)]
    known = [k for k in range(len(operands)) if k not in unknown]
    nonzero = [k for k, ct in enumerate(cotangents) if not _is_zero(ct)]
    answers: list[Any] = [None] * len(operands)
    for k in unknown:
        answers[k] = ad.Zero(operands[k].aval)
    if not nonzero:
        return answers
    found_for: list[int] = []

    def unbatched(*given: Any) -> tuple[Any, ...]:
        every: list[Any] = [None] * len(operands)
        for k, x in zip(known, given, strict=False):
            every[k] = x
        seeds: list[Any] = [None] * len(cotangents)
        for k, ct in zip(nonzero, given[len(known) :], strict=True):
            seeds[k] = ct
        found = list(zip(unknown, act.transpose(every, seeds), strict=True))
        found_for[:] = [k for k, ct in found if ct is not None]
        return tuple(ct for _, ct in found if ct is not None)

    levels = tuple((size, (*(mask[k] for k in known), *(True for _ in nonzero))) for size, mask in batch)
    found = _batched(unbatched, levels)(*(operands[k] for k in known), *(cotangents[k] for k in nonzero))
    outermost_first = [mask for _, mask in reversed(batch)]
    for k, ct in zip(found_for, found, strict=True):
        # An operand without a level's axis was broadcast along it, so its cotangent is the sum over it.
        shared = tuple(axis for axis, mask in enumerate(outermost_first) if not mask[k])
        answers[k] = ct.sum(shared, dtype=ct.dtype) if shared else ct
    return answers


def _is_zero(t: Any) -> bool:
    return isinstance(t, ad.Zero) or t.dtype == jax.dtypes.float0


# -- dividing what is two in one ---------------------------------------------------------------------------------------


def _only_first(eqn: Any) -> Any:
    """Return the equation of the first part of a divisible act."""
    parts = eqn.params["act"].parts
    first, _ = parts.batches(eqn.params["batch"])
    return eqn.replace(
        primitive=_primitive(parts.first),
        invars=eqn.invars[: parts.operands],
        outvars=eqn.outvars[: parts.results],
        params={"act": parts.first, "batch": first},
    )


def _only_second(eqn: Any) -> Any:
    """Return the equation of the second part of a divisible act, which follows that of the first."""
    parts = eqn.params["act"].parts
    _, second = parts.batches(eqn.params["batch"])
    n, m = parts.operands, parts.results
    return eqn.replace(
        primitive=_primitive(parts.second),
        invars=[*eqn.invars[:n], *eqn.outvars[:m], *eqn.invars[n:]],
        outvars=eqn.outvars[m:],
        params={"act": parts.second, "batch": second},
    )


def _divided(trace: Any, *tracers: Any, act: Act, batch: Batch) -> Sequence[Any]:
    """Run the first act, and leave the second, if exactly the operands of the first are known."""

    def bind(part: Act, levels: Batch, operands: Sequence[Any]) -> Any:
        return trace.default_process_primitive(_primitive(part), operands, {"act": part, "batch": levels})

    parts = act.parts
    assert parts is not None
    known = [t.is_known() for t in tracers]
    # In reverse mode the primals are known and the tangents are not: the results are computed, the rest is transposed.
    if all(known[: parts.operands]) and not all(known):
        return parts.run(batch, tracers, bind)
    found: Sequence[Any] = bind(act, batch, tracers)
    return found


def _divided_equation(
    saved: Callable[..., Any], unknown: Sequence[bool], present: Sequence[bool], eqn: Any
) -> tuple[Any, Any, list[bool], list[bool], list[Any]]:
    """Divide an equation for ``jax.checkpoint`` into the known part, and the rest, which may compute it again.

    Returns the two equations, which results are unknown to the first and present in the second, and which values the
    second needs in addition.
    """
    parts = eqn.params["act"].parts
    count = len(eqn.outvars)
    absent = [x for x, is_present in zip(eqn.invars, present, strict=True) if not is_present]
    # Without the operands of the first act nothing can run.
    if any(unknown[: parts.operands]):
        return None, eqn, [True] * count, [True] * count, absent
    own = eqn.outvars[: parts.results]
    is_saved = _is_saved(saved, _only_first(eqn))
    if not any(unknown) and is_saved:
        return eqn, None, [False] * count, [False] * count, []
    if not any(unknown):
        return eqn, eqn, [False] * count, [True] * count, absent
    is_linear = [k >= parts.results for k in range(count)]
    # Saved results become residuals of the second equation; others are computed again there.
    if is_saved and all(type(y) is Var for y in own):
        return _only_first(eqn), _only_second(eqn), is_linear, [True] * count, [*absent, *own]
    return _only_first(eqn), eqn, is_linear, [True] * count, absent


def _is_saved(saved: Callable[..., Any], eqn: Any) -> bool:
    """Return whether a policy of ``jax.checkpoint`` keeps the results of an equation."""
    said = saved(eqn.primitive, *(x.aval for x in eqn.invars), **eqn.params)
    if isinstance(said, bool):
        return said
    kind = type(said).__name__  # which JAX names for messages alone
    if kind not in ("SaveableType", "RecomputeType"):
        raise NotImplementedError(
            f"a policy of jax.checkpoint answers {said!r} for {eqn.params['act']!r}, whose results are kept or "
            "computed again; to offload them, give them a name (jax.ad_checkpoint.checkpoint_name) and offload that: "
            "jax.checkpoint_policies.save_and_offload_only_these_names"
        )
    return kind == "SaveableType"


def _needed(used: Sequence[bool], eqn: Any) -> tuple[list[bool], Any]:
    """Return which operands the used results need, and an equation for these results."""
    parts = eqn.params["act"].parts
    count = len(eqn.invars)
    if any(used[parts.results :]):
        return [True] * count, eqn
    if any(used):
        return [k < parts.operands for k in range(count)], _only_first(eqn)
    return [False] * count, None


def _made(name: str) -> Primitive:
    """Return a primitive of acts."""
    made = Primitive(name)
    made.multiple_results = True
    made.def_impl(lambda *operands, act, batch: _compiled(act, batch)(*operands))
    made.def_abstract_eval(_types)
    mlir.register_lowering(made, mlir.lower_fun(_evaluate, multiple_results=True))
    ad.primitive_jvps[made] = _jvp
    ad.primitive_transposes[made] = _transpose
    batching.primitive_batchers[made] = _vmapped
    return made


_ACT = _made("diffkern")
_DIVISIBLE = _made("diffkern_at_once")
pe.custom_partial_eval_rules[_DIVISIBLE] = _divided
pe.partial_eval_jaxpr_custom_rules[_DIVISIBLE] = _divided_equation
pe.dce_rules[_DIVISIBLE] = _needed
