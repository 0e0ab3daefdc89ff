"""Makes the LTO code of one matrix product in a process of its own: ``python -m diffkern.targets.cuda.mathdx_child``.

The product is given as JSON in the first argument. The code goes to standard output; without one the status is 1, and
standard error has the library's messages, then a line of JSON: the message, the remedy, and the compiler's version.
Once standard input ends, the parent process is gone, and this one ends too. The library works on one product at a time
in a process, so several take several processes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading

from diffkern.errors import CompileError
from diffkern.targets.cuda.mathdx import LOG_LEVEL, Product, generate, nvrtc_version


def main(argument: str) -> int:
    """Make the code of one product."""
    os.environ.setdefault(LOG_LEVEL, "1")
    # Compiling takes up to a minute, and nobody would wait for it if the parent were killed.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Whatever the library prints must not stand between the bytes of the code.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        code = generate(Product(**json.loads(argument)))
    except CompileError as error:
        ctypes.CDLL(None).fflush(None)
        said = {"message": error.message, "remedy": error.remedy, "nvrtc": nvrtc_version()}
        print(f"\n{json.dumps(said)}", file=sys.stderr)
        return 1
    with os.fdopen(out, "wb") as stream:
        stream.write(code)
    return 0


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
