"""``dk.launch``: the one call by which a kernel, or its adjoint, runs or is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from diffkern.contracts.extents import several, whole_number
from diffkern.errors import KernelError, LaunchError
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import PASSED, brief, fail_launch, shorten
from diffkern.runtime.launch.kernel_protocol import KernelProtocol, check_kernel, refusal
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.schedule import OF_THREADS, Blocks
from diffkern.runtime.memory.device import get_device

if TYPE_CHECKING:
    from diffkern.runtime.records.record import Launch

__all__ = ["launch", "launch_tiled"]

# Defaults that are recognized by identity, which is quick; other values that mean the same are as good.
_NONE: tuple[Any, ...] = ()
_UNLIMITED = 0


def launch(
    kernel: KernelProtocol,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = _NONE,
    adj_outputs: Sequence[Any] = _NONE,
    device: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    block_dim: int | None = None,
    stream: Any = None,
    max_blocks: int = _UNLIMITED,
    record_cmd: bool = False,
) -> Launch | Any:
    """Run a kernel, or its adjoint, once for every index of a grid.

    Parameters
    ----------
    kernel : Kernel
        The kernel to run.
    dim : int or sequence of int
        Number of threads along one to four axes; 0 runs nothing, after all checks. A kernel of tiles in which threads
        hold nothing of their own counts blocks, with :func:`launch_tiled`.
    inputs, outputs : sequence
        The arguments, in the order of the kernel's parameters: those in `inputs`, then those in `outputs`. Arrays are
        diffkern's or NumPy's, used in place.
    adj_inputs, adj_outputs : sequence, optional
        With ``adjoint=True``: for each argument the array of its gradient (of one element for a number or vector), or
        None for the argument's own ``grad``. An argument without either is not differentiated for. Gradients of outputs
        are read, and set to zero where the kernel overwrites; those of inputs are added to.
    device : str or Device, optional
        The device to run on; by default that of the arrays, which is the only one that may be named. Without arrays the
        current device.
    adjoint : bool, optional
        Whether to run the adjoint instead, after the kernel itself has run on the same arguments.
    record_tape : bool, optional
        Whether a tape that records takes this launch.
    stream : Stream, optional
        The stream to run on; the current stream by default.
    block_dim : int, optional
        Threads in a block, up to 1024; by default the kernel's own option, or else 256. On the CPU it counts
        only for kernels whose threads work together (``dk.shared_array``, ``dk.syncthreads``, …). These are launched in
        whole blocks.
    max_blocks : int, optional
        Largest number of blocks of a GPU, each with several rounds if need be; 0 for any number.
    record_cmd : bool, optional
        Whether to return a record of the launch, to be launched any number of times, instead of running it.

    Returns
    -------
    dk.Launch or None
        The record, if one was asked for.

    Raises
    ------
    LaunchError
        If an argument does not fit its parameter, or gradients and arguments do not fit together. Nothing has run.
    """
    try:
        # The path of every launch: the usual types of arguments are recognized without a call, and all else is checked
        # where it is needed.
        if type(inputs) is list and type(outputs) is list:
            args = inputs + outputs
        else:
            _check_lists(kernel, inputs, outputs)
            args = [*inputs, *outputs]
        given = adj_inputs is not _NONE or adj_outputs is not _NONE
        if given and not (type(adj_inputs) is list and type(adj_outputs) is list):
            _check_lists(kernel, adj_inputs, adj_outputs, "adj_inputs", "adj_outputs")
        if adjoint or record_cmd:
            if stream is None and device is None and block_dim is None and max_blocks is _UNLIMITED:
                place, blocks = None, OF_THREADS
            else:
                check_kernel(kernel)
                place = None if device is None else get_device(device)
                blocks = _blocks(block_dim, max_blocks)
            # Most processes neither record nor launch an adjoint, and so need none of this.
            from diffkern.runtime.records.other_launches import launch_or_record

            return launch_or_record(
                kernel, dim, args, len(inputs), adj_inputs, adj_outputs, adjoint, record_cmd, record_tape, stream,
                place, blocks,
            )  # fmt: skip
        if given and (adj_inputs or adj_outputs):
            raise LaunchError(
                f"kernel {kernel.name!r}: adj_inputs and adj_outputs are for the adjoint",
                remedy="add adjoint=True, or leave them out",
            )
        place = None
        if device is not None:
            check_kernel(kernel)
            place = get_device(device)
        if stream is None and block_dim is None and max_blocks is _UNLIMITED:
            run(kernel, dim, args, record_tape, place, usual=OF_THREADS)
        else:
            check_kernel(kernel)
            run(kernel, dim, args, record_tape, place, _blocks(block_dim, max_blocks), stream)
        return None
    except KernelError as error:
        shorten(error)
        raise
    # A lack of memory, and warnings that the user turned into errors, are not about the launch.
    except PASSED:
        raise
    # Anything may have failed because the first argument is no kernel. That is only examined now, so that it costs
    # nothing when all is well.
    except Exception as error:
        try:
            _fail(kernel, error)
        except KernelError as made:
            shorten(made)
            raise


@brief
def launch_tiled(
    kernel: KernelProtocol,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    block_dim: int | None = None,
    **options: Any,
) -> Launch | Any:
    """Run a kernel of tiles once for every index of a grid of blocks, each of `block_dim` threads.

    The kernel asks for its block with ``dk.tid()``, which gives as many indices as `dim` has, or one more: the thread
    in its block. On the CPU a block is one thread, whatever `block_dim` says. On a GPU it is one thread to the kernel
    as well, with index 0, unless the kernel makes tiles of what threads hold (``dk.tile``, ``dk.tile_scatter_add``, …).

    Parameters
    ----------
    kernel : Kernel
        The kernel to run.
    dim : int or sequence of int
        Number of blocks along one to three axes.
    inputs, outputs : sequence
        The arguments, as in :func:`launch`.
    block_dim : int, optional
        Threads in a block, as in :func:`launch`.
    **options
        Other options of :func:`launch`.

    Returns
    -------
    dk.Launch or None
        As :func:`launch`.
    """
    if block_dim is not None and not 1 <= (whole_number(block_dim) or 0) <= 1024:
        raise LaunchError(
            f"kernel {kernel.name!r}: block_dim is 1 to 1024 threads, not {block_dim!r}", remedy="leave it out for 256"
        )
    dim = several(dim)
    # The thread in its block is one more axis of the grid.
    if isinstance(dim, tuple) and len(dim) > 3:
        raise LaunchError(
            f"kernel {kernel.name!r}: a grid of blocks has at most 3 axes, not {len(dim)}",
            remedy="join two axes: pass their product, and split the index with // and %",
        )
    return launch(kernel, dim, inputs, outputs, block_dim=_Tiled(block_dim), **options)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Tiled:
    """The block_dim of a launch that counts blocks."""

    block_dim: int | None


def _fail(kernel: Any, error: Exception) -> NoReturn:
    """Raise the error that the user should see, which may be that there is no kernel."""
    refused = refusal(kernel)
    if refused is not None:
        raise refused from None
    fail_launch(kernel, error)


def _check_lists(
    kernel: KernelProtocol, inputs: Any, outputs: Any, first: str = "inputs", second: str = "outputs"
) -> None:
    for name, value in ((first, inputs), (second, outputs)):
        if type(value) is tuple or type(value) is list:
            continue
        # An array could be unpacked like a list, which is never what was meant.
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise LaunchError(
                f"kernel {kernel.name!r}: {name} is a list of arguments, not {type(value).__name__}",
                remedy=f"write {name}=[…], also for one argument",
            )


def _blocks(block_dim: Any, max_blocks: Any) -> Blocks:
    """Return the block options of a launch."""
    tiled = isinstance(block_dim, _Tiled)
    block_dim = block_dim.block_dim if tiled else block_dim
    threads, most = None if block_dim is None else whole_number(block_dim), whole_number(max_blocks)
    if (threads is None and block_dim is not None) or most is None:
        raise LaunchError(
            f"block_dim and max_blocks are integers, not {block_dim!r} and {max_blocks!r}", remedy="leave them out"
        )
    if threads is not None and threads < 1:
        raise LaunchError(f"block_dim is a number from 1 to 1024, not {block_dim}", remedy="leave it out for 256")
    return Blocks(threads, most if most > 0 else None, tiled, not tiled)
