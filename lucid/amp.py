"""Automatic mixed precision: the types that operations compute in, decided by their schemas."""

from __future__ import annotations

from typing import Any

from ._tensor import dtype_name
from .autograd.mode import Mode, ModeSwitch
from .autograd.schema import AmpPolicy, cast_inputs

__all__ = ["AmpPolicy", "autocast", "cast_inputs"]

_TARGETS = ("float16", "bfloat16", "float32")


class autocast(ModeSwitch):
    """Choose the floating type of operations by their schema: a context manager and decorator.

    Operations marked PROMOTE cast their float16, bfloat16 and float32 inputs to `dtype` (on the
    CPU, where half types are for storage only, to float32); those marked FORCE_FP32 raise half
    inputs to float32; those marked KEEP_INPUT take them as they are. float64 is never touched.
    Each gradient comes back in the dtype of its input.

    Parameters
    ----------
    dtype : {"float16", "bfloat16", "float32"} or dtype
        The type to compute in.
    enabled : bool
        False switches an outer autocast off.

    Raises
    ------
    ValueError
        If `dtype` is none of these.

    Examples
    --------
    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0], dtype="float16")
    >>> with lucid.autocast("float16"):
    ...     print(x.sum().dtype, (x * x).dtype)
    float32 float16
    """

    def __init__(self, dtype: Any, enabled: bool = True) -> None:
        super().__init__()
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", dtype_name(dtype))
        if name not in _TARGETS:
            raise ValueError(f"autocast: dtype must be one of {', '.join(_TARGETS)}, got {dtype!r}")
        self._dtype = name if enabled else None

    def _changed(self, mode: Mode) -> Mode:
        return mode.inside(self, autocast=self._dtype)
