"""Error of float32 variances over the offset of the data: NumPy's beside lucid's."""

import matplotlib.pyplot as plt
import numpy as np

import lucid

rng = np.random.default_rng(0)
noise = rng.normal(size=(100_000, 4))
offsets = 10.0 ** np.arange(7)

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for name, var in (("NumPy", np.var), ("lucid", lucid.var)):
    errors = []
    for offset in offsets:
        x = (noise + offset).astype(np.float32)
        exact = np.var(x.astype(np.longdouble), axis=0)
        errors.append(float(np.max(np.abs(var(x, axis=0) / exact - 1))))
    ax.loglog(offsets, errors, ".-", label=name)
ax.axhline(np.finfo(np.float32).eps / 2, color="0.6", linestyle=":", label="correctly rounded")
ax.set(xlabel="mean of the data; its standard deviation is 1", ylabel="relative error")
ax.set_title("var(x, axis=0), x of shape (100000, 4), float32")
ax.legend()
