"""``@dk.struct`` on the host: definitions, instances, arrays of structs, and what a launch refuses."""

from __future__ import annotations

import copy
import importlib.util
import sys

import numpy as np
import pytest

import diffkern as dk
from diffkern.lang import definition_of


@dk.struct
class Body:
    mass: float = 2.0
    pos: dk.vec3 = dk.vec3(1.0, 2.0, 3.0)
    fixed: bool = False


@dk.struct
class Pair:
    first: Body
    second: Body = Body(mass=5.0)
    turn: dk.mat22d
    k: dk.int64
    half: dk.float16
    brain: dk.bfloat16


@dk.struct
class World:
    g: float
    heights: dk.array(dtype=float)
    bodies: dk.array(dtype=Body)


@dk.kernel
def sum_world(w: World, out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = w.g + w.heights[i] + w.bodies[i].mass


@dk.kernel
def double_mass(bodies: dk.array(dtype=Body)):
    i = dk.tid()
    bodies[i].mass = bodies[i].mass * 2.0


# -- definitions -------------------------------------------------------------------------------------------------------


def test_spelling_holds_names_and_types_in_order_and_nothing_else():
    assert str(definition_of(Body).type) == "struct Body{mass: float32, pos: vec3<float32>, fixed: bool}"
    spelled = str(definition_of(World).type)
    assert spelled == (
        "struct World{g: float32, heights: array1d<float32,C>, bodies: "
        "array1d<struct Body{mass: float32, pos: vec3<float32>, fixed: bool},C>}"
    )


def test_annotations_as_text_and_quoted_text():
    @dk.struct
    class Local:
        x: "float"  # noqa: UP037 - text in text is the case
        b: Body

    assert definition_of(Local).type.names == ("x", "b")


def test_a_struct_within_itself_is_refused(tmp_path):
    path = tmp_path / "node_of_a_list.py"
    head = "from __future__ import annotations\nimport diffkern as dk\n\n"
    path.write_text(head + "@dk.struct\nclass Node:\n    v: float\n    next: Node\n")
    spec = importlib.util.spec_from_file_location("node_of_a_list", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["node_of_a_list"] = module
    with pytest.raises(dk.KernelTypeError, match="the field next of Node is a Node itself") as caught:
        spec.loader.exec_module(module)
    del sys.modules["node_of_a_list"]
    assert (caught.value.loc.line, caught.value.loc.col) == (7, 4)


def test_bad_definitions_are_refused_with_the_line_of_the_field():
    with pytest.raises(dk.KernelTypeError, match="field names of Bad has no kernel type") as caught:

        @dk.struct
        class Bad:
            x: float
            names: str

    assert "                names: str\n" in str(caught.value)
    with pytest.raises(dk.KernelTypeError, match="array of any dtype"):

        @dk.struct
        class AnyArray:
            x: dk.array()

    with pytest.raises(dk.KernelTypeError, match="derived"):

        @dk.struct
        class Derived(Body):
            y: float

    with pytest.raises(dk.KernelTypeError, match="the default of the field x"):

        @dk.struct
        class Default:
            x: int = 1.5

    with pytest.raises(dk.KernelTypeError, match="cannot be evaluated"):

        @dk.struct
        class Unknown:
            x: Nowhere  # noqa: F821

    with pytest.raises(dk.KernelTypeError, match="underscore"):

        @dk.struct
        class Hidden:
            _x: float

    with pytest.raises(TypeError, match="decorates a class"):
        dk.struct(lambda: None)


# -- instances ---------------------------------------------------------------------------------------------------------


def test_a_struct_may_have_no_fields():
    @dk.struct
    class Empty:
        pass

    assert Empty() == Empty()


def test_defaults_zeros_order_and_names():
    p = Pair(Body(1.0), k=7)
    assert (p.first.mass, p.second.mass, p.k, p.half) == (1.0, 5.0, 7, 0.0)
    assert p.turn.dtype == np.float64
    assert p.turn.shape == (2, 2)
    assert World(g=9.0).heights is None
    assert Body() == Body()
    assert Body() != Body(3.0)
    assert repr(Body(fixed=True)).startswith("Body(mass=2.0, pos=vec3(1.0, 2.0, 3.0)")


def test_assignment_converts_and_checks():
    b = Body()
    b.mass = 0.1
    assert b.mass == float(np.float32(0.1))
    b.pos = (1, 2, 3)
    b.pos[1] = 9.0
    np.testing.assert_array_equal(b.pos, np.float32([1, 9, 3]))
    for name, value in (("mass", "x"), ("mass", [1.0, 2.0]), ("pos", (1.0, 2.0)), ("fixed", 2), ("mass", None)):
        with pytest.raises((TypeError, OverflowError), match=f"the field {name} of Body"):
            setattr(b, name, value)
    with pytest.raises(AttributeError, match="Body has no field 'masss'; its fields are mass, pos, fixed"):
        b.masss = 1.0
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del b.mass
    with pytest.raises(TypeError, match="takes a Body"):
        Pair(first=3.0)
    with pytest.raises(TypeError, match="twice"):
        Body(1.0, mass=2.0)
    with pytest.raises(TypeError, match="3 fields, not 4"):
        Body(1.0, (1, 2, 3), False, 4)
    w = World()
    for value in (dk.zeros(3, dtype=int), dk.zeros((2, 2)), 1.0):
        with pytest.raises(TypeError, match="takes array1d<float32>"):
            w.heights = value


def test_structs_are_values():
    body = Body(1.0)
    pair = Pair(first=body)
    body.mass = 9.0
    assert pair.first.mass == 1.0
    other = copy.copy(pair)
    other.first.mass = 4.0
    other.turn[0, 0] = 1.0
    assert (pair.first.mass, pair.turn[0, 0]) == (1.0, 0.0)
    one, two = Pair(), Pair()
    one.second.mass = 1.0
    assert two.second.mass == 5.0


# -- arrays of structs -------------------------------------------------------------------------------------------------


def test_array_is_structured_as_in_c():
    a = dk.zeros(3, dtype=Body)
    assert a.dtype is Body
    assert a.numpy().dtype == np.dtype([("mass", "f4"), ("pos", "f4", 3), ("fixed", "?")], align=True)
    assert a.numpy().dtype.itemsize == 20
    a[1] = Body(7.0)
    assert a[1] == Body(7.0)
    a[1].mass = 0.0  # a copy
    assert a[1].mass == 7.0
    assert repr(a[1:2]) == "array([(7., [1., 2., 3.], False)], shape=(1,), dtype=Body)"
    a.fill_(Body(3.0))
    assert a.numpy()["mass"].tolist() == [3.0, 3.0, 3.0]
    a.zero_()
    assert a.numpy()["pos"].max() == 0.0


def test_array_from_structs_and_from_numpy():
    a = dk.array([Body(1.0), Body(2.0)])
    assert a.dtype is Body
    assert a.numpy()["mass"].tolist() == [1.0, 2.0]
    grid = dk.array([[Body(1.0)], [Body(2.0)]], dtype=Body)
    assert grid.shape == (2, 1)
    data = np.zeros(4, dtype=a.numpy().dtype)
    same = dk.array(data, dtype=Body, copy=False)
    double_mass[4](same)
    data["mass"] = 4.0
    double_mass[4](data)
    assert same.numpy()["mass"].tolist() == [8.0] * 4
    pairs = dk.array([Pair(k=3, half=0.5, brain=1.5)])
    assert (pairs[0].k, pairs[0].half, pairs[0].brain, pairs[0].second.mass) == (3, 0.5, 1.5, 5.0)
    assert dk.full(2, Body(4.0), dtype=Body).numpy()["mass"].tolist() == [4.0, 4.0]
    assert dk.clone(a).numpy()["mass"].tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="an element must be a Body"):
        dk.array([1.0], dtype=Body)
    with pytest.raises(TypeError, match="not structs Body"):
        dk.array(np.zeros(2), dtype=Body)
    with pytest.raises(ValueError, match="equal length"):
        dk.array([[Body()], [Body(), Body()]], dtype=Body)
    with pytest.raises(TypeError, match="array field 'bodies' of Body"):
        dk.zeros(2, dtype=World)


def test_field_is_a_view():
    a = dk.zeros(3, dtype=Pair, requires_grad=True)
    mass = a.field("first.mass")
    mass.assign([1.0, 2.0, 3.0])
    assert [a[k].first.mass for k in range(3)] == [1.0, 2.0, 3.0]
    a.grad.field("first.mass").fill_(5.0)
    assert mass.grad.numpy().tolist() == [5.0] * 3
    assert a[1:].field("first.mass").numpy().tolist() == [2.0, 3.0]
    with pytest.raises(AttributeError, match=r"Pair has no field 'first\.x'"):
        a.field("first.x")


# -- launches ----------------------------------------------------------------------------------------------------------


def test_by_value_with_arrays_inside():
    heights = dk.array(np.arange(6.0), dtype=float)
    w = World(g=1.0, heights=heights, bodies=dk.array([Body(10.0), Body(20.0), Body(30.0)]))
    out = dk.zeros(3)
    sum_world[3](w, out)
    assert out.numpy().tolist() == [11.0, 22.0, 33.0]
    w.heights = heights[::2]  # another layout, another program
    sum_world[3](w, out)
    assert out.numpy().tolist() == [11.0, 23.0, 35.0]
    w.g = 0.0
    sum_world[3](w, out)
    assert out.numpy().tolist() == [10.0, 22.0, 34.0]


def test_without_annotations():
    @dk.kernel
    def plain(s, out):
        i = dk.tid()
        out[i] = s.mass * s.pos[i]

    out = dk.zeros(3)
    plain[3](Body(), out)
    assert out.numpy().tolist() == [2.0, 4.0, 6.0]


def test_wrong_arguments():
    out = dk.zeros(3)
    with pytest.raises(dk.LaunchError, match=r"parameter 'w': takes World, not Body"):
        sum_world[3](Body(), out)
    with pytest.raises(dk.LaunchError, match=r"takes World, not 1\.0"):
        sum_world[3](1.0, out)
    with pytest.raises(dk.KernelTypeError, match=r"w.heights is None in this launch"):
        sum_world[3](World(), out)
    with pytest.raises(dk.LaunchError, match="parameter 'bodies'"):
        double_mass[3](out)
    with pytest.raises(dk.LaunchError, match="parameter 'bodies'"):
        double_mass[3](dk.zeros(3, dtype=Pair))
    with pytest.raises(dk.LaunchError, match="parameter 'bodies'"):
        double_mass[3](Body())
    data = np.zeros(3, dtype=dk.zeros(1, dtype=Body).numpy().dtype)
    data.flags.writeable = False
    with pytest.raises(dk.LaunchError, match=r"parameter 'bodies\.mass'"):
        double_mass[3](data)


def test_manifest_says_which_argument_a_parameter_belongs_to():
    w = World(g=1.0, heights=dk.zeros(1), bodies=dk.zeros(1, dtype=Body))
    sum_world[1](w, dk.zeros(1))
    (program,) = [p for keys, p in sum_world.programs.items() if ",A>" not in keys[0]]
    entries = [(p.name, p.argument) for p in program.manifest.params]
    assert entries == [
        ("w.g", 0), ("w.heights", 0), ("w.bodies.mass", 0), ("w.bodies.pos", 0), ("w.bodies.fixed", 0), ("out", 1),
    ]  # fmt: skip


def test_a_matrix_row_by_row():
    @dk.struct
    class Frame:
        turn: dk.mat22
        edge: dk.types.matrix((2, 3), dk.float32)

    frame = Frame()
    frame.turn, frame.edge = (1, 2, 3, 4), range(6)
    assert frame.turn[1, 0] == 3.0
    assert frame.edge[1, 2] == 5.0
    with pytest.raises(TypeError, match="takes mat2x2<float32>, not"):
        frame.turn = (1, 2, 3)


def test_annotations_as_text_of_a_module_that_is_not_imported(tmp_path):
    text = "from __future__ import annotations\nimport diffkern as dk\n@dk.struct\nclass S:\n    x: dk.vec2\n"
    names = {"__name__": "a_module_that_nobody_imported"}
    exec(compile(text, str(tmp_path / "s.py"), "exec"), names)
    assert names["S"](x=dk.vec2(1.0, 2.0)).x[1] == 2.0
