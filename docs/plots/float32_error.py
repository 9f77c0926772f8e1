"""Error of float32 means over the length of the array: NumPy's beside lucid's."""

import math

import matplotlib.pyplot as plt
import numpy as np

import lucid

rng = np.random.default_rng(0)
lengths = np.unique(np.logspace(1, 6.5, 23).astype(int))


def ulps(means, rows):
    """Largest error, units in the last place of the exact mean, rounded to float32."""
    exact = [math.fsum(row.tolist()) / len(row) for row in rows]
    return max(
        abs(float(m) - e) / np.spacing(np.float32(e)) for m, e in zip(means, exact, strict=True)
    )


errors = {}
for n in lengths:
    rows = rng.normal(10, 1, size=(4, n)).astype(np.float32)
    columns = np.ascontiguousarray(rows.T)
    for name, mean in (("NumPy", np.mean), ("lucid", lucid.mean)):
        errors.setdefault((0, name), []).append(ulps(mean(rows, axis=1), rows))
        errors.setdefault((1, name), []).append(ulps(mean(columns, axis=0), rows))

fig, axes = plt.subplots(2, 1, figsize=(5.6, 6.5), layout="constrained", sharex=True, sharey=True)
for (row, name), values in errors.items():
    axes[row].loglog(lengths, values, ".-", label=name)
for ax in axes:
    ax.axhline(0.5, color="0.6", linestyle=":", label="correctly rounded: at most ½")
    ax.set_ylabel("error, units in the last place")
axes[0].set_title("Contiguous values: mean(x, axis=1) of 4 rows")
axes[1].set_title("Down the columns: mean(x, axis=0) of 4 columns")
axes[1].set_xlabel("number of values, n")
axes[0].legend(loc="upper left")
