"""diffkern.errors: rendering of one mistake and of several together."""

from __future__ import annotations

import pickle

import pytest

from diffkern.errors import (
    AutodiffError,
    CompileError,
    KernelError,
    KernelSyntaxError,
    KernelTypeError,
    LaunchError,
    Loc,
    raise_all,
)

LOC = Loc("model.py", 12, 8, 12, 13, "    y = x @@@ 2")


def test_message_alone():
    assert str(KernelError("no such array")) == "no such array"


def test_location_excerpt_and_remedy():
    error = KernelTypeError("cannot do that", loc=LOC, remedy="write x * 2")
    assert str(error).splitlines() == [
        "model.py:12: cannot do that",
        "        y = x @@@ 2",
        "            ^^^^^",
        "help: write x * 2",
    ]


def test_location_without_source_has_no_excerpt():
    error = KernelError("bad", loc=Loc("model.py", 3, 4), remedy="do better")
    assert str(error).splitlines() == ["model.py:3: bad", "help: do better"]


def test_start_alone_gets_one_caret():
    assert Loc("f.py", 1, 2, text="a+b").excerpt().splitlines()[1] == "      ^"


def test_span_over_several_lines_is_underlined_to_the_line_end():
    loc = Loc("f.py", 1, 4, 3, 2, text="y = (a +  ")
    assert loc.excerpt().splitlines() == ["    y = (a +", "        ^^^^"]


def test_tabs_before_the_span_are_kept():
    assert Loc("f.py", 1, 1, 1, 4, text="\tfoo").excerpt().splitlines() == ["    \tfoo", "    \t^^^"]


@pytest.mark.parametrize(("col", "end"), [(99, None), (99, 120), (2, 1), (-1, 0), (0, 99)])
def test_columns_outside_the_line_still_render_a_caret_within_it(col, end):
    lines = Loc("f.py", 1, col, 1, end, text="abc").excerpt().splitlines()
    assert lines[1].strip("^ ") == ""
    assert "^" in lines[1]
    assert len(lines[1]) <= len(lines[0])


def test_subclasses_share_one_base():
    for cls in (KernelSyntaxError, KernelTypeError, AutodiffError, LaunchError, CompileError):
        assert issubclass(cls, KernelError)


def test_errors_of_a_single_mistake_is_itself():
    error = AutodiffError("no")
    assert error.errors == (error,)


def test_raise_all_of_nothing_returns():
    raise_all([])


def test_raise_all_of_one_raises_that_one():
    error = KernelSyntaxError("no lambda", loc=LOC)
    with pytest.raises(KernelSyntaxError) as caught:
        raise_all([error])
    assert caught.value is error


def test_raise_all_renders_each_in_source_order():
    later = KernelTypeError("second", loc=Loc("f.py", 9, 0, text="b = 2"), remedy="r2")
    first = KernelTypeError("first", loc=Loc("f.py", 4, 0, text="a = 1"))
    with pytest.raises(KernelTypeError) as caught:
        raise_all([later, first])
    assert caught.value.errors == (first, later)
    text = str(caught.value)
    assert text.startswith("2 errors\n")
    assert text.index("f.py:4: first") < text.index("f.py:9: second")
    assert "help: r2" in text


def test_raise_all_takes_the_nearest_common_class():
    with pytest.raises(KernelError) as caught:
        raise_all([KernelTypeError("a"), KernelSyntaxError("b")])
    assert type(caught.value) is KernelError


def test_raise_all_flattens_and_drops_repeats():
    with pytest.raises(KernelTypeError) as inner:
        raise_all([KernelTypeError("a"), KernelTypeError("b")])
    with pytest.raises(KernelTypeError) as outer:
        raise_all([inner.value, KernelTypeError("b"), KernelTypeError("c")])
    assert [e.message for e in outer.value.errors] == ["a", "b", "c"]


def test_errors_survive_pickling():
    with pytest.raises(KernelTypeError) as caught:
        raise_all([KernelTypeError("a", loc=LOC, remedy="r"), KernelTypeError("b")])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is KernelTypeError
    assert str(copy) == str(caught.value)
