"""Several threads at once: gradients of shared leaves, of shared graphs, forks."""

import os
import sys
import threading

import numpy as np
import pytest

import lucid
from lucid import nn


@pytest.fixture
def together():
    """Run functions in threads that change places as often as Python lets them."""

    def together(*functions):
        start, errors = threading.Barrier(len(functions)), []

        def run(function):
            try:
                start.wait(30)
                function()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(f,)) for f in functions]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert errors == []

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield together
    sys.setswitchinterval(before)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (400, 100)])
def test_no_gradient_of_a_shared_leaf_is_lost(shape, create_graph, leaf, together):
    x, other = leaf(np.zeros(shape)), leaf(np.ones(shape))

    def work(number):
        for i in range(number, 200, 4):
            (np.sum(x * i) + np.sum(other * 2)).backward(create_graph=create_graph)

    together(*(lambda k=k: work(k) for k in range(4)))
    # Whole numbers: the sum does not depend on the order.
    np.testing.assert_array_equal(x.grad.detach().to("cpu").data, np.full(shape, 19900.0))
    np.testing.assert_array_equal(other.grad.detach().to("cpu").data, np.full(shape, 400.0))


def test_no_gradient_of_a_shared_module_is_lost(device, together):
    model = nn.Sequential(nn.Linear(3, 4, rng=0, dtype="float64", device=device), nn.ReLU())
    inputs = [lucid.tensor(np.full((2, 3), float(i)), device=device) for i in range(40)]

    def work(number):
        for x in inputs[number::4]:
            model(x).sum().backward()

    for x in inputs:
        model(x).sum().backward()
    expected = [p.grad.to("cpu").data for p in model.parameters()]
    model.zero_grad()
    together(*(lambda k=k: work(k) for k in range(4)))
    for p, e in zip(model.parameters(), expected, strict=True):
        # Sums of 40 terms in another order.
        np.testing.assert_allclose(p.grad.to("cpu").data, e, rtol=40 * 2**-52)


def test_batch_norm_in_evaluation_shared_by_threads(device, together):
    bn = nn.BatchNorm1d(4, dtype="float64", device=device).eval()

    def work():
        for i in range(50):
            bn(lucid.tensor(np.full((2, 4), float(i)), device=device)).sum().backward()

    together(work, work, work)
    np.testing.assert_array_equal(bn.bias.grad.to("cpu").data, np.full(4, 300.0))


def test_a_grad_that_is_taken_away_meanwhile(leaf, together):
    # Each gradient is either in what was taken or in what is left.
    x, done, taken = leaf([0.0]), threading.Event(), []

    def add():
        for _ in range(500):
            x.sum().backward()
        done.set()

    def clear():
        while not done.is_set():
            x.grad = None

    def read():
        while not done.is_set():
            g = x.grad
            taken.append(0 if g is None else g.item())

    together(add, clear, read)
    assert x.grad is None or 1 <= x.grad.item() <= 500
    assert all(t == int(t) for t in taken)


def test_a_gradient_seen_once_never_changes(leaf, together):
    x, seen = leaf(np.zeros(1000)), []

    def add():
        for _ in range(200):
            x.sum().backward()
            g = x.grad
            seen.append((g.data, np.array(g.to("cpu").data)))

    together(add, add)
    for now, then in seen:
        np.testing.assert_array_equal(lucid.as_tensor(now).to("cpu").data, then)


def test_backward_inside_backward_of_the_same_leaf(leaf):
    x = leaf([1.0, 2.0])

    class Nested(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with lucid.enable_grad():
                (x * 10).sum().backward()
            return g

    Nested.apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad.to("cpu").data, [11.0, 11.0])


def test_one_graph_narrowed_by_several_threads(together):
    """What `grad` asks of a node for one thread is not seen by the others."""
    x, y = (lucid.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    z = ((x * y) * (x * y)).sum()

    def for_x():
        for _ in range(300):
            (g,) = lucid.grad(z, x, retain_graph=True)
            assert g.item() == 36.0

    def for_y():
        for _ in range(300):
            (g,) = lucid.grad(z, y, retain_graph=True)
            assert g.item() == 24.0

    def for_both():
        for _ in range(300):
            assert [g.item() for g in lucid.grad(z, (x, y), retain_graph=True)] == [36.0, 24.0]

    together(for_x, for_y, for_both)


def test_a_grad_of_another_shape_is_not_broadcast(leaf):
    x = leaf([1.0, 2.0, 3.0])
    x.grad = leaf([1.0]).detach()
    with pytest.raises(RuntimeError, match=r"backward: grad of a leaf must have its shape \(3,\)"):
        (x * 2).sum().backward()
    assert x.grad.item() == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_another_thread_goes_backward(together):
    x, done, codes = lucid.tensor([0.0], requires_grad=True), threading.Event(), []

    def work():
        while not done.is_set():
            x.sum().backward()

    def fork():
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                x.grad = None
                x.sum().backward()
                os._exit(x.grad.item() != 1.0)
            codes.append(os.waitpid(pid, 0)[1])
        done.set()

    together(work, fork)
    assert codes == [0] * 10
