"""Pieces of text that are put into kernels: statements, expressions, names, annotations, most of them wrong there."""

from __future__ import annotations

__all__ = ["ANNOTATIONS", "DECORATORS", "EXPRESSIONS", "FOREIGN", "HEADERS", "STATEMENTS", "TARGETS"]

STATEMENTS = """\
try:\\n    {a} = 1.0\\nexcept ValueError:\\n    {a} = 2.0
try:\\n    pass\\nfinally:\\n    pass
with open('f') as {a}:\\n    pass
with dk.ScopedTimer('t'):\\n    {a} = 1.0
class Inner:\\n    x = 1
def inner(u):\\n    return u * {a}
yield {a}
yield from range(3)
await {a}
async def inner():\\n    pass
del {a}
del {a}[0]
global {a}
nonlocal {a}
import os
from math import sin
raise ValueError({a})
raise
assert {a}
assert {a}, 'text'
assert isinstance({a}, float)
{a}, *rest = (1.0, 2.0, 3.0)
*rest, = {a}
({a}, ({b}, 1.0)) == 2
[{a}, {b}] = 1.0, 2.0
{a} = {b} = 1.0
{a} = {b}, {a}
{a}, {b} = {b}
{a}, {b} = 1.0
{a}, {b} = 1.0, 2.0, 3.0
{a}: int = 1.5
{a}: str = 'x'
{a}: float
{a} += 'x'
{a} += None
{a} //= 0
{a} @= {b}
{a} **= -1
{a} <<= 2
{a}.x = 1.0
{a}.grad = 1.0
{a}.shape = (3,)
{a}[0] = 'x'
{a}[0.5] = 1.0
{a}['x'] = 1.0
{a}[None] = 1.0
{a}[...] = 1.0
{a}[:] = 0.0
{a}[0][0][0] = 1.0
{a}[0, 0, 0, 0, 0] = 1.0
{a}[()] = 1.0
{a}[{b}] = {a}
{a}[-1] = {b}
print({a}, file=3)
print('%d' % {a})
print(f'{{{a}!r:>{{3}}}}')
dk.printf('%s %d', {a})
dk.printf({a})
while True:\\n    pass
while {a}:\\n    break
while {a} > 0:\\n    {b} = 1.0\\nelse:\\n    {b} = 2.0
for {a} in {b}:\\n    pass
for {a} in 3:\\n    pass
for {a} in range(0, 10, 0):\\n    pass
for {a} in range(1.5):\\n    pass
for {a} in range(1, 2, 3, 4):\\n    pass
for {a} in range():\\n    pass
for {a}[0] in range(3):\\n    pass
for {a}, {b} in enumerate(range(3), start={a}):\\n    pass
for {a}, {b} in zip((1.0, 2.0), (1.0,), strict=True):\\n    pass
for {a} in reversed({b}):\\n    pass
for {a} in 'abc':\\n    pass
for {a} in {{1, 2}}:\\n    pass
for k in range(3):\\n    {a} = {a} * {b}\\nelse:\\n    {a} = 1.0
break
continue
return {a}
return
return {a}, {b}
if {a}:\\n    fresh = 1.0\\n{b} = fresh
if {a} == {b} == 1:\\n    return
if {a} is None:\\n    {b} = 1.0
if not {a}:\\n    {a} = 'x'
if {a} > 0:\\n    {a} = 1.0\\nelse:\\n    {a} = (1.0, 2.0)
match {a}:\\n    case [x, y]:\\n        pass
match {a}:\\n    case {{'k': 1}}:\\n        pass
match {a}:\\n    case int():\\n        pass
match {a}:\\n    case 1.5 | 'x':\\n        pass
match {a}:\\n    case k if k > 0:\\n        pass
lambda: {a}
'a string'
...
pass
{a}
{a}()
{a}.append(1)
{a}.fill(0.0)
{a}.numpy()
kernel_itself_({a})
dk.launch({a}, dim=1)
dk.syncthreads()
dk.atomic_add({a}, 0, {b})
dk.atomic_add({a}, {b})
dk.atomic_max({a}, 'x', 1.0)
dk.atomic_cas({a}, 0, 1, 2)
dk.tile_store({a}, {b})
dk.tile_store({a}, dk.tile_zeros(shape=(3, 3), dtype=float))
dk.adjoint[{a}] += 1.0
dk.expect_eq({a}, {b})
dk.static(print({a}))
dk.static(1 / 0)
{a} = dk.static({b})
{a} = dk.static(open)
{a} = dk.tid()
{a}, {b} = dk.tid()
{a}, {b}, c, d, e = dk.tid()
s = dk.shared_array({a}, float)
s = dk.shared_array(4, 'x')
s = dk.shared_array((1 << 20,), float)
s = dk.zeros(4)
s = dk.zeros(4, dtype=str)
s = dk.zeros(shape={a}, dtype=float)
s = dk.zeros(shape=(1 << 30,), dtype=float)\
""".split("\n")
"""Statements; {a} and {b} are names of the kernel, \\n a new line."""

EXPRESSIONS = """\
'text'
b'bytes'
None
...
True
3j
1e999
1 << 70
-(1 << 63)
10 ** 400
0
-1
0.0
1.5
()
(1.0,)
(1.0, 'x')
[1.0, 2.0]
[]
{{}}
{{'a': 1}}
{{1, 2}}
[x for x in range(3)]
(x for x in range(3))
{{x: 1 for x in range(3)}}
lambda x: x
(lambda x: x)({a})
(fresh := {a})
({a} := 1.0)
f'{{{a}}}'
{a} if {b} else 'x'
{a} if {b} else None
1.0 if {a} else (1.0, 2.0)
{a} and {b}
not {a}
~{a}
-{a}
+{a}
{a} @ {b}
{a} ** {b}
{a} ** 0.5
{a} // 0
{a} % 0
{a} / 0
1 // 0
1 % 0
1 << -1
{a} << 99
{a} in {b}
{a} is {b}
{a} < {b} < {a}
{a} == 'x'
{a}.x
{a}.xyzw
{a}.T
{a}.shape
{a}.shape[9]
{a}.shape[{b}]
{a}.size
{a}.__class__
{a}.__dict__['x']
{a}.real
{a}[0]
{a}[9]
{a}[-9]
{a}[1.5]
{a}['x']
{a}[None]
{a}[:]
{a}[::0]
{a}[1:{b}]
{a}[0, :, ...]
{a}[{b}]
{a}[{a}]
{a}[0][0]
{a}[0, 0]
{a}[0, 0, 0, 0, 0]
{a}[()]
{a}[True]
{a}[1 << 40]
{a}()
{a}({b})
{a}.foo({b})
{a}(*{b})
dk
dk.vec3
dk.float32
dk.sin
dk.sin()
dk.sin({a}, {b})
dk.sin(x={a})
dk.sin(*{a})
dk.sin(**{a})
dk.sin('x')
dk.vec3()
dk.vec3({a})
dk.vec3({a}, {b})
dk.vec3('x')
dk.vec3(1.0, 2.0, 3.0, 4.0)
dk.vec3(1.0, 2.0, 3.0)
dk.vec3(x=1.0)
dk.vec2(1.0, 2.0) + dk.vec3(1.0, 2.0, 3.0)
dk.vec3(1.0, 2.0, 3.0) * dk.vec3(1.0, 2.0, 3.0)
dk.vec3(1.0)[3]
dk.vec3(1.0)[{a}]
dk.vec3(1.0).w
dk.mat33({a})
dk.mat33(1.0, 2.0)
dk.mat22(1.0) @ dk.vec3(1.0)
dk.mat33(1.0)[3, 3]
dk.mat33(1.0)[0, 0, 0]
dk.matrix({a}, shape=(2, {b}))
dk.matrix(1.0, shape=(0, 0))
dk.matrix(1.0, shape='x')
dk.vector()
dk.vector({a}, length={b})
dk.vector(1.0, length=-1)
dk.vector({a}, dtype=str)
dk.identity({a}, float)
dk.quat({a})
dk.quat(1.0, 2.0)
dk.quat_rotate({a}, {b})
dk.transform({a}, {b})
dk.dot({a}, {b})
dk.cross({a}, {b})
dk.length({a})
dk.normalize({a})
dk.inverse({a})
dk.determinant({a})
dk.outer({a}, {b})
dk.min()
dk.min({a})
dk.max({a}, 'x')
dk.clamp({a})
dk.where({a}, {b}, 'x')
dk.where({a}, 1.0, (1.0,))
dk.select({a})
dk.lerp({a}, {b})
dk.step({a}, {b}, {a})
dk.randf({a})
dk.randf(1)
dk.rand_init()
dk.noise({a}, {b})
dk.tile_load({a}, shape=(4,))
dk.tile_load({a}, shape={b})
dk.tile_load({a}, shape=(0,))
dk.tile_load({a}, shape=(1 << 20, 1 << 20))
dk.tile_zeros(shape=4, dtype='x')
dk.tile_matmul(dk.tile_zeros(shape=(2, 3), dtype=float), dk.tile_zeros(shape=(2, 3), dtype=float))
dk.tile_zeros(shape=(2, 3), dtype=float) + dk.tile_zeros(shape=(3, 2), dtype=float)
dk.tile_sum({a})
dk.tile_map({a}, {b})
dk.untile({a})
dk.grad({a})
dk.grad(dk.sin)({a})
dk.vjp({a}, {b})
dk.stop_gradient({a})
dk.tid
dk.tid(1)
dk.tid()
dk.static({a})
dk.static('x')
dk.static({{}})
dk.static(1 / 0)
dk.static(dk)
dk.cast({a}, float)
dk.zeros({a})
dk.array({a})
dk.float16({a})
dk.bool({a})
dk.uint8(-1)
dk.int8(300)
dk.int32('x')
float()
float('x')
float({a}, {b})
int({a})
int('x', 16)
bool({a})
str({a})
len({a})
len()
abs({a})
abs('x')
min({a})
max({a}, {b}, 'x')
sum({a})
sorted({a})
round({a}, {b})
pow({a})
range(3)
type({a})
isinstance({a}, float)
getattr({a}, 'x')
open('f')
eval('1')
input()
super()
print({a})
math.sin({a})
math.sin()
math.factorial({a})
math.inf
np.sin({a})
np.zeros(3)
np.array([1.0])
np.float32
np.float32({a})
np.random.rand()\
""".split("\n")

FOREIGN = (
    "wp.mesh_query_point wp.hash_grid_query wp.volume_sample_f wp.tile_load wp.printf wp.address_of wp.bvh_query_aabb "
    "wp.texture_sample wp.func wp.launch wp.zeros wp.types wp.config wp.quat_from_axis_angle wp.tid wp.nonsense "
    "cuda.grid cuda.threadIdx.x cuda.syncwarp cuda.shfl_sync cuda.atomic.add cuda.local.array cuda.const.array_like "
    "cuda.cg.this_grid cuda.laneid cuda.to_device cuda.nonsense cuda.libdevice.sin cuda.fp16.hadd cuda.vote "
    "dk.launch dk.Tape dk.zeros dk.kernel dk.func dk.config dk.nonsense dk.sqr dk.synchronize dk.array dk.struct "
    "np.cumsum np.dot np.linalg.norm np.nonsense math.nonsense math.gcd math.comb undefined_name os sys torch.sin"
).split()
"""Names that a kernel cannot call, or not like that."""

TARGETS = (
    "{a} {a}[0] {a}[0,0] {a}.x {a}.shape {a}() {a}[0.5] {a}['k'] {a}[:] {a}[0][0] ({a},{b}) [{a},{b}] ({a},*{b}) dk.x "
    "{a}.x.y {a}[{b}] {a}[{b},{b}] {a}[{b}].x dk.vec3(1.0)[0] {a}[-1] {a}[0].foo"
).split()

ANNOTATIONS = """\
int
float
bool
str
list
tuple
dict
object
None
3
'text'
complex
list[float]
tuple[float, float]
dk.array
dk.array()
dk.array(dtype=float)
dk.array(dtype=int)
dk.array(dtype=float, ndim=2)
dk.array(dtype=float, ndim=9)
dk.array(dtype=float, ndim='x')
dk.array(dtype=str)
dk.array(dtype=list)
dk.array(dtype=dk.vec3)
dk.array(dtype=dk.quat)
dk.array(dtypes=float)
dk.array[float]
dk.array[float, 2, 3]
dk.array[str]
dk.vec3
dk.mat33
dk.quat
dk.float16
dk.uint8
dk.float64
dk.sin
dk.kernel
dk.tile(4)
dk
np.float32
np.ndarray
np.zeros(3)
undefined_name
dk.nonsense
(float, int)
lambda: 1
float | int
float | None
print
wp.array(dtype=wp.vec3)
wp.Mesh
wp.uint64
cuda.grid\
""".split("\n")

HEADERS = (
    "*args|**kwargs|extra|extra: float|extra: float = 1.0|extra: str = 'x'|extra=None|*, extra|*, extra: float = 1.0|"
    "*args, extra|extra: dk.array(dtype=float) = None|extra=[]|extra: int = 1.5"
).split("|")

DECORATORS = (
    "dk.kernel()|dk.kernel(enable_backwards=True)|dk.kernel(enable_backward=3)|dk.kernel(mode='fast')|dk.kernel(mode=3)|"
    "dk.kernel(block_dim='x')|dk.kernel(block_dim=0)|dk.kernel(block_dim=5000)|dk.kernel(block_dim=1.5)|"
    "dk.kernel(stack_bytes=-1)|dk.kernel(stack_bytes='x')|dk.kernel(launch_bounds='x')|dk.kernel(launch_bounds=(1,))|"
    "dk.kernel(max_registers='many')|dk.kernel(compiler='gcc')|dk.kernel(3)|dk.kernel(enable_backward=False)|"
    "dk.kernel(slots=3)|dk.kernel(unknown=1)|dk.func|dk.struct|dk.static|staticmethod|classmethod|property|"
    "dk.func_grad(3)|dk.kernel(dk.kernel)|wp.kernel|wp.kernel(name=3)|wp.kernel(module=3)|wp.kernel(enable_backward='x')|"
    "wp.kernel(module_options=3)|wp.kernel(launch_bounds='x')|wp.func|wp.struct|wp.overload|cuda.jit|cuda.jit('void(x)')|"
    "cuda.jit('void(float32[:])')|cuda.jit(device=True)|cuda.jit(foo=1)|cuda.jit(link=['a'])|cuda.jit(max_registers='x')"
).split("|")
