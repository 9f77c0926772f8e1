"""The table: which rule stands behind each operator, ufunc, NumPy function and method.

To add a rule, write a Function beside its siblings and name it here; the rule table test then
checks its derivatives to second order.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ..autograd import Function, OpSchema
from . import (
    algebra,
    average,
    dispatch,
    elementwise,
    indexing,
    joining,
    mean_front,
    methods,
    norm,
    reductions,
    shape,
    softmax,
    special,
    unary,
)
from .dispatch import constant_rule

__all__ = ["FUNCTIONS", "UFUNCS", "schemas"]

UFUNCS = {
    np.add: elementwise.Add.apply,
    np.subtract: elementwise.Subtract.apply,
    np.multiply: elementwise.Multiply.apply,
    np.divide: elementwise.Divide.apply,
    np.floor_divide: elementwise.FloorDivide.apply,
    np.remainder: elementwise.Remainder.apply,
    np.divmod: elementwise.divmod,
    np.power: elementwise.Power.apply,
    np.float_power: elementwise.float_power,
    np.maximum: elementwise.Maximum.apply,
    np.minimum: elementwise.Minimum.apply,
    np.matmul: algebra.matmul,
    **{ufunc: rule.apply for ufunc, rule in unary.UNARY.items()},
    **special.BINARY,
}


def _from(module: ModuleType, names: str) -> dict[Any, Any]:
    return {getattr(np, name): getattr(module, name) for name in names.split()}


FUNCTIONS = (
    _from(elementwise, "where clip round copy nan_to_num real")
    | _from(reductions, "sum prod max min cumsum cumprod broadcast_to")
    | _from(mean_front, "mean var std")
    | _from(average, "average")
    | _from(algebra, "dot inner outer tensordot einsum")
    | _from(shape, "reshape ravel squeeze expand_dims transpose swapaxes moveaxis roll pad")
    | _from(shape, "atleast_1d atleast_2d atleast_3d repeat tile")
    | _from(indexing, "take take_along_axis flip sort diagonal diag trace")
    | _from(joining, "concatenate stack hstack vstack dstack column_stack split diff")
    | {np.linalg.norm: norm.norm, np.full_like: dispatch.full_like}
    | {np.amax: reductions.max, np.amin: reductions.min, np.around: elementwise.round}
)
# ufunc.reduce
REDUCTIONS = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.logaddexp: softmax.logsumexp,
}

# Functions whose results carry no gradient share one rule.
_CONSTANT_UFUNCS = (
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift isnan isinf "
    "isfinite signbit spacing"
)
_CONSTANT_FUNCTIONS = (
    "shape ndim size zeros_like ones_like empty_like isclose allclose array_equal array_equiv "
    "argmax argmin argsort argwhere nonzero flatnonzero count_nonzero searchsorted digitize all "
    "any isin result_type can_cast min_scalar_type iscomplexobj isrealobj shares_memory "
    "may_share_memory array_repr array_str array2string"
)
UFUNCS |= {f: constant_rule(f) for f in map(np.__dict__.get, _CONSTANT_UFUNCS.split())}
FUNCTIONS |= {f: constant_rule(f) for f in map(np.__dict__.get, _CONSTANT_FUNCTIONS.split())}

dispatch.install(UFUNCS, FUNCTIONS, REDUCTIONS, special.SCIPY, methods.bound(UFUNCS, FUNCTIONS))


def schemas() -> dict[str, OpSchema]:
    """Return the schema of every operation of lucid by its name.

    Examples
    --------
    >>> import lucid
    >>> lucid.ops.schemas()["sum"].amp_policy
    <AmpPolicy.FORCE_FP32: 'force_fp32'>
    """
    found, pending = {}, [Function]
    while pending:
        for rule in pending.pop().__subclasses__():
            pending.append(rule)
            if rule.__module__.startswith(__name__ + ".") and rule.schema_v1.version:
                found[rule.schema_v1.name] = rule.schema_v1
    return dict(sorted(found.items()))
