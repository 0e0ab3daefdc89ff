"""Learning: layers of networks, softmax and attention, recurrent cells, losses."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
f3 = dk.array(dtype=F, ndim=3)
i1 = dk.array(dtype=int)

RNG = np.random.default_rng(6)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@dk.func
def sigmoid(x: F):
    return 1.0 / (1.0 + dk.exp(-x))


@natural(3, x=some(3, 5), y=np.zeros((3, 5)))
@dk.kernel
def softmax(x: f2, y: f2):
    i = dk.tid()
    top = x[i, 0]
    for j in range(1, x.shape[1]):
        top = dk.max(top, x[i, j])
    total = F(0.0)
    for j in range(x.shape[1]):
        total += dk.exp(x[i, j] - top)
    for j in range(x.shape[1]):
        y[i, j] = dk.exp(x[i, j] - top) / total


@natural(3, x=some(3, 5))
@dk.kernel
def softmax_in_place(x: f2):
    i = dk.tid()
    top = x[i, 0]
    for j in range(1, x.shape[1]):
        top = dk.max(top, x[i, j])
    total = F(0.0)
    for j in range(x.shape[1]):
        x[i, j] = dk.exp(x[i, j] - top)
        total += x[i, j]
    for j in range(x.shape[1]):
        x[i, j] = x[i, j] / total


@natural(3, x=some(15), n=5)
@dk.kernel
def softmax_flat_in_place(x: f1, n: int):
    row = dk.tid()
    total = F(0.0)
    for j in range(n):
        x[row * n + j] = dk.exp(x[row * n + j])
        total += x[row * n + j]
    for j in range(n):
        x[row * n + j] /= total


@natural(3, logits=some(3, 4), label=np.array([0, 2, 3]), loss=np.zeros(1))
@dk.kernel
def cross_entropy(logits: f2, label: i1, loss: f1):
    i = dk.tid()
    total = F(0.0)
    for j in range(logits.shape[1]):
        total += dk.exp(logits[i, j])
    dk.atomic_add(loss, 0, dk.log(total) - logits[i, label[i]])


@natural(3, q=some(3, 2), k=some(4, 2), v=some(4, 2), s=np.zeros((3, 4)), out=np.zeros((3, 2)))
@dk.kernel
def attention(q: f2, k: f2, v: f2, s: f2, out: f2):
    i = dk.tid()
    n, d = k.shape[0], q.shape[1]
    top = F(-1.0e30)
    for j in range(n):
        dot = F(0.0)
        for c in range(d):
            dot += q[i, c] * k[j, c]
        s[i, j] = dot / dk.sqrt(F(d))
        top = dk.max(top, s[i, j])
    total = F(0.0)
    for j in range(n):
        s[i, j] = dk.exp(s[i, j] - top)
        total += s[i, j]
    for c in range(d):
        acc = F(0.0)
        for j in range(n):
            acc += s[i, j] / total * v[j, c]
        out[i, c] = acc


@natural(3, q=some(3, 2), k=some(4, 2), v=some(4, 2))
@dk.kernel
def attention_in_place(q: f2, k: f2, v: f2):
    i = dk.tid()
    total, a, b, top = F(0.0), F(0.0), F(0.0), F(-1.0e30)
    for j in range(k.shape[0]):
        s = q[i, 0] * k[j, 0] + q[i, 1] * k[j, 1]
        new = dk.max(top, s)
        old = dk.exp(top - new)
        w = dk.exp(s - new)
        total = total * old + w
        a = a * old + w * v[j, 0]
        b = b * old + w * v[j, 1]
        top = new
    q[i, 0] = a / total
    q[i, 1] = b / total


@natural(3, x=some(3, 4), g=some(4), b=some(4), y=np.zeros((3, 4)))
@dk.kernel
def layer_norm(x: f2, g: f1, b: f1, y: f2):
    i = dk.tid()
    n = x.shape[1]
    mean, var = F(0.0), F(0.0)
    for j in range(n):
        mean += x[i, j] / F(n)
    for j in range(n):
        var += (x[i, j] - mean) ** 2 / F(n)
    for j in range(n):
        y[i, j] = g[j] * (x[i, j] - mean) / dk.sqrt(var + 1e-5) + b[j]


@natural(3, x=some(3, 4), g=some(4))
@dk.kernel
def rms_norm_in_place(x: f2, g: f1):
    i = dk.tid()
    total = F(0.0)
    for j in range(x.shape[1]):
        total += x[i, j] * x[i, j]
    scale = 1.0 / dk.sqrt(total / F(x.shape[1]) + 1e-6)
    for j in range(x.shape[1]):
        x[i, j] *= scale * g[j]


@natural((3, 2), x=some(3, 4), w=some(2, 4), b=some(2), y=np.zeros((3, 2)))
@dk.kernel
def dense(x: f2, w: f2, b: f1, y: f2):
    i, j = dk.tid()
    s = b[j]
    for k in range(x.shape[1]):
        s += w[j, k] * x[i, k]
    y[i, j] = dk.tanh(s)


@natural(2, x=some(2, 3), w=some(3, 3, 3), h=np.zeros((4, 2, 3)), layers=3)
@dk.kernel
def perceptron(x: f2, w: f3, h: f3, layers: int):
    b = dk.tid()
    n = x.shape[1]
    for j in range(n):
        h[0, b, j] = x[b, j]
    for layer in range(layers):
        for j in range(n):
            s = F(0.0)
            for k in range(n):
                s += w[layer, j, k] * h[layer, b, k]
            h[layer + 1, b, j] = dk.tanh(s)


@natural(3, x=some(2), h=some(3), c=some(3), w=some(12, 2), u=some(12, 3), b=some(12), h_out=np.zeros(3),
         c_out=np.zeros(3))  # fmt: skip
@dk.kernel
def lstm_cell(x: f1, h: f1, c: f1, w: f2, u: f2, b: f1, h_out: f1, c_out: f1):
    j = dk.tid()
    n = h.shape[0]
    z = dk.vec4d(b[j], b[n + j], b[2 * n + j], b[3 * n + j])
    for g in range(4):
        for k in range(x.shape[0]):
            z[g] += w[g * n + j, k] * x[k]
        for k in range(n):
            z[g] += u[g * n + j, k] * h[k]
    c_out[j] = sigmoid(z[1]) * c[j] + sigmoid(z[0]) * dk.tanh(z[2])
    h_out[j] = sigmoid(z[3]) * dk.tanh(c_out[j])


@natural(2, x=some(2, 3), h=np.zeros((2, 4)), c=np.zeros((2, 4)), w=some(4), u=some(4), b=some(4), steps=3)
@dk.kernel
def lstm_over_time(x: f2, h: f2, c: f2, w: f1, u: f1, b: f1, steps: int):
    r = dk.tid()
    for t in range(steps):
        i = sigmoid(w[0] * x[r, t] + u[0] * h[r, t] + b[0])
        f = sigmoid(w[1] * x[r, t] + u[1] * h[r, t] + b[1])
        g = dk.tanh(w[2] * x[r, t] + u[2] * h[r, t] + b[2])
        o = sigmoid(w[3] * x[r, t] + u[3] * h[r, t] + b[3])
        c[r, t + 1] = f * c[r, t] + i * g
        h[r, t + 1] = o * dk.tanh(c[r, t + 1])


@natural(1, x=some(3, 2), h=some(2), z=np.zeros(2), w=some(2, 2), u=some(2, 2))
@dk.kernel
def gru_in_place(x: f2, h: f1, z: f1, w: f2, u: f2):
    for t in range(x.shape[0]):
        for j in range(h.shape[0]):
            s = F(0.0)
            for k in range(h.shape[0]):
                s += w[j, k] * x[t, k] + u[j, k] * h[k]
            z[j] = s
        for j in range(h.shape[0]):
            gate = sigmoid(z[j])
            h[j] = (1.0 - gate) * h[j] + gate * dk.tanh(z[j])


@natural((2, 3, 3), x=some(2, 5, 5), w=some(2, 2, 9), y=np.zeros((2, 3, 3)))
@dk.kernel
def convolution(x: f3, w: f3, y: f3):
    o, i, j = dk.tid()
    s = F(0.0)
    for c in range(x.shape[0]):
        for a in range(3):
            for b in range(3):
                s += w[o, c, a * 3 + b] * x[c, i + a, j + b]
    y[o, i, j] = dk.max(s, 0.0)


@natural((2, 2), x=some(4, 4), y=np.zeros((2, 2)))
@dk.kernel
def max_pool(x: f2, y: f2):
    i, j = dk.tid()
    top = x[2 * i, 2 * j]
    for a in range(2):
        for b in range(2):
            if x[2 * i + a, 2 * j + b] > top:
                top = x[2 * i + a, 2 * j + b]
    y[i, j] = top * top


@natural((4, 2), table=some(5, 2), token=np.array([1, 3, 3, 0]), out=np.zeros((4, 2)))
@dk.kernel
def embedding(table: f2, token: i1, out: f2):
    i, j = dk.tid()
    out[i, j] = table[token[i], j] * table[token[i], j]


@natural(4, w=some(4), g=some(4), m=some(4), v=RNG.uniform(0.5, 1, 4), rate=0.1, t=3)
@dk.kernel
def adam_step(w: f1, g: f1, m: f1, v: f1, rate: F, t: int):
    i = dk.tid()
    m[i] = 0.9 * m[i] + 0.1 * g[i]
    v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i]
    m_hat = m[i] / (1.0 - dk.pow(F(0.9), F(t)))
    v_hat = v[i] / (1.0 - dk.pow(F(0.99), F(t)))
    w[i] -= rate * m_hat / (dk.sqrt(v_hat) + 1e-8)
