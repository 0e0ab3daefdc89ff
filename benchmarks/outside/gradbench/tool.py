"""The tool for GradBench: a message of an eval per line on standard input, a response per line on standard output."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import traceback
from typing import Any, TextIO

EVALS = ("ba", "det", "gmm", "hello", "ht", "kmeans", "llsq", "lse", "lstm", "ode", "particle", "saddle")


def define(message: dict[str, Any]) -> dict[str, Any]:
    """Say whether there is such an eval."""
    name = message["module"]
    return {"success": True} if name in EVALS else {"success": False, "error": f"there is no eval {name} here"}


def evaluate(message: dict[str, Any]) -> dict[str, Any]:
    """Compute a function of an eval."""
    from benchmarks.outside.gradbench.protocol import timed

    functions = importlib.import_module(f"benchmarks.outside.gradbench.{message['module']}").FUNCTIONS
    given = message["input"]
    runs, seconds = (given["min_runs"], given["min_seconds"]) if isinstance(given, dict) else (1, 0.0)
    return timed(functions[message["function"]](given), runs, seconds)


KINDS = {"start": lambda _: {"tool": "diffkern"}, "define": define, "evaluate": evaluate, "analysis": lambda _: {}}


def respond(message: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a message; an error of ours is one of the response."""
    try:
        return {"id": message["id"], **KINDS[message["kind"]](message)}
    except Exception:
        return {"id": message["id"], "success": False, "error": traceback.format_exc()}


def serve(lines: TextIO, out: TextIO) -> None:
    """Respond to each line until there are no more."""
    for line in lines:
        print(json.dumps(respond(json.loads(line))), file=out, flush=True)


def main() -> None:
    """Serve on standard input and output, with one thread unless told otherwise, as the other tools do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--multithreaded", action="store_true", help="use all processors")
    if not parser.parse_args().multithreaded:
        os.environ["DIFFKERN_NUM_THREADS"] = "1"
    serve(sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
