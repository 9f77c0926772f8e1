"""Count, mean and sum of squared deviations of data seen in blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lucid._kernels.reduce import reduce
from lucid._tensor import Tensor
from lucid.ops.statistics import kernel_array


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean and M2 (sum of squared deviations from the mean) of data seen in blocks.

    ``Moments()`` is empty, and neutral to `merge`.

    Parameters
    ----------
    count : int
        Values behind each mean.
    mean, M2 : float or ndarray of float64
        Both of one shape.

    Examples
    --------
    Statistics of a table too large for memory, say a `numpy.memmap`, block by block:

    >>> import numpy as np
    >>> import lucid
    >>> table = np.arange(1e6).reshape(-1, 2)
    >>> total = lucid.Moments()
    >>> for start in range(0, len(table), 65536):
    ...     total = total.merge(lucid.Moments.of(table[start : start + 65536], axis=0))
    >>> total.count, total.mean
    (500000, array([499999., 500000.]))
    >>> np.allclose(total.var(correction=1), table.var(axis=0, ddof=1))
    True
    """

    count: int = 0
    mean: Any = 0.0
    M2: Any = 0.0

    @classmethod
    def of(cls, x: Any, axis: int | tuple[int, ...] | None = None) -> Moments:
        """Return the moments of an array over `axis`.

        Parameters
        ----------
        x : array_like
            Computed in float64 whatever its dtype, since a mean rounded to float32 would spoil
            the merged M2.
        axis : int, tuple of int or None
            Axes to reduce; all by default.

        Returns
        -------
        Moments
            An empty one if there is nothing to reduce over.

        Raises
        ------
        TypeError
            For masked, complex and other arrays whose moments these are not.
        numpy.exceptions.AxisError
            For an axis out of range.

        Examples
        --------
        >>> import lucid
        >>> lucid.Moments.of([[1.0, 2.0], [3.0, 6.0]], axis=0)
        Moments(count=2, mean=array([2., 4.]), M2=array([2., 8.]))
        """
        array = kernel_array("Moments.of", x.numpy() if isinstance(x, Tensor) else x)
        if array is None:
            kind = getattr(x, "dtype", None) if type(x) is np.ndarray else type(x).__name__
            raise TypeError(f"Moments.of: x must be a plain array of real numbers, got {kind}")
        axes = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim, "axis")
        count = math.prod(array.shape[a] for a in axes)
        if count == 0:
            zeros = np.zeros([n for a, n in enumerate(array.shape) if a not in axes])
            return cls(0, zeros, zeros.copy())
        (mean, var), _ = reduce(array, axes, False, np.dtype(np.float64), True, True)
        return cls(count, mean, var * count)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both data sets together, by Chan's formula [1]_.

        Parameters
        ----------
        other : Moments
            Of the same shape, unless one of the two is empty.

        Returns
        -------
        Moments

        Raises
        ------
        TypeError, ValueError
            If `other` is no Moments, or of another shape.

        References
        ----------
        .. [1] T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating Formulae and a Pairwise
           Algorithm for Computing Sample Variances", Stanford, 1979.

        Examples
        --------
        >>> import lucid
        >>> lucid.Moments.of([1.0, 3.0]).merge(lucid.Moments.of([5.0])).mean.item()
        3.0
        """
        if not isinstance(other, Moments):
            raise TypeError(f"Moments.merge: other must be Moments, got {type(other).__name__}")
        if not other.count:
            return self
        if not self.count:
            return other
        if np.shape(self.mean) != np.shape(other.mean):
            raise ValueError(
                f"Moments.merge: both must have one shape, got {np.shape(self.mean)} and "
                f"{np.shape(other.mean)}"
            )
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        between = delta * delta * (self.count * (other.count / count))
        return Moments(count, mean, self.M2 + other.M2 + between)

    def var(self, correction: float = 0) -> Any:
        """Return the variance, M2 / (count - correction).

        Parameters
        ----------
        correction : float
            0 for the variance of the data, 1 for the unbiased estimate of the population's.

        Returns
        -------
        float64 scalar or ndarray
            NaN if `count` is not larger than `correction`.

        Examples
        --------
        >>> import lucid
        >>> lucid.Moments.of([1.0, 3.0]).var(correction=1).item()
        2.0
        """
        freedom = self.count - correction
        return np.divide(self.M2, freedom if freedom > 0 else np.nan)

    def std(self, correction: float = 0) -> Any:
        """Return the standard deviation, the root of `var`.

        Parameters
        ----------
        correction : float
            As for `var`.

        Returns
        -------
        float64 scalar or ndarray

        Examples
        --------
        >>> import lucid
        >>> lucid.Moments.of([1.0, 3.0]).std().item()
        1.0
        """
        return np.sqrt(self.var(correction))
