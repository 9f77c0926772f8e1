"""What is computed, and its arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

EPS, MOMENTUM = 1e-5, 0.1


@dataclass(frozen=True)
class Case:
    """What to compute; `axis` is for means, `last` says channels-last memory."""

    kind: str
    shape: tuple[int, ...]
    axis: int | tuple[int, ...] | None = None
    dtype: str = "float32"
    last: bool = False
    quick: bool = False

    @property
    def name(self) -> str:
        """As shown in the table."""
        words = [self.kind, str(self.shape)]
        if self.kind == "mean":
            words.append("all" if self.axis is None else f"axis {self.axis}")
        words += ["float64"] * (self.dtype != "float32") + ["channels-last"] * self.last
        return " ".join(words)

    @property
    def nbytes(self) -> int:
        """Size of the input."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def limits(self) -> dict[str, int]:
        """How often each limit is to be paid; nothing where calls cost more than memory."""
        if self.nbytes < 100_000:
            return {}
        return {
            "mean": {"read": 1},
            "forward": {"copy": 1},
            "eval": {"copy": 1},
            "backward": {"triad": 1},
            "step": {"copy": 1, "triad": 1},
            "penalty": {"copy": 2, "triad": 2},
        }[self.kind]


IMAGES, SMALL = (32, 64, 56, 56), (8, 16)
SHAPES = [IMAGES, (64, 128, 28, 28), (32, 64, 112, 112), (8, 32, 16, 64, 64), (128, 256, 14, 14)]
CASES = [
    Case("mean", IMAGES, (0, 2, 3), quick=True),
    Case("mean", IMAGES, None),
    Case("mean", (100_000, 128), 0, quick=True),
    Case("mean", (25_000, 1_000), 1),
    Case("mean", IMAGES, (0, 2, 3), "float64"),
    Case("mean", IMAGES, None, "float64"),
    Case("mean", (100_000, 128), 0, "float64"),
    *(Case("forward", s, quick=s in (IMAGES, SHAPES[-1])) for s in [*SHAPES, (256, 512)]),
    Case("forward", IMAGES, last=True),
    Case("eval", IMAGES),
    *(Case("backward", s, quick=s == IMAGES) for s in [*SHAPES, (256, 512)]),
    Case("backward", IMAGES, last=True),
    Case("step", IMAGES, quick=True),
    Case("step", (128, 256, 14, 14)),
    Case("penalty", (32, 64, 28, 28), quick=True),
    Case("mean", SMALL, 0, quick=True),
    Case("forward", SMALL, quick=True),
    Case("step", SMALL, quick=True),
]


class Data:
    """The arrays of a case, the same for every library."""

    def __init__(self, case: Case):
        rng = np.random.default_rng(0)

        def random():
            shape = case.shape
            if case.last:
                shape = (shape[0], *shape[2:], shape[1])
            a = rng.standard_normal(shape, np.float32)
            return np.moveaxis(a, -1, 1) if case.last else a.astype(case.dtype, copy=False)

        channels = case.shape[1]
        self.case, self.x = case, random()
        self.axes = tuple(i for i in range(len(case.shape)) if i != 1)
        self.broadcast = tuple(channels if i == 1 else 1 for i in range(len(case.shape)))
        self.g = self.x if case.kind == "mean" else random()
        order = [a.transpose(0, *range(2, a.ndim), 1) if case.last else a for a in (self.x, self.g)]
        self.flat = [a.reshape(-1) for a in order]
        self.weight = rng.uniform(0.5, 1.5, channels).astype(np.float32)
        self.bias = rng.standard_normal(channels, np.float32)
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)
