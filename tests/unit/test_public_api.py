"""The list of public names and signatures agrees with the sources, and the tool that compares the two sees a change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import diffkern
from diffkern import cuda, warp

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import public_api


def test_public_api_is_as_listed():
    listed = public_api.LIST.read_text(encoding="utf-8").splitlines()
    said = public_api.message(listed, public_api.listing(public_api.Sources()))
    assert not said, said


def test_the_list_has_every_name_that_the_modules_have():
    lines = public_api.LIST.read_text(encoding="utf-8").splitlines()
    names = {line.partition("(")[0].partition(" ")[0] for line in lines}
    for module in (diffkern, cuda, warp):
        own = {f"{module.__name__}.{name}" for name in module.__all__ if not name.startswith("_")}
        spaces = {name for name in own if any(known.startswith(f"{name}.") for known in names)}  # cuda.atomic.add
        specials = {f"diffkern.cuda.{name}" for name in cuda.LANGUAGE} - names  # such as threadIdx
        assert own - spaces - specials <= names


ONE = """
from __future__ import annotations
from dataclasses import dataclass

__all__ = ["Both", "Pair", "again", "run"]
_NONE = ()

def run(kernel: int, /, dim, *inputs, options=_NONE, size: int = 3, **more) -> None: ...

again = run

class _Above:
    def shared(self, x): ...
    def _hidden(self): ...

class Both(_Above):
    limit = 3
    def __init__(self, first, second=None): ...
    @property
    def size(self): ...
    @staticmethod
    def made(n): ...
    @classmethod
    def of(cls, n): ...
    def __len__(self): ...
    def __repr__(self): ...

@dataclass
class Pair:
    left: int
    right: int = 0
"""


def entries(directory: Path, text: str) -> list[str]:
    (directory / "made").mkdir(exist_ok=True)
    (directory / "made" / "one.py").write_text(text)
    (directory / "made" / "__init__.py").write_text("from made.one import Both as Both, run\n")
    sources = public_api.Sources(directory)
    names = sources.literal("made.one", "__all__")
    return [line for name in names for line in public_api._entry(sources, "made.one", name, "made")]


def test_entries_of_a_module(tmp_path):
    run = "(kernel, /, dim, *inputs, options=..., size=3, **more)"
    assert entries(tmp_path, ONE) == [
        "made.Both(first, second=None)", "made.Both.limit", "made.Both.size", "made.Both.made(n)", "made.Both.of(n)",
        "made.Both.__len__()", "made.Both.shared(x)",
        "made.Pair(left, right=0)", "made.Pair.left", "made.Pair.right",
        f"made.again{run}", f"made.run{run}",
    ]  # fmt: skip


def test_a_name_is_followed_through_imports(tmp_path):
    entries(tmp_path, ONE)
    found = public_api.Sources(tmp_path).find("made", "Both")
    assert found is not None
    assert found.module == "made.one"


def test_what_is_moved_or_annotated_otherwise_stays_the_same(tmp_path):
    before = entries(tmp_path, ONE)
    after = ONE.replace("kernel: int", "kernel: object").replace("    def shared(self, x): ...\n", "")
    after = after.replace("    limit = 3\n", "    limit = 3\n    def shared(self, y_is_x): ...\n").replace(
        "y_is_x", "x"
    )
    assert sorted(entries(tmp_path, after)) == sorted(before)
    assert not public_api.message(sorted(before), sorted(entries(tmp_path, after)))


def test_removed_changed_and_added_names_are_told_apart(tmp_path):
    before = entries(tmp_path, ONE)
    after = ONE.replace("def shared(self, x)", "def shared(self, x, y)").replace("def made(n)", "def make(n)")
    said = public_api.message(before, entries(tmp_path, after))
    assert "- made.Both.made(n)   (renamed to made.Both.make(n)?)" in said
    assert "  - made.Both.shared(x)\n  + made.Both.shared(x, y)" in said
    assert "--breaking" in said
    added = public_api.message(before, entries(tmp_path, ONE + "    def more(self): ...\n"))
    assert added == "public names were added; run python tools/public_api.py to list them:\n  + made.Pair.more()"


def test_names_are_taken_away_only_on_purpose(tmp_path, monkeypatch, capsys):
    listed = tmp_path / "list.txt"
    monkeypatch.setattr(public_api, "LIST", listed)
    listed.write_text("made.gone(x)\n")
    monkeypatch.setattr(public_api, "listing", lambda sources: ["made.new(x)"])
    assert public_api.main([]) == 1
    assert "made.gone(x)" in capsys.readouterr().err
    assert listed.read_text() == "made.gone(x)\n"
    assert public_api.main(["--breaking"]) == 0
    assert listed.read_text() == "made.new(x)\n"
    monkeypatch.setattr(public_api, "RELEASED", listed)
    assert public_api.main(["--check"]) == 0
    monkeypatch.setattr(public_api, "RELEASED", tmp_path / "released.txt")
    public_api.RELEASED.write_text("made.gone(x)\n")
    assert public_api.main(["--check"]) == 1
    assert "  - made.gone(x)" in capsys.readouterr().err
    assert public_api.main(["--release"]) == 0
    assert public_api.main(["--check"]) == 0


def test_the_last_release_is_kept():
    assert not public_api.against_release(public_api.listing(public_api.Sources()))


@pytest.mark.parametrize(
    ("after", "is_same"),
    [
        ("m.f(a, b=1)", True), ("m.f(a, b=1, c=2)", True), ("m.f(a, b=1, *, c=2)", True), ("m.f(a, b=1, *rest)", True),
        ("m.f(a, b=2)", True), ("m.f(a)", False), ("m.f(a, b)", False), ("m.f(b=1, a=2)", False),
        ("m.f(a, *, b=1)", False), ("m.f(a, c=2, b=1)", False), ("m.f(a, b=1, *, c)", False), ("m.f", False),
    ],
)  # fmt: skip
def test_which_signatures_take_the_same_calls(after, is_same):
    assert public_api.takes_the_same("m.f(a, b=1)", after) is is_same


def test_a_removal_needs_its_time_of_warning():
    row = {"name": "m.f", "since": "2026-12-05", "removed in": "0.4.0"}
    day = public_api.dt.date
    for today, rows, is_broken in (
        (day(2027, 4, 4), [row], True), (day(2027, 4, 5), [row], False), (day(2028, 1, 1), [], True),
        (day(2028, 1, 1), [{**row, "removed in": ""}], True),
    ):  # fmt: skip
        assert bool(public_api.broken(["m.f(a)"], [], rows, today)) is is_broken
