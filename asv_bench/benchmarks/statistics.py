"""mean, var and mean_var beside NumPy's, bottleneck's and PyTorch's."""

import math
from fractions import Fraction

import numpy as np

import lucid

try:
    import bottleneck
except ImportError:
    bottleneck = None
try:
    import torch
except ImportError:
    torch = None

CASES = {
    "nchw 25 MB": ((32, 64, 56, 56), (0, 2, 3)),
    "all 25 MB": ((32, 64, 56, 56), None),
    "14x14": ((128, 256, 14, 14), (0, 2, 3)),
    "7x7": ((128, 512, 7, 7), (0, 2, 3)),
    "columns": ((100_000, 128), 0),
    "wide columns": ((1_000, 25_000), 0),
    "rows": ((25_000, 1_000), 1),
    "short rows": ((1_000_000, 8), 1),
    "narrow columns": ((3_000_000, 3), 0),
    "middle": ((200, 300, 400), 1),
    "in cache": ((256, 512), 0),
    "small": ((8, 16), 0),
}


def _peers(x, axis):
    """Callables by library; those not installed are None, which asv skips."""
    axes = tuple(range(x.ndim)) if axis is None else axis
    one_axis = not isinstance(axis, tuple)
    peers = {
        "lucid": (lambda: lucid.mean(x, axis), lambda: lucid.var(x, axis)),
        "numpy": (lambda: np.mean(x, axis), lambda: np.var(x, axis)),
    }
    if bottleneck and one_axis:
        peers["bottleneck"] = (
            lambda: bottleneck.nanmean(x, axis),
            lambda: bottleneck.nanvar(x, axis),
        )
    if torch:
        t = torch.from_numpy(x)
        peers["torch"] = (
            lambda: torch.mean(t, axes),
            lambda: torch.var(t, axes, correction=0),
        )
    return peers


class Statistics:
    params = (list(CASES), ["float32", "float64"], ["lucid", "numpy", "bottleneck", "torch"])
    param_names = ("case", "dtype", "library")
    timeout = 120

    def setup(self, case, dtype, library):
        shape, axis = CASES[case]
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        peers = _peers(x, axis)
        if library not in peers:
            raise NotImplementedError(f"{library} is not installed or has no such call")
        self.mean, self.var = peers[library]
        self.x, self.axis = x, axis

    def time_mean(self, case, dtype, library):
        self.mean()

    def time_var(self, case, dtype, library):
        self.var()


class MeanVar:
    params = (list(CASES), ["float32", "float64"])
    param_names = ("case", "dtype")

    def setup(self, case, dtype):
        shape, self.axis = CASES[case]
        self.x = np.random.default_rng(0).standard_normal(shape).astype(dtype)

    def time_mean_var(self, case, dtype):
        lucid.mean_var(self.x, self.axis)

    def peakmem_mean_var(self, case, dtype):
        lucid.mean_var(self.x, self.axis)


class Types:
    params = (["float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", ">f4"],)
    param_names = ("dtype",)

    def setup(self, dtype):
        if dtype == "bfloat16":
            import ml_dtypes

            dtype = ml_dtypes.bfloat16
        x = np.random.default_rng(0).standard_normal((32, 64, 56, 56)) * 50
        self.x = x.astype(dtype)

    def time_mean(self, dtype):
        lucid.mean(self.x, (0, 2, 3))


class Threads:
    params = (["nchw 25 MB", "columns", "rows"], [1, 2, 4, 8])
    param_names = ("case", "threads")

    def setup(self, case, threads):
        shape, self.axis = CASES[case]
        self.x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        lucid.set_num_threads(threads)
        if lucid.get_num_threads() < threads:
            raise NotImplementedError("fewer processors")

    def time_mean(self, case, threads):
        lucid.mean(self.x, self.axis)


class Error:
    """Largest error of a float32 mean over an axis, in units in the last place."""

    params = ([0.0, 1e3, 1e6], ["lucid", "numpy", "torch"])
    param_names = ("offset", "library")
    unit = "ulp"

    def setup(self, offset, library):
        rng = np.random.default_rng(0)
        x = (rng.standard_normal((100_000, 8)) + offset).astype(np.float32)
        peers = _peers(x, 0)
        if library not in peers:
            raise NotImplementedError(f"{library} is not installed")
        self.x, self.mean = x, peers[library][0]

    def track_mean(self, offset, library):
        worst = 0.0
        for column, value in zip(self.x.T, np.asarray(self.mean()), strict=True):
            exact = Fraction(math.fsum(column.astype(float))) / len(column)
            ulp = Fraction(float(np.spacing(np.float32(abs(float(exact))))))
            worst = max(worst, float(abs(Fraction(float(value)) - exact) / ulp))
        return worst

    track_mean.unit = "ulp"
