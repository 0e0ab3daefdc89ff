"""The fake driver's functions with the signatures of CUDA's, for the run time's native code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

from diffkern.errors import CudaError
from diffkern.runtime.cuda.driver import Driver, failure
from diffkern.runtime.native.device import EntryPoints

from .base import ERRORS, text_of

__all__ = ["FakeEntries"]

_WORD, _INT = ctypes.c_uint64, ctypes.c_uint32
_OTHER = 999  # what an exception that is no error of a driver comes back as


class FakeEntries:
    """Addresses of functions in C that call those of the driver in Python.

    Attributes
    ----------
    entries : EntryPoints or None
        The addresses, None if native code is not to call it.
    """

    def __init__(self, native: bool) -> None:
        self._raised: list[BaseException] = []
        self._callbacks = [
            self._callback(self._current_to, _WORD),
            self._callback(self._driver.set_context, _WORD),
            self._callback(self._launch_extra, _WORD, *[_INT] * 7, _WORD, _WORD, _WORD),
            *[self._callback(self._filler(width), _WORD, _INT, _WORD, _WORD) for width in (1, 2, 4)],
            self._callback(self._driver.copy, *[_WORD] * 4),
            self._callback(self._driver.graph_launch, _WORD, _WORD),
        ]
        addresses = [ctypes.cast(callback, ctypes.c_void_p).value for callback in self._callbacks]
        self.entries: EntryPoints | None = EntryPoints(*cast("list[int]", addresses)) if native else None

    def error(self, call: str, code: int) -> CudaError:
        if code == _OTHER:
            raise self._raised.pop()
        return failure(call, code, ERRORS.get(code, "CUDA_ERROR"), text_of(code))

    @property
    def _driver(self) -> Driver:
        return cast("Driver", self)

    def _callback(self, function: Callable[..., None], *arguments: Any) -> Any:
        def called(*given: int) -> int:
            try:
                function(*given)
            except CudaError as error:
                return error.code
            except BaseException as error:
                self._raised.append(error)
                return _OTHER
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(called)

    def _current_to(self, place: int) -> None:
        _WORD.from_address(place).value = self._driver.current_context()

    def _filler(self, width: int) -> Callable[[int, int, int, int], None]:
        def fill(goal: int, value: int, count: int, stream: int) -> None:
            self._driver.fill(goal, value.to_bytes(4, "little")[:width], count, stream)

        return fill

    def _launch_extra(self, function: int, *given: int) -> None:
        (blocks, *ones), (threads, *others) = given[:3], given[3:6]
        shared, stream, parameters, extra = given[6:]
        words = (_WORD * 6).from_address(extra)
        assert (*ones, *others, parameters) == (1, 1, 1, 1, 0)
        assert (words[0], words[2], words[4]) == (1, 2, 0)
        block = ctypes.string_at(words[1], _WORD.from_address(words[3]).value)
        self._driver.launch(function, blocks, threads, shared, stream, block)
