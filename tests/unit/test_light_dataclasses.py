"""The house's decorator for dataclasses against the standard one, and what both leave undone until the first use."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from typing import Any, ClassVar

import pytest

from diffkern.process import dataclass as light

OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False, "repr": False},
    {"kw_only": True},
]


def point(decorator: Any, options: dict[str, bool]) -> Any:
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: float
        name: str = "p"
        note: object = dataclasses.field(default=None, compare=False)
        places: list[int] = dataclasses.field(default_factory=list, hash=False, repr=False)
        made: int = dataclasses.field(init=False, default=7)
        last: int = dataclasses.field(default=1, kw_only=True)

        def twice(self) -> float:
            return 2 * self.x

    return decorator(**options)(Point)


def tried(work: Any) -> Any:
    """Return what a call gives or the type and text of its error."""
    try:
        return work()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_an_object_is_as_one_of_the_standard_decorator(options: dict[str, bool]) -> None:
    def facts(cls: Any) -> list[Any]:
        def made(x: float = 1.5, **more: Any) -> Any:
            return cls(x=x, **more)

        one = made(name="a", places=[3])
        same = made(name="a", places=[3], note="other")
        return [
            one == same, one == made(name="b"), one != same, one == 3, len({1: one, 2: one}),
            tried(lambda: hash(one) == hash(same)), options.get("repr", True) and repr(one), one.twice(), one.kind,
            dataclasses.asdict(one), [f.name for f in dataclasses.fields(cls)], dataclasses.is_dataclass(one),
            dataclasses.asdict(dataclasses.replace(one, x=2.0)), dataclasses.asdict(copy.copy(one)),
            tried(lambda: setattr(one, "x", 4.0)), tried(lambda: delattr(one, "name")), one.x,
            tried(lambda: type(setattr(one, "unknown", 4.0))) == (AttributeError, "") or hasattr(one, "__dict__"),
            tried(cls), tried(lambda: made(wrong=3)), cls.__match_args__, cls.__doc__,
            [str(p).replace("'", "") for p in inspect.signature(cls).parameters.values()],
            made().places is not made().places, getattr(cls, "__slots__", None), cls.__hash__ is None,
        ]  # fmt: skip

    assert facts(point(light.dataclass, options)) == facts(point(dataclasses.dataclass, options))


@light.dataclass(frozen=True, slots=True)
class Base:
    """A base."""

    a: int
    b: tuple[int, ...] = ()


@light.dataclass(frozen=True, slots=True)
class Derived(Base):
    """A class with a field more, checked after it is set."""

    c: str = "c"

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError("a is negative")


@light.dataclass(frozen=True)
class Open:
    """A class for a subclass with attributes of its own."""

    a: float = float("nan")


class Wider(Open):
    def __init__(self) -> None:
        super().__init__(2.0)
        self.more = 5


def test_subclasses_have_the_fields_of_their_bases() -> None:
    one = Derived(1, (2,), "d")
    assert repr(one) == "Derived(a=1, b=(2,), c='d')"
    assert one == Derived(1, (2,), "d") != Base(1, (2,))
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    with pytest.raises(ValueError, match="a is negative"):
        Derived(-1)
    with pytest.raises(ValueError, match="a is negative"):
        dataclasses.replace(one, a=-2)
    wider = Wider()
    assert (wider.a, wider.more) == (2.0, 5)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        wider.a = 3.0  # type: ignore[misc]
    assert Open() == Open()  # the same NaN, as in a tuple
    match one:
        case Derived(1, second):
            assert second == (2,)
        case _:
            raise AssertionError


def test_methods_of_the_class_itself_stay() -> None:
    @light.dataclass(frozen=True)
    class Own:  # noqa: PLW1641 - the decorator adds the hash
        """A class with methods of its own."""

        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    @light.dataclass(frozen=True)
    class Hashed:
        a: object

        def __hash__(self) -> int:
            return 5

    assert (Own(1) == Own(2), repr(Own(1)), hash(Own(1))) == (True, "own", hash((1,)))
    assert (hash(Hashed([])), Hashed([1]) == Hashed([1]), Hashed.__doc__) == (5, True, "Hashed")
    held = Hashed([])
    held.a.append(held)  # type: ignore[attr-defined]
    assert repr(held).endswith("Hashed(a=[...])")


def test_the_initializer_is_compiled_by_its_first_use_in_whatever_thread() -> None:
    made = point(light.dataclass, {"frozen": True, "slots": True})
    assert not inspect.isfunction(vars(made)["__init__"])
    start = threading.Barrier(4)
    found: list[Any] = []

    def work() -> None:
        start.wait(10)
        found.append(made(2.0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [made(2.0)] * 4
    assert inspect.isfunction(vars(made)["__init__"])
