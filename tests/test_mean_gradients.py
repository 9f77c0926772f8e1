"""Gradients of mean, var, std and mean_var, to second order and in every type."""

import ml_dtypes
import numpy as np
import pytest

import lucid
from lucid.autograd import gradcheck, gradgradcheck


def tensor(x, dtype=np.float64):
    return lucid.tensor(np.asarray(x).astype(dtype), requires_grad=True)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["mean", "var", "std", "mean_var"])
def test_derivatives_to_second_order(name, axis, keepdims):
    if axis == () and name == "std":
        pytest.skip("a standard deviation of single values is 0, where it has a kink")
    x = tensor(np.random.default_rng(0).standard_normal((3, 4, 2)) + 5)

    def function(x):
        return getattr(lucid, name)(x, axis=axis, keepdims=keepdims)

    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
@pytest.mark.parametrize("axis", [None, 0])
def test_gradients_of_every_type_are_rounded_once(dtype, name, axis):
    x = np.random.default_rng(1).standard_normal((6, 5)).astype(dtype)
    t = tensor(x, dtype)
    (g,) = lucid.grad(getattr(lucid, name)(t, axis=axis).sum(), t)
    assert g.dtype == dtype
    wide = tensor(x)
    (expected,) = lucid.grad(getattr(lucid, name)(wide, axis=axis).sum(), wide)
    eps = float(ml_dtypes.finfo(dtype).eps)
    scale = np.abs(expected.data).max()
    np.testing.assert_allclose(
        g.data.astype(float), expected.data, rtol=2 * eps, atol=2 * eps * scale
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_the_count_may_exceed_the_range_of_half_types(dtype):
    x = tensor(np.ones((16, 3, 64, 64)), dtype)
    for y in (x.mean(), lucid.mean_var(x)[0]):
        (g,) = lucid.grad(y, x)
        assert float(g.data.ravel()[0]) == float(dtype(1 / x.size))


def test_std_of_a_tensor_is_that_of_its_array():
    for values, dtype in (([300, -300], np.float16), ([1e25, -1e25], np.float32)):
        x = np.array(values, dtype)
        assert lucid.std(tensor(x, dtype)).item() == lucid.std(x) == abs(x[0])
    constant = tensor([1.0, 1.0])
    np.testing.assert_array_equal(lucid.grad(lucid.std(constant), constant)[0].data, 0)


def test_arguments_of_tensors():
    x = tensor(np.arange(6.0).reshape(2, 3))
    for function in (lucid.mean, lucid.var, lucid.std, np.mean, np.var, np.std):
        with pytest.raises(TypeError, match=r"out="):
            function(x, 0, out=np.empty(3))
        with pytest.raises(TypeError, match=r"where="):
            function(x, 0, where=np.ones((2, 3), bool))
        with pytest.raises(TypeError, match=r"out="):
            function(np.ones((2, 3)), 0, out=lucid.tensor([1.0, 2.0, 3.0]))
        assert function(x, 0, dtype=np.float32).dtype == np.float32
        with pytest.raises(np.exceptions.AxisError):
            function(x, 2)
    single = tensor(x.data, np.float32)
    assert lucid.mean(single, dtype="float64").dtype == np.float64
    with lucid.autocast("float16"):
        half = np.ones(3, np.float16)
        assert lucid.mean(half).dtype == lucid.mean(tensor(half, np.float16)).dtype == np.float32
        for x in (half, tensor(half, np.float16)):
            assert lucid.mean(x, dtype=np.float16).dtype == np.float16


def test_a_tensor_as_another_argument_is_refused():
    x = np.ones(3)
    for name, options in (
        ("mean", {"out": lucid.tensor(0.0)}),
        ("mean", {"where": lucid.tensor([True, True, False])}),
        ("var", {"mean": lucid.tensor([1.0])}),
        ("std", {"out": lucid.tensor(0.0)}),
    ):
        for module in (lucid, np):
            with pytest.raises(TypeError, match=f"{name}: .*="):
                getattr(module, name)(x, **options)


def test_gradient_of_the_variance_at_a_large_mean():
    x = np.random.default_rng(2).standard_normal((500, 3)).astype(np.float32) + np.float32(1e6)
    t = tensor(x, np.float32)
    (g,) = lucid.grad(lucid.var(t, 0).sum(), t)
    wide = x.astype(np.longdouble)
    expected = 2 * (wide - wide.mean(0)) / 500
    np.testing.assert_allclose(g.data.astype(np.longdouble), expected, rtol=1e-5, atol=1e-9)


def test_bad_axes_of_tensors():
    x = tensor(np.ones((2, 2)))
    for axis in (1.5, [0, 1], "0"):
        with pytest.raises(TypeError, match=r"mean: axis must be"):
            lucid.mean(x, axis=axis)
    with pytest.raises(TypeError, match=r"mean_var: correction must be a number, got 'a'"):
        lucid.mean_var(x, correction="a")
