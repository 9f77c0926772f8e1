"""Rules of products: matmul and einsum, and what is made of them."""

from __future__ import annotations

import math
import operator
import string

import numpy as np

from .._tensor import as_tensor, as_tensors
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace
from .elementwise import Multiply, fit
from .reductions import axes_of, is_half, refuse
from .shape import ravel, swapaxes, transpose

_SUBSCRIPTS = string.ascii_uppercase + string.ascii_lowercase  # in the order of their numbers


class Matmul(Function):
    """The product of matrices, or stacks of them."""

    schema_v1 = OpSchema("matmul", amp_policy=AmpPolicy.PROMOTE)
    fresh_grads = True

    @staticmethod
    def forward(ctx, x, y):
        need_x, need_y = ctx.needs_input_grad
        ctx.save_for_backward(x if need_y else None, y if need_x else None)
        if is_half(x) and is_half(y):  # NumPy has no BLAS for these, and bfloat16 comes out wide
            return (x.astype(np.float32) @ y.astype(np.float32)).astype(np.result_type(x, y))
        return x @ y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (
            None if y is None else fit(ctx, 0, Matmul.apply(g, _transposed(y))),
            None if x is None else fit(ctx, 1, Matmul.apply(_transposed(x), g)),
        )


def _transposed(x):
    return swapaxes(as_tensor(x), -1, -2)


def matmul(x1, x2, /):
    x1, x2 = as_tensors(x1, x2)
    if x1.ndim > 1 and x2.ndim > 1:
        return Matmul.apply(x1, x2)
    if not x1.ndim or not x2.ndim:
        raise ValueError(
            f"matmul: arguments must have at least one axis, got shapes {x1.shape}, {x2.shape}"
        )
    axis_1, axis_2 = x1.ndim == 1, x2.ndim == 1
    y = Matmul.apply(x1[None] if axis_1 else x1, x2[:, None] if axis_2 else x2)
    return y[..., 0, 0] if axis_1 and axis_2 else y[..., 0, :] if axis_1 else y[..., 0]


def dot(a, b, out=None):
    refuse("dot", out=out)
    a, b = as_tensors(a, b)
    if not a.ndim or not b.ndim:
        return Multiply.apply(a, b)
    return matmul(a, b) if b.ndim <= 2 else tensordot(a, b, (-1, -2))


def inner(a, b, /):
    a, b = as_tensors(a, b)
    return tensordot(a, b, (-1, -1)) if a.ndim and b.ndim else Multiply.apply(a, b)


def outer(a, b, out=None):
    refuse("outer", out=out)
    a, b = as_tensors(a, b)
    return Multiply.apply(ravel(a)[:, None], ravel(b))


def tensordot(a, b, axes=2):
    a, b = as_tensors(a, b)
    if isinstance(axes, int):
        axes = range(a.ndim - axes, a.ndim), range(axes)
    axes_a, axes_b = (
        axes_of(tuple(x) if np.iterable(x) else x, t.ndim)
        for x, t in zip(axes, (a, b), strict=True)
    )
    lengths_a, lengths_b = [a.shape[i] for i in axes_a], [b.shape[i] for i in axes_b]
    if lengths_a != lengths_b:
        raise ValueError(f"tensordot: axes must match in length, got {lengths_a} and {lengths_b}")
    free_a = [i for i in range(a.ndim) if i not in axes_a]
    free_b = [i for i in range(b.ndim) if i not in axes_b]
    n = math.prod(lengths_a)
    shape_a, shape_b = [a.shape[i] for i in free_a], [b.shape[i] for i in free_b]
    left = transpose(a, (*free_a, *axes_a)).reshape((math.prod(shape_a), n))
    right = transpose(b, (*axes_b, *free_b)).reshape((n, math.prod(shape_b)))
    return Matmul.apply(left, right).reshape((*shape_a, *shape_b))


class Einsum(Function):
    """Explicit subscripts without ellipsis; no index twice in one operand."""

    schema_v1 = OpSchema("einsum", amp_policy=AmpPolicy.PROMOTE)

    @staticmethod
    def forward(ctx, subscripts, optimize, *operands):
        ctx.subscripts, ctx.optimize = subscripts, optimize
        ctx.save_for_backward(*operands)
        if all(map(is_half, operands)):
            y = np.einsum(subscripts, *operands, optimize=optimize, dtype=np.float32)
            return y.astype(np.result_type(*operands))
        return namespace(*operands).einsum(subscripts, *operands, optimize=optimize)

    @staticmethod
    def backward(ctx, g):
        operands = ctx.saved_tensors
        terms, result = ctx.subscripts.split("->")
        terms = terms.split(",")
        grads = [None, None]
        for i, wanted in enumerate(terms):
            if not ctx.needs_input_grad[i + 2]:
                grads.append(None)
                continue
            others = [*terms[:i], *terms[i + 1 :]]
            arrays = [*operands[:i], *operands[i + 1 :]]
            # What only this operand has, or the others have once, was summed within it: its
            # gradient is repeated there.
            pairs = [
                p for t, a in zip(others, arrays, strict=True) for p in zip(t, a.shape, strict=True)
            ]
            longer = {c for c, n in pairs if n != 1}
            alone = "".join(c for c in wanted if c not in result and c not in longer)
            lengths = dict(zip(wanted, operands[i].shape, strict=True))
            ones = namespace(g.data).ones([lengths[c] for c in alone], g.dtype)
            terms_back = ",".join([result, *others, alone])
            back = Einsum.apply(f"{terms_back}->{wanted}", ctx.optimize, g, *arrays, ones)
            grads.append(fit(ctx, i + 2, back))
        return tuple(grads)


def einsum(subscripts, /, *arrays, out=None, optimize=False, dtype=None):
    refuse("einsum", out=out, dtype=dtype)
    if not isinstance(subscripts, str):
        subscripts, arrays = _from_sublists(subscripts, *arrays)
    tensors = as_tensors(*arrays)
    terms, result = _explicit(subscripts, tensors)
    spare = [c for c in string.ascii_letters if c not in "".join(terms)]
    for i, term in enumerate(list(terms)):
        for k, c in enumerate(term):
            if c in term[:k]:  # a diagonal: the sum of products with the identity
                new = spare.pop()
                terms[i] = terms[i][:k] + new + terms[i][k + 1 :]
                terms.append(c + new)
                xp, n = namespace(tensors[i].data), tensors[i].shape[k]
                tensors.append(as_tensor(xp.eye(n, dtype=tensors[i].dtype)))
    return Einsum.apply(f"{','.join(terms)}->{result}", optimize, *tensors)


def _from_sublists(*arguments):
    """Return the subscripts and operands of ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    arrays, sublists = arguments[0 : len(arguments) // 2 * 2 : 2], arguments[1::2]
    terms = ",".join(map(_letters, sublists))
    return terms if len(arguments) % 2 == 0 else f"{terms}->{_letters(arguments[-1])}", arrays


def _letters(sublist):
    if not isinstance(sublist, (list, tuple)):
        raise TypeError(
            "einsum: subscripts must be a string, or each operand be followed by a list, got "
            f"{type(sublist).__name__}"
        )
    numbers = [i if i is Ellipsis else operator.index(i) for i in sublist]
    wrong = [i for i in numbers if i is not Ellipsis and not 0 <= i < len(_SUBSCRIPTS)]
    if wrong:
        raise ValueError(f"einsum: subscripts must be between 0 and 51, got {wrong[0]}")
    return "".join("..." if i is Ellipsis else _SUBSCRIPTS[i] for i in numbers)


def _explicit(subscripts, operands):
    """Return the terms and the result, with letters in place of every ellipsis."""
    terms, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = terms.split(",")
    if len(terms) != len(operands):
        raise ValueError(
            f"einsum: subscripts must have a term for each of {len(operands)} operands, "
            f"got {subscripts!r}"
        )
    spare = [c for c in string.ascii_letters if c not in subscripts]
    hidden = ""
    for i, (term, t) in enumerate(zip(terms, operands, strict=True)):
        if "..." in term:
            n = t.ndim - len(term.replace("...", ""))
            while len(hidden) < n:
                hidden = spare.pop() + hidden
            terms[i] = term.replace("...", hidden[len(hidden) - n :])
    if not arrow:
        letters = "".join(terms)
        result = hidden + "".join(
            sorted(c for c in set(letters) if letters.count(c) == 1 and c not in hidden)
        )
    return terms, result.replace("...", hidden)
