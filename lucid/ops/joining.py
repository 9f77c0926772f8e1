"""Rules that join arrays, take them apart, and subtract neighbours."""

from __future__ import annotations

import operator

import numpy as np

from .._tensor import as_tensors, dtype_name
from ..autograd import Function, OpSchema
from ..backends import namespace
from .elementwise import fit
from .indexing import getitem
from .reductions import axes_of, broadcast_to, refuse
from .shape import atleast_1d, atleast_2d, atleast_3d, expand_dims, ravel, transpose


class Concatenate(Function):
    schema_v1 = OpSchema("concatenate")
    saves_input = False

    @staticmethod
    def forward(ctx, axis, *arrays):
        y = namespace(*arrays).concatenate(arrays, axis)  # this checks the shapes
        ctx.axis = axis
        ctx.lengths = [a.shape[axis] for a in arrays]
        return y

    @staticmethod
    def backward(ctx, g):
        before = (slice(None),) * (ctx.axis % g.ndim)
        grads, start = [None], 0
        for i, n in enumerate(ctx.lengths, 1):
            part = (*before, slice(start, start + n))
            grads.append(fit(ctx, i, getitem(g, part)) if ctx.needs_input_grad[i] else None)
            start += n
        return tuple(grads)


def concatenate(arrays, axis=0, out=None, dtype=None, casting="same_kind"):
    refuse("concatenate", out=out, casting=None if casting == "same_kind" else casting)
    arrays = as_tensors(*arrays)
    if dtype is not None:
        arrays = [a.astype(dtype) for a in arrays]
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    return Concatenate.apply(axis, *arrays)


def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    arrays = as_tensors(*arrays)
    if len({a.shape for a in arrays}) > 1:
        raise ValueError(
            f"stack: all arrays must have one shape, got {', '.join(str(a.shape) for a in arrays)}"
        )
    return concatenate([expand_dims(a, axis) for a in arrays], axis, out, dtype, casting)


def split(ary, indices_or_sections, axis=0):
    (axis,) = axes_of(axis, ary.ndim)
    parts = np.split(np.arange(ary.shape[axis]), indices_or_sections)
    before = (slice(None),) * axis
    return [
        getitem(ary, (*before, slice(p[0], p[-1] + 1) if len(p) else slice(0, 0))) for p in parts
    ]


def hstack(tup, *, dtype=None, casting="same_kind"):
    arrays = [atleast_1d(a) for a in as_tensors(*tup)]
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


def vstack(tup, *, dtype=None, casting="same_kind"):
    return concatenate([atleast_2d(a) for a in as_tensors(*tup)], 0, dtype=dtype, casting=casting)


def dstack(tup):
    return concatenate([atleast_3d(a) for a in as_tensors(*tup)], 2)


def column_stack(tup):
    arrays = as_tensors(*tup)
    return concatenate([a if a.ndim > 1 else transpose(atleast_2d(a)) for a in arrays], 1)


def diff(a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
    if operator.index(n) < 0:
        raise ValueError(f"diff: n must not be negative, got {n}")
    ends = [x for x in (prepend, append) if x is not np._NoValue]
    a, *ends = as_tensors(a, *ends)
    if a.ndim == 0:
        raise ValueError("diff: a must have at least one axis, got a number")
    if n == 0:
        return a
    (axis,) = axes_of(axis, a.ndim)
    shape = tuple([1 if i == axis else k for i, k in enumerate(a.shape)])
    ends = [e if e.ndim else broadcast_to(e, shape) for e in ends]
    if ends:
        first = [] if prepend is np._NoValue else [ends.pop(0)]
        a = concatenate([*first, a, *ends], axis)
    before = (slice(None),) * axis
    subtract = np.not_equal if dtype_name(a.dtype).startswith("bool") else np.subtract
    for _ in range(n):
        a = subtract(getitem(a, (*before, slice(1, None))), getitem(a, (*before, slice(-1))))
    return a
