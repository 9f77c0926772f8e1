"""`nn.BatchNorm1d/2d/3d`: PyTorch's semantics."""

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid import nn
from lucid._tensor import dtype_name

rng = np.random.default_rng(0)
KINDS = [
    (nn.BatchNorm1d, (8, 3)),
    (nn.BatchNorm1d, (8, 3, 4)),
    (nn.BatchNorm2d, (4, 3, 5, 6)),
    (nn.BatchNorm3d, (2, 3, 2, 3, 4)),
]


@pytest.fixture
def batch(array):
    """Random arrays of each device."""
    return lambda shape: array(rng.normal(2, 3, size=shape).astype("f4"))


@pytest.mark.parametrize(("layer", "shape"), KINDS)
def test_training_then_evaluation(layer, shape, tensor, array, device, batch):
    bn, x = layer(3, momentum=0.3, device=device), batch(shape)
    mean, var, bias, weight = (array(np.full(3, v, "f4")) for v in (0, 1, 0, 1))
    y = bn(tensor(x))
    expected = F.batch_norm(x, mean, var, weight, bias, True, 0.3)
    np.testing.assert_array_equal(y.data, expected)
    np.testing.assert_array_equal(bn.running_mean.data, mean)
    np.testing.assert_array_equal(bn.running_var.data, var)
    assert bn.num_batches_tracked.item() == 1
    bn.eval()
    np.testing.assert_array_equal(bn(tensor(x)).data, F.batch_norm(x, mean, var, weight, bias))
    assert bn.num_batches_tracked.item() == 1


def test_parameters_are_float32_and_output_is_the_inputs(device, array):
    bn = nn.BatchNorm1d(3, device=device)
    assert {dtype_name(t.dtype) for t in (*bn.parameters(), bn.running_mean)} == {"float32"}
    assert dtype_name(bn.num_batches_tracked.dtype) == "int64"
    assert dtype_name(bn(array(rng.normal(size=(4, 3)))).dtype) == "float64"
    assert dtype_name(nn.BatchNorm1d(3, dtype="f8", device=device).running_var.dtype) == "float64"


def test_an_array_is_a_constant_input(device, batch):
    bn, x = nn.BatchNorm1d(3, device=device), batch((8, 3))
    y = bn(x)
    assert isinstance(y, lucid.Tensor)
    assert y.requires_grad
    np.sum(y * y).backward()
    assert bn.weight.grad is not None
    plain = nn.BatchNorm1d(3, affine=False, device=device)
    assert type(plain(x)) is type(x)
    np.testing.assert_allclose(plain(x.tolist()), plain(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["running_mean", "running_var", "num_batches_tracked"])
def test_a_read_only_buffer_changes_nothing(name):
    bn = nn.BatchNorm1d(3)
    before = bn.state_dict()
    getattr(bn, name).data.flags.writeable = False
    with pytest.raises(ValueError, match=f"{name} must be writable"):
        bn(np.ones((8, 3)))
    for key, value in bn.state_dict().items():
        np.testing.assert_array_equal(value, before[key])


def test_a_graph_that_saved_the_counter_notices(tensor, device, batch):
    bn = nn.BatchNorm1d(3, device=device)
    x = tensor(2.0, requires_grad=True)
    y = x * bn.num_batches_tracked
    bn(batch((8, 3)))
    with pytest.raises(RuntimeError, match="changed since by copy_"):
        y.backward()


def test_cumulative_average(device, batch):
    bn = nn.BatchNorm1d(3, momentum=None, device=device)
    batches = [batch((6, 3)) for _ in range(4)]
    for x in batches:
        bn(x)
    mean = np.mean([np.mean(np.array(x, "f8"), axis=0) for x in batches], axis=0)
    var = np.mean([np.var(np.array(x, "f8"), axis=0, ddof=1) for x in batches], axis=0)
    np.testing.assert_allclose(bn.running_mean.data, mean, rtol=1e-6)
    np.testing.assert_allclose(bn.running_var.data, var, rtol=1e-6)
    assert bn.num_batches_tracked.item() == 4


def test_settings_may_be_reassigned(device, batch):
    bn, x = nn.BatchNorm1d(3, device=device), batch((8, 3))
    bn.momentum = 1.0
    bn(x)
    np.testing.assert_allclose(bn.running_mean.data, x.mean(axis=0), rtol=1e-6)
    bn.eps = 10.0
    np.testing.assert_allclose(
        bn(x).data, (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 10), atol=1e-6
    )
    state = bn.state_dict()
    bn.track_running_stats = False
    bn(batch((8, 3)))
    for name, value in bn.state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    bn.momentum = None
    bn.track_running_stats = True
    bn(batch((8, 3)))
    assert bn.num_batches_tracked.item() == 3


def test_without_running_statistics(device, batch):
    bn = nn.BatchNorm1d(3, track_running_stats=False, device=device)
    assert bn.running_mean is bn.running_var is bn.num_batches_tracked is None
    x = batch((8, 3))
    np.testing.assert_array_equal(bn.eval()(x).data, bn.train()(x).data)
    bn.track_running_stats = True  # no buffers appear
    bn.momentum = None
    bn(x)
    with pytest.raises(ValueError, match="more than one value per channel"):
        bn.eval()(x[:1])


@pytest.mark.parametrize(("affine", "bias"), [(True, True), (True, False), (False, True)])
def test_affine(affine, bias, tensor, device, batch):
    bn = nn.BatchNorm2d(3, affine=affine, bias=bias, device=device)
    assert (bn.weight is None, bn.bias is None) == (not affine, not (affine and bias))
    assert bn(tensor(batch((2, 3, 4, 4)))).shape == (2, 3, 4, 4)
    assert f"affine={affine}, bias={affine and bias}" in repr(bn)


@pytest.mark.parametrize(
    ("layer", "shape", "match"),
    [
        (nn.BatchNorm1d, (3,), r"BatchNorm1d: expected 2-D input \(N, C\) or 3-D .*, got 1-D"),
        (nn.BatchNorm1d, (2, 3, 4, 4), "BatchNorm1d: .* got 4-D"),
        (
            nn.BatchNorm2d,
            (2, 3, 4),
            r"BatchNorm2d: expected a 4-D input \(N, C, H, W\), got 3-D",
        ),
        (
            nn.BatchNorm3d,
            (2, 3, 4, 4),
            r"BatchNorm3d: expected a 5-D input \(N, C, D, H, W\), got 4-D",
        ),
        (nn.BatchNorm1d, (8, 4), r"BatchNorm1d: expected 3 channels on axis 1 .*\(8, 4\)"),
        (nn.BatchNorm1d, (1, 3), r"batch_norm: training needs more than one value per channel"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"affine": False, "track_running_stats": False}])
def test_bad_input_changes_nothing(layer, shape, match, options, array, device):
    bn = layer(3, **options, device=device)
    before = bn.state_dict()
    with pytest.raises(ValueError, match=match):
        bn(array(np.ones(shape, "f4")))
    for name, value in bn.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    ("setting", "match"), [({"eps": -1.0}, "eps"), ({"momentum": np.inf}, "momentum")]
)
def test_a_failed_call_is_not_counted(setting, match, device, batch):
    bn = nn.BatchNorm1d(3, **setting, device=device)
    with pytest.raises(ValueError, match=f"batch_norm: {match} must be"):
        bn(batch((8, 3)))
    assert bn.num_batches_tracked.item() == 0
    np.testing.assert_array_equal(bn.running_mean.data, 0)


def test_an_empty_batch_counts_but_moves_nothing(device, array):
    bn = nn.BatchNorm2d(3, device=device)
    assert bn(array(np.empty((0, 3, 4, 4), "f4"))).shape == (0, 3, 4, 4)
    assert bn.num_batches_tracked.item() == 1
    np.testing.assert_array_equal(bn.running_mean.data, 0)
    np.testing.assert_array_equal(bn.running_var.data, 1)


@pytest.mark.parametrize(("layer", "shape"), KINDS)
@pytest.mark.parametrize("momentum", [0.1, None])
def test_against_torch(layer, shape, momentum, device, batch):
    torch = pytest.importorskip("torch")
    bn = layer(3, momentum=momentum, device=device)
    peer = getattr(torch.nn, layer.__name__)(3, momentum=momentum)
    for _ in range(3):
        x = batch(shape)
        y, expected = bn(x), peer(torch.tensor(x))
        np.testing.assert_allclose(y.data, expected.detach().numpy(), atol=1e-5)
    for name, value in peer.state_dict().items():
        np.testing.assert_allclose(bn.state_dict()[name], value.numpy(), rtol=1e-5)
    x = batch(shape)
    np.testing.assert_allclose(
        bn.eval()(x).data, peer.eval()(torch.tensor(x)).detach().numpy(), atol=1e-5
    )


def test_weights_travel_both_ways_with_torch(tmp_path, device, batch):
    torch = pytest.importorskip("torch")
    from safetensors import numpy as for_numpy, torch as for_torch

    def networks():
        yield nn.Sequential(
            nn.Linear(4, 5, device=device),
            nn.BatchNorm1d(5, device=device),
            nn.ReLU(),
            nn.Linear(5, 3, device=device),
        )
        yield torch.nn.Sequential(
            torch.nn.Linear(4, 5),
            torch.nn.BatchNorm1d(5),
            torch.nn.ReLU(),
            torch.nn.Linear(5, 3),
        )

    mine, theirs = networks()
    x = batch((16, 4))
    theirs(torch.tensor(x))
    mine.load_state_dict(theirs.state_dict())  # without a file
    np.testing.assert_array_equal(mine[1].running_mean.data, theirs[1].running_mean.numpy())
    mine, _ = networks()
    for_torch.save_file(theirs.state_dict(), tmp_path / "torch.safetensors")
    mine.load_state_dict(for_numpy.load_file(tmp_path / "torch.safetensors"))
    expected = theirs.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(mine.eval()(x).data, expected, atol=1e-6)

    mine, theirs = networks()
    mine(x)
    for_numpy.save_file(mine.state_dict(), tmp_path / "lucid.safetensors")
    theirs.load_state_dict(for_torch.load_file(tmp_path / "lucid.safetensors"))
    actual = theirs.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(actual, mine.eval()(x).data, atol=1e-6)
