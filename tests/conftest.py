"""Fixtures: devices, every provider and instruction set at hand, and thread counts.

A test that makes its operands by `tensor`, `leaf` or `array` runs on each device. One about NumPy's
own, its memory (layouts, views, byte order), kinds of arrays or promotion, calls `lucid.tensor`.
"""

import functools

import pytest

import lucid
from lucid._kernels import provider as table

collect_ignore = ["typing_checks.py"]  # for mypy; it calls functions wrongly on purpose


def kernels():
    """Provider and instruction set of each test of kernels.

    The simd provider runs on every set, the others on the best; on the rest, where they differ in
    few entries, among the slow tests.
    """
    known = table.available()
    for provider in ["simd", *(p for p in known["providers"] if p != "simd")]:
        for isa in known["isas"]:
            slow = provider != "simd" and isa != known["isas"][0]
            yield pytest.param(
                (provider, isa), id=f"{provider}-{isa}", marks=[pytest.mark.slow] if slow else []
            )


@pytest.fixture(params=kernels())
def isa(request):
    """Run the test once with each provider and instruction set forced."""
    provider, isa = request.param
    with table.using(provider, isa):
        yield isa


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
def tensor(device):
    """`lucid.tensor` on each device."""
    return functools.partial(lucid.tensor, device=device)


@pytest.fixture
def leaf(tensor):
    """`lucid.tensor` on each device, of what requires grad."""
    return functools.partial(tensor, requires_grad=True)


@pytest.fixture
def array(tensor):
    """Arrays of each device, ndarrays or MLX's, from NumPy's."""
    return lambda *args, **options: tensor(*args, **options).data


@pytest.fixture
def threads():
    """Set the number of threads in a test; restored afterwards."""
    before = lucid.get_num_threads()
    yield lucid.set_num_threads
    lucid.set_num_threads(before)
