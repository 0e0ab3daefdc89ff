"""Faults in adjoints that are texts in C, in what maps and modules are told by, and in sizes of outputs."""

from __future__ import annotations

from diffkern.contracts import options
from diffkern.frontend.statements import lowering
from diffkern.interop import spec
from diffkern.transforms import mapping
from diffkern.utils import sums
from diffkern.warp import fingerprints, launching, snippets
from diffkern.warp.c import c_adjoints, c_statements

from .edits import Fault, edit

_TEXTS = "tests/unit/test_warp_adjoint_texts.py"
_ADJOINT = (f"{_TEXTS}::test_an_adjoint_in_c_is_the_derivative",)
_STAYS = (f"{_TEXTS}::test_cotangents_of_vectors_and_of_what_stays",)
_MAP = "tests/unit/test_map.py"
_MODULES = "tests/unit/test_warp_modules.py"

WARP_TESTS = [
    Fault("an adjoint in C is translated and not used",
          edit(snippets, "_written", "if bodies.adjoint is not None:", "if False:"), _ADJOINT),
    Fault("the cotangent of a variable of the caller begins with zero",
          edit(c_adjoints, "adjoint", "in changed else", "in () else"), _ADJOINT),
    Fault("cotangents of elements are refused where they are set after they were read",
          edit(c_statements, "Statements._stored", "in before and not is_cotangent", "in before"), _ADJOINT),
    Fault("the cotangent of a variable that stays is dropped",
          edit(c_adjoints, "adjoint", 'for adj in variables)]', 'for adj in variables if adj[4:] not in changed)]'),
          _STAYS),
    Fault("an adjoint may read a variable that the body has changed",
          edit(c_adjoints, "_check", "for name in changed:", "for name in ():"),
          (f"{_TEXTS}::test_other_adjoints_are_refused",)),
    Fault("a lambda has a copy of the globals",
          edit(mapping, "_of_lambda", "(inner, func.__globals__,", "(inner, dict(func.__globals__),"),
          (f"{_MAP}::test_a_lambda_follows_changes_of_globals",)),
    Fault("a lambda has the cells of its first call",
          edit(mapping, "_of_lambda", "CellType(c.cell_contents)", "c"),
          (f"{_MAP}::test_a_lambda_keeps_what_it_captured",)),
    Fault("types of results stay what they were first",
          edit(mapping, "_ResultTypes.holds", "self.kernel.generation() == self.generation", "True"),
          (f"{_MAP}::test_results_follow_changes_of_globals",)),
    Fault("0.0 and -0.0 are one", edit(mapping, "_as_key", "type(value), repr(value)", "type(value), value"),
          (f"{_MAP}::test_equal_values_of_two_types_are_not_one",)),
    Fault("structs that are returned take the types of the numbers beside them",
          edit(lowering, "returned_types", "structs[k] if k in structs else", "structs.get(k - 1) or"),
          (f"{_MAP}::test_structs_are_taken_and_returned",)),
    Fault("hashes of modules leave out what kernels capture",
          edit(fingerprints, "_of_kernels", "yield from fingerprint(one.func)", "yield from ()"),
          (f"{_MODULES}::test_a_hash_follows_texts_constants_functions_and_options",)),
    Fault("hashes of modules leave out overloads",
          edit(fingerprints, "_of_kernels", '*getattr(kernel, "overloads", {}).values()', ""),
          (f"{_MODULES}::test_overloads_count",)),
    Fault("an output with other axes than the launch is like the first array even where its shape is given",
          edit(spec, "CallSpec.output_shapes", "and (given is None or k not in given)", ""),
          ("tests/interop/jax/test_kernel.py::test_an_output_with_other_axes_than_the_launch_is_like_the_first_array",)),
    Fault("a number of elements of vectors counts components",
          edit(sums, "array_cast", "count * math.prod(inner)", "count"),
          ("tests/e2e/test_utils_and_optim.py::test_casts_of_components",)),
    Fault("numbers in structs are not verified", edit(launching, "_floats", "numbers.dtype.names or ()", "()"),
          ("tests/unit/test_warp_names.py::test_results_in_structs_are_verified",)),
    Fault("integers of NumPy stay what they are", edit(options, "_as_python", "int(value) if", "value if"),
          ("tests/unit/test_options.py::test_what_is_not_given_is_none",)),
    Fault("narrow floats are passed to library functions as they are stored",
          edit(lowering, "_passed", "T.FLOAT32 if t in T.STORAGE_ONLY else t", "t"),
          ("tests/unit/test_warp_values.py::test_built_ins_of_narrow_floats_are_called_from_python",)),
]  # fmt: skip
