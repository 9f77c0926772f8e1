"""`F.batch_norm` on arrays: values, running statistics, layouts and dtypes."""

import batch_norm_reference as reference
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import lucid
import lucid.nn.functional as F

rng = np.random.default_rng(0)
SHAPES = [(8, 3), (4, 3, 5), (4, 3, 5, 6), (2, 3, 4, 3, 5)]
# float32: DESIGN 3's bound for y; half types: one rounding, so half an ulp of values up to 8.
TOLERANCE = {"float64": 1e-14, "float32": 4e-6, "float16": 8 * 2**-11 * 1.01}


def layouts(x):
    """The same values as `x` in other memory layouts."""
    last = np.moveaxis(x, 1, -1)
    padded = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    sliced = padded[tuple(slice(None, None, 2) for _ in x.shape)]
    sliced[...] = x
    unaligned = np.frombuffer(bytearray(x.nbytes + 1), np.uint8, offset=1).view(x.dtype)
    unaligned = unaligned.reshape(x.shape)
    unaligned[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    return {
        "channels-last": np.moveaxis(np.ascontiguousarray(last), -1, 1),
        "fortran": np.asfortranarray(x),
        "sliced": sliced,
        "reversed": x[::-1, :, ...].copy()[::-1, :, ...],
        "read-only": frozen,
        "unaligned": unaligned,
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_training(shape, dtype):
    x = (rng.normal(size=shape) * 3 + 5).astype(dtype)
    weight, bias = rng.normal(size=3), rng.normal(size=3)
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-3)
    assert type(y) is np.ndarray
    assert y.dtype == x.dtype
    expected = reference.forward(x, weight, bias, eps=1e-3)
    assert np.abs(y - expected).max() <= TOLERANCE[dtype] * max(1, np.abs(weight).max())


@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_running_statistics(shape):
    x = rng.normal(2, 3, size=shape)
    running_mean, running_var = rng.normal(size=3), rng.uniform(1, 2, size=3)
    m, v = running_mean.copy(), running_var.copy()
    F.batch_norm(x, running_mean, running_var, training=True, momentum=0.3)
    mean, var = reference.statistics(x)
    n = x.size // 3
    np.testing.assert_allclose(running_mean, 0.7 * m + 0.3 * mean.astype(float), rtol=1e-14)
    unbiased = (var * n / (n - 1)).astype(float)
    np.testing.assert_allclose(running_var, 0.7 * v + 0.3 * unbiased, rtol=1e-14)


@pytest.mark.parametrize("momentum", [0, 1, -0.5, 2.5])
def test_any_finite_momentum(momentum):
    x = rng.normal(size=(6, 2))
    mean, var = np.zeros(2), np.ones(2)
    F.batch_norm(x, mean, var, training=True, momentum=momentum)
    np.testing.assert_allclose(mean, momentum * x.mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(var, 1 + momentum * (x.var(axis=0, ddof=1) - 1), rtol=1e-14)


def moved(x, mean, var, momentum):
    """Running statistics of one channel, float64, after a training call with values `x`."""
    mean, var = np.array([mean], "f8"), np.array([var], "f8")
    F.batch_norm(np.reshape(x, (-1, 1)), mean, var, training=True, momentum=momentum)
    return mean[0], var[0]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_small_statistics_are_not_lost_beside_large_running_ones(dtype, isa):
    x = np.array([1e-9, 3e-9], dtype)
    mean, var = moved(x, 1e30, 1, 1.0)
    np.testing.assert_allclose((mean, var), (2e-9, 2e-18), rtol=1e-6)
    tiny = np.array([1e-30, -1e-30] * 300, dtype)  # its squares vanish in float32
    np.testing.assert_allclose(moved(tiny, 0, 1, 1.0)[1], 1e-60 * 600 / 599, rtol=1e-6)


def test_nonfinite_running_statistics_are_those_of_the_formula():
    x = np.array([1.0, 3.0])
    assert moved(x, np.inf, -np.inf, 0.1) == (np.inf, -np.inf)
    # PyTorch's too: 0 * inf
    np.testing.assert_array_equal(moved(x, np.inf, np.nan, 1.0), (np.nan, np.nan))
    np.testing.assert_array_equal(moved([1.0, np.inf], 3, 3, 0.0), (np.nan, np.nan))


@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_evaluation(shape):
    x = rng.normal(size=shape)
    weight, bias, mean, var = rng.uniform(0.5, 2, size=(4, 3))
    before = mean.copy(), var.copy()
    y = F.batch_norm(x, mean, var, weight, bias)
    expected = reference.forward(x, weight, bias, mean=mean, var=var)
    np.testing.assert_allclose(y, expected.astype(float), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(before, (mean, var))
    # One value per channel is no mistake here.
    np.testing.assert_array_equal(F.batch_norm(x[:1], mean, var, weight, bias), y[:1])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_layouts_give_the_same_values_and_keep_their_layout(shape, training, isa):
    x = rng.normal(size=shape).astype("f4")
    mean, var = np.zeros(3), np.ones(3)
    y = F.batch_norm(x, mean.copy(), var.copy(), training=training)
    for name, same in layouts(x).items():
        other = F.batch_norm(same, mean.copy(), var.copy(), training=training)
        np.testing.assert_allclose(other, y, rtol=0, atol=4e-6, err_msg=name)
        if name in ("channels-last", "fortran"):
            assert other.strides == same.strides, name
    broadcast = np.broadcast_to(x[:1], x.shape)
    if x[0, 0].size > 1:
        expected = F.batch_norm(broadcast.copy(), mean, var, training=training)
        other = F.batch_norm(broadcast, np.zeros(3), np.ones(3), training=training)
        np.testing.assert_allclose(other, expected, rtol=0, atol=4e-6)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=5).map(tuple),
    axis=st.integers(-5, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_channel_axis(shape, axis, seed):
    shape = (4, *shape[1:])
    axis = axis % len(shape)
    if np.prod(shape) // shape[axis] < 2:
        return
    x = np.random.default_rng(seed).normal(1, 2, size=shape)
    y = F.batch_norm(x, None, None, training=True, channel_axis=axis)
    moved = F.batch_norm(np.moveaxis(x, axis, 1), None, None, training=True)
    np.testing.assert_allclose(np.moveaxis(y, axis, 1), moved, rtol=0, atol=1e-13)
    negative = F.batch_norm(x, None, None, training=True, channel_axis=axis - len(shape))
    np.testing.assert_array_equal(negative, y)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtype_is_the_inputs_whatever_the_others(dtype):
    x = rng.normal(size=(16, 3)).astype(dtype)
    mean, var = np.zeros(3, "f4"), np.ones(3, "f8")
    weight, bias = np.ones(3, "f8"), np.zeros(3, "f2")
    y = F.batch_norm(x, mean, var, weight, bias, training=True)
    assert y.dtype == dtype
    assert (mean.dtype, var.dtype) == ("f4", "f8")


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_integers_become_float32(dtype):
    x = rng.integers(0, 2, size=(16, 3)).astype(dtype)
    y = F.batch_norm(x, None, None, training=True)
    assert y.dtype == np.float32
    assert np.abs(y - reference.forward(x)).max() <= 4e-6


def test_integer_weight_is_a_number_like_any_other():
    x = rng.normal(size=(16, 3))
    y = F.batch_norm(x, None, None, np.array([1, 2, 3]), [0, 1, 2], training=True)
    expected = F.batch_norm(x, None, None, np.array([1.0, 2, 3]), np.arange(3.0), training=True)
    np.testing.assert_array_equal(y, expected)


def test_byte_swapped_input():
    x = rng.normal(size=(16, 3)).astype(">f4")
    y = F.batch_norm(x, None, None, training=True)
    np.testing.assert_array_equal(y, F.batch_norm(x.astype("<f4"), None, None, training=True))


def test_lists_and_memmaps(tmp_path):
    x = rng.normal(size=(16, 3))
    expected = F.batch_norm(x, None, None, training=True)
    np.testing.assert_array_equal(F.batch_norm(x.tolist(), None, None, training=True), expected)
    mapped = np.memmap(tmp_path / "x", x.dtype, "w+", shape=x.shape)
    mapped[...] = x
    np.testing.assert_array_equal(F.batch_norm(mapped, None, None, training=True), expected)


@pytest.mark.parametrize(("mean", "std"), [(0, 1), (1e2, 1e-2), (1e4, 1), (1e6, 1)])
def test_accuracy_at_an_offset(mean, std, isa):
    x = rng.normal(mean, std, size=(16, 3, 20, 20)).astype("f4")
    weight, bias = np.array([1, 2, -3], "f4"), np.array([0, 0.5, 2], "f4")
    running_mean, running_var = np.zeros(3), np.zeros(3)
    y = F.batch_norm(x, running_mean, running_var, weight, bias, training=True, momentum=1)
    assert np.abs(y - reference.forward(x, weight, bias)).max() <= 4e-6 * 3
    true_mean, true_var = reference.statistics(x)
    n = x.size // 3
    np.testing.assert_allclose(running_mean, true_mean.astype(float), rtol=1e-7, atol=1e-7 * std)
    np.testing.assert_allclose(running_var, (true_var * n / (n - 1)).astype(float), rtol=1e-6)


def test_constant_channel_gives_exactly_the_bias(isa):
    x = np.full((7, 3, 5, 5), 1 / 3, "f4") * np.array([1, 1e6, -1e30], "f4")[:, None, None]
    bias = np.array([0.1, -2.7, 1e-3], "f4")
    y = F.batch_norm(x, None, None, np.array([3, 5, 7], "f4"), bias, training=True)
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], x.shape))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_constant_channel_gives_exactly_the_bias_without_eps(dtype, isa):
    x = np.broadcast_to(np.array([1 / 3, 1e6, -1e30, 0], dtype), (7, 4))
    bias = rng.normal(size=4).astype(dtype)
    leaves = [lucid.tensor(a, requires_grad=True) for a in (x, np.ones(4), bias)]
    y = F.batch_norm(leaves[0], None, None, *leaves[1:], training=True, eps=0.0)
    np.testing.assert_array_equal(y.data, np.broadcast_to(bias, x.shape))
    y.backward(np.ones_like(x))
    np.testing.assert_array_equal(leaves[0].grad.data, np.zeros(x.shape))
    np.testing.assert_array_equal([t.grad.data for t in leaves[1:]], [[0] * 4, [7] * 4])


@pytest.mark.parametrize("scale", [1e150, 1e160, 1e300])
def test_finite_values_whose_squares_overflow_give_no_nan(scale, isa):
    x = np.array([[1.0], [-1.0], [2.0]]) * scale
    mean, var = np.zeros(1), np.ones(1)
    y = F.batch_norm(x, mean, var, None, np.array([0.5]), training=True, momentum=1.0)
    np.testing.assert_allclose(mean, x.mean(axis=0))
    if scale > 1e154:
        np.testing.assert_array_equal(y, np.full((3, 1), 0.5))
        assert var[0] == np.inf
    else:
        assert np.abs(y - 0.5 - reference.forward(x)).max() < 1e-14


def test_huge_values(isa):
    x = (rng.normal(size=(8, 3, 4)) * 1e30).astype("f4")
    y = F.batch_norm(x, None, None, training=True)
    assert np.abs(y - reference.forward(x)).max() <= 4e-6


def test_running_variance_is_not_recovered_from_rstd():
    x = rng.normal(size=(64, 3)) * 1e-6
    var = np.zeros(3)
    F.batch_norm(x, np.zeros(3), var, training=True, momentum=1, eps=1.0)
    np.testing.assert_allclose(var, x.var(axis=0, ddof=1), rtol=1e-13)


def test_nan_and_inf_stay_in_their_channel():
    x = rng.normal(size=(8, 3))
    x[2, 0], x[5, 1] = np.nan, np.inf
    with np.errstate(all="ignore"):
        y = F.batch_norm(x, None, None, training=True)
    assert np.isnan(y[:, 0]).all()
    assert np.isnan(y[5, 1])
    np.testing.assert_allclose(y[:, 2], reference.forward(x[:, 2:]).astype(float)[:, 0])


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4, 4), (4, 3, 0)])
def test_empty_batch(shape):
    mean, var = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    x = lucid.tensor(np.zeros(shape), requires_grad=True)
    y = F.batch_norm(x, mean, var, np.ones(3), training=True)
    assert y.shape == shape
    np.testing.assert_array_equal((mean, var), [[1, 2, 3], [4, 5, 6]])
    y.backward(np.zeros(shape))
    assert x.grad.shape == shape


def test_result_is_a_tensor_where_an_operand_is():
    x, weight = np.ones((4, 3)), lucid.tensor(np.ones(3))
    mean, var = lucid.tensor(np.zeros(3)), lucid.tensor(np.ones(3))
    assert isinstance(F.batch_norm(x, mean, var, weight), lucid.Tensor)
    assert isinstance(F.batch_norm(lucid.tensor(x), mean, var), lucid.Tensor)
    assert isinstance(F.batch_norm(x, mean, var), np.ndarray)


def test_buffers_may_be_tensors():
    x = rng.normal(size=(8, 3))
    mean, var = lucid.tensor(np.zeros(3)), lucid.tensor(np.ones(3))
    F.batch_norm(x, mean, var, training=True, momentum=1)
    np.testing.assert_allclose(mean.numpy(), x.mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(var.numpy(), x.var(axis=0, ddof=1))


def test_strided_buffers_and_parameters():
    x = rng.normal(size=(8, 3))
    table = np.zeros((3, 4))
    table[:, 1] = 1
    table[:, 2:] = rng.normal(size=(3, 2))
    weight, bias = table[:, 2].copy(), table[:, 3].copy()
    y = F.batch_norm(x, table[:, 0], table[:, 1], table[:, 2], table[:, 3], training=True)
    np.testing.assert_array_equal(y, F.batch_norm(x, None, None, weight, bias, training=True))
    np.testing.assert_allclose(table[:, 0], 0.1 * x.mean(axis=0), atol=1e-16)
    np.testing.assert_allclose(table[:, 1], 0.9 + 0.1 * x.var(axis=0, ddof=1))
    pair = np.array([[0.0] * 3, [1] * 3])
    for buffers in (pair, pair[:, ::-1]):
        buffers[...] = [[0], [1]]
        F.batch_norm(x, *buffers, training=True)
        np.testing.assert_array_equal(buffers, table[:, :2].T)
