"""A perceptron of two layers that learns a sine, with Adam."""

import numpy as np
import warp as wp
from warp_nn import nn
from warp_nn.optimizers import Adam

PACKAGE = "warp-nn"
STEPS = 51
TOLERANCE = 1e-4


@wp.kernel
def squares(predicted: wp.array2d[float], wanted: wp.array2d[float], loss: wp.array[float]):
    i, j = wp.tid()
    difference = predicted[i, j] - wanted[i, j]
    wp.atomic_add(loss, 0, difference * difference / float(predicted.shape[0]))


class Training:
    def __init__(self):
        random = np.random.default_rng(7)
        x = np.linspace(-2.0, 2.0, 64, dtype=np.float32)[:, None]
        self.x = wp.array(x, dtype=float, requires_grad=True)
        self.y = wp.array(np.sin(2.0 * x), dtype=float)
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Swish(), nn.Linear(32, 1))
        for parameter in self.net.parameters():
            parameter.assign(random.normal(size=parameter.shape).astype(np.float32) * 0.5)
        self.optimizer = Adam(self.net.parameters(), lr=1e-2)
        self.losses = []

    def step(self):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            predicted = self.net(self.x)
            wp.launch(squares, dim=predicted.shape, inputs=[predicted, self.y], outputs=[loss])
        tape.backward(loss)
        self.optimizer.step()
        tape.zero()
        self.losses.append(float(loss.numpy()[0]))

    def outputs(self):
        found = {f"parameter {k}": p.numpy() for k, p in enumerate(self.net.parameters())}
        return {**found, "losses": np.array(self.losses)}


def begin():
    return Training()
