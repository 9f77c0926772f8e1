"""Fixtures: devices, every instruction set this processor runs, and thread counts."""

import pytest

import lucid
from lucid._kernels import _vec


@pytest.fixture(params=_vec.available()["isas"])
def isa(request):
    """Run the test once with each instruction set forced."""
    with _vec.using(isa=request.param):
        yield request.param


@pytest.fixture
def mx():
    """MLX, where it is installed."""
    return pytest.importorskip("mlx.core")


@pytest.fixture(params=["cpu", "gpu"])
def device(request):
    """Run the test on each device; on MLX's CPU device for "gpu", since others have no float64."""
    if request.param == "gpu":
        mx = request.getfixturevalue("mx")
        before = mx.default_device()
        mx.set_default_device(mx.cpu)
        yield request.param
        mx.set_default_device(before)
    else:
        yield request.param


@pytest.fixture
def threads():
    """Set the number of threads in a test; restored afterwards."""
    before = lucid.get_num_threads()
    yield lucid.set_num_threads
    lucid.set_num_threads(before)
