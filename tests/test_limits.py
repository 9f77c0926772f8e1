"""Where the system gives little: threads that cannot be created, forks, small stacks."""

import os
import subprocess
import sys
import textwrap

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its threads")


def run(script, **environment):
    """The output of a script, which must end well: what fails here ends the process."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# Large results over every schedule of the tasks, and the same from one thread.
CALLS = """
import os
import numpy as np
import numpy.testing  # before a script becomes another user
import lucid
import lucid.nn.functional as F

rng = np.random.default_rng(0)
x = rng.standard_normal((16, 24, 64, 64)).astype(np.float32)
ones = np.ones(24, np.float32)

def calls():
    yield lucid.mean(x)
    yield from lucid.mean_var(x, axis=(0, 2, 3))
    yield lucid.var(x[:, ::2], axis=0)
    yield lucid.mean(x[..., ::2].astype(np.float16), axis=-1)
    yield F.batch_norm(x, None, None, ones, ones, training=True)

def threads():
    return len(os.listdir("/proc/self/task"))

def check(expected):
    for value, right in zip(calls(), expected, strict=True):
        np.testing.assert_array_equal(value, right)

usable = lucid.get_num_threads()
lucid.set_num_threads(1)
expected = list(calls())
lucid.set_num_threads(4)
"""


@linux
@pytest.mark.parametrize("resource", ["AS", "NPROC"])
def test_a_thread_that_cannot_be_created(resource):
    limit = {
        # Less than the stack of a thread.
        "AS": """
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            limit = used + (384 << 10)
        """,
        "NPROC": """
            if os.getuid() == 0:
                os.setuid(65534)  # root may have any number
            limit = 0
        """,
    }[resource]
    script = f"""
        import resource
        before = threads()
        {textwrap.indent(textwrap.dedent(limit), " " * 8).strip()}
        hard = resource.getrlimit(resource.RLIMIT_{resource})[1]
        resource.setrlimit(resource.RLIMIT_{resource}, (limit, hard))
        values = [lucid.mean(x), *lucid.mean_var(x, axis=(0, 2, 3))]
        made = threads() - before
        resource.setrlimit(resource.RLIMIT_{resource}, (hard, hard))
        for value, right in zip(values, expected):
            np.testing.assert_array_equal(value, right)
        print(made)
        check(expected)
    """
    assert run(CALLS + textwrap.dedent(script)) == "0\n"


@linux
def test_workers_are_as_many_as_the_limit_however_many_call():
    script = """
        import threading
        before = threads()
        callers = [threading.Thread(target=check, args=(expected,)) for _ in range(4)]
        for t in callers:
            t.start()
        for t in callers:
            t.join()
        check(expected)
        print(threads() - before == min(4, usable) - 1)
    """
    assert run(CALLS + textwrap.dedent(script)) == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_has_workers_of_its_own():
    script = """
        import sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        check(expected)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            check(expected)
            if sys.platform == "linux":
                assert threads() == lucid.get_num_threads() == min(4, usable)
            grandchild = os.fork()
            if grandchild:
                assert os.waitpid(grandchild, 0)[1] == 0
            check(expected)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        check(expected)
    """
    run(CALLS + textwrap.dedent(script))


def test_forks_and_exit_while_other_threads_call():
    script = """
        import threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        def forever():
            while True:
                for _ in calls():
                    pass
        for _ in range(3):
            threading.Thread(target=forever, daemon=True).start()
        for _ in range(10 if hasattr(os, "fork") else 0):
            child = os.fork()
            if child == 0:
                check(expected)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """
    run(CALLS + textwrap.dedent(script))


@pytest.mark.parametrize("size", ["16k", "64k"])
def test_the_environments_stack_size_does_not_matter(size):
    run(CALLS + "check(expected)\n", OMP_STACKSIZE=size)


def test_threads_are_those_of_the_pool_alone():
    pytest.importorskip("threadpoolctl")
    script = """
        import threadpoolctl
        if any(p["user_api"] == "openmp" for p in threadpoolctl.threadpool_info()):
            with threadpoolctl.threadpool_limits(1, user_api="openmp"):
                before = threads()
                check(expected)
                assert threads() == before
    """
    if sys.platform == "linux":
        run(CALLS + textwrap.dedent(script))


# What reads small stacks: every kind of loop that the kernels run, over layouts and types.
STACK = """
import sys, threading
import numpy as np
import lucid

def arrays(dtype):
    rng = np.random.default_rng(0)
    for shape in [(8, 16), (300, 300), (5000, 3), (3, 5000), (40, 3, 50), (2,) * 12, (70000, 2)]:
        a = (rng.standard_normal(shape) * 40 + 50).astype(dtype)
        yield a
        yield a[..., ::-1]
        yield np.repeat(a, 2, axis=-1)[..., ::2]
        yield a.T
        yield a.astype(a.dtype.newbyteorder())

def results(dtype):
    for a in arrays(dtype):
        for axis in (None, 0, -1):
            yield lucid.mean(a, axis=axis)
            yield lucid.var(a, axis=axis)
            yield lucid.std(a, axis=axis, ddof=1)
            yield lucid.mean_var(a, axis=axis)

def check(dtype, expected):
    for value, right in zip(results(dtype), expected, strict=True):
        assert np.array_equal(value, right)
    passed.append(dtype)

passed = []
kilobytes, *dtypes = sys.argv[1:]
threading.stack_size(int(kilobytes) << 10)
for dtype in dtypes:
    expected = list(results(dtype))
    check(dtype, expected)
    t = threading.Thread(target=check, args=(dtype, expected))
    t.start()
    t.join()
assert passed == [dtype for dtype in dtypes for _ in "in"]
"""


def least_stack():
    """Kilobytes of the smallest stack in which NumPy adds a few numbers."""
    script = """
        import sys, threading
        import numpy as np
        a = np.ones((8, 16), np.float32)
        np.add.reduce(a)
        threading.stack_size(int(sys.argv[1]) << 10)
        t = threading.Thread(target=lambda: np.add.reduce(a, axis=0))
        t.start()
        t.join()
    """
    for kilobytes in (32, 48, 64, 96, 128, 192, 256):
        command = [sys.executable, "-P", "-c", textwrap.dedent(script), str(kilobytes)]
        if subprocess.run(command, capture_output=True, timeout=120).returncode == 0:
            return kilobytes
    raise AssertionError("no small stack will do")


@linux
@pytest.mark.parametrize(
    "dtypes", [("f4", "f8"), ("f2", "i8"), ("i2", "i4"), ("u1", "u8")], ids=" ".join
)
def test_small_stacks(dtypes):
    kilobytes = least_stack() + 32  # what a task of the kernels may take
    command = [sys.executable, "-P", "-c", STACK, str(kilobytes), *dtypes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
