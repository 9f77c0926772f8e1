"""The cost of recording operations and of walking back through them, beside PyTorch's.

The arrays are tiny, so that the machinery is all that is measured.
"""

import numpy as np

import lucid

try:
    import torch
except ImportError:
    torch = None

SHAPE = (8, 16)


class _Peer:
    """The library is a parameter, so that each table shows the ratio."""

    params = ("lucid", "torch")
    param_names = ("library",)

    def setup(self, library):
        if library == "torch" and torch is None:
            raise NotImplementedError("torch is not installed")
        # Signs, so that long products stay finite.
        array = np.sign(np.random.default_rng(0).standard_normal(SHAPE))
        if library == "lucid":
            self.leaf = lucid.tensor(array, requires_grad=True)
            self.constant, self.seed = lucid.tensor(array), lucid.tensor(np.ones(SHAPE))
            self.grad, self.exp = lucid.grad, np.exp
        else:
            torch.set_num_threads(1)
            self.leaf = torch.tensor(array, requires_grad=True)
            self.constant, self.seed = torch.tensor(array), torch.ones(SHAPE, dtype=torch.float64)
            self.grad, self.exp = torch.autograd.grad, torch.exp

    def chain(self, length):
        y = self.leaf
        for _ in range(length):
            y = y * self.constant
        return y


class OneOperation(_Peer):
    """One operation, recorded or not, and its gradient."""

    def time_constant(self, library):
        self.constant * self.constant

    def time_multiply(self, library):
        self.leaf * self.constant

    def time_add_number(self, library):
        self.leaf + 1.0

    def time_exp(self, library):
        self.exp(self.leaf)

    def time_sum(self, library):
        self.leaf.sum()

    def time_index(self, library):
        self.leaf[1:]

    def time_backward(self, library):
        (self.leaf * self.constant).backward(self.seed)

    def time_grad(self, library):
        self.grad(self.leaf * self.constant, self.leaf, self.seed)


class Chain(_Peer):
    """A thousand operations one after the other."""

    def time_forward(self, library):
        self.chain(1000)

    def time_forward_and_backward(self, library):
        self.chain(1000).backward(self.seed)

    def time_second_order(self, library):
        (g,) = self.grad(self.chain(100) * self.leaf, self.leaf, self.seed, create_graph=True)
        self.grad(g, self.leaf, self.seed)


class FanOut(_Peer):
    """A thousand uses of one result, whose gradients are summed."""

    def time_backward(self, library):
        x = self.leaf * 1.0
        total = x
        for _ in range(1000):
            total = total + x
        total.backward(self.seed)


class SmallStep(_Peer):
    """A step of a small network with a mean-square loss."""

    def setup(self, library):
        super().setup(library)
        rng = np.random.default_rng(1)
        weights = [rng.standard_normal(s) for s in ((16, 32), (32,), (32, 1))]
        make = lucid.tensor if library == "lucid" else torch.tensor
        self.weights = [make(w, requires_grad=True) for w in weights]
        self.relu = (lambda x: np.maximum(x, 0)) if library == "lucid" else torch.relu

    def time_step(self, library):
        w, b, v = self.weights
        y = self.relu(self.constant @ w + b) @ v
        self.grad((y * y).mean(), self.weights)
