"""Offsets and sizes of the structs of XLA's FFI, major version 0, in bytes.

The handler walks them by these offsets; ``struct_size`` of each tells whether it is long enough. A test compares them
with the header that jaxlib ships.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DATA_TYPES", "ERROR_CODES", "OFFSETS", "SIZES"]

OFFSETS: Final[dict[str, dict[str, int]]] = {
    "XLA_FFI_Extension_Base": {"struct_size": 0, "type": 8, "next": 16},
    "XLA_FFI_Api_Version": {"struct_size": 0, "extension_start": 8, "major_version": 16, "minor_version": 20},
    "XLA_FFI_Error_Create_Args": {"struct_size": 0, "extension_start": 8, "message": 16, "errc": 24},
    "XLA_FFI_Buffer": {"struct_size": 0, "extension_start": 8, "dtype": 16, "data": 24, "rank": 32, "dims": 40},
    "XLA_FFI_Array": {"dtype": 0, "size": 8, "data": 16},
    "XLA_FFI_Args": {"struct_size": 0, "extension_start": 8, "size": 16, "types": 24, "args": 32},
    "XLA_FFI_Rets": {"struct_size": 0, "extension_start": 8, "size": 16, "types": 24, "rets": 32},
    "XLA_FFI_Attrs": {"struct_size": 0, "extension_start": 8, "size": 16, "types": 24, "names": 32, "attrs": 40},
    "XLA_FFI_CallFrame": {
        "struct_size": 0, "extension_start": 8, "api": 16, "ctx": 24, "stage": 32, "args": 40, "rets": 80, "attrs": 120,
    },
    "XLA_FFI_Metadata": {"struct_size": 0, "api_version": 8, "traits": 32},
    "XLA_FFI_Metadata_Extension": {"extension_base": 0, "metadata": 24},
    "XLA_FFI_Stream_Get_Args": {"struct_size": 0, "extension_start": 8, "ctx": 16, "stream": 24},
    "XLA_FFI_Api": {
        "struct_size": 0, "extension_start": 8, "api_version": 16, "internal_api": 40, "XLA_FFI_Error_Create": 48,
        "XLA_FFI_Stream_Get": 80,
    },
}  # fmt: skip
"""Offsets of the fields that are used."""

SIZES: Final[dict[str, int]] = {
    "XLA_FFI_Error_Create_Args": 28,
    "XLA_FFI_Stream_Get_Args": 32,
    "XLA_FFI_Buffer": 48,
    "XLA_FFI_CallFrame": 168,
    "XLA_FFI_Metadata": 36,
}
"""``struct_size`` of the structs that are made or read, as of API version 0.1."""

DATA_TYPES: Final[dict[str, int]] = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
    "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16,
}  # fmt: skip
"""XLA_FFI_DataType by the name of the type in diffkern."""

ERROR_CODES: Final[dict[str, int]] = {"INVALID_ARGUMENT": 3, "NOT_FOUND": 5, "INTERNAL": 13, "UNIMPLEMENTED": 12}
"""XLA_FFI_Error_Code."""

STAGE_INITIALIZE: Final = 2
STAGE_EXECUTE: Final = 3
METADATA_EXTENSION: Final = 1
ATTRIBUTE_ARRAY: Final = 1
COMMAND_BUFFER_COMPATIBLE: Final = 1
