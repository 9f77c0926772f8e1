"""Fixtures: every instruction set this processor runs, and thread counts."""

import pytest

import lucid
from lucid._kernels import _vec


@pytest.fixture(params=_vec.available()["isas"])
def isa(request):
    """Run the test once with each instruction set forced."""
    with _vec.using(isa=request.param):
        yield request.param


@pytest.fixture
def threads():
    """Set the number of threads in a test; restored afterwards."""
    before = lucid.get_num_threads()
    yield lucid.set_num_threads
    lucid.set_num_threads(before)
