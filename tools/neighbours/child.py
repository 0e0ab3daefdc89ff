"""The process of one piece: ``child.py UNDER WORK``. It reads requests and answers them in lines of JSON.

UNDER is ``warp`` or ``diffkern``; WORK is ``modules``, ``kernels``, ``program`` or ``launched``. What programs print
goes to the standard error, so that the standard output has the answers alone.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any


def main(under: str, work: str) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from works import WORKS, first_line

    sys.path[0:1] = []  # the packages are to find no module of this folder
    if under == "diffkern":
        from diffkern.warp import finder

        finder.install()
    answer = _answering(answers)
    worker: Any = WORKS[work]()
    for request in _requests():
        try:
            for reply in worker(request):
                answer(reply)
        except Exception as caught:
            answer({"failed": first_line(caught), "trace": traceback.format_exc()[-6000:]})
        answer({"end": True})
    answers.flush()
    os._exit(0)  # without what threads and libraries still want to do


def _requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def _answering(answers: Any) -> Callable[[dict[str, Any]], None]:
    def answer(reply: dict[str, Any]) -> None:
        answers.write(json.dumps(reply) + "\n")
        answers.flush()

    return answer


if __name__ == "__main__":
    main(*sys.argv[1:])
