"""The main example: a short run by default, the whole of it among the slow tests."""

import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "train_digits.py"
ALONE = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # beside other tests


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
    (tmp_path / "any").touch()
    for name in train_digits.FILES:
        assert (output / name).stat().st_mode == (tmp_path / "any").stat().st_mode
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


def refused(capsys, train_digits, *argv):
    """The one line that a command line is answered with, before any training."""
    with pytest.raises(SystemExit) as stop:
        train_digits.main([*argv])
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--epochs=0", "--epochs: must be at least 1, got 0"),
        ("--seed=-1", "--seed: must be from 0 to 2**32 - 1, got -1"),
        ("--seed=4294967296", "--seed: must be from 0 to 2**32 - 1, got 4294967296"),
    ],
)
def test_bad_numbers(train_digits, capsys, argument, message):
    assert refused(capsys, train_digits, argument).endswith(message)


def test_the_largest_seed(train_digits):
    seed = train_digits.parse([f"--seed={2**32 - 1}"]).seed
    assert len(train_digits.load_data(seed)[0]) == 1347
    train_digits.make_network(seed + 1)


@pytest.mark.parametrize("name", ["sklearn", "tqdm", "matplotlib", "safetensors", "mlx"])
def test_what_is_not_installed(train_digits, monkeypatch, tmp_path, capsys, name):
    there = train_digits.find_spec
    monkeypatch.setattr(train_digits, "find_spec", lambda n: n != name and (n == "mlx" or there(n)))
    extra = "mlx" if name == "mlx" else "examples"
    argv = ["--output", str(tmp_path / "new"), "--device", "gpu" if name == "mlx" else "cpu"]
    line = refused(capsys, train_digits, *argv)
    assert ("MLX" if name == "mlx" else name) in line
    assert f"pip install 'lucid-numpy[{extra}]'" in line
    assert not (tmp_path / "new").exists()


def test_curves_and_weights_need_their_libraries_only_if_asked_for(train_digits, monkeypatch):
    there = train_digits.find_spec
    absent = ("matplotlib", "safetensors")
    monkeypatch.setattr(train_digits, "find_spec", lambda n: n not in absent and there(n))
    assert train_digits.parse([]).output is None


def test_output_that_is_a_file(train_digits, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    line = refused(capsys, train_digits, "--output", str(tmp_path / "file"))
    assert line.endswith(f"--output: {tmp_path / 'file'} is no folder")
    line = refused(capsys, train_digits, "--output", str(tmp_path / "file" / "below"))
    assert "--output: can't write to" in line
    assert (tmp_path / "file").read_text() == "mine"


def test_output_that_is_read_only(train_digits, tmp_path, capsys):
    tmp_path.chmod(0o555)
    try:
        try:
            (tmp_path / "file").touch()
        except OSError:
            line = refused(capsys, train_digits, "--output", str(tmp_path))
            assert line.endswith("Permission denied")
        else:
            pytest.skip("this user may write anywhere")
    finally:
        tmp_path.chmod(0o755)


def test_output_on_a_system_that_refuses(train_digits, tmp_path, monkeypatch, capsys):
    """As above, also for those who may write anywhere."""

    def refuse(dir):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(train_digits.tempfile, "TemporaryFile", refuse)
    line = refused(capsys, train_digits, "--output", str(tmp_path))
    assert line.endswith(f"--output: can't write to {tmp_path}: Read-only file system")


def test_a_file_that_can_not_be_replaced(train_digits, tmp_path, capsys):
    (tmp_path / "metrics.json").mkdir()
    line = refused(capsys, train_digits, "--output", str(tmp_path))
    assert line.endswith(f"--output: {tmp_path / 'metrics.json'} is a folder")


def test_an_earlier_run_is_replaced_and_nothing_else(train_digits, tmp_path, capsys):
    for name in ("metrics.json", "notes.txt"):
        (tmp_path / name).write_text("old")
    train_digits.main(["--epochs", "1", "--output", str(tmp_path)])
    assert json.loads((tmp_path / "metrics.json").read_text())["epochs"] == 1
    assert {p.name for p in tmp_path.iterdir()} == {*train_digits.FILES, "notes.txt"}
    assert (tmp_path / "notes.txt").read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o007])
def test_permissions_follow_the_umask(train_digits, tmp_path, umask, capsys):
    """Those of what `main` writes; it is run once, in `test_short_run`."""
    before = os.umask(umask)
    try:
        train_digits.write(tmp_path / "weights", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "weights").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupt(train_digits, tmp_path):
    command = [sys.executable, "-P", SCRIPT, "--epochs", "10000", "--output", tmp_path / "new"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE
    ) as script:
        while not script.stdout.readline().startswith("epoch"):
            assert script.poll() is None
        script.send_signal(signal.SIGINT)
        _, err = script.communicate(timeout=60)
    assert script.returncode == 130
    assert err.splitlines()[-1] == "train_digits: interrupted"
    assert "Traceback" not in err
    assert not list((tmp_path / "new").iterdir())


def test_a_full_disk_is_one_line(train_digits, monkeypatch, tmp_path):
    """What can't be known before still is no traceback, and leaves no half of a file."""
    code = f"""
import runpy, sys
from pathlib import Path
def full(self, data):
    raise OSError(28, "No space left on device")
Path.write_bytes = full
sys.argv = ["train_digits.py", "--epochs=1", "--output", {str(tmp_path)!r}]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=ALONE
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "train_digits: [Errno 28] No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_whole_run(train_digits, tmp_path):
    train_digits.main(["--seed", "1", "--output", str(tmp_path)])  # CI runs seed 0 as a user does
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["test_accuracy"] >= 0.97
