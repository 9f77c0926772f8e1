"""Batch normalization as layers: PyTorch's modules over `lucid.nn.functional.batch_norm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from lucid._tensor import module_of, on_device_of, tensor
from lucid.nn import functional as F
from lucid.nn.module import Module, Parameter, check_options, is_writable

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from lucid._tensor import Tensor

    _Layer = TypeVar("_Layer", bound="_BatchNorm")


class _BatchNorm(Module):
    """Parameters, buffers and counter; the subclasses say which shapes they take."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _layouts: ClassVar[dict[int, str]]  # number of axes -> their names
    _parameters = ("weight", "bias")
    _optional_state = ("num_batches_tracked",)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        device, dtype = check_options(self, device, dtype, num_features=num_features)
        zeros, ones = np.zeros(num_features), np.ones(num_features)
        self.weight = Parameter(ones, dtype=dtype, device=device) if affine else None
        self.bias = Parameter(zeros, dtype=dtype, device=device) if affine and bias else None
        for name, value, kind in (
            ("running_mean", zeros, dtype),
            ("running_var", ones, dtype),
            ("num_batches_tracked", 0, np.int64),
        ):
            buffer = tensor(value, dtype=kind, device=device) if track_running_stats else None
            self.register_buffer(name, buffer)

    def forward(self, input: Any) -> Any:
        """Normalize `input` by its own statistics in training mode, by the running ones else."""
        if not hasattr(input, "ndim"):
            input = on_device_of(self.running_mean if self.weight is None else self.weight, input)
            input = input if hasattr(input, "ndim") else np.asarray(input)
        self._check(input)
        training, momentum = self.training, self.momentum
        counter = self.num_batches_tracked if training and self.track_running_stats else None
        if counter is not None:
            if not is_writable(counter):
                raise ValueError(
                    f"{type(self).__name__}: num_batches_tracked must be writable, it is read-only"
                )
            count = int(counter.data) + 1
            if momentum is None:  # the plain average of all batches so far
                momentum = 1 / count
        if training and not self.track_running_stats:
            running_mean = running_var = None
        else:
            running_mean, running_var = self.running_mean, self.running_var
        y = F.batch_norm(
            input,
            running_mean,
            running_var,
            self.weight,
            self.bias,
            training or running_mean is None,
            0.0 if momentum is None else momentum,
            self.eps,
        )
        if counter is not None:
            # Last, so that a call that raises is not counted; and a number that is there at once,
            # where adding one on the gpu would have to be waited for in the next step.
            counter.copy_(module_of(counter.data).array(count, counter.dtype))
        return y

    def _check(self, input: Any) -> None:
        if input.ndim not in self._layouts:
            expected = " or ".join(f"{n}-D input ({s})" for n, s in self._layouts.items())
            article = "a " if len(self._layouts) == 1 else ""
            raise ValueError(
                f"{type(self).__name__}: expected {article}{expected}, got {input.ndim}-D"
            )
        if input.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: expected {self.num_features} channels on axis 1 of "
                f"input, got shape {input.shape}"
            )

    def extra_repr(self) -> str:
        """Arguments of the constructor."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


_DOC = """Batch normalization of {shapes}, per channel (axis 1).

    In training mode each channel is normalized by the mean and variance of the batch, and the
    running statistics move towards them (mean and unbiased variance) by `momentum`; in evaluation
    mode the running statistics are used [1]_. An array is taken as a constant input.

    Parameters
    ----------
    num_features : int
        Number of channels C.
    eps : float
        Added to the variance.
    momentum : float or None
        Weight of the newest batch in the running statistics. None weighs all batches alike.
    affine : bool
        Whether to scale and shift by `weight` and `bias`.
    track_running_stats : bool
        Whether to keep running statistics; without them evaluation uses the batch too.
    device : {{"cpu", "gpu"}}, optional
    dtype : dtype_like, optional
        Of parameters and running statistics; float32 by default. The output has the input's.
    bias : bool
        False leaves out the shift only.

    Attributes
    ----------
    weight, bias : Parameter, shape (C,), or None
        Scale and shift, one and zero at first.
    running_mean, running_var : Tensor, shape (C,), or None
    num_batches_tracked : Tensor, shape (), int64, or None
        Training batches seen.

    Raises
    ------
    ValueError
        When called with an input of another number of axes or channels, or with one value per
        channel in training mode. Nothing has changed then.

    References
    ----------
    .. [1] S. Ioffe and C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by
       Reducing Internal Covariate Shift", ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from lucid import nn
    >>> bn = nn.{name}(3)
    >>> x = np.random.default_rng(0).normal(size={example})
    >>> bn(x).shape
    {example}
    >>> bn.num_batches_tracked.item()
    1
    """


def _documented(cls: type[_Layer]) -> type[_Layer]:
    *_, layout = cls._layouts.values()
    shapes = " or ".join(f"({s})" for s in cls._layouts.values())
    example = (8, 3, 5, 5, 5)[: layout.count(",") + 1]
    cls.__doc__ = _DOC.format(shapes=shapes, name=cls.__name__, example=example)
    return cls


@_documented
class BatchNorm1d(_BatchNorm):
    _layouts: ClassVar = {2: "N, C", 3: "N, C, L"}


@_documented
class BatchNorm2d(_BatchNorm):
    _layouts: ClassVar = {4: "N, C, H, W"}


@_documented
class BatchNorm3d(_BatchNorm):
    _layouts: ClassVar = {5: "N, C, D, H, W"}
