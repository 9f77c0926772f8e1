"""PyTorch as an independent judge of value, first and second derivatives of every rule."""

import numpy as np
import pytest
from scipy import special

import lucid
import lucid.nn.functional as F

SAME = (
    "add subtract multiply divide maximum minimum remainder negative exp exp2 expm1 log log2 log10 "
    "log1p sqrt square reciprocal abs sin cos tan sinh cosh tanh arctan arcsinh "
    "hypot arctan2 logaddexp logaddexp2 ravel diag trace diagonal diff inner hstack vstack dstack "
    "column_stack"
)
STEPS = "sign floor ceil trunc round"
BINARY = (
    "add subtract multiply divide maximum minimum remainder hypot arctan2 logaddexp logaddexp2 "
    "inner"
)
JOINING = "hstack vstack dstack column_stack"


def same(name):
    if name in JOINING.split():
        return (
            lambda *args: getattr(np, name)(args),
            lambda torch, *args: getattr(torch, name)(args),
            [(3, 2), (3, 2)],
        )
    shapes = [(3, 2), (2,)] if name in BINARY.split() else [(3, 2)]
    return getattr(np, name), lambda torch, *args: getattr(torch, name)(*args), shapes


def step(name):
    return (
        lambda x: getattr(np, name)(x) * x,
        lambda torch, x: getattr(torch, name)(x) * x,
        [(3, 2)],
    )


# name: (with NumPy's functions, with PyTorch's, the shapes of the arguments)
RULES = {name: same(name) for name in SAME.split()} | {name: step(name) for name in STEPS.split()}
RULES |= {
    "power": (lambda x, p: x**p, lambda torch, x, p: x**p, [(3, 2), (2,)]),
    "power 3": (lambda x: x**3, lambda torch, x: x**3, [(3, 2)]),
    "power 1.5": (lambda x: x**1.5, lambda torch, x: x**1.5, [(3, 2)]),
    "matmul": (np.matmul, lambda torch, x, y: x @ y, [(2, 3, 4), (4, 2)]),
    "outer": (np.outer, lambda torch, x, y: torch.outer(x, y), [(3,), (2,)]),
    "dot": (np.dot, lambda torch, x, y: torch.dot(x, y), [(3,), (3,)]),
    "tensordot": (
        lambda x, y: np.tensordot(x, y, ((0, 1), (1, 0))),
        lambda torch, x, y: torch.tensordot(x, y, ((0, 1), (1, 0))),
        [(2, 3, 4), (3, 2)],
    ),
    "einsum": (
        lambda x, y: np.einsum("bij,jk->bk", x, y),
        lambda torch, x, y: torch.einsum("bij,jk->bk", x, y),
        [(2, 3, 4), (4, 2)],
    ),
    "where": (
        lambda x, y: np.where(x > y, x, y * y),
        lambda torch, x, y: torch.where(x > y, x, y * y),
        [(3, 2), (2,)],
    ),
    "clip": (
        lambda x, a, b: np.clip(x, a, b + 1),
        lambda torch, x, a, b: torch.clamp(x, a, b + 1),
        [(3, 4), (4,), (4,)],
    ),
    "sum": (lambda x: np.sum(x, axis=1), lambda torch, x: x.sum(1), [(3, 2)]),
    "mean": (lambda x: np.mean(x, axis=0), lambda torch, x: x.mean(0), [(3, 2)]),
    "var": (
        lambda x: np.var(x, axis=0, ddof=1),
        lambda torch, x: x.var(0, correction=1),
        [(3, 2)],
    ),
    "std": (lambda x: np.std(x, axis=0), lambda torch, x: x.std(0, correction=0), [(3, 2)]),
    "prod": (lambda x: np.prod(x, axis=0), lambda torch, x: x.prod(0), [(3, 2)]),
    "max": (lambda x: np.max(x, axis=0), lambda torch, x: x.amax(0), [(3, 2)]),
    "min": (lambda x: np.min(x), lambda torch, x: x.amin(), [(3, 2)]),
    "cumsum": (lambda x: np.cumsum(x, 1), lambda torch, x: torch.cumsum(x, 1), [(3, 4)]),
    "cumprod": (lambda x: np.cumprod(x, 1), lambda torch, x: torch.cumprod(x, 1), [(3, 4)]),
    "arcsin": (lambda x: np.arcsin(x / 3), lambda torch, x: torch.arcsin(x / 3), [(3, 4)]),
    "arccos": (lambda x: np.arccos(x / 3), lambda torch, x: torch.arccos(x / 3), [(3, 4)]),
    "arctanh": (lambda x: np.arctanh(x / 3), lambda torch, x: torch.arctanh(x / 3), [(3, 4)]),
    "arccosh": (lambda x: np.arccosh(x + 1), lambda torch, x: torch.arccosh(x + 1), [(3, 4)]),
    "expit": (special.expit, lambda torch, x: torch.special.expit(x), [(3, 4)]),
    "xlogy": (special.xlogy, lambda torch, x, y: torch.xlogy(x, y), [(3, 4), (4,)]),
    "logsumexp": (np.logaddexp.reduce, lambda torch, x: torch.logsumexp(x, 0), [(3, 4)]),
    "softmax": (F.softmax, lambda torch, x: torch.softmax(x, -1), [(3, 4)]),
    "log_softmax": (F.log_softmax, lambda torch, x: torch.log_softmax(x, -1), [(3, 4)]),
    "relu": (lambda x: F.relu(x - 1) ** 2, lambda torch, x: torch.relu(x - 1) ** 2, [(3, 4)]),
    "average": (
        lambda x, w: np.average(x, 1, w),
        lambda torch, x, w: (x * w).sum(1) / w.sum(),
        [(3, 4), (4,)],
    ),
    "norm": (np.linalg.norm, lambda torch, x: torch.linalg.norm(x), [(3, 4)]),
    "norm axis": (
        lambda x: np.linalg.norm(x, axis=1),
        lambda torch, x: torch.linalg.norm(x, dim=1),
        [(3, 4)],
    ),
    "norm inf": (
        lambda x: np.linalg.norm(x, np.inf),
        lambda torch, x: torch.linalg.norm(x, np.inf),
        [(3, 4)],
    ),
    "norm 1": (
        lambda x: np.linalg.norm(x, 1) * x,
        lambda torch, x: torch.linalg.norm(x, 1) * x,
        [(3, 4)],
    ),
    "repeat": (
        lambda x: np.repeat(x, [2, 0, 1], axis=0) ** 2,
        lambda torch, x: x.repeat_interleave(torch.tensor([2, 0, 1]), 0) ** 2,
        [(3, 4)],
    ),
    "tile": (
        lambda x: np.tile(x, (2, 1, 3)) ** 2,
        lambda torch, x: torch.tile(x, (2, 1, 3)) ** 2,
        [(3, 4)],
    ),
    "sort": (lambda x: np.sort(x, 0) ** 2, lambda torch, x: torch.sort(x, 0)[0] ** 2, [(3, 4)]),
    "take_along_axis": (
        lambda x: np.take_along_axis(x, np.array([[0, 0, 2], [1, 3, 1]]), 1) ** 2,
        lambda torch, x: torch.gather(x, 1, torch.tensor([[0, 0, 2], [1, 3, 1]])) ** 2,
        [(2, 4)],
    ),
    "nan_to_num": (
        lambda x: np.nan_to_num(np.where(x > 2, np.inf, x), posinf=5.0),
        lambda torch, x: torch.nan_to_num(torch.where(x > 2, np.inf, x), posinf=5.0),
        [(3, 4)],
    ),
    "einsum sublists": (
        lambda x, y: np.einsum(x, [1, 0], y, [0, 2], [2, 1]),
        lambda torch, x, y: torch.einsum(x, [1, 0], y, [0, 2], [2, 1]),
        [(3, 4), (4, 2)],
    ),
    "reshape": (lambda x: x.reshape(2, 3), lambda torch, x: x.reshape(2, 3), [(3, 2)]),
    "transpose": (lambda x: x.transpose(2, 0, 1), lambda torch, x: x.permute(2, 0, 1), [(2, 3, 4)]),
    "moveaxis": (
        lambda x: np.moveaxis(x, 0, -1),
        lambda torch, x: torch.moveaxis(x, 0, -1),
        [(2, 3, 4)],
    ),
    "swapaxes": (lambda x: np.swapaxes(x, 0, 2), lambda torch, x: x.swapaxes(0, 2), [(2, 3, 4)]),
    "squeeze": (np.squeeze, lambda torch, x: x.squeeze(), [(2, 1, 3)]),
    "expand_dims": (lambda x: np.expand_dims(x, 1), lambda torch, x: x.unsqueeze(1), [(2, 3)]),
    "broadcast_to": (
        lambda x: np.broadcast_to(x, (4, 2, 3)),
        lambda torch, x: torch.broadcast_to(x, (4, 2, 3)),
        [(2, 1)],
    ),
    "concatenate": (
        lambda x, y: np.concatenate([x, y]),
        lambda torch, x, y: torch.cat([x, y]),
        [(2, 3), (1, 3)],
    ),
    "stack": (
        lambda x, y: np.stack([x, y], axis=1),
        lambda torch, x, y: torch.stack([x, y], 1),
        [(2, 3), (2, 3)],
    ),
    "split": (lambda x: np.split(x, 2)[1], lambda torch, x: torch.split(x, 2)[1], [(4, 3)]),
    "flip": (lambda x: np.flip(x, 1), lambda torch, x: torch.flip(x, (1,)), [(2, 3)]),
    "roll": (
        lambda x: np.roll(x, 2, axis=1),
        lambda torch, x: torch.roll(x, 2, 1),
        [(2, 3)],
    ),
    "pad": (
        lambda x: np.pad(x, ((0, 0), (1, 2))),
        lambda torch, x: torch.nn.functional.pad(x, (1, 2)),
        [(2, 3)],
    ),
    "take": (
        lambda x: np.take(x, [2, 0, 2]),
        lambda torch, x: torch.take(x, torch.tensor([2, 0, 2])),
        [(2, 3)],
    ),
    "index": (lambda x: x[[1, 1, 0], 1:], lambda torch, x: x[[1, 1, 0], 1:], [(2, 3)]),
    "mask": (lambda x: x[x > 1] ** 2, lambda torch, x: x[x > 1] ** 2, [(4, 3)]),
    "astype": (
        lambda x: (x.astype(np.float32) ** 2).astype(np.float64),
        lambda torch, x: (x.float() ** 2).double(),
        [(2, 3)],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_peer(name, device):
    torch = pytest.importorskip("torch")
    fun, peer, shapes = RULES[name]
    rng = np.random.default_rng(7)
    arrays = [rng.uniform(0.5, 2.5, shape) for shape in shapes]
    ours = [lucid.tensor(a, requires_grad=True, device=device) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y, z = fun(*ours), peer(torch, *theirs)
    weight = rng.standard_normal(z.shape)
    w = lucid.tensor(weight, requires_grad=True, device=device)
    v = torch.tensor(weight, requires_grad=True)
    first = lucid.grad(y, ours, w, create_graph=True)
    expected = torch.autograd.grad(z, theirs, v, create_graph=True)
    rtol = 1e-6 if name == "astype" else 1e-12
    for a, b in zip((y, *first), (z, *expected), strict=True):
        np.testing.assert_allclose(a.detach(), b.numpy(force=True), rtol=rtol, atol=1e-14)
    directions = [rng.standard_normal(shape) for shape in shapes]
    seeds = [lucid.tensor(d, device=device) for d in directions]
    second = lucid.grad(first, (*ours, w), seeds, allow_unused=True)
    expected = torch.autograd.grad(
        expected, (*theirs, v), [torch.tensor(d) for d in directions], allow_unused=True
    )
    for a, b in zip(second, expected, strict=True):
        a = 0.0 if a is None else a.detach()
        b = 0.0 if b is None else b.numpy(force=True)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)
