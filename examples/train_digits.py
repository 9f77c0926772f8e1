"""Train a small batch-normalised network on digits
================================================

The data are scikit-learn's digits, 1,797 real 8x8 images. The network is ``Linear → BatchNorm1d →
ReLU`` twice and a linear classifier, trained by stochastic gradient descent with Nesterov momentum
on three quarters of the images and tested on the rest::

    python examples/train_digits.py --output output/digits

With ``--output DIR`` it writes ``curves.png`` (loss, accuracy, running statistics),
``metrics.json`` and ``model.safetensors``, in the place of an earlier run's, then loads the weights
into a fresh network and compares predictions.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import lucid
import lucid.nn.functional as F
from lucid import nn

FILES = ("curves.png", "metrics.json", "model.safetensors")
BATCH_SIZE = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9


def load_data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardised train and test images, and their labels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=0.25, random_state=seed, stratify=labels
    )
    mean, var = lucid.mean_var(x_train, axis=0)
    scale = np.sqrt(np.maximum(var, 1))  # pixels go from 0 to 16; the border hardly varies
    x_train, x_test = (((x - mean) / scale).astype(np.float32) for x in (x_train, x_test))
    return x_train, x_test, y_train, y_test


def make_network(seed: int, hidden: int = 128) -> nn.Sequential:
    """Two batch-normalised hidden layers; a bias before batch norm would change nothing."""
    rng = np.random.default_rng(seed)
    return nn.Sequential(
        nn.Linear(64, hidden, bias=False, rng=rng),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden, bias=False, rng=rng),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, 10, rng=rng),
    )


class SGD:
    """Stochastic gradient descent with Nesterov momentum."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.velocities = [0.0] * len(self.parameters)

    def step(self, learning_rate: float) -> None:
        for i, p in enumerate(self.parameters):
            g = p.grad.data
            v = self.velocities[i] = MOMENTUM * self.velocities[i] + g
            p.copy_(p.data - learning_rate * (g + MOMENTUM * v))


def predict(model: nn.Module, x: np.ndarray, device: str) -> np.ndarray:
    """Logits in evaluation mode, as an array."""
    model.eval()
    with lucid.no_grad():
        return model(lucid.tensor(x, device=device)).numpy()


def evaluate(logits: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Loss and accuracy of `logits`."""
    loss = float(F.cross_entropy(logits, y))
    return {"loss": loss, "accuracy": float(lucid.mean(logits.argmax(axis=1) == y))}


def train_epoch(model, optimizer, x, y, learning_rates, rng, device, bar) -> None:
    """One pass over `x` in shuffled mini-batches, one for each learning rate."""
    model.train()
    batches = np.array_split(rng.permutation(len(x)), len(learning_rates))
    for batch, learning_rate in zip(batches, learning_rates, strict=True):
        model.zero_grad()
        loss = F.cross_entropy(model(lucid.tensor(x[batch], device=device)), y[batch])
        loss.backward()
        optimizer.step(learning_rate)
        bar.update()


def train(model, data, epochs: int, seed: int, device: str) -> list[dict]:
    """Train `model`; the metrics of each epoch."""
    from tqdm import tqdm

    x_train, x_test, y_train, y_test = data
    steps = -(-len(x_train) // BATCH_SIZE)
    # Half a cosine, so that the last epochs hardly move.
    phase = np.linspace(0, np.pi, epochs * steps, endpoint=False)
    schedule = (LEARNING_RATE * 0.5 * (1 + np.cos(phase))).reshape(epochs, steps).tolist()
    optimizer, rng, history = SGD(model.parameters()), np.random.default_rng(seed), []
    with tqdm(total=epochs * steps, unit="step") as bar:
        for epoch, rates in enumerate(schedule, 1):
            train_epoch(model, optimizer, x_train, y_train, rates, rng, device, bar)
            of_train = evaluate(predict(model, x_train, device), y_train)
            of_test = evaluate(predict(model, x_test, device), y_test)
            state = model.state_dict()
            history.append(
                {f"train_{k}": v for k, v in of_train.items()}
                | {f"test_{k}": v for k, v in of_test.items()}
                | {k: state[f"1.{k}"][:8].tolist() for k in ("running_mean", "running_var")}
            )
            bar.write(
                f"epoch {epoch:3d}  train loss {of_train['loss']:.4f} "
                f"accuracy {of_train['accuracy']:.4f}  test loss {of_test['loss']:.4f} "
                f"accuracy {of_test['accuracy']:.4f}"
            )
    return history


def plot(history: list[dict]) -> bytes:
    """Draw loss, accuracy and the running statistics of the first batch norm by epoch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    epochs = range(1, len(history) + 1)
    fig, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained", sharex=True)
    for ax, quantity in zip(axes[0], ("loss", "accuracy"), strict=True):
        for part in ("train", "test"):
            ax.plot(epochs, [h[f"{part}_{quantity}"] for h in history], label=part)
        ax.set_title(quantity)
        ax.legend()
    for ax, quantity in zip(axes[1], ("running_mean", "running_var"), strict=True):
        channels = [h[quantity] for h in history]
        ax.plot(epochs, channels, linewidth=1)
        ax.set(xlabel="epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_title(f"first batch norm: {quantity}, {len(channels[0])} channels", fontsize=10)
    png = io.BytesIO()
    fig.savefig(png, dpi=120)
    plt.close(fig)
    return png.getvalue()


def write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; its permissions are those of any new file."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def save(output: Path, model, history: list[dict], report: dict, x_test, device: str) -> None:
    """Write curves, metrics and weights, and check that reloaded weights predict the same."""
    from safetensors.numpy import load_file, save

    curves, metrics, weights = (output / name for name in FILES)
    write(curves, plot(history))
    write(metrics, json.dumps(report | {"history": history}, indent=1).encode())
    write(weights, save(model.state_dict()))

    fresh = make_network(seed=report["seed"] + 1).to(device)
    fresh.load_state_dict(load_file(weights))
    same = np.array_equal(predict(model, x_test, device), predict(fresh, x_test, device))
    print(f"wrote {output}/{', '.join(FILES)}")
    print(f"reloaded weights give {'the same' if same else 'OTHER'} predictions")
    if not same:
        raise SystemExit(1)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training set")
    parser.add_argument("--seed", type=int, default=0, help="of split, weights and batches")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="gpu needs MLX")
    parser.add_argument("--output", type=Path, help="folder for curves, metrics and weights")
    args = parser.parse_args(argv)
    if problem := next(problems(args), None):
        parser.exit(2, f"{parser.prog}: {problem}\n")
    return args


def problems(args: argparse.Namespace):
    """Yield what is wrong with the command line, or would be once the training is done."""
    if args.epochs < 1:
        yield f"--epochs: must be at least 1, got {args.epochs}"
    if not 0 <= args.seed < 2**32:
        yield f"--seed: must be from 0 to 2**32 - 1, got {args.seed}"
    if args.device == "gpu" and not find_spec("mlx"):
        yield "--device: gpu needs MLX: pip install 'lucid-numpy[mlx]'"
    needed = ["sklearn", "tqdm", *(["matplotlib", "safetensors"] if args.output else [])]
    if missing := [name for name in needed if not find_spec(name)]:
        yield f"needs {' and '.join(missing)}: pip install 'lucid-numpy[examples]'"
    if args.output:
        try:
            args.output.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=args.output).close()
        except FileExistsError:
            yield f"--output: {args.output} is no folder"
        except OSError as error:
            yield f"--output: can't write to {args.output}: {error.strerror}"
        for path in (args.output / name for name in FILES):
            if path.is_dir():
                yield f"--output: {path} is a folder"


def main(argv: list[str] | None = None) -> None:
    """Train and report, as the command line says."""
    args = parse(argv)

    start = time.perf_counter()
    data = load_data(args.seed)
    model = make_network(args.seed).to(args.device)
    print(model)
    history = train(model, data, args.epochs, args.seed, args.device)
    seconds = time.perf_counter() - start
    last = {k: v for k, v in history[-1].items() if not k.startswith("running")}
    report = vars(args) | last | {"seconds": round(seconds, 1)}
    report.pop("output")
    print(f"test accuracy {last['test_accuracy']:.4f} after {args.epochs} epochs, {seconds:.1f} s")
    if args.output:
        save(args.output, model, history, report, data[1], args.device)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("train_digits: interrupted", file=sys.stderr)
        sys.exit(130)  # as shells count it: 128 + SIGINT
    except OSError as error:  # the disk is full, say
        sys.exit(f"train_digits: {error}")
