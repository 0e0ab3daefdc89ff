"""A module that is loaded: its variables have places, and its functions are decoded as they are run."""

from __future__ import annotations

import numpy as np

from .faults import PtxFault
from .memory import Span
from .parse import Function, Instruction, Module, Variable, parse
from .races import Site
from .table import Step, step_of

__all__ = ["Image", "Program", "load_image"]

_ALIGNMENT = 16
_PARAMETER_BITS = 32


class Image:
    """A loaded module.

    Attributes
    ----------
    spans
        The memory of its constants and of its global variables, which stay as long as it does.
    shared_bytes
        Shared memory of a block, without what a launch asks for.
    sites
        The instructions so far that reach memory.
    """

    def __init__(self, module: Module) -> None:
        self.spans: list[Span] = []
        self.sites: list[Site] = []
        self._addresses: dict[str, int] = {}
        self.shared_bytes = 0
        for variable in module.variables:
            self._place(variable)
        self.shared_bytes = _aligned(self.shared_bytes, _ALIGNMENT)
        for variable in module.variables:
            if variable.size is None:  # the memory that a launch asks for
                self._addresses[variable.name] = self.shared_bytes
        self._programs = {name: Program(self, function) for name, function in module.functions.items()}

    def _place(self, variable: Variable) -> None:
        if variable.size is None:
            return
        if variable.space == "shared":
            offset = _aligned(self.shared_bytes, variable.align)
            self._addresses[variable.name] = offset
            self.shared_bytes = offset + variable.size
            return
        data = _aligned_bytes(variable.size)
        data[: len(variable.content)] = np.frombuffer(variable.content, np.uint8)
        self.spans.append(Span(data.ctypes.data, data, variable.space))
        self._addresses[variable.name] = data.ctypes.data

    def program(self, name: str) -> Program:
        """Return a function.

        Raises
        ------
        PtxFault
            If it is not defined here.
        """
        if name not in self._programs:
            raise PtxFault(f"the function {name} is not defined")
        return self._programs[name]

    def site(self, i: Instruction, function: str) -> int:
        """Return the number of an instruction that reaches memory."""
        self.sites.append(Site(function, i.text, i.line, i.source))
        return len(self.sites) - 1

    def address_of(self, name: str) -> int:
        """Return the address of a variable in its space."""
        if name not in self._addresses:
            raise PtxFault(f"the name {name} is not defined")
        return self._addresses[name]


class Program:
    """A function of a loaded module, whose instructions are decoded when they are first executed."""

    def __init__(self, image: Image, function: Function) -> None:
        self.image, self.function = image, function
        self._steps: list[Step | None] = [None] * len(function.code)
        self._local: dict[str, int] = {}
        self._parameters = [p.name for p in function.parameters]
        self.local_bytes = 0
        for variable in function.variables:
            assert variable.size is not None, variable
            offset = _aligned(self.local_bytes, variable.align)
            self._local[variable.name] = offset
            self.local_bytes = offset + variable.size

    def step(self, place: int) -> Step:
        """Return an instruction."""
        if place >= len(self._steps):
            raise PtxFault(f"{self.function.name} goes on behind its last instruction")
        found = self._steps[place]
        if found is None:
            instruction = self.function.code[place]
            try:
                found = self._steps[place] = step_of(instruction, self)
            except PtxFault as fault:
                raise PtxFault(f"{fault}: {instruction.text}") from None
        return found

    def address_of(self, name: str) -> int:
        """Return the address of a variable or a parameter in its space."""
        if name in self._parameters:
            return (1 + self._parameters.index(name)) << _PARAMETER_BITS
        return self._local[name] if name in self._local else self.image.address_of(name)

    def parameter_at(self, place: int) -> tuple[str, int]:
        """Return the parameter at an address, and the offset in it."""
        number, offset = divmod(place, 1 << _PARAMETER_BITS)
        if not 0 < number <= len(self._parameters):
            raise PtxFault(f"no parameter is at {place:#x}")
        return self._parameters[number - 1], offset


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _aligned_bytes(size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    data = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -data.ctypes.data % _ALIGNMENT
    return data[start : start + size]


def load_image(text: str) -> Image:
    """Parse and load a module."""
    return Image(parse(text))
