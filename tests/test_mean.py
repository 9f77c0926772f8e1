"""mean, var, std, mean_var of arrays, against references better than float64."""

import itertools
import math
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import lucid
from lucid._kernels import provider as table

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def columns(x, axis):
    """The elements behind each output, as rows of a 2-D array."""
    axes = range(x.ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = [x.shape[a] for a in kept]
    return np.transpose(x, (*kept, *axes)).reshape(math.prod(shape), -1), shape


def exact_mean(x, axis):
    """The exact means as Fractions, in an object array."""
    rows, shape = columns(x, axis)
    means = [sum(map(Fraction, r.astype(object).tolist())) / len(r) for r in rows]
    return np.array(means, dtype=object).reshape(shape)


def ulps(result, exact):
    """Largest distance in units in the last place of the result's type at the exact value."""
    result = np.asarray(result)
    kind = ml_dtypes.finfo(result.dtype)
    worst = 0
    for r, e in zip(result.ravel(), np.asarray(exact, object).ravel(), strict=True):
        exponent = math.floor(math.log2(abs(e))) if e else kind.minexp
        spacing = Fraction(2) ** (max(exponent, kind.minexp) - kind.nmant)
        worst = max(worst, abs(Fraction(float(r)) - e) / spacing)
    return float(worst)


def sample(rng, shape, dtype, offset=0.0):
    """Full-mantissa data about `offset`."""
    return (rng.standard_normal(shape) + offset).astype(dtype)


LAYOUTS = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "all reversed": lambda x: np.flip(np.ascontiguousarray(np.flip(x))),
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "rows sliced": lambda x: np.repeat(x, 3, axis=0)[::3],
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "odd strides": lambda x: odd_strides(x),
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
}


def odd_strides(x):
    """Elements in records of a size that is no multiple of theirs."""
    records = np.zeros(x.shape, [("pad", "u1"), ("x", x.dtype)])
    records["x"] = x
    return records["x"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16, np.int64])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (0, 1), (1, 2), ()])
def test_layout_gives_the_value_of_its_copy(layout, dtype, axis, isa):
    x = np.random.default_rng(1).standard_normal((7, 11, 26)) * 100
    x = x.astype(dtype)
    view = LAYOUTS[layout](x)
    np.testing.assert_array_equal(view, x)
    exact = exact_mean(x, axis)
    for values in (lucid.mean(view, axis), lucid.mean_var(view, axis)[0]):
        assert values.dtype == np.mean(x, axis=axis).dtype
        assert ulps(values, exact) <= (0.51 if dtype in (np.float16, np.float32) else 1)
    wide = x.astype(np.longdouble)
    expected = np.var(wide, axis=axis)
    tolerance = {np.float16: 1e-3, np.float32: 1e-7}.get(dtype, 1e-14)
    np.testing.assert_allclose(lucid.var(view, axis).astype("g"), expected, rtol=tolerance)


SHAPES = [
    ((5, 7, 49), (0, 2)),
    ((3, 5, 2500), (0, 2)),
    ((4500, 3), 0),
    ((4500, 3), 1),
    ((1000, 40), 0),
    ((10, 5000), 0),
    ((3, 9000), 1),
    ((70000,), None),
    ((33, 2, 65), 1),
    ((2, 3, 4, 5, 6), (1, 3)),
    ((2, 3, 4, 5, 6), (0, 2, 4)),
    ((1,), 0),
    ((9, 1, 9), 1),
]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("offset", [0, 1000, -3e4])
def test_mean_is_correctly_rounded(shape, axis, dtype, offset, isa):
    x = sample(np.random.default_rng(2), shape, dtype, offset)
    assert lucid.mean(x, axis).dtype == dtype
    rows, out_shape = columns(x, axis)
    if dtype == np.float64:
        exact = [Fraction(math.fsum(r)) / len(r) for r in rows]
        scale = np.array([math.fsum(abs(r)) / len(r) for r in rows]).reshape(out_shape)
        error = np.abs(lucid.mean(x, axis) - np.array(exact, object).reshape(out_shape))
        assert np.all(error <= np.spacing(scale))
    else:
        exact = [Fraction(math.fsum(r.astype(float))) / len(r) for r in rows]
        assert ulps(lucid.mean(x, axis), exact) <= 0.51


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16, np.int64])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 31])
def test_short_rows(n, dtype, isa):
    rng = np.random.default_rng(n)
    line = (rng.standard_normal(3000) * 50).astype(dtype)
    table = line[: 3000 // 40 * 40].reshape(-1, 40)
    layouts = {
        "dense": table.reshape(-1)[: table.size // n * n].reshape(-1, n),
        "sliced": table[:, 3 : 3 + n],
        "reversed": table[::-1, n - 1 :: -1],
        "windows": np.lib.stride_tricks.sliding_window_view(line[:257], n),
        "repeated": np.broadcast_to(line[:n], (70, n)),
        "swapped": table[:, :n].astype(table.dtype.newbyteorder()),
    }
    for name, x in layouts.items():
        mean, wide = lucid.mean(x, 1), x.astype(np.longdouble)
        exact = [Fraction(math.fsum(row)) / n for row in x.astype(float)]
        if dtype == np.float64:
            assert np.all(np.abs(mean - exact) <= np.spacing(np.abs(x).mean(1))), name
        else:
            assert ulps(mean, exact) <= 0.51, name
        np.testing.assert_allclose(
            lucid.var(x, 1), wide.var(1), 2e-3 if dtype == np.float16 else 1e-6
        )


@settings(max_examples=150, deadline=None)
@given(
    terms=hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 20), st.integers(1, 20)),
        elements=st.floats(2.0**-18, 2.0**18, width=32)
        | st.floats(-(2.0**18), -(2.0**-18), width=32),
    ),
    rest=st.integers(-20, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_arrays_that_cancel_are_correctly_rounded(terms, rest, seed):
    # float32 terms are multiples of 2**-41: what is left of them is at least 2**-54 of their sum.
    last = np.full((1, terms.shape[1]), rest * 2.0**-41, np.float32)
    x = np.random.default_rng(seed).permutation(np.concatenate([terms, last, -terms]))
    exact = [Fraction(rest, 2**41 * len(x))] * terms.shape[1]
    with table.using("simd"):
        means = lucid.mean(x, 0), lucid.mean(x.T.copy(), 1), lucid.mean_var(x, 0)[0]
        whole = lucid.mean(x)
    for mean in means:
        assert ulps(mean, exact) <= 0.51
    assert ulps(whole, exact[:1]) <= 0.51


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    dtype=st.sampled_from([np.float32, np.float64, np.int64, np.uint64, np.int32, np.bool]),
    shape=hnp.array_shapes(min_dims=0, max_dims=5, min_side=1, max_side=6),
)
def test_any_shape_axis_and_type(data, dtype, shape):
    elements = {"allow_nan": False, "allow_infinity": False} if dtype(0).dtype.kind == "f" else {}
    if dtype == np.float64:
        elements |= {"min_value": -1e300, "max_value": 1e300}
    x = data.draw(hnp.arrays(dtype, shape, elements=elements))
    axis = data.draw(
        st.none() | st.sets(st.integers(-len(shape), len(shape) - 1)).map(tuple)
        if shape
        else st.none()
    )
    if axis is not None and len({a % len(shape) for a in axis}) < len(axis):
        axis = axis[:1]
    keepdims = data.draw(st.booleans())
    result = lucid.mean(x, axis=axis, keepdims=keepdims)
    reference = np.mean(x.astype(float), axis=axis, keepdims=keepdims)
    assert np.shape(result) == np.shape(reference)
    exact = exact_mean(x, axis)
    if dtype == np.float32:
        assert ulps(result, exact) <= 0.51
    else:
        rows, out_shape = columns(abs(x.astype(float)), axis)
        scale = np.array([math.fsum(r) / len(r) for r in rows]).reshape(out_shape)
        error = np.array(
            [
                abs(Fraction(float(r)) - e)
                for r, e in zip(np.ravel(result), exact.ravel(), strict=True)
            ],
            object,
        ).reshape(out_shape)
        assert np.all(error <= np.spacing(scale))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_do_not_overflow(dtype, isa):
    top = np.iinfo(dtype).max
    for x in (np.full(5000, top, dtype), np.full((300, 2), top, dtype), np.array([top] * 3, dtype)):
        np.testing.assert_array_equal(lucid.mean(x, axis=0), float(top))
    assert lucid.mean(np.array([2**62] * 3)) == 2**62
    assert lucid.mean(np.array([2**53 + 1, 1, -(2**53)])) == float(Fraction(2, 3))


def test_two_to_the_24_does_not_stop_counting():
    x = np.ones((2**24 + 16, 2), np.float32)
    np.testing.assert_array_equal(lucid.mean(x, axis=0), [1, 1])


@pytest.mark.parametrize("value", [1e30, -1e30, 3e38])
def test_large_float32_does_not_overflow(value, isa):
    x = np.full((100, 40), value, np.float32)
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(lucid.mean(x, axis), np.float32(value))
        np.testing.assert_array_equal(lucid.var(x, axis), 0)
    assert lucid.mean(np.array([6e4] * 100, np.float16)) == np.float16(6e4)


@pytest.mark.parametrize(("shape", "axis"), [*SHAPES, ((40, 9000), 0), ((5000, 3, 2), 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_variance_does_not_cancel(shape, axis, dtype, isa):
    if shape == (1,):
        pytest.skip("no spread to measure")
    rng = np.random.default_rng(4)
    for offset in (0, 1e3, 1e6):
        x = sample(rng, shape, dtype, offset)
        reference = np.var(x.astype(np.longdouble), axis=axis)
        # float32 rounds its result, by at most 6e-8; float64 keeps about the spacing of its data.
        tolerance = 7e-8 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(lucid.var(x, axis).astype("g"), reference, rtol=tolerance)
        mean, var = lucid.mean_var(x, axis)
        np.testing.assert_array_equal(var, lucid.var(x, axis))
        np.testing.assert_array_equal(mean, lucid.mean(x, axis))
        np.testing.assert_allclose(lucid.std(x, axis) ** 2, var, rtol=3e-7)


# Values and their spread; squares of deviations of integers and floats share their last digits.
SPREADS = [("f2", 100, 1), ("f4", 0, 1), ("f4", 1e4, 0.01), ("f4", 1e6, 1), ("f8", 1e6, 1),
           ("f8", 1e8, 1e-3), ("u1", 200, 10), ("i2", 1000, 100), ("i2", 30000, 100),
           ("i4", 1e8, 100), ("i8", 1e12, 100)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "offset", "spread"), SPREADS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((50_000,), 0), ((20, 3000), 1), ((500, 5), 1), ((20_000, 5), 0), ((3000, 70), 0),
     ((500, 2500), 0), ((8, 1000, 9), 1)],
)  # fmt: skip
def test_float64_variance_at_an_offset(shape, axis, dtype, offset, spread, isa):
    rng = np.random.default_rng(11)
    x = (rng.standard_normal(shape) * spread + offset).astype(dtype)
    # Exact to 64 bits: the correction makes good what the mean is off.
    d = x.astype("g")
    d -= d.mean(axis=axis, keepdims=True)
    n = shape[axis]
    reference = ((d * d).sum(axis=axis) - d.sum(axis=axis) ** 2 / n) / n
    var = lucid.var(x, axis, dtype=np.float64)
    strided = lucid.var(np.repeat(x, 2, axis=-1)[..., ::2], axis, dtype=np.float64)
    moments = lucid.Moments.of(x, axis).var()
    bound = 16 if table.active()[0] == "simd" else 32  # the others merge blocks a quarter as long
    for result in (var, strided, moments):
        error = abs(np.asarray(result) - reference) / np.spacing(reference.astype(np.float64))
        assert np.max(error) <= bound


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_a_constant_has_no_variance(dtype, shape, axis, isa):
    for value in (0.1, 1e4 + 0.1, 1e-30, -7 / 3):
        x = np.full(shape, value, dtype)
        np.testing.assert_array_equal(lucid.var(x, axis), 0)
        np.testing.assert_array_equal(lucid.mean(x, axis), dtype(value))


def hard_cases():
    rng = np.random.default_rng(5)
    yield np.where(np.arange(100000) < 512, 1e8, rng.standard_normal(100000))
    yield np.linspace(0, 1e9, 100001)
    yield np.r_[rng.standard_normal(4096) + 1e12, rng.standard_normal(5000) - 1e12]
    yield rng.standard_normal(3000) * 1e-140


@pytest.mark.parametrize("x", list(hard_cases()))
def test_variance_of_uneven_data(x, isa):
    for y, axis in ((x, 0), (np.c_[x, x, x], 0), (np.tile(x, (2, 1)), 1)):
        reference = np.var(y.astype(np.longdouble), axis=axis)
        np.testing.assert_allclose(lucid.var(y, axis).astype("g"), reference, rtol=1e-12)


BITS = [((1000, 70), 0), ((70, 1000), 1), ((300_000,), None), ((8, 100, 500), (0, 2)),
        ((200_000, 3), 0), ((100, 5000), 0), ((90, 90, 50), 1)]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), BITS)
def test_same_bits_for_threads_and_instruction_sets(shape, axis, dtype, threads):
    x = sample(np.random.default_rng(6), shape, dtype, 3)  # 53 bits fill the significand
    seen = set()
    for isa in table.available()["isas"]:
        with table.using(isa=isa):
            for n in (1, 2, 3, 1):
                threads(n)
                results = (
                    lucid.mean(x, axis),
                    *lucid.mean_var(x, axis),
                    lucid.std(x, axis, ddof=1),
                )
                seen.add(b"".join(np.asarray(r).tobytes() for r in results))
    assert len(seen) == 1


def test_axis_none_and_all_axes_are_the_same_bits():
    x = sample(np.random.default_rng(7), (40, 50, 60), np.float64)
    everything = lucid.mean(x)
    assert everything == lucid.mean(x, axis=(0, 1, 2)) == lucid.mean(x.T, axis=(2, 0, 1))
    assert lucid.var(x) == lucid.var(x, axis=(2, 1, 0))


def test_result_keeps_the_memory_order_as_numpy_does():
    x = np.asfortranarray(np.random.default_rng(8).standard_normal((4, 5, 6, 7)))
    for axis in (0, 1, 3, (0, 2)):
        assert lucid.mean(x, axis).strides == np.mean(x, axis).strides
        assert lucid.mean(x, axis, keepdims=True).shape == np.mean(x, axis, keepdims=True).shape


def test_strange_strides():
    lib = np.lib.stride_tricks
    x = np.arange(40, dtype=np.float32)
    for view in (
        lib.sliding_window_view(x, 7),
        np.broadcast_to(x, (5, 40)),
        np.broadcast_to(x[:, None], (40, 9)),
        lib.as_strided(x, (1, 40, 1), (12345, 4, -7)),
        x[:, None][:, :, None],
        lib.as_strided(x, (3, 0 + 4), (-0, 4)),
    ):
        for axis in (None, 0, -1):
            np.testing.assert_array_equal(lucid.mean(view, axis), lucid.mean(view.copy(), axis))
            np.testing.assert_allclose(lucid.var(view, axis), np.var(view.copy(), axis), rtol=1e-6)


def test_memmap_list_and_scalars(tmp_path):
    m = np.memmap(tmp_path / "x", np.float32, "w+", shape=(6, 4))
    m[:] = np.arange(24).reshape(6, 4)
    assert type(lucid.mean(m, axis=0)) is np.ndarray
    np.testing.assert_array_equal(lucid.mean(m, axis=0), [10, 11, 12, 13])
    assert lucid.mean([[1, 2], [3, 4]]) == 2.5
    assert lucid.mean(np.float32(3)) == 3
    assert lucid.mean(True) == 1


def test_what_the_kernels_do_not_take_is_numpys(recwarn):
    masked = np.ma.array([1.0, 2.0, 9.0], mask=[0, 0, 1])
    assert lucid.mean(masked) == 1.5
    assert lucid.mean(np.array([1 + 2j, 3])) == 2 + 1j
    assert lucid.mean(np.array([1, 2], object)) == 1.5
    assert lucid.mean(np.array([1, 3], np.longdouble)).dtype == np.longdouble
    assert lucid.mean(np.array([1, 3], "m8[s]")) == np.timedelta64(2, "s")
    assert lucid.var(np.array([1j, -1j])) == 1
    assert isinstance(lucid.mean(np.matrix([[1, 2]]), axis=0), np.matrix)
    assert lucid.mean(np.arange(4.0), where=[True, False, True, False]) == 1
    with pytest.raises(TypeError):
        lucid.mean(np.array(["a"]))


@pytest.mark.parametrize("function", ["mean", "var", "std"])
def test_bad_axes_raise_what_numpy_raises(function):
    x, ours, numpys = np.ones((2, 3)), getattr(lucid, function), getattr(np, function)
    for axis in (2, -3, (0, 0), (0, 5), 1.5, "0", [0], (0, 1.0)):
        with pytest.raises((ValueError, TypeError)) as expected:
            numpys(x, axis=axis)
        with pytest.raises(expected.type):
            ours(x, axis=axis)


def test_out_is_written_once_from_the_finished_result():
    x = np.full((70000, 2), 1.0, np.float32)
    out = np.empty(2, np.float16)
    assert lucid.mean(x, axis=0, out=out) is out
    np.testing.assert_array_equal(out, [1, 1])
    square = np.arange(9.0).reshape(3, 3)
    expected = square.mean(axis=0)
    lucid.mean(square, axis=0, out=square[1])
    np.testing.assert_array_equal(square[1], expected)
    with pytest.raises(ValueError, match=r"shape|dimension"):
        lucid.mean(x, axis=0, out=np.empty(3))
    integers = np.empty(2, int)
    np.testing.assert_array_equal(
        lucid.mean(x + 0.7, axis=0, out=integers), np.mean(x + 0.7, axis=0, out=integers.copy())
    )
    frozen = np.empty(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lucid.mean(x, axis=0, out=frozen)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "c16"])
def test_dtype_argument(dtype):
    x = np.arange(12).reshape(3, 4)
    for function in ("mean", "var", "std"):
        ours = getattr(lucid, function)(x, axis=1, dtype=dtype)
        reference = getattr(np, function)(x, axis=1, dtype=dtype)
        assert ours.dtype == reference.dtype
        np.testing.assert_allclose(ours, reference, rtol=1e-3)


@pytest.mark.parametrize("case", [
    ("mean", np.zeros((0, 3)), {"axis": 0}),
    ("mean", np.zeros(0, np.float32), {}),
    ("var", np.zeros((3, 0)), {"axis": 1}),
    ("var", np.ones(1), {"ddof": 1}),
    ("std", np.ones((2, 3)), {"axis": 0, "ddof": 3}),
    ("mean", np.array([np.inf, -np.inf, 1.0]), {}),
    ("mean", np.array([1e308, 1e308]), {}),
    ("mean", np.array([np.nan, 1.0]), {}),
    ("mean", np.array([np.inf, 1.0], np.float32), {}),
    ("var", np.array([np.inf, 1.0]), {}),
    ("var", np.array([1e200, -1e200]), {}),
])  # fmt: skip
def test_warnings_and_values_are_numpys(case):
    function, x, options = case
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        reference = getattr(np, function)(x, **options)
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        result = getattr(lucid, function)(x, **options)
    np.testing.assert_array_equal(result, reference)
    assert [w.category for w in got] == [w.category for w in expected]
    assert [str(w.message) for w in got] == [str(w.message) for w in expected]


def test_given_mean_and_correction():
    x = sample(np.random.default_rng(9), (50, 6), np.float32, 1e4)
    center = x.mean(axis=0, keepdims=True, dtype=np.float64)
    wide = np.var(x.astype("g"), axis=0)
    np.testing.assert_allclose(lucid.var(x, 0, mean=center), wide.astype(float), rtol=1e-7)
    off = center + 3
    expected = np.mean((x.astype("g") - off) ** 2, axis=0)
    np.testing.assert_allclose(lucid.var(x, 0, mean=off).astype("g"), expected, rtol=1e-7)
    np.testing.assert_array_equal(lucid.var(x, 0, correction=1), lucid.var(x, 0, ddof=1))
    with pytest.raises(ValueError, match="ddof"):
        lucid.var(x, 0, ddof=1, correction=1)


def test_nan_and_inf_propagate(isa):
    x = np.ones((300, 40), np.float32)
    x[5, 3], x[7, 4] = np.nan, np.inf
    m = lucid.mean(x, axis=0)
    assert np.isnan(m[3])
    assert m[4] == np.inf
    assert np.all(m[5:] == 1)
    y = x.astype(np.float64)
    assert np.isnan(lucid.mean(y, axis=0)[3])
    assert lucid.mean(y, axis=0)[4] == np.inf


def test_fixed_bits_regardless_of_alignment():
    buffer = np.random.default_rng(10).standard_normal(5000)
    for start in range(5):
        x = buffer[start : start + 4000]
        assert lucid.mean(x) == lucid.mean(x.copy())


def test_large_finite_float64_is_no_worse_than_numpys():
    for x in (
        np.where((np.arange(64) // 8) % 2 == 0, 1.7e308, -1.7e308),
        np.full(7, 1e305),
        np.tile([1e200, -1e200], 9),
    ):
        for name in ("mean", "var", "std"):
            with warnings.catch_warnings(record=True) as expected:
                warnings.simplefilter("always")
                reference = getattr(np, name)(x)
            with warnings.catch_warnings(record=True) as got:
                warnings.simplefilter("always")
                result = getattr(lucid, name)(x)
            if np.isfinite(result):
                assert np.isfinite(reference) <= (result == pytest.approx(reference))
            else:
                assert result == reference or np.isnan(reference)
                assert got[0].category is expected[0].category


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (np.float32([3e38, -3e38]), {}),
        (np.float16([60000, -60000]), {}),
        (np.array([1e300]), {"dtype": np.float32}),
        (np.array([100000]), {"dtype": np.float16}),
    ],
)
def test_overflow_of_the_result_type_warns(x, options):
    name = "mean" if options else "var"
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert np.isinf(getattr(lucid, name)(x, **options))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        getattr(lucid, name)(x, **options)


def test_bfloat16_nan_is_silent():
    x = np.array([np.nan, 1], ml_dtypes.bfloat16)
    assert np.isnan(lucid.mean(x))
    assert np.isnan(lucid.var(x))


def test_mean_var_is_mean_and_var_for_64_bit_integers():
    for x in (np.array([2**62 + 1, -(2**62)]), np.array([2**63 + 1, 1], np.uint64)):
        mean, var = lucid.mean_var(x)
        assert mean == lucid.mean(x)
        assert var == lucid.var(x)


def test_dtype_of_a_spread_about_a_given_mean():
    for x in (np.float32, np.float16):
        for m in (np.int32, np.float32, np.float64):
            a, center = np.ones((4, 3), x), np.ones((1, 3), m)
            assert lucid.var(a, 0, mean=center).dtype == np.var(a, 0, mean=center).dtype


@pytest.mark.parametrize("keepdims", [None, "x", 2.0, [], np.array(True)])
def test_keepdims_is_checked_as_numpy_does(keepdims):
    for x in (np.ones((2, 2)), lucid.tensor([[1.0]])):
        with pytest.raises(TypeError):
            lucid.mean(x, 0, keepdims=keepdims)


def test_other_kinds_get_only_the_arguments_given():
    class Own:
        def __array_function__(self, func, types, args, kwargs):
            return func.__name__, len(args), sorted(kwargs)

    class List(list):
        def mean(self, axis=None, dtype=None, out=None):
            return "own"

    assert lucid.mean(Own(), axis=0) == ("mean", 1, ["axis"])
    assert lucid.std(Own(), 0, ddof=1) == ("std", 1, ["axis", "ddof"])
    assert lucid.mean(List([1, 2])) == np.mean(List([1, 2])) == "own"


def test_small_thread_stacks():
    import threading

    before = threading.stack_size(1 << 18)
    try:
        results = []
        x = np.ones((300, 1500), np.float32)
        work = threading.Thread(
            target=lambda: results.extend([lucid.mean(x, 0), lucid.var(x[:, ::2], 0)])
        )
        work.start()
        work.join()
    finally:
        threading.stack_size(before)
    assert (results[0] == 1).all()
    assert (results[1] == 0).all()


@pytest.mark.parametrize(
    "x",
    [
        np.float32([1e20, 1, -1e20]),
        np.sin(np.arange(100_000) * (2 * np.pi / 1000)).astype(np.float32),
        np.tile(np.float32([3, -3.0000002]), 200_000),
    ],
)
def test_cancellation_leaves_a_bounded_error(x, isa):
    exact = math.fsum(x.astype(float)) / len(x)
    bound = math.fsum(np.abs(x).astype(float)) / len(x) * 2.0**-46
    wide = np.repeat(x[:, None], 40, axis=1)
    narrow = wide[:, :3].copy()
    for mean in (lucid.mean(x), *lucid.mean(wide, 0), *lucid.mean(narrow, 0)):
        assert abs(float(mean) - exact) <= bound + np.spacing(np.float32(abs(exact)))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
@pytest.mark.parametrize("correction", [64, 65, 70.5])
def test_mean_var_without_degrees_of_freedom(dtype, correction):
    """The mean is the kernels' all the same: NumPy's, in halves, is far off."""
    x = np.full((64, 3), 1000).astype(dtype)
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        reference = np.var(x.astype("f8"), axis=0, ddof=correction)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        mean, var = lucid.mean_var(x, axis=0, correction=correction)
    np.testing.assert_array_equal(mean, lucid.mean(x, axis=0))
    np.testing.assert_array_equal(var.astype("f8"), reference)
    assert {str(w.message) for w in found} >= {str(w.message) for w in expected}
    assert any("Degrees of freedom" in str(w.message) for w in found)


def _outcome(function, *args, **kwargs):
    """Result or class of the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            result = type(error)
    return result, {(w.category, str(w.message)) for w in caught}


@pytest.mark.parametrize("name", ["mean", "var", "std"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("out", [False, True])
def test_overflow_of_a_narrow_result_is_infinite(name, dtype, out):
    """Not NaN, which NumPy's own sums in half precision give: inf - inf."""
    x = np.array([[1e5, 1.0], [-1e5, 2.0], [3e5, 3.0], [1.0, 4.0]], dtype)
    options = {"out": np.zeros(2, "f2")} if out else {"dtype": "f2"}
    result, warned = _outcome(getattr(lucid, name), x, axis=0, **options)
    reference = getattr(np, name)(x.astype("f8"), axis=0)
    np.testing.assert_array_equal(result, [np.inf, reference[1].astype("f2")])
    assert warned == {(RuntimeWarning, "overflow encountered in reduce")}


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_each_kind_of_infinite_slice_warns(name):
    """NumPy's warnings, whichever slice they come from."""
    inf, nan = np.inf, np.nan
    kinds = [[inf, 1.0], [-inf, 2.0], [inf, -inf], [1.0, 2.0], [nan, 1.0], [inf, inf], [nan, nan]]
    for n in range(1, 4):
        for chosen in itertools.permutations(kinds, n):
            x = np.array(chosen)
            result, warned = _outcome(getattr(lucid, name), x, axis=1)
            reference, expected = _outcome(getattr(np, name), x, axis=1)
            np.testing.assert_array_equal(result, reference)
            assert warned == expected, chosen


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "ddof", ["a", None, 1j, [1], np.array([1]), np.array(1.0), True, 3.5, np.float32(1)]
)
def test_odd_degrees_of_freedom_are_numpys(ddof, given):
    x = np.arange(12.0).reshape(4, 3)
    options = {"mean": x.mean(0, keepdims=True)} if given else {}
    for name in ("var", "std"):
        result, warned = _outcome(getattr(lucid, name), x, axis=0, ddof=ddof, **options)
        reference, expected = _outcome(getattr(np, name), x, axis=0, ddof=ddof, **options)
        if isinstance(reference, type):
            assert result is reference
        else:
            np.testing.assert_allclose(result, reference, rtol=1e-15)
        assert warned == expected


@pytest.mark.parametrize("name", ["mean", "var", "std"])
@pytest.mark.parametrize("x_type", ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16", "g"])
@pytest.mark.parametrize("out_type", ["?", "i4", "f2", "f4", "f8", "g", "c8", "c16"])
def test_out_of_every_type_warns_and_raises_as_numpys(name, x_type, out_type):
    """ComplexWarning among them."""
    x = np.arange(6).reshape(2, 3).astype(x_type)
    outs = [np.zeros(3, out_type) for _ in range(2)]
    result, warned = _outcome(getattr(lucid, name), x, axis=0, out=outs[0])
    reference, expected = _outcome(getattr(np, name), x, axis=0, out=outs[1])
    assert warned == expected
    if isinstance(reference, type):
        assert result is reference
    else:
        assert result is outs[0]
        np.testing.assert_allclose(outs[0].astype("c16"), outs[1].astype("c16"), rtol=1e-3)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int8])
@pytest.mark.parametrize("keepdims", [False, True])
def test_no_degrees_of_freedom(name, dtype, keepdims):
    """NaN for constants and infinity for the rest, as NumPy's double precision has it."""
    x = np.array([[100, 1], [100, 3]]).astype(dtype)
    for axis in (0, None, (0, 1)):
        options = {"axis": axis, "ddof": x.size, "keepdims": keepdims}
        result, warned = _outcome(getattr(lucid, name), x, **options)
        reference, expected = _outcome(getattr(np, name), x.astype("f8"), **options)
        np.testing.assert_array_equal(np.asarray(result).astype("f8"), reference)
        assert np.shape(result) == np.shape(reference)
        assert result.dtype == (np.float64 if dtype is np.int8 else dtype)
        without = [{(k, text.replace("scalar ", "")) for k, text in w} for w in (warned, expected)]
        assert without[0] == without[1]
