"""The offsets that the handler uses are those of the header that jaxlib ships."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import require

require("jax")

import jax

from diffkern.interop.jax import ffi_api

SIZES = {"size_t": 8, "int64_t": 8, "int": 4, "int32_t": 4, "uint32_t": 4}


def header() -> str:
    text = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    text = text.replace("XLA_FFI_InternalExtension", "XLA_FFI_Extension_Base")  # its name in version 0.5 of the API
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def structs() -> dict[str, list[tuple[str, str]]]:
    found = {}
    for first, name, body, second in re.findall(r"(typedef )?struct (\w+) \{(.*?)\n\}\s*(\w*);", header(), re.DOTALL):
        fields = []
        for line in body.split(";"):
            line = " ".join(line.split())
            macro = re.fullmatch(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", line)
            if macro:
                fields.append(("pointer", macro[1]))
            elif "(*" in line:
                fields.append(("pointer", re.search(r"\(\*(\w+)\)", line)[1]))
            elif line:
                kind, _, field = line.replace("const ", "").rpartition(" ")
                fields.append(("pointer" if "*" in line else kind, field.strip("* ")))
        found[name] = fields
    return found


STRUCTS = structs()


def measure(name: str) -> tuple[dict[str, int], int, int]:
    """Offsets, size and alignment of a struct, by the rules of C on 64-bit platforms."""
    offsets, at, widest = {}, 0, 1
    for kind, field in STRUCTS[name]:
        kind = kind.replace("struct ", "")
        if kind == "pointer":
            size = align = 8
        elif kind in SIZES:
            size = align = SIZES[kind]
        elif kind in STRUCTS:
            _, size, align = measure(kind)
        else:  # an enumeration
            assert re.search(rf"typedef enum \{{[^}}]*\}} {kind};|typedef uint32_t {kind};", header()), kind
            size = align = 4
        at = -(-at // align) * align
        offsets[field] = at
        at += size
        widest = max(widest, align)
    return offsets, -(-at // widest) * widest, widest


@pytest.mark.parametrize("name", sorted(ffi_api.OFFSETS))
def test_offsets(name):
    offsets, _, _ = measure(name)
    assert {field: offsets[field] for field in ffi_api.OFFSETS[name]} == ffi_api.OFFSETS[name]


@pytest.mark.parametrize("name", sorted(ffi_api.SIZES))
def test_struct_sizes_reach_as_far_as_what_is_used(name):
    last = re.search(rf"XLA_FFI_DEFINE_STRUCT_TRAITS\({name}, (\w+)\);", header())[1]
    offsets, size, _ = measure(name)
    ends = sorted({*offsets.values(), size})
    end = ends[ends.index(offsets[last]) + 1]
    if name in ("XLA_FFI_Error_Create_Args", "XLA_FFI_Metadata"):
        end = offsets[last] + 4
    assert ffi_api.SIZES[name] == end


def enumeration(name: str) -> dict[str, int]:
    body = re.search(rf"typedef enum \{{([^}}]*)\}} {name};", header())[1]
    return {field: int(value) for field, value in re.findall(rf"{name}_(\w+) = (\d+)", body)}


def test_data_types():
    known = enumeration("XLA_FFI_DataType")
    spelled = {"bool": "PRED", "bfloat16": "BF16"}
    for name, value in ffi_api.DATA_TYPES.items():
        short = re.sub(r"^(uint|int|float)", lambda m: {"uint": "U", "int": "S", "float": "F"}[m[1]], name)
        assert known[spelled.get(name, short)] == value


def test_other_numbers():
    assert "#define XLA_FFI_API_MAJOR 0" in header()
    assert enumeration("XLA_FFI_ExecutionStage")["EXECUTE"] == ffi_api.STAGE_EXECUTE
    assert enumeration("XLA_FFI_AttrType")["ARRAY"] == ffi_api.ATTRIBUTE_ARRAY
    assert int(re.search(r"XLA_FFI_Extension_Metadata = (\d+)", header())[1]) == ffi_api.METADATA_EXTENSION
    codes = enumeration("XLA_FFI_Error_Code")
    assert {name: codes[name] for name in ffi_api.ERROR_CODES} == ffi_api.ERROR_CODES
