"""A program with errors that type checkers find, each in a line of its own that ends in "# error"."""

import diffkern as dk

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
