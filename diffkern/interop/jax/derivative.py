"""Derivatives of calls under JAX: one primitive, whose acts are a launch, its derivatives, and theirs.

A launch becomes an operation that JAX differentiates in both modes to any order. An act is a function of arrays with a
derivative, and perhaps a transpose, made of acts:

========  =========================================  ==============================================================
act       computes                                   comes from
========  =========================================  ==============================================================
Run       y = F(x)                                   the kernel
Along     J t, linear in tangents t                  the kernel with tangents
Joint     y and J t, of x and t                      one run of the kernel with tangents; Run and Along in one
Pulled    J' w, linear in cotangents w               the adjoint; the transpose of Along
Bent      the change of J' w as x and w change       the adjoint of the kernel with tangents
Whole     the results of several launches            one call; its derivative is that of the launches one by one
========  =========================================  ==============================================================

The kernel with tangents is a kernel, so derivatives of any order are made of the first four. Acts after the first take
the results y besides, since they need no more than what the launch has left; they are functions of x all the same. An
operand that turns out not to be needed is left out of the custom call, so that XLA drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from diffkern.interop.jax.arguments import CallArgument
from diffkern.interop.jax.launch import LaunchFunction
from diffkern.interop.jax.primitive import Act, LinearizedPair, apply
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import cached_property

__all__ = ["ResultsOfLaunch", "Whole"]

Values = Mapping[int, Any]
"""Arrays by the parameter that they belong to."""

# -- acts --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ResultsOfLaunch(Act):
    """A launch: the results, for the inputs."""

    launch: LaunchFunction

    @property
    def made(self) -> list[CallArgument]:
        return self.launch.results

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        return self.launch.run(*operands)

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        self.launch.check_differentiable()
        t = _present(self.launch.inputs, tangents)
        # Nothing smooth changes, so the kernel with tangents need not exist.
        if not self.launch.smooth or not t:
            return apply(self, operands), [None] * len(self.launch.results)
        # Its derivatives launch the kernel again, and have to get the same results.
        launch = self.launch.repeatable
        # One launch gives the results and their change; JAX divides it where only one of them is needed.
        found = apply(Joint(launch, tuple(t)), [*operands, *t.values()])
        out = found[: len(launch.results)]
        changes = dict(zip(launch.smooth, found[len(out) :], strict=True))
        return out, [changes.get(a.index) for a in launch.results]


@dataclass(frozen=True, eq=False)
class _Derivative(Act):
    """A derivative of a launch: a function of its inputs and results, and of operands named by parameters."""

    launch: LaunchFunction

    def _parted(self, operands: Sequence[Any], *names: Sequence[int]) -> list[dict[int, Any]]:
        """Return inputs, results and the other operands, by parameters."""
        given = iter(operands)
        groups = ([a.index for a in self.launch.inputs], [a.index for a in self.launch.results], *names)
        return [{k: next(given) for k in group} for group in groups]


@dataclass(frozen=True, eq=False)
class Along(_Derivative):
    """The tangents of the smooth results, for inputs, results, and tangents of the inputs ``along``."""

    along: tuple[int, ...]

    @property
    def made(self) -> list[CallArgument]:
        return [self.launch.arguments[k] for k in self.launch.smooth]

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        x, _, t = self._parted(operands, self.along)
        found = self.launch.along(frozenset(self.along))
        return found.changes(found.launch.run(*found.operands(x, t)))

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        x, y, t = self._parted(operands, self.along)
        dx, _, dt = map(_without_zeros, self._parted(tangents, self.along))
        if not dx:
            # The results are functions of the inputs, so that they do not change either.
            changes = _changes(self.launch, [*x.values()], [*y.values()], dt)
            return apply(self, operands), [changes.get(k) for k in self.launch.smooth]
        found = self.launch.along(frozenset(self.along))
        # The kernel with tangents, differentiated along (dx, dt), gives the second derivative in one launch.
        out, changed = ResultsOfLaunch(found.launch).jvp(found.operands(x, t), found.inputs(dx, dt))
        return found.changes(out), found.changes(changed)

    def transpose(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        x, y, t = self._parted(operands, self.along)
        wanted = tuple(k for k, given in t.items() if given is None)
        # Made now, while the gradient is traced, so that an error names the user's line and not a later compilation.
        self.launch.adjoint(wanted)
        w = _without_zeros(dict(zip(self.launch.smooth, cotangents, strict=True)))
        return apply(Pulled(self.launch, wanted, tuple(w)), [*x.values(), *y.values(), *w.values()])


@dataclass(frozen=True, eq=False)
class Joint(Act):
    """The results, and the tangents of the smooth ones, for inputs, and tangents of the inputs ``along``."""

    launch: LaunchFunction
    along: tuple[int, ...]

    @property
    def made(self) -> list[CallArgument]:
        return [*ResultsOfLaunch(self.launch).made, *Along(self.launch, self.along).made]

    @cached_property
    def parts(self) -> LinearizedPair:
        launch = self.launch
        return LinearizedPair(
            ResultsOfLaunch(launch), Along(launch, self.along), len(launch.inputs), len(launch.results)
        )

    def _parted(self, operands: Sequence[Any]) -> tuple[dict[int, Any], dict[int, Any]]:
        count = len(self.launch.inputs)
        own = (a.index for a in self.launch.inputs)
        return dict(zip(own, operands[:count], strict=True)), dict(zip(self.along, operands[count:], strict=True))

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        found = self.launch.along(frozenset(self.along))
        out = found.launch.run(*found.operands(*self._parted(operands)))
        return [*found.own(out), *found.changes(out)]

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        x, t = self._parted(operands)
        dx, dt = map(_without_zeros, self._parted(tangents))
        if not dx:
            made, count = apply(self, operands), self.parts.results
            changes = _changes(self.launch, [*x.values()], made[:count], dt)
            return made, [*[None] * count, *(changes.get(k) for k in self.launch.smooth)]
        found = self.launch.along(frozenset(self.along))
        out, changed = ResultsOfLaunch(found.launch).jvp(found.operands(x, t), found.inputs(dx, dt))
        return [*found.own(out), *found.changes(out)], [*found.own(changed), *found.changes(changed)]

    def transpose(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        own, t = operands[: self.parts.operands], operands[self.parts.operands :]
        # The results are computed again, as residuals of the adjoint: the transpose is that of Along alone.
        along = [*own, *apply(self.parts.first, own), *t]
        return self.parts.second.transpose(along, cotangents[self.parts.results :])


@dataclass(frozen=True, eq=False)
class Pulled(_Derivative):
    """The cotangents of the inputs ``wanted``, for inputs, results, and the cotangents of the results ``given``."""

    wanted: tuple[int, ...]
    given: tuple[int, ...]

    @property
    def made(self) -> list[CallArgument]:
        return [self.launch.arguments[k] for k in self.wanted]

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        return self.launch.pulled(self.wanted, *self._parted(operands, self.given))

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        # J' w is linear in w: its change is J' dw and, if x changes, a second derivative, which Bent has both of.
        x, y, w = self._parted(operands, self.given)
        dx, _, dw = map(_without_zeros, self._parted(tangents, self.given))
        own = [*x.values(), *y.values()]
        if dx:
            bent = Bent(self.launch, self.wanted, self.given, tuple(dx), tuple(dw))
            return apply(self, operands), apply(bent, [*own, *w.values(), *dx.values(), *dw.values()])
        if not dw:
            return apply(self, operands), [None] * len(self.wanted)
        return apply(self, operands), apply(Pulled(self.launch, self.wanted, tuple(dw)), [*own, *dw.values()])

    def transpose(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        x, y, w = self._parted(operands, self.given)
        t = _without_zeros(dict(zip(self.wanted, cotangents, strict=True)))
        # The transpose of J' w in w is J t.
        changes = _changes(self.launch, [*x.values()], [*y.values()], t)
        return [changes[k] for k, given in w.items() if given is None]


@dataclass(frozen=True, eq=False)
class Bent(_Derivative):
    """The change of pulled cotangents, linear in the changes of the inputs ``along`` and of the cotangents ``changed``.

    Second derivatives are symmetric: the change of J' w along dx is the gradient of <w, J dx>. So one run of the
    adjoint of the kernel with tangents dx, for the cotangent w of the tangents and dw of the results, gives all of it.
    """

    wanted: tuple[int, ...]
    given: tuple[int, ...]
    along: tuple[int, ...]
    changed: tuple[int, ...]

    @property
    def made(self) -> list[CallArgument]:
        return [self.launch.arguments[k] for k in self.wanted]

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        x, y, w, dx, dw = self._parted(operands, self.given, self.along, self.changed)
        found = self.launch.along(frozenset(self.along))
        results = found.results(y, _changes(self.launch, [*x.values()], [*y.values()], dx))
        # w is the cotangent of the tangents, dw that of the results.
        seeds = {found.place(k): v for k, v in dw.items()} | {found.place(k, True): v for k, v in w.items()}
        pulled = Pulled(found.launch, tuple(map(found.place, self.wanted)), tuple(seeds))
        return apply(pulled, [*found.operands(x, dx), *results, *seeds.values()])

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        moving = [k for k, t in enumerate(tangents) if t is not None]
        linear = len(operands) - len(self.along) - len(self.changed)
        # Only the operands in which it is linear change: its derivative is itself.
        if moving and moving[0] >= linear:
            *own, _, _ = self._parted(operands, self.given, self.along, self.changed)
            *_, dx, dw = map(_without_zeros, self._parted(tangents, self.given, self.along, self.changed))
            return apply(self, operands), _bent(self, own, dx, dw)
        return _differentiated(self.evaluate, operands, tangents)

    def transpose(self, operands: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        x, y, w, dx, dw = self._parted(operands, self.given, self.along, self.changed)
        t = _without_zeros(dict(zip(self.wanted, cotangents, strict=True)))
        changes = _changes(self.launch, [*x.values()], [*y.values()], t)
        # By the symmetry of second derivatives, dx and the cotangent change places.
        wanted = tuple(k for k, given in dx.items() if given is None)
        turned = Bent(self.launch, wanted, self.given, tuple(t), ())
        found = _bent(turned, (x, y, w), t, {}) if wanted else []
        return [*found, *(changes[k] for k, given in dw.items() if given is None)]


@dataclass(frozen=True, eq=False)
class Whole(Act):
    """The results of a function of several launches; ``steps`` computes them as a chain of acts."""

    results: Sequence[CallArgument]
    together: Callable[..., Sequence[Any]]
    steps: Callable[..., Sequence[Any]]

    @property
    def made(self) -> list[CallArgument]:
        return list(self.results)

    def evaluate(self, *operands: Any) -> Sequence[Any]:
        return self.together(*operands)

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        # The one call has no derivative of its own; the same launches one by one do.
        out, changes = _differentiated(self.steps, operands, tangents)
        return out, [t if a.is_smooth else None for a, t in zip(self.results, changes, strict=True)]


def _changes(launch: LaunchFunction, x: Sequence[Any], y: Sequence[Any], t: Values) -> dict[int, Any]:
    """Return the tangents of the smooth results for tangents of inputs."""
    if not launch.smooth or not t:
        return {}
    along = Along(launch, tuple(t))
    return dict(zip(launch.smooth, apply(along, [*x, *y, *t.values()]), strict=True))


def _bent(bent: Bent, own: Iterable[Values], dx: Values, dw: Values) -> list[Any]:
    """Return the change of pulled cotangents, for changes of some inputs and cotangents."""
    x, y, w = own
    if not dx:
        return apply(Pulled(bent.launch, bent.wanted, tuple(dw)), [*x.values(), *y.values(), *dw.values()])
    made = Bent(bent.launch, bent.wanted, bent.given, tuple(dx), tuple(dw))
    return apply(made, [v for group in (x, y, w, dx, dw) for v in group.values()])


def _differentiated(
    function: Callable[..., Sequence[Any]], operands: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the results of a function made of acts, and their tangents."""
    moving = [k for k, t in enumerate(tangents) if t is not None]

    def of_moving(*given: Any) -> Sequence[Any]:
        every = list(operands)
        for k, x in zip(moving, given, strict=True):
            every[k] = x
        return function(*every)

    out, changes = jax.jvp(of_moving, [operands[k] for k in moving], [tangents[k] for k in moving])
    return out, changes


def _present(arguments: Sequence[CallArgument], given: Sequence[Any]) -> dict[int, Any]:
    return {a.index: t for a, t in zip(arguments, given, strict=True) if t is not None}


def _without_zeros(given: Values) -> dict[int, Any]:
    return {k: t for k, t in given.items() if t is not None}
