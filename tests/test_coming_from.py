"""Each line of docs/coming_from.rst: what stands side by side gives the same, what is absent is."""

import re
from pathlib import Path

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid import nn

TEXT = (Path(__file__).parents[1] / "docs" / "coming_from.rst").read_text("utf-8")
NUMPY, PYTORCH, AUTOGRAD = re.split(r"\nFrom \w+\n-+\n", TEXT)[1:]
A = np.array([[0.5, 1.0, 2.5], [3.0, -1.0, 0.25]])


def rows(section):
    found = re.findall(r"   \* - ``(.+)``\n     - ``(.+)``\n", section)
    assert len(found) == section.count("   * - ") - 1  # the head
    return found


def spaces():
    """What the lines may name: `a`, `t`, `f` and the libraries."""
    leaf = lucid.tensor(A, requires_grad=True)
    common = {"np": np, "a": A.copy(), "f": lambda x: np.sum(np.exp(x))}
    return common, common | {"lucid": lucid, "F": F, "nn": nn, "t": leaf}


def arrays(value):
    """Arrays of what a line gives, whatever the library."""
    if isinstance(value, (tuple, list)):
        return [x for v in value for x in arrays(v)]
    return [value.detach().numpy() if hasattr(value, "detach") else value]


def assert_same(ours, theirs):
    ours, theirs = arrays(ours), arrays(theirs)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, (str, type({}.keys()))):
            assert list(one) == list(other)
        else:
            one, other = np.asarray(one), np.asarray(other)
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("theirs", "ours"), rows(NUMPY))
def test_numpy(theirs, ours):
    common, space = spaces()
    assert_same(eval(ours, space), eval(theirs, common))


@pytest.mark.parametrize(("theirs", "ours"), rows(PYTORCH))
def test_pytorch(theirs, ours):
    torch = pytest.importorskip("torch")
    common, space = spaces()
    leaf = torch.tensor(A, requires_grad=True)
    names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "t": leaf}
    assert_same(eval(ours, space), eval(theirs, common | names))


@pytest.mark.parametrize("ours", [ours for _, ours in rows(PYTORCH) + rows(AUTOGRAD)])
def test_ours_runs(ours):
    exec(ours, spaces()[1])


def test_autograd():
    """Its package may not be installed: the derivatives of its lines are known."""
    expected = {
        "grad(f)(a)": np.exp(A),
        "value_and_grad(f)(a)": (np.exp(A).sum(), np.exp(A)),
        "grad(lambda x, y: f(x * y), 1)(a, a)": A * np.exp(A * A),
        "elementwise_grad(np.exp)(a)": np.exp(A),
        "hessian_vector_product(f)(a, a)": np.exp(A) * A,
    }
    lines = dict(rows(AUTOGRAD))
    assert expected.keys() <= lines.keys()
    for theirs, value in expected.items():
        assert_same(eval(lines[theirs], spaces()[1]), value)


def absent():
    _, _, listed = PYTORCH.partition("\nNot there, ")
    assert listed
    return re.findall(r"``([^`]+)``", listed)


@pytest.mark.parametrize("name", absent())
def test_what_is_absent_is(name):
    with pytest.raises(AttributeError):
        eval(name, spaces()[1])


def test_an_absent_rule_raises_and_says_what_to_do():
    _, space = spaces()
    for line in ("np.linalg.inv(t)", "np.fft.fft(t)"):
        with pytest.raises(TypeError, match="there is no rule for Tensors; write one"):
            eval(line, space)
    with pytest.raises(TypeError):
        exec("t[0] = 1", space)


def test_what_the_test_sees():
    assert min(map(len, map(rows, (NUMPY, PYTORCH, AUTOGRAD)))) >= 8
    assert len(absent()) >= 10
