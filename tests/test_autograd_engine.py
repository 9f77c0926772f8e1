"""The walk through the graph: any shape and size of it, and what it leaves in memory."""

import copy
import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import lucid
from lucid.autograd import Function


@pytest.fixture
def leaf(tensor):
    return lambda *values: tensor(values, requires_grad=True)


@pytest.fixture
def no_gc():
    """Only reference counts free memory here."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_diamond_and_fan_out(leaf):
    x = leaf(2.0, 3.0)
    a, b = x * 2, x * x
    y = a * b + b / a + a + a
    y.sum().backward()
    # y = 2x³ + x/2 + 4x
    np.testing.assert_allclose(x.grad.data, 6 * x.data**2 + 4.5)


def test_same_input_many_times(leaf):
    x = leaf(3.0)
    np.concatenate([x, x, x * 1, x]).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [4.0])
    (g,) = lucid.grad((x * x * x).sum(), x)
    np.testing.assert_array_equal(g.data, [27.0])


def test_leaf_grad_accumulates(leaf, array):
    x = leaf(1.0, 2.0)
    seed = array([1.0, 1.0])
    x.backward(seed)
    first = x.grad
    assert first.data is not seed
    (x * 2).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [3.0, 3.0])
    np.testing.assert_array_equal(first.data, [1.0, 1.0])
    np.testing.assert_array_equal(seed, [1.0, 1.0])


def test_leaf_grad_owns_its_memory():
    x, seed = lucid.tensor([1.0, 2.0], requires_grad=True), np.ones(2)
    x.backward(seed)
    assert x.grad.data.flags.owndata
    assert not np.shares_memory(x.grad.data, seed)


def test_grad_of_a_scalar_accumulates(tensor):
    x = tensor(2.0, requires_grad=True)
    for k in (1, 2):
        (x * x + x).backward()
        assert x.grad.item() == 5.0 * k
        assert type(x.grad.data) is type(x.data)


def test_grads_of_two_leaves_do_not_share_memory(leaf):
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward()
    x.grad.data[...] = 7
    np.testing.assert_array_equal(y.grad.data, [1.0, 1.0])


def test_accumulation_leaves_foreign_buffers_alone(leaf, array):
    """Add hands one array to both inputs: adding more to one of them must not reach the other."""
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = array(np.ones(2))
    z = x + y
    total = z + x * 10 + x * 100
    gx, gy, gz = lucid.grad(total, (x, y, z), seed)
    np.testing.assert_array_equal(gx.data, [111.0, 111.0])
    np.testing.assert_array_equal(gy.data, [1.0, 1.0])
    np.testing.assert_array_equal(gz.data, [1.0, 1.0])
    np.testing.assert_array_equal(seed, [1.0, 1.0])


def test_user_assigned_grad_is_not_written_to(leaf, array):
    x, mine = leaf(1.0), array([5.0])
    x.grad = lucid.as_tensor(mine)
    (x * 2).sum().backward()
    assert (x.grad.data[0], mine[0]) == (7.0, 5.0)


def test_freed_graph_is_named(leaf):
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"SumBackward: .*retain_graph=True"):
        y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        lucid.grad(y, x)
    with pytest.raises(RuntimeError, match="SumBackward: the graph has been freed"):
        _ = y.grad_fn.saved_tensors


def test_shared_part_freed_by_one_of_two_losses(leaf):
    x = leaf(2.0)
    shared = x * x
    (shared * 2).sum().backward()
    with pytest.raises(RuntimeError, match=r"MultiplyBackward: .*retain_graph"):
        lucid.grad((shared * 3).sum(), x)
    (g,) = lucid.grad((shared * 3).sum(), shared)  # does not need what was freed
    np.testing.assert_array_equal(g.data, [3.0])


def test_freed_part_beside_a_live_way(leaf, array):
    """The gradient must not be what the live way alone gives."""
    x = leaf(2.0)
    shared = x * x
    shared.backward(array(np.ones(1)))
    total = shared * 3 + x
    with pytest.raises(RuntimeError, match=r"MultiplyBackward: .*retain_graph"):
        lucid.grad(total, x, array(np.ones(1)))
    with pytest.raises(RuntimeError, match=r"MultiplyBackward: .*retain_graph"):
        total.backward(array(np.ones(1)))


def test_retain_graph(leaf):
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(x.grad.data, [8.0])


def test_second_and_third_order(leaf, array):
    x = leaf(2.0)
    (g1,) = lucid.grad((x**4).sum(), x, create_graph=True)
    (g2,) = lucid.grad(g1, x, [array(np.ones(1))], create_graph=True)
    (g3,) = lucid.grad(g2.sum(), x)
    assert (g1.item(), g2.item(), g3.item()) == (32.0, 48.0, 48.0)


def test_backward_with_create_graph(leaf):
    x = leaf(3.0)
    (x**3).sum().backward(create_graph=True)
    x.grad, g = None, x.grad
    g.sum().backward()
    np.testing.assert_array_equal(x.grad.data, [18.0])


def test_grad_visits_only_what_leads_to_its_inputs(leaf, array):
    class Explodes(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 0

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("not needed")

    x, y = leaf(1.0), leaf(2.0)
    total = x * 2 + Explodes.apply(y)
    (g,) = lucid.grad(total, x, array(np.ones(1)), retain_graph=True)
    assert g.item() == 2.0
    assert y.grad is None
    with pytest.raises(AssertionError, match="not needed"):
        lucid.grad(total, y, array(np.ones(1)))


def test_grad_narrows_needs_input_grad_and_puts_it_back(leaf, array):
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            x, y = ctx.saved_tensors
            return g * y, g * x

    x, y = leaf(2.0), leaf(3.0)
    z = Product.apply(x, y)
    lucid.grad(z, y, array(np.ones(1)), retain_graph=True)
    z.backward(array(np.ones(1)))
    assert seen == [(False, True), (True, True)]


def test_grad_for_results_and_for_the_output_itself(leaf):
    x = leaf(2.0)
    y = x * x
    z = (y * 3).sum()
    gy, gx, gz = lucid.grad(z, (y, x, z))
    assert (gy.item(), gx.item(), gz.item()) == (3.0, 12.0, 1.0)


def test_several_outputs_and_seeds(leaf, tensor, array):
    x, y = leaf(2.0), leaf(5.0)
    outputs = (x * y, x + 0)
    gx, gy = lucid.grad(outputs, [x, y], [array([10.0]), tensor([1.0])])
    assert (gx.item(), gy.item()) == (51.0, 20.0)
    gx, gy = lucid.grad((x * y, x + 0), (x, y))
    assert (gx.item(), gy.item()) == (6.0, 2.0)


def test_unused_input(leaf):
    x, y = leaf(1.0), leaf(1.0)
    z = (x * 2).sum()
    with pytest.raises(ValueError, match=r"inputs\[1\] of shape \(1,\) was not used.*allow_unused"):
        lucid.grad(z, (x, y), retain_graph=True)
    gx, gy = lucid.grad(z, (x, y), allow_unused=True)
    assert gx.item() == 2.0
    assert gy is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: (x * x).backward(), ValueError, r"backward: gradient must be given.*\(2,\)"),
        (lambda x: (x * x).backward(np.ones(3)), ValueError, r"shape \(2,\) of its output, got"),
        (lambda x: x.detach().backward(np.ones(2)), RuntimeError, "must require grad"),
        (lambda x: lucid.grad(x * 2, x.detach(), np.ones(2)), RuntimeError, r"inputs\[0\] must"),
        (
            lambda x: lucid.grad(x * 2, [np.ones(2)], np.ones(2)),
            TypeError,
            r"inputs\[0\] must be a",
        ),
        (lambda x: lucid.grad([1.0], x), TypeError, "outputs must be Tensors, got float"),
        (lambda x: lucid.grad((x, x), x, [np.ones(2)]), ValueError, "one entry for each of 2"),
    ],
)
def test_wrong_calls(call, error, message, leaf):
    with pytest.raises(error, match=message):
        call(leaf(1.0, 2.0))


@pytest.mark.parametrize("seed", [np.ones(2) * 1j, ["a", "b"]])
def test_gradients_are_real(seed):
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"backward: gradient must be real, got (complex128|<U1)"):
        x.backward(seed)


def test_error_in_the_middle_changes_no_grad(leaf):
    class Explodes(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 0

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError

    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(ZeroDivisionError):
        (Explodes.apply(x) + y).sum().backward()
    assert x.grad is None
    assert y.grad is None
    assert lucid.is_grad_enabled()


@pytest.mark.parametrize("wrong", ["count", "shape", "dtype", "type"])
def test_wrong_gradients_are_blamed_on_their_function(wrong, leaf):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return {
                "count": g,
                "shape": (g[:1], g),
                "dtype": (g.astype(np.float32), g),
                "type": (g.data, g),
            }[wrong]

    message = {
        "count": r"Wrong.backward: must return 2 gradients, one for each argument.*got 1",
        "shape": r"Wrong.backward: gradient must have the shape \(2,\) of its argument, got \(1,\)",
        "dtype": r"Wrong.backward: gradient must have the dtype float64 .*, got float32",
        "type": r"Wrong.backward: must return Tensors or None, got \w*array; .*once_differ",
    }[wrong]
    x = leaf(1.0, 2.0)
    with pytest.raises((RuntimeError, TypeError), match=message):
        Wrong.apply(x, x * 2).sum().backward()


def test_copy_after_save_is_noticed(leaf):
    x = leaf(1.0, 2.0)
    y = x * x
    x.copy_([5.0, 6.0])
    with pytest.raises(RuntimeError, match=r"MultiplyBackward: .*changed since by copy_"):
        y.sum().backward()


@pytest.mark.parametrize("view", [lambda x: x[:1], lambda x: x.T, lambda x: x.reshape(2, 1)])
def test_copy_is_noticed_through_views(view):
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    v = view(x)
    y = (v * v).sum()
    x.copy_([5.0, 6.0])
    with pytest.raises(RuntimeError, match="changed since by copy_"):
        y.backward()
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    view(x.detach()).copy_(np.zeros(view(x).shape))
    with pytest.raises(RuntimeError, match="changed since by copy_"):
        y.backward()


@pytest.mark.parametrize(
    "fun",
    [
        np.exp,
        np.exp2,
        np.expm1,
        np.sqrt,
        np.tan,
        np.tanh,
        np.reciprocal,
        lambda x: 1 / x,
        lambda x: 2**x,
        lambda x: np.min(x, axis=0, keepdims=True),
    ],
)
def test_copy_into_a_saved_output_is_noticed(fun, leaf):
    x = leaf(1.0, 2.0)
    for change in (
        lambda y: y.detach().copy_(5.0),
        lambda y: copy.copy(y.detach()).copy_(5.0),
    ):
        y = fun(x)
        change(y)
        with pytest.raises(RuntimeError, match=r"Backward: .*changed since by copy_"):
            y.sum().backward()
    y = fun(x)
    (g,) = lucid.grad(y.sum(), x, create_graph=True)
    y.detach().copy_(5.0)
    if g.requires_grad:  # not that of min
        with pytest.raises(RuntimeError, match="changed since by copy_"):
            g.sum().backward()


@pytest.mark.parametrize("fun", [np.exp, np.max])
def test_copy_into_a_view_of_a_saved_output_is_noticed(fun):
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    for view in (lambda y: y, lambda y: y.reshape(-1)[:1]):
        y = fun(x)
        view(y).detach().copy_(5.0)
        with pytest.raises(RuntimeError, match=r"Backward: .*changed since by copy_"):
            y.sum().backward()


def test_where_keeps_its_condition(leaf, array):
    mask, other, same = (array(m) for m in ([True, False], [False, True], [True, False]))
    for condition in (mask, lucid.as_tensor(mask)):
        x = leaf(1.0, 2.0)
        y = np.where(condition, x, 0) + np.sum(x, where=mask)
        mask[:] = other
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.data, [3.0, 0.0])
        mask[:] = same


@pytest.mark.parametrize(
    "fun", [lambda x: x + 3, lambda x: x.reshape(()), lambda x: x, lambda x: x.T, np.positive]
)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_gradients_are_the_callers_to_change(fun, dtype, tensor):
    for shape in ((), (1, 1)):
        x = tensor(np.full(shape, 2, dtype), requires_grad=True)
        for _ in range(2):
            y = fun(x)
            for target in (x, y):
                (g,) = lucid.grad(y, target, retain_graph=True)
                assert g.item() == 1
                g.data *= 7


def test_copy_before_save_is_harmless(leaf):
    x = leaf(1.0, 2.0)
    x.copy_([3.0, 4.0])
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [6.0, 8.0])


def test_copy_of_what_was_not_saved_is_harmless(leaf):
    x = leaf(1.0, 2.0)
    y = (x * 3 + x).sum()
    x.copy_([5.0, 6.0])
    y.backward()
    np.testing.assert_array_equal(x.grad.data, [4.0, 4.0])


LENGTH = 100_000


def chain(x):
    for _ in range(LENGTH):
        x = x + 1.0
    return x


def test_long_chain_runs_and_is_freed(no_gc, leaf, array):
    x = leaf(1.0)
    y = chain(x)
    assert y.item() == LENGTH + 1
    node = weakref.ref(y.grad_fn)
    y.backward(array(np.ones(1)))
    assert x.grad.item() == 1.0
    del y
    assert node() is None


def test_long_unused_chain_is_freed(no_gc, leaf):
    x = leaf(1.0)
    y = chain(x)
    first = y.grad_fn
    for _ in range(LENGTH - 1):
        first = first.next_functions[0][0]
    first = weakref.ref(first)
    del y
    assert first() is None


def test_long_chain_to_second_order(leaf, array):
    x = leaf(2.0)
    y = chain(x) * x
    (g,) = lucid.grad(y, x, array(np.ones(1)), create_graph=True)
    (h,) = lucid.grad(g, x, array(np.ones(1)))
    assert h.item() == 2.0


def test_wide_graph(leaf):
    x = leaf(1.0)
    total = np.concatenate([x * k for k in range(2000)]).sum()
    total.backward()
    assert x.grad.item() == 1999 * 1000


@pytest.mark.parametrize(
    "fun",
    [np.exp, np.sqrt, np.tanh, lambda x: np.max(x, axis=0), lambda x: x / (x + 1), lambda x: x**x],
)
def test_no_reference_cycles(fun, no_gc, leaf, array):
    """Functions that save their own output are freed without the cyclic collector too."""
    x = leaf(1.0, 2.0)
    y = fun(x)
    node, data = weakref.ref(y.grad_fn), weakref.ref(y.data)
    del y
    assert node() is None
    assert data() is None
    y = fun(x) * x
    (g,) = lucid.grad(y, x, array(np.ones(y.shape)), create_graph=True)
    node = weakref.ref(g.grad_fn)
    del y, g
    assert node() is None


def test_backward_frees_what_was_saved(no_gc, leaf, array):
    x = leaf(1.0, 2.0)
    inner = x * 2
    array = weakref.ref(inner.data)
    y = (inner * inner).sum()
    del inner
    assert array() is not None
    y.backward()
    assert array() is None


def test_input_that_is_not_saved_is_freed_at_once(no_gc, leaf, array):
    x = leaf(1.0, 2.0)
    inner = x * 2
    array = weakref.ref(inner.data)
    y = (inner + 1).sum()
    del inner
    assert array() is None
    y.backward()
    np.testing.assert_array_equal(x.grad.data, [2.0, 2.0])


def test_training_loop_does_not_leak(tensor):
    x = tensor(np.ones(1000), requires_grad=True)

    def step():
        x.grad = None
        y = np.exp(x * 2).sum()
        (g,) = lucid.grad(y, x, create_graph=True)
        (g * g).sum().backward()

    for _ in range(3):
        step()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(3):
            step()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            step()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 8000  # one array


def test_independent_graphs_in_threads(leaf):
    results = {}

    def work(k):
        x = leaf(float(k))
        for _ in range(200):
            x.grad = None
            (x * x * x).sum().backward()
        results[k] = x.grad.item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 3.0 * k * k for k in range(4)}
