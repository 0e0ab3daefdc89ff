"""Statistics of tables, histograms, filters."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import diffkern as dk

from .ports import port
from .products import F


@dk.kernel
def column_means(data, mean):
    j = dk.tid()
    s = F(0.0)
    for i in range(data.shape[0]):
        s += data[i, j]
    mean[j] = s / F(data.shape[0])


@dk.kernel
def centre(data, mean):
    i, j = dk.tid()
    data[i, j] -= mean[j]


def centred(data):
    """Subtract the mean of each column in place."""
    mean = dk.zeros(data.shape[1], dtype=data.dtype)
    dk.launch(column_means, dim=data.shape[1], inputs=[data], outputs=[mean])
    dk.launch(centre, dim=data.shape, inputs=[data, mean])


def second_moments(data, scale):
    """Return the products of all pairs of columns."""
    return dk.matmul(data.T, data, alpha=scale)


@port("covariance", "data")
def covariance(M, float_n, data):
    centred(data)
    return (second_moments(data, 1.0 / (float_n - 1.0)),)


@port("covariance2", "data")
def covariance2(M, float_n, data):
    return covariance(M, float_n, dk.clone(data))


@dk.kernel
def standardize(data, scale):
    i, j = dk.tid()
    data[i, j] /= scale[j]


@dk.kernel
def column_scales(data, scale):
    """The root of the sum of squares; columns that hardly vary keep theirs."""
    j = dk.tid()
    s = F(0.0)
    for i in range(data.shape[0]):
        s += data[i, j] * data[i, j]
    n = F(data.shape[0])
    deviation = dk.sqrt(s / n)
    scale[j] = dk.sqrt(n) * dk.where(deviation <= 0.1, F(1.0), deviation)


@dk.kernel
def ones_on_diagonal(a):
    i = dk.tid()
    a[i, i] = 1.0


@port("correlation", "data", noise=0.1)
def correlation(M, float_n, data):
    centred(data)
    scale = dk.zeros(M, dtype=data.dtype)
    dk.launch(column_scales, dim=M, inputs=[data], outputs=[scale])
    dk.launch(standardize, dim=data.shape, inputs=[data, scale])
    found = second_moments(data, 1.0)
    dk.launch(ones_on_diagonal, dim=M, inputs=[found])
    return (found,)


@dk.kernel
def extremes(x, low, high):
    i = dk.tid()
    dk.atomic_min(low, 0, x[i])
    dk.atomic_max(high, 0, x[i])


@dk.kernel
def histogram(data, radius, low, high, total, count):
    """Bins of equal width, the last with its right end, as in NumPy."""
    i = dk.tid()
    n = total.shape[0]
    width = (high[0] - low[0]) / F(n)
    k = dk.min(int((radius[i] - low[0]) / width), n - 1)
    if radius[i] < low[0] + F(k) * width:
        k -= 1
    elif k < n - 1 and radius[i] >= low[0] + F(k + 1) * width:
        k += 1
    total[k] += data[i]
    count[k] += 1.0


@dk.kernel
def means(total, count, out):
    i = dk.tid()
    out[i] = total[i] / count[i]


@port("azimint_hist", "data")
def azimint_hist(data, radius, npt):
    low, high = dk.full(1, 1e300, dtype=F), dk.full(1, -1e300, dtype=F)
    total, count, out = (dk.zeros(npt, dtype=F) for _ in range(3))
    n = data.shape[0]
    dk.launch(extremes, dim=n, inputs=[radius, low, high])
    dk.launch(histogram, dim=n, inputs=[data, radius, low, high, total, count])
    dk.launch(means, dim=npt, inputs=[total, count], outputs=[out])
    return (out,)


@dk.kernel
def rings(data, radius, high, total, count):
    """Half-open rings up to the greatest radius, which belongs to none."""
    i = dk.tid()
    n = total.shape[0]
    r = radius[i]
    k = int(r * F(n) / high[0])
    if r < high[0] * F(k) / F(n):
        k -= 1
    elif r >= high[0] * F(k + 1) / F(n):
        k += 1
    if k < n:
        total[k] += data[i]
        count[k] += 1.0


@port("azimint_naive", "data")
def azimint_naive(data, radius, npt):
    low, high = dk.full(1, 1e300, dtype=F), dk.full(1, -1e300, dtype=F)
    total, count, out = (dk.zeros(npt, dtype=F) for _ in range(3))
    n = data.shape[0]
    dk.launch(extremes, dim=n, inputs=[radius, low, high])
    dk.launch(rings, dim=n, inputs=[data, radius, high, total, count])
    dk.launch(means, dim=npt, inputs=[total, count], outputs=[out])
    return (out,)


@dk.kernel
def filter_rows(x, up, down, out, a1: F, a2: F, a3: F, a4: F, b1: F, b2: F):
    """A recursive filter along a row, once in each direction."""
    i = dk.tid()
    n = x.shape[1]
    up[i, 0] = a1 * x[i, 0]
    up[i, 1] = a1 * x[i, 1] + a2 * x[i, 0] + b1 * up[i, 0]
    for j in range(2, n):
        up[i, j] = a1 * x[i, j] + a2 * x[i, j - 1] + b1 * up[i, j - 1] + b2 * up[i, j - 2]
    down[i, n - 1] = 0.0
    down[i, n - 2] = a3 * x[i, n - 1]
    for j in range(n - 3, -1, -1):
        down[i, j] = a3 * x[i, j + 1] + a4 * x[i, j + 2] + b1 * down[i, j + 1] + b2 * down[i, j + 2]
    for j in range(n):
        out[i, j] = up[i, j] + down[i, j]


@dk.kernel
def filter_columns(x, up, down, out, a5: F, a6: F, a7: F, a8: F, b1: F, b2: F):
    j = dk.tid()
    n = x.shape[0]
    up[0, j] = a5 * x[0, j]
    up[1, j] = a5 * x[1, j] + a6 * x[0, j] + b1 * up[0, j]
    for i in range(2, n):
        up[i, j] = a5 * x[i, j] + a6 * x[i - 1, j] + b1 * up[i - 1, j] + b2 * up[i - 2, j]
    down[n - 1, j] = 0.0
    down[n - 2, j] = a7 * x[n - 1, j]
    for i in range(n - 3, -1, -1):
        down[i, j] = a7 * x[i + 1, j] + a8 * x[i + 2, j] + b1 * down[i + 1, j] + b2 * down[i + 2, j]
    for i in range(n):
        out[i, j] = up[i, j] + down[i, j]


@port("deriche", "imgIn")
def deriche(alpha, imgIn):
    e = 2.718281828459045**-alpha
    k = (1.0 - e) * (1.0 - e) / (1.0 + alpha * e - 1.0 / (e * e))
    first = [k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * e * e]
    back = [2.0**-alpha, -e * e]
    up, down, between, up2, down2, out = (dk.zeros_like(imgIn) for _ in range(6))
    dk.launch(filter_rows, dim=imgIn.shape[0], inputs=[imgIn, up, down, between, *first, *back])
    dk.launch(filter_columns, dim=imgIn.shape[1], inputs=[between, up2, down2, out, *first, *back])
    return (out,)
