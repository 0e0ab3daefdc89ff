"""``python -m tests.natural [NAME...]``: check kernels, all derivatives, and print what became of them."""

from __future__ import annotations

import sys
import time

from . import KERNELS
from .check import check


def main(names: list[str]) -> None:
    for name, case in KERNELS.items():
        if names and name not in names:
            continue
        begin = time.process_time()
        found = check(case)
        seconds = time.process_time() - begin
        outcomes = ", ".join(f"{k} {v.outcome}" for k, v in found.items())
        reasons = "; ".join(dict.fromkeys(v.reason for v in found.values() if v.reason))
        print(f"{name:32} {seconds:5.1f} s  {outcomes}  {reasons}", flush=True)


main(sys.argv[1:])
