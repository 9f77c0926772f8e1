"""Gradient checks that can fail, and derivatives for SciPy's optimizers."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der, rosen_hess_prod

import lucid
from lucid.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def wrong(order):
    """A square whose derivative of the given order is wrong."""

    class Gradient(Function):
        @staticmethod
        def forward(ctx, g, x):
            ctx.save_for_backward(g, x)
            return 2 * g * x

        @staticmethod
        def backward(ctx, v):
            g, x = ctx.saved_tensors
            return 2 * v * x, v * g * (3 if order == 2 else 2)

    class Square(Function):
        @staticmethod
        def forward(ctx, x, unused):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            dx = Gradient.apply(g, x)
            return (dx * 1.001 if order == 1 else dx), None

    return lambda x: Square.apply(x, None)


def test_gradcheck_finds_and_names_what_is_wrong(tensor):
    y, x = tensor(np.ones((2, 1))), tensor([1.0, 2.0], requires_grad=True)
    fun = wrong(1)
    assert not gradcheck(fun, x, raise_exception=False)
    message = r"inputs\[1\] of shape \(2,\): analytic .*, numeric .*, difference .*, allowed"
    with pytest.raises(GradcheckError, match=message) as error:
        gradcheck(lambda y, x: y * fun(x), (y, x))
    assert "inputs[0]" not in str(error.value)
    assert gradcheck(fun, x, rtol=1e-2)


def test_gradgradcheck_finds_what_gradcheck_does_not(tensor):
    x = tensor([1.0, 2.0], requires_grad=True)
    assert gradcheck(wrong(2), x)
    assert not gradgradcheck(wrong(2), x, raise_exception=False)
    with pytest.raises(GradcheckError, match=r"gradient of .*inputs\[0\]"):
        gradgradcheck(wrong(2), x)
    assert gradgradcheck(wrong(0), x)


def test_gradient_that_is_lost_is_found(tensor):
    x = tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradcheckError, match="analytic 0"):
        gradcheck(lambda x: x.detach() ** 2, x)


def test_gradcheck_wants_float64_that_requires_grad(tensor):
    with pytest.raises(TypeError, match=r"gradcheck: inputs\[0\] must be float64, got float32"):
        gradcheck(np.exp, tensor([1.0], requires_grad=True, dtype="f4"))
    with pytest.raises(ValueError, match="must be a Tensor that requires grad"):
        gradcheck(np.exp, tensor([1.0]))


def test_gradcheck_leaves_its_inputs_alone(tensor):
    x = tensor([1.0], requires_grad=True)
    with lucid.no_grad():
        assert gradcheck(np.exp, x)
    assert x.grad is None
    assert x.item() == 1.0


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_value_and_grad():
    x = np.array([0.5, -1.0, 2.0])
    value, gradient = lucid.value_and_grad(rosenbrock)(x)
    assert isinstance(value, float)
    assert type(gradient) is np.ndarray
    np.testing.assert_allclose(value, rosen(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, rosen_der(x), rtol=1e-13)


def test_value_and_grad_of_several_arguments():
    def fun(x, name, y, scale=1.0):
        assert name == "name"
        assert isinstance(x, lucid.Tensor)
        return (x * y).sum() * scale

    value, (gy, gx) = lucid.value_and_grad(fun, argnums=(2, 0))([1, 2], "name", 3.0, scale=2.0)
    assert value == 18.0
    assert gy.shape == ()
    assert gy == 6.0
    np.testing.assert_array_equal(gx, [6.0, 6.0])


def test_gradient_arrays_are_the_callers():
    x = np.ones(3)
    _, g = lucid.value_and_grad(lambda x: x.sum())(x)
    g += 1  # neither read-only nor shared
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(g, 2)


def test_constant_functions_have_zero_gradients(tensor):
    constant = tensor(3.0)
    value, g = lucid.value_and_grad(lambda x: constant)(np.ones(2))
    assert value == 3.0
    np.testing.assert_array_equal(g, [0.0, 0.0])
    for fun in (lambda x: x.sum(), lambda x: constant):
        np.testing.assert_array_equal(lucid.hvp(fun)(np.ones(2), np.ones(2)), [0.0, 0.0])


def test_functions_that_lose_the_gradient_are_refused():
    for fun in (lambda x: 3.0, lambda x: x * 2):
        with pytest.raises(TypeError, match="fun must return a Tensor of one element, got"):
            lucid.value_and_grad(fun)(np.ones(2))
        with pytest.raises(TypeError, match="hvp: fun must return a Tensor of one element"):
            lucid.hvp(fun)(np.ones(2), np.ones(2))


def test_argnums():
    fun, x, y = (lambda x, y: (x * y).sum()), np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for argnums, expected in ((np.int64(0), y), (-1, x)):
        np.testing.assert_array_equal(lucid.value_and_grad(fun, argnums)(x, y)[1], expected)
    np.testing.assert_array_equal(lucid.value_and_grad(fun, [1, 0])(x, y)[1], [x, y])
    for argnums in (2, -3, (0, 5)):
        with pytest.raises(ValueError, match="argnums must name some of 2 positional arguments"):
            lucid.value_and_grad(fun, argnums)(x, y)
    with pytest.raises(ValueError, match="argnums must differ"):
        lucid.value_and_grad(fun, (0, -2))(x, y)


def test_vector_of_the_wrong_length():
    for v in (np.ones(3), 1.0):
        with pytest.raises(ValueError, match=r"hvp: v must have the shape \(2,\) of x, got"):
            lucid.hvp(lambda x: (x**2).sum())(np.ones(2), v)


@pytest.mark.parametrize("result", [3.0, np.ones(2), None, (1.0,)])
def test_gradcheck_of_what_is_no_tensor(result, tensor):
    x = tensor([1.0], requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(TypeError, match="gradcheck: fun must return a Tensor or several, got"):
            check(lambda x: result, x)


def test_complex_arguments_are_refused():
    with pytest.raises(TypeError, match="real floating point, got complex128"):
        lucid.value_and_grad(lambda x: x.sum())(np.array([1j]))


def test_hvp():
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((2, 5))
    np.testing.assert_allclose(lucid.hvp(rosenbrock)(x, v), rosen_hess_prod(x, v), rtol=1e-12)
    a = rng.standard_normal((5, 5))
    product = lucid.hvp(lambda x, a: x @ (a @ x))(x, v, a)
    np.testing.assert_allclose(product, (a + a.T) @ v, rtol=1e-12)


@pytest.mark.parametrize("method", ["L-BFGS-B", "BFGS", "trust-ncg", "Newton-CG"])
def test_scipy_minimizes(method):
    second = {"hessp": lucid.hvp(rosenbrock)} if method in ("trust-ncg", "Newton-CG") else {}
    fun = lucid.value_and_grad(rosenbrock)
    result = minimize(fun, np.zeros(4), jac=True, method=method, tol=1e-8, **second)
    assert result.success
    np.testing.assert_allclose(result.x, 1, atol=1e-4)


def test_import_is_light():
    code = "import sys, lucid; print([m for m in ('scipy', 'mlx.core') if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
