"""Grad mode and autocast: nested, per thread and task, as manager and decorator."""

import asyncio
import contextlib
import gc
import signal
import sys
import threading

import numpy as np
import pytest

import lucid
from lucid._tensor import dtype_name
from lucid.amp import cast_inputs
from lucid.autograd import AmpPolicy, Function, OpSchema


@pytest.fixture
def records(leaf):
    """Whether an operation is recorded."""

    def records():
        recorded = (leaf([1.0]) * 2).requires_grad
        assert recorded == lucid.is_grad_enabled()
        return recorded

    return records


def test_nested(records):
    assert records()
    with lucid.no_grad():
        assert not records()
        with lucid.enable_grad():
            assert records()
        assert not records()
    assert records()


def test_restored_after_an_error(records):
    with pytest.raises(ZeroDivisionError), lucid.no_grad():
        raise ZeroDivisionError
    assert records()


def test_one_manager_entered_twice(records):
    off = lucid.no_grad()
    with off:
        with off:
            assert not records()
        assert not records()
    assert records()


def test_decorator(records):
    @lucid.no_grad()
    def inner(depth):
        """Say so."""
        return records() or (depth and inner(depth - 1))

    assert not inner(3)
    assert inner.__doc__ == "Say so."
    assert records()


def test_decorated_generator_is_off_inside_and_restored_at_each_yield(records):
    log = []

    @lucid.no_grad()
    def numbers():
        try:
            while True:
                log.append(records())
                try:
                    log.append((yield records()))
                except KeyError:
                    log.append("caught")
        finally:
            log.append(records())

    generator = numbers()
    assert next(generator) is False
    assert records()
    assert generator.send("sent") is False
    assert generator.throw(KeyError("x")) is False
    assert records()
    generator.close()
    assert log == [False, "sent", False, "caught", False, False]
    assert records()


def test_decorated_generator_returns():
    @lucid.no_grad()
    def numbers():
        yield 1
        return 2

    def outer():
        return (yield from numbers())

    generator = outer()
    assert next(generator) == 1
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == 2


def test_tasks_have_a_mode_each(records):
    seen = {}

    @lucid.no_grad()
    async def off():
        for _ in range(3):
            await asyncio.sleep(0)
            seen.setdefault("off", []).append(records())

    async def on():
        for _ in range(3):
            await asyncio.sleep(0)
            seen.setdefault("on", []).append(records())

    async def main():
        await asyncio.gather(off(), on())

    asyncio.run(main())
    assert seen == {"off": [False] * 3, "on": [True] * 3}


def test_overlapping_calls_restore_their_own_mode(records):
    before_and_after = {}

    @lucid.no_grad()
    async def off(turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not records()

    async def task(name, turns, mode):
        with mode:
            before = records()
            await off(turns)
            before_and_after[name] = before, records()

    async def main():
        await asyncio.gather(task("on", 1, lucid.enable_grad()), task("off", 5, lucid.no_grad()))

    asyncio.run(main())
    assert before_and_after == {"on": (True, True), "off": (False, False)}


def test_threads_have_a_mode_each(tensor, records):
    seen = []
    with lucid.no_grad(), lucid.autocast("float16"):
        thread = threading.Thread(
            target=lambda: seen.append(
                (records(), dtype_name(tensor([1.0], dtype="f2").sum().dtype))
            )
        )
        thread.start()
        thread.join()
    assert seen == [(True, "float16")]


@pytest.mark.parametrize("make", [lucid.no_grad, lambda: lucid.autocast("float16")])
def test_one_switch_shared_by_tasks(make, tensor, records):
    switch, seen = make(), {}

    def mode():
        return records(), dtype_name(tensor([1.0], dtype="f2").sum().dtype) == "float32"

    async def task(name, turns, outer):
        with outer:
            before = mode()
            with switch:
                for _ in range(turns):
                    await asyncio.sleep(0)
            seen[name] = before == mode()

    async def main():
        await asyncio.gather(task("on", 1, lucid.enable_grad()), task("off", 5, lucid.no_grad()))
        return mode()

    before = mode()
    assert asyncio.run(main()) == before == mode()
    assert seen == {"on": True, "off": True}


def test_one_switch_shared_by_threads(records):
    switch, seen = lucid.no_grad(), []
    inside, left = threading.Barrier(2), threading.Event()

    def first():
        with switch:
            inside.wait(10)
        seen.append(records())
        left.set()

    def second():
        with lucid.no_grad():
            with switch:
                inside.wait(10)
                left.wait(10)
            seen.append(records())
        seen.append(records())

    threads = [threading.Thread(target=f) for f in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [True, False, True]


@pytest.mark.parametrize("switch", [lucid.no_grad, lucid.enable_grad])
def test_forgotten_parentheses(switch):
    with pytest.raises(
        TypeError, match=rf"{switch.__name__}: takes no arg.*@{switch.__name__}\(\)"
    ):

        @switch
        def fun():
            pass


def test_backward_under_no_grad_records_nothing(tensor, records):
    x = tensor([2.0], requires_grad=True)
    y = (x * x).sum()
    with lucid.no_grad():
        y.backward()
        assert not lucid.is_grad_enabled()
    assert x.grad.item() == 4.0
    with lucid.no_grad():
        assert not records()


@pytest.fixture
def half(leaf):
    return lambda *values: leaf(values, dtype="float16")


def test_policies_on_the_cpu():
    x = lucid.tensor([1.0, 2.0], requires_grad=True, dtype="float16")
    with lucid.autocast("float16"):
        assert (x * x).dtype == np.float16  # KEEP_INPUT
        assert np.exp(x).dtype == np.float32  # FORCE_FP32
        assert (x @ x).dtype == np.float32  # PROMOTE: the CPU computes in float32
        assert lucid.mean(x).dtype == np.float32
        assert lucid.mean(x.data).dtype == np.float32
        assert lucid.mean(x.astype("f4")).dtype == np.float32
        assert lucid.mean(x.astype("f8")).dtype == np.float64
        assert lucid.mean(np.arange(3)).dtype == np.float64
        with lucid.autocast("float16", enabled=False):
            assert np.exp(x).dtype == np.float16
        assert np.exp(x).dtype == np.float32
    assert np.exp(x).dtype == np.float16


def test_gradient_has_the_dtype_of_its_input(tensor, half):
    x, y = half(1.0, 2.0), tensor([0.5, 0.25], requires_grad=True)
    with lucid.autocast("bfloat16"):
        z = (np.exp(x) @ y.astype("f4")) + (x * y).sum()
        z.backward()
    assert [dtype_name(t.grad.dtype) for t in (x, y)] == ["float16", "float64"]
    expected = np.exp(np.array(x.data, float)) * y.data + y.data
    np.testing.assert_allclose(x.grad.data, expected, rtol=2e-3)


def test_second_order_under_autocast(half):
    x = half(1.0, 2.0)
    with lucid.autocast("float16"):
        (g,) = lucid.grad(np.exp(x).sum(), x, create_graph=True)
        (h,) = lucid.grad(g.sum(), x)
    assert [dtype_name(t.dtype) for t in (g, h)] == ["float16", "float16"]
    np.testing.assert_allclose(h.data, np.exp(x.data), rtol=2e-3)


def test_policy_is_applied_by_apply_alone(array, half):
    seen = []

    class Probe(Function):
        schema_v1 = OpSchema("probe", amp_policy=AmpPolicy.FORCE_FP32)

        @staticmethod
        def forward(ctx, x, y, factor):
            seen.append((dtype_name(x.dtype), dtype_name(y.dtype), type(factor)))
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * 2, None, None

    x = half(1.0)
    with lucid.autocast("float16"):
        Probe.apply(x, x.data, 2).backward(array(np.ones(1)))
    assert seen == [("float32", "float32", int)]
    assert dtype_name(x.grad.dtype) == "float16"


def test_cast_inputs_of_arrays(array):
    array, schema = np.ones(2, np.float16), lucid.ops.schemas()["mean"]
    assert cast_inputs(schema, array)[0] is array
    with lucid.autocast("float16"):
        assert dtype_name(cast_inputs(schema, array, None, np.ones(1))[0].dtype) == "float32"
        assert cast_inputs(schema, None, 3) == (None, 3)


def test_bfloat16(tensor):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = tensor(np.array([1.0, 2.0], ml_dtypes.bfloat16), requires_grad=True)
    with lucid.autocast(ml_dtypes.bfloat16):
        y = np.exp(x)
    assert dtype_name(y.dtype) == "float32"
    y.sum().backward()
    assert dtype_name(x.grad.dtype) == "bfloat16"


@pytest.mark.parametrize("dtype", ["float64", np.int32, "half", None])
def test_dtypes_that_autocast_refuses(dtype):
    with pytest.raises(ValueError, match="autocast: dtype must be one of float16, bfloat16"):
        lucid.autocast(dtype)


class Interrupted(BaseException):
    """Raised where Ctrl-C might be."""


def _in_manager():
    with lucid.no_grad():
        lucid.is_grad_enabled()


def _in_nested_managers():
    with lucid.no_grad(), lucid.autocast("float16"):
        with lucid.enable_grad():
            pass
        lucid.is_grad_enabled()


@lucid.no_grad()
def _decorated():
    return lucid.is_grad_enabled()


@lucid.no_grad()
def _numbers():
    yield 1
    yield 2


def _in_generator():
    for _ in _numbers():
        lucid.is_grad_enabled()


@lucid.no_grad()
async def _coroutine():
    return lucid.is_grad_enabled()


def _in_coroutine():
    with contextlib.suppress(StopIteration):
        _coroutine().send(None)


class _Pair(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 1, y * 1

    @staticmethod
    def backward(ctx, g, h):
        with lucid.enable_grad():
            return (g if ctx.needs_input_grad[0] else None), h


_X, _Y = (lucid.tensor([1.0], requires_grad=True) for _ in range(2))
_PAIR = _Pair.apply(_X, _Y)


def _in_backward():
    _X.grad = None
    (_X * 2).sum().backward()


def _in_narrowed_backward():
    lucid.grad(_PAIR[0].sum(), _X, retain_graph=True)


def _in_value_and_grad():
    lucid.value_and_grad(lambda x: (x * x).sum())(np.ones(2))


SWITCHING = [
    _in_manager,
    _in_nested_managers,
    _decorated,
    _in_generator,
    _in_coroutine,
    _in_backward,
    _in_narrowed_backward,
    _in_value_and_grad,
]


def _untouched():
    x = lucid.tensor([1.0], requires_grad=True, dtype="float16")
    return (
        lucid.is_grad_enabled()
        and dtype_name((x @ x).dtype) == "float16"
        and _PAIR[0].grad_fn.needs_input_grad == (True, True)
    )


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("function", SWITCHING)
def test_an_interrupt_before_any_bytecode_leaves_the_mode_alone(function):
    """Where a trace function raises is before every bytecode; signals come at some of these."""
    at = count = 0

    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                raise Interrupted
        return trace

    before = sys.gettrace()
    while True:
        at, count = at + 1, 0
        try:
            sys.settrace(trace)
            try:
                function()
            finally:
                sys.settrace(before)
        except Interrupted:
            pass
        else:
            break
        assert _untouched(), at
    assert at > 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("function", SWITCHING)
def test_signals_leave_the_mode_alone(function):
    def handler(number, frame):
        raise Interrupted

    before, caught = signal.signal(signal.SIGALRM, handler), 0
    try:
        for i in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + i % 40 * 2.5e-6)
                for _ in range(100_000):
                    function()
            except Interrupted:
                caught += 1
            assert _untouched()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 400


def test_a_switch_that_is_gone_puts_the_mode_back(records):
    """What Python 3.14 needs where a signal comes between entering and the block."""
    lucid.no_grad().__enter__()
    gc.collect()
    assert records()
    kept = lucid.no_grad()
    kept.__enter__()
    lucid.enable_grad().__enter__()
    assert not records()
    kept.__exit__(None, None, None)
    assert records()
    kept.__enter__()
    thread = threading.Thread(target=kept.__reduce__)  # it may go anywhere, here it stays
    thread.start()
    thread.join()
    assert not records()
    del thread, kept
    assert records()
