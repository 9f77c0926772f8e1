"""`Module`: its state, copies, modes and repr; `Sequential`, `Linear`."""

import copy
import functools
import pickle

import numpy as np
import pytest

import lucid
from lucid import nn
from lucid._tensor import dtype_name

rng = np.random.default_rng(0)


def make_network(seed=0, device="cpu"):
    return nn.Sequential(
        nn.Linear(4, 5, rng=seed, device=device),
        nn.BatchNorm1d(5, device=device),
        nn.ReLU(),
        nn.Sequential(nn.Linear(5, 3, bias=False, rng=seed, device=device)),
    )


@pytest.fixture
def network(device):
    return functools.partial(make_network, device=device)


@pytest.fixture
def batch(array):
    """Random arrays of each device."""
    return lambda *shape: array(rng.normal(size=shape).astype("f4"))


KEYS = [
    "0.weight",
    "0.bias",
    "1.weight",
    "1.bias",
    "1.running_mean",
    "1.running_var",
    "1.num_batches_tracked",
    "3.0.weight",
]


class Tied(nn.Module):
    """Two names for one layer."""

    def __init__(self):
        self.first = nn.Linear(3, 3, rng=0)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x))


def test_names_follow_pytorch(network):
    model = network()
    assert list(model.state_dict()) == KEYS
    assert [n for n, _ in model.named_parameters()] == [
        k for k in KEYS if "running" not in k and "num_" not in k
    ]
    assert [n for n, _ in model.named_buffers()] == KEYS[4:7]
    assert [p.shape for p in model.parameters()] == [(5, 4), (5,), (5,), (5,), (3, 5)]
    assert len(list(model.buffers())) == 3
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in model.parameters())
    assert not any(b.requires_grad for b in model.buffers())


def test_shared_parameters_are_listed_once_but_saved_under_each_name():
    model = Tied()
    assert [n for n, _ in model.named_parameters()] == ["first.weight", "first.bias"]
    assert len(model.state_dict()) == 4
    assert len(list(model.modules())) == 2


def test_state_dict_shares_no_memory(network):
    model = network()
    state = model.state_dict()
    for array in state.values():
        array[...] = 77
    assert not any((a == 77).any() for a in model.state_dict().values())
    model.load_state_dict(state)
    for array in state.values():
        array[...] = 0
    assert all((a == 77).all() for a in model.state_dict().values())


def test_load_state_dict(batch, network):
    source, target = network(0), network(1)
    source.train()(batch(8, 4))
    result = target.load_state_dict(source.state_dict())
    assert result == ([], [])
    assert result.missing_keys == []
    x = batch(6, 4)
    np.testing.assert_array_equal(target.eval()(x).data, source.eval()(x).data)
    assert target[1].num_batches_tracked.item() == 1


def test_load_casts_to_the_dtype_of_the_destination(network):
    model = network()
    state = {k: v.astype("f8") if v.dtype.kind == "f" else v for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    assert {dtype_name(p.dtype) for p in model.parameters()} == {"float32"}


def test_load_takes_lists_and_tensors(tensor, device):
    layer = nn.Linear(2, 1, device=device)
    layer.load_state_dict({"weight": [[1, 2]], "bias": tensor([3.0])})
    np.testing.assert_array_equal(layer.weight.data, [[1, 2]])
    np.testing.assert_array_equal(layer.bias.data, [3])


def test_load_refuses_what_requires_grad(tensor, device):
    layer = nn.Linear(2, 1, rng=0, device=device)
    before = layer.state_dict()
    x = tensor([3.0], requires_grad=True)
    for bias in (x, x * 2, nn.Linear(2, 1, device=device).bias):
        with pytest.raises(
            RuntimeError,
            match=r"^Linear.load_state_dict: bias must not require grad; use detach\(\)",
        ):
            layer.load_state_dict({"weight": [[1, 2]], "bias": bias})
        for name, value in layer.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
        layer.load_state_dict({"bias": bias.detach()}, strict=False)
        np.testing.assert_array_equal(layer.bias.data, bias.data)
        layer.load_state_dict(before)
    with pytest.raises(TypeError, match="requires grad"):
        layer.load_state_dict({"bias": [x.sum()]}, strict=False)


def test_buffers_refuse_what_requires_grad(tensor, device):
    bn, x = nn.BatchNorm1d(2, device=device), tensor([1.0, 2.0], requires_grad=True)
    before = bn.running_mean
    for t in (x, x * 2):
        for assign in (
            lambda t: setattr(bn, "running_mean", t),
            lambda t: bn.register_buffer("running_mean", t),
            lambda t: bn.register_buffer("another", t),
        ):
            with pytest.raises(RuntimeError, match=r"must not require grad; use detach\(\)"):
                assign(t)
    assert bn.running_mean is before
    assert "another" not in dict(bn.named_buffers())
    bn.running_mean = x.detach()
    assert bn.running_mean.data is x.data


def test_old_checkpoint_without_the_counter(network):
    model = network()
    state = model.state_dict()
    del state["1.num_batches_tracked"]
    assert model.load_state_dict(state) == ([], [])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"1.running_var": None}, "missing keys: 1.running_var"),
        ({"1.extra": np.ones(3), "x": np.ones(1)}, "unexpected keys: 1.extra, x"),
        ({"0.bias": np.ones(4)}, r"0\.bias must have shape \(5,\), got \(4,\)"),
        ({"0.bias": np.ones((1, 5))}, r"0\.bias must have shape \(5,\), got \(1, 5\)"),
        ({"0.bias": np.ones(5, complex)}, r"0\.bias must cast to float32, got complex128"),
        ({1: 2}, "unexpected keys: 1"),
        ({"1.num_batches_tracked": np.float64(3)}, "must cast to int64, got float64"),
        (
            {"0.bias": None, "z": np.ones(1), "1.bias": np.ones(9)},
            r"missing keys: 0\.bias; unexpected keys: z; 1\.bias must have shape",
        ),
    ],
)
def test_bad_state_changes_nothing(change, match, network):
    model = network()
    before = model.state_dict()
    bad = {k: np.full_like(v, 7) for k, v in before.items()} | change
    bad = {k: v for k, v in bad.items() if v is not None}
    with pytest.raises(ValueError, match=f"^Sequential.load_state_dict: .*{match}"):
        model.load_state_dict(bad)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("name", KEYS)
def test_loading_into_what_is_read_only_changes_nothing(name):
    model = make_network()
    before = model.state_dict()
    dict(model._state())[name].data.flags.writeable = False
    match = rf"^Sequential.load_state_dict: {name} must be writable"
    with pytest.raises(ValueError, match=match):
        model.load_state_dict({k: np.full_like(v, 7) for k, v in before.items()})
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[key])


def test_a_warning_while_loading_changes_nothing(device):
    layer = nn.Linear(2, 2, rng=0, device=device)
    before = layer.state_dict()
    with pytest.raises(RuntimeWarning, match="overflow"):
        layer.load_state_dict({"weight": np.ones((2, 2)), "bias": np.full(2, 1e300)})
    np.testing.assert_array_equal(layer.weight.data, before["weight"])


def test_a_state_is_a_mapping(device):
    with pytest.raises(TypeError, match=r"^Linear.load_state_dict: state_dict must be a mapping"):
        nn.Linear(2, 2, device=device).load_state_dict(None)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_load_takes_pytorchs_tensors(dtype, device):
    torch = pytest.importorskip("torch")
    peer, layer = torch.nn.Linear(3, 2, dtype=getattr(torch, dtype)), nn.Linear(3, 2, device=device)
    layer.load_state_dict(peer.state_dict())
    layer.load_state_dict(dict(peer.named_parameters()))
    np.testing.assert_array_equal(layer.weight.data, peer.weight.detach().float().numpy())


def test_not_strict_reports_what_was_left_out(network):
    model = network()
    result = model.load_state_dict({"0.bias": np.ones(5), "other": np.ones(2)}, strict=False)
    assert result.missing_keys == [k for k in KEYS if k not in ("0.bias", "1.num_batches_tracked")]
    assert result.unexpected_keys == ["other"]
    np.testing.assert_array_equal(model[0].bias.data, np.ones(5))
    with pytest.raises(ValueError, match="must have shape"):
        model.load_state_dict({"0.bias": np.ones(3)}, strict=False)


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_copies_are_independent_and_whole(clone, network):
    model = network().eval()
    model[0].weight.requires_grad = False
    twin = clone(model)
    assert repr(twin) == repr(model)
    assert not twin.training
    assert not twin[1].training
    for (name, a), (_, b) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        assert type(b) is nn.Parameter
        assert a.requires_grad == b.requires_grad, name
        np.testing.assert_array_equal(a.data, b.data)
        b.data[...] = 9
        assert not (a.data == 9).any()


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_copies_keep_what_is_shared(clone):
    twin = clone(Tied())
    assert twin.first is twin.second


def test_modes_reach_all_modules(network):
    model = network()
    assert model.training
    assert model.eval() is model
    assert not any(m.training for m in model.modules())
    model.train()
    assert all(m.training for m in model.modules())
    model.train(False)
    assert not model[3][0].training


def test_what_is_no_mode(network):
    model = network()
    with pytest.raises(TypeError, match=r"^Sequential.train: mode must be a bool, got 'x'"):
        model.train("x")
    assert all(m.training for m in model.modules())


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("running_mean", np.zeros(5), "buffer running_mean must be a Tensor or None, got ndarray"),
        ("running_var", nn.Parameter(np.ones(5)), "buffer running_var .*, got Parameter"),
        ("weight", np.ones(5), "parameter weight must be a Parameter or None, got ndarray"),
        ("bias", lucid.tensor(np.ones(5)), "parameter bias .*, got Tensor"),
    ],
)
def test_an_assignment_drops_nothing_from_the_state(name, value, match, device):
    for options in ({}, {"affine": False, "track_running_stats": False}):
        layer = nn.BatchNorm1d(5, **options, device=device)
        before = getattr(layer, name)
        with pytest.raises(TypeError, match=f"^BatchNorm1d: {match}"):
            setattr(layer, name, value)
        assert getattr(layer, name) is before


def test_parts_may_be_exchanged_and_removed(tensor, device, network):
    layer = nn.BatchNorm1d(5, device=device)
    layer.weight, layer.running_mean = nn.Parameter(np.full(5, 2.0)), tensor(np.ones(5))
    np.testing.assert_array_equal(layer.state_dict()["weight"], np.full(5, 2))
    layer.bias = layer.running_var = None
    del layer.running_mean
    assert list(layer.state_dict()) == ["weight", "num_batches_tracked"]
    model = network()
    with pytest.raises(TypeError, match=r"^Sequential: module 0 must be a Module or None"):
        setattr(model, "0", np.tanh)
    setattr(model, "0", nn.ReLU())
    assert len(model) == 4


def test_a_buffer_is_a_tensor():
    module = nn.Module()
    with pytest.raises(TypeError, match=r"^Module: buffer a must be a Tensor or None, got ndarray"):
        module.register_buffer("a", np.ones(3))
    assert module.state_dict() == {}


def test_no_module_contains_itself():
    outer, inner = nn.Sequential(nn.ReLU()), nn.Module()
    outer.inner = inner
    for module in (outer, inner):
        with pytest.raises(ValueError, match=r": parent must not contain the module"):
            inner.parent = module
    assert len(list(outer.modules())) == 3


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: nn.BatchNorm1d(-1), ValueError, "num_features must not be negative, got -1"),
        (lambda: nn.BatchNorm2d(3.0), TypeError, "num_features must be an integer, got 3.0"),
        (lambda: nn.BatchNorm1d(3, device="xyz"), ValueError, 'device must be "cpu" .* .xyz.'),
        (lambda: nn.BatchNorm1d(3, affine=False, dtype=int), TypeError, "dtype must .* got int64"),
        (lambda: nn.Linear(-1, 2), ValueError, "in_features must not be negative, got -1"),
        (lambda: nn.Linear(1, None), TypeError, "out_features must be an integer, got None"),
        (lambda: nn.Linear(1, 2, dtype=bool), TypeError, "dtype must be a floating .* got bool"),
        (lambda: nn.Linear(1, 2, device=0), ValueError, "device must be .* got 0"),
    ],
)
def test_bad_options(make, error, match):
    with pytest.raises(error, match=f"^(BatchNorm.d|Linear): {match}"):
        make()


def test_zero_grad(batch, network):
    model = network()
    np.sum(model(batch(6, 4)) ** 2).backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_to_dtype(batch, array, device, network):
    model = network()
    weight = model[0].weight
    np.sum(model(batch(6, 4))).backward()
    assert model.to(np.float64) is model
    assert dtype_name(weight.grad.dtype) == "float64"
    assert model[0].weight is weight  # an optimizer's reference stays good
    assert {dtype_name(p.dtype) for p in model.parameters()} == {"float64"}
    assert dtype_name(model[1].running_var.dtype) == "float64"
    assert dtype_name(model[1].num_batches_tracked.dtype) == "int64"
    assert dtype_name(model(array(rng.normal(size=(6, 4)))).dtype) == "float64"
    assert dtype_name(model.to(device)[0].weight.dtype) == "float64"
    with pytest.raises(TypeError, match=r"Sequential.to: .*floating dtype, got int32"):
        model.to("int32")


def test_frozen_parameters_get_no_gradient(batch, network):
    model = network()
    model[0].weight.requires_grad = False
    np.sum(model(batch(6, 4)) ** 2).backward()
    assert model[0].weight.grad is None
    assert model[0].bias.grad is not None


def test_repr(network):
    assert repr(network()) == (
        "Sequential(\n"
        "  (0): Linear(in_features=4, out_features=5, bias=True)\n"
        "  (1): BatchNorm1d(5, eps=1e-05, momentum=0.1, affine=True, bias=True, "
        "track_running_stats=True)\n"
        "  (2): ReLU()\n"
        "  (3): Sequential(\n"
        "    (0): Linear(in_features=5, out_features=3, bias=False)\n"
        "  )\n"
        ")"
    )


def test_repr_is_pytorchs(network):
    torch = pytest.importorskip("torch")
    peer = torch.nn.Sequential(
        torch.nn.Linear(4, 5),
        torch.nn.BatchNorm1d(5),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Linear(5, 3, bias=False)),
    )
    # Releases before 2.13 leave out batch norm's bias.
    assert repr(network()).replace("bias=True, ", "") == repr(peer).replace("bias=True, ", "")


def test_sequential_is_a_sequence(network):
    model = network()
    assert len(model) == 4
    assert model[-1] is list(model)[3]
    assert [type(m) for m in model[1:3]] == [nn.BatchNorm1d, nn.ReLU]
    assert model[1:3][0] is model[1]
    with pytest.raises(TypeError, match="Sequential: argument 1 must be a Module"):
        nn.Sequential(nn.ReLU(), np.tanh)


def test_linear(array, device):
    layer = nn.Linear(3, 2, rng=0, dtype="f8", device=device)
    x = rng.normal(size=(4, 5, 3))
    y = layer(array(x))
    assert isinstance(y, lucid.Tensor)
    np.testing.assert_allclose(
        y.data, x @ np.array(layer.weight.data).T + np.array(layer.bias.data), rtol=1e-13
    )
    assert np.abs(np.array(layer.weight.data)).max() <= 1 / np.sqrt(3)
    np.testing.assert_array_equal(
        layer.weight.data, nn.Linear(3, 2, rng=0, dtype="f8", device=device).weight.data
    )


def test_a_module_must_define_forward():
    with pytest.raises(NotImplementedError, match="Module must define forward"):
        nn.Module()(1)


def test_buffers_may_be_none(tensor, device):
    layer = nn.BatchNorm1d(3, track_running_stats=False, device=device)
    assert list(layer.state_dict()) == ["weight", "bias"]
    layer.running_mean, layer.running_var = tensor(np.zeros(3)), tensor(np.ones(3))
    assert [n for n, _ in layer.named_buffers()] == ["running_mean", "running_var"]
