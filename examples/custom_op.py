"""Make a SciPy function differentiable
====================================

`scipy.signal.fftconvolve` knows nothing of gradients. Twelve lines of `lucid.autograd.Function`
teach it: the gradients of a convolution are convolutions again, hence the new operation can be
differentiated any number of times. `lucid.autograd.gradcheck` and `gradgradcheck` prove it against
finite differences. Then a photograph is blurred by a camera shake, and L-BFGS-B finds the shake
again, from the sharp and the blurred image alone::

    python examples/custom_op.py --output output/blur
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.signal import fftconvolve
from sklearn.datasets import load_sample_image

import lucid

SIZE = 11  # of the kernel, in pixels


class Convolve(lucid.autograd.Function):
    """Full convolution of two images, by FFT."""

    @staticmethod
    def forward(ctx, x, w):
        """Take arrays, return an array; what `backward` needs is saved."""
        ctx.save_for_backward(x, w)
        return fftconvolve(x, w)

    @staticmethod
    def backward(ctx, g):
        """Correlate the gradient of the result with the other argument."""
        x, w = ctx.saved_tensors
        dx, dw = (
            valid(Convolve.apply(g, other[::-1, ::-1]), other.shape, like.shape) if needed else None
            for other, like, needed in zip((w, x), (x, w), ctx.needs_input_grad, strict=True)
        )
        return dx, dw


def valid(full, skip: tuple, shape: tuple):
    """The part of a full convolution in which the shorter image lies within the longer."""
    (top, left), (height, width) = (n - 1 for n in skip), shape
    return full[top : top + height, left : left + width]


def check() -> None:
    """Compare first and second derivatives with finite differences."""
    rng = np.random.default_rng(0)
    x, w = (lucid.tensor(rng.normal(size=s), requires_grad=True) for s in ((6, 5), (3, 2)))
    print("gradcheck:", lucid.autograd.gradcheck(Convolve.apply, (x, w)))
    print("gradgradcheck:", lucid.autograd.gradgradcheck(Convolve.apply, (x, w)))


def shake(seed: int) -> np.ndarray:
    """A random walk of the camera while the shutter was open, as a kernel of sum 1."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(scale=0.12, size=(2, 400)).cumsum(axis=1)
    middle = (steps.max(axis=1) + steps.min(axis=1))[:, None] / 2
    at = np.clip(np.round(steps - middle) + SIZE // 2, 0, SIZE - 1).astype(int)
    kernel = np.zeros((SIZE, SIZE))
    np.add.at(kernel, tuple(at), 1 / at.shape[1])
    return kernel


def estimate(sharp: np.ndarray, blurred: np.ndarray) -> tuple[np.ndarray, int]:
    """The kernel, not negative, that blurs `sharp` to `blurred`; and the iterations it took."""

    def misfit(w):
        error = Convolve.apply(sharp, w.reshape(SIZE, SIZE)) - blurred
        return 0.5 * np.sum(error**2)

    found = minimize(
        lucid.value_and_grad(misfit),
        np.full(SIZE**2, 1 / SIZE**2),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * SIZE**2,
        options={"maxiter": 100},
    )
    return found.x.reshape(SIZE, SIZE), found.nit


def plot(images: dict[str, np.ndarray], path: Path) -> None:
    """Draw the photograph, sharp and blurred, and the camera's shake, true and found."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(7.5, 7), layout="constrained")
    for ax, (title, image) in zip(axes.flat, images.items(), strict=True):
        ax.imshow(image, cmap="gray" if image.shape[0] > SIZE else "magma")
        ax.set(title=title, xticks=[], yticks=[])
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main(argv: list[str] | None = None) -> float:
    """Parse the command line, blur, find the blur; returns its largest error."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--noise", type=float, default=0.01, help="added to the blurred image")
    parser.add_argument("--seed", type=int, default=0, help="of shake and noise")
    parser.add_argument("--output", type=Path, help="folder for the plot, custom_op.png")
    args = parser.parse_args(argv)
    if args.seed < 0:
        parser.error(f"argument --seed: must not be negative, got {args.seed}")
    if args.output:
        try:
            args.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"argument --output: {error}")
        if not os.access(args.output, os.W_OK):
            parser.error(f"argument --output: can't write to {args.output}")

    check()
    sharp = load_sample_image("flower.jpg").mean(axis=2)[150:278, 250:378] / 255
    kernel, rng = shake(args.seed), np.random.default_rng(args.seed)
    blurred = fftconvolve(sharp, kernel)
    blurred += args.noise * rng.normal(size=blurred.shape)
    found, iterations = estimate(sharp, blurred)
    error = float(np.abs(found - kernel).max())
    print(f"kernel found in {iterations} iterations; largest entry {kernel.max():.4f}, ", end="")
    print(f"largest error {error:.4f}")
    if args.output:
        shown = {"sharp": sharp, "blurred": blurred, "camera shake": kernel, "shake found": found}
        plot(shown, args.output / "custom_op.png")
        print(f"wrote {args.output}/custom_op.png")
    return error


if __name__ == "__main__":
    main()
