"""Types of the array calls of batch normalization; see `batch_norm.pyx`."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

_Array = NDArray[Any]
_Three = tuple[_Array, _Array, _Array]
_Wanted = tuple[_Array | None, _Array | None, _Array | None]

def forward(
    x: _Array,
    weight: _Array | None,
    bias: _Array | None,
    running_mean: _Array | None,
    running_var: _Array | None,
    momentum: float,
    eps: float,
    channel_axis: int,
) -> _Three: ...
def inference(
    x: _Array,
    weight: _Array | None,
    bias: _Array | None,
    running_mean: _Array,
    running_var: _Array,
    eps: float,
    channel_axis: int,
) -> _Three: ...
def backward(
    dy: _Array,
    x: _Array,
    weight: _Array | None,
    bias: _Array | None,
    mean: _Array,
    rstd: _Array,
    training: bool,
    channel_axis: int,
    needs: Sequence[bool],
) -> _Wanted: ...
def double_backward(
    v: _Array | None,
    w: _Array | None,
    u: _Array | None,
    dy: _Array,
    x: _Array,
    weight: _Array | None,
    mean: _Array,
    rstd: _Array,
    training: bool,
    channel_axis: int,
    needs: Sequence[bool],
) -> _Wanted: ...
