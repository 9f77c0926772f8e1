"""Statistics of an image stack larger than memory
===============================================

Mean and standard deviation of each colour over a stack of float32 photographs on disk, read block
by block through `numpy.memmap`. `lucid.Moments` holds count, mean and M2 in float64 and merges the
blocks, so that memory stays at one block however long the stack is. NumPy's float32
mean of the same channels-last stack is drawn beside it: down the columns it adds one number after
another, and the error grows with the stack::

    python examples/image_stack.py --images 4000 --output output/stack

The images are random crops of the two photographs that scikit-learn ships, on top of an offset, as
a camera's dark level would be.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_images
from tqdm import tqdm

import lucid

SIZE = 96  # of an image, in pixels
OFFSET = 1000.0


def write_stack(path: Path, n: int, seed: int) -> np.memmap:
    """Write `n` random crops to `path`, an array of shape (n, SIZE, SIZE, 3)."""
    rng = np.random.default_rng(seed)
    photos = load_sample_images().images
    stack = np.memmap(path, np.float32, "w+", shape=(n, SIZE, SIZE, 3))
    for image in stack:
        photo = photos[rng.integers(len(photos))]
        y, x = (rng.integers(length - SIZE) for length in photo.shape[:2])
        image[:] = photo[y : y + SIZE, x : x + SIZE] * np.float32(rng.uniform(0.5, 1.0))
        image += np.float32(OFFSET)
    stack.flush()
    return np.memmap(path, np.float32, "r", shape=stack.shape)


def blocks(stack: np.memmap, size: int):
    """Yield `size` images at a time, with a progress bar."""
    with tqdm(total=len(stack), unit="image") as bar:
        for start in range(0, len(stack), size):
            block = stack[start : start + size]
            yield block
            bar.update(len(block))


def exact_mean(sums: list[Fraction], count: int) -> np.ndarray:
    """Means from exact sums, rounded once."""
    return np.array([float(s / count) for s in sums])


def statistics(stack: np.memmap, size: int) -> tuple[lucid.Moments, dict[str, np.ndarray]]:
    """Moments of the stack, and the errors of two ways to the mean after each block."""
    total, seen = lucid.Moments(), 0
    exact, running = [Fraction(0)] * 3, np.zeros(3, np.float32)
    track = {"images": [], "NumPy, float32": [], "lucid.Moments": []}
    for block in blocks(stack, size):
        total = total.merge(lucid.Moments.of(block, axis=(0, 1, 2)))

        # What stack[:seen].mean(axis=(0, 1, 2)) does: one float32 sum for each colour.
        pixels = np.ascontiguousarray(block).reshape(-1, 3)
        running = np.add.reduce(np.vstack([running, pixels]), axis=0)
        seen += len(block)

        # Pixels are multiples of 2**-14 below 2**11: float64 adds a block without rounding.
        exact = [e + Fraction(s) for e, s in zip(exact, pixels.sum(0, np.float64), strict=True)]
        truth = exact_mean(exact, total.count)
        track["images"].append(seen)
        track["NumPy, float32"].append(np.abs(running / np.float32(total.count) - truth).max())
        track["lucid.Moments"].append(np.abs(total.mean - truth).max())
    return total, {k: np.array(v) for k, v in track.items()}


def plot(track: dict[str, np.ndarray], stack: np.memmap, path: Path) -> None:
    """Draw the error of the mean over the images seen, and some of the images."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (upper, lower) = plt.subplots(
        2, 1, figsize=(6.4, 7.5), layout="constrained", height_ratios=(4, 3)
    )
    for name in ("NumPy, float32", "lucid.Moments"):
        error = np.maximum(track[name], 1e-14)  # zero has no logarithm
        upper.loglog(track["images"], error, ".-", label=name)
    upper.set(xlabel="images seen", ylabel="largest error of a colour's mean")
    upper.legend()
    rows = [np.concatenate(list(stack[k : k + 6]), axis=1) for k in (0, 6)]
    lower.imshow(np.clip(np.concatenate(rows) - OFFSET, 0, 255).astype(np.uint8))
    lower.set_axis_off()
    lower.set_title("Twelve of the images")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main(argv: list[str] | None = None) -> dict[str, np.ndarray]:
    """Parse the command line, write and read the stack, report; returns the errors."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000, help="length of the stack")
    parser.add_argument("--block", type=int, default=25, help="images in memory at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the crops")
    parser.add_argument("--output", type=Path, help="folder for the plot, image_stack.png")
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
    for name, least in (("images", 12), ("block", 1)):
        if getattr(args, name) < least:
            parser.error(f"argument --{name}: must be at least {least}, got {getattr(args, name)}")

    with tempfile.TemporaryDirectory() as folder:
        stack = write_stack(Path(folder) / "stack.f32", args.images, args.seed)
        print(f"{stack.shape} {stack.dtype}: {stack.nbytes / 2**20:.0f} MiB on disk, ", end="")
        print(f"{stack[: args.block].nbytes / 2**20:.1f} MiB in memory at a time")
        total, track = statistics(stack, args.block)
        for colour, mean, std in zip(
            ("red", "green", "blue"), total.mean, total.std(correction=1), strict=True
        ):
            print(f"{colour:>6}: mean {mean:.9f}  standard deviation {std:.9f}")
        for name in ("NumPy, float32", "lucid.Moments"):
            print(f"error of the mean by {name}: {track[name][-1]:.1e}")
        if args.output:
            plot(track, stack, args.output / "image_stack.png")
            print(f"wrote {args.output}/image_stack.png")
    return track


if __name__ == "__main__":
    main()
