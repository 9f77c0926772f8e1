"""The memory of large results: ordinary arrays, bounded, safe with threads, forks and at exit."""

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F

LARGE = (64, 16, 64, 64)  # 16 MiB of float32


@pytest.fixture(autouse=True)
def _clean_cache():
    before = lucid.cache_info()["limit"]
    lucid.clear_cache()
    yield
    lucid.set_cache_limit(before)
    lucid.clear_cache()


def large_result(scale=1.0):
    x = np.full(LARGE, scale, np.float32)
    return F.batch_norm(x, np.zeros(16), np.ones(16), eps=0.0)


def address(a):
    return a.__array_interface__["data"][0]


def test_results_are_ordinary_arrays():
    y = large_result(3)
    assert type(y) is np.ndarray
    assert y.base is None
    assert y.flags.owndata
    assert y.flags.writeable
    assert address(y) % 64 == 0
    np.testing.assert_array_equal(y, 3)
    y.resize((2 * y.size,), refcheck=False)
    np.testing.assert_array_equal(y[: y.size // 2], 3)
    np.testing.assert_array_equal(y[y.size // 2 :], 0)


def test_a_steady_loop_gets_the_same_memory():
    y = large_result()
    first = address(y)
    for i in range(5):
        del y
        y = large_result(i)
        assert address(y) == first
        np.testing.assert_array_equal(y, i)


def test_live_results_never_share_memory():
    live = [large_result(i) for i in range(5)]
    del live[2]
    live.append(large_result(7))
    for a, value in zip(live, (0, 1, 3, 4, 7), strict=True):
        np.testing.assert_array_equal(a, value)


def test_limit_and_clear():
    lucid.set_cache_limit(40 << 20)
    live = [large_result() for _ in range(5)]
    assert lucid.cache_info()["bytes"] == 0
    live.clear()
    assert 16 << 20 <= lucid.cache_info()["bytes"] <= 40 << 20
    lucid.set_cache_limit(20 << 20)
    assert lucid.cache_info()["bytes"] <= 20 << 20
    lucid.clear_cache()
    assert lucid.cache_info() == {"bytes": 0, "limit": 20 << 20}
    lucid.set_cache_limit(0)
    del live
    large_result()
    assert lucid.cache_info()["bytes"] == 0


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_limits(value, error):
    with pytest.raises(error, match="set_cache_limit: n_bytes"):
        lucid.set_cache_limit(value)


def test_small_results_and_numpys_own_arrays_are_left_alone():
    from numpy._core.multiarray import get_handler_name

    small = F.batch_norm(np.ones((8, 4), np.float32), np.zeros(4), np.ones(4))
    large = large_result()
    assert get_handler_name(small) == "default_allocator"
    assert get_handler_name(large) == "lucid"
    assert get_handler_name(np.empty(LARGE)) == "default_allocator"
    assert get_handler_name() == "default_allocator"


def test_tracemalloc_sees_results():
    tracemalloc.start()
    try:
        y = large_result()
        del y
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        y = large_result()
        assert tracemalloc.get_traced_memory()[0] - before >= y.nbytes
        del y
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()


def test_threads():
    errors = []

    def work(value):
        for _ in range(20):
            y = large_result(value)
            if not (y == value).all():
                errors.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def _in_child(queue):
    y = large_result(5)
    queue.put(bool((y == 5).all()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_fork_after_parallel_work():
    kept = large_result(2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(kept, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_threads_use_the_cache():
    script = textwrap.dedent(
        """
        import os, threading, warnings
        import numpy as np
        import lucid.nn.functional as F
        warnings.simplefilter("ignore")
        x = np.ones((32, 16, 32, 32), np.float32)
        stop = False
        def work():
            while not stop:
                F.batch_norm(x, np.zeros(16), np.ones(16))
        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                F.batch_norm(x, np.zeros(16), np.ones(16))
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop = True
        for t in threads:
            t.join()
        print("done")
        """
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "done\n", run.stderr


def test_exit_with_results_alive():
    script = textwrap.dedent(
        """
        import numpy as np
        import lucid.nn.functional as F
        class Holder:
            pass
        a = Holder()
        a.self = a
        a.y = F.batch_norm(np.ones((64, 16, 64, 64), np.float32), np.zeros(16), np.ones(16))
        np.alive = a.y
        """
    )
    run = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (1, 3), 3])
@pytest.mark.parametrize("layout", ["C", "F", "sliced", "swapped", "int"])
def test_a_reduction_needs_no_memory_but_its_result(axis, layout):
    x = np.ones((8, 64, 32, 64), np.float32)
    x = {
        "C": lambda: x,
        "F": lambda: np.asfortranarray(x),
        "sliced": lambda: x[:, ::2, :, ::-3],
        "swapped": lambda: x.astype(">f4"),
        "int": lambda: x.astype(np.int64),
    }[layout]()
    for function in (lucid.mean, lucid.var, lucid.mean_var):
        function(x, axis=axis)
        tracemalloc.start()
        try:
            result = function(x, axis=axis)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        size = sum(r.nbytes for r in (result if isinstance(result, tuple) else (result,)))
        assert peak <= size + (256 << 10)
