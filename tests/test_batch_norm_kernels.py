"""The batch-norm kernels: every layout, type and instruction set, against longdouble."""

import os
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import batch_norm_reference as reference
import numpy as np
import pytest

import lucid
from lucid._kernels import batch_norm as kernels, provider as table

LD = np.longdouble
SHAPES = [(8, 16), (2, 3), (5, 7, 3), (4, 3, 5, 6), (3, 20, 14, 14), (2, 5, 3, 4, 5), (33, 70)]
ALL = (True, True, True)
rng = np.random.default_rng(0)


def bfloat16():
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def strided(x):
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    view = wide[tuple([slice(None, None, 2)] * x.ndim)]
    view[...] = x
    return view


def reversed_(x):
    back = tuple([slice(None, None, -1)] * x.ndim)
    return x[back].copy()[back]


def unaligned(x):
    view = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def padded(x):
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., :-3] = x
    return wide[..., :-3]


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "channels_last": channels_last,
    "strided": strided,
    "reversed": reversed_,
    "padded": padded,
    "unaligned": unaligned,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()) if x.dtype.kind == "f" else x,
    "read_only": read_only,
}


def normal(shape, mean=0.0, std=1.0, dtype="f4"):
    return rng.normal(mean, std, shape).astype(dtype)


def forward(x, weight=None, bias=None, eps=1e-5, axis=1):
    return kernels.forward(x, weight, bias, None, None, 0.1, eps, axis)


def error(found, expected, scale=1.0):
    return float(np.max(np.abs(found.astype(LD) - expected) / scale, initial=0))


def double_backward(v, w, u, g, x, weight, eps=1e-5):
    """The closed form, in longdouble."""
    mean, var = reference.statistics(x)
    v, g, x_ = (reference.channels(a) for a in (v, g, x))
    w, u, weight, mean = (np.asarray(a, LD)[:, None] for a in (w, u, weight, mean))
    d, r = x_ - mean, 1 / np.sqrt(var + LD(eps))[:, None]

    def average(a):
        return a.mean(axis=1, keepdims=True)

    q, p = r * average(g * d), r * average(v * d)
    t = average(v * g) - average(v) * average(g) - p * q
    h = w * average(g) - weight * r * (average(g) * p + average(v) * q)
    to_g = weight * r * (v - average(v) - r * p * d) + w * r * d + u
    to_x = r * (w - weight * r * p) * g - weight * r**2 * q * v - r * h
    to_x -= r**2 * (w * q - 2 * weight * r * p * q + weight * r * t) * d
    return reference.like(to_g, x), reference.like(to_x, x), (r * t)[:, 0] * x_.shape[1]


# ---------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("mean", "std"), [(0, 1), (1e2, 1e-2), (1e4, 1), (1e6, 1)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float32_at_an_offset(shape, mean, std, layout):
    x, g = LAYOUTS[layout](normal(shape, mean, std)), normal(shape)
    c = shape[1]
    weight, bias = rng.normal(size=c), normal(c)
    y, saved_mean, rstd = forward(x, weight, bias)
    scale = np.maximum(1, abs(weight)).reshape(-1, *[1] * (x.ndim - 2))
    assert y.dtype == np.float32
    assert error(y, reference.forward(x, weight, bias), scale) < 4e-6
    dx, dweight, dbias = kernels.backward(g, x, weight, bias, saved_mean, rstd, True, 1, ALL)
    expected = reference.backward(g, x, weight)
    assert error(dx, expected[0], scale * max(1, rstd.max())) < 4e-6
    for found, sums in ((dweight, expected[1]), (dbias, expected[2])):
        assert error(found, sums, np.maximum(1, abs(sums))) < 4e-6


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
@pytest.mark.parametrize("shape", [(40, 24, 43, 61), (3, 20, 9000, 4), (30_000, 40, 1)], ids=str)
def test_sums_of_many_terms_that_cancel(shape, layout):
    x, g = LAYOUTS[layout](normal(shape, 1e4)), LAYOUTS[layout](normal(shape))
    _, mean, rstd = forward(x)
    _, dweight, dbias = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)
    _, *expected = reference.backward(g, x)
    for found, sums in zip((dweight, dbias), expected, strict=True):
        assert error(found, sums, np.maximum(1, abs(sums))) < 4e-7


def relu(shape):
    return np.maximum(normal(shape), 0)


def tenths(shape):
    return (rng.random(shape) < 0.3).astype("f4") * np.float32(0.1)


def offset(shape):
    return normal(shape, 1e4)


@pytest.mark.parametrize("values", [relu, tenths, offset])
@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
@pytest.mark.parametrize(
    "shape", [(40, 24, 20, 31), (3, 2, 500, 401), (250_000, 3), (20_000, 40, 1)], ids=str
)
def test_the_error_of_the_mean_is_not_multiplied(shape, layout, values, threads):
    # The sum of g, of as many terms as there are, multiplies it; the true gradient is near 0.
    x = LAYOUTS[layout](values(shape))
    g, weight = LAYOUTS[layout](np.ones(shape, "f4")), np.ones(shape[1])
    for n in (1, 3):
        threads(n)
        running_mean, running_var = np.zeros((2, shape[1]))
        _, mean, rstd = kernels.forward(x, None, None, running_mean, running_var, 1.0, 1e-5, 1)
        dweight = kernels.backward(g, x, weight, None, mean, rstd, True, 1, ALL)[1]
        expected = reference.backward(g, x)[1]
        assert error(dweight, expected, np.maximum(1, abs(expected))) < 4e-7
        true_mean, true_var = reference.statistics(x)
        size = x.size // shape[1]
        np.testing.assert_allclose(running_mean, true_mean.astype("f8"), rtol=1e-13)
        unbiased = (true_var * size / (size - 1)).astype("f8")
        np.testing.assert_allclose(running_var, unbiased, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["f2", "bfloat16"])
def test_the_error_of_the_mean_of_half_types_is_not_multiplied(dtype):
    dtype = bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
    x, g = relu((60, 4, 60, 61)).astype(dtype), np.ones((60, 4, 60, 61), dtype)
    _, mean, rstd = forward(x)
    dweight = kernels.backward(g, x, np.ones(4), None, mean, rstd, True, 1, ALL)[1]
    assert error(dweight, reference.backward(g, x)[1]) < 4e-7


def test_statistics_of_integers_are_correctly_rounded(isa):
    x = np.tile(np.array([-1, 0, 0, 0], "f4"), 50_000).reshape(-1, 1) * np.ones(3, "f4")
    mean, var = np.zeros((2, 3), "f4")
    kernels.forward(x, None, None, mean, var, 1.0, 1e-5, 1)
    np.testing.assert_array_equal(mean, np.full(3, -0.25, "f4"))
    np.testing.assert_array_equal(var, np.full(3, 0.1875 * len(x) / (len(x) - 1), "f4"))


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float64(shape, layout):
    x, g = LAYOUTS[layout](normal(shape, 1e3, dtype="f8")), normal(shape, dtype="f8")
    weight = rng.normal(size=shape[1])
    y, mean, rstd = forward(x, weight)
    # An x of size 1e3 is itself rounded by 1e-13 of the standard deviation.
    assert error(y, reference.forward(x, weight)) < 1e-12 * abs(weight).max() * rstd.max()
    dx, dweight, _ = kernels.backward(g, x, weight, weight, mean, rstd, True, 1, ALL)
    expected = reference.backward(g, x, weight)
    assert error(dx, expected[0]) < 1e-11 * abs(weight).max() * rstd.max() ** 2
    assert error(dweight, expected[1]) < 1e-11 * rstd.max() ** 2


def test_float64_mean_is_not_cut_to_its_own_digits():
    x = normal((64, 3, 30), 1e6, dtype="f8")
    assert error(forward(x)[0], reference.forward(x)) < 1e-13  # 6e-11 if it were


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided", "reversed"])
@pytest.mark.parametrize("name", ["f2", "bfloat16"])
def test_half_types_are_rounded_once(name, layout):
    dtype = bfloat16() if name == "bfloat16" else np.dtype(name)
    x, g = LAYOUTS[layout](normal((6, 5, 9, 9), 1, 2, dtype)), normal((6, 5, 9, 9), dtype=dtype)
    ulp = {"f2": 2.0**-11, "bfloat16": 2.0**-8}[name]
    y, mean, rstd = forward(x)
    assert y.dtype == dtype
    expected = reference.forward(x)
    assert error(y, expected, np.maximum(abs(expected), 2.0**-10)) < 1.01 * ulp
    dx, dweight, _ = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)
    assert dx.dtype == dweight.dtype == dtype
    expected = reference.backward(g, x)[0]
    assert error(dx, expected, np.maximum(abs(expected), 2.0**-10)) < 1.02 * ulp


def test_float_to_half_rounds_as_numpy_does():
    # Every half, the midpoints between them and their neighbours, through an identity affine.
    bits = np.arange(0x7C00, dtype=np.uint16)
    halves = bits.view("f2").astype("f8")
    middles = (halves[1:] + halves[:-1]) / 2
    values = np.concatenate([halves, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9)])
    bias = np.concatenate([values, -values]).astype("f4").astype("f8")
    zero = np.zeros((1, len(bias)), "f2")
    y = kernels.inference(zero, None, bias, np.zeros(len(bias)), np.ones(len(bias)), 0.0, 1)[0]
    np.testing.assert_array_equal(y[0], bias.astype("f4").astype("f2"))


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided", "reversed", "swapped"])
@pytest.mark.parametrize("shape", SHAPES[2:], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_double_backward(shape, layout, dtype):
    x = LAYOUTS[layout](normal(shape, 3, 2, dtype))
    g, v = normal(shape, dtype=dtype), LAYOUTS["F"](normal(shape, dtype=dtype))
    w, u, weight = rng.normal(size=(3, shape[1]))
    _, mean, rstd = forward(x)
    found = kernels.double_backward(v, w, u, g, x, weight, mean, rstd, True, 1, ALL)
    expected = double_backward(v, w, u, g, x, weight)
    bound = 4e-6 if dtype == "f4" else 1e-12
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < bound * max(1, abs(b).max())
    for i in range(3):  # one at a time: the same bits
        needs = tuple(k == i for k in range(3))
        alone = kernels.double_backward(v, w, u, g, x, weight, mean, rstd, True, 1, needs)
        assert [a is None for a in alone] == [not need for need in needs]
        np.testing.assert_array_equal(alone[i], found[i])


def test_absent_cotangents_are_zero():
    x, g, v = normal((6, 4, 5)), normal((6, 4, 5)), normal((6, 4, 5))
    w, u = rng.normal(size=(2, 4))
    _, mean, rstd = forward(x)

    def call(v, w, u, training):
        return kernels.double_backward(v, w, u, g, x, None, mean, rstd, training, 1, ALL)

    for training in (True, False):
        parts = call(v, None, None, training), call(None, w, None, training)
        parts += (call(None, None, u, training),)
        for whole, *some in zip(call(v, w, u, training), *parts, strict=True):
            np.testing.assert_allclose(sum(some), whole, rtol=0, atol=2e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", ["C", "channels_last", "reversed"])
def test_adjoint(training, layout):
    # dx is linear in dy, and the double backward of v alone is its transpose.
    x, g, v = (LAYOUTS[layout](normal((5, 4, 6, 7), dtype="f8")) for _ in range(3))
    weight = rng.normal(size=4)
    _, mean, rstd = forward(x)
    dx = kernels.backward(g, x, weight, None, mean, rstd, training, 1, (True, False, False))[0]
    back = kernels.double_backward(
        v, None, None, g, x, weight, mean, rstd, training, 1, (True, False, False)
    )[0]
    assert np.vdot(v, dx) == pytest.approx(np.vdot(back, g), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e19, 1e30])
@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extreme_scales(scale, layout, dtype):
    x, g = LAYOUTS[layout](normal((4, 6, 20, 20), 0, scale, dtype)), normal((4, 6, 20, 20))
    g = g.astype(dtype)
    eps = 1e-5 if scale > 1 else 0.0
    y, mean, rstd = forward(x, eps=eps)
    assert error(y, reference.forward(x, eps=eps)) < 4e-6
    dx, dweight, _ = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)
    expected = reference.backward(g, x, eps=eps)
    assert error(dx, expected[0]) < 4e-6 * float(abs(expected[0]).max())
    assert error(dweight, expected[1]) < 4e-6 * float(abs(expected[1]).max())


@pytest.mark.parametrize(
    ("sx", "sg", "sv"),
    [(1e-15, 1e-30, 1), (1e-20, 1e-25, 1e-10), (1e-10, 1e10, 1e-35), (1e15, 1e25, 1)],
)
@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
def test_products_outside_the_range_of_float_in_double_backward(layout, sx, sg, sv, isa):
    shape = (4, 6, 20, 20)
    x, g, v = (LAYOUTS[layout](normal(shape, 0, s)) for s in (sx, sg, sv))
    w, u, weight = np.zeros(6), np.zeros(6), normal(6).astype("f8")
    _, mean, rstd = forward(x, eps=0)
    found = kernels.double_backward(v, w, u, g, x, weight, mean, rstd, True, 1, ALL)
    expected = double_backward(v, w, u, g, x, weight, eps=0)
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < 4e-6 * float(abs(b).max())


def test_extremes_of_one_channel_leave_the_others_alone():
    x = normal((4, 6, 20, 20))
    y = forward(x)[0]
    x[:, 2] *= 1e25
    x[:, 4] = np.nan
    changed = forward(x)[0]
    keep = [0, 1, 3, 5]
    np.testing.assert_array_equal(changed[:, keep], y[:, keep])
    assert np.isnan(changed[:, 4]).all()
    assert error(changed[:, [2]], reference.forward(x[:, [2]])) < 4e-6


def test_a_shift_far_from_the_mean():
    x = normal((64, 3, 28, 28), 1e4)
    x[0] = 0
    assert error(forward(x)[0], reference.forward(x)) < 4e-6 * 8  # the zeros lie 8 deviations off


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_constant_channel_gives_bias(shape, dtype, layout):
    c = shape[1]
    values = (1e3 * rng.normal(size=c)).reshape(-1, *[1] * (len(shape) - 2))
    x = LAYOUTS[layout](np.broadcast_to(values, shape).astype(dtype))
    bias = normal(c)
    y = forward(x, rng.normal(size=c), bias)[0]
    expected = np.broadcast_to(bias.astype(dtype).reshape(-1, *[1] * (len(shape) - 2)), shape)
    np.testing.assert_array_equal(y, expected)


def test_nonfinite_values_stay_in_their_channel():
    x = normal((4, 3, 8, 8))
    x[0, 1, 2, 2], x[1, 2, 0, 0] = np.inf, np.nan
    y, mean, rstd = forward(x)
    assert np.isfinite(y[:, 0]).all()
    assert np.isnan(y[:, 1:]).all()
    assert np.isposinf(mean[1])
    assert np.isnan(mean[2])
    assert np.isnan(rstd[1:]).all()


def test_zero_and_nonfinite_weight():
    x, g = normal((4, 3, 8, 8)), normal((4, 3, 8, 8))
    weight = np.array([0, np.inf, np.nan])
    y, mean, rstd = forward(x, weight)
    assert (y[:, 0] == 0).all()
    assert np.isinf(y[:, 1]).all()
    assert np.isnan(y[:, 2]).all()
    dx, dweight, _ = kernels.backward(g, x, weight, None, mean, rstd, True, 1, ALL)
    assert (dx[:, 0] == 0).all()
    assert np.isfinite(dweight).all()
    found = kernels.double_backward(g, weight, weight, g, x, weight, mean, rstd, True, 1, ALL)
    assert all(np.isfinite(a[:, 0]).all() for a in found[:2])
    assert np.isfinite(found[2]).all()


def test_evaluation_gradient_does_not_read_infinite_inputs():
    x, g = normal((4, 3, 8)), normal((4, 3, 8))
    x[0, 0, 0] = np.inf
    dx, _, _ = kernels.backward(g, x, None, None, np.zeros(3), np.ones(3), False, 1, ALL)
    np.testing.assert_array_equal(dx, g)


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_evaluation_of_second_order_reads_what_has_a_part_alone(dtype, layout):
    x, g, v = (LAYOUTS[layout](normal((4, 3, 8), dtype=dtype)) for _ in range(3))
    weight, w, u, mean = rng.normal(size=(4, 3))
    rstd = rng.uniform(1, 2, 3)

    def call(v, w, u, needs=ALL):
        return kernels.double_backward(v, w, u, g, x, weight, mean, rstd, False, 1, needs)

    def spread(a):
        return a[:, None]

    tolerance = 2.0**-9 if dtype == "f2" else 4e-6
    d = x.astype(LD) - spread(mean)
    for v_, w_ in ((v, w), (v, None), (None, w), (None, None)):
        a, b = 0 if v_ is None else v_.astype(LD), np.zeros(3) if w_ is None else w_
        expected = (
            spread(weight * rstd) * a + spread(b * rstd) * d + spread(u),
            spread(b * rstd) * g.astype(LD),
            rstd * (a * g.astype(LD)).sum(axis=(0, 2)) if v_ is not None else np.zeros(3),
        )
        for found, true in zip(call(v_, w_, u), expected, strict=True):
            assert error(found, true, np.maximum(1, abs(true))) < tolerance
    clean = call(v, None, u)
    x[0, 0, 0], x[1, 1, 0], x[2, 2, 3] = np.inf, np.nan, -np.inf
    for w_ in (None, np.zeros(3)):
        for found, true in zip(call(v, w_, u), clean, strict=True):
            np.testing.assert_array_equal(found, true)


# ---------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_each_operand_in_a_layout_of_its_own(layout, other):
    shape = (3, 20, 14, 14)
    x, g = LAYOUTS[layout](normal(shape)), LAYOUTS[other](normal(shape))
    _, mean, rstd = forward(x)
    dx, dweight, dbias = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)
    expected = reference.backward(g, x)
    assert error(dx, expected[0]) < 4e-6
    assert error(dweight, expected[1], 24) < 4e-6
    assert error(dbias, expected[2], 24) < 4e-6


@pytest.mark.parametrize("isa", table.available()["isas"])
@pytest.mark.parametrize(
    ("dtype", "count"),
    [("f4", 3), ("f8", 2), *(pytest.param(t, 6, marks=pytest.mark.slow) for t in ("f4", "f8"))],
)
def test_every_pair_of_layouts_past_the_cache(dtype, count, isa):
    script = Path(__file__).with_name("batch_norm_layouts.py")
    run = subprocess.run(
        [sys.executable, "-P", script, dtype, isa, str(count)], capture_output=True, timeout=600
    )
    assert run.returncode == 0, run.stderr.decode()


@pytest.mark.parametrize("axis", range(4))
def test_channel_axis(axis):
    x, g = normal((5, 6, 7, 8)), normal((5, 6, 7, 8))
    y, mean, rstd = forward(x, axis=axis)
    assert error(y, reference.forward(x, channel_axis=axis)) < 4e-6
    dx = kernels.backward(g, x, None, None, mean, rstd, True, axis, ALL)[0]
    assert error(dx, reference.backward(g, x, channel_axis=axis)[0]) < 4e-6


@pytest.mark.parametrize("axis", range(3))
def test_zero_strides(axis):
    shape = [6, 5, 7]
    thin = [1 if i == axis else n for i, n in enumerate(shape)]
    x = np.broadcast_to(normal(thin), shape)
    y, mean, rstd = forward(x)
    assert error(y, reference.forward(x)) < 4e-6
    g = np.broadcast_to(np.float32(1), shape)
    dx = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)[0]
    assert error(dx, reference.backward(g, x)[0]) < 4e-6 * rstd.max()


def test_output_keeps_the_order_of_the_axes():
    x = normal((4, 3, 5, 6))
    for layout in ("C", "F", "channels_last"):
        a = LAYOUTS[layout](x)
        y, mean, rstd = forward(a)
        dx = kernels.backward(x, a, None, None, mean, rstd, True, 1, ALL)[0]
        assert y.strides == dx.strides == a.strides
        assert y.flags.writeable
    every_second = channels_last(np.concatenate([x, x], axis=3))[..., ::2]
    assert forward(every_second)[0].strides == channels_last(x).strides


def test_empty():
    buffers = np.full(3, 7.0), np.full(3, 8.0)
    x = np.empty((0, 3, 4), "f4")
    y, mean, rstd = kernels.forward(x, None, None, *buffers, 0.1, 1e-5, 1)
    assert y.shape == x.shape
    assert buffers[0].tolist() == [7.0] * 3
    assert buffers[1].tolist() == [8.0] * 3
    dx, dweight, dbias = kernels.backward(x, x, None, None, mean, rstd, True, 1, ALL)
    assert dx.shape == x.shape
    assert not dweight.any()
    assert not dbias.any()
    assert not kernels.double_backward(x, None, None, x, x, None, mean, rstd, True, 1, ALL)[2].any()
    assert forward(np.empty((4, 0, 2)))[1].shape == (0,)


# ---------------------------------------------------------------------------- vectors


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "bfloat16"])
def test_vectors_of_any_type_and_stride(dtype):
    dtype = bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
    x = normal((6, 4, 9))
    vectors = np.zeros((4, 8), dtype)[:, ::-2]
    vectors[...] = rng.normal(1, 0.1, (4, 4))
    weight, bias, mean, var = vectors
    before = vectors.astype("f8")
    y = kernels.forward(x, weight, bias, mean, var, 0.25, 1e-5, 1)[0]
    assert error(y, reference.forward(x, before[0], before[1])) < 4e-6
    expected = reference.statistics(x)
    n = x.size // 4
    moved = before[2] + 0.25 * (expected[0] - before[2])
    moved = np.stack([moved, before[3] + 0.25 * (expected[1] * n / (n - 1) - before[3])])
    eps = float(np.finfo("f4").eps if dtype.itemsize > 2 else 2.0**-8)
    np.testing.assert_allclose(vectors[2:].astype("f8"), moved.astype("f8"), rtol=0, atol=eps)


def test_running_variance_is_exact():
    x = normal((64, 2, 100), 1e6)
    mean, var = np.zeros(2), np.zeros(2)
    kernels.forward(x, None, None, mean, var, 1.0, 1e-5, 1)
    expected = reference.statistics(x)
    n = x.size // 2
    np.testing.assert_allclose(mean, expected[0].astype("f8"), rtol=1e-13)
    np.testing.assert_allclose(var, (expected[1] * n / (n - 1)).astype("f8"), rtol=1e-7)


def test_inference_reads_the_buffers_only():
    x = normal((6, 4, 9))
    buffers = read_only(rng.normal(size=4)), read_only(rng.uniform(1, 2, 4))
    y, mean, rstd = kernels.inference(x, None, None, *buffers, 1e-5, 1)
    np.testing.assert_array_equal(mean, buffers[0])
    np.testing.assert_allclose(rstd, 1 / np.sqrt(buffers[1] + 1e-5), rtol=1e-15)
    assert error(y, reference.forward(x, mean=buffers[0], var=buffers[1])) < 4e-6


def test_gradients_have_the_types_of_their_parameters():
    x = normal((6, 4, 9))
    _, mean, rstd = forward(x)
    weight, bias = np.ones(4), np.ones(4, "f2")
    _, dweight, dbias = kernels.backward(x, x, weight, bias, mean, rstd, True, 1, ALL)
    assert dweight.dtype == np.float64
    assert dbias.dtype == np.float16
    found = kernels.backward(x, x, weight, bias, mean, rstd, True, 1, (False, True, False))
    assert found[0] is found[2] is None


@pytest.mark.parametrize("bad", ["i4", "c8", "O", "g"])
def test_types_without_a_kernel(bad):
    with pytest.raises(TypeError, match="no kernel takes"):
        forward(np.ones((3, 4), bad))


# ---------------------------------------------------------------------------- bits, threads, memory


def digests(x, g, v):
    weight, bias = np.linspace(-1, 2, x.shape[1]), np.linspace(0, 1, x.shape[1])
    y, mean, rstd = forward(x, weight, bias)
    first = kernels.backward(g, x, weight, bias, mean, rstd, True, 1, ALL)
    second = kernels.double_backward(v, bias, weight, g, x, weight, mean, rstd, True, 1, ALL)
    arrays = (y, mean, rstd, *first, *second)
    return [zlib.crc32(np.ascontiguousarray(a).tobytes()) for a in arrays]


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize(
    "shape",
    [(8, 16), (7, 3, 5), (3, 20, 14, 14), (2, 3, 200, 200), (3000, 40), (2, 40, 47, 31)],
    ids=str,
)
def test_same_bits_on_every_instruction_set_and_thread_count(shape, dtype, layout, threads):
    x, g, v = (LAYOUTS[layout](normal(shape, dtype=dtype)) for _ in range(3))
    if dtype != "f2":
        x[:, 1] *= 1e25 if dtype == "f4" else 1  # a channel that is computed wide
    found = set()
    for isa in table.available()["isas"]:
        for n in (1, 2, 3):
            threads(n)
            with table.using(isa=isa):
                found.add(tuple(digests(x, g, v)))
    assert len(found) == 1


@pytest.mark.parametrize("layout", ["C", "channels_last"])
def test_same_bits_past_the_cache(layout, threads):
    x, g = (LAYOUTS[layout](normal((16, 36, 50, 51))) for _ in range(2))
    found = set()
    for isa in table.available()["isas"]:
        for n in (1, 3):
            threads(n)
            with table.using(isa=isa):
                y, mean, rstd = forward(x)
                dx = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)[0]
                found.add((zlib.crc32(y.data.tobytes()), zlib.crc32(dx.data.tobytes())))
    assert len(found) == 1
    assert error(y, reference.forward(x)) < 4e-6
    assert error(dx, reference.backward(g, x)[0]) < 4e-6


def test_accuracy_on_every_instruction_set(isa):
    for shape in SHAPES:
        x, g = normal(shape), normal(shape)
        y, mean, rstd = forward(x)
        assert error(y, reference.forward(x)) < 4e-6
        dx = kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL)[0]
        assert error(dx, reference.backward(g, x)[0]) < 4e-6 * rstd.max()


@pytest.mark.parametrize("layout", ["C", "channels_last", "strided", "reversed", "swapped"])
def test_memory(layout):
    shape = (8, 32, 60, 61)
    x, g = LAYOUTS[layout](normal(shape)), LAYOUTS[layout](normal(shape))
    _, mean, rstd = forward(x)
    allowed = 4 * x.size + 1024 * 32 + 256 * 1024
    for call in (
        lambda: forward(x),
        lambda: kernels.backward(g, x, None, None, mean, rstd, True, 1, ALL),
    ):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= allowed


def test_small_stacks():
    script = Path(__file__).with_name("batch_norm_stack.py")
    run = subprocess.run(
        [sys.executable, "-P", script, "64"],
        capture_output=True,
        env={**os.environ, "OMP_STACKSIZE": "64k"},
        timeout=600,
    )
    assert run.stdout.decode().endswith("done\n"), run.stderr.decode()


def test_public_function_is_the_kernel():
    x = normal((8, 16))
    mean, var = np.zeros(16, "f4"), np.ones(16, "f4")
    y = lucid.nn.functional.batch_norm(x, mean, var, training=True)
    np.testing.assert_array_equal(y, forward(x)[0])
    assert mean.any()
