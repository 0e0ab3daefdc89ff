"""Makes the LTO code of one matrix product in a process of its own: ``python -m diffkern.backends.cuda.mathdx_child``.

In: the product as JSON in the first argument. Out: the code on standard output; a message on standard error and status
1 if there is none. The library works on one product at a time in a process, so several take several processes.
"""

from __future__ import annotations

import json
import os
import sys

from diffkern.backends.cuda.mathdx import Product, generate
from diffkern.errors import CompileError


def main(argument: str) -> int:
    """Make the code of one product."""
    # Whatever the library prints must not stand between the bytes of the code.
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        code = generate(Product(**json.loads(argument)))
    except CompileError as error:
        print(json.dumps({"message": error.message, "remedy": error.remedy}), file=sys.stderr)
        return 1
    with os.fdopen(out, "wb") as stream:
        stream.write(code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
