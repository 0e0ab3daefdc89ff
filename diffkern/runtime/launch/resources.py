"""Objects that kernels look up by an id (:mod:`diffkern.lang.queries`): descriptors, and what tapes keep of them.

A :class:`Resource` has an id, given its device and kind. It is led, any number of times, to the words of a descriptor
and the arrays to which they lead, which together are a :class:`Content`. A kernel reads such an object at addresses
that are no argument of its launch, so that a tape asks here which objects a launch may have read, and lets its adjoint
read the same: arrays of a content that a tape needs are not written again, and where the descriptor has changed, it
leads back to them while the adjoint runs.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from diffkern.contracts.manifest import Ids
from diffkern.errors import LaunchError, described
from diffkern.ir.types import UINT64
from diffkern.lang.queries import ADDRESS_BITS, KIND_BIT, identity
from diffkern.process.tracebacks import place_of
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.external_writes import Exposures
from diffkern.runtime.arrays.operation import Assign, Copy, Operation, submit
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.memory import Memory, watch
from diffkern.runtime.memory.state import check_not_replayed, recorder_now, will_replay
from diffkern.runtime.memory.stream import drain

if TYPE_CHECKING:
    from diffkern.runtime.launch.kernel_protocol import KernelProtocol
    from diffkern.runtime.launch.packed import PackedLaunch
    from diffkern.runtime.launch.program import Executable
    from diffkern.runtime.memory.state import RecorderProtocol

__all__ = [
    "Content", "Derived", "Key", "PutBack", "Remade", "Resource", "Use", "check_no_stores", "check_not_given",
    "check_places", "check_without_derivative", "given_to", "led_along", "looked_at", "make_writable", "present",
    "stored_by", "used",
]  # fmt: skip


Key = int | tuple[Any, ...]
"""A word of a descriptor; or, of the tangent of what such a word belongs to, that in a tuple."""
_TABLE: Final = 3  # words


class Derived(NamedTuple):
    """An array of an object that follows from the other arrays of its content, and is too large to keep with each.

    One build after the other writes it. An adjoint finds another array in its place, made of the content once more.
    """

    word: int
    """The word of the descriptor that has its address; 0 there if the content has no such array."""
    held: array
    """The array: it belongs to the last content that the words were led to."""
    made: Callable[[array, Sequence[int]], Operation]
    """Returns the operation that makes it, of a content with these words, in an array as large: one of zeros, or one
    that was made of another content of the object.
    """


class Remade(NamedTuple):
    """A derived array that adjoints find, and of which content it is."""

    held: array
    of: Content


class Content:
    """The arrays that the words of a descriptor lead to.

    Attributes
    ----------
    arrays
        The arrays at the addresses among the words.
    given
        Those of them that are a user's, with respect to which results may be differentiated, by the word that holds
        the address of a table (:mod:`diffkern.ad.tables`); and their tangents, each by a tuple of the key of its array.
    fixed
        Those of the others that are a user's.
    stored
        Those of all of them that a kernel may write to.
    said
        For those that are a user's, what they are and what to do instead of changing them: for given ones, for others.
    derived
        What the words lead to besides, and other contents share.
    uses
        The uses that need the arrays as they are: launches on tapes that still exist.
    beside
        Contents of the same arrays with tangents, which launches of forward mode find.
    """

    def __init__(
        self,
        arrays: Sequence[array],
        given: Mapping[Key, array] | None = None,
        fixed: Sequence[array] = (),
        said: Sequence[tuple[str, str]] = (),
        derived: Derived | None = None,
        stored: Sequence[array] = (),
    ) -> None:
        self.arrays = (*arrays, *fixed)
        self.derived = derived
        self.given = {} if given is None else dict(given)
        self.fixed = tuple(fixed)
        self.said = tuple(said)
        self.stored = tuple(stored)
        self.uses: weakref.WeakSet[Use] = weakref.WeakSet()
        self.beside: weakref.WeakSet[Content] = weakref.WeakSet()
        self._exposures = Exposures()

    @property
    def kept(self) -> bool:
        """True if a tape needs the contents of the arrays."""
        return bool(self.uses) or any(one.uses for one in self.beside)

    @property
    def versions(self) -> tuple[int, ...]:
        """The version of each array."""
        return tuple([a._memory.now for a in self.arrays])

    def add(self, use: Use) -> None:
        """Keep the arrays as they are for a launch, or notice later that others changed them."""
        if not self.uses:
            self._exposures = Exposures()
            watch(self)
        # Changes by others up to now concern earlier uses only: this one starts from the contents of now.
        self.look()
        for held in self.arrays:
            self._exposures.note(held)
        self.uses.add(use)

    def look(self) -> None:
        """Tell the launches that need the arrays if others have changed one since the last look."""
        if self._exposures.seen:
            for held in self.arrays:
                if self._exposures.inspect(held):
                    for use in list(self.uses):
                        use.changed = held

    def before_exposure(self, memory: Memory) -> None:
        """Store digests of arrays whose memory is about to be given away."""
        if self.uses:
            for held in self.arrays:
                if held._memory is memory:
                    self._exposures.note_now(held)


_PLACE: Final = (1 << ADDRESS_BITS) - 1
"""Bits of an id that are the address of the descriptor."""
_UNUSED: Final[list[tuple[array, int]]] = []
"""Descriptors of objects that are gone, and how many had them: their memory stays, so that a kernel may look."""
_PRESENT: Final[weakref.WeakValueDictionary[int, Resource]] = weakref.WeakValueDictionary()
"""The objects that there are, by their ids."""


class Resource:
    """The descriptor of one object.

    Parameters
    ----------
    device : Device
        The device it lies on.
    kind : int
        The kind of the object.
    words : int
        Number of words, including the id.

    Attributes
    ----------
    id : int
        The object's id.
    inner : tuple of Resource
        Other objects whose ids are among the words.
    renew : weakref.ref or None
        A weak reference to a function that leads to copies of the arrays that kernels may write to, in new memory.
    times_built : int
        Number of times the object was built in place, which leaves the words as they were.
    """

    def __init__(self, device: Device, kind: int, words: int) -> None:
        # A descriptor that is used again gets another id with the same address: a stale id is recognized by the first
        # word.
        self._words, self._use = _unused(device, words) or (new((words,), UINT64, True, device), 0)
        address = self._words._address
        if address >> ADDRESS_BITS:
            raise LaunchError(f"the memory of {device} lies at addresses of more than {ADDRESS_BITS} bits")
        self.device = device
        self.id = identity(kind, address, self._use)
        self.inner: tuple[Resource, ...] = ()
        self.renew: weakref.ref[Callable[[], None]] | None = None
        self.times_built = 0
        self._values = np.zeros(words, np.uint64)
        self._values[0] = self.id
        self._content = Content(())
        # Contents by the bytes of the words: the last one that the words were led to at once, and those to which
        # recordings lead them whenever they run; and the version of the words of which the content is known.
        self._direct = self._values.tobytes(), self._content
        self._recorded: dict[bytes, Content] = {}
        self._known = 0
        self._leader: weakref.ref[RecorderProtocol] | None = None  # the recording that has led the words last
        Assign(self._words, self._values).execute()  # also where a graph is captured: it exists at once
        _PRESENT[self.id] = self

    def lead_to(self, content: Content, values: Sequence[int]) -> None:
        """Set the words behind the id so that they lead to a content."""
        self._content = content
        self._values[1:] = values
        submit(Assign(self._words, self._values))
        key = self._values.tobytes()
        if (recorder := recorder_now()) is None:
            self._direct, self._known, self._leader = (key, content), self._words._memory.now, None
        else:
            self._leader = weakref.ref(recorder)
            # A recording changes the words when it runs and not now; -1 makes the next look read them.
            self._recorded[key], self._known = content, -1

    @property
    def content(self) -> Content:
        """The content that the words lead to; while something is recorded, the one they lead to there."""
        if self._recorded and not will_replay() and self._words._memory.now != self._known:
            self._follow()
        return self._content

    def _follow(self) -> None:
        """Read to which of its contents a recording has led the words."""
        drain()
        words = self._words._memory.contents(self._words._data)
        found = dict([self._direct, *self._recorded.items()]).get(words.tobytes())
        if found is None:
            raise LaunchError(
                "an object that kernels know by its id was left as an adjoint needed it, which was interrupted",
                remedy="build it again, or refit it",
            )
        self._values[:] = words
        self._content, self._known = found, self._words._memory.now

    @property
    def is_from_without(self) -> bool:
        """True if something is recorded that has not led the words itself: replays find whatever is there then."""
        recorder = recorder_now()
        return recorder is not None and (self._leader is None or self._leader() is not recorder)

    @property
    def built(self) -> tuple[int, int]:
        """A value that differs whenever the object was built again."""
        return self.times_built, self._words._memory.now

    def __del__(self) -> None:
        words = getattr(self, "_words", None)
        if words is not None and words._memory.is_host:
            # The id in the memory no longer matches, so that a kernel with a stale id finds no object.
            words._data[0] = 0
        if words is not None:
            _UNUSED.append((words, self._use + 1))


def _unused(device: Device, words: int) -> tuple[array, int] | None:
    """Take a descriptor of a device that no object uses any more, or return None."""
    for k, (old, _) in enumerate(_UNUSED):
        if old._memory.device is device and old.size == words:
            return _UNUSED.pop(k)
    return None


def _tables(
    given: Mapping[Key, array], cotangents: Mapping[Key, array], device: Device
) -> tuple[dict[int, int], Assign]:
    """Return the addresses of tables by the words that lead to them, and the operation that fills the tables."""
    # A table for each array whose cotangents are wanted, or that has a tangent, in one block of memory.
    keys = [key for key in given if key in cotangents or (key,) in given]
    block = new((_TABLE * max(len(keys), 1),), UINT64, False, device)
    places = {key: block._address + 8 * _TABLE * k for k, key in enumerate(keys)}
    numbers = np.zeros(block.shape, np.uint64)
    for k, key in enumerate(keys):
        ct, tangent = cotangents.get(key), given.get((key,))
        numbers[_TABLE * k : _TABLE * (k + 1)] = [0 if held is None else held._address for held in (ct, tangent)] + [
            places.get((key,), 0)
        ]
    return {key: place for key, place in places.items() if isinstance(key, int)}, Assign(block, numbers)


@contextlib.contextmanager
def led_along(resource: Resource, tangents: Mapping[Key, array]) -> Iterator[None]:
    """Let a kernel of forward mode find the tangents of arrays of an object, within the block.

    Parameters
    ----------
    resource : Resource
        The object.
    tangents : mapping to array
        Contiguous tangents of some of the arrays in :attr:`Content.given`, by the keys of these.
    """
    content, values = resource.content, resource._values[1:].tolist()
    given: dict[Key, array] = {**content.given}
    given.update({(key,): held for key, held in tangents.items()})
    tables, numbers = _tables(given, {}, resource.device)
    submit(numbers)
    fixed = content.fixed
    rest = content.arrays[: len(content.arrays) - len(fixed)]
    # A kernel that stores a number clears its tangent.
    stored = [t for key, t in tangents.items() if content.given[key] in content.stored]
    along = Content(
        (*rest, *tangents.values(), numbers.goal), given, fixed, content.said, stored=(*content.stored, *stored)
    )
    content.beside.add(along)
    moved = [*values]
    for word, place in tables.items():
        moved[word - 1] = place
    resource.lead_to(along, moved)
    try:
        yield
    finally:
        resource.lead_to(content, values)


class PutBack(Copy):
    """The copy that restores the words of a descriptor after an adjoint."""

    @property
    def is_due(self) -> bool:
        """True if the words were saved, so that they have to be restored."""
        return self.source._memory.now > 0

    def keep(self, use: Use) -> PutBack:
        """Keep what the adjoint finds as long as the operation exists, in a graph for instance."""
        self._use = use
        return self


class Use:
    """The use of an object by a launch that may have read it, with the content it led to at that time.

    Parameters
    ----------
    resource : Resource
        The object.
    is_meant : bool, optional
        Whether the launch is given the object's id or captures it, or looks at objects of this kind by any ids.

    Attributes
    ----------
    changed
        An array of the content that others are known to have changed since.
    own
        Memory of the content that the launch itself writes to.
    """

    def __init__(self, resource: Resource, is_meant: bool = True, *, stores: bool = False) -> None:
        self.resource, self.content = resource, resource.content
        # What the launch itself writes there, its adjoint does not read.
        self.own = frozenset(a._memory for a in self.content.stored) if stores else frozenset()
        self.changed: array | None = None
        self._is_from_without = is_meant and resource.is_from_without
        self.content.add(self)
        self.versions = self.content.versions
        self.values = resource._values.copy()
        self.words = resource._words._memory.now
        derived = self.content.derived
        self._of_derived = 0 if derived is None else derived.held._memory.now

    @property
    def memories(self) -> list[Memory]:
        """The memory on whose contents the adjoint relies."""
        derived = self.content.derived
        held = self.content.arrays if derived is None else (*self.content.arrays, derived.held)
        return [self.resource._words._memory, *(a._memory for a in held)]

    @property
    def _is_current(self) -> bool:
        """True if the words, and what they lead to besides the content, are still those of the launch."""
        derived = self.content.derived
        if self.resource._words._memory.now != self.words:
            return False
        return derived is None or derived.held._memory.now == self._of_derived

    def lead_back(self) -> None:
        """Restore the object to its state at the launch, if it was built again since."""
        resource, derived = self.resource, self.content.derived
        if resource.content is self.content:
            return
        self._check_recorded("a step of a roll-out")
        if derived is not None and self.values[derived.word]:
            submit(derived.made(derived.held, self.values.tolist()))
        resource.lead_to(self.content, self.values[1:].tolist())

    def around(
        self,
        what: str,
        cotangents: Mapping[Key, array] | None = None,
        remade: MutableMapping[Resource, Remade] | None = None,
    ) -> tuple[list[Operation], list[Operation]]:
        """Return the operations before and after an adjoint that make it find the object as the launch did.

        Parameters
        ----------
        what : str
            The launch, for messages.
        cotangents : mapping to array, optional
            Those of arrays in :attr:`Content.given`, by the same keys.
        remade : mutable mapping of Resource to Remade, optional
            Derived arrays that operations which run before these have made, each used until another content needs it.

        Raises
        ------
        LaunchError
            If that is not possible any more.
        """
        self.check(what)
        words = self.resource._words
        making: list[Operation] = []
        leading: list[Operation] = []
        if not self._is_current:
            self._check_recorded(what)
            making, values = self._with_derived({} if remade is None else remade)
            leading.append(Assign(words, values))
        elif not cotangents:
            return [], []
        if cotangents:
            tables, numbers = _tables(self.content.given, cotangents, words._memory.device)
            making.append(numbers)
            leading += [Assign(words[word : word + 1], address) for word, address in tables.items()]
        now = new(words.shape, UINT64, False, words._memory.device)
        return [*making, Copy(now, words), *leading], [PutBack(words, now).keep(self)]

    def _check_recorded(self, what: str) -> None:
        """Raise if an adjoint in a recording needs an object as it was before, which replays do not find so."""
        if self._is_from_without:
            check_not_replayed(
                f"{what} looks by an id at an object that was built before this recording, which builds it again: a "
                "replay would find another one than the gradient was recorded for",
                "build the object in the recording before it is looked at, or use another one",
            )

    def _with_derived(self, remade: MutableMapping[Resource, Remade]) -> tuple[list[Operation], np.ndarray]:
        """Return words that lead to a derived array of this content, and the operation that makes it if none has."""
        resource, derived, values = self.resource, self.content.derived, self.values
        if derived is None or not values[derived.word]:
            return [], values
        # The object's own array stays as it is: the last build made it, and what is launched next reads it.
        have = remade.get(resource)
        making: list[Operation] = []
        if have is None or have.of is not self.content:
            like = derived.held
            held = have.held if have is not None and have.held.size >= like.size else None
            if held is None:
                held = new(like.shape, like._element, True, like._memory.device)
            making.append(derived.made(held, self.values.tolist()))
            have = remade[resource] = Remade(held, self.content)
        values = values.copy()
        values[derived.word] = have.held._address
        return making, values

    def _changed(self) -> array | None:
        """Return an array whose contents have changed since the launch, or None."""
        self.content.look()
        if self.changed is not None and self.changed._memory not in self.own:
            return self.changed
        pairs = zip(self.content.arrays, self.versions, self.content.versions, strict=True)
        return next((held for held, before, now in pairs if before != now and held._memory not in self.own), None)

    def check(self, what: str) -> None:
        """Raise if the contents of the arrays have changed; `what` is the launch that read them."""
        content, held = self.content, self._changed()
        if held is None:
            return
        for own, (name, instead) in zip((content.given.values(), content.fixed), content.said, strict=False):
            if any(held._memory is one._memory for one in own):
                raise LaunchError(
                    f"{described(held)}, {name}, was changed after {what} looked at it",
                    remedy=f"{instead}, or call backward() before the change",
                )
        raise LaunchError(
            f"a graph or a record of launches built the object again that {what} looked at by its id",
            remedy="call backward() before the graph is launched again, or build with a plain call",
        )


def check_places(kernel: str, executable: Executable, parts: Sequence[bytes]) -> None:
    """Raise if a launch is given the id of an object that is gone or lies on another device, or captures such a one."""
    ids = executable.manifest.ids
    # A debug program says which query is given an id of no object.
    for k in () if ids is None or executable.manifest.checks is not None else ids.parameters:
        # 0 is no object, which a kernel may ask for.
        if (given_id := int.from_bytes(parts[k], "little")) and given_id not in _PRESENT:
            raise LaunchError(
                f"kernel {kernel!r} is given the id {given_id}, and there is no object with it: it is gone, or there "
                "never was one",
                remedy="keep the object in a variable as long as its id is used: the id alone does not hold it",
            )
    elsewhere = [r for r in present() if r.device is not executable.device]
    if not elsewhere:
        return
    given = {*parts}
    places = () if ids is None else ids.places
    for one in elsewhere:
        # An id has the bits of a kind and an address: that another argument has the same eight bytes is next to
        # impossible.
        is_given = one.id.to_bytes(8, "little") in given
        if is_given or one.id & _PLACE in places:
            raise LaunchError(
                f"kernel {kernel!r} runs on {executable.device}, and an object whose id it "
                f"{'is given' if is_given else 'captures'} lies on {one.device}",
                remedy=f"make the object with device={str(executable.device)!r}, or pass arrays that lie on "
                f"{one.device}",
            )


def present() -> list[Resource]:
    """Return all existing objects."""
    return list(_PRESENT.values())


def looked_at(executable: Executable, parts: Sequence[bytes] | Mapping[int, bytes]) -> list[Resource]:
    """Return the objects that a launch may read: those whose ids it is given, or all of its device.

    Parameters
    ----------
    executable : Executable
        The forward program.
    parts : sequence or mapping of bytes
        The packed arguments by their numbers, those that are integers at least.
    """
    return _found(executable, executable.manifest.ids, parts) if executable.by_id else []


def _found(executable: Executable, ids: Ids | None, parts: Sequence[bytes] | Mapping[int, bytes]) -> list[Resource]:
    found = present() if ids is None else _named(ids, parts)
    return list(
        dict.fromkeys(
            one for resource in found if resource.device is executable.device for one in (resource, *resource.inner)
        )
    )


def _named(ids: Ids, parts: Sequence[bytes] | Mapping[int, bytes]) -> list[Resource]:
    """Return the objects of the ids that a launch is given, and of those that its kernel captures."""
    given = [_PRESENT.get(int.from_bytes(parts[k], "little")) for k in ids.parameters]
    found = [resource for resource in given if resource is not None]
    if ids.places:
        found += [resource for resource in present() if resource.id & _PLACE in ids.places]
    return found


def changed_by(executable: Executable, parts: Sequence[bytes] | Mapping[int, bytes]) -> list[Resource]:
    """Return the objects whose memory a launch may write to; parameters as of :func:`looked_at`."""
    if not executable.changes:
        return []
    return [r for r in _found(executable, executable.manifest.changed, parts) if r.renew is not None]


def stored_by(launch: PackedLaunch) -> list[array]:
    """Return the arrays that a launch may write to by ids."""
    return [held for r in changed_by(launch.executable, launch.parts) for held in r.content.stored]


def make_writable(launch: PackedLaunch) -> None:
    """Prepare objects for a launch that writes to their memory: what a tape needs of it is kept.

    Raises
    ------
    LaunchError
        If it reads and writes one object by two parameters.
    """
    executable, parts = launch.executable, launch.parts
    changed, ids = executable.manifest.changed, executable.manifest.ids
    if changed is not None and ids is not None:
        # Compiled for different objects: reads of one are not in order with writes to the other.
        others = Ids(tuple({*ids.parameters} - {*changed.parameters}), tuple({*ids.places} - {*changed.places}))
        both = {*_named(others, parts)} & {*_named(changed, parts)}
        if any(r.renew is not None for r in both):
            raise LaunchError(
                f"kernel {launch.kernel.name!r} stores to a volume by one of its ids, and is given it by another",
                loc=place_of(launch.kernel.func),
                remedy="use one parameter for a volume, or pass two volumes",
            )
    given = {held._memory for held in launch.arrays if held is not None}
    for resource in changed_by(executable, parts):
        if any(held._memory in given for held in resource.content.stored):
            raise LaunchError(
                f"kernel {launch.kernel.name!r} stores to a volume by its id, and is given its values as an array",
                loc=place_of(launch.kernel.func),
                remedy="pass a copy, dk.clone(volume.values)",
            )
        renew = None if resource.renew is None else resource.renew()
        if renew is not None and resource.content.kept:
            renew()


def used(executable: Executable, parts: Sequence[bytes] | Mapping[int, bytes]) -> list[Use]:
    """Return the uses of the objects that a launch may read; parameters as of :func:`looked_at`."""
    manifest, changed = executable.manifest, changed_by(executable, parts)
    return [
        # Ids that are found in arrays may be those of any objects, but of the kinds that the kernel asks for.
        Use(one, manifest.ids is not None or one.id >> KIND_BIT in manifest.kinds, stores=one in changed)
        for one in looked_at(executable, parts)
    ]


def given_to(launch: PackedLaunch) -> list[array]:
    """Return the users' arrays that a launch may read by ids."""
    found = looked_at(launch.executable, launch.parts)
    return [held for resource in found for held in resource.content.given.values()]


def _requires_grad(held: array) -> bool:
    return held.requires_grad


_REMEDY: Final = (
    "differentiate on a dk.Tape or by dk.grad, twice by dk.hvp, or pass the array as a parameter as well and compute "
    "from its elements"
)


def check_not_given(
    launch: PackedLaunch,
    where: str,
    varies: Callable[[array], bool] = _requires_grad,
    remedy: str = _REMEDY,
) -> None:
    """Raise if a launch may read by an id an array with a gradient or a tangent, which would be lost.

    Parameters
    ----------
    launch : PackedLaunch
        The launch.
    where : str
        The situation, for messages.
    varies : callable, optional
        Tells of an array whether it has a derivative: by itself, if left out.
    remedy : str, optional
        What to do about it there.
    """
    check_without_derivative(launch.kernel, given_to(launch), where, varies, remedy)


def check_no_stores(launch: PackedLaunch, where: str) -> None:
    """Raise for a launch that stores to objects by ids in a situation where the derivative would be lost."""
    if launch.executable.changes:
        raise LaunchError(
            f"kernel {launch.kernel.name!r} stores to a volume by its id, and {where} no derivative goes that way",
            loc=place_of(launch.kernel.func),
            remedy="launch on a dk.Tape, or store to an array that is a parameter",
        )


def check_without_derivative(
    kernel: KernelProtocol,
    given: Iterable[array],
    where: str,
    varies: Callable[[array], bool] = _requires_grad,
    remedy: str = _REMEDY,
) -> None:
    """Raise if one of the arrays that a kernel finds by ids has a derivative; see :func:`check_not_given`."""
    for held in given:
        if varies(held):
            raise LaunchError(
                f"kernel {kernel.name!r} looks by an id at {described(held)}, which has a derivative, and "
                f"{where} no derivative goes that way",
                loc=place_of(kernel.func),
                remedy=remedy,
            )
