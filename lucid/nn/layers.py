"""Layers that a batch-normalised network needs around its batch norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from lucid.nn import functional as F
from lucid.nn.module import Module, Parameter, check_options

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from lucid._tensor import Tensor


class Sequential(Module):
    """Modules called one after the other; they are its attributes ``"0"``, ``"1"``, ….

    Parameters
    ----------
    *modules : Module

    Examples
    --------
    >>> from lucid import nn
    >>> nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): BatchNorm1d(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
      (2): ReLU()
    )
    """

    def __init__(self, *modules: Module) -> None:
        for i, module in enumerate(modules):
            if not isinstance(module, Module):
                raise TypeError(f"Sequential: argument {i} must be a Module, got {module!r}")
            setattr(self, str(i), module)

    def forward(self, input: Any) -> Any:
        """Return the output of the last module."""
        for module in self:
            input = module(input)
        return input

    def __iter__(self) -> Iterator[Module]:
        return (m for m in vars(self).values() if isinstance(m, Module))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: Any) -> Any:
        modules = list(self)[index]
        return Sequential(*modules) if isinstance(index, slice) else modules


class Linear(Module):
    """Affine map ``x @ weight.T + bias`` of the last axis.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last axis of input and output.
    bias : bool
        Whether to add one.
    device : {"cpu", "gpu"}, optional
    dtype : dtype_like, optional
        float32 by default.
    rng : int or numpy.random.Generator, optional
        Draws the initial values, uniform in ±1/√in_features; seeded by the system by default.

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features)
    bias : Parameter, shape (out_features,), or None

    Examples
    --------
    >>> import numpy as np
    >>> from lucid import nn
    >>> nn.Linear(3, 2, rng=0)(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    _parameters = ("weight", "bias")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> None:
        device, dtype = check_options(
            self, device, dtype, in_features=in_features, out_features=out_features
        )
        self.in_features, self.out_features = in_features, out_features
        rng = np.random.default_rng(rng)
        bound = 1 / np.sqrt(max(in_features, 1))

        def draw(*shape: int) -> Parameter:
            return Parameter(rng.uniform(-bound, bound, shape), dtype=dtype, device=device)

        self.weight = draw(out_features, in_features)
        self.bias = draw(out_features) if bias else None

    def forward(self, input: Any) -> Tensor:
        """Map `input` of shape (..., in_features) to (..., out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Arguments of the constructor."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class ReLU(Module):
    """The larger of input and zero.

    Examples
    --------
    >>> import numpy as np
    >>> from lucid import nn
    >>> nn.ReLU()(np.array([-1.0, 2.0]))
    array([0., 2.])
    """

    def forward(self, input: Any) -> Any:
        """Return the positive part of `input`."""
        return F.relu(input)
