"""Export of a kernel as a Python module that needs numba-cuda and NumPy, and nothing of diffkern.

For a kernel and a choice of its programs, the module has the primitives that the programs call, the programs as
``kernel.source(target="cuda")`` prints them, a function that launches them, and a main program with made-up arguments.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffkern.ad.adjoint import Derivative
from diffkern.analysis.blocks import SHARED_BYTES
from diffkern.analysis.cuda_plan import cuda_plan, dynamic_shared_bytes
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.platforms import FAMILIES
from diffkern.errors import AutodiffError, CompileError
from diffkern.ir.nodes import Function, Value, walk
from diffkern.ir.ops.memory import ELEMENT_WRITES
from diffkern.ir.types import BFLOAT16, BOOL, FLOAT32, STORAGE_ONLY, Array, Scalar, Type, scalar_of, value_type
from diffkern.ir.views import Access
from diffkern.kernels.kernel import Kernel
from diffkern.printing.cuda_memory import as_tuple, size_of
from diffkern.printing.layout import Names
from diffkern.printing.standalone import CopiedSource, copied
from diffkern.process.dataclass import dataclass

__all__ = ["export"]

_EXTENT = 8
"""Along each axis of the arrays of the main program."""

_TAKEN = frozenset({"cuda", "launch", "math", "np"})
_LAUNCH = '''\
def launch(kernel, dim, *arguments, block_dim={threads}):
    """Run a kernel for each index below ``dim``, a tuple; arrays lie on the device."""
    {blocks}
    kernel[blocks, block_dim]((*dim, 1, 1, 1)[:4], *arguments)'''
_SEEDS = "# The gradient of the sum of all results: the cotangents of results begin as 1, all others as 0."


@dataclass(frozen=True)
class _Printed:
    """A program as it is printed.

    Attributes
    ----------
    fn : Function
        The function that was printed, as it is emitted.
    library : str
        The module from which the text imports primitives.
    primitives : tuple of str
        Those that it imports.
    functions : dict of str to str
        The text of each function that it defines; the last is the kernel.
    parameters : tuple of str
        The kernel's parameters, without the extents of a launch.
    """

    fn: Function
    library: str
    primitives: tuple[str, ...]
    functions: dict[str, str]
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return list(self.functions)[-1]


def export(kernel: Kernel, *types: Any, adjoint: bool = False, active: Sequence[str] | None = None) -> str:
    """Return a module with a kernel, and its adjoint, that needs nothing of diffkern.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    *types
        As for :meth:`Kernel.source`.
    adjoint : bool, optional
        Whether the adjoint is in it too.
    active : sequence of str, optional
        Names of the parameters to differentiate for; all that can be by default.

    Returns
    -------
    str
        The text of the module.

    Raises
    ------
    CompileError
        If the module would define a name twice, or a program takes more shared memory than numba-cuda can ask for.
    """
    known = kernel.argument_types(*types)
    # Printed in numba-cuda's form whatever the kernel's own target is.
    target = next(f.printed for f in FAMILIES if f.name == "cuda")
    variant = replace(kernel.variant, target=target, block_dim=kernel.block_dim)
    forward = Compilation(kernel.func, known, variant)
    programs = [_printed(forward)]
    derivative = None
    if adjoint:
        chosen = kernel.positions([p.name for p in kernel.parameters] if active is None else active, known)
        backward = Compilation(kernel.func, known, replace(variant, active=chosen))
        programs.append(_printed(backward))
        derivative = backward.adjoint
        # A module has no place for a log, which the forward would have to write.
        if backward.log is not None:
            raise AutodiffError(
                f"the adjoint of {kernel.name!r} needs {backward.log.what} in the forward launch, which the exported "
                "forward does not keep",
                loc=backward.log.loc,
                remedy="differentiate the kernel under a dk.Tape, or export it without its adjoint",
            )
        if backward.adjoint.adjoint.races:
            raise AutodiffError(
                f"whether the adjoint of {kernel.name!r} is right depends on the numbers of the launch, which an "
                "exported module does not check",
                loc=backward.adjoint.adjoint.races[0].load.loc,
                remedy="differentiate the kernel under a dk.Tape, or export it without its adjoint",
            )
    return _module(kernel, programs, derivative)


def _printed(compilation: Compilation) -> _Printed:
    text, low = compilation.source(), compilation.lowered()
    tree, lines = ast.parse(text), text.splitlines()
    # numba-cuda has no option for more shared memory than a block has by default.
    taken = dynamic_shared_bytes(low, cuda_plan(low)) or sum(map(_bytes, ast.walk(tree)))
    if taken > SHARED_BYTES:
        raise CompileError(
            f"kernel {low.name!r} takes {taken} bytes of shared memory; {SHARED_BYTES} is what a block of a numba-cuda "
            "kernel has",
            loc=low.loc,
            remedy="use smaller tiles or shared arrays, or launch it with diffkern, which asks for more",
        )
    imports: list[ast.ImportFrom] = []
    functions: dict[str, str] = {}
    parameters: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "numba":
            imports.append(node)
        elif isinstance(node, ast.FunctionDef):
            # The text of a function begins with its decorators.
            first = min(d.lineno for d in node.decorator_list)
            functions[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
            parameters = [a.arg for a in node.args.args]
    library = imports[0].module if imports and imports[0].module else ""
    primitives = tuple(alias.name for node in imports for alias in node.names)
    return _Printed(low, library, primitives, functions, tuple(parameters[1:]))


def _bytes(node: ast.AST) -> int:
    """Return the size of a shared array, for the expression that makes it; 0 for any other node."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="shared"), attr="array"), args=[shape, ast.Name(id=t)]
        ):
            extents = ast.literal_eval(shape)
            return math.prod(extents if isinstance(extents, tuple) else (extents,)) * np.dtype(t.rstrip("_")).itemsize
        case _:
            return 0


# -- the module --------------------------------------------------------------------------------------------------------


def _module(kernel: Kernel, programs: Sequence[_Printed], derivative: Derivative | None) -> str:
    library = next((program.library for program in programs if program.library), None)
    wanted = {name for program in programs for name in program.primitives}
    # The primitives' own sources are copied, as far as the programs need them.
    primitives = copied(library, wanted) if library else CopiedSource((), (), frozenset())
    functions = {name: text for program in programs for name, text in program.functions.items()}
    # A kernel may have the name of a primitive or of an import, which its definition would hide.
    for program in programs:
        if program.name in primitives.names | _TAKEN:
            raise CompileError(
                f"the module of kernel {program.name!r} needs that name for something else",
                loc=program.fn.loc,
                remedy="give the kernel another name",
            )
    lines = {"import math", "import numpy as np", "from numba import cuda", *primitives.imports}
    own = sorted(line for line in lines if not line.startswith("from numba") and "numpy" not in line)
    others = sorted((line for line in lines if line not in own), key=lambda line: ("numpy" not in line, line))
    head = "\n".join([f'"""{_headline(kernel, programs)}"""', "", *own, "", *others])
    end = [_launch(kernel, programs[0].fn), _main(programs, derivative, primitives.names | _TAKEN | functions.keys())]
    return "\n\n\n".join([head, *primitives.definitions, *functions.values(), *end]) + "\n"


def _headline(kernel: Kernel, programs: Sequence[_Printed]) -> str:
    code = kernel.func.__code__
    where = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    names = " and ".join(program.name for program in programs)
    return (
        f"{names}, of {where}, as numba-cuda, generated by diffkern.\n\n"
        "What is needed is numba-cuda and NumPy. NUMBA_ENABLE_CUDASIM=1 runs it in numba's CUDA simulator.\n"
    )


def _launch(kernel: Kernel, fn: Function) -> str:
    # Blocks that work on tiles have one index each.
    blocks = "math.prod(dim)" if fn.tiled else "-(-math.prod(dim) // block_dim)"
    return _LAUNCH.format(threads=fn.threads or kernel.block_dim, blocks=f"blocks = {blocks}")


# -- the main program --------------------------------------------------------------------------------------------------


def _main(programs: Sequence[_Printed], derivative: Derivative | None, taken: Set[str]) -> str:
    forward, backward = programs[0], programs[-1]
    names = Names(taken | {"print"})
    own = {name: names.fresh(name) for name in dict.fromkeys((*forward.parameters, *backward.parameters))}
    made = _Arguments(names.fresh("n"), names.fresh("random"))
    axes = [made.extent] * max(forward.fn.tid_arity, 1)

    def launched(program: _Printed) -> str:
        return f"launch({program.name}, {as_tuple(axes)}, {', '.join(own[name] for name in program.parameters)})"

    def shown(wanted: Sequence[str]) -> list[str]:
        return [f'print("{name}", {own[name]}.copy_to_host(), sep="\\n")' for name in wanted]

    types = dict(zip(forward.parameters, (p.type for p in forward.fn.params), strict=True))
    written = _written(forward)
    lines = ["# These arguments are made up: put your own here.", f"{made.extent} = {_EXTENT}"]
    lines += [f"{made.random} = np.random.default_rng(0)"]
    lines += [f"{own[name]} = {made.of(t)}" for name, t in types.items()]
    if derivative is None:
        return _indented([*lines, launched(forward), *shown(written)])
    rest = backward.parameters[len(types) :]
    saved, cotangents = rest[: len(derivative.saved)], rest[len(derivative.saved) :]
    if saved:
        lines.append("# The adjoint takes these as they were before the forward, all others as they are after it.")
    for name, k in zip(saved, derivative.saved, strict=True):
        lines.append(f"{own[name]} = cuda.to_device({own[forward.parameters[k]]}.copy_to_host())")
    lines += [launched(forward), _SEEDS]
    of = dict(zip(cotangents, (forward.parameters[k] for k in derivative.cotangents), strict=True))
    for name, primal in of.items():
        value = made.filled("ones" if primal in written else "zeros", types[primal])
        lines.append(f"{own[name]} = cuda.to_device({value})")
    # Shown are the gradients of inputs, if there are any: the cotangents of results have been consumed.
    inputs = [name for name, primal in of.items() if primal not in written]
    return _indented([*lines, launched(backward), *shown(inputs or cotangents)])


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(['if __name__ == "__main__":', *(f"    {line}" for line in lines)])


def _written(program: _Printed) -> list[str]:
    """Return the parameters whose elements the program changes."""
    changed: set[Value] = {Access(op).array for op in walk(program.fn.body) if op.name in ELEMENT_WRITES}
    return [name for name, p in zip(program.parameters, program.fn.params, strict=True) if p in changed]


@dataclass(frozen=True)
class _Arguments:
    """The expressions of made-up arguments.

    Attributes
    ----------
    extent, random
        The variables that hold the extent of each axis, and the generator of random numbers.
    """

    extent: str
    random: str

    def of(self, t: Type) -> str:
        """Return the expression of an argument of a type."""
        s = _scalar(t)
        if isinstance(t, Array):
            if s.is_float and s not in STORAGE_ONLY:
                return f"cuda.to_device({self.random}.random({self.shape(t)}, {_dtype(s)}))"
            return f"cuda.to_device({self.filled('zeros', t)})"
        number = "0.5" if s.is_float else "True" if s == BOOL else self.extent
        value = f"{_dtype(FLOAT32 if s in STORAGE_ONLY else s)}({number})"
        return value if isinstance(t, Scalar) else as_tuple([value] * size_of(t))

    def filled(self, value: str, t: Type) -> str:
        """Return the expression of an array of zeros or ones; for a number by value it has one element."""
        s = _scalar(t)
        # Elements of bfloat16 are stored as their bits: 0x3F80 is 1.0.
        if s == BFLOAT16 and value == "ones":
            return f"np.full({self.shape(t)}, 0x3F80, np.uint16)"
        return f"np.{value}({self.shape(t)}, {_dtype(s)})"

    def shape(self, t: Type) -> str:
        """Return the shape of an array of a type, or of one with one element."""
        axes = [self.extent] * t.ndim if isinstance(t, Array) else ["1"]
        element = t.dtype if isinstance(t, Array) else t
        axes += [] if isinstance(element, Scalar) else [str(size_of(element))]
        return axes[0] if len(axes) == 1 else as_tuple(axes)


def _scalar(t: Type) -> Scalar:
    return scalar_of(t if isinstance(t, Array) else value_type(t))  # type: ignore[arg-type]


def _dtype(s: Scalar) -> str:
    return f"np.{'bool_' if s == BOOL else 'uint16' if s == BFLOAT16 else s.name}"
