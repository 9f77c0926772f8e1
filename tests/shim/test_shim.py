"""The functions of Accelerate in use do what their documentation says.

On macOS these are the framework's own, elsewhere those of the shim, if it was built.
"""

import ctypes
import importlib.util
import sys

import numpy as np
import pytest

if sys.platform == "darwin":
    LIBRARY = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
else:
    found = importlib.util.find_spec("lucid._kernels._accelerate")
    if found is None:
        pytest.skip("built without Accelerate or its shim", allow_module_level=True)
    LIBRARY = found.origin
ACCELERATE = ctypes.CDLL(LIBRARY)
LENGTHS = [1, 2, 3, 4, 7, 8, 31, 64, 1000, 2048]
STRIDES = [(1, 1, 1), (2, 3, 1), (1, 2, 5)]
TYPES = {"": np.float32, "D": np.float64}

rng = np.random.default_rng(0)


def call(name, *arguments):
    """Call `name` with arrays as pointers to their first elements and ints as longs."""
    function = getattr(ACCELERATE, name)
    function.restype = None
    function(*(a.ctypes if isinstance(a, np.ndarray) else ctypes.c_long(a) for a in arguments))


def vector(n, stride, dtype):
    """A vector of n elements, `stride` apart, and the view of them."""
    memory = rng.standard_normal((n - 1) * stride + 1).astype(dtype)
    return memory, memory[::stride]


def scalar(dtype):
    return rng.standard_normal(1).astype(dtype)


def check(memory, view, before, expected, **tolerance):
    """The elements are `expected`, what lies between them is as before."""
    np.testing.assert_allclose(view, expected, **tolerance)
    view[...] = 0
    before[:: view.strides[0] // view.itemsize][: len(view)] = 0
    np.testing.assert_array_equal(memory, before)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("ia", "ib", "ic"), STRIDES)
class TestVectors:
    @pytest.mark.parametrize(("name", "kinds"), [("vspdp", ("f4", "f8")), ("vdpsp", ("f8", "f4"))])
    def test_conversion(self, n, ia, ib, ic, name, kinds):
        a, av = vector(n, ia, kinds[0])
        c, cv = vector(n, ic, kinds[1])
        before = c.copy()
        call(f"vDSP_{name}", a, ia, c, ic, n)
        check(c, cv, before, av.astype(kinds[1]), rtol=0)

    def test_difference_takes_the_second_operand_first(self, n, ia, ib, ic):
        (a, av), (b, bv), (c, cv) = (vector(n, i, "f8") for i in (ia, ib, ic))
        before = c.copy()
        call("vDSP_vsubD", b, ib, a, ia, c, ic, n)
        check(c, cv, before, av - bv, rtol=0)

    @pytest.mark.parametrize("form", TYPES)
    def test_vector_and_scalar_sum(self, n, ia, ib, ic, form):
        (a, av), (c, cv), b = vector(n, ia, TYPES[form]), vector(n, ic, TYPES[form]), scalar("f8")
        b = b.astype(TYPES[form])
        before = c.copy()
        call(f"vDSP_vsadd{form}", a, ia, b, c, ic, n)
        check(c, cv, before, av + b, rtol=0)

    # Multiply-add may be fused: the bound is that of the product's rounding.
    @pytest.mark.parametrize("form", TYPES)
    def test_vector_times_scalar_plus_scalar(self, n, ia, ib, ic, form):
        (a, av), (d, dv) = vector(n, ia, TYPES[form]), vector(n, ic, TYPES[form])
        b, c = scalar(TYPES[form]), scalar(TYPES[form])
        before = d.copy()
        call(f"vDSP_vsmsa{form}", a, ia, b, c, d, ic, n)
        eps = np.finfo(TYPES[form]).eps
        check(d, dv, before, av * b + c, rtol=eps, atol=eps * np.abs(av * b).max())

    @pytest.mark.parametrize("form", TYPES)
    def test_vector_times_scalar_plus_vector(self, n, ia, ib, ic, form):
        (a, av), (c, cv), (d, dv) = (vector(n, i, TYPES[form]) for i in (ia, ib, ic))
        b = scalar(TYPES[form])
        before = d.copy()
        call(f"vDSP_vsma{form}", a, ia, b, c, ib, d, ic, n)
        eps = np.finfo(TYPES[form]).eps
        expected = av * b + cv
        check(d, dv, before, expected, rtol=eps, atol=eps * np.abs(av * b).max())
        call(f"vDSP_vsma{form}", a, ia, b, c, ib, c, ib, n)  # in place
        np.testing.assert_allclose(cv, expected, rtol=eps, atol=eps * np.abs(av * b).max())

    def test_reductions(self, n, ia, ib, ic):
        (a, av), (b, bv), c = vector(n, ia, "f8"), vector(n, ib, "f8"), np.zeros(1)
        bound = 2.0**-52 * n
        call("vDSP_maxmgvD", a, ia, c, n)
        assert c[0] == np.abs(av).max()
        call("vDSP_sveD", a, ia, c, n)
        assert abs(c[0] - av.sum()) <= bound * np.abs(av).sum()
        call("vDSP_svesqD", a, ia, c, n)
        assert abs(c[0] - (av**2).sum()) <= bound * (av**2).sum()
        call("vDSP_dotprD", a, ia, b, ib, c, n)
        assert abs(c[0] - (av * bv).sum()) <= bound * np.abs(av * bv).sum()


@pytest.mark.parametrize("n", LENGTHS)
def test_reciprocal_square_root(n):
    x, y = rng.uniform(1e-300, 1e300, size=n) ** rng.uniform(0.1, 1, size=n), np.zeros(n)
    call("vvrsqrt", y, x, np.array([n], np.intc))
    np.testing.assert_allclose(y, 1 / np.sqrt(x), rtol=4e-16)


ROW, COLUMN, PLAIN, TURNED = 101, 102, 111, 112


def call_blas(name, *arguments):
    function = getattr(ACCELERATE, f"cblas_{name}")
    function.restype = None
    kinds = {int: ctypes.c_int, float: ctypes.c_double}
    function(*(a.ctypes if isinstance(a, np.ndarray) else kinds[type(a)](a) for a in arguments))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (51, 40), (1, 2048), (600, 3)])
@pytest.mark.parametrize("order", [ROW, COLUMN])
@pytest.mark.parametrize("transposed", [PLAIN, TURNED])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_matrix_times_vector(m, n, order, transposed, beta):
    padded = rng.standard_normal((m, n + 2) if order == ROW else (n, m + 2))
    a = padded[:, :n] if order == ROW else padded[:, :m].T
    a = a if transposed == PLAIN else a.T
    x, y = rng.standard_normal(2 * a.shape[1]), rng.standard_normal(3 * a.shape[0])
    expected = y.copy()
    expected[::3] = 2 * (a @ x[::2]) + beta * y[::3]
    if beta == 0:
        y[::3] = np.nan  # is not read
    call_blas("dgemv", order, transposed, m, n, 2.0, padded, padded.shape[1], x, 2, beta, y, 3)
    bound = 2.0**-52 * (a.shape[1] + 2) * (np.abs(a) @ np.abs(x[::2]) * 2).max()
    np.testing.assert_allclose(y, expected, rtol=1e-15, atol=bound)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (51, 40), (1, 2048), (600, 3)])
@pytest.mark.parametrize("order", [ROW, COLUMN])
def test_rank_one_update(m, n, order):
    padded = rng.standard_normal((m, n + 2) if order == ROW else (n, m + 2))
    a = padded[:, :n] if order == ROW else padded[:, :m].T
    x, y, before = rng.standard_normal(2 * m), rng.standard_normal(3 * n), padded.copy()
    expected = a + -0.5 * np.outer(x[::2], y[::3])
    call_blas("dger", order, m, n, -0.5, x, 2, y, 3, padded, padded.shape[1])
    np.testing.assert_allclose(a, expected, rtol=1e-15, atol=1e-15 * np.abs(expected).max())
    a[...] = 0
    (before[:, :n] if order == ROW else before[:, :m].T)[...] = 0
    np.testing.assert_array_equal(padded, before)
