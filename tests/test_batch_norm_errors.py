"""`F.batch_norm` on bad input: the error names what is wrong, and nothing has changed."""

import copy
import subprocess
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import lucid
import lucid.nn.functional as F


def call(**changes):
    """Call with good arguments but for `changes`; all must be as before, also if it raises."""
    arguments = {
        "input": np.arange(24.0).reshape(8, 3),
        "running_mean": np.zeros(3),
        "running_var": np.ones(3),
        "weight": np.ones(3),
        "bias": np.zeros(3),
        "training": True,
    } | changes
    before = copy.deepcopy(arguments)
    try:
        F.batch_norm(**arguments)
    finally:
        for name, value in arguments.items():
            if isinstance(value, lucid.Tensor):
                value, before[name] = value.data, before[name].data
            np.testing.assert_array_equal(value, before[name], err_msg=name)


def frozen(value):
    value.flags.writeable = False
    return value


class Described:
    """An array to some, but none that can be updated in place."""

    def __init__(self, values):
        self.values, self.dtype, self.shape = values, values.dtype, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


ONE, FIVE = np.ones(3), np.ones(5)
BAD = {
    "rank 1": ({"input": np.ones(3)}, ValueError, r"input must have 2 to 5 axes.* got .*\(3,\)"),
    "rank 0": ({"input": np.float64(1)}, ValueError, "input must have 2 to 5 axes"),
    "no input": ({"input": None}, ValueError, "input must have 2 to 5 axes"),
    "rank 6": ({"input": np.ones((2, 3, 1, 1, 1, 1))}, ValueError, "input must have 2 to 5 axes"),
    "one value": (
        {"input": np.ones((1, 3))},
        ValueError,
        r"more than one value per channel.* got .*\(1, 3\)",
    ),
    "one value, spatial": ({"input": np.ones((1, 3, 1, 1))}, ValueError, "more than one value"),
    "weight shape": (
        {"weight": np.ones(4)},
        ValueError,
        r"weight must have shape \(3,\) to match axis 1 of input, got \(4,\)",
    ),
    "weight scalar": ({"weight": np.float64(1)}, ValueError, r"weight must have shape \(3,\)"),
    "bias rank": ({"bias": np.ones((3, 1))}, ValueError, r"bias must .* got \(3, 1\)"),
    "mean shape": ({"running_mean": np.ones(2)}, ValueError, r"running_mean must .* got \(2,\)"),
    "var shape": ({"running_var": np.ones(5)}, ValueError, r"running_var must .* got \(5,\)"),
    "read-only mean": (
        {"running_mean": frozen(np.zeros(3))},
        ValueError,
        "running_mean must be writable",
    ),
    "read-only var": (
        {"running_var": frozen(np.ones(3))},
        ValueError,
        "running_var must be writable",
    ),
    "mean only": ({"running_var": None}, ValueError, "running_mean and running_var"),
    "var only": ({"running_mean": None}, ValueError, "running_mean and running_var"),
    "integer mean": (
        {"running_mean": np.zeros(3, int)},
        TypeError,
        "running_mean must have a floating dtype, got int64",
    ),
    "list mean": ({"running_mean": [0.0, 0, 0]}, TypeError, "running_mean must be an array"),
    "something with a dtype": (
        {"running_var": Described(np.ones(3))},
        TypeError,
        "running_var must be an array, got Described",
    ),
    "scalar mean": ({"running_mean": np.float64(0)}, TypeError, "must be an array, got float64"),
    "one buffer": ({"running_mean": ONE, "running_var": ONE}, ValueError, "two arrays"),
    "overlapping buffers": (
        {"running_mean": FIVE[:3], "running_var": FIVE[2:]},
        ValueError,
        "running_mean and running_var must be two arrays, got overlapping memory",
    ),
    "buffers in opposite order": (
        {"running_mean": FIVE[:3], "running_var": FIVE[4:1:-1]},
        ValueError,
        "two arrays",
    ),
    "one number for all": (
        {"running_var": as_strided(FIVE, (3,), (0,))},
        ValueError,
        r"running_var must have an element per channel, got strides \(0,\)",
    ),
    "elements that overlap": (
        {"running_mean": as_strided(FIVE, (3,), (-4,))},
        ValueError,
        r"running_mean must have an element per channel, got strides \(-4,\)",
    ),
    "complex weight": ({"weight": np.ones(3, complex)}, TypeError, "weight .*complex128"),
    "text bias": ({"bias": np.array(list("abc"))}, TypeError, "bias .*<U1"),
    "complex input": ({"input": np.ones((8, 3), complex)}, TypeError, "input .*complex128"),
    "text input": ({"input": np.full((8, 3), "a")}, TypeError, "input .*<U1"),
    "list of Tensors": (
        {"weight": [lucid.tensor(1.0)] * 3},
        TypeError,
        "weight must be an array, got a list of Tensors; use np.stack",
    ),
    "object input": ({"input": np.full((8, 3), None)}, TypeError, "input .*object"),
    "momentum None": ({"momentum": None}, ValueError, "momentum must be a finite .* got None"),
    "momentum nan": ({"momentum": np.nan}, ValueError, "momentum must be a finite .* got nan"),
    "momentum inf": ({"momentum": -np.inf}, ValueError, "momentum must be a finite .* got -inf"),
    "momentum beyond floats": ({"momentum": -(10**400)}, ValueError, "momentum must be a finite"),
    "momentum complex": ({"momentum": np.complex128(1)}, TypeError, "momentum must be a finite"),
    "momentum text": ({"momentum": "0.1"}, TypeError, "momentum must be a finite .* got '0.1'"),
    "eps negative": ({"eps": -1e-5}, ValueError, "eps must be .* got -1e-05"),
    "eps nan": ({"eps": np.nan}, ValueError, "eps must be .* got nan"),
    "eps inf": ({"eps": np.inf}, ValueError, "eps must be .* got inf"),
    "eps beyond floats": ({"eps": 10**400}, ValueError, "eps must be finite and not negative"),
    "eps None": ({"eps": None}, ValueError, "eps must be .* got None"),
    "axis 2": ({"channel_axis": 2}, np.exceptions.AxisError, "channel_axis.* 2 is out of bounds"),
    "axis -3": ({"channel_axis": -3}, np.exceptions.AxisError, "-3 is out of bounds"),
    "axis real": ({"channel_axis": 1.0}, TypeError, "channel_axis must be an integer, got 1.0"),
    "no buffers": (
        {"training": False, "running_mean": None, "running_var": None},
        ValueError,
        "running_mean and running_var",
    ),
    "eval, mean shape": (
        {"training": False, "running_mean": np.ones(2)},
        ValueError,
        r"running_mean must .* got \(2,\)",
    ),
    "eval, eps": ({"training": False, "eps": -1.0}, ValueError, "eps must be .* got -1.0"),
}


@pytest.mark.parametrize("name", BAD)
def test_error(name):
    changes, error, match = BAD[name]
    with pytest.raises(error, match=f"^batch_norm: .*{match}"):
        call(**changes)


@pytest.mark.parametrize("name", [n for n, (changes, *_) in BAD.items() if "input" not in changes])
def test_error_with_tensors_leaves_no_graph(name):
    changes, error, match = BAD[name]
    x = lucid.tensor(np.arange(24.0).reshape(8, 3), requires_grad=True)
    with pytest.raises(error, match=f"^batch_norm: .*{match}"):
        call(**changes | {"input": x})
    assert x.grad_fn is None
    assert x.is_leaf


def test_one_buffer_is_read_in_evaluation():
    call(training=False, running_mean=ONE, running_var=ONE)
    call(training=False, running_var=as_strided(FIVE, (3,), (0,)))


def test_read_only_buffers_are_read_in_evaluation():
    call(training=False, running_mean=frozen(np.zeros(3)), running_var=frozen(np.ones(3)))


@pytest.mark.parametrize("name", ["weight", "bias", "running_mean", "running_var"])
def test_mixed_devices(name):
    mx = pytest.importorskip("mlx.core")
    with pytest.raises(TypeError, match=f"batch_norm: {name} must be on the device of input, cpu"):
        call(**{name: mx.ones(3)})


CRASHES = """
import sys
import numpy as np
import lucid
from lucid import nn
import lucid.nn.functional as F

path = sys.argv[1]
np.ones(4, np.float32).tofile(path)
x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


class Plain(np.ndarray):
    pass


def read_only_subclass():
    array = np.ones(4, np.float32).view(Plain)
    array.flags.writeable = False
    return array


def refused(call, error):
    try:
        call()
    except error as e:
        assert "batch_norm: running_" in str(e), e
    else:
        raise AssertionError("written to")


for make in (lambda: np.memmap(path, np.float32, "r"), read_only_subclass):
    for name in ("running_mean", "running_var"):
        for functional in (False, True):
            bn, array = nn.BatchNorm1d(4), make()
            getattr(bn, name).data = array
            assert type(getattr(bn, name).data) is np.ndarray
            before = {k: v.copy() for k, v in bn.state_dict().items()}
            if functional:
                call = lambda: F.batch_norm(x, bn.running_mean, bn.running_var, training=True)
            else:
                call = lambda: bn(lucid.tensor(x, requires_grad=True))
            refused(call, ValueError)
            for k, v in bn.state_dict().items():
                np.testing.assert_array_equal(v, before[k])
            assert bn.eval()(x).shape == x.shape  # reading is allowed
            buffers = {"running_mean": np.zeros(4), "running_var": np.ones(4), name: array}
            refused(lambda: F.batch_norm(x, **buffers, training=True), (ValueError, TypeError))
            np.testing.assert_array_equal(np.asarray(array), np.ones(4))
# As weight and bias, which are read, a memmap is an array.
mapped = np.memmap(path, np.float32, "r")
y = F.batch_norm(x, None, None, mapped, mapped, training=True)
p = nn.Parameter(np.zeros(4, np.float32))
p.data = mapped
z = F.batch_norm(lucid.tensor(x), None, None, p, p, training=True)
z.sum().backward()
assert type(p.grad.data) is np.ndarray and p.grad.data.flags.writeable
np.testing.assert_array_equal(y, z.data)
print("alive")
"""


def test_read_only_memory_is_not_written_to(tmp_path):
    """In a process of its own, since it would end in a segmentation fault."""
    run = subprocess.run(
        [sys.executable, "-P", "-c", CRASHES, tmp_path / "m"], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr
