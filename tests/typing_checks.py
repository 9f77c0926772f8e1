"""What type checkers are to conclude about the public API: mypy runs over this file, pytest not."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import lucid
import lucid.nn.functional as F
from lucid import nn
from lucid.autograd import Context, Function, gradcheck

f4: NDArray[np.float32] = np.ones((4, 3), np.float32)
f8: NDArray[np.float64] = np.ones((4, 3))
i4: NDArray[np.int32] = np.ones((4, 3), np.int32)
c8: NDArray[np.float64] = np.ones(3)
mask: NDArray[np.bool_] = f8 > 0
t = lucid.tensor(f8, requires_grad=True)

# ---- statistics: Tensor to Tensor; an array to an array, or to a scalar where no axis is left
assert_type(lucid.mean(t), lucid.Tensor)
assert_type(lucid.mean(t, axis=(0, 1), keepdims=True), lucid.Tensor)
assert_type(lucid.mean(f4), np.float32)
assert_type(lucid.mean(i4), np.float64)
assert_type(lucid.mean(mask), np.float64)
assert_type(lucid.mean(f4, keepdims=True), NDArray[np.float32])
assert_type(lucid.mean(i4, axis=0, keepdims=True), NDArray[np.float64])
assert_type(lucid.mean(f4, axis=0), NDArray[np.float32] | Any)
assert_type(lucid.mean(f4, (0, -1)), NDArray[np.float32] | Any)
assert_type(lucid.mean(f4, axis=0, out=c8), NDArray[np.float64])
assert_type(lucid.mean(f4, dtype="f8"), Any)
assert_type(lucid.mean([1.0, 2.0]), Any)
assert_type(lucid.var(t, axis=0, ddof=1), lucid.Tensor)
assert_type(lucid.var(f8, correction=1), np.float64)
assert_type(lucid.std(f4, 0), NDArray[np.float32] | Any)
assert_type(lucid.std(f4, where=mask), np.float32)
assert_type(lucid.mean_var(t, axis=0), tuple[lucid.Tensor, lucid.Tensor])
assert_type(lucid.mean_var(f4), tuple[np.float32, np.float32])
assert_type(
    lucid.mean_var(f4, axis=0, keepdims=True), tuple[NDArray[np.float32], NDArray[np.float32]]
)
mean, var = lucid.mean_var(f8, axis=0, correction=1)
assert_type(mean[0], Any)
lucid.mean(f4, axs=0)  # type: ignore[call-overload]
lucid.mean_var(f4, axis="all")  # type: ignore[call-overload]
assert_type(lucid.Moments.of(f4, axis=0).merge(lucid.Moments()), lucid.Moments)

# ---- batch norm: a Tensor anywhere gives a Tensor
w = nn.Parameter(np.ones(3))
assert_type(F.batch_norm(f4, c8, c8), NDArray[np.float32])
assert_type(F.batch_norm(f4, None, None, training=True), NDArray[np.float32])
assert_type(F.batch_norm(f4, c8, c8, c8, c8, True, 0.1, 1e-5), NDArray[np.float32])
assert_type(F.batch_norm(i4, c8, c8, channel_axis=-1), NDArray[np.float32])
assert_type(F.batch_norm(t, c8, c8), lucid.Tensor)
assert_type(F.batch_norm(f4, c8, c8, w), lucid.Tensor)
assert_type(F.batch_norm(f4, c8, c8, c8, w), lucid.Tensor)
assert_type(F.batch_norm(f4, c8, c8, bias=w), lucid.Tensor)
F.batch_norm(f4)  # type: ignore[call-overload]

# ---- Tensors
assert_type(t + 1, lucid.Tensor)
assert_type(1 - t, lucid.Tensor)
assert_type(-t @ t.T, lucid.Tensor)
assert_type(t == 0, lucid.Tensor)
assert_type(t[0].sum(axis=0).reshape(-1, 1).astype("f4").to("cpu"), lucid.Tensor)
assert_type(t.grad, lucid.Tensor | None)
assert_type(t.shape, tuple[int, ...])
assert_type(t.detach().numpy(), np.ndarray[Any, Any])
assert_type([row for row in t], list[lucid.Tensor])  # noqa: C416
assert_type(lucid.as_tensor(f8).copy_(1), lucid.Tensor)
t.backward(create_graph=True)
t.T = t  # type: ignore[misc]
t.no_such_thing()  # type: ignore[attr-defined]

# ---- NumPy's functions of Tensors
assert_type(np.exp(t), NDArray[Any])  # NumPy's promise; it is a Tensor
assert_type(np.concatenate([t, t]), NDArray[Any])
assert_type(np.sum(t), Any)
assert_type(f4 * t, NDArray[np.float32])  # again a Tensor
assert_type(t * f4, lucid.Tensor)
assert_type(lucid.as_tensor(np.exp(t)), lucid.Tensor)
np.exp(t).backward()  # type: ignore[attr-defined]
lucid.as_tensor(np.exp(t)).sum().backward()

# ---- gradients
assert_type(lucid.grad(t.sum(), t), tuple[lucid.Tensor, ...])
assert_type(lucid.grad(t, [t], f8, allow_unused=True), tuple[lucid.Tensor | None, ...])


def loss(x: lucid.Tensor) -> lucid.Tensor:
    return (x * x).sum()


value, gradient = lucid.value_and_grad(loss)(f8)
assert_type(gradient, np.ndarray[Any, Any])
assert_type(lucid.value_and_grad(loss, (0,))(f8)[1], tuple[np.ndarray[Any, Any], ...])
assert_type(lucid.hvp(loss)(f8, f8), np.ndarray[Any, Any])
assert_type(gradcheck(loss, t), bool)


class Double(Function):
    @staticmethod
    def forward(ctx: Context, x: NDArray[Any]) -> NDArray[Any]:
        ctx.save_for_backward(x)
        ctx.factor = 2
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Context, g: lucid.Tensor) -> lucid.Tensor:
        return g * ctx.factor


assert_type(Double.apply(t), Any)

with lucid.no_grad(), lucid.enable_grad(), lucid.autocast("float16"):
    assert_type(lucid.is_grad_enabled(), bool)


@lucid.no_grad()
def evaluate(x: lucid.Tensor, scale: float) -> lucid.Tensor:
    return x * scale


assert_type(evaluate(t, 2.0), lucid.Tensor)
evaluate(t)  # type: ignore[call-arg]


# ---- modules
class Net(nn.Module):
    def __init__(self, width: int) -> None:
        self.body = nn.Sequential(nn.Linear(3, width, rng=0), nn.BatchNorm1d(width), nn.ReLU())

    def forward(self, x: lucid.Tensor) -> lucid.Tensor:
        y = self.body(x)
        return F.relu(F.linear(F.softmax(y), w))


net = Net(8).to("float64").train().eval()
assert_type(net, Net)
assert_type(net.body[0], nn.Module)
assert_type(net.body[:2], nn.Sequential)
assert_type(net.state_dict(), dict[str, np.ndarray[Any, Any]])
assert_type([p.grad for p in net.parameters()], list[lucid.Tensor | None])
assert_type(nn.BatchNorm2d(3, momentum=None).running_mean, lucid.Tensor | None)
assert_type(nn.Linear(3, 2).bias, nn.Parameter | None)
assert_type(F.relu(f4), NDArray[np.float32])
assert_type(F.log_softmax(t, axis=0), lucid.Tensor)
assert_type(F.cross_entropy(t, [0, 1, 2, 0]), lucid.Tensor)
assert_type(F.mse_loss(f8, t), lucid.Tensor)

# ---- configuration
assert_type(lucid.get_num_threads(), int)
assert_type(lucid.show_config(), None)
assert_type(lucid.show_config(mode="dicts"), dict[str, Any])
assert_type(lucid.cache_info(), dict[str, int])
lucid.set_num_threads("two")  # type: ignore[arg-type]
