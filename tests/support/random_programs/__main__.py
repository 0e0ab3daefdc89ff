"""``python -m tests.support.random_programs``: so many random programs, or as many as fit into a time.

It ends with 1 if any program is wrong, dead, or takes more than ten seconds of a processor to compile; all of these are
printed. ``--program N`` checks a single one and prints its text.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import diffkern as dk

from ..lanes import VARIABLE, WAYS, force
from ..seeds import run_seed
from .campaign import run_campaign
from .check import Verdict, check
from .program import random_program


def _show(number: int, verdict: Verdict) -> None:
    print(f"\n{'=' * 100}\nprogram {number}: {verdict}\n{random_program(number).text}", flush=True)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.random_programs", description=__doc__)
    parser.add_argument(
        "--count", type=int, default=1_000_000, help="number of programs (default: until the time is up)"
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the run (default: the fixed one)")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds after which no program is begun")
    parser.add_argument("--workers", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--lanes", choices=WAYS, help="threads in lanes wherever they can be, or nowhere")
    parser.add_argument("--device", default="cpu", help="where the programs run (default: cpu)")
    parser.add_argument("--json", metavar="FILE", help="write counts and failures there as well")
    parser.add_argument("--program", type=int, default=None, help="check this program alone, and print it")
    args = parser.parse_args()
    if args.lanes is not None:
        os.environ[VARIABLE] = args.lanes
    if args.program is not None:
        force()
        program = random_program(args.program)
        print(program.text)
        with tempfile.TemporaryDirectory() as directory, dk.ScopedDevice(args.device):
            verdict = check(program, directory)
        print(verdict)
        return int(verdict.wrong)
    if args.time_limit is None and args.count >= 1_000_000:
        parser.error("one of --count and --time-limit is needed")
    seed = run_seed() if args.seed is None else args.seed
    print(f"random programs from seed {seed}", flush=True)
    campaign = run_campaign(seed, args.count, args.time_limit, args.workers, _show, args.device)
    print(f"\n{campaign}")
    print(f"{len(campaign.failures)} wrong, dead or slow; again with --seed {seed}, one with --program N")
    print("counts", json.dumps(campaign.counts()))
    if args.json is not None:
        failed = {str(number): str(verdict) for number, verdict in campaign.failures.items()}
        Path(args.json).write_text(json.dumps({"counts": campaign.counts(), "failed": failed}))
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())
