"""The gradient of the height of a double pendulum after more and more steps."""

import sys

import diffkern as dk


@dk.kernel
def swing(angle: dk.array(dtype=dk.vec2d), speed: dk.array(dtype=dk.vec2d), h: dk.float64):
    i = dk.tid()
    a, w = angle[i], speed[i]
    d = a[0] - a[1]
    g = dk.float64(9.81)
    two = dk.float64(2.0)
    bottom = dk.float64(3.0) - dk.cos(two * d)
    first = (
        -(
            g * dk.float64(3.0) * dk.sin(a[0])
            + g * dk.sin(a[0] - two * a[1])
            + two * dk.sin(d) * (w[1] * w[1] + w[0] * w[0] * dk.cos(d))
        )
        / bottom
    )
    second = two * dk.sin(d) * (two * w[0] * w[0] + two * g * dk.cos(a[0]) + w[1] * w[1] * dk.cos(d)) / bottom
    moved = w + h * dk.vec2d(first, second)
    speed[i] = moved
    angle[i] = a + h * moved


@dk.kernel
def height(angle: dk.array(dtype=dk.vec2d), loss: dk.array(dtype=dk.float64)):
    a = angle[0]
    loss[0] = -dk.cos(a[0]) - dk.cos(a[1])


angle = dk.array([(2.0, 2.5)], dtype=dk.vec2d, requires_grad=True)
speed = dk.zeros(1, dtype=dk.vec2d, requires_grad=True)
loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)


def tip() -> dk.array:
    dk.launch(height, dim=1, inputs=[angle], outputs=[loss])
    return loss


report = dk.testing.horizon(
    lambda k: dk.launch(swing, dim=1, inputs=[angle, speed, 0.01]), 4096, loss=tip, inputs=[angle, speed]
)
if __name__ == "__main__":
    print("steps   norm of the gradient  cosine  agreement of differences")
    for row in report.rows:
        sure = "yes" if row.disagreement < 0.01 else "no, so the cosine says nothing"
        print(f"{row.steps:5d}  {row.norm:21.1e}  {row.cosine:6.3f}  {sure}")
    if len(sys.argv) > 1:
        report.plot(sys.argv[1])
