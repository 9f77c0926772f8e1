"""Batch normalization beside PyTorch's and MLX's, to second order."""

import numpy as np

import lucid
import lucid.nn.functional as F
from lucid.backends import cpu

try:
    import torch
except ImportError:
    torch = None
try:
    import mlx.core as mx
except ImportError:
    mx = None

SHAPES = {
    "small": (8, 16),
    "in cache": (256, 512),
    "6 MB": (16, 32, 56, 56),
    "56x56": (32, 64, 56, 56),
    "28x28": (64, 128, 28, 28),
    "14x14": (128, 256, 14, 14),
    "112x112": (32, 64, 112, 112),
    "volume": (8, 32, 16, 64, 64),
}
LAYOUTS = {
    "channels_first": np.ascontiguousarray,
    "channels_last": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}
ALL = (True, True, True)


def _arrays(shape, dtype, layout, n):
    rng = np.random.default_rng(0)
    return [LAYOUTS[layout](rng.standard_normal(shape).astype(dtype)) for _ in range(n)]


class _Lucid:
    def __init__(self, x, g, v):
        c = x.shape[1]
        self.x, self.g, self.v = x, g, v
        self.weight, self.bias = np.ones(c, np.float32), np.zeros(c, np.float32)
        self.running = np.zeros(c, np.float32), np.ones(c, np.float32)
        _, self.mean, self.rstd = cpu.batch_norm_forward(
            x, self.weight, self.bias, None, None, 0.1, 1e-5, 1
        )

    def forward(self, training=True):
        return F.batch_norm(self.x, *self.running, self.weight, self.bias, training)

    def backward(self):
        return cpu.batch_norm_backward(
            self.g, self.x, self.weight, self.bias, self.mean, self.rstd, True, 1, ALL
        )

    def double_backward(self):
        return cpu.batch_norm_double_backward(
            self.v, None, None, self.g, self.x, self.weight, self.mean, self.rstd, True, 1, ALL
        )

    def penalty(self):
        x = lucid.as_tensor(self.x).detach()
        x.requires_grad = True
        y = F.batch_norm(x, None, None, self.weight, self.bias, True)
        (d,) = lucid.grad(y, x, self.g, create_graph=True)
        return lucid.grad(d, x, self.v)


class _Torch:
    def __init__(self, x, g, v):
        c = x.shape[1]
        # The strides, which from_numpy keeps, are the memory format.
        self.x, self.g, self.v = (torch.from_numpy(a) for a in (x, g, v))
        self.weight = torch.ones(c, dtype=self.x.dtype)
        self.bias = torch.zeros(c, dtype=self.x.dtype)
        self.running = torch.zeros(c, dtype=self.x.dtype), torch.ones(c, dtype=self.x.dtype)
        _, self.mean, self.rstd = torch.native_batch_norm(
            self.x, self.weight, self.bias, *self.running, True, 0.1, 1e-5
        )

    def forward(self, training=True):
        return torch.nn.functional.batch_norm(
            self.x, *self.running, self.weight, self.bias, training
        )

    def backward(self):
        return torch.ops.aten.native_batch_norm_backward(
            self.g, self.x, self.weight, *self.running, self.mean, self.rstd, True, 1e-5, [True] * 3
        )

    def penalty(self):
        x = self.x.detach().requires_grad_()
        y = torch.nn.functional.batch_norm(x, None, None, self.weight, self.bias, True)
        (d,) = torch.autograd.grad(y, x, self.g, create_graph=True)
        return torch.autograd.grad(d, x, self.v)


class _Mlx:
    def __init__(self, x, g, v):
        self.x = mx.array(x)
        c = x.shape[1]
        self.running = mx.zeros(c), mx.ones(c)
        mx.eval(self.x, *self.running)

    def forward(self, training=True):
        mx.eval(F.batch_norm(self.x, *self.running, training=training))


def _peer(library, x, g, v):
    if library == "lucid":
        return _Lucid(x, g, v)
    if library == "torch" and torch:
        return _Torch(x, g, v)
    if library == "mlx" and mx and x.dtype == np.float32:
        return _Mlx(x, g, v)
    raise NotImplementedError(f"{library} is not installed, or does not take {x.dtype}")


class Forward:
    params = (
        list(SHAPES),
        ["channels_first", "channels_last"],
        ["float32", "float64"],
        ["lucid", "torch", "mlx"],
    )
    param_names = ("shape", "layout", "dtype", "library")
    timeout = 120

    def setup(self, shape, layout, dtype, library):
        self.peer = _peer(library, *_arrays(SHAPES[shape], dtype, layout, 3))

    def time_forward(self, *_):
        self.peer.forward()

    def time_evaluation(self, *_):
        self.peer.forward(False)


class Gradients:
    params = (*Forward.params[:3], ["lucid", "torch"])
    param_names = Forward.param_names
    timeout = 120
    setup = Forward.setup

    def time_backward(self, *_):
        self.peer.backward()

    def time_gradient_penalty(self, *_):
        self.peer.penalty()


class DoubleBackward:
    """The kernel by itself; no other library has one."""

    params = (list(SHAPES), list(LAYOUTS), ["float16", "float32", "float64"])
    param_names = ("shape", "layout", "dtype")

    def setup(self, shape, layout, dtype):
        self.lucid = _Lucid(*_arrays(SHAPES[shape], dtype, layout, 3))

    def time_double_backward(self, *_):
        self.lucid.double_backward()


class Layouts:
    """Memory that is not read in place, and half types."""

    params = (["6 MB", "56x56"], list(LAYOUTS), ["float16", "float32", "float64"])
    param_names = ("shape", "layout", "dtype")

    def setup(self, shape, layout, dtype):
        self.lucid = _Lucid(*_arrays(SHAPES[shape], dtype, layout, 3))

    def time_forward(self, *_):
        self.lucid.forward()

    def time_backward(self, *_):
        self.lucid.backward()

    def peakmem_forward_and_backward(self, *_):
        self.lucid.forward()
        self.lucid.backward()


class Error:
    """Largest error of y, in units of 1e-7, at a mean and a standard deviation."""

    params = (
        ["channels_first", "channels_last"],
        [(0, 1), (1e2, 1e-2), (1e4, 1), (1e6, 1)],
        ["lucid", "torch"],
    )
    param_names = ("layout", "mean_and_std", "library")
    unit = "1e-7"

    def setup(self, layout, mean_and_std, library):
        mean, std = mean_and_std
        (x,) = _arrays((16, 16, 28, 28), "float64", layout, 1)
        self.x = LAYOUTS[layout]((x * std + mean).astype(np.float32))
        self.peer = _peer(library, self.x, self.x, self.x)

    def track_error_of_y(self, *_):
        y = np.asarray(self.peer.forward()).astype(np.longdouble)
        x = self.x.astype(np.longdouble)
        d = x - x.mean((0, 2, 3), keepdims=True)
        expected = d / np.sqrt((d * d).mean((0, 2, 3), keepdims=True) + np.longdouble(1e-5))
        return float(abs(y - expected).max() / 1e-7)
