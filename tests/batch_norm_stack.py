"""Batch normalization in a thread with a small stack: run as a script, since an overflow ends it.

python batch_norm_stack.py KILOBYTES
"""

import sys
import threading

import numpy as np

import lucid.nn.functional as F
from lucid._kernels import batch_norm as kernels, provider as table

ALL = (True, True, True)
SHAPES = [(8, 16), (3, 700), (5, 7, 30, 30), (40, 300, 6, 7), (2, 3, 300, 301), (70_000, 20)]
SHAPES += [(16, 24, 53, 55)]  # past the cache


def calls(shape, dtype, layout):
    rng = np.random.default_rng(0)
    x, g, v = (layout(a.astype(dtype)) for a in rng.normal(size=(3, *shape)))
    c = shape[1]
    zero, one = np.zeros(c), np.ones(c)
    _, mean, rstd = kernels.forward(x, one, zero, zero, one, 0.1, 1e-5, 1)
    kernels.inference(x, one, zero, zero, one, 1e-5, 1)
    F.batch_norm(x, zero, one, one, zero, training=True)
    for training in (True, False):
        kernels.backward(g, x, one, zero, mean, rstd, training, 1, ALL)
        kernels.double_backward(v, one, one, g, x, one, mean, rstd, training, 1, ALL)


def work():
    np.ones(3).mean()
    layouts = [np.ascontiguousarray, lambda x: np.asfortranarray(x)[::-1]]
    for shape in SHAPES:
        for dtype in ("f2", "f4", "f8"):
            for layout in layouts:
                calls(shape, dtype, layout)


if __name__ == "__main__":
    threading.stack_size(int(sys.argv[1]) * 1024)
    for provider in table.available()["providers"]:
        with table.using(provider):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    print("done")
