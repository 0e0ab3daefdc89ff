"""Settings of the process: ``dk.config``.

Attributes set by the user and environment variables are checked; what a program sets takes precedence over the
environment. :data:`SETTINGS` is the documentation of each.
"""

from __future__ import annotations

import os
import textwrap
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from diffkern.contracts.options import Mode, checked
from diffkern.contracts.platforms import LLVM
from diffkern.process.tracebacks import frames_are_shown, show_frames, warn
from diffkern.runtime.native import perf_map, pool
from diffkern.runtime.native.output import output_room

if TYPE_CHECKING:
    from diffkern.runtime.observe.spans import Observer

__all__ = ["SETTINGS", "Config", "Setting", "config", "detect_anomaly"]


class _HoldsPrograms(Protocol):
    def forget_programs(self) -> None: ...


class Setting(NamedTuple):
    """The documentation of a setting.

    Attributes
    ----------
    type, default, doc
        Its type, its default value, and its meaning.
    environment, values
        The environment variable that sets it at the start, empty for none, and that variable's possible values.
    """

    type: str
    default: str
    doc: str
    environment: str = ""
    values: str = ""


_SWITCH = "anything but ``0`` for True"

SETTINGS: Final[Mapping[str, Setting]] = {
    "mode": Setting(
        "str", "``'release'``",
        "``'release'``; ``'debug'`` for programs that check indices, integer divisions and stores at run time; or "
        "``'finite'`` for programs that also check that no number becomes infinite or NaN. Kernels created with "
        "``mode=…`` keep their own mode.",
        "DIFFKERN_MODE", "one of the three",
    ),
    "deterministic": Setting(
        "bool", "False",
        "Whether results are bitwise identical from run to run, even where several threads add to one element; see the "
        "kernel option.",
        "DIFFKERN_DETERMINISTIC", _SWITCH,
    ),
    "enable_backward": Setting(
        "bool | Literal['always']", "True",
        "Whether kernels can be differentiated if neither the kernel nor its module sets this option. ``'always'`` "
        "counts more than both: kernels of a package that switches it off have gradients without a change of the "
        "package.",
        "DIFFKERN_ENABLE_BACKWARD", "``0`` for False, ``always``, anything else for True",
    ),
    "num_threads": Setting(
        "int", "the processors of this process", "Threads of a launch on the CPU, including the calling thread.",
        "DIFFKERN_NUM_THREADS", "a number",
    ),
    "cache_dir": Setting(
        "Path | None", "None: the platform's cache directory, as shown by ``diffkern cache info``",
        "Where compiled programs are stored.",
        "DIFFKERN_CACHE_DIR", "a directory",
    ),
    "cuda_compiler": Setting(
        "str", "``'llvm'``",
        "The compiler for GPU programs: ``'llvm'`` or ``'numba'``. Kernels created with ``compiler=…`` keep their own.",
        "DIFFKERN_CUDA_COMPILER", "one of the two",
    ),
    "enable_mathdx_gemm": Setting(
        "bool | None", "None",
        "Whether matrix products of tiles on a GPU use libmathdx: None uses it if it is installed and supports them, "
        "True raises an error otherwise, False uses loops. The options of a kernel and of its module take precedence.",
        "DIFFKERN_ENABLE_MATHDX_GEMM", "``0`` for False, anything else for True",
    ),
    "output_bytes": Setting(
        "int", "1048576",
        "Memory, in bytes, for what the threads of one launch print. Excess output is lost, and the launch reports it.",
    ),
    "verbose": Setting(
        "bool", "False", "Whether to print compilations to standard error.", "DIFFKERN_VERBOSE", _SWITCH,
    ),
    "quiet": Setting("bool", "True", "Whether nothing is printed; setting it to True ends ``verbose``."),
    "full_traceback": Setting(
        "bool", "False", "Whether tracebacks of diffkern's errors show diffkern's own frames.",
        "DIFFKERN_FULL_TRACEBACK", _SWITCH,
    ),
    "perf_map": Setting(
        "bool", "False",
        "Whether CPU machine code loaded from then on is listed in ``/tmp/perf-PID.map``, from which Linux ``perf`` "
        "reads the names of kernels.",
        "DIFFKERN_PERF_MAP", _SWITCH,
    ),
    "log_launches": Setting(
        "bool", "False",
        "Whether the :mod:`logging` logger ``diffkern.launches`` logs each launch with its time; this waits for each "
        "launch on a GPU.",
        "DIFFKERN_LOG_LAUNCHES", _SWITCH,
    ),
    "nvtx": Setting(
        "bool", "False",
        "Whether launches, reverse sweeps and compilations are ranges for NVIDIA's profilers; requires the package "
        "``nvtx``.",
        "DIFFKERN_NVTX", _SWITCH,
    ),
}  # fmt: skip
"""The settings by name."""


def _documented() -> str:
    def lines(name: str, s: Setting) -> str:
        start = f" {s.environment} sets it at the start." if s.environment else ""
        text = f"{s.doc} Default: {s.default}.{start}"
        return "\n".join(
            [f"{name} : {s.type}", *textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")]
        )

    parts = "\n".join(lines(name, setting) for name, setting in SETTINGS.items())
    return f"Settings of the process.\n\nAttributes\n----------\n{parts}\n"


class Config:
    __doc__ = _documented()

    __slots__ = (
        "_cache_dir",
        "_changes",
        "_cuda_compiler",
        "_deterministic",
        "_enable_backward",
        "_enable_mathdx_gemm",
        "_is_new",
        "_kernels",
        "_launch_log",
        "_mode",
        "_nvtx_ranges",
        "_output_bytes",
        "verbose",
    )

    def __init__(self) -> None:
        self._changes = 0  # of options that kernels read where they matter, of modules as well
        self.verbose = os.environ.get("DIFFKERN_VERBOSE", "").strip() not in ("", "0")
        wish = os.environ.get("DIFFKERN_ENABLE_BACKWARD", "").strip()
        self._enable_backward: bool | Literal["always"] = "always" if wish == "always" else wish != "0"
        self._deterministic = os.environ.get("DIFFKERN_DETERMINISTIC", "").strip() not in ("", "0")
        self._output_bytes = 1 << 20
        self._cache_dir: Path | None = None
        self._kernels: weakref.WeakSet[_HoldsPrograms] = weakref.WeakSet()
        self._mode: Mode = checked("mode", os.environ.get("DIFFKERN_MODE", "").strip() or "release")
        compiler = os.environ.get("DIFFKERN_CUDA_COMPILER", "").strip() or LLVM
        self._cuda_compiler: str = checked("compiler", compiler, called="cuda_compiler")
        wish = os.environ.get("DIFFKERN_ENABLE_MATHDX_GEMM", "").strip()
        self._enable_mathdx_gemm = None if not wish else wish != "0"
        self._launch_log: Observer | None = None
        self._nvtx_ranges: Observer | None = None
        self._is_new = True
        if os.environ.get("DIFFKERN_LOG_LAUNCHES", "").strip() not in ("", "0"):
            self.log_launches = True
        if os.environ.get("DIFFKERN_NVTX", "").strip() not in ("", "0"):
            try:
                self.nvtx = True
            except ImportError as error:
                warn(f"DIFFKERN_NVTX: {error}")
        self._is_new = False

    @property
    def quiet(self) -> bool:
        """True if nothing is printed."""
        return not self.verbose

    @quiet.setter
    def quiet(self, value: bool) -> None:
        if value:
            self.verbose = False

    @property
    def mode(self) -> Mode:
        """The programs that kernels run: ``"release"``, or with checks ``"debug"`` and ``"finite"``."""
        return self._mode

    @mode.setter
    def mode(self, value: Mode) -> None:
        if checked("mode", value) != self._mode:
            self._mode = value
            self.forget_programs()

    @property
    def deterministic(self) -> bool:
        """True if results are bitwise identical from run to run."""
        return self._deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        if checked("deterministic", value) is not self._deterministic:
            self._deterministic = value
            self.forget_programs()

    @property
    def enable_backward(self) -> bool | Literal["always"]:
        """The default of the option ``enable_backward`` of kernels; ``"always"`` overrides kernels that set it."""
        return self._enable_backward

    @enable_backward.setter
    def enable_backward(self, value: bool | Literal["always"]) -> None:
        if not isinstance(value, bool) and value != "always":
            raise ValueError(f"enable_backward is True, False or 'always', not {value!r}")
        self._enable_backward = value
        self._changes += 1

    @property
    def enable_mathdx_gemm(self) -> bool | None:
        """The use of libmathdx for matrix products of tiles on a GPU; None uses it where possible."""
        return self._enable_mathdx_gemm

    @enable_mathdx_gemm.setter
    def enable_mathdx_gemm(self, value: bool | None) -> None:
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"enable_mathdx_gemm is True, False or None, not {value!r}")
        if value is not self._enable_mathdx_gemm:
            self._enable_mathdx_gemm = value
            self.forget_programs()

    @property
    def output_bytes(self) -> int:
        """Bytes of memory for what the threads of one launch print."""
        return self._output_bytes

    @output_bytes.setter
    def output_bytes(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"output_bytes is a number of bytes, not {value!r}")
        output_room.resize(value)
        self._output_bytes = value

    @property
    def full_traceback(self) -> bool:
        """True if tracebacks of diffkern's errors show diffkern's own frames."""
        return frames_are_shown()

    @full_traceback.setter
    def full_traceback(self, value: bool) -> None:
        show_frames(bool(value))

    @property
    def perf_map(self) -> bool:
        """True if CPU machine code that is loaded is listed in a map for perf."""
        return perf_map.is_enabled()

    @perf_map.setter
    def perf_map(self, value: bool) -> None:
        perf_map.enable(bool(value))

    @property
    def log_launches(self) -> bool:
        """True if each launch is logged."""
        return self._launch_log is not None

    @log_launches.setter
    def log_launches(self, value: bool) -> None:
        if value and self._launch_log is None:
            from diffkern.runtime.observe.launch_log import LaunchLog

            self._launch_log = _started(LaunchLog(), self._is_new)
        elif not value and self._launch_log is not None:
            _stop(self._launch_log)
            self._launch_log = None

    @property
    def nvtx(self) -> bool:
        """True if there are ranges for NVIDIA's profilers."""
        return self._nvtx_ranges is not None

    @nvtx.setter
    def nvtx(self, value: bool) -> None:
        if value and self._nvtx_ranges is None:
            from diffkern.runtime.observe.launch_log import NvtxRanges

            self._nvtx_ranges = _started(NvtxRanges(), self._is_new)
        elif not value and self._nvtx_ranges is not None:
            _stop(self._nvtx_ranges)
            self._nvtx_ranges = None

    @property
    def cuda_compiler(self) -> str:
        """The compiler of programs for GPUs."""
        return self._cuda_compiler

    @cuda_compiler.setter
    def cuda_compiler(self, value: str) -> None:
        if checked("compiler", value, called="cuda_compiler") != self._cuda_compiler:
            self._cuda_compiler = value
            self.forget_programs()

    def watch(self, kernel: _HoldsPrograms) -> None:
        """Make a kernel forget its programs when a setting changes that selects them."""
        self._kernels.add(kernel)

    def forget_programs(self) -> None:
        """Make all kernels select their programs again."""
        # Kernels cache the program for their arguments. Dropping it here spares each launch a look at the settings.
        for kernel in tuple(self._kernels):
            kernel.forget_programs()

    @property
    def cache_dir(self) -> Path | None:
        """The directory of artifacts, if the program has set it."""
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, value: str | os.PathLike[str] | None) -> None:
        try:
            # Absolute, so that a change of the working directory does not change which directory it is.
            self._cache_dir = None if value is None else Path(value).expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"cache_dir: there is no home directory for {os.fspath(value or '')}") from error

    @property
    def num_threads(self) -> int:
        """Number of threads of a launch, including the calling one."""
        return pool.num_threads()

    @num_threads.setter
    def num_threads(self, value: int) -> None:
        pool.set_num_threads(value)

    def __repr__(self) -> str:
        shown = f"mode={self.mode!r} verbose={self.verbose} cache_dir={self._cache_dir} num_threads={self.num_threads}"
        return f"<dk.config {shown}>"


def _started(observer: Observer, at_import: bool) -> Observer:
    from diffkern.runtime.observe import spans

    spans.start(observer, at_import)
    return observer


def _stop(observer: Observer) -> None:
    from diffkern.runtime.observe import spans

    spans.stop(observer)


config = Config()


# -- detection of anomalies --------------------------------------------------------------------------------------------
# ``with dk.detect_anomaly():`` — kernels in the block say where a number first becomes infinite or NaN.


class detect_anomaly:
    """Check every number that kernels and their adjoints compute within a block, and raise where one is not finite.

    The :class:`NonFiniteError` names the kernel or its adjoint, the thread, the line and the variable. It reports the
    operation whose operands are finite, not those that its result has spoilt. The adjoints that a tape runs are
    checked if
    their forward launches were: put the recording into the block as well. Kernels with a ``mode`` of their own keep it.
    Checking programs are several times slower, and are compiled when they are first needed.
    """

    def __enter__(self) -> detect_anomaly:
        self._mode = config.mode
        config.mode = "finite"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        config.mode = self._mode
