"""Structs in kernels: what is computed, what is refused and where."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk


@dk.struct
class Inner:
    v: dk.vec3 = dk.vec3(1.0, 2.0, 3.0)
    n: int = 4


@dk.struct
class Outer:
    a: float = 1.5
    inner: Inner = Inner(n=9)
    m: dk.mat22
    flag: bool = True
    xs: dk.array(dtype=float)


@dk.struct
class Item:
    a: float
    inner: Inner


@dk.func
def doubled(s: Item) -> Item:
    s.a = s.a * 2.0
    s.inner.n += 1
    return s


@dk.func
def pick(s, t, first: bool):
    if first:
        return s, t.a
    return t, s.a


def result(kernel, *args, n=1):
    out = dk.zeros(n)
    kernel[n](*args, out)
    return out.numpy().tolist()


def test_constructor_defaults_and_keywords():
    @dk.kernel
    def k(out: dk.array(dtype=float)):
        s = Outer()
        t = Outer(2.0, Inner(n=1), flag=False)
        out[0] = s.a + s.inner.v[2] + float(s.inner.n) + s.m[0, 0]
        out[1] = t.a + float(t.inner.n) + (100.0 if t.flag else 0.0)
        i = Inner(dk.vec3(4.0), 2)
        t.inner = i
        i.v[0] = 9.0
        out[2] = t.inner.v[0] + i.v.x

    out = dk.zeros(3)
    k[1](out)
    assert out.numpy().tolist() == [1.5 + 3.0 + 9.0, 3.0, 13.0]


def test_assigning_a_copy_leaves_the_original():
    @dk.kernel
    def k(items: dk.array(dtype=Item), s: Item, out: dk.array(dtype=float)):
        p = items[0]
        q = p
        q.a += 10.0
        items[0].a = 5.0
        s.a = 7.0
        r = doubled(p)
        out[0] = 1000.0 * p.a + 100.0 * q.a + 10.0 * r.a + s.a

    items, s = dk.array([Item(a=1.0)]), Item(a=3.0)
    assert result(k, items, s) == [1000.0 + 1100.0 + 20.0 + 7.0]
    assert (items[0].a, items[0].inner.n, s.a) == (5.0, 4, 3.0)


def test_elements_fields_and_views():
    @dk.kernel
    def k(items: dk.array(dtype=Item, ndim=2), out: dk.array(dtype=Item, ndim=2)):
        i, j = dk.tid()
        row = items[i]
        out[i, j] = doubled(row[j])
        out[i][j].inner.v[1] = float(len(items)) + float(items.shape[1])
        out[-1, j].inner.v.z = items.a[i, j]
        if i == 0:
            out[i, j].inner = Inner(n=j)

    items = dk.zeros((2, 3), dtype=Item)
    items.field("a").fill_(4.0)
    out = dk.zeros((2, 3), dtype=Item)
    k[2, 3](items, out)
    data = out.numpy()
    assert data["a"].tolist() == [[8.0] * 3] * 2
    assert data["inner"]["n"].tolist() == [[0, 1, 2], [1, 1, 1]]
    assert data["inner"]["v"][1].tolist() == [[0.0, 5.0, 4.0]] * 3


def test_slices_and_layouts():
    @dk.kernel
    def k(items: dk.array(dtype=Item), out: dk.array(dtype=float)):
        i = dk.tid()
        out[i] = items[1:][i].a

    items = dk.zeros(8, dtype=Item)
    items.field("a").assign(np.arange(8.0, dtype=np.float32))
    assert result(k, items, n=3) == [1.0, 2.0, 3.0]
    assert result(k, items[::2], n=3) == [2.0, 4.0, 6.0]


def test_control_flow_carries_structs():
    @dk.kernel
    def k(s: Outer, n: int, out: dk.array(dtype=float)):
        t = Outer(xs=s.xs)
        for i in range(n):
            if s.xs[i] > 2.0:
                t.a += s.xs[i]
            elif s.xs[i] < 0.0:
                break
            else:
                t.inner.n += 1
        u, rest = pick(s, t, n == 3)
        w = t if n > 100 else s
        while w.a < 50.0:
            w.a *= 2.0
        out[0] = t.a
        out[1] = float(t.inner.n)
        out[2] = u.a + rest
        out[3] = w.a + w.inner.v[0]

    xs = dk.array([1.0, 3.0, 5.0, -1.0, 7.0], dtype=float)
    out = dk.zeros(4)
    k[1](Outer(a=4.0, xs=xs), 5, out)
    assert out.numpy().tolist() == [9.5, 10.0, 9.5 + 4.0, 64.0 + 1.0]


def test_array_fields_are_assigned_and_written():
    @dk.kernel
    def k(s: Outer, ys: dk.array(dtype=float)):
        i = dk.tid()
        s.xs[i] = 2.0
        s.xs = ys
        s.xs[i] += 1.0

    xs, ys = dk.zeros(2), dk.zeros(2)
    k[2](Outer(xs=xs), ys)
    assert (xs.numpy().tolist(), ys.numpy().tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_local_variable_with_annotation_and_where():
    @dk.kernel
    def k(items: dk.array(dtype=Item), out: dk.array(dtype=float)):
        s: Item = items[0]
        t = dk.where(s.a > 0.0, s, items[1])
        out[0] = t.a

    assert result(k, dk.array([Item(a=-1.0), Item(a=6.0)])) == [6.0]


def test_names_in_the_generated_source():
    @dk.kernel
    def k(s: Item, s_a: float, out: dk.array(dtype=float)):
        out[0] = s.a + s_a

    source = k.source()
    assert "def k(tid, s_a, s_inner_v, s_inner_n, s_a_1, out):" in source
    assert "ct_s_a" in k.adjoint_source(active=["s", "out"])
    assert "ct_s_inner_v" not in k.adjoint_source(active=["s.a", "out"])
    with pytest.raises(dk.KernelError, match=r"no parameter 's\.b'"):
        k.adjoint_source(active=["s.b"])


def test_unchanged_fields_are_not_carried():
    @dk.kernel
    def k(items: dk.array(dtype=Item), n: int):
        i = dk.tid()
        p = items[i]
        for _ in range(n):
            p.a = p.a * p.a + float(p.inner.n)
        items[i] = p

    text = k.ir()
    assert text.count("for ") == 1
    assert "p.inner" not in next(line for line in text.splitlines() if "for " in line)


@dk.struct
class Other:
    a: float


GLOBAL = Item(a=1.0)

REFUSED = [
    ("x = s.b", "Item has no field 'b'", "its fields are a, inner"),
    ("s.innr.n = 1", "Item has no field 'innr'; did you mean 'inner'?", "its fields"),
    ("out[0] = items[0].inner.q", "Inner has no field 'q'", "its fields are v, n"),
    ("items[0].z = 1.0", "Item has no field 'z'", "its fields"),
    ("s.a = dk.vec3()", "the field a of Item takes float32, not vec3<float32>", ""),
    ("s.inner = 3.0", "the field inner of Item takes Inner, not the number 3.0", "make one with Inner(...)"),
    ("s.inner.n = 1.5", "the float 1.5 cannot become int32", ""),
    ("items[0] = Other(a=1.0)", "an element of the array takes Item, not the struct Other", "Item(...)"),
    ("items[0] = 1.0", "an element of the array takes Item, not the number 1.0", ""),
    ("items = s", "one variable has one type", ""),
    ("x = s + s", "struct Item", ""),
    ("x = s[0]", "the struct Item cannot be indexed", ""),
    ("s[0] = 1.0", "part of the struct Item cannot be assigned", ""),
    ("out[0] = s", "takes float32, not the struct Item", ""),
    ("t = Item(1.0, Inner(), 3)", "Item has 2 fields, not 3", ""),
    ("t = Item(b=1.0)", "Item has no field 'b'", ""),
    ("t = Item(1.0, a=2.0)", "gets the field 'a' twice", ""),
    ("x = GLOBAL.a", "GLOBAL is a Item outside the kernel", "pass structs as parameters"),
    ("t = Outer()\n    out[0] = t.xs[0]", "None", ""),
    ("t = Outer(xs=items)", "the field xs of Outer takes array1d<float32>, not an array of Item", ""),
    ("dk.atomic_add(items, 0, s)", "elements of the struct Item", "atomic_add(a.a, i, value)"),
    ("t: Other = s", "the annotated variable takes Other, not the struct Item", ""),
    (
        "o = Outer(xs=out)\n    if s.a > 0.0:\n        o.xs = ys\n    out[0] = o.xs[0]",
        "the struct o holds different arrays",
        "single|elements",
    ),
    ("items.a = out", "is assigned as a whole", "single elements"),
    ("x = doubled(Other())", "the parameter s of doubled takes Item", ""),
]


@pytest.mark.parametrize(("body", "message", "remedy"), REFUSED, ids=[body[:24] for body, _, _ in REFUSED])
def test_refused_with_line_and_remedy(tmp_path, body, message, remedy):
    body = "if s.a > 0.0:\n        items = s\n    out[0] = items.a" if body == "items = s" else body
    text = (
        "import diffkern as dk\n"
        f"from {__name__} import GLOBAL, Inner, Item, Other, Outer, doubled\n\n"
        "@dk.kernel\n"
        "def k(s: Item, items: dk.array(dtype=Item), out: dk.array(dtype=float), ys: dk.array(dtype=float)):\n"
        f"    {body}\n"
    )
    path = tmp_path / "module.py"
    path.write_text(text)
    namespace = {"__name__": "module", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), namespace)
    with pytest.raises(dk.KernelError) as caught:
        namespace["k"].source()
    assert message in str(caught.value)
    assert any(part in str(caught.value) for part in remedy.split("|"))
    assert caught.value.errors[0].loc.line >= 6


def test_recursion_of_funcs_with_structs_is_refused():
    @dk.func
    def again(s: Item):
        return again(s)

    @dk.kernel
    def k(s: Item, out: dk.array(dtype=float)):
        out[0] = again(s).a

    with pytest.raises(dk.KernelError, match="calls itself") as caught:
        k.source()
    assert "return again(s)" in str(caught.value)


@dk.struct
class Lens:
    focus: float = 3.0
    axis: dk.vec2 = dk.vec2(1.0, 2.0)
    count: int


@dk.struct
class Camera:
    lens: Lens
    gain: float = 5.0


@dk.struct
class Rig:
    camera: Camera
    other: Camera = Camera(gain=7.0)
    points: dk.array(dtype=float)


def test_defaults_of_nested_structs_are_the_same_in_kernels_and_on_the_host():
    def values(rig):
        lens = rig.camera.lens
        return [lens.focus, lens.axis[1], float(lens.count), rig.camera.gain, rig.other.gain, rig.other.lens.focus]

    @dk.kernel
    def k(y: dk.array(dtype=float)):
        rig, lens, camera = Rig(), Lens(), Camera(gain=1.0)
        y[0] = rig.camera.lens.focus
        y[1] = rig.camera.lens.axis[1]
        y[2] = float(rig.camera.lens.count)
        y[3] = rig.camera.gain
        y[4] = rig.other.gain
        y[5] = rig.other.lens.focus
        y[6] = lens.focus
        y[7] = camera.lens.focus

    y = dk.zeros(8, dtype=float)
    k[1](y)
    assert values(Rig()) == [3.0, 2.0, 0.0, 5.0, 7.0, 3.0]
    assert y.list() == [*values(Rig()), Lens().focus, Camera(gain=1.0).lens.focus]
    assert Rig().points is None
    made, beside = Rig(), Rig()
    made.camera.lens.focus = 1.0
    assert beside.camera.lens.focus == Rig().camera.lens.focus == 3.0
