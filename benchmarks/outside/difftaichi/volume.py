"""A volume's density is found from its shadows: rays from seven sides add up what they cross."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math

import numpy as np

import diffkern as dk

from .simulation import Simulation, simulation

SIDE, PIXELS, STRIDE = 128, 512, 0.02
TORUS = {
    "marching_steps = 1000": "marching_steps = 100",
    "if not os.path.exists('bunny_128.bin')": "if False",
    '    volume = np.fromfile("bunny_128.bin", dtype=np.float32).reshape(\n'
    "        (density_res, density_res, density_res))\n": "",
    "    fill_density(volume)\n": "",
    "    #create_torus_density()\n": "    create_torus_density()\n",
}


@dk.kernel
def march(density, image, angle, samples: int, view: int):
    """Add up the densities of the cells in which the samples of each pixel's ray lie."""
    pixel = dk.tid()
    x, y = pixel // PIXELS, pixel % PIXELS
    c, s = dk.cos(angle), dk.sin(angle)
    ray = dk.normalize(dk.vector(float(x) / 256.0 - 1.0, float(y) / 256.0 - 1.0, c * 0.0 - 1.0))
    ray = dk.vector(ray[0] * c + ray[2] * s, ray[1], -ray[0] * s + ray[2] * c)
    origin = dk.vector(s + 0.5, s * 0.0 + 0.5, c + 0.5)
    for k in range(samples):
        point = origin + float(k + 1) * STRIDE * ray
        i, j, m = int(dk.floor(point[2] * 128.0)), int(dk.floor(point[1] * 128.0)), int(dk.floor(point[0] * 128.0))
        if 0 <= i < SIDE and 0 <= j < SIDE and 0 <= m < SIDE:
            image[view, y, x] += density[i, j, m]


@dk.kernel
def compare(image, target, loss, view: int):
    i, j = dk.tid()
    d = image[view, i, j] - target[view, i, j]
    loss[0] += d * d / float(PIXELS * PIXELS)


@simulation("volume_renderer")
class Shadows(Simulation):
    """The density of a torus, as the published program can make it, is found from its images.

    A step is a sample of each ray; a hundred take it to the other side of the box, and what lies outside adds nothing.
    """

    published_steps, iterations, checked_steps = 100, 100, 100
    scale = "a torus for the bunny, 100 of 1000 samples per ray (all in the volume are among them), on both sides"
    changes = TORUS
    views = 7

    def build(self):
        z, y, x = np.mgrid[0:SIDE, 0:SIDE, 0:SIDE] / SIDE - 0.5
        torus = np.hypot(np.hypot(y, z) - 0.4, x) < 0.1
        self.images, self.target = (self.field(self.views, PIXELS, PIXELS) for _ in range(2))
        self.density = self.parameter("density", torus / SIDE)
        for view in range(self.views):
            self.shadow(self.target, view)
        self.density.zero_()

    def shadow(self, images, view):
        """Add up one view."""
        angle = self.scalar(math.pi / self.views * view - math.pi / 2)
        dk.launch(march, dim=PIXELS * PIXELS, inputs=[self.density, images, angle, self.steps, view])

    def forward(self):
        self.loss.zero_()
        self.images.zero_()
        for view in range(self.views):
            self.shadow(self.images, view)
            dk.launch(compare, dim=(PIXELS, PIXELS), inputs=[self.images, self.target, self.loss, view])

    def descend(self):
        self.density.assign(np.maximum(self.density.numpy() - 15.0 * self.density.grad.numpy(), 0.0))
