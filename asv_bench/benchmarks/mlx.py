"""MLX arrays: lucid beside mlx.core's mean and variance and mlx.nn's batch norm.

On MLX's default device, which is a GPU where MLX has one.
"""

import numpy as np

import lucid
import lucid.nn.functional as F

try:
    import mlx.core as mx
    import mlx.nn
except ImportError:
    mx = None

CASES = {
    "nchw 25 MB": (32, 64, 56, 56),
    "14x14": (128, 256, 14, 14),
    "columns": (100_000, 128),
    "small": (16, 3, 10, 10),
}
CHANNELS = {case: shape[1] for case, shape in CASES.items()}


def _axes(x):
    return tuple(i for i in range(x.ndim) if i != 1)


class _OnMlx:
    params = (list(CASES), ["lucid", "mlx"])
    param_names = ("case", "library")
    timeout = 120

    def setup(self, case, library):
        if mx is None:
            raise NotImplementedError("mlx is not installed")
        rng = np.random.default_rng(0)
        self.host = rng.normal(1000, 1, CASES[case]).astype("f4")
        # mlx.nn has the channels last; each library gets the layout that it is made for.
        self.axis = 1 if library == "lucid" else -1
        self.x = mx.array(np.moveaxis(self.host, 1, self.axis).copy())
        self.dy = mx.array(rng.standard_normal(self.x.shape).astype("f4"))
        mx.eval(self.x, self.dy)


class Statistics(_OnMlx):
    def setup(self, case, library):
        super().setup(case, library)
        axes = _axes(self.host)
        x = mx.array(self.host)
        module = {"lucid": lucid, "mlx": mx}[library]
        self.mean, self.var = (lambda f=f: f(x, axes) for f in (module.mean, module.var))

    def time_mean(self, case, library):
        mx.eval(self.mean())

    def time_var(self, case, library):
        mx.eval(self.var())

    def track_mean_error(self, case, library):
        exact = self.host.astype(np.longdouble).mean(axis=_axes(self.host))
        error = np.array(self.mean(), np.longdouble) - exact
        return float(np.abs(error).max() / np.spacing(np.float32(1000)))

    track_mean_error.unit = "ulp"

    def track_var_error(self, case, library):
        exact = self.host.astype(np.longdouble).var(axis=_axes(self.host))
        return float(np.abs(np.array(self.var(), np.longdouble) / exact - 1).max())

    track_var_error.unit = "relative error"


class BatchNorm(_OnMlx):
    def setup(self, case, library):
        super().setup(case, library)
        n = CHANNELS[case]
        weight, bias, mean, var = mx.ones(n), mx.zeros(n), mx.zeros(n), mx.ones(n)
        x, dy = self.x, self.dy
        if library == "lucid":
            leaves = [lucid.Tensor(a, True) for a in (x, weight, bias)]

            def forward():
                return F.batch_norm(x, mean, var, weight, bias, training=True), mean, var

            def both():
                y = F.batch_norm(leaves[0], mean, var, *leaves[1:], training=True)
                return [g.data for g in lucid.grad(y, leaves, dy)]

            self.evaluation = lambda: F.batch_norm(x, mean, var, weight, bias)
        else:
            layer = mlx.nn.BatchNorm(n)

            def forward():
                return layer.train()(x), layer.running_mean, layer.running_var

            def both():
                return gradient(layer.train().trainable_parameters(), x)

            def product(parameters, x):
                layer.update(parameters)
                return mx.sum(layer(x) * dy)

            gradient = mx.grad(product, (0, 1))
            self.evaluation = lambda: layer.eval()(x)
        self.forward, self.both = forward, both

    def time_training(self, case, library):
        mx.eval(self.forward())

    def time_evaluation(self, case, library):
        mx.eval(self.evaluation())

    def time_forward_and_backward(self, case, library):
        mx.eval(self.both())

    def track_error(self, case, library):
        exact = self.host.astype(np.longdouble)
        axes = _axes(exact)
        exact = exact - exact.mean(axis=axes, keepdims=True)
        exact /= np.sqrt(np.square(exact).mean(axis=axes, keepdims=True) + 1e-5)
        y = np.moveaxis(np.array(self.forward()[0]), self.axis, 1)
        return float(np.abs(y - exact).max())

    track_error.unit = "absolute error"
