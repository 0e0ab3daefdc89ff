"""Ring 0: the tests that need neither a compiler's back end nor another process, to be run after every edit.

``pytest --ring0`` runs them in about a minute. A test of these folders that makes object code or starts a process
fails then; the files of such tests are left out by name.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest import mock

__all__ = ["is_in_ring0", "nothing_is_compiled"]

_FOLDERS = tuple(
    f"tests/{name}/"
    for name in (
        "golden", "unit/ad", "unit/analysis", "unit/frontend", "unit/ir", "unit/lang", "unit/lower", "unit/ops",
        "unit/opt", "unit/printing",
    )
)  # fmt: skip
_COMPILING = {
    "golden/test_choices.py", "golden/test_traces.py", "unit/frontend/test_annotation_texts.py",
    "unit/frontend/test_likeness.py", "unit/frontend/test_outline.py", "unit/lower/test_lazy_tiles.py",
    "unit/ops/test_library_symbols.py",
    "unit/ad/test_segments.py", "unit/analysis/test_blocks.py", "unit/analysis/test_boxes.py",
    "unit/frontend/test_desugar.py", "unit/frontend/test_dialects.py", "unit/frontend/test_fingerprint.py",
    "unit/frontend/test_long.py", "unit/frontend/test_names_of_builtins.py", "unit/frontend/test_new_dialect.py",
    "unit/frontend/test_overloads.py", "unit/frontend/test_set_by_loops.py", "unit/frontend/test_static.py",
    "unit/frontend/test_struct_methods.py", "unit/frontend/test_structs.py", "unit/frontend/test_text.py",
    "unit/frontend/test_tiles.py", "unit/frontend/test_types.py", "unit/ir/test_trip_count.py",
    "unit/lang/test_values.py", "unit/lower/test_batch.py", "unit/ops/test_new_operation.py",
    "unit/ops/test_new_tile_operation.py", "unit/ops/test_one_row.py", "unit/opt/test_neighbours.py",
    "unit/opt/test_order_of_operands.py",
    "unit/printing/test_cuda_source.py",
}  # fmt: skip


def is_in_ring0(nodeid: str) -> bool:
    """Whether a test is in ring 0."""
    file = nodeid.partition("::")[0]
    return file.startswith(_FOLDERS) and file.removeprefix("tests/") not in _COMPILING


def _refuse(*args: Any, **options: Any) -> NoReturn:
    raise AssertionError(
        "a test of ring 0 makes object code or starts a process: its file belongs into support/rings.py"
    )


@contextmanager
def nothing_is_compiled() -> Iterator[None]:
    """Let what makes object code or starts a process fail."""
    import llvmlite.binding as llvm

    with (
        mock.patch.object(subprocess.Popen, "__init__", _refuse),
        mock.patch.object(llvm.TargetMachine, "emit_object", _refuse),
    ):
        yield
