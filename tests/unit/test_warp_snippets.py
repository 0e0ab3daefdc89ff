"""``wp.func_native``: which texts in C are compiled, to what, and for which machine."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.warp.c.c_text import body_of, preprocessed
from diffkern.warp.snippets import NativeFunction, TranslatedFunction

FENCE = """
#if defined(__CUDA_ARCH__)
__threadfence();  // of the GPU
#endif
"""
LOWEST_BIT = """
#if defined(__CUDA_ARCH__)
    return __ffsll((long long)x) - 1;
#else
    return __builtin_ctzll((unsigned long long)x);
#endif
"""
INVERSE_ROOT = """
#ifdef __CUDA_ARCH__
return __frsqrt_rn(value);
#else
return 1.0f / sqrtf(value); /* of the processor */
#endif
"""
SHUFFLE = """
float result = value;
#if defined(__CUDA_ARCH__)
result = fmaxf(result, __shfl_xor_sync(0xffffffff, result, 1));
#endif
return result;
"""


@wp.func_native(FENCE)
def fence(): ...


@wp.func_native(snippet="WP_TILE_SYNC();")
def sync(): ...


@wp.func_native(LOWEST_BIT)
def lowest_bit(x: wp.uint64) -> int: ...


@wp.func_native("return static_cast<int32_t>(packed & 0xFFFFFull) % 1000;")
def unpacked(packed: wp.uint64) -> int: ...


@wp.func_native("return 0x7FFFFFFFFFFFFFFFull;")
def sentinel() -> wp.uint64: ...


@wp.func_native(INVERSE_ROOT)
def inverse_root(value: float) -> float: ...


@wp.func_native(SHUFFLE)
def largest(value: float) -> float: ...


@wp.func_native("""
uint32_t i = reinterpret_cast<uint32_t&>(f);
uint32_t mask = (uint32_t)(-(int)(i >> 31)) | 0x80000000;
return i ^ mask;
""")
def sortable(f: float) -> wp.uint32: ...


@wp.func_native("return *reinterpret_cast<const int*>(&f);")
def bits_of(f: float) -> wp.int32: ...


@wp.func_native("const float r = *(float*)&i; return r * 2.0f;")
def twice_of_bits(i: wp.int32) -> wp.float32: ...


@wp.func_native("return *((unsigned long long*)(&f)) >> 52;")
def exponent(f: wp.float64) -> wp.uint64: ...


@wp.func_native("return __builtin_nextafterf(value, INFINITY);")
def next_up(value: float) -> float: ...


@wp.func_native("return nextafterf(value, -INFINITY);")
def next_down(value: float) -> float: ...


LOWEST_COLOR = """
if (mask == 0) return -1;
int position = 0;
while ((mask & 1LL) == 0LL) { mask >>= 1; position++; }
return position;
"""
WEIGHED_SUM = """
float r = 0.0f;
// an inner block has names of its own
#pragma unroll
for (int k = 0; k < n; ++k) {
    const float part = x * (float)k;
    if (k == 2 || !(part > 1.0f)) r -= part;
    else if (k % 2 == 0 && k > 3) { r += 2.0f * part; }
    else r += part;
    if (r > 40.0f) break;
}
{ float part = r; r = part + 0.5f; }
return r;
"""
RAISED = """
if (value > 0.0f) {
    float* address = wp::address(values, index);
    if (value > *address)
        *address = value;
}
"""


@wp.func_native(LOWEST_COLOR)
def lowest_color(mask: wp.int64) -> wp.int32: ...


@wp.func_native(WEIGHED_SUM)
def weighed_sum(x: float, n: int) -> float: ...


@wp.func_native(RAISED)
def raised(values: wp.array[float], index: int, value: float): ...


@wp.func_native("goto end; end: return;")
def never_ending(x: float): ...


@wp.func_native("return x;", replay_snippet="return 2.0f * x;")
def with_replay(x: float) -> float: ...


@wp.kernel
def compute(bits: wp.array[wp.uint64], x: wp.array[float], y: wp.array2d[float], last: wp.array[wp.uint64]):
    i = wp.tid()
    fence()
    sync()
    y[i, 0] = float(lowest_bit(bits[i]))
    y[i, 1] = float(unpacked(bits[i]))
    y[i, 2] = inverse_root(x[i]) + largest(x[i])
    last[i] = sentinel()


def test_formulas_are_compiled() -> None:
    bits = np.array([1, 40, 1 << 63, 0x3000005], np.uint64)
    x, y = np.array([1, 4, 16, 64], np.float32), wp.zeros((4, 3))
    last = wp.zeros(4, dtype=wp.uint64)
    wp.launch(compute, 4, inputs=[wp.array(bits, dtype=wp.uint64), wp.array(x, dtype=float), y, last])
    np.testing.assert_array_equal(y.numpy()[:, 0], [0, 3, 63, 0])
    np.testing.assert_array_equal(y.numpy()[:, 1], [1, 40, 0, 5])
    np.testing.assert_allclose(y.numpy()[:, 2], x ** np.float32(-0.5) + x)
    assert last.numpy().tolist() == [2**63 - 1] * 4


@wp.kernel
def read_bits(
    x: wp.array[float], u: wp.array[wp.uint32], k: wp.array[int], y: wp.array2d[float], e: wp.array[wp.uint64]
):
    i = wp.tid()
    u[i] = sortable(x[i])
    k[i] = bits_of(x[i])
    y[i, 0] = twice_of_bits(k[i])
    y[i, 1] = next_up(x[i])
    y[i, 2] = next_down(x[i])
    e[i] = exponent(wp.float64(x[i]))


def test_bits_are_read_as_another_type() -> None:
    least, largest = np.float32(1e-45), np.finfo(np.float32).max
    x = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, least, -least, largest, -largest, 0.3], np.float32)
    n = len(x)
    u, k, e = wp.zeros(n, dtype=wp.uint32), wp.zeros(n, dtype=int), wp.zeros(n, dtype=wp.uint64)
    y = wp.zeros((n, 3))
    wp.launch(read_bits, n, inputs=[wp.array(x, dtype=float), u, k, y, e])
    bits = x.view(np.uint32)
    np.testing.assert_array_equal(u.numpy(), np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)))
    np.testing.assert_array_equal(k.numpy(), x.view(np.int32))
    np.testing.assert_array_equal(e.numpy(), x.astype(np.float64).view(np.uint64) >> np.uint64(52))
    found = y.numpy()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found[:, 0], 2 * x)
        np.testing.assert_array_equal(found[:, 1], np.nextafter(x, np.float32(np.inf)))
        np.testing.assert_array_equal(found[:, 2], np.nextafter(x, np.float32(-np.inf)))


@wp.kernel
def run_statements(bits: wp.array[wp.int64], x: wp.array[float], o: wp.array2d[float], largest: wp.array[float]):
    i = wp.tid()
    o[i, 0] = float(lowest_color(bits[i]))
    o[i, 1] = weighed_sum(x[i], i)
    raised(largest, i % 2, x[i])


def test_branches_and_loops() -> None:
    n = 9
    bits = np.array([0, 1, 40, 1 << 62, -(1 << 63), 6, 7, 8, 9], np.int64)
    x, largest = np.linspace(-1, 3, n).astype(np.float32), wp.array([-5.0, 7.0], dtype=float)
    o = wp.zeros((n, 2))
    wp.launch(run_statements, n, [wp.array(bits, dtype=wp.int64), wp.array(x, dtype=float), o, largest])
    assert o.numpy()[:, 0].tolist() == [-1, 0, 3, 62, 63, 1, 0, 3, 0]

    def sum_of(v: np.float32, count: int) -> float:
        r = np.float32(0.0)
        for k in range(count):
            part = v * np.float32(k)
            if k == 2 or not part > 1.0:
                r -= part
            elif k % 2 == 0 and k > 3:
                r += 2 * part
            else:
                r += part
            if r > 40:
                break
        return float(r + np.float32(0.5))

    np.testing.assert_allclose(o.numpy()[:, 1], [sum_of(v, k) for k, v in enumerate(x)], rtol=1e-6)
    assert largest.numpy().tolist() == [3.0, 7.0]


def test_a_larger_number_is_kept_by_many_threads() -> None:
    numbers = np.random.default_rng(3).permutation(200_000).astype(np.float32)
    o, largest = wp.zeros((len(numbers), 2)), wp.zeros(2)
    bits = wp.ones(len(numbers), dtype=wp.int64)
    x = wp.array(numbers, dtype=float)
    wp.launch(raise_only, len(numbers), [bits, x, o, largest])
    assert largest.numpy().tolist() == [numbers[::2].max(), numbers[1::2].max()]


@wp.kernel
def raise_only(bits: wp.array[wp.int64], x: wp.array[float], o: wp.array2d[float], largest: wp.array[float]):
    i = wp.tid()
    raised(largest, i % 2, x[i])


@wp.kernel
def roots(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = inverse_root(x[i])


def test_formulas_are_differentiated() -> None:
    x, y = wp.array([4.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(roots, 1, inputs=[x, y])
    tape.backward(grads={y: wp.ones(1)})
    assert x.grad.numpy()[0] == pytest.approx(-0.0625)


@wp.kernel
def call_never_ending(x: wp.array[float]):
    never_ending(x[0])


def test_other_texts_are_refused_where_they_are_called() -> None:
    assert isinstance(never_ending, NativeFunction)
    assert isinstance(with_replay, NativeFunction)
    with pytest.raises(dk.KernelError, match=r"(?s)never_ending has a body in C\+\+.*help: write it in Python"):
        wp.launch(call_never_ending, 1, inputs=[wp.zeros(1)])


@wp.func_native("""
#ifdef __CUDA_ARCH__
asm("trap;");
#endif
""")
def trap(): ...


@wp.func_native("return __shfl_xor_sync(0xffffffff, value, 1);")
def exchanged(value: float) -> float: ...


@wp.kernel
def call_trap(x: wp.array[float]):
    x[wp.tid()] = 2.0
    trap()


@wp.kernel
def call_exchanged(x: wp.array[float]):
    x[wp.tid()] = exchanged(x[wp.tid()])


@pytest.mark.parametrize(
    ("kernel", "works", "fails", "message"),
    [
        (
            call_trap,
            "cpu",
            "sm_90",
            r"body in C\+\+ for GPUs, which is not compiled here \(line 3 of it: the statement asm",
        ),
        (
            call_exchanged,
            "sm_90",
            "cpu",
            r"body in C\+\+ for processors, which is .* \(line 1 of it: a call of __shfl_xor_sync",
        ),
    ],
)
def test_a_text_for_one_kind_of_device_is_refused_on_the_other(
    kernel: wp.Kernel, works: str, fails: str, message: str
) -> None:
    dk.compile(kernel, target=works)
    with pytest.raises(dk.KernelError, match=message):
        dk.compile(kernel, target=fails)


def test_a_gpu_has_a_text_of_its_own() -> None:
    assert isinstance(lowest_bit, TranslatedFunction)
    assert isinstance(sync, TranslatedFunction)
    assert lowest_bit.on(False) is lowest_bit
    assert lowest_bit.on(True) not in (None, lowest_bit)
    assert unpacked.on(True) is unpacked
    assert isinstance(trap.on(True), str)
    assert isinstance(exchanged.on(False), str)
    assert body_of("WP_TILE_SYNC();", {}, gpu=True) == ["c_warps.block_wait()"]
    assert body_of("WP_TILE_SYNC();", {}, gpu=False) == []


def test_keys_tell_what_a_gpu_runs() -> None:
    def digest(text: str) -> bytes:
        @wp.func_native(text)
        def f(x: float) -> float: ...

        return encoded(f)

    from diffkern.frontend.syntax.encoding import encode_object

    def encoded(f: dk.Func) -> bytes:
        return encode_object(f, number_of)

    def number_of(func: dk.Func) -> int:
        seen.append(func)
        return len(seen)

    seen: list[dk.Func] = []
    both = digest("return x;")
    seen.clear()
    other = digest("#if defined(__CUDA_ARCH__)\nreturn x + 1.0f;\n#else\nreturn x;\n#endif")
    seen.clear()
    none = digest("#if defined(__CUDA_ARCH__)\nreturn g(x);\n#else\nreturn x;\n#endif")
    assert len({both, other, none}) == 3


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("return a + b * 2 - -c;", ["return ((a + (b * 2)) - (-c))"]),
        ("return a << 2 | b & ~c;", ["return ((a << 2) | (b & (~c)))"]),
        ("return a < b == c;", ["return (wp.int32((a < b)) == c)"]),
        ("return a && b || !c;", ["return (((a != 0) and (b != 0)) or (not (c != 0)))"]),
        ("return (a - b) - c;", ["return (((a - b)) - c)"]),
        ("return a - b - c;", ["return ((a - b) - c)"]),
        ("const unsigned int k = 0x80000000; return k ^ a;",
         ["k = wp.uint32(wp.uint32(0x80000000))", "return (k ^ wp.uint32(a))"]),
        ("return (uint32_t)a >> 31;", ["return (wp.uint32(a) >> wp.uint32(31))"]),
        ("return fmaxf(fabsf(a), 1.5e-3f);", ["return wp.max(wp.abs(wp.float32(a)), wp.float32(1.5e-3))"]),
        ("return 4294967296;", ["return wp.int64(4294967296)"]),
        ("return 5u;", ["return wp.uint32(5)"]),
        ("return true;", ["return True"]),
        ("return reinterpret_cast<unsigned int&>(a) + 1u;", ["return (wp.cast(a, wp.uint32) + wp.uint32(1))"]),
        ("return (*(int*)&a) * 2;", ["return ((wp.cast(a, wp.int32)) * 2)"]),
        ("return __float_as_int(a);", ["return wp.cast(wp.float32(a), wp.int32)"]),
        ("return reinterpret_cast<float4&>(a);", None),
        ("return *(int*)a;", None),
        ("", []),
        ("return unknown;", None),
        ("return (uint64_t)a.data;", ["return a.ptr"]),
        ("return reinterpret_cast<uint64_t>(a.data) + 4u;", ["return (a.ptr + wp.uint64(wp.uint32(4)))"]),
        ("return (uint64_t)a.data[b];", ["return wp.uint64(a[b])"]),
        ("auto q = wp::dot(a, b); return wp::vec2i(1, q.face);",
         ["q = wp.dot(a, b)", "return wp.vec2i(wp.int32(1), q.face)"]),
        ("float x, y; y = a; return y;",
         ["x = wp.float32()", "y = wp.float32()", "y = wp.float32(wp.float32(a))", "return y"]),
        ("a.data[b + c.data[1]] += 2;", ["a[(b + c[1])] += 2"]),
        ("int k = a.data[b]; a.data[b] += 1; return k;", None),
        ("a.data[b] = a.data[b] * 2;", None),
        ("a.data[b] *= 2;", None),
        ("a.data[b] = 2; c = a.data[b];", ["a[b] = 2", "c = wp.int32(a[b])"]),
        ("a.x.data[b] = a.shape[0] > 1 ? c : b;", ["a.x[b] = (c if (a.shape[0] > 1) else b)"]),
        ("return wp::no_such_function(a);", None),
        ("return a.data;", None),
        ("return a.;", None),
        ("return a ? b;", None),
        ("return *reinterpret_cast<const float4*>(&a.x);", None),
        ("return f(a);", None),
        ("return a ? b : c;", ["return (b if (a != 0) else c)"]),
        ("if (a) return b;", ["if (a != 0):", "    return b"]),
        ("if (a) { } else b = c;", ["if (a != 0):", "    pass", "else:", "    b = wp.int32(c)"]),
        ("a += 1;", ["a = wp.int32((a + 1))"]),
        ("int k = 3; k--; return k;",
         ["k = wp.int32(3)", "k = wp.int32((k - 1))", "return k"]),
        ("{ int k = a; } return k;", None),
        (
            "for (int k = 0; k < a; k++) { if (k == 2) continue; b += k; }",
            [
                "k = wp.int32(0)", "while (k < a):", "    if (k == 2):", "        k = wp.int32((k + 1))",
                "        continue", "    b = wp.int32((b + k))", "    k = wp.int32((k + 1))",
            ],
        ),
        ("float* p = wp::address(a, b); if (c < *p) *p = c;",
         ["p_index = wp.int32(b)", "wp.atomic_min(a, p_index, c)"]),
        ("float* p = wp::address(a, b); if (c < *p) *p = b;", None),
        ("float* p = wp::address(a, b); *p = c;", None),
        ("float* p = wp::address(k, b);", None),
        ("if (a) {", None),
        ("if a return b;", None),
        ("}", None),
        ("k = 2;", None),
        ("return a b;", None),
        ("return (a;", None),
        ("return a +;", None),
        ("#if WP_OTHER\nreturn a;\n#endif", None),
    ],
)  # fmt: skip
def test_texts(text: str, lines: list[str] | None) -> None:
    assert body_of(text, dict.fromkeys("abc", "int32"), gpu=False) == lines


@pytest.mark.parametrize(
    "condition",
    ["#if defined(__CUDA_ARCH__)", "#if __CUDA_ARCH__", "#ifdef __CUDA_ARCH__", "#if defined __CUDA_ARCH__"],
)
def test_branches_of_the_preprocessor(condition: str) -> None:
    text = f"{condition}\ngpu\n#else\ncpu\n#endif\nboth // not this"
    assert preprocessed(text, gpu=True).split() == ["gpu", "both"]
    assert preprocessed(text, gpu=False).split() == ["cpu", "both"]
    turned = "#ifndef __CUDA_ARCH__" if "ifdef" in condition else condition.replace("#if ", "#if !")
    assert preprocessed(f"{turned}\ncpu\n#endif", gpu=False).split() == ["cpu"]
    assert preprocessed(f"{turned}\ncpu\n#endif", gpu=True).split() == []


@wp.struct
class Table:
    size: int
    rows: wp.array2d(dtype=float)
    offsets: wp.array(dtype=int)


@wp.func_native("""
    const int group = tid >> 1;
    if ((tid & 1) != 0 || group >= table.offsets.shape[0] - 1) return;
    for (int row = table.offsets.data[group]; row < table.offsets.data[group + 1]; ++row) {
        float sum = 0.0f;
        for (int k = 0; k < table.size; ++k)
            sum += table.rows.data[row * table.size + k] * (k == 0 ? 2.0f : v.data[k]);
        const auto clamped = wp::min(sum, 40.0f);
        out.data[row * 2] = clamped;
        out.data[row * 2 + 1] -= clamped;
    }
""")
def row_sums(tid: int, table: Table, v: wp.array(dtype=float), out: wp.array2d(dtype=float)): ...


@wp.kernel
def sum_rows(table: Table, v: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    row_sums(wp.tid(), table, v, out)


def test_elements_of_arrays_and_fields_at_their_places_in_memory() -> None:
    table = Table()
    rows = np.arange(12.0).reshape(4, 3)
    table.size, table.rows, table.offsets = 3, wp.array(rows, dtype=float), wp.array([0, 1, 3], dtype=int)
    v, out = wp.array([9.0, 1.0, 0.5], dtype=float, requires_grad=True), wp.ones((4, 2), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(sum_rows, 8, inputs=[table, v, out])
    tape.backward(grads={out: wp.array([[1.0, 0.0]] * 4, dtype=float)})
    sums = np.minimum(rows @ [2.0, 1.0, 0.5], 40.0)
    np.testing.assert_allclose(out.numpy()[:3], np.stack([sums, 1.0 - sums], axis=1)[:3])
    assert out.numpy()[3].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(v.grad.numpy(), [0.0, *rows[:3, 1:].sum(axis=0)])


@wp.func_native("""
const float4 four = *reinterpret_cast<const float4*>(&t.data.ptr[row * 8 + column]);
return wp::vec4f(four.x, four.y, four.z, four.w);
""")
def four_of(t: wp.tile[float, 4, 8], row: int, column: int) -> wp.vec4: ...


@wp.kernel
def take_four(x: wp.array2d(dtype=float), y: wp.array(dtype=wp.vec4)):
    t = wp.tile_load(x, shape=(4, 8))
    y[0] = four_of(t, 1, 4) + 2.0 * four_of(t, 3, 0)


def test_several_elements_of_a_tile_that_are_read_at_once() -> None:
    x, y = np.arange(32.0).reshape(4, 8), wp.zeros(1, dtype=wp.vec4)
    wp.launch_tiled(take_four, dim=[1], inputs=[wp.array(x, dtype=float), y], block_dim=32)
    np.testing.assert_array_equal(y.numpy()[0], x[1, 4:] + 2.0 * x[3, :4])


@wp.func_native("""
const wp::vec3 direction = q - p;
float t, u, v, sign;
if (wp::dot(direction, direction) == 0.0f ||
    !wp::intersect_ray_tri_woop(p, direction, a, b, c, t, u, v, sign, nullptr) || t > 1.0f)
    return wp::vec4(-1.0f, 0.0f, 0.0f, 0.0f);
return wp::vec4(t, u, v, sign > 0.0f ? 1.0f : -1.0f);
""")
def where_met(p: wp.vec3, q: wp.vec3, a: wp.vec3, b: wp.vec3, c: wp.vec3) -> wp.vec4: ...


@wp.kernel
def meet(p: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    y[i] = where_met(p[i], q[i], wp.vec3(0.0, 0.0, 0.0), wp.vec3(4.0, 0.0, 0.0), wp.vec3(0.0, 4.0, 0.0))


def test_a_segment_meets_a_triangle() -> None:
    p = [[1.0, 1.0, 2.0], [1.0, 1.0, -1.0], [1.0, 1.0, 2.0], [3.0, 3.0, 1.0], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0]]
    q = [[1.0, 1.0, -2.0], [1.0, 1.0, 3.0], [1.0, 1.0, 1.0], [3.0, 3.0, -1.0], [0.5, 0.5, 0.5], [1.0, 1.0, 2.0]]
    y = wp.zeros(6, dtype=wp.vec4)
    wp.launch(meet, 6, inputs=[wp.array(p, dtype=wp.vec3), wp.array(q, dtype=wp.vec3), y])
    none = [-1.0, 0.0, 0.0, 0.0]
    expected = [[0.5, 0.5, 0.25, 1.0], [0.25, 0.5, 0.25, -1.0], none, none, none, none]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@wp.func_native("a.data[k] = (float)k; b.data[k] = 2.0f * (float)k;")
def numbered(a: wp.array3d(dtype=float), b: wp.array(dtype=float), k: int): ...


@wp.kernel
def number(a: wp.array3d(dtype=float), b: wp.array(dtype=float)):
    numbered(a, b, wp.tid())


def test_elements_of_arrays_of_several_axes() -> None:
    a, b = wp.zeros((2, 3, 4)), wp.zeros(24)
    wp.launch(number, 24, inputs=[a, b])
    np.testing.assert_array_equal(a.numpy(), np.arange(24.0).reshape(2, 3, 4))
    np.testing.assert_array_equal(b.numpy(), 2.0 * np.arange(24.0))
