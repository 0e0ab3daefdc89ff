"""``python -m tests.support.wrong_programs``: so many wrong programs, and what became of them by class of error.

It ends with 1 if any of them ended in anything but an error of diffkern's with file and line; these are printed.
``--program N`` checks a single one in this process and prints its text and error; ``--messages`` prints each different
message once.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from ..seeds import run_seed
from .campaign import check_in_turn, run_campaign
from .check import Verdict, check, program


def _show(number: int, verdict: Verdict) -> None:
    one = program(number)
    print(
        f"\n{'=' * 100}\nprogram {number} ({one.base.name}: {one.how})\n{one.text}\n{verdict.wrong}\n{verdict.text}",
        flush=True,
    )


def main() -> int:
    """Run what the command line asks for."""
    sys.path.insert(0, str(Path(__file__).parents[2]))  # of the corpora that programs are made from
    parser = argparse.ArgumentParser(prog="python -m tests.support.wrong_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="number of programs (default: 2000)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the run (default: the fixed one)")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds after which no program is begun")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--program", type=int, default=None, help="check this program alone, and print it")
    parser.add_argument("--batch", type=int, nargs=2, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--messages", action="store_true", help="print the different messages")
    args = parser.parse_args()
    if args.batch is not None:
        check_in_turn(*args.batch)
        return 0
    if args.program is not None:
        verdict = check(program(args.program))
        _show(args.program, verdict)
        return int(bool(verdict.wrong))
    seed = run_seed() if args.seed is None else args.seed
    print(f"wrong programs from seed {seed}", flush=True)
    campaign = run_campaign(seed, args.count, args.time_limit, args.workers, _show)
    if args.messages:
        texts = {re.sub(r"<wrong program \d+>:\d+|'[^']*'|\d+", "…", v.text): v for v in campaign.verdicts.values()}
        print("\n\n".join(f"[{v.outcome}] {v.text}" for _, v in sorted(texts.items()) if v.outcome != "python"))
    print(f"\n{campaign}")
    print("counts", json.dumps(campaign.counts()))
    return int(bool(campaign.findings))


if __name__ == "__main__":
    sys.exit(main())
