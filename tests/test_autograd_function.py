"""Functions that users write, and the nodes that come of them."""

import weakref

import numpy as np
import pytest

import lucid
from lucid._tensor import dtype_name
from lucid.autograd import AmpPolicy, Function, OpSchema, gradcheck, once_differentiable
from lucid.backends import namespace


@pytest.fixture
def leaf(tensor):
    return lambda *values: tensor(values, requires_grad=True)


class Polar(Function):
    """Two outputs, a saved one among them."""

    @staticmethod
    def forward(ctx, x, y):
        xp = namespace(x)
        r = xp.sqrt(x * x + y * y)
        ctx.save_for_backward(x, y, r)
        return r, xp.arctan2(y, x)

    @staticmethod
    def backward(ctx, gr, gt):
        x, y, r = ctx.saved_tensors
        return gr * x / r - gt * y / r**2, gr * y / r + gt * x / r**2


def test_several_outputs_to_second_order(leaf):
    x, y = leaf(1.0, 2.0), leaf(0.5, -1.0)
    r, t = Polar.apply(x, y)
    np.testing.assert_allclose((r * np.cos(t)).data, x.data)
    assert gradcheck(Polar.apply, (x, y))
    assert lucid.autograd.gradgradcheck(Polar.apply, (x, y))


@pytest.mark.parametrize("used", [0, 1])
def test_unused_output(used, leaf, array):
    x, y = leaf(3.0), leaf(4.0)
    assert gradcheck(lambda x, y: Polar.apply(x, y)[used], (x, y))
    (g,) = lucid.grad(Polar.apply(x, y)[used], x, array(np.ones(1)))
    np.testing.assert_allclose(g.data, [[0.6], [-0.16]][used])


def test_result_of_several_as_target(leaf):
    r, t = Polar.apply(leaf(3.0), leaf(4.0))
    gt, gr = lucid.grad((r * t + t).sum(), (t, r))
    np.testing.assert_allclose(gt.data, r.data + 1)
    np.testing.assert_allclose(gr.data, t.data)


@pytest.mark.parametrize("materialize", [True, False])
def test_materialize_grads(materialize, leaf, array):
    seen = []

    class Twice(Function):
        materialize_grads = materialize

        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(a)
            return b * 2 if a is None else a + b * 2

    x = leaf(1.0)
    Twice.apply(x)[1].backward(array(np.ones(1)))
    assert x.grad.item() == 2.0
    assert (seen[0] is None) is not materialize


def test_arguments_that_are_no_tensors(leaf, array):
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, name):
            assert type(x) is type(array(0))
            assert ctx.needs_input_grad == (True, False, False)
            ctx.factor, ctx.label = factor, name
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    x = leaf(1.0)
    y = Scale.apply(x, 3.0, "three")
    assert y.grad_fn.label == "three"
    y.backward(array(np.ones(1)))
    assert x.grad.item() == 3.0


def test_none_gradient_stops(leaf):
    class Stop(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(1.0)
    (Stop.apply(x) + x).sum().backward()
    assert x.grad.item() == 1.0


def test_mark_non_differentiable(leaf):
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            xp = namespace(x)
            whole, order = xp.floor(x), xp.argsort(x)
            ctx.mark_non_differentiable(whole)
            return x - whole, whole, order

        @staticmethod
        def backward(ctx, g, *constants):
            assert constants == (None, None)
            return g

    x = leaf(1.5, 0.25)
    fraction, whole, order = Split.apply(x)
    assert [t.requires_grad for t in (fraction, whole, order)] == [True, False, False]
    fraction.sum().backward()
    np.testing.assert_array_equal(x.grad.data, [1.0, 1.0])


def test_mark_the_only_output(leaf):
    class Floor(Function):
        @staticmethod
        def forward(ctx, x):
            y = namespace(x).floor(x)
            ctx.mark_non_differentiable(y)
            return y

    assert not Floor.apply(leaf(1.5)).requires_grad


def test_once_differentiable(leaf):
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not lucid.is_grad_enabled()
            return 3 * g.data * ctx.saved_tensors[0].data ** 2

    x = leaf(2.0)
    assert gradcheck(Cube.apply, x)
    (g,) = lucid.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert g.item() == 12.0
    assert g.requires_grad
    with pytest.raises(NotImplementedError, match=r"Cube.backward is marked once_differentiable"):
        lucid.grad(g.sum(), x)


def test_saved_intermediate_has_no_second_order(leaf):
    class Sigmoid(Function):
        @staticmethod
        def forward(ctx, x):
            e = namespace(x).exp(-x)
            ctx.save_for_backward(e, x > 0)
            return 1 / (1 + e)

        @staticmethod
        def backward(ctx, g):
            e, positive = ctx.saved_tensors
            assert dtype_name(positive.dtype) == "bool"
            return g * e / (1 + e) ** 2

    x = leaf(0.5)
    assert gradcheck(Sigmoid.apply, x)
    with pytest.raises(RuntimeError, match="SigmoidBackward: no second-order gradient"):
        lucid.grad(Sigmoid.apply(x).sum(), x, create_graph=True)


def test_same_array_in_two_tensors(leaf):
    """x and x.detach() share an array, and must not be taken for each other."""
    x = leaf(3.0)
    for y in (x * x.detach(), x.detach() * x, np.where([True], x * x.detach(), 0)):
        (g,) = lucid.grad(y.sum(), x, create_graph=True)
        assert g.item() == 3.0
        assert not g.requires_grad or lucid.grad(g.sum(), x, allow_unused=True)[0] is None
    x = leaf(3.0)
    (g,) = lucid.grad(np.einsum("i,i,i->", x, x.detach(), x), x, create_graph=True)
    assert g.item() == 18.0
    (h,) = lucid.grad(g.sum(), x)
    assert h.item() == 6.0


@pytest.mark.parametrize(
    "fun", [lambda x, a: x * a, lambda x, a: np.multiply(a, x), lambda x, a: x**a]
)
def test_same_array_in_a_tensor_and_bare(fun, leaf, array):
    def second(x, a):
        (g,) = lucid.grad(fun(x, a), x, array(np.ones(1)), create_graph=True)
        return lucid.grad((g * x).sum(), x)[0].item()

    x = leaf(3.0)
    assert second(x, x.data) == second(x, array([3.0]))


def test_result_that_is_the_input_shares_its_writes(leaf):
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(3.0)
    y = Same.apply(x)
    z = (y * y).sum()
    x.copy_([4.0])
    with pytest.raises(RuntimeError, match="changed since by copy_"):
        z.backward()


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 0, 1)])
def test_same_array_in_two_of_three_tensors(order, leaf, tensor, array):
    class Product(Function):
        @staticmethod
        def forward(ctx, a, b, c):
            ctx.save_for_backward(a, b, c)
            return a * b * c

        @staticmethod
        def backward(ctx, g):
            a, b, c = ctx.saved_tensors
            return g * b * c, g * a * c, g * a * b

    x = leaf(3.0)
    args = (x, x.detach(), tensor([5.0]))
    (g,) = lucid.grad(
        Product.apply(*(args[i] for i in order)), x, array(np.ones(1)), create_graph=True
    )
    assert g.item() == 15.0
    assert lucid.grad((g * x).sum(), x)[0].item() == 15.0  # g itself does not depend on x


def test_node(leaf, array):
    class Double(Function):
        schema_v1 = OpSchema("double", version=1, amp_policy=AmpPolicy.PROMOTE)

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.note = "kept"
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf(1.0)
    y = Double.apply(x)
    node = y.grad_fn
    assert node.name == "DoubleBackward"
    assert repr(node) == "<DoubleBackward>"
    assert node.schema_v1 is Double.schema_v1
    assert node.note == "kept"
    assert node.saved_tensors == (x,)
    ((accumulate, index),) = node.next_functions
    assert (accumulate.name, accumulate.variable is x, index) == ("AccumulateGrad", True, 0)
    z = y * array(np.ones(1))
    assert z.grad_fn.next_functions == ((node, 0), (None, 0))
    second = Polar.apply(x, y)[1] * 1
    assert second.grad_fn.next_functions[0][1] == 1
    assert x.grad_fn is None
    assert y.is_leaf is False


def test_node_name_of_its_own(leaf):
    class Renamed(Function):
        node_name = "OtherBackward"

        @staticmethod
        def forward(ctx, x):
            return x + 0

    assert Renamed.apply(leaf(1.0)).grad_fn.name == "OtherBackward"


def test_integer_result_is_a_constant(leaf):
    class Order(Function):
        @staticmethod
        def forward(ctx, x):
            return namespace(x).argsort(x)

    assert not Order.apply(leaf(2.0, 1.0)).requires_grad


def test_complex_result_is_refused(leaf, tensor):
    with pytest.raises(TypeError, match="multiply: complex results have no gradient"):
        leaf(1.0) * 1j
    assert dtype_name((tensor([1.0]) * 1j).dtype).startswith("complex")


def test_schema_that_produces_no_grad(leaf):
    class Same(Function):
        schema_v1 = OpSchema("same", produces_grad=False)

        @staticmethod
        def forward(ctx, x):
            return x + 0

    assert not Same.apply(leaf(1.0)).requires_grad


def test_forgotten_ctx():
    with pytest.raises(TypeError, match=r"NoContext.forward: the first parameter must be ctx, got"):

        class NoContext(Function):
            @staticmethod
            def forward(x, y):
                return x + y


def test_forgotten_backward_and_result(leaf):
    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with pytest.raises(NotImplementedError, match=r"NoBackwardBackward: .* no backward"):
        NoBackward.apply(leaf(1.0)).sum().backward()

    class NoResult(Function):
        @staticmethod
        def forward(ctx, x):
            x + 1

    with pytest.raises(TypeError, match=r"NoResult.forward: must return arrays, got NoneType"):
        NoResult.apply(leaf(1.0))


def test_schemas_lists_operations_by_name():
    schemas = lucid.ops.schemas()
    assert schemas["mean"] == OpSchema("mean", 1, AmpPolicy.PROMOTE, True)
    assert schemas["matmul"].amp_policy is AmpPolicy.PROMOTE
    assert all(name == schema.name for name, schema in schemas.items())
    assert list(schemas) == sorted(schemas)
    assert {"batch_norm1d", "batch_norm", "batch_norm3d", "sum", "index"} <= set(schemas)
    assert not any(name[0].isupper() for name in schemas)
    with pytest.raises(AttributeError):
        schemas["mean"].version = 2


def test_scalar_results_become_arrays(leaf):
    x = leaf(1.0, 2.0)
    for y in (x.sum(), x[0], np.max(x), x.sum() * 2, np.exp(x.sum()), np.mean(x)):
        assert type(y.data) is type(x.data)
        assert y.shape == ()


def test_a_node_may_know_more(leaf):
    class Scaled(lucid.autograd.Context):
        @property
        def doubled(self):
            return 2 * self.factor

    class Scale(Function):
        context_class = Scaled

        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    x = leaf(1.0, 2.0)
    y = Scale.apply(x, 3.0)
    assert type(y.grad_fn) is Scaled
    assert y.grad_fn.doubled == 6
    # As part of a graph, as where a walk starts, and as what it leads to.
    z = y * y
    np.testing.assert_array_equal(lucid.grad(z.sum(), x, retain_graph=True)[0].numpy(), [18, 36])
    np.testing.assert_array_equal(lucid.grad(z.sum(), y)[0].numpy(), [6, 12])
    Scale.context_class = dict
    with pytest.raises(TypeError, match=r"Scale.context_class: must be Context or a subclass"):
        Scale.apply(x, 3.0)


def test_a_scalar_and_a_total_become_arrays():
    class Total(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.shape_of_x = x.shape
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return np.broadcast_to(g, ctx.shape_of_x)

    x = lucid.tensor(np.ones((2, 3)), requires_grad=True, dtype="float32")
    y = Total.apply(x)
    assert type(y.data) is np.ndarray
    assert (y.shape, y.dtype) == ((), np.float32)
    (g,) = lucid.grad(y, x)
    np.testing.assert_array_equal(g.data, np.ones((2, 3)))
    assert not g.data.flags.writeable  # a view of one number
    y = Total.apply(x)
    y.backward()
    x.grad.data[0, 0] = 5  # a leaf's gradient owns its memory
    np.testing.assert_array_equal(x.grad.data, [[5, 1, 1], [1, 1, 1]])


def test_what_only_claims_to_be_a_tensor_is_none(leaf):
    x = leaf(1.0, 2.0)
    proxy = weakref.proxy(x)
    assert isinstance(proxy, lucid.Tensor)
    with pytest.raises(TypeError):
        np.multiply(x, proxy)
