"""Random programs from the seed of the run: results, gradients and what is refused (:mod:`support.random_programs`).

``python -m tests.support.random_programs`` checks many more, of this seed or another one, for as long as one likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings
from support.random_programs.campaign import COMPILE_LIMIT, Campaign, _Worker, program_seeds, run_campaign
from support.random_programs.check import check
from support.random_programs.program import random_program
from support.seeds import run_seed

PROGRAMS = max(4, 4 * settings.default.max_examples // 5)
MAX_REFUSED = 0.25
KINDS = (
    "float32",
    "float64",
    "Body",
    "mat33",
    "atomic_",
    "i, j = dk.tid()",
    "% -",
    "dk.int8(",
    "dk.pow(",
    "for k",
    "reversed(",
    "dk.uint32(",
    "TABLE",
    "dk.static(",
)


def test_random_programs(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    campaign = Campaign()
    for seed in program_seeds(run_seed(), PROGRAMS):
        program = random_program(seed)
        verdict = campaign.verdicts[seed] = check(program, str(tmp_path))
        assert not verdict.wrong, (
            f"{verdict.reason}\nwith --program {seed} of tests.support.random_programs:\n{program.text}"
        )
        assert verdict.seconds <= COMPILE_LIMIT, f"{verdict.seconds} s to compile\n{program.text}"
    record_property("fuzz", str(campaign))
    assert campaign.refused <= max(3, MAX_REFUSED * PROGRAMS), str(campaign)


def test_the_same_seed_gives_the_same_program() -> None:
    for seed in range(20):
        assert random_program(seed).text == random_program(seed).text
        wide, single = random_program(seed, "float64"), random_program(seed, "float32")
        assert wide.steps == single.steps
        assert wide.source.count("\n") == single.source.count("\n")


def test_programs_have_what_they_are_to_try() -> None:
    found = Counter(kind for seed in range(200) for kind in KINDS if kind in random_program(seed).source)
    assert min(found[kind] for kind in KINDS) >= 20, found
    steps = Counter(type(step).__name__ for seed in range(200) for step in random_program(seed).steps)
    assert min(steps.values()) > 20, steps


def test_a_campaign_counts() -> None:
    campaign = run_campaign(0, 2, workers=1)
    assert len(campaign.verdicts) == 2
    assert "2 programs" in str(campaign)
    assert run_campaign(0, 5, time_limit=0.0).verdicts == {}


def test_a_process_that_dies_is_a_verdict(tmp_path: Path) -> None:
    worker = _Worker(str(tmp_path), "cpu")
    worker.begin(7)
    worker.process.kill()
    seed, verdict = worker.result()
    assert (seed, verdict.wrong) == (7, True)
    assert "died" in verdict.reason
    worker.stop()
