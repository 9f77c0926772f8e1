"""Error of float32 means over the length of the array: NumPy's beside lucid's."""

import math

import matplotlib.pyplot as plt
import numpy as np

import lucid


def ulps(means, rows):
    """Largest error, units in the last place of the exact mean, rounded to float32."""
    exact = [math.fsum(row.tolist()) / len(row) for row in rows]
    return max(
        abs(float(m) - e) / np.spacing(np.float32(e)) for m, e in zip(means, exact, strict=True)
    )


def draw(ax, axis, lengths):
    """Errors of the means over one axis of arrays with four rows or columns."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(10, 1, size=(4, n)).astype(np.float32) for n in lengths]
    for name, mean in (("NumPy", np.mean), ("lucid", lucid.mean)):
        errors = [ulps(mean(x if axis else np.ascontiguousarray(x.T), axis=axis), x) for x in rows]
        ax.loglog(lengths, errors, ".-", label=name)
    ax.axhline(0.5, color="0.6", linestyle=":", label="correctly rounded: at most ½")
    ax.set_ylabel("error, units in the last place")


def both():
    """Over contiguous values, and down the columns."""
    _, axes = plt.subplots(2, 1, figsize=(5.6, 6.5), layout="constrained", sharex=True, sharey=True)
    lengths = np.unique(np.logspace(1, 6.5, 23).astype(int))
    for ax, axis in zip(axes, (1, 0), strict=True):
        draw(ax, axis, lengths)
    axes[0].set_title("Contiguous values: mean(x, axis=1) of 4 rows")
    axes[1].set_title("Down the columns: mean(x, axis=0) of 4 columns")
    axes[1].set_xlabel("number of values, n")
    axes[0].legend(loc="upper left")


def columns():
    """Down the columns only, for the front page."""
    _, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
    draw(ax, 0, np.unique(np.logspace(1, 6, 16).astype(int)))
    ax.set(xlabel="number of float32 values, n", title="mean(x, axis=0), x of shape (n, 4)")
    ax.legend(loc="upper left")
