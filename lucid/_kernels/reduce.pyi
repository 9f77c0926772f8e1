"""Types of the array call of mean and variance; see `reduce.pyx`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def reduce(
    x: NDArray[Any],
    axes: tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype[Any] | None = None,
    mean: bool = True,
    variance: bool = False,
    ddof: float | np.number[Any] = 0.0,
    root: bool = False,
) -> tuple[Any, bool]: ...
