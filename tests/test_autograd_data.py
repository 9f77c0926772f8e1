"""Arrays that are replaced or reshaped under a graph: an error, never a wrong gradient."""

import numpy as np
import pytest

import lucid
from lucid._tensor import dtype_name


def _larger(x):
    x.data = x.data[:0] if x.ndim == 0 else lucid.tensor(np.ones((9, 9)), device=x.device).data


def _same_shape(x):
    x.data = x.data + 1


def _in_place(x):
    x.data -= 1


def _constant(x):
    x.data = lucid.tensor(np.zeros(x.shape), device=x.device)


def _two_steps_to_the_same_address(x):
    shape = x.shape
    x.data = lucid.tensor(np.zeros(1), device=x.device).data
    x.data = lucid.tensor(np.zeros(shape), device=x.device).data


def _to(x):
    x._replace(x.detach().to("float32").data)


@pytest.mark.parametrize(
    "change", [_larger, _same_shape, _in_place, _constant, _two_steps_to_the_same_address, _to]
)
@pytest.mark.parametrize("order", [1, 2])
def test_data_replaced_since_forward(order, change, leaf):
    """An error, or the right gradient where that needs none of the old values."""
    x = leaf(np.arange(12.0).reshape(4, 3) / 8)
    bn = lucid.nn.BatchNorm1d(3, device=x.device)
    raised = []
    for fun in (lambda x: x * x * x, bn, np.exp, lambda x: x @ np.transpose(x)):

        def penalty(fun=fun):
            y = np.sum(fun(x) * fun(x))
            if order == 2:
                (g,) = lucid.grad(y, x, create_graph=True)
                y = np.sum(g * g)
            return y

        before = x.data
        (right,) = lucid.grad(penalty(), x)
        y = penalty()
        change(x)
        try:
            y.backward()
        except RuntimeError as error:
            raised.append((fun, str(error)))
        else:
            np.testing.assert_array_equal(x.grad.data, right.data)
        x.data, x.grad = before, None
    assert len(raised) >= 2 + (change in (_larger, _to))
    assert bn in [fun for fun, _ in raised]
    assert all("changed since by copy_, by assigning its data" in text for _, text in raised)
    np.sum(x * x).backward()  # a new graph


@pytest.mark.parametrize(
    "fun", [np.sum, np.mean, lambda x: x[0].sum(), lambda x: x.reshape(-1).sum(), lambda x: +x]
)
def test_a_leaf_reshaped_since_forward_though_nothing_was_saved(fun, leaf):
    x = leaf(np.ones((2, 3)))
    y = fun(x).sum()
    x.data = lucid.tensor(np.ones((5, 3)), device=x.device).data
    with pytest.raises(RuntimeError, match="changed since"):
        y.backward()
    assert x.grad is None
    y = np.sum(x)
    x.data = x.data + 1  # the shape it had
    y.backward()
    np.testing.assert_array_equal(x.grad.data, np.ones((5, 3)))


@pytest.mark.parametrize("change", ["shape", "resize", "dtype", "output"])
def test_arrays_reshaped_in_place(change):
    for fun in (np.sum, lambda x: x * x, np.exp, lucid.nn.BatchNorm1d(3)):
        x = lucid.tensor(np.ones((4, 3)), requires_grad=True)
        y = fun(x)
        z = np.sum(y * 1.0)
        if change == "shape":
            x.data.shape = (3, 4)
        elif change == "resize":
            x.data.resize((8, 3), refcheck=False)
        elif change == "dtype":
            x.data = x.data.view(np.float32)
        elif fun is np.exp:  # which saves it
            y.data.shape = (2, 6)
        else:
            continue
        with pytest.raises(RuntimeError, match=r"changed since|shape"):
            z.backward()
        assert x.grad is None


def test_an_output_reshaped_in_place_is_no_root():
    y = lucid.tensor(np.ones((2, 3)), requires_grad=True) * 2
    y.data.shape = (3, 2)
    with pytest.raises(RuntimeError, match=r"backward: output must have the shape \(2, 3\)"):
        y.backward(np.ones((3, 2)))


def test_a_detached_view_keeps_what_another_array_replaces(leaf):
    x = leaf([1.0, 2.0])
    d = x.detach()
    w = leaf([3.0, 4.0])
    y = (w * d).sum()
    x.data = x.data * 10  # d still has the old one
    y.backward()
    np.testing.assert_array_equal(w.grad.data, [1.0, 2.0])
    y = (w * d).sum()
    x.copy_(0)
    y.backward()
    y = (w * d).sum()
    d.copy_(0)
    with pytest.raises(RuntimeError, match="changed since"):
        y.backward()


def test_a_constant_that_gives_its_array_shares_its_writes(leaf, tensor):
    x, c = leaf([1.0, 2.0]), tensor([3.0, 4.0])
    before = (leaf([1.0, 1.0]) * c).sum()
    x.data = c
    before.backward()  # c itself has not changed
    y = (x * x).sum()
    c.copy_(0)
    with pytest.raises(RuntimeError, match="changed since"):
        y.backward()


def test_a_view_of_its_own_data_shares_its_writes():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    d, w = x.detach(), lucid.tensor([3.0, 4.0], requires_grad=True)
    y = (w * d).sum()
    x.data = x.data[::-1]
    x.copy_(0)
    with pytest.raises(RuntimeError, match="changed since"):
        y.backward()


def test_steps_of_an_optimizer_that_assigns_data(leaf):
    p = leaf([4.0])
    for step in (
        lambda: setattr(p, "data", p.data - 0.25 * p.grad.data),
        lambda: p.data.__isub__(0.25 * p.grad.data),
        lambda: p.copy_(p.detach() - 0.25 * p.grad),
    ):
        p.grad = None
        (p * p).sum().backward()
        step()
    assert p.item() == 0.5


def test_module_moved_since_forward(device):
    bn = lucid.nn.BatchNorm1d(3, device=device)
    x = lucid.tensor(np.arange(12.0).reshape(4, 3), device=device, requires_grad=True)
    y = (bn(x) * 2).sum()
    bn.to("float64")
    with pytest.raises(RuntimeError, match="changed since"):
        y.backward()
    (bn(x) * 2).sum().backward()
    assert dtype_name(bn.weight.grad.dtype) == "float64"
