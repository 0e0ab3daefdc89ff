"""Wrong programs from the seed of the run: each ends in an error of diffkern's (:mod:`support.wrong_programs`).

``python -m tests.support.wrong_programs --count 2000`` checks many more, of this seed or another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from support.seeds import run_seed
from support.wrong_programs.bases import base
from support.wrong_programs.campaign import Campaign, _run_batch, numbers
from support.wrong_programs.check import Verdict, program

PROGRAMS = 200


def test_wrong_programs_end_in_an_error_with_a_line(
    tmp_path_factory, record_property: Callable[[str, object], None]
) -> None:
    campaign = Campaign()
    first = numbers(run_seed(), PROGRAMS)[0]
    campaign.verdicts.update(_run_batch(first, PROGRAMS, str(tmp_path_factory.mktemp("cache")), None))
    record_property("wrong_programs", str(campaign))
    assert len(campaign.verdicts) == PROGRAMS
    for number, verdict in campaign.findings.items():
        one = program(number)
        raise AssertionError(
            f"{verdict.wrong}\n{verdict.text}\nwith --program {number} of tests.support.wrong_programs "
            f"({one.base.name}: {one.how}):\n{one.text}"
        )
    assert campaign.refused >= 0.7 * PROGRAMS, str(campaign)


def test_the_same_number_gives_the_same_program() -> None:
    for number in range(20):
        assert program(number).text == program(number).text


def test_programs_are_changed_in_all_ways() -> None:
    found = Counter(part for number in range(400) for part in program(number).how.split(" and "))
    assert len(found) >= 18, found
    assert 0.15 < found[""] / 400 < 0.35, found  # right kernels that are launched wrongly
    assert len({base(number).name for number in range(1000)}) > 200


def test_a_process_that_dies_is_a_finding(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("DIFFKERN_WRONG_PROGRAM_DIES", "5")
    verdicts = dict(_run_batch(4, 3, str(tmp_path), None))
    assert [number for number, v in verdicts.items() if v.outcome == "died"] == [5]
    assert set(verdicts) == {4, 5, 6}
    assert isinstance(verdicts[6], Verdict)
