"""The Mandelbrot set: a device function, and a grid in two dimensions that strides over the image."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def escape_time(re, im, limit):
    x = 0.0
    y = 0.0
    for i in range(limit):
        x, y = x * x - y * y + re, 2.0 * x * y + im
        if x * x + y * y >= 4:
            return i
    return limit


@cuda.jit
def mandelbrot(min_x, max_x, min_y, max_y, image, limit):
    height = image.shape[0]
    width = image.shape[1]
    dx = (max_x - min_x) / width
    dy = (max_y - min_y) / height
    start_x, start_y = cuda.grid(2)
    grid_x = cuda.gridDim.x * cuda.blockDim.x
    grid_y = cuda.gridDim.y * cuda.blockDim.y
    for x in range(start_x, width, grid_x):
        real = min_x + x * dx
        for y in range(start_y, height, grid_y):
            imag = min_y + y * dy
            image[y, x] = escape_time(real, imag, limit)


def main():
    image = np.zeros((24, 36), dtype=np.uint8)
    d_image = cuda.to_device(image)
    mandelbrot[(2, 3), (8, 4)](-2.0, 1.0, -1.0, 1.0, d_image, 20)
    d_image.copy_to_host(image)
    return image
