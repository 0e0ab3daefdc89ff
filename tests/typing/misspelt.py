"""A program with errors that type checkers find, each in a line of its own that ends in "# error"."""

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda

x = dk.zeroes(3)  # error
y = dk.zeros(3).fil_(1.0)  # error
z = dk.sinn(1.0)  # error
v = dk.vec3(1.0, 2.0, 3.0) + 1  # error
t = dk.Tape().backwards(x)  # error
s = dk.launch(3, 4)  # error


@dk.struct
class Spring:
    rest: float = 1.0


Spring(length=1.0)  # error

with dk.Tape() as tape:
    tape.backwrd()  # error
with dk.record() as sequence:
    sequence.replai()  # error
dk.rand_init()  # error
wp.lanuch(None, 1)  # error
wp.vec9(1.0)  # error
wp.zeros(3).fil_(1.0)  # error
with wp.Tape() as of_warp:
    of_warp.backwrd()  # error
cuda.gird(1)  # error
cuda.threadIdx.w  # error
