"""Parts of the JAX side by themselves: spelling of types, calls as JSON, the native table."""

from __future__ import annotations

import ctypes
import itertools
import json

import pytest
from conftest import require

require("jax")

from diffkern.interop.jax import layout
from diffkern.interop.jax.call import BoundBuffer, BufferCopy, Clear, ProgramLaunch, XlaBuffer, XlaCall
from diffkern.interop.jax.registry import Registry, key_words
from diffkern.ir.types import BFLOAT16, FLOAT32, INT64, Array, Mat, Vec, parse_type


@pytest.mark.parametrize(
    "t",
    [
        FLOAT32,
        INT64,
        Vec(FLOAT32, 3),
        Mat(BFLOAT16, 2, 5),
        Array(FLOAT32, 4, "A"),
        Array(Vec(FLOAT32, 3), 2),
        Array(Mat(FLOAT32, 11, 1), 1, "A"),
    ],
    ids=str,
)
def test_types_are_read_as_they_are_spelled(t):
    assert parse_type(str(t)) == t


def test_unknown_spelling():
    with pytest.raises(ValueError, match="no type"):
        parse_type("float80")


def example(**more):
    steps = (
        BufferCopy(0, 2),
        Clear(3, 1, 0),
        ProgramLaunch(
            "a" * 64,
            "",
            2,
            (BoundBuffer("view", 0, 1, 4, 8, (5, 16)), BoundBuffer("constant", 0, 4, constant="0000803f")),
        ),
    )
    fields = {"name": "k", "operands": (XlaBuffer("float32", 1, 4),), "results": (XlaBuffer("float32", 1, 4),) * 3}
    return XlaCall(**{**fields, "steps": steps, **more})


def test_calls_survive_json():
    call = example()
    again = XlaCall.from_json(json.loads(json.dumps(call.to_json())))
    assert again == call
    assert again.key == call.key


def test_every_part_of_a_call_is_in_its_key():
    calls = [
        example(),
        example(name="j"),
        example(operands=(XlaBuffer("float64", 1, 8),)),
        example(steps=example().steps[:2]),
        example(steps=(BufferCopy(0, 3), *example().steps[1:])),
        example(steps=(*example().steps[:1], Clear(3, 0, 0), example().steps[2])),
    ]
    assert len({call.key for call in calls}) == len(calls)


@pytest.mark.parametrize(("change", "error"), [({"format": 2}, ValueError), ({"steps": [{"do": "Jump"}]}, ValueError)])
def test_foreign_calls_are_refused(change, error):
    with pytest.raises(error):
        XlaCall.from_json({**example().to_json(), **change})


def test_table_finds_what_was_entered():
    registry, pointer = Registry(), ctypes.c_int64(0)
    registry.attach(ctypes.addressof(pointer))
    assert pointer.value == registry.tables[-1].buffer_info()[0]
    registry.grow(8)
    assert pointer.value == registry.tables[-1].buffer_info()[0]
    # Keys that all want the same slot, the last one.
    names = [(0xFF + (k << 8)).to_bytes(8, "little").hex() + "00" * 24 for k in range(4)]
    for k, name in enumerate(names):
        registry.insert(name, 1000 + k)
    table = registry.tables[-1]
    rows = [table[1 + 3 * s : 4 + 3 * s].tolist() for s in range(8)]
    for k, name in enumerate(names):
        assert [*key_words(name), 1000 + k] in rows
    assert sum(row[2] != 0 for row in rows) == 4


def test_words_do_not_overlap():
    starts = [layout.LAUNCH_PLAIN, layout.LAUNCH_ATOMIC, layout.LAUNCH_ARITY]
    assert [b - a for a, b in itertools.pairwise(starts)] == [8 * layout.PROGRAM_WORDS] * 2
    assert layout.LAUNCH_REACH + 4 * 8 == layout.LAUNCH_PARAMS
