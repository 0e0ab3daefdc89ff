"""Pairs of accesses for which only a launch can tell whether two threads touch one element with them.

:meth:`RaceChecks.of` takes a load and a write of one array whose indices are not proved to differ between threads, and
gives a :class:`~diffkern.contracts.manifest.RaceCheck`: both indices as forms whose coefficients the launch knows, with
the comparisons that hold in a thread that makes the access. It gives None if no axis has such forms, if any large
launch has two such threads, and if threads of a block cooperate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field

from diffkern.analysis.affine import AffineForms
from diffkern.analysis.launch_forms import FormComparison, Key, LaunchForms, LinearForm, Polynomial
from diffkern.contracts import manifest
from diffkern.contracts.race_search import needed, racing
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Scalar
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["RaceChecks"]

_MANY = 1024


class RaceChecks:
    """Makes the checks of one function, of which `fn` is a shadow."""

    def __init__(self, fn: Function, affine: AffineForms, function: Function) -> None:
        self.fn = fn
        self.forms = LaunchForms(fn, affine)
        self.position = {p: k for k, p in enumerate(fn.params)}
        # Threads of a block that work together may have one index between them.
        self.by_index = fn.tid_arity > 0 and not {"block", "tile"} & {
            lookup(op.name).family for op in walk(function.body)
        }

    def of(self, load: Op, write: Op, *, same_thread: bool, always: bool = False) -> manifest.RaceCheck | None:
        """Return the check of a load and a write.

        ``same_thread``: not even one thread may touch one element with both. ``always``: make the check even if it
        depends on the dimensions of the launch alone, as for threads that repeat each other along an axis, which may
        have extent one.
        """
        if not self.by_index:
            return None
        # Without a form on any axis the launch could only guess, so such a pair is refused at once.
        pairs = zip(Access(load).index, Access(write).index, strict=True)
        if not any(self._is_known(x) and self._is_known(y) for x, y in pairs):
            return None
        system = _AccessSystem(self.forms, [("tid", axis) for axis in range(self.fn.tid_arity)])
        loading, writing = system.touch(load), system.touch(write)
        check = manifest.RaceCheck(
            self.position[Access(load).array],
            loading,
            writing,
            tuple(map(self._range, system.keys)),
            tuple(k for k, key in enumerate(system.keys) if self.forms.is_uniform(key)),
            tuple(dict.fromkeys(_known(self.forms.divided[k].divisor) for k in system.keys if k in self.forms.divided)),
            same_thread,
        )
        # A check that fails in every launch of realistic size is no use: refuse the kernel at compile time instead.
        if not always and not needed([check]) and racing(check, (_MANY,) * self.fn.tid_arity, {}) is not None:
            return None  # as in any launch that is large enough
        return check

    def _is_known(self, v: Value) -> bool:
        """Return whether an index depends on the thread by more than values without a form."""
        terms = self.forms.of(v).terms
        return not terms or any(self.forms.is_bounded(key) or self.forms.is_uniform(key) for key in terms)

    def _range(self, key: Key) -> tuple[int, int]:
        bits = key.type.bits if isinstance(key, Value) and isinstance(key.type, Scalar) else 32
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


@dataclass(slots=True)
class _AccessSystem:
    """The integers that two accesses depend on, in the order of their numbers."""

    forms: LaunchForms
    keys: list[Key] = field(default_factory=list)

    def touch(self, op: Op) -> manifest.Touch:
        access, forms = Access(op), self.forms
        index = [forms.of(v) for v in access.index]
        keys: dict[Key, None] = dict.fromkeys([("tid", axis) for axis in range(forms.fn.tid_arity)])
        keys.update(dict.fromkeys(key for form in index for key in form.terms))
        under = [*self.closed(keys)]
        for guard in forms.under(op):
            # A guard helps only if all of its variables have bounds; others could take any value.
            if guard.keys and all(key in keys or forms.is_bounded(key) or forms.is_uniform(key) for key in guard.keys):
                fresh = dict.fromkeys(key for key in guard.keys if key not in keys)
                keys.update(fresh)
                under += [*self.closed(keys, fresh), guard]
        return manifest.Touch(op.loc, tuple(map(self.form, index)), access.wrap, tuple(map(self.order, under)))

    def closed(self, keys: dict[Key, None], fresh: Collection[Key] | None = None) -> Iterator[FormComparison]:
        """Iterate over the facts about new variables, by default all, and about those that the facts bring in.

        The variables that are brought in are added to ``keys``.
        """
        left = list(keys if fresh is None else fresh)
        while left:
            for comparison in self.forms.of_key(left.pop(0)):
                yield comparison
                found = dict.fromkeys(key for key in comparison.keys if key not in keys)
                keys.update(found)
                left += found

    def order(self, comparison: FormComparison) -> manifest.Order:
        less, more = self.form(comparison.less), self.form(comparison.more)
        return manifest.Order(less, more, comparison.equal, comparison.divided)

    def form(self, linear: LinearForm) -> manifest.IntegerForm:
        terms = tuple((self.number(key), _known(c)) for key, c in linear.terms.items())
        return manifest.IntegerForm(_known(linear.const), terms)

    def number(self, key: Key) -> int:
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)


def _known(p: Polynomial) -> tuple[manifest.Monomial, ...]:
    return tuple(manifest.Monomial(c, product) for product, c in p.items())
