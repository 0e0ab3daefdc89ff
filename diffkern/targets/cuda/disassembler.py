"""NVIDIA's disassembler, found in one of the places where it is installed.

The functions return the output of ``nvdisasm`` for the bytes of a cubin, or what it says about their code. The tool
comes with the wheel nvidia-cuda-nvdisasm, whose files in site-packages have no permission to be executed, or with the
CUDA toolkit.
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from diffkern.errors import CompileError
from diffkern.process import wheels
from diffkern.targets.cuda.cubin import architecture, code_sections
from diffkern.targets.cuda.sass import MachineCode, parse_raw

__all__ = ["codes", "disassemble", "find_disassembler"]

_NAME = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
_PT_INTERP = 3
_TIMEOUT_S = 120.0


def disassemble(cubin: bytes) -> str:
    """Return the instructions of all functions of a cubin, as ``nvdisasm -c`` prints them.

    Raises
    ------
    CompileError
        If there is no disassembler, or it cannot read the cubin.
    """
    return _run("-c", cubin)


def codes(cubins: Sequence[bytes]) -> list[dict[str, MachineCode]]:
    """Return the code of all functions of each of several cubins, by name.

    The disassembler takes half a second to start, so it is started once for each architecture.

    Raises
    ------
    CompileError
        If there is no disassembler, or it cannot read a cubin.
    """
    found: list[dict[str, MachineCode]] = [{} for _ in cubins]
    architectures = [architecture(c) for c in cubins]
    for arch in dict.fromkeys(architectures):
        owners: list[int] = []
        functions: list[tuple[str, int]] = []
        raw = bytearray()
        for k, cubin in enumerate(cubins):
            if architectures[k] == arch:
                for name, code in code_sections(cubin).items():
                    owners.append(k)
                    functions.append((name, len(code)))
                    # The machine code of all functions is laid end to end, and cut apart again by their sizes.
                    raw += code
        text = _run(f"--binary={arch.upper().replace('_', '')}", bytes(raw))
        for k, read in zip(owners, parse_raw(text, functions), strict=True):
            found[k][read.name] = read
    return found


def _run(option: str, data: bytes) -> str:
    command = find_disassembler()
    with tempfile.TemporaryDirectory(prefix="diffkern-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(data)
        done = subprocess.run(
            [*command, option, str(path)], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    if done.returncode:
        raise CompileError(
            f"{command[-1]} cannot read a cubin: {done.stderr.strip() or done.stdout.strip()}",
            remedy='update it with pip install -U "diffkern[cuda]"',
        )
    return done.stdout


@functools.cache
def find_disassembler() -> tuple[str, ...]:
    """Return the beginning of a command line that runs ``nvdisasm``.

    The wheel's is preferred to that of a toolkit in ``CUDA_HOME`` or ``CUDA_PATH``, and that to one on ``PATH``: it
    fits the compiler that comes from wheels too.

    Raises
    ------
    CompileError
        If there is none.
    """
    for place in _places():
        if place.is_file():
            if os.access(place, os.X_OK):
                return (str(place),)
            # Files of the wheel lack the permission to be executed; the loader can still run them.
            loader = _loader(place)
            if loader is not None:
                return (loader, str(place))
    raise CompileError(
        "the machine code of a GPU can only be read with NVIDIA's nvdisasm, and it is not installed",
        remedy='pip install "diffkern[cuda]", which brings nvidia-cuda-nvdisasm, or set CUDA_HOME to a CUDA toolkit',
    )


def _places() -> Iterator[Path]:
    yield from wheels.places(_NAME)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin", _NAME)
    on_path = shutil.which(_NAME)
    if on_path:
        yield Path(on_path)


def _loader(program: Path) -> str | None:
    """Return the dynamic loader an ELF program names: run by it, a file needs no permission to be executed."""
    head = program.read_bytes()[:4096]
    if head[:5] != b"\x7fELF\x02":
        return None
    (start,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for at in range(start, start + count * size, size):
        kind, _flags, offset, _address, _physical, length = struct.unpack_from("<IIQQQQ", head, at)
        if kind == _PT_INTERP:
            found = head[offset : offset + length].rstrip(b"\0").decode()
            return found if os.access(found, os.X_OK) else None
    return None
