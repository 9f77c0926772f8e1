"""Fit a model with SciPy's optimizers
===================================

Logistic regression of scikit-learn's breast cancer data, 569 tumours described by 30 numbers each.
`lucid.value_and_grad` hands `scipy.optimize.minimize` the loss with its gradient, `lucid.hvp` the
product of its Hessian with a vector, so that second-order methods work without a line of calculus
and without ever forming the Hessian. The optimum is compared with scikit-learn's own estimator::

    python examples/fit_with_scipy.py --output output/fit
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import lucid
import lucid.nn.functional as F

METHODS = {"L-BFGS-B": {"ftol": 0.0, "gtol": 1e-8}, "Newton-CG": {"xtol": 1e-10}, "trust-ncg": {}}


def load_data() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Standardised features, labels, and the names of the features."""
    data = load_breast_cancer()
    mean, var = lucid.mean_var(data.data, axis=0)
    return (data.data - mean) / np.sqrt(var), data.target, list(data.feature_names)


def make_loss(x: np.ndarray, y: np.ndarray, strength: float):
    """Negative log-likelihood plus half the squared weights, as scikit-learn has it.

    The last parameter is the intercept, which is not penalised.
    """

    def loss(w):
        logit = x @ w[:-1] + w[-1]
        logits = np.stack([np.zeros(len(x)), logit], axis=1)
        penalty = 0.5 * np.sum(w[:-1] ** 2)
        return strength * F.cross_entropy(logits, y, reduction="sum") + penalty

    return loss


def fit(loss, size: int) -> dict[str, dict]:
    """Minimise `loss` by each method: parameters, value, iterations and the values on the way."""
    fun, fits = lucid.value_and_grad(loss), {}
    for method, options in METHODS.items():
        second = {} if method == "L-BFGS-B" else {"hessp": lucid.hvp(loss)}
        path = [fun(np.zeros(size))[0]]
        found = minimize(
            fun,
            np.zeros(size),
            jac=True,
            method=method,
            options={"maxiter": 1000} | options,
            callback=lambda w, path=path: path.append(fun(w)[0]),
            **second,
        )
        fits[method] = {
            "w": found.x,
            "value": float(found.fun),
            "slope": float(np.abs(fun(found.x)[1]).max()),
            "iterations": int(found.nit),
            "path": np.array(path, dtype=float),
        }
    return fits


def reference(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """The parameters that scikit-learn finds for the same loss."""
    estimator = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000).fit(x, y)
    return np.append(estimator.coef_[0], estimator.intercept_)


def report(fits: dict[str, dict], other: np.ndarray, loss) -> None:
    """Print a table: how each method got there, and how far it is from scikit-learn's optimum."""
    print(f"{'method':>13}  iterations  {'loss':>14}  largest slope  distance to scikit-learn")
    for method, f in fits.items():
        distance = np.abs(f["w"] - other).max()
        print(
            f"{method:>13}  {f['iterations']:10d}  {f['value']:14.9f}  {f['slope']:13.1e}  "
            f"{distance:.1e}"
        )
    print(f"{'scikit-learn':>13}  {'':10}  {float(loss(other)):14.9f}")
    w = np.array([f["w"] for f in fits.values()])
    print(f"largest difference between the methods: {np.ptp(w, axis=0).max():.1e}")


def plot(fits: dict[str, dict], other: np.ndarray, names: list[str], path: Path) -> None:
    """Draw the way to the optimum, and the coefficients beside scikit-learn's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (upper, lower) = plt.subplots(
        2, 1, figsize=(6.4, 9), layout="constrained", height_ratios=(2, 3)
    )
    best = min(f["path"].min() for f in fits.values())
    for method, f in fits.items():
        gap = f["path"] - best
        upper.semilogy(np.where(gap > 0, gap, np.nan), ".-", label=method)
    upper.set(xlabel="iteration", ylabel="loss above the optimum", title="Way to the optimum")
    upper.legend()

    w = fits["trust-ncg"]["w"][:-1]
    order, rows = np.argsort(w), np.arange(len(w))
    lower.plot(other[:-1][order], rows, "o", mfc="none", ms=9, label="scikit-learn")
    lower.plot(w[order], rows, ".", label="lucid and trust-ncg")
    lower.set_yticks(rows, [names[i] for i in order], fontsize=8)
    lower.axvline(0, color="0.8", linewidth=1, zorder=0)
    lower.set(xlabel="coefficient of the standardised feature", title="Coefficients")
    lower.legend(loc="upper left")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main(argv: list[str] | None = None) -> dict[str, dict]:
    """Parse the command line, fit, report; returns the fits."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--strength", type=float, default=1.0, help="of the data (sklearn's C)")
    parser.add_argument("--output", type=Path, help="folder for the plot, fit.png")
    args = parser.parse_args(argv)
    if args.output:
        try:
            args.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"argument --output: {error}")
        if not os.access(args.output, os.W_OK):
            parser.error(f"argument --output: can't write to {args.output}")
    if not args.strength > 0:
        parser.error(f"argument --strength: must be positive, got {args.strength}")

    x, y, names = load_data()
    loss = make_loss(x, y, args.strength)
    fits, other = fit(loss, x.shape[1] + 1), reference(x, y, args.strength)
    report(fits, other, loss)
    right = np.mean((x @ fits["trust-ncg"]["w"][:-1] + fits["trust-ncg"]["w"][-1] > 0) == y)
    print(f"tumours classified rightly: {right:.1%}")
    if args.output:
        plot(fits, other, names, args.output / "fit.png")
        print(f"wrote {args.output}/fit.png")
    return fits


if __name__ == "__main__":
    main()
