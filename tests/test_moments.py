"""`lucid.Moments`: blocks merge to what the whole gives."""

import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import lucid
from lucid import Moments

rng = np.random.default_rng(0)


def exact(values):
    """Count, mean and M2 in rational arithmetic."""
    values = [Fraction(float(v)) for v in values]
    mean = sum(values) / len(values)
    return len(values), float(mean), float(sum((v - mean) ** 2 for v in values))


def rounding(count, offset):
    """Bound of M2's error from block means of size `offset` rounded to float64, at spread 1."""
    return 8 * count * offset * 2**-53


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    offset=st.sampled_from([0.0, 1e3, 1e6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_merge_of_blocks(sizes, offset, seed):
    blocks = [np.random.default_rng(seed).normal(offset, 1, size=n) for n in sizes]
    total = functools.reduce(Moments.merge, map(Moments.of, blocks), Moments())
    values = np.concatenate(blocks)
    if not values.size:
        assert total.count == 0
        return
    count, mean, m2 = exact(values)
    assert total.count == count
    np.testing.assert_allclose(total.mean, mean, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(total.M2, m2, rtol=1e-13, atol=rounding(count, offset))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
def test_axis(axis):
    x = rng.normal(3, 2, size=(4, 5, 6))
    m = Moments.of(x, axis=axis)
    np.testing.assert_allclose(m.mean, x.mean(axis=axis))
    for correction in (0, 1, 1.5):
        np.testing.assert_allclose(m.var(correction), x.var(axis=axis, ddof=correction))
        np.testing.assert_allclose(m.std(correction), x.std(axis=axis, ddof=correction))
    assert m.count * np.size(m.mean) == x.size


def test_empty_is_neutral():
    some = Moments.of([1.0, 2.0, 4.0])
    assert some.merge(Moments()) is some
    assert Moments().merge(some) is some
    assert Moments.of(np.empty((0, 3)), axis=0).merge(Moments()).count == 0
    assert Moments.of(np.empty((0, 3)), axis=0).mean.shape == (3,)
    assert np.isnan(Moments().var())


def test_variance_needs_freedom():
    one = Moments.of([3.0])
    assert one.var() == 0
    assert np.isnan(one.var(correction=1))
    assert np.isnan(Moments.of(np.ones((1, 2)), axis=0).std(correction=1)).all()


def test_float32_at_an_offset():
    """Block means are not rounded to float32: at 1e6 that would be an error of 0.03 each."""
    x = rng.normal(1e6, 1, size=(4096,)).astype("f4")
    total = functools.reduce(Moments.merge, map(Moments.of, np.split(x, 16)))
    count, mean, m2 = exact(x)
    np.testing.assert_allclose(total.mean, mean, rtol=1e-15)
    np.testing.assert_allclose(total.M2, m2, rtol=1e-13, atol=rounding(count, 1e6))


def test_memmap_block_by_block(tmp_path):
    table = np.memmap(tmp_path / "x", "f4", "w+", shape=(1000, 3))
    table[...] = rng.normal(5, 2, size=table.shape)
    blocks = (Moments.of(table[i : i + 64], axis=0) for i in range(0, 1000, 64))
    total = functools.reduce(Moments.merge, blocks)
    assert type(total.mean) is np.ndarray
    np.testing.assert_allclose(total.var(), table.astype("f8").var(axis=0), rtol=1e-13)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"Moments.merge: .*\(2,\) and \(3,\)"):
        Moments.of(np.ones((4, 2)), axis=0).merge(Moments.of(np.ones((4, 3)), axis=0))


def test_is_frozen():
    with pytest.raises(AttributeError):
        lucid.Moments().count = 3


def test_of_refuses_what_it_would_get_wrong():
    for x, kind in (
        (np.ma.array([1.0, 2, 100], mask=[0, 0, 1]), "MaskedArray"),
        (np.array([1j]), "complex128"),
        (np.array([1], "m8[s]"), "timedelta64"),
    ):
        with pytest.raises(TypeError, match=rf"Moments.of: x must .* got .*{kind}"):
            lucid.Moments.of(x)
    with pytest.raises(np.exceptions.AxisError):
        lucid.Moments.of(np.ones((2, 2)), axis=2)
    with pytest.raises(TypeError):
        lucid.Moments.of(np.ones((2, 2)), axis=1.0)
    with pytest.raises(TypeError, match=r"Moments.merge: other must be Moments, got int"):
        lucid.Moments().merge(3)


@pytest.mark.parametrize(("offset", "bound"), [(0, 1e-13), (1e6, 1e-11), (1.7e9, 1e-7)])
def test_many_merges(offset, bound):
    """What docs/statistics.rst says that 20,000 roundings cost."""
    x = offset + np.random.default_rng(0).normal(size=(20_000, 8))
    total = functools.reduce(Moments.merge, map(Moments.of, x), Moments())
    count, mean, m2 = exact(x.ravel())
    assert total.count == count
    assert abs(total.mean - mean) <= 1e-13 * max(offset, 1)
    assert abs(total.M2 / m2 - 1) <= bound
