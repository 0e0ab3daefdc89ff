"""A sphere over a floor: device functions that return tuples, local arrays for colours, an image of bytes."""

import math

import numpy as np
from numba import cuda, float32


@cuda.jit(device=True)
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@cuda.jit(device=True)
def hit_sphere(origin, direction, centre, radius):
    ox = origin[0] - centre[0]
    oy = origin[1] - centre[1]
    oz = origin[2] - centre[2]
    oc = (ox, oy, oz)
    b = dot(oc, direction)
    c = dot(oc, oc) - radius * radius
    discriminant = b * b - c
    if discriminant < 0.0:
        return -1.0
    return -b - math.sqrt(discriminant)


@cuda.jit(device=True, inline=True)
def normalized(x, y, z):
    scale = 1.0 / math.sqrt(x * x + y * y + z * z)
    return x * scale, y * scale, z * scale


@cuda.jit
def render(image, spheres, light):
    px, py = cuda.grid(2)
    height, width, _ = image.shape
    if px >= width or py >= height:
        return

    colour = cuda.local.array(3, dtype=float32)
    for c in range(3):
        colour[c] = 0.1

    direction = normalized((px + 0.5) / width - 0.5, 0.5 - (py + 0.5) / height, -1.0)
    origin = (0.0, 0.0, 0.0)
    nearest = 1e9
    for s in range(spheres.shape[0]):
        centre = (spheres[s, 0], spheres[s, 1], spheres[s, 2])
        t = hit_sphere(origin, direction, centre, spheres[s, 3])
        if t > 0.0 and t < nearest:
            nearest = t
            hx = t * direction[0] - centre[0]
            hy = t * direction[1] - centre[1]
            hz = t * direction[2] - centre[2]
            normal = normalized(hx, hy, hz)
            brightness = max(0.0, dot(normal, (light[0], light[1], light[2])))
            for c in range(3):
                colour[c] = 0.15 + 0.8 * brightness * spheres[s, 4 + c]
    for c in range(3):
        image[py, px, c] = np.uint8(255.0 * min(colour[c], 1.0))


def main():
    spheres = np.array(
        [
            [0.0, 0.1, -3.0, 1.0, 1.0, 0.2, 0.1],
            [1.1, -0.3, -2.4, 0.5, 0.1, 0.4, 1.0],
            [0.0, -101.0, -3.0, 100.0, 0.4, 0.7, 0.3],
        ]
    )
    light = np.array([0.6, 0.7, 0.4])
    light /= np.linalg.norm(light)
    image = np.zeros((20, 28, 3), dtype=np.uint8)
    threads = (8, 8)
    blocks = (math.ceil(28 / threads[0]), math.ceil(20 / threads[1]))
    render[blocks, threads](image, spheres, light)
    return image
