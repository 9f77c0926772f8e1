"""Gradients of mean, var, std and mean_var, to second order and in every type."""

import ml_dtypes
import numpy as np
import pytest

import lucid
from lucid._tensor import dtype_name
from lucid.autograd import gradcheck, gradgradcheck


@pytest.fixture
def make(leaf):
    return lambda x, dtype=np.float64: leaf(np.asarray(x).astype(dtype))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["mean", "var", "std", "mean_var"])
def test_derivatives_to_second_order(name, axis, keepdims, make):
    if axis == () and name == "std":
        pytest.skip("a standard deviation of single values is 0, where it has a kink")
    x = make(np.random.default_rng(0).standard_normal((3, 4, 2)) + 5)

    def function(x):
        return getattr(lucid, name)(x, axis=axis, keepdims=keepdims)

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
@pytest.mark.parametrize("axis", [None, 0])
def test_gradients_of_every_type_are_rounded_once(dtype, name, axis, make):
    x = np.random.default_rng(1).standard_normal((6, 5)).astype(dtype)
    t = make(x, dtype)
    (g,) = lucid.grad(getattr(lucid, name)(t, axis=axis).sum(), t)
    assert dtype_name(g.dtype) == np.dtype(dtype).name
    wide = make(x)
    (expected,) = lucid.grad(getattr(lucid, name)(wide, axis=axis).sum(), wide)
    eps = float(ml_dtypes.finfo(dtype).eps)
    g, expected = g.numpy().astype(float), expected.numpy()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(g, expected, rtol=2 * eps, atol=2 * eps * scale)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_the_count_may_exceed_the_range_of_half_types(dtype, make):
    x = make(np.ones((16, 3, 64, 64)), dtype)
    for y in (x.mean(), lucid.mean_var(x)[0]):
        (g,) = lucid.grad(y, x)
        assert g[0, 0, 0, 0].item() == float(dtype(1 / x.size))


def test_std_of_a_tensor_is_that_of_its_array(make):
    for values, dtype in (([300, -300], np.float16), ([1e25, -1e25], np.float32)):
        x = np.array(values, dtype)
        assert lucid.std(make(x, dtype)).item() == lucid.std(x) == abs(x[0])
    constant = make([1.0, 1.0])
    np.testing.assert_array_equal(lucid.grad(lucid.std(constant), constant)[0].data, 0)


def test_arguments_of_tensors(make, tensor):
    x = make(np.arange(6.0).reshape(2, 3))
    for function in (lucid.mean, lucid.var, lucid.std, np.mean, np.var, np.std):
        with pytest.raises(TypeError, match=r"out="):
            function(x, 0, out=np.empty(3))
        with pytest.raises(TypeError, match=r"where="):
            function(x, 0, where=np.ones((2, 3), bool))
        with pytest.raises(TypeError, match=r"out="):
            function(np.ones((2, 3)), 0, out=tensor([1.0, 2.0, 3.0]))
        assert dtype_name(function(x, 0, dtype=np.float32).dtype) == "float32"
        with pytest.raises(np.exceptions.AxisError):
            function(x, 2)
    single = make(x.data, np.float32)
    assert dtype_name(lucid.mean(single, dtype="float64").dtype) == "float64"
    with lucid.autocast("float16"):
        half = np.ones(3, np.float16)
        for x in (half, lucid.tensor(half)):
            assert lucid.mean(x).dtype == np.float32
        for x in (half, make(half, np.float16)):
            assert dtype_name(lucid.mean(x, dtype=np.float16).dtype) == "float16"


def test_a_tensor_as_another_argument_is_refused(tensor):
    x = np.ones(3)
    for name, options in (
        ("mean", {"out": tensor(0.0)}),
        ("mean", {"where": tensor([True, True, False])}),
        ("var", {"mean": tensor([1.0])}),
        ("std", {"out": tensor(0.0)}),
    ):
        for module in (lucid, np):
            with pytest.raises(TypeError, match=f"{name}: .*="):
                getattr(module, name)(x, **options)


def test_gradient_of_the_variance_at_a_large_mean(make):
    x = np.random.default_rng(2).standard_normal((500, 3)).astype(np.float32) + np.float32(1e6)
    t = make(x, np.float32)
    (g,) = lucid.grad(lucid.var(t, 0).sum(), t)
    wide = x.astype(np.longdouble)
    expected = 2 * (wide - wide.mean(0)) / 500
    np.testing.assert_allclose(g.numpy().astype(np.longdouble), expected, rtol=1e-5, atol=1e-9)


def test_bad_axes_of_tensors(make):
    x = make(np.ones((2, 2)))
    for axis in (1.5, [0, 1], "0"):
        with pytest.raises(TypeError, match=r"mean: axis must be"):
            lucid.mean(x, axis=axis)
    with pytest.raises(TypeError, match=r"mean_var: correction must be a number, got 'a'"):
        lucid.mean_var(x, correction="a")


@pytest.mark.parametrize("name", ["mean", "var", "std", "mean_var"])
def test_a_list_of_tensors_is_refused(name, tensor):
    t = tensor([1.0, 2.0])
    for x in ([t, t], (t,), [[t]]):
        with pytest.raises(TypeError, match=rf"{name}: .*np\.stack"):
            getattr(lucid, name)(x)
