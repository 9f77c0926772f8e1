"""The table of rules: every derivative to second order, against differences and PyTorch."""

import numpy as np
import pytest
from scipy import special

import lucid
import lucid.nn.functional as F
from lucid._tensor import dtype_name
from lucid.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(1)


def normal(*shape):
    """Values away from the kinks at 0 and from each other."""
    x = RNG.standard_normal(shape)
    return x + 0.2 * np.sign(x)


def positive(*shape):
    return np.abs(normal(*shape)) + 0.3


def unit(*shape):
    return np.tanh(normal(*shape))


# name: (function, arguments, the same in PyTorch's namespace or None if it is the same expression)
UNARY = {
    "negative positive exp exp2 expm1 square abs sin cos tan sinh cosh tanh arctan arcsinh sign "
    "floor ceil trunc rint": normal,
    "arcsin arccos arctanh": unit,
    "log log2 log10 log1p sqrt reciprocal": positive,
    "arccosh": lambda *shape: positive(*shape) + 1,
}
BINARY = (
    "add subtract multiply divide power maximum minimum remainder float_power floor_divide hypot "
    "arctan2 logaddexp logaddexp2"
)
SHAPES = [(), (3,), (2, 3), (0,), (2, 0, 3)]
PAIRS = [((3,), (3,)), ((2, 3), (3,)), ((), (2, 3)), ((2, 1), (1, 3)), ((2, 0), (2, 1)), ((), ())]

elementwise = [
    pytest.param(getattr(np, name), [make(*shape)], id=f"{name}-{shape}")
    for names, make in UNARY.items()
    for name in names.split()
    for shape in SHAPES
] + [
    pytest.param(getattr(np, name), [positive(*a), positive(*b)], id=f"{name}-{a}-{b}")
    for name in BINARY.split()
    for a, b in PAIRS
]

elementwise += [
    pytest.param(special.expit, [normal(2, 3)], id="expit"),
    pytest.param(special.xlogy, [normal(2, 3), positive(3)], id="xlogy"),
    pytest.param(special.xlogy, [np.zeros(3), positive(3)], id="xlogy-0"),
]

x23, x234, x3 = normal(2, 3), normal(2, 3, 4), normal(3)
mask = np.array([[True, False, True], [False, True, True]])
repeated = np.array([[0, 1, 1], [1, 0, 0]])

OTHERS = {
    "power 2": (lambda x: x**2, x23),
    "power 3": (lambda x: x**3, x23),
    "power 4.0": (lambda x: x**4.0, x23),
    "power -1": (lambda x: x**-1, x23),
    "power 0": (lambda x: x**0, x23),
    "power 1": (lambda x: x**1, x23),
    "power 0.5": (lambda x: x**0.5, positive(2, 3)),
    "power base 2": (lambda x: 2.0**x, x23),
    "scalars": (lambda x: 2 * x - 3 / (x + 5) + (1 - x) % 7, x23),
    "constants first": (
        lambda a, b, x: a * x - b / x,
        *map(lucid.as_tensor, (np.arange(3.0), np.ones((4, 1, 1)))),
        x23,
    ),
    "divmod": (np.divmod, x23, positive(3)),
    "where": (np.where, mask, x23, normal(3)),
    "where scalar": (lambda m, x: np.where(m, x, 0), mask, x23),
    "clip": (lambda x: np.clip(x, -0.5, 0.7), x23),
    "clip keywords": (lambda x: np.clip(x, min=-0.5, max=None), x23),
    "clip nothing": (lambda x: np.clip(x, None, None), x23),
    "clip tensors": (lambda x, a, b: np.clip(x, a, b), x234, -positive(4), positive(3, 1)),
    "clip crossed": (lambda x, a, b: np.clip(x, a, b), x234, positive(4), -positive(3, 1)),
    "round": (lambda x: np.round(x, 1) + x, x23),
    "copy": (np.copy, x23),
    "astype": (lambda x: x.astype(np.longdouble).astype(np.float64) * x, x23),
    "sum": (np.sum, x234),
    "sum axis": (lambda x: np.sum(x, axis=(0, -1)), x234),
    "sum keepdims": (lambda x: np.sum(x, axis=1, keepdims=True) * x, x234),
    "sum where": (lambda m, x: np.sum(x, axis=0, where=m, initial=2.0) ** 2, mask, x23),
    "sum 0-d": (np.sum, normal()),
    "sum empty": (lambda x: np.sum(x, axis=0), normal(0, 3)),
    "add.reduce": (np.add.reduce, x23),
    "prod": (np.prod, x23),
    "prod axis": (lambda x: np.prod(x, axis=(0, 2)), x234),
    "prod keepdims": (lambda x: np.prod(x, axis=-1, keepdims=True) * x, x234),
    "prod zeros": (lambda x: np.prod(x, axis=1), np.array([[0.0, 1, 2], [0, 0, 3], [1, 2, 3]])),
    "prod where": (lambda m, x: np.prod(x, axis=0, where=m, initial=2.0), mask, x23),
    "prod empty": (lambda x: np.prod(x, axis=0), normal(0, 3)),
    "max": (np.max, x23),
    "amin": (np.amin, x23),
    "max axis": (lambda x: np.max(x, axis=1) ** 2, x234),
    "min keepdims": (lambda x: np.min(x, axis=(0, 1), keepdims=True) * x, x234),
    "max initial": (lambda x: np.max(x, axis=1, initial=0.1), x23),
    "cumsum": (np.cumsum, x23),
    "cumsum axis": (lambda x: np.cumsum(x, axis=1) ** 2, x234),
    "cumprod": (np.cumprod, x23),
    "cumprod axis": (lambda x: np.cumprod(x, axis=1), x234),
    "cumprod method": (lambda x: x.cumprod(-1) ** 2, x234),
    "cumprod zeros": (
        lambda x: np.cumprod(x, axis=1),
        np.array([[0.0, 1, 2, 3], [3, 0, 4, 0], [1, 2, 3, 0.5]]),
    ),
    "cumprod empty": (lambda x: np.cumprod(x, axis=0), normal(0, 3)),
    "average": (np.average, x23),
    "average axis": (lambda x: np.average(x, axis=(0, 2), keepdims=True) ** 2, x234),
    "average weights": (lambda x, w: np.average(x, 1, w), x234, positive(3)),
    "average axes": (lambda x, w: np.average(x, (2, 0), w, returned=True), x234, positive(4, 2)),
    "average of all": (lambda x, w: np.average(x, weights=w), x23, positive(2, 3)),
    "norm": (np.linalg.norm, x234),
    "norm keepdims": (lambda x: np.linalg.norm(x, keepdims=True) * x, x23),
    "norm axis": (lambda x: np.linalg.norm(x, axis=1) ** 3, x234),
    "norm 1": (lambda x: np.linalg.norm(x, 1, axis=-1) ** 2, x23),
    "norm 2": (lambda x: np.linalg.norm(x, 2), x3),
    "norm inf": (lambda x: np.linalg.norm(x, np.inf, axis=0), x23),
    "norm -inf": (lambda x: np.linalg.norm(x, -np.inf, axis=0, keepdims=True), x23),
    "norm fro": (lambda x: np.linalg.norm(x, "fro"), x23),
    "norm matrix 1": (lambda x: np.linalg.norm(x, 1), x23),
    "norm matrix inf": (lambda x: np.linalg.norm(x, np.inf, axis=(2, 0)) ** 2, x234),
    "norm matrix -1": (lambda x: np.linalg.norm(x, -1, axis=(0, 1), keepdims=True), x234),
    "logaddexp.reduce": (np.logaddexp.reduce, x23),
    "logaddexp.reduce axes": (
        lambda x: (
            np.logaddexp.reduce(x, axis=(0, 2), keepdims=True)
            if isinstance(x, lucid.Tensor)
            else special.logsumexp(x, axis=(0, 2), keepdims=True)
        ),
        x234,
    ),
    "softmax": (lambda x: F.softmax(x, 0), x23),
    "log_softmax": (lambda x: F.log_softmax(x, 1), x234),
    "relu": (F.relu, x23),
    "inner": (np.inner, x23, x3),
    "inner matrices": (np.inner, x23, normal(4, 3)),
    "inner scalar": (np.inner, normal(), x23),
    "trace": (lambda x: np.trace(x, 1), x23),
    "trace axes": (lambda x: np.trace(x, -1, 2, 0) ** 2, x234),
    "diagonal": (np.diagonal, x23),
    "diagonal axes": (lambda x: np.diagonal(x, -1, 0, 2) ** 2, x234),
    "diagonal outside": (lambda x: np.diagonal(x, 3), x23),
    "diag": (lambda x: np.diag(x) ** 2, x3),
    "diag above": (lambda x: np.diag(x, 2) ** 2, x3),
    "diag below": (lambda x: np.diag(x, -1), x3),
    "diag of matrix": (lambda x: np.diag(x, -1) ** 2, x23),
    "diff": (np.diff, x23),
    "diff twice": (lambda x: np.diff(x, 2, axis=1) ** 2, x234),
    "diff ends": (
        lambda x, y: np.diff(x, axis=0, prepend=0.0, append=y) ** 2,
        x23,
        normal(2, 3),
    ),
    "diff too often": (lambda x: np.diff(x, 4), x23),
    "matmul": (np.matmul, x23, normal(3, 4)),
    "matmul vectors": (np.matmul, x3, normal(3)),
    "matmul vector-matrix": (np.matmul, x3, normal(3, 2)),
    "matmul matrix-vector": (np.matmul, x23, x3),
    "matmul stacks": (np.matmul, normal(2, 1, 2, 3), normal(4, 3, 2)),
    "matmul stack-vector": (np.matmul, normal(4, 2, 3), x3),
    "matmul empty": (np.matmul, normal(2, 0), normal(0, 3)),
    "matmul constant": (np.matmul, lucid.as_tensor(np.arange(4.0).reshape(2, 2)), x23),
    "dot scalar": (np.dot, normal(), x23),
    "dot": (np.dot, x23, x3),
    "dot stacks": (np.dot, normal(2, 3), normal(4, 3, 2)),
    "outer": (np.outer, x23, x3),
    "tensordot": (lambda x, y: np.tensordot(x, y, 1), x23, normal(3, 4)),
    "tensordot axes": (lambda x, y: np.tensordot(x, y, ((0, 2), (2, 1))), x234, normal(5, 4, 2)),
    "tensordot 0": (lambda x, y: np.tensordot(x, y, 0), x23, x3),
    "einsum": (lambda x, y: np.einsum("ij,jk->ik", x, y), x23, normal(3, 4)),
    "einsum implicit": (lambda x, y: np.einsum("ij,jk", x, y), x23, normal(3, 4)),
    "einsum three": (lambda *a: np.einsum("i,ij,j->", *a, optimize=True), normal(2), x23, x3),
    "einsum trace": (lambda x: np.einsum("ii", x), normal(3, 3)),
    "einsum diagonal": (lambda x: np.einsum("iji->ij", x), normal(3, 2, 3)),
    "einsum alone": (lambda x, y: np.einsum("ij,k->k", x, y), x23, x3),
    "einsum once": (lambda x, y: np.einsum("ij,ij->j", x, y), normal(1, 3), normal(2, 3)),
    "einsum once, summed": (lambda x, y: np.einsum("ij,ij->", x, y), normal(2, 1), normal(1, 3)),
    "einsum once of three": (
        lambda *a: np.einsum("ij,ij,jk->k", *a),
        normal(1, 3),
        normal(2, 1),
        normal(1, 2),
    ),
    "einsum ellipsis": (
        lambda x, y: np.einsum("...ij,...j->...i", x, y),
        normal(2, 1, 2, 3),
        normal(4, 3),
    ),
    "einsum sublists": (
        lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]),
        x23,
        normal(3, 4),
    ),
    "einsum sublists implicit": (
        lambda x, y: np.einsum(x, [..., 7], y, [7, 2]),
        x234,
        normal(4, 2),
    ),
    "nan_to_num": (lambda x: np.nan_to_num(x) ** 2, x23),
    "real": (lambda x: np.real(x) * x.real, x23),
    "reshape": (lambda x: x.reshape(3, -1), x234),
    "reshape F": (lambda x: np.reshape(x, (4, 6), order="F") ** 2, x234),
    "ravel": (np.ravel, x23),
    "squeeze": (np.squeeze, normal(1, 2, 1)),
    "squeeze axis": (lambda x: x.squeeze(-1), normal(1, 2, 1)),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1)), x23),
    "broadcast_to": (lambda x: np.broadcast_to(x, (4, 2, 3)), normal(2, 1)),
    "T": (lambda x: x.T, x234),
    "transpose": (lambda x: x.transpose(1, -1, 0), x234),
    "moveaxis": (lambda x: np.moveaxis(x, (0, 1), (-1, 0)), x234),
    "swapaxes": (lambda x: np.swapaxes(x, 0, -1), x234),
    "flip": (np.flip, x23),
    "flip axis": (lambda x: np.flip(x, axis=1), x234),
    "roll": (lambda x: np.roll(x, 2), x23),
    "roll axes": (lambda x: np.roll(x, (1, -2), axis=(0, 2)), x234),
    "pad": (lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3.0), x23),
    "pad one": (lambda x: np.pad(x, 1), x23),
    "concatenate": (lambda x, y: np.concatenate([x, y, x], axis=1), x23, normal(2, 1)),
    "concatenate flat": (lambda x, y: np.concatenate([x, y], axis=None), x23, x3),
    "stack": (lambda x, y: np.stack([x, y], axis=-1), x23, normal(2, 3)),
    "split": (lambda x: np.split(x, 3, axis=1), x23),
    "split at": (lambda x: np.split(x, [1, 1], axis=-1), x234),
    "hstack": (lambda x, y: np.hstack([x, y, 2.0]), x3, normal()),
    "hstack matrices": (lambda x, y: np.hstack([x, y]), x23, normal(2, 1)),
    "vstack": (lambda x, y: np.vstack([x, y]), x23, x3),
    "dstack": (lambda x, y: np.dstack([x, y, x]), x23, normal(2, 3)),
    "dstack vectors": (lambda x, y: np.dstack([x, y]), x3, normal(3)),
    "column_stack": (lambda x, y: np.column_stack([x, y, x]), x3, normal(3, 2)),
    "atleast_1d": (np.atleast_1d, normal(), x23),
    "atleast_2d": (np.atleast_2d, normal(), x3, x234),
    "atleast_3d": (np.atleast_3d, normal(), x3, x23, x234),
    "repeat": (lambda x: np.repeat(x, 3) ** 2, x23),
    "repeat axis": (lambda x: x.repeat(2, axis=1) ** 2, x234),
    "repeat each": (lambda x: np.repeat(x, [2, 0, 1], axis=-1) ** 2, x23),
    "repeat never": (lambda x: np.repeat(x, 0, axis=0), x23),
    "tile": (lambda x: np.tile(x, 2) ** 2, x23),
    "tile more axes": (lambda x: np.tile(x, (2, 1, 3)) ** 2, x23),
    "tile fewer": (lambda x: np.tile(x, [2, 3]), x234),
    "sort": (lambda x: np.sort(x) ** 2, x23),
    "sort axis": (lambda x: np.sort(x, axis=0, kind="mergesort") ** 3, x234),
    "sort flat": (lambda x: np.sort(x, axis=None) ** 2, x23),
    "take_along_axis": (lambda x, i: np.take_along_axis(x, i, 1) ** 2, x23, repeated),
    "take_along_axis wider": (
        lambda x: np.take_along_axis(x, np.array([[[1], [-1]]]), axis=1) ** 2,
        x234,
    ),
    "take_along_axis flat": (lambda x: np.take_along_axis(x, np.array([4, 4]), None), x23),
    "take": (lambda x: np.take(x, [2, 0, 2], axis=1), x234),
    "take flat": (lambda x: np.take(x, repeated), x23),
    "index": (lambda x: x[0], x23),
    "index slices": (lambda x: x[..., ::-2, None, 1:], x234),
    "index mask": (lambda x: x[mask] ** 2, x23),
    "index tensor": (lambda i, x: x[i] ** 2, repeated, x23),
    "index tensor mask": (lambda m, x: x[m] ** 2, mask, x23),
    "index apart": (lambda x: x[[0, 1, 1], :, [1, 1, 0]] ** 2, x234),
    "index repeated": (lambda x: x[repeated] ** 2, x23),
    "index list": (lambda x: x[[1, 1, 0]], x23),
    "index arrays": (lambda x: x[:, [0, 0, 2], [1, 1, 0]] ** 2, x234),
    "index tuple": (lambda x: x[(0, 1), range(2)], x23),
    "index empty": (lambda x: x[[]], x23),
    "index outside tuple": (lambda x: x[1:2][0, 1:], x23),
    "iterate": (lambda x: [row**2 for row in x], x23),
}
others = [pytest.param(f, args, id=name) for name, (f, *args) in OTHERS.items()]


ON_CPU_ONLY = ("astype",)  # longdouble


def leaves(arrays, device="cpu"):
    """Tensors of the arrays: those that are Tensors, integers or masks are constants."""
    return [
        lucid.tensor(a, not isinstance(a, lucid.Tensor) and a.dtype == float, device=device)
        for a in arrays
    ]


@pytest.mark.parametrize(("fun", "arrays"), elementwise + others)
def test_derivatives(fun, arrays, device, request):
    if device == "gpu" and request.node.callspec.id.endswith(ON_CPU_ONLY):
        pytest.skip("needs a type that MLX does not have")
    inputs = leaves(arrays, device)
    arrays = [a.data if isinstance(a, lucid.Tensor) else a for a in arrays]
    result, expected = fun(*inputs), fun(*arrays)
    if isinstance(result, lucid.Tensor):
        result, expected = [result], [expected]
    for y, e in zip(result, expected, strict=True):
        assert isinstance(y, lucid.Tensor)
        assert y.requires_grad
        assert y.device == device
        assert dtype_name(y.dtype) == np.asarray(e).dtype
        np.testing.assert_allclose(y.detach(), e, rtol=1e-14, atol=1e-14, strict=False)
        assert y.shape == np.shape(e)
    assert gradcheck(fun, inputs)
    assert gradgradcheck(fun, inputs)


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8"])
@pytest.mark.parametrize(("fun", "arrays"), elementwise + others)
def test_swapped_bytes(fun, arrays, dtype):
    arrays = [a.data if isinstance(a, lucid.Tensor) else a for a in arrays]
    for k, first in enumerate(arrays):
        if first.dtype.kind != "f":
            continue
        gradients = []
        for order in (dtype, dtype[1:]):  # the others are constants of the same order
            inputs = [
                lucid.as_tensor(a.astype(order) if a.dtype.kind == "f" else a) for a in arrays
            ]
            inputs[k].requires_grad = True
            gradients.append(lucid.grad(total(fun(*inputs)), inputs[k])[0])
        g, expected = gradients
        assert g.dtype.isnative
        assert g.dtype == expected.dtype
        few = 16 * np.finfo(g.dtype).eps  # products of swapped bytes are summed in another order
        np.testing.assert_allclose(g.data, expected.data, rtol=few, atol=few)


def total(result):
    results = [result] if isinstance(result, lucid.Tensor) else result
    return sum(np.sum(y * y) for y in results)


def nodes_behind(results):
    """Return the Functions that computed the results."""
    found, stack = set(), [t.grad_fn for t in results]
    while stack:
        node = stack.pop()
        if isinstance(node, lucid.autograd.Context) and node not in found:
            found.add(node)
            stack += [n for n, _ in node.next_functions]
    return {node.function for node in found}


def test_every_rule_is_in_the_table_above():
    tested = set()
    for fun, arrays in (p.values for p in elementwise + others):
        inputs = leaves(arrays)
        result = fun(*inputs)
        result = [result] if isinstance(result, lucid.Tensor) else result
        inputs = [t for t in inputs if t.requires_grad]
        gradients = lucid.grad(
            result,
            inputs,
            [lucid.tensor(r.detach(), requires_grad=True) for r in result],
            create_graph=True,
        )
        tested |= nodes_behind([*result, *gradients])
    rules, pending = set(), [lucid.autograd.Function]
    while pending:
        children = pending.pop().__subclasses__()
        pending += children
        rules |= {
            rule
            for rule in children
            if rule.__module__.startswith("lucid.ops.")
            and not rule.__module__.endswith((".mean", ".batch_norm", ".device"))
        }
    assert rules - tested == set()
    assert len(rules) > 50
