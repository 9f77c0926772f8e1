"""What is known of an operation by name: its version, its autocast policy."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._tensor import Tensor, dtype_name, module_of
from .mode import _mode

_HALF = frozenset({"float16", "bfloat16"})


class AmpPolicy(enum.Enum):
    """What a Function does with its floating inputs inside `lucid.autocast`."""

    KEEP_INPUT = "keep_input"
    PROMOTE = "promote"
    FORCE_FP32 = "force_fp32"


@dataclass(frozen=True, slots=True)
class OpSchema:
    """The name and the contract of a Function, read by `Function.apply`.

    Parameters
    ----------
    name : str
        The operation's public name.
    version : int
        Raised when its meaning changes; 0 for Functions that declare no schema.
    amp_policy : AmpPolicy
        How `lucid.autocast` treats its inputs.
    produces_grad : bool
        False for operations whose result is a constant, such as comparisons.
    """

    name: str
    version: int = 1
    amp_policy: AmpPolicy = AmpPolicy.KEEP_INPUT
    produces_grad: bool = True


def cast_inputs(schema: OpSchema, *args: Any) -> tuple[Any, ...]:
    """Cast floating Tensors and arrays among `args` as the schema says inside autocast.

    On the CPU a half type is storage only: PROMOTE computes in float32 there. float64, integers
    and everything that is not an array are left alone, and so is everything outside autocast.

    Parameters
    ----------
    schema : OpSchema
        Whose policy holds.
    *args
        Whatever an operation takes.

    Returns
    -------
    tuple
        `args`, the floating Tensors and arrays among them cast.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> schema = lucid.ops.schemas()["batch_norm"]
    >>> with lucid.autocast("float16"):
    ...     x, axis = lucid.amp.cast_inputs(schema, np.ones(3, np.float16), 0)
    >>> x.dtype, axis
    (dtype('float32'), 0)
    """
    target = _mode.get().autocast
    if target is None or schema.amp_policy is AmpPolicy.KEEP_INPUT:
        return args
    return tuple(_cast(a, target, schema.amp_policy) for a in args)


def _cast(a: Any, target: str, policy: AmpPolicy) -> Any:
    data = a.data if isinstance(a, Tensor) else a
    name = dtype_name(getattr(data, "dtype", None))
    if name not in _HALF and name != "float32":
        return a
    on_cpu = isinstance(data, (np.ndarray, np.generic))
    wanted = "float32" if on_cpu or policy is AmpPolicy.FORCE_FP32 else target
    return a if name == wanted else a.astype(getattr(module_of(data), wanted))
