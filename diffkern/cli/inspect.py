"""``diffkern inspect``: print the program that diffkern makes of a kernel.

It prints Python source, intermediate representation, assembly, or counts of instructions on standard output, or raises
:class:`UsageError`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from diffkern.cli.files import UsageError
from diffkern.cli.kernels import add_kernel, kernel_and_types
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.compiled import Compiled, CompiledForGPU
from diffkern.contracts.platforms import NATIVE, platform_named
from diffkern.errors import KernelError
from diffkern.ir.nodes import Function, count_ops
from diffkern.ir.passes import PassOptions
from diffkern.ir.printer import to_text
from diffkern.ir.stages import Stage
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.shipping.ahead import compile_kernels, target_named

__all__ = ["add_inspect_command"]

_SHOWN_CLASSES = {
    "load": "global loads",
    "load128": "… of 128 bits",
    "load_constant": "… through the read-only path",
    "store": "global stores",
    "store128": "… of 128 bits",
    "atomic": "atomics",
    "shared": "shared memory",
    "shuffle": "shuffles",
    "barrier": "barriers",
    "special": "special functions",
    "float64": "float64",
    "tensor": "tensor cores",
    "local": "local memory",
    "branch": "branches",
    "call": "calls",
}


def add_inspect_command(commands: Any) -> None:
    """Add ``inspect`` to the commands of the parser."""
    text = "print the source generated for a kernel, its machine code, or the resources it uses"
    parser = commands.add_parser("inspect", help=text, description=text)
    add_kernel(parser)
    parser.add_argument("--adjoint", action="store_true", help="the adjoint instead of the forward program")
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help="compile for cpu, x86-64-v2, x86-64-v3, x86-64-v4, aarch64, or a GPU architecture such as sm_90",
    )
    what = parser.add_mutually_exclusive_group()
    for name, help_text in (
        ("source", "Python source (the default)"),
        ("ir", "the intermediate representation"),
        ("resources", "registers, memory and instruction counts (the default with --target)"),
        ("sass", "the machine code of a GPU program"),
        ("ptx", "the PTX of a GPU program"),
        ("asm", "the assembly of a CPU program"),
        ("passes", "the compiler's passes in order, with the stage and the number of operations after each"),
    ):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=help_text)
    what.add_argument("--after", metavar="PASS", help="the intermediate representation after one of --passes")
    parser.add_argument("--fast-math", action="store_true", help="let the compiler reassociate, and assume no NaN")
    parser.add_argument(
        "--may-alias",
        action="store_true",
        help="for a GPU: the program for launches whose arrays overlap, instead of the usual one",
    )
    parser.set_defaults(run=_inspect)


def _inspect(options: argparse.Namespace) -> None:
    kernel, types = kernel_and_types(options)
    # Who names a target asks for its machine code rather than for source.
    what = options.what or ("resources" if options.target else "source")
    if what == "passes" or options.after:
        print(_passes(kernel, types, options))
    elif what == "ir":
        print(kernel.ir(*types, adjoint=options.adjoint))
    elif what == "source":
        print(kernel.adjoint_source(*types) if options.adjoint else kernel.source(*types))
    else:
        print(_machine_code(kernel, types, what, options))


@dataclass
class _Watcher:
    """Record the passes of a kernel, and the function after one of them.

    Attributes
    ----------
    wanted
        The name of that pass.
    rows
        For each pass its name, and the stage and the number of operations after it.
    text
        The function after the wanted pass.
    """

    wanted: str | None
    rows: list[tuple[str, str, int]] = field(default_factory=list)
    text: str | None = None

    def __call__(self, name: str, stage: Stage, fn: Function) -> None:
        # A pass may run several times; later runs are numbered, so that --after can name each.
        times = sum(known.partition(":")[0] == name for known, _, _ in self.rows) + 1
        label = name if times == 1 else f"{name}:{times}"
        self.rows.append((label, stage.name, count_ops(fn.body)))
        if label == self.wanted:
            self.text = to_text(fn)


def _passes(kernel: Kernel, types: Sequence[object], options: argparse.Namespace) -> str:
    """Return the list of the passes that a kernel goes through, or the function after one of them."""
    known = kernel.argument_types(*types)
    target = NATIVE if options.target in (None, "cpu", NATIVE) else target_named(options.target)
    variant = replace(
        kernel.variant,
        target=target,
        active=kernel.positions([p.name for p in kernel.parameters], known) if options.adjoint else None,
        block_dim=kernel.block_dim if platform_named(target).counts_threads else None,
        may_alias=options.may_alias,
    )
    seen = _Watcher(options.after)
    try:
        Compilation(kernel.func, known, variant, context=PassOptions(variant.is_debug, seen)).lowered()
    except KernelError:
        # With the wanted text at hand an error in a later pass doesn't matter: it may be the reason for looking.
        if seen.text is None:
            raise
    if options.after is None:
        return "\n".join(f"{name:20}{stage:10}{count:6} operations" for name, stage, count in seen.rows)
    if seen.text is None:
        names = ", ".join(name for name, _, _ in seen.rows)
        raise UsageError(f"{kernel.key} goes through no pass {options.after!r}; those it goes through are {names}")
    return seen.text


def _machine_code(kernel: Kernel, types: Sequence[object], what: str, options: argparse.Namespace) -> str:
    # Only GPUs have these texts, so the target need not be named.
    default = "sm_90" if what in ("sass", "ptx") else "cpu"
    more = {name: True for name in ("fast_math", "may_alias") if getattr(options, name)}
    made = compile_kernels(
        kernel, types or None, target=options.target or default, adjoint=options.adjoint, active=None, **more
    )
    if what == "resources":
        return _resources(made)
    try:
        text: str = getattr(made, what)
    except AttributeError as error:
        raise UsageError(f"{error}; --sass and --ptx are for GPUs, --asm is for CPUs") from error
    return text


def _resources(made: Compiled) -> str:
    rows: list[tuple[str, object]] = [("target", made.target), ("compiled in", f"{made.compile_seconds:.2f} s")]
    rows.append(("registers", made.registers))
    if isinstance(made, CompiledForGPU):
        # The assumption on which the numbers depend.
        rows.insert(1, ("arrays", "may overlap" if made.may_alias else "do not overlap"))
        rows.append(("local memory", f"{made.stack_bytes} bytes a thread"))
        rows.append(("shared memory", f"{made.shared_bytes} bytes a block"))
    rows.append(("spilled", f"{made.spill_bytes} bytes"))
    rows.append(("instructions", sum(made.instructions.values())))
    if isinstance(made, CompiledForGPU):
        code = made.code
        rows += [(f"  {text}", code.count(name)) for name, text in _SHOWN_CLASSES.items() if code.count(name)]
        # The outermost loop runs over the threads of a launch that is larger than the grid.
        rows += [(f"  loop at {loop.start:#06x}", f"{loop.size} instructions") for loop in code.loops]
    return "\n".join(f"{name:32}{value}" for name, value in rows)
