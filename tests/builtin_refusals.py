"""What the table of built-in functions refuses, over which scalar types, and the reason that is stated."""

from __future__ import annotations

from typing import NamedTuple

from builtin_rows import FLOATS, INTEGERS, NUMBERS, Row, row


class Refused(NamedTuple):
    """A call that is an error, and words of its message."""

    row: Row
    reason: str


def refused(call: str, takes: str, reason: str, of: tuple[str, ...] = ("float32",), form: str = "") -> Refused:
    return Refused(row(call, takes, "", of=of, form=form), reason)


REFUSED = (
    # floats alone
    *(
        refused(f"dk.{name}(a)", size, "convert it to a {} of floats first".format("matrix" if "mat" in size else
                "vector"), of=INTEGERS, form=size)
        for name, sizes in {"length": ("vec2", "vec3", "mat22"), "normalize": ("vec2", "vec3"),
                            "inverse": ("mat22", "mat33", "mat44")}.items()
        for size in sizes
    ),
    *(
        refused(f"dk.{name}(a)", size, f"the argument of {name} must be a number", of=INTEGERS, form=size)
        for name in ("isnan", "isinf", "isfinite")
        for size in ("vec3", "mat22")
    ),
    *(
        refused(f"dk.{name}(a)", size, f"takes {wants}, not", of=INTEGERS, form=size)
        for name, size, wants in (("norm_l2", "vec3", "vector"), ("norm_huber", "vec3", "vector"),
                                  ("inverse_approx", "mat33", "square"))
    ),
    refused("dk.pow(a, b)", "number number", "with an exponent known only at run time", of=INTEGERS),
    *(
        refused(f"dk.{name}(a)", size, f"{name} of {size[:3]}", of=INTEGERS)
        for name, size in {"svd2": "mat22", "svd3": "mat33", "qr3": "mat33", "eig3": "mat33"}.items()
    ),
    # integers alone
    *(
        refused(f"dk.{name}(a, b)", f"{size} {size}", "bit operations take integers", of=FLOATS, form=size)
        for name in ("bit_and", "bit_or", "bit_xor", "lshift", "rshift")
        for size in ("number", "vec3", "mat22")
    ),
    *(
        refused("dk.invert(a)", size, "bit operations take integers", of=FLOATS, form=size)
        for size in ("number", "vec3", "mat22")
    ),
    refused("dk.bit_count(a)", "number", "bit_count of", of=FLOATS),
    # numbers, one by one
    *(
        refused(f"dk.{name}(a)", "vec3", "take its components one by one", of=NUMBERS)
        for name in ("sin", "exp", "sqrt", "floor", "step", "nonzero", "frac", "erf", "lgamma")
    ),
    refused("dk.erfinv(a)", "vec3", "takes float, not vec3", of=FLOATS),
    *(
        refused(f"dk.{name}(a)", "number", "takes a vector or matrix, not", of=NUMBERS)
        for name in ("length_sq", "trace", "argmin", "argmax", "min", "max", "transpose", "determinant", "skew")
    ),
    refused("len(a)", "number", "len takes an array", of=NUMBERS),
    # sizes
    refused("dk.cross(a, b)", "vec2 vec2", "cross takes vectors of length 3", of=NUMBERS),
    refused("dk.skew(a)", "vec4", "skew takes a vector of length 3", of=NUMBERS),
    refused("dk.dot(a, b)", "vec3 vec4", "both must have the same shape", of=NUMBERS),
    refused("dk.ddot(a, b)", "mat22 mat33", "both must have the same shape", of=NUMBERS),
    refused("dk.cw_mul(a, b)", "vec2 vec3", "both must have the same shape", of=NUMBERS),
    refused("dk.cw_div(a, b)", "mat22 mat23", "both must have the same shape", of=NUMBERS),
    refused("dk.max(a, b)", "vec2 vec3", "both must have the same shape", of=NUMBERS),
    refused("dk.add(a, b)", "vec3 vec2", "the sizes do not fit this operator", of=NUMBERS),
    refused("dk.sub(a, b)", "mat23 mat22", "the sizes do not fit this operator", of=NUMBERS),
    refused("dk.mul(a, b)", "mat23 vec2", "the sizes do not fit this operator", of=NUMBERS),
    refused("dk.add(a, b)", "vec3 number", "add a vector with that number", of=NUMBERS, form="number"),
    refused("dk.mul(a, b)", "vec3 vec3", "dk.cw_mul(a, b) for the product by components", of=NUMBERS, form="vec3"),
    refused("dk.div(a, b)", "vec3 vec3", "dk.cw_div(a, b) for the quotient by components", of=NUMBERS),
    *(
        refused(f"dk.{name}(a)", "mat23", "takes a square matrix", of=NUMBERS)
        for name in ("trace", "determinant", "get_diag")
    ),
    refused("dk.inverse(a)", "mat23", "takes a square matrix", of=FLOATS, form="mat23"),
    refused("dk.diag(a)", "mat33", "takes a vector, not mat3x3", of=NUMBERS),
    refused("dk.outer(a, b)", "vec3 mat22", "takes a vector, not mat2x2", of=NUMBERS),
    refused("dk.argmin(a)", "mat22", "takes a vector, not mat2x2", of=NUMBERS, form="mat22"),
    refused("dk.normalize(a)", "mat22", "takes a vector, not mat2x2", of=FLOATS, form="mat22"),
    refused("dk.transpose(a)", "vec3", "takes a matrix, not vec3", of=NUMBERS, form="vec3"),
    refused("dk.matrix_from_rows(a, b)", "vec2 vec3", "takes vectors of one type", of=NUMBERS),
    refused("dk.where(a, b, c)", "bool vec3 vec2", "is vec3", of=NUMBERS),
    refused("dk.where(a, b, c)", "vec3 number number", "is used as a condition", of=NUMBERS, form="vec3"),
    # roles
    refused("dk.quat_rotate(a, b)", "quat vec4", "takes vec3, not vec4", of=FLOATS),
    refused("dk.quat_rotate(a, b)", "vec4 vec3", "takes quat, not vec4", of=FLOATS, form="vec4"),
    refused("dk.quat_from_matrix(a)", "mat22", "quat_from_matrix of mat2x2", of=FLOATS),
    refused("dk.transform_point(a, b)", "quat vec3", "transform_point of quat", of=FLOATS),
    refused("dk.spatial_dot(a, b)", "vec3 vec3", "takes spatial_vector, not vec3", of=FLOATS),
    refused("dk.mul(a, b)", "quat vec3", "the sizes do not fit this operator", of=FLOATS, form="quat"),
    refused("dk.add(a, b)", "quat vec4", "the sizes do not fit this operator", of=FLOATS, form="quat"),
    refused("dk.mod(a, b)", "quat quat", "the sizes do not fit this operator", of=FLOATS, form="quat"),
    refused("dk.svd3(a)", "mat22", "svd3 of mat2x2", of=FLOATS),
    # bools
    refused("dk.add(a, b)", "bool bool", "convert them first", form="bool"),
    refused("dk.min(a, b)", "bool bool", "min of bools"),
    *(refused(f"dk.{name}(a)", "bool", "write int(b)", form="bool") for name in ("abs", "sign", "step")),
    refused("dk.sin(a)", "bool", "write float(b)", form="bool"),
    refused("dk.neg(a)", "bool", "write not b", form="bool"),
)  # fmt: skip
