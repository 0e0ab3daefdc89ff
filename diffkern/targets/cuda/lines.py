"""Source lines for profilers: debug metadata that leads to line tables alone.

For the module, the kernel's function and its position in the source, :class:`Lines` gives the node that an instruction
made for a source position carries. PTX gets ``.loc`` directives, and the cubin a line table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llvmlite import ir

from diffkern.errors import Loc


class Lines:
    """The positions of a kernel's instructions."""

    def __init__(self, module: ir.Module, function: Any, loc: Loc) -> None:
        self._module = module
        self._main = self._file(loc.file)
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_C99"),
                "file": self._main,
                "producer": "diffkern",
                "isOptimized": True,
                "runtimeVersion": 0,
                # Distinct, as LLVM requires of compile units; the emission kind leaves out types and variables.
                "emissionKind": ir.DIToken("DebugDirectivesOnly"),
            },
            is_distinct=True,
        )
        module.add_named_metadata("llvm.dbg.cu").add(unit)
        two, three = ir.Constant(ir.IntType(32), 2), ir.Constant(ir.IntType(32), 3)
        module.add_named_metadata("llvm.module.flags").add(module.add_metadata([two, "Debug Info Version", three]))
        kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([None])})
        self._scope = module.add_debug_info(
            "DISubprogram",
            {
                "name": function.name,
                "scope": self._main,
                "file": self._main,
                "line": loc.line,
                "type": kind,
                "spFlags": ir.DIToken("DISPFlagDefinition | DISPFlagOptimized"),
                "unit": unit,
            },
            is_distinct=True,
        )
        function.set_metadata("dbg", self._scope)

    def at(self, loc: Loc) -> Any:
        """Return the node for a position."""
        file = self._file(loc.file)
        scope = self._scope
        # Code inlined from a func of another file keeps that file's name.
        if file is not self._main:
            fields = {"scope": self._scope, "file": file, "discriminator": 0}
            scope = self._module.add_debug_info("DILexicalBlockFile", fields)
        return self._module.add_debug_info("DILocation", {"line": loc.line, "column": loc.col + 1, "scope": scope})

    def _file(self, name: str) -> Any:
        path = Path(name)
        return self._module.add_debug_info("DIFile", {"filename": path.name, "directory": str(path.parent)})
