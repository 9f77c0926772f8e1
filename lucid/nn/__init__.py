"""Layers and losses: as little as a batch-normalised network needs, with PyTorch's names."""

from lucid.nn import functional
from lucid.nn.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from lucid.nn.layers import Linear, ReLU, Sequential
from lucid.nn.module import Module, Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Linear",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "functional",
]
