"""A program as an object to look at: machine code, assembly, and its use of the machine's resources.

A :class:`Compiled` is made of a specialization and a target, one class for CPUs and one for GPUs. Neither a GPU nor a
driver is needed. What costs time (assembly, disassembly) is done when it is asked for.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from diffkern.cache.manifest import StoredArtifact
from diffkern.compiler.specialize import Specialization, load_entry
from diffkern.contracts.platforms import NATIVE, Architecture, Platform, Processor, platform_named
from diffkern.process.forks import cached_property

if TYPE_CHECKING:
    from diffkern.targets.cuda.sass import MachineCode

__all__ = ["Compiled", "CompiledForCPU", "CompiledForGPU", "compile_for"]

_LABEL_OR_DIRECTIVE = re.compile(r"[^\s:]+:|\.|#|;|//|@")
_SPILL = re.compile(r"\b(\d+)-byte (?:Folded )?Spill\b")
_COMMENT = re.compile(r"\s(?:#|//|;) .*")
_VECTOR_REGISTER = re.compile(r"%[xyz]mm(\d+)|\b[vqds](\d+)\b")


class Compiled(ABC):
    """A compiled program: one kernel, in one direction, for one target. Made by ``dk.compile(kernel, target=…)``.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    target : str
        The target that it was compiled for.
    adjoint : bool
        Whether it is the adjoint.
    symbol : str
        The name of the function in the machine code.
    object_code : bytes
        The machine code as a file: a relocatable object, or a cubin.
    source : str
        The readable Python form.
    manifest : Manifest
        The program's manifest for the run time: parameters, arrays read and written, conflicts.
    compile_seconds : float
        The time that making it took; next to nothing if it was in the cache.
    """

    def __init__(self, specialization: Specialization, target: str, entry: StoredArtifact, seconds: float) -> None:
        self.kernel = specialization.pyfunc.__name__
        self.target = "cpu" if target == NATIVE else target
        self.adjoint = specialization.variant.active is not None
        self.symbol = entry.symbols[0]
        self.object_code = entry.object_code
        self.source = entry.source
        self.manifest = entry.manifest
        self.compile_seconds = seconds
        self._specialization = specialization
        self._entry = entry

    def __repr__(self) -> str:
        direction = "adjoint" if self.adjoint else "forward"
        return f"<{type(self).__name__} {direction} of {self.kernel} for {self.target}>"

    @property
    @abstractmethod
    def registers(self) -> int:
        """Registers that a thread takes; on a CPU, the number of different vector registers that the code names."""

    @property
    @abstractmethod
    def spill_bytes(self) -> int:
        """Bytes of values that did not fit into registers."""

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block; none on a CPU."""
        return 0

    @property
    @abstractmethod
    def instructions(self) -> dict[str, int]:
        """The number of instructions of each mnemonic, the most frequent first."""

    @property
    def cubin(self) -> bytes:
        """The machine code of a GPU program."""
        self._refuse("cubin")

    @property
    def ptx(self) -> str:
        """The PTX of a GPU program."""
        self._refuse("ptx")

    @property
    def sass(self) -> str:
        """The disassembly of a GPU program."""
        self._refuse("sass")

    @property
    def asm(self) -> str:
        """The assembly of a CPU program."""
        self._refuse("asm")

    def _refuse(self, what: str) -> NoReturn:
        raise AttributeError(f"a program for {self.target} has no {what}")


class CompiledForCPU(Compiled):
    """A compiled program for a CPU."""

    @cached_property
    def asm(self) -> str:
        """The assembly; the program is compiled once more for it."""
        target = NATIVE if self.target == "cpu" else self.target
        program = self._specialization.compilation(target).build(self.symbol, assembly=True)
        return program.files["kernel.s"].decode()

    @property
    def registers(self) -> int:
        """The number of different vector registers that the code names."""
        # Registers of one number have several names, by width: each number counts once.
        found = (a or b for line in self._lines for a, b in _VECTOR_REGISTER.findall(line))
        return len(set(found))

    @property
    def spill_bytes(self) -> int:
        """Bytes that instructions store because registers ran out, over the whole code: LLVM marks them."""
        # LLVM marks spills in comments of the assembly; machine code does not tell them from other stores.
        return sum(map(int, _SPILL.findall(self.asm)))

    @cached_property
    def instructions(self) -> dict[str, int]:
        """The number of instructions of each mnemonic, the most frequent first."""
        return dict(Counter(line.split(None, 1)[0] for line in self._lines).most_common())

    @property
    def _lines(self) -> list[str]:
        """The instructions, without labels, directives and comments."""
        lines = (line.strip() for line in self.asm.splitlines())
        # What is left begins with a mnemonic.
        return [_COMMENT.sub("", line) for line in lines if not _LABEL_OR_DIRECTIVE.match(line or "#")]


class CompiledForGPU(Compiled):
    """A compiled program for a GPU architecture."""

    @property
    def cubin(self) -> bytes:
        """The machine code, an ELF file."""
        return self.object_code

    @property
    def ptx(self) -> str:
        """The PTX that the machine code was made from."""
        return self._entry.more["kernel.ptx"].decode()

    @cached_property
    def sass(self) -> str:
        """The disassembly, by NVIDIA's nvdisasm."""
        from diffkern.targets.cuda.disassembler import disassemble

        return disassemble(self.object_code)

    @cached_property
    def code(self) -> MachineCode:
        """The instructions, their classes and the loops, to count; functions that the kernel calls stand behind it."""
        # Imported here: the disassembler's tables are of no use to programs that do not look at code.
        from diffkern.targets.cuda.sass import join, parse

        return join(self.symbol, parse(self.sass))

    @property
    def instructions(self) -> dict[str, int]:
        """The number of instructions of each mnemonic with its modifiers, the most frequent first."""
        return self.code.mnemonics

    @property
    def may_alias(self) -> bool:
        """True if it is for launches in which an array that is written overlaps another one, and not for the others."""
        return self._specialization.variant.may_alias

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self.manifest.resources.registers

    @property
    def stack_bytes(self) -> int:
        """Local memory of a thread: arrays indexed at run time, states of loops, spilled registers."""
        return self.manifest.resources.stack_bytes

    @property
    def spill_bytes(self) -> int:
        """Local memory of a thread beyond what the program declares."""
        return self.manifest.resources.spill_bytes

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block."""
        return self.manifest.resources.shared_bytes


_KINDS: dict[type[Platform], type[Compiled]] = {Processor: CompiledForCPU, Architecture: CompiledForGPU}


def compile_for(specialization: Specialization, target: str) -> Compiled:
    """Return a specialization's program for a target, from the cache or compiled.

    Raises
    ------
    KernelError
        If it cannot be compiled or differentiated, or the compilers for the target are not installed.
    """
    started = time.perf_counter()
    entry = load_entry(specialization, target)
    seconds = time.perf_counter() - started
    return _KINDS[type(platform_named(target))](specialization, target, entry, seconds)
