"""Every pair of layouts of the operands, past the cache: run as a script, since a fault ends it.

python batch_norm_layouts.py DTYPE ISA LAYOUTS, where LAYOUTS is how many of them.
"""

import itertools
import sys

import numpy as np

from lucid._kernels import batch_norm as kernels, provider as table

ALL = (True, True, True)
# Outputs just past 4 MB, where they leave the cache, in rows and lines that end unevenly.
SHAPES = {
    "f4": [(16, 24, 53, 55), (2, 3, 423, 443), (28001, 40, 1, 1), (7300, 9, 4, 4)],
    "f8": [(8, 24, 53, 55), (2, 3, 297, 301), (14001, 40, 1, 1)],
}


def ordered(*axes):
    """The same values, the axes in this order in memory."""
    return lambda x: np.transpose(np.transpose(x, axes).copy(), np.argsort(axes))


def padded(x):
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., :-3] = x
    return wide[..., :-3]


def reversed_(x):
    return x[:, ::-1].copy()[:, ::-1]


LAYOUTS = [
    ordered(0, 1, 2, 3),
    ordered(1, 0, 2, 3),
    ordered(0, 2, 3, 1),
    padded,
    reversed_,
    ordered(3, 2, 1, 0),
]


def spread(a):
    return a.reshape(-1, 1, 1)


def gradients(x, g, v, w, u, weight, eps):
    """Closed forms in the type of the operands, all float64 or wider: dx, to_dy, to_x."""
    axes = (0, 2, 3)

    def average(a):
        return a.mean(axis=axes, keepdims=True)

    d = x - average(x)
    r = 1 / np.sqrt(average(d * d) + eps)
    q, p = r * average(g * d), r * average(v * d)
    t = average(v * g) - average(v) * average(g) - p * q
    h = w * average(g) - weight * r * (average(g) * p + average(v) * q)
    dx = weight * r * (g - average(g) - r * q * d)
    to_g = weight * r * (v - average(v) - r * p * d) + w * r * d + u
    to_x = r * (w - weight * r * p) * g - weight * r**2 * q * v - r * h
    return dx, to_g, to_x - r**2 * (w * q - 2 * weight * r * p * q + weight * r * t) * d, r * d


def sweep(shape, dtype, layouts, bound):
    rng = np.random.default_rng(0)
    wide = "f8" if dtype == "f4" else "g"
    x, g, v = rng.normal(size=(3, *shape)).astype(dtype)
    w, u, weight = rng.normal(size=(3, shape[1]))
    terms = (a.astype(wide) for a in (x, g, v))
    expected = gradients(*terms, *(spread(a.astype(wide)) for a in (w, u, weight)), 1e-5)
    # Compared in the memory order of the found.
    expected = [[lay(a.astype(dtype)) for a in expected] for lay in layouts]
    xs, gs, vs = ([lay(a) for lay in layouts] for a in (x, g, v))

    def check(found, layout, which):
        error = abs(found - expected[layout][which]).max()
        assert error < bound, (shape, dtype, which, error)

    n = len(layouts)
    for i, j in itertools.product(range(n), range(n)):
        if j == 0:
            zero, one = np.zeros(shape[1]), np.full(shape[1], 1 - 1e-5)
            y, mean, rstd = kernels.forward(xs[i], None, None, None, None, 0.1, 1e-5, 1)
            check(y, i, 3)
            y = kernels.inference(xs[i], None, None, zero, one, 1e-5, 1)[0]
            assert abs(y - xs[i]).max() < bound
        check(kernels.backward(gs[j], xs[i], weight, None, mean, rstd, True, 1, ALL)[0], i, 0)
        k = (i + j) % n  # so that each layout of v meets each of x and each of dy
        to_dy, to_x, _ = kernels.double_backward(
            vs[k], w, u, gs[j], xs[i], weight, mean, rstd, True, 1, ALL
        )
        check(to_dy, j, 1)
        check(to_x, i, 2)
    for y in (True, False):  # each output alone
        found = kernels.double_backward(
            vs[0], w, u, gs[1], xs[-1], weight, mean, rstd, True, 1, (y, not y, False)
        )
        check(found[0 if y else 1], 1 if y else n - 1, 1 if y else 2)


if __name__ == "__main__":
    dtype, isa, count = sys.argv[1:]
    with table.using(isa=isa):
        for shape in SHAPES[dtype]:
            sweep(shape, dtype, LAYOUTS[: int(count)], 2e-5 if dtype == "f4" else 1e-12)
