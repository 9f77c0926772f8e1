"""What the array calls check themselves, whoever calls: C trusts shapes and writability."""

import os
import subprocess
import sys

import numpy as np
import pytest

import lucid
from lucid._kernels import batch_norm, provider
from lucid._kernels.reduce import reduce

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 3, 5))
C, M, V = np.ones(3), np.ones(3), np.ones(3)


@pytest.mark.parametrize("axes", [(3,), (-1,), (0, 0), (64,), (2, 1, 2)])
def test_axes(axes):
    with pytest.raises(ValueError, match=r"reduce: axes must be different axes of 3, got \("):
        reduce(X, axes, False)


@pytest.mark.parametrize("dtype", ["c16", "O", "M8[s]", "g"])
def test_types(dtype):
    x = np.zeros((4, 3), dtype)
    with pytest.raises(TypeError, match="no kernel takes"):
        reduce(x, (0,), False)
    with pytest.raises(TypeError, match="no kernel takes"):
        batch_norm.forward(x, None, None, None, None, 0.1, 1e-5, 1)


def test_default_type():
    assert reduce(np.ones(3, np.float16), (0,), True)[0].dtype == np.float16
    assert reduce(np.ones(3, np.int8), (0,), True)[0].dtype == np.float64


def forward(x=X, weight=C, bias=C, mean=M, var=V, axis=1):
    return batch_norm.forward(x, weight, bias, mean, var, 0.1, 1e-5, axis)


def inference(x=X, weight=C, bias=C, mean=M, var=V, axis=1):
    return batch_norm.inference(x, weight, bias, mean, var, 1e-5, axis)


def backward(dy=X, x=X, weight=C, bias=C, mean=C, rstd=C, axis=1):
    return batch_norm.backward(dy, x, weight, bias, mean, rstd, True, axis, (True, True, True))


def double_backward(v=X, w=C, u=C, dy=X, x=X, weight=C, mean=C, rstd=C, axis=1):
    return batch_norm.double_backward(
        v, w, u, dy, x, weight, mean, rstd, True, axis, (True, True, True)
    )


VECTORS = [
    *((f, n) for f in (forward, inference) for n in ("weight", "bias", "mean", "var")),
    *((backward, n) for n in ("weight", "mean", "rstd")),
    *((double_backward, n) for n in ("w", "u", "weight", "mean", "rstd")),
]


@pytest.mark.parametrize("shape", [(2,), (4,), (), (3, 1), (1, 3)])
@pytest.mark.parametrize(("call", "name"), VECTORS)
def test_vectors_have_an_element_per_channel(call, name, shape):
    with pytest.raises(ValueError, match=rf"{name} must have shape \(3,\), got \("):
        call(**{name: np.ones(shape)})


ARRAYS = [(backward, "dy"), (double_backward, "v"), (double_backward, "dy")]


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 4), (4, 3, 5, 1), (3, 4, 5), (0, 3, 5)])
@pytest.mark.parametrize(("call", "name"), ARRAYS)
def test_arrays_have_the_common_shape(call, name, shape):
    with pytest.raises(ValueError, match=rf"{name} must have the shape \(4, 3, 5\)"):
        call(**{name: np.ones(shape)})


@pytest.mark.parametrize("axis", [-1, 3, 64])
@pytest.mark.parametrize("call", [forward, inference, backward, double_backward])
def test_channel_axis(call, axis):
    with pytest.raises(ValueError, match=f"channel_axis must be an axis of 3, got {axis}"):
        call(axis=axis)


class Sub(np.ndarray):
    pass


@pytest.mark.parametrize("name", ["mean", "var"])
def test_what_is_written_is_plain_and_writable(name):
    fixed = np.ones(3)
    fixed.flags.writeable = False
    for value in (fixed, np.ones(3).view(Sub), fixed.view(Sub)):
        with pytest.raises(ValueError, match=f"running_{name} must be a plain writable array"):
            forward(**{name: value})
        assert (value == 1).all()
        inference(**{name: value})  # which only reads


def test_a_buffer_of_another_kind_of_memory_is_refused_and_kept(tmp_path):
    """Read-only maps are what process pools hand to their workers."""
    path = tmp_path / "buffer"
    np.ones(3, np.float32).tofile(path)
    x = X.astype(np.float32)
    for mode in ("r", "c"):
        mapped = np.memmap(path, np.float32, mode, shape=3)
        var = np.ones(3, np.float32)
        if mode == "r":
            with pytest.raises(ValueError, match="running_mean must be writable"):
                lucid.nn.functional.batch_norm(x, mapped, var, training=True)
            assert (mapped == 1).all()
            assert (var == 1).all()
        else:
            lucid.nn.functional.batch_norm(x, mapped, var, training=True)
            np.testing.assert_allclose(mapped, 0.9 + 0.1 * x.mean((0, 2)), rtol=1e-6)
    assert (np.fromfile(path, np.float32) == 1).all()


def test_a_module_with_a_mapped_buffer(tmp_path):
    path = tmp_path / "buffer"
    np.zeros(3, np.float32).tofile(path)
    code = f"""if True:
        import numpy as np
        from lucid import nn
        bn = nn.BatchNorm1d(3)
        bn.running_mean.data = np.memmap({str(path)!r}, np.float32, "r", shape=3)
        try:
            bn(np.ones((4, 3), np.float32) * 7)
        except ValueError as error:
            print(error)
        print(bn.running_var.data, bn.num_batches_tracked.item())
    """
    result = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "batch_norm: running_mean must be" in result.stdout
    assert "writable" in result.stdout
    assert "[1. 1. 1.] 0" in result.stdout


@pytest.mark.parametrize("value", ["²", "٣", "many", "-1", "0", "", "2,3", " 2 "])
def test_any_number_of_threads_in_the_environment(value):
    code = "import lucid; print(lucid.get_num_threads())"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": value},
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 1


def test_the_table_says_what_it_takes():
    assert provider.takes(np.dtype("f4"))
    assert not provider.takes(np.dtype("c8"))
