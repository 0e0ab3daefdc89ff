"""Write ``docs/generated``: what the tool really prints, shown in the documentation.

In: ``docs/snippets``, ``docs/mistakes`` and ``examples/flood.py``. Out: one file per text. With ``--check`` nothing is
written and the exit status says whether all files are up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path

import docs_errors

from diffkern import cuda
from diffkern.cli import command as cli
from diffkern.cuda.names import DIFFERENT, INSTEAD, OWN
from diffkern.cuda.types import TYPES
from diffkern.warp import opaque as warp_opaque
from diffkern.warp.opaque import INSTEAD as NOT_OF_WARP

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "docs" / "generated"


def printed(directory: Path, *argv: str) -> str:
    """Return what ``diffkern`` prints when it is run in a directory, on whichever stream."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(directory)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main(argv)
    finally:
        os.chdir(before)
    return (out.getvalue() + err.getvalue()).rstrip() + "\n"


def mistakes() -> str:
    """Each wrong kernel of ``docs/mistakes`` with the message it gets, as reStructuredText."""
    parts = []
    for path in sorted((ROOT / "docs" / "mistakes").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        name = source.split("def ", 1)[1].split("(", 1)[0]
        message = printed(path.parent, "inspect", f"{path.name}:{name}")
        if not message.startswith("diffkern: error:"):
            message = printed(path.parent, "inspect", f"{path.name}:{name}", "--adjoint")
        if not message.startswith("diffkern: error:"):
            raise SystemExit(f"{path} was not refused")
        parts.append(_block("python", source.split("\n\n\n", 1)[1]) + _block("text", message))
    return "\n".join(parts)


def numba_names() -> str:
    """The public names of numba.cuda as tables: those that are there, and what to write instead of the others."""
    same = sorted(set(cuda.__all__) - set(DIFFERENT) - set(TYPES) - set(OWN), key=str.lower)
    types = ", ".join(f"``{name}``" for name in TYPES)
    differ = "".join(f"   * - ``{name}``\n     - {text}\n" for name, text in sorted(DIFFERENT.items()))
    refused: dict[str, list[str]] = {}
    for name, text in INSTEAD.items():
        refused.setdefault(text, []).append(f"``{name}``")
    rows = "".join(f"   * - {', '.join(names)}\n     - {text}\n" for text, names in refused.items())
    return (
        f"The same: {', '.join(f'``{name}``' for name in same)}; and as types {types}.\n\n"
        f".. list-table::\n   :header-rows: 1\n   :widths: 25 75\n\n   * - different\n     - how\n{differ}\n"
        f".. list-table::\n   :header-rows: 1\n   :widths: 50 50\n\n   * - not there\n     - write instead\n{rows}"
    )


def warp_names() -> str:
    """The names of Warp's that are not there, with what to take instead, as a table."""
    by_reason: dict[str, list[str]] = {}
    for name, text in NOT_OF_WARP.items():
        by_reason.setdefault(text, []).append(f"``{name}``")
    rows = "".join(f"   * - {', '.join(sorted(names))}\n     - {text}\n" for text, names in by_reason.items())
    return f".. list-table::\n   :header-rows: 1\n   :widths: 60 40\n\n   * - not there\n     - take instead\n{rows}"


def warp_types() -> str:
    """The types and modules of Warp that can be named and have no values, as a table."""
    by_reason: dict[str, list[str]] = {}
    for name, text in warp_opaque.TYPES.items():
        by_reason.setdefault(text, []).append(f"``{name}``")
    rows = "".join(f"   * - {', '.join(sorted(names))}\n     - {text}\n" for text, names in by_reason.items())
    return f".. list-table::\n   :header-rows: 1\n   :widths: 60 40\n\n   * - type\n     - take instead\n{rows}"


def _block(language: str, text: str) -> str:
    lines = "\n".join(f"   {line}".rstrip() for line in text.rstrip().splitlines())
    return f".. code-block:: {language}\n\n{lines}\n\n"


def texts() -> dict[str, str]:
    """Return every generated file by name."""
    snippets, examples = ROOT / "docs" / "snippets", ROOT / "examples"
    exported = printed(snippets, "export", "first_kernel.py:spring_energy", "--adjoint")
    return {
        "door_adjoint.txt": printed(snippets, "inspect", "door_diffkern.py:energy", "--adjoint"),
        "error_classes.inc": "\n".join(map(docs_errors.entry, docs_errors.programs())),
        "errors.inc": mistakes(),
        "exported_main.txt": exported[exported.index("def launch(") :],
        "first_kernel_ir.txt": printed(snippets, "inspect", "first_kernel.py:spring_energy", "--ir"),
        "numba_names.inc": numba_names(),
        "warp_names.inc": warp_names(),
        "warp_types.inc": warp_types(),
        "flood_forward.txt": printed(examples, "inspect", "flood.py:flow"),
        "flood_adjoint.txt": printed(examples, "inspect", "flood.py:flow", "--adjoint"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a file is out of date")
    options = parser.parse_args()
    stale = 0
    for name, text in texts().items():
        path = GENERATED / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{'out of date' if options.check else 'written'}: {path.relative_to(ROOT)}")
        if not options.check:
            GENERATED.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
