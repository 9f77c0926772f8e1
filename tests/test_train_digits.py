"""The main example: a short run by default, the whole of it among the slow tests."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "train_digits.py"


@pytest.fixture(scope="module")
def train_digits():
    for name in ("matplotlib", "safetensors", "sklearn", "tqdm"):
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location("train_digits", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_short_run(train_digits, tmp_path, capsys):
    train_digits.main(["--epochs", "3", "--output", str(tmp_path / "new" / "folder")])
    out = capsys.readouterr().out
    assert "reloaded weights give the same predictions" in out
    assert sum(line.startswith("epoch") for line in out.splitlines()) == 3
    output = tmp_path / "new" / "folder"
    assert (output / "curves.png").read_bytes().startswith(b"\x89PNG")
    metrics = json.loads((output / "metrics.json").read_text())
    assert 0.9 < metrics["test_accuracy"] <= 1
    assert [set(h) for h in metrics["history"]] == [
        {"train_loss", "train_accuracy", "test_loss", "test_accuracy"}
        | {"running_mean", "running_var"}
    ] * 3

    from safetensors.numpy import load_file

    model = train_digits.make_network(seed=5)
    model.load_state_dict(load_file(output / "model.safetensors"))
    _, x_test, _, y_test = train_digits.load_data(seed=0)
    logits = train_digits.predict(model, x_test, "cpu")
    assert np.mean(logits.argmax(axis=1) == y_test) == metrics["test_accuracy"]


def test_same_seed_same_result(train_digits, capsys):
    lines = []
    for seed in ("3", "3", "4"):
        train_digits.main(["--epochs", "1", "--seed", seed])
        out = capsys.readouterr().out
        lines.append(next(line for line in out.splitlines() if line.startswith("epoch")))
    assert lines[0] == lines[1] != lines[2]


def test_same_on_the_gpu(train_digits, mx, tmp_path):
    histories = []
    for device in ("cpu", "gpu"):
        train_digits.main(["--epochs", "2", "--device", device, "--output", str(tmp_path)])
        histories.append(json.loads((tmp_path / "metrics.json").read_text())["history"])
    for here, there in zip(*histories, strict=True):
        assert abs(here["test_accuracy"] - there["test_accuracy"]) <= 0.01
        assert abs(here["train_loss"] - there["train_loss"]) <= 0.01
        np.testing.assert_allclose(here["running_mean"], there["running_mean"], atol=0.02)


def test_bad_epochs(train_digits, capsys):
    with pytest.raises(SystemExit):
        train_digits.main(["--epochs", "0"])
    assert "--epochs: must be at least 1, got 0" in capsys.readouterr().err


@pytest.mark.slow
def test_whole_run(train_digits, tmp_path):
    train_digits.main(["--seed", "1", "--output", str(tmp_path)])  # CI runs seed 0 as a user does
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["test_accuracy"] >= 0.97
