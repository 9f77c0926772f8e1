"""Train with a gradient penalty
=============================

A classifier should not change its mind when its input hardly changes. Double backpropagation asks
for that: the squared gradient of the loss with respect to the *input* is added to the loss, and the
training step differentiates through it, to second order, through batch normalization too. Two equal
networks learn scikit-learn's digits, one with the penalty and one without; then every test image is
pushed in the direction that hurts most::

    python examples/gradient_penalty.py --output output/penalty

H. Drucker and Y. LeCun, "Improving generalization performance using double backpropagation", IEEE
Transactions on Neural Networks 3 (1992).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import lucid
import lucid.nn.functional as F
from lucid import nn

BATCH_SIZE = 64
PUSHES = np.linspace(0, 16, 9)  # pixels go from 0 to 16


class Network(nn.Module):
    """Two layers with batch normalization and tanh between them, which is smooth."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.first = nn.Linear(64, 64, bias=False, rng=rng)
        self.norm = nn.BatchNorm1d(64)
        self.last = nn.Linear(64, 10, rng=rng)

    def forward(self, x):
        """Return the logits."""
        return self.last(np.tanh(self.norm(self.first(x))))


def load_data(seed: int):
    """Train and test images, centred, and their labels."""
    images, labels = load_digits(return_X_y=True)
    images = (images - lucid.mean(images)).astype(np.float32)
    return train_test_split(images, labels, test_size=0.25, random_state=seed, stratify=labels)


def loss_with_penalty(model, x: np.ndarray, y: np.ndarray, strength: float):
    """Cross-entropy plus the mean squared gradient of an image's own loss, `strength` times."""
    x = lucid.tensor(x, requires_grad=strength > 0)
    losses = F.cross_entropy(model(x), y, reduction="none")
    if not strength:
        return lucid.mean(losses)
    (slope,) = lucid.grad(np.sum(losses), x, create_graph=True)
    return lucid.mean(losses) + strength * lucid.mean(np.sum(slope**2, axis=1))


def train(data, strength: float, epochs: int, seed: int) -> Network:
    """Train a network by plain gradient descent with momentum."""
    x, _, y, _ = data
    model, rng = Network(seed), np.random.default_rng(seed)
    parameters = list(model.parameters())
    velocities = [np.zeros_like(p.data) for p in parameters]
    for _ in tqdm(range(epochs), unit="epoch", desc=f"penalty {strength:g}"):
        for batch in np.array_split(rng.permutation(len(x)), len(x) // BATCH_SIZE):
            model.zero_grad()
            loss_with_penalty(model, x[batch], y[batch], strength).backward()
            for p, v in zip(parameters, velocities, strict=True):
                v *= 0.9
                v -= 0.05 * p.grad.data
                p.copy_(p.data + v)
    return model.eval()


def accuracy_when_pushed(model: Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Accuracy on images moved by each length of `PUSHES` along their own gradient."""
    images = lucid.tensor(x, requires_grad=True)
    (slope,) = lucid.grad(F.cross_entropy(model(images), y, reduction="sum"), images)
    direction = slope.data / np.maximum(np.linalg.norm(slope.data, axis=1, keepdims=True), 1e-30)
    with lucid.no_grad():
        guesses = (model(x + np.float32(p) * direction).numpy().argmax(axis=1) for p in PUSHES)
        return np.array([np.mean(guess == y) for guess in guesses])


def plot(accuracies: dict[str, np.ndarray], path: Path) -> None:
    """Draw accuracy over the length of the push."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.4, 4.5), layout="constrained")
    for name, accuracy in accuracies.items():
        ax.plot(PUSHES, accuracy, ".-", label=name)
    ax.set(xlabel="length of the push (a pixel goes from 0 to 16)", ylabel="test accuracy")
    ax.set_ylim(0, 1.02)
    ax.legend()
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main(argv: list[str] | None = None) -> dict[str, np.ndarray]:
    """Parse the command line, train both, report; returns the accuracies."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--strength", type=float, default=100.0, help="of the penalty")
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training set")
    parser.add_argument("--seed", type=int, default=0, help="of split, weights and batches")
    parser.add_argument("--output", type=Path, help="folder for gradient_penalty.png")
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
    if not args.strength > 0:
        parser.error(f"argument --strength: must be positive, got {args.strength}")

    data, accuracies = load_data(args.seed), {}
    for name, strength in (("without penalty", 0.0), ("with penalty", args.strength)):
        model = train(data, strength, args.epochs, args.seed)
        accuracies[name] = accuracy_when_pushed(model, data[1], data[3])
    print(f"{'push':>15}  " + "  ".join(f"{p:4.1f}" for p in PUSHES))
    for name, accuracy in accuracies.items():
        print(f"{name:>15}  " + "  ".join(f"{a:4.2f}" for a in accuracy))
    if args.output:
        plot(accuracies, args.output / "gradient_penalty.png")
        print(f"wrote {args.output}/gradient_penalty.png")
    return accuracies


if __name__ == "__main__":
    main()
