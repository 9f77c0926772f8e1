"""NumPy's own calls on Tensors: promotion, constants, keywords, and what has no rule."""

import operator

import numpy as np
import pytest
import scipy.special

import lucid
from lucid._tensor import dtype_name

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


@pytest.fixture
def x(leaf):
    return leaf(X)


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.pow]
OPERATORS += [operator.floordiv]
OTHERS = [
    2,
    0.5,
    np.float32(2),
    np.float64(2),
    np.int64(2),
    np.float16(2),
    np.arange(1, 4),
    np.arange(1, 4, dtype=np.float32),
    np.array(2, np.float32),
    np.array(2, np.float64),
    np.array([True, True, True]),
]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("other", OTHERS, ids=lambda o: f"{type(o).__name__}-{np.shape(o)}")
@pytest.mark.parametrize("op", OPERATORS, ids=lambda f: f.__name__)
def test_promotion_is_numpys(op, other, dtype):
    array = np.array([[1, 2, 3], [4, 5, 6]], dtype)
    t = lucid.tensor(array)
    if dtype != "i4":
        t.requires_grad = True
    for result, expected in ((op(t, other), op(array, other)), (op(other, t), op(other, array))):
        assert isinstance(result, lucid.Tensor)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result.detach(), expected, rtol=1e-3 if dtype == "f2" else 1e-6)
        if result.requires_grad:
            (g,) = lucid.grad(result, t, np.ones(result.shape))
            assert g.dtype == t.dtype
            assert g.shape == t.shape


def test_comparisons_are_constants(x, tensor, array):
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        for other in (0.5, array(X[0]), tensor(X)):
            result = op(x, other)
            assert not result.requires_grad
            np.testing.assert_array_equal(result, op(X, np.asarray(other)))
        np.testing.assert_array_equal(op(X.tolist(), x), op(X, X))


@pytest.mark.parametrize(
    "call",
    [
        np.shape,
        np.ndim,
        np.size,
        np.zeros_like,
        np.ones_like,
        np.isnan,
        np.isfinite,
        np.isinf,
        np.signbit,
        np.argmax,
        np.argmin,
        np.argsort,
        np.nonzero,
        np.argwhere,
        np.flatnonzero,
        np.count_nonzero,
        np.all,
        np.any,
        np.result_type,
        np.iscomplexobj,
        np.isrealobj,
        np.array_repr,
        np.where,
        np.logical_not,
        lambda a: np.argmax(a, axis=1, keepdims=True),
        lambda a: np.allclose(a, a + 1e-12),
        lambda a: np.array_equal(a, a[:, ::-1]),
        lambda a: np.array_equiv(a, a[:1]),
        lambda a: np.isclose(a, a + 1),
        lambda a: np.full_like(a, 3.0),
        lambda a: np.searchsorted([0.0, 1.0], a),
        lambda a: np.result_type(a, np.float32),
        lambda a: a.argmax(1),
        lambda a: (a > 0).all(),
    ],
)
def test_constants(x, call):
    result, expected = call(x), call(X)
    results = result if isinstance(result, tuple) else (result,)
    expecteds = expected if isinstance(expected, tuple) else (expected,)
    for r, e in zip(results, expecteds, strict=True):
        # What NumPy gives as bool is lazy on the gpu.
        lazy = (
            isinstance(e, bool)
            and x.device == "gpu"
            and call not in (np.isrealobj, np.iscomplexobj)
        )
        assert isinstance(r, lucid.Tensor) == (isinstance(e, (np.ndarray, np.generic)) or lazy)
        assert not getattr(r, "requires_grad", False)
        if isinstance(e, np.dtype):
            assert dtype_name(r) == dtype_name(e)
        else:
            np.testing.assert_array_equal(r, e)


@pytest.mark.parametrize("dtype", ["?", "u1", "i4"])
@pytest.mark.parametrize(
    "op",
    [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift],
    ids=lambda f: f.__name__,
)
def test_bits_are_constants(op, dtype, tensor, array):
    a, b = np.array([0, 1, 1, 0]).astype(dtype), np.array([0, 1, 0, 1]).astype(dtype)
    t, s = tensor(a), tensor(b)
    for result, expected in (
        (op(t, array(b)), op(a, b)),
        (op(s, t), op(b, a)),
        (op(t, t), op(a, a)),
    ):
        assert isinstance(result, lucid.Tensor)
        shifted_bits = dtype == "?" and t.device == "gpu"  # they are unsigned in MLX
        assert dtype_name(result.dtype) == dtype_name(expected.dtype) or shifted_bits
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(~t, ~a)
    assert not (~t).requires_grad
    with pytest.raises(
        (TypeError, RuntimeError), match=r"not supported for the input|Only allowed on"
    ):
        op(tensor([1.0], requires_grad=True), t)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "f2", "f4"])
@pytest.mark.parametrize("initial", [1, 2.5, np.float64(0.5), np.int8(3), True])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
def test_initial_is_cast_as_numpy_does(name, dtype, initial, shape, tensor):
    a, fun = (np.arange(6) % 3).astype(dtype)[: np.prod(shape)].reshape(shape), getattr(np, name)
    t = tensor(a, requires_grad=dtype[0] == "f")
    for options in ({}, {"axis": 0}, {"axis": (0, 1), "keepdims": True}):
        result, expected = fun(t, initial=initial, **options), fun(a, initial=initial, **options)
        assert dtype_name(result.dtype) == dtype_name(expected.dtype)
        assert result.shape == expected.shape
        np.testing.assert_array_equal(result.detach(), expected)
    with pytest.raises(ValueError, match=r"initial: must be a number, got shape \(3,\)"):
        fun(t, axis=0, initial=np.ones(3))


def test_initial_has_a_gradient(x, tensor):
    start = tensor(5.0, requires_grad=True)
    for fun in (np.sum, np.prod, np.max):
        assert lucid.autograd.gradcheck(lambda t, s, f=fun: f(t, axis=0, initial=s), (x, start))
    empty = tensor(np.zeros((0, 3)), requires_grad=True)
    (g,) = lucid.grad(np.max(empty, axis=0, initial=start).sum(), start)
    assert g.item() == 3


def test_divmod_and_round(x):
    for result, expected in zip(
        (*divmod(x, 2.0), *divmod(7, x), *np.divmod(X.tolist(), x), round(x), round(x, 1)),
        (*divmod(X, 2.0), *divmod(7, X), *np.divmod(X, X), X.round(), X.round(1)),
        strict=True,
    ):
        assert result.requires_grad
        np.testing.assert_array_equal(result.detach(), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_many_gradients_of_a_half_type_add_up(dtype, tensor, array):
    bias = tensor(np.zeros(2, dtype), requires_grad=True)
    rows = array(np.zeros((4096, 2), dtype))
    for y in (
        np.add(rows, bias),
        np.broadcast_to(bias, rows.shape),
        bias[np.zeros((4096, 2), int)],
    ):
        (g,) = lucid.grad(y.sum(), bias)
        assert dtype_name(g.dtype) == dtype_name(bias.dtype)
        assert g.data.sum() == 8192
    ones = tensor(np.ones((4096, 2), dtype), requires_grad=True)
    assert np.sum(ones, axis=0).data[0] == 4096
    last = np.cumsum(ones, axis=0)
    assert last.data[-1, 0] == 4096
    (g,) = lucid.grad(last, ones, array(np.ones(ones.shape)))
    assert g.data[0, 0] == 4096
    for y in (ones.T @ ones, np.einsum("ij,ik->jk", ones, ones)):
        np.testing.assert_array_equal(y.detach(), np.full((2, 2), 4096))


def test_full_like_keeps_no_gradient_in_silence(x):
    with pytest.raises(TypeError, match="full_like: fill_value= can't be used with a Tensor"):
        np.full_like(x, x[0, 0])
    with pytest.raises(TypeError, match="no rule"):
        np.full_like(X, x[0, 0])


@pytest.mark.parametrize(
    "call",
    [np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    "options", [{}, {"axis": 0}, {"axis": (0, -1)}, {"axis": 1, "keepdims": True}], ids=str
)
def test_reductions_take_numpys_arguments(x, call, options):
    result, expected = call(x, **options), call(X, **options)
    assert dtype_name(result.dtype) == dtype_name(expected.dtype)
    np.testing.assert_allclose(result.detach(), expected, rtol=1e-14)
    assert result.shape == expected.shape
    method = getattr(x, call.__name__)(**options)
    np.testing.assert_array_equal(method.detach(), result.detach())


def test_statistics_have_gradients(x):
    assert np.mean(x, axis=0).grad_fn.name == "MeanBackward"
    for fun in (
        lambda t: np.mean(t, axis=1) ** 2,
        lambda t: np.var(t, axis=0, ddof=1) ** 2,
        lambda t: t.std() ** 2,
        lambda t: np.var(t, mean=None, correction=1),
    ):
        assert lucid.autograd.gradcheck(fun, x)
        assert lucid.autograd.gradgradcheck(fun, x)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.sum(x, out=np.empty(())), "sum: out="),
        (lambda x: np.prod(x, out=np.empty(())), "prod: out="),
        (lambda x: np.max(x, where=X > 0, initial=0.0), "max: where="),
        (lambda x: np.cumsum(x, out=np.empty(6)), "cumsum: out="),
        (lambda x: np.mean(x, out=np.empty(())), "mean: out="),
        (lambda x: np.exp(x, out=np.empty((2, 3))), "exp: out="),
        (lambda x: np.exp(x, where=X > 0), "exp: where="),
        (lambda x: np.add(x, 1, dtype=np.float32), "add: dtype="),
        (lambda x: np.add(x, 1, casting="unsafe"), "add: casting="),
        (lambda x: np.isnan(x, out=np.empty((2, 3), bool)), "isnan: out="),
        (lambda x: np.argmax(x, out=np.empty((), int)), "argmax: out="),
        (lambda x: np.clip(x, 0, 1, out=np.empty((2, 3))), "clip: out="),
        (lambda x: np.take(x, [0], mode="wrap"), "take: mode="),
        (lambda x: np.pad(x, 1, mode="edge"), "pad: mode="),
        (lambda x: np.concatenate([x, x], out=np.empty((4, 3))), "concatenate: out="),
        (lambda x: np.einsum("ij->j", x, out=np.empty(3)), "einsum: out="),
        (lambda x: np.dot(x, x.T, out=np.empty((2, 2))), "dot: out="),
        (lambda x: operator.iadd(X.copy(), x), "add: out="),
    ],
)
def test_arguments_refused_by_name(x, call, name):
    with pytest.raises(TypeError, match=f"^{name} can't be used with a Tensor, got "):
        call(x)


def test_arguments_accepted(x, array):
    assert dtype_name(np.sum(x, dtype=np.float32).dtype) == "float32"
    assert np.sum(x, axis=0, initial=1.0, out=None, where=True).shape == (3,)
    assert np.exp(x, out=None, where=True).requires_grad
    assert dtype_name(np.cumsum(x, axis=0, dtype=np.float32).dtype) == "float32"
    joined = np.concatenate([x, array(X)], dtype=np.float32, casting="same_kind")
    assert dtype_name(joined.dtype) == "float32"


def test_no_rule(x):
    with pytest.raises(TypeError, match=r"numpy\.linalg\.svd: .*lucid\.autograd\.Function"):
        np.linalg.svd(x)
    with pytest.raises(TypeError, match=r"numpy\.median: there is no rule"):
        np.median(x)
    with pytest.raises(TypeError, match=r"numpy\.copysign: there is no rule"):
        np.copysign(x, 1)
    with pytest.raises(TypeError, match=r"numpy\.add\.at: there is no rule"):
        np.add.at(X.copy(), 0, x[0])
    with pytest.raises(TypeError, match=r"numpy\.add\.outer: there is no rule"):
        np.add.outer(x, x)
    with pytest.raises(TypeError, match=r"^scipy\.special\.erf: there is no rule"):
        scipy.special.erf(x)
    with pytest.raises(TypeError, match=r"where: condition must be a constant"):
        np.where(x, x, 0)


def test_list_of_tensors(x):
    for call in (np.mean, np.exp, lucid.mean, np.asarray):
        with pytest.raises(TypeError, match=r"np\.stack"):
            call([x, x])
    with pytest.raises(TypeError, match=r"np\.stack"):
        np.add(x, [x, x])
    assert np.stack([x, x]).requires_grad


def test_mixed_list_stays_differentiable(x, array):
    joined = np.concatenate([array(X), x], axis=1)
    joined.sum().backward()
    np.testing.assert_array_equal(x.grad.data, np.ones((2, 3)))


def test_maximum_shares_ties(tensor, array):
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = lucid.grad(np.maximum(x, [1.0, 5.0, 0.0]), x, array(np.ones(3)))
    np.testing.assert_array_equal(g.data, [0.5, 0.0, 1.0])
    (g,) = lucid.grad(np.minimum(x, [1.0, 5.0, 0.0]), x, array(np.ones(3)))
    np.testing.assert_array_equal(g.data, [0.5, 1.0, 0.0])


def test_nan_gets_the_gradient(tensor, array):
    nan = np.nan
    x, y = (tensor(v, requires_grad=True) for v in ([nan, 1.0, nan, 2.0], [1.0, nan, nan, 1.0]))
    for pair, last in ((np.maximum, 1.0), (np.minimum, 0.0)):
        gx, gy = lucid.grad(pair(x, y), (x, y), array(np.ones(4)))
        np.testing.assert_array_equal(gx.data, [1.0, 0.0, 0.5, last])
        np.testing.assert_array_equal(gy.data, [0.0, 1.0, 0.5, 1 - last])
    (g,) = lucid.grad(np.maximum(x, 0.5), x, array(np.ones(4)))
    np.testing.assert_array_equal(g.data, [1.0, 1.0, 1.0, 1.0])


def test_extrema_share_ties(tensor, array):
    x = tensor([[2.0, 2.0, 1.0], [np.nan, 0.0, np.nan]], requires_grad=True)
    (g,) = lucid.grad(np.max(x, axis=1), x, array(np.ones(2)))
    np.testing.assert_array_equal(g.data, [[0.5, 0.5, 0], [0.5, 0, 0.5]])


def test_kinks(tensor, array):
    x = tensor([-1.0, 0.0, 1.0], requires_grad=True)
    (g,) = lucid.grad(np.abs(x), x, array(np.ones(3)))
    np.testing.assert_array_equal(g.data, [-1.0, 0.0, 1.0])
    (g,) = lucid.grad(np.clip(x, -1, 0), x, array(np.ones(3)))
    np.testing.assert_array_equal(g.data, [1.0, 1.0, 0.0])


def test_power_at_zero(tensor, array):
    x = tensor([0.0, 0.0, 2.0], requires_grad=True)
    p = tensor([0.0, 2.0, 3.0], requires_grad=True)
    gx, gp = lucid.grad(x**p, (x, p), array(np.ones(3)))
    np.testing.assert_array_equal(gx.data, [0.0, 0.0, 12.0])
    np.testing.assert_allclose(gp.data, [0.0, 0.0, 8 * np.log(2)])


def test_small_integer_powers_multiply(tensor):
    a = np.random.default_rng(0).standard_normal(100)
    np.testing.assert_array_equal((tensor(a) ** 3).data, a * a * a)
    np.testing.assert_array_equal(np.power(tensor(a), 4).data, (a * a) * (a * a))


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "u1", "i8", "f2", "f4"])
@pytest.mark.parametrize("exponent", [2, 3, 4, 2.0, 3.0, 4.0, True])
def test_powers_of_any_dtype(dtype, exponent):
    a = np.array([1, 0, 9]).astype(dtype)
    for result in (lucid.tensor(a) ** exponent, np.power(lucid.tensor(a), exponent)):
        assert result.dtype == (a**exponent).dtype
        np.testing.assert_array_equal(result, a**exponent)
    assert (lucid.tensor([100_000], dtype="i4") ** 2.0).item() == 1e10


def test_index_errors_are_numpys(x):
    with pytest.raises(IndexError, match="out of bounds"):
        x[5]
    with pytest.raises(TypeError, match="requires grad"):
        X[x]
    with pytest.raises(np.exceptions.AxisError):
        np.sum(x, axis=2)
    with pytest.raises(np.exceptions.AxisError):
        np.flip(x, axis=2)
    for wrong in (1.0, "a", 1j, (0, 1.0), [0.5], np.float64(1), x.detach()):
        with pytest.raises(IndexError, match="integer"):
            x[wrong]
    for join in (np.concatenate, np.stack):
        with pytest.raises(np.exceptions.AxisError):
            join([x, x], axis=3)
    with pytest.raises(ValueError, match="zero-dimensional"):
        np.concatenate([x[0, 0], x[0, 1]])


def test_corners_of_indexing_and_transposing(x, tensor):
    for index in (np.True_, True, np.False_, (np.True_, 0), np.array(True), tensor(True)):
        expected = X[index.data if isinstance(index, lucid.Tensor) else index]
        np.testing.assert_array_equal(x[index].detach(), expected)
        (g,) = lucid.grad(x[index].sum(), x)
        assert g.data.sum() == expected.size
    np.testing.assert_array_equal(np.transpose(x[0], 0).detach(), X[0])
    with pytest.raises(ValueError, match="transpose: axes must name all 2 axes"):
        np.transpose(x, 0)


def test_index_array_may_change_after_use(x):
    index = np.array([0, 0])
    y = x[index].sum()
    index[:] = 1
    y.backward()
    np.testing.assert_array_equal(x.grad.data, [[2.0] * 3, [0.0] * 3])


def test_shift_array_may_change_after_use(x, array):
    shift = np.array([1, 1])
    y = (np.roll(x, shift, axis=(0, 1)) * array(X)).sum()
    shift[:] = 0
    y.backward()
    np.testing.assert_array_equal(x.grad.data, np.roll(X, (-1, -1), axis=(0, 1)))


def test_index_by_tensors(x):
    rows = np.argsort(x[:, 0])
    np.testing.assert_array_equal(x[rows].detach(), X[np.argsort(X[:, 0])])
    np.testing.assert_array_equal(x[x > 0].detach(), X[X > 0])
    columns = np.argmax(x, axis=1)
    np.testing.assert_array_equal(x[rows, columns].detach(), X[rows.data, columns.data])


def test_unpacking(x):
    a, b = x
    (a * b).sum().backward()
    np.testing.assert_array_equal(x.grad.data, X[::-1])


def test_shapes_of_methods(x):
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == (3, 2)
    assert x.transpose().shape == x.transpose(1, 0).shape == x.transpose((1, 0)).shape == (3, 2)
    assert x.sum(0).shape == (3,)
