"""What lucid costs a process: its import, and the memory of its calls."""

import numpy as np

import lucid
import lucid.nn.functional as F


class Import:
    """``import lucid`` once NumPy is there, and NumPy's own import for comparison."""

    params = ("lucid", "numpy")
    param_names = ("library",)
    repeat = (3, 10, 20.0)

    def timeraw_import(self, library):
        return f"import {library}", "import numpy" if library == "lucid" else ""


class Memory:
    """Peak memory of a process that calls once, on 25 MB of float32."""

    params = ("nothing", "mean", "var", "forward", "eval", "step")
    param_names = ("call",)

    def setup(self, call):
        self.x = np.ones((32, 64, 56, 56), np.float32)
        self.g, self.vector = self.x, np.ones(64, np.float32)

    def peakmem_call(self, call):
        if call in ("mean", "var"):
            getattr(lucid, call)(self.x, (0, 2, 3))
        elif call in ("forward", "eval"):
            F.batch_norm(self.x, self.vector, self.vector.copy(), training=call == "forward")
        elif call == "step":
            x = lucid.as_tensor(self.x)
            x.requires_grad = True
            lucid.grad(F.batch_norm(x, None, None, training=True), x, self.g)


class Cache:
    """Results in memory that lucid kept, and in memory new from the system."""

    params = (["warm", "cold"], ["forward", "eval"])
    param_names = ("memory", "call")

    def setup(self, memory, call):
        self.x = np.ones((32, 64, 56, 56), np.float32)
        self.mean, self.var = np.zeros(64, np.float32), np.ones(64, np.float32)
        self.training = call == "forward"
        if memory == "cold":
            lucid.set_cache_limit(0)

    def time_call(self, memory, call):
        F.batch_norm(self.x, self.mean, self.var, training=self.training)
