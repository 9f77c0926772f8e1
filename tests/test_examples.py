"""The gallery's examples run, and find what they say they find; see also test_train_digits.py."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(capsys, tmp_path):
    """Run an example with ``--output``; returns what `main` does and what was printed."""
    for name in ("matplotlib", "sklearn", "tqdm"):
        pytest.importorskip(name)

    def run(name, *argv):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        result = module.main([*argv, "--output", str(tmp_path / "new" / "folder")])
        (picture,) = (tmp_path / "new" / "folder").glob("*.png")
        assert picture.read_bytes().startswith(b"\x89PNG")
        return result, capsys.readouterr().out

    return run


def test_fit_with_scipy(run):
    fits, out = run("fit_with_scipy")
    assert list(fits) == ["L-BFGS-B", "Newton-CG", "trust-ncg"]
    best = min(f["value"] for f in fits.values())
    for name, f in fits.items():
        # The loss is convex: where it has no slope, there is its only optimum.
        assert f["slope"] < 1e-4
        assert f["value"] - best < 1e-8 * best
        np.testing.assert_allclose(f["w"], fits["trust-ncg"]["w"], atol=1e-5)
        assert f"{f['value']:.9f}" in next(
            x for x in out.splitlines() if x.strip().startswith(name)
        )
    # Second derivatives are worth something.
    assert 2 * fits["trust-ncg"]["iterations"] < fits["L-BFGS-B"]["iterations"]

    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression

    data = load_breast_cancer()
    x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    sklearns = LogisticRegression(C=1.0, tol=1e-8, max_iter=10_000).fit(x, data.target)
    # Its optimizer stops at a relative change of the loss, not at a slope: 1e-6 of the largest.
    np.testing.assert_allclose(fits["trust-ncg"]["w"][:-1], sklearns.coef_[0], atol=1e-4)
    np.testing.assert_allclose(fits["trust-ncg"]["w"][-1], sklearns.intercept_[0], atol=1e-4)


def test_image_stack(run):
    track, out = run("image_stack", "--images", "60", "--block", "20")
    assert "(60, 96, 96, 3) float32" in out
    np.testing.assert_array_equal(track["images"], [20, 40, 60])
    assert np.all(track["lucid.Moments"] <= 4 * np.spacing(1100.0))  # the mean's own last place
    assert np.all(track["NumPy, float32"] > 1e3 * track["lucid.Moments"])


def test_gradient_penalty(run):
    accuracies, _ = run("gradient_penalty", "--epochs", "5")
    without, penalised = accuracies["without penalty"], accuracies["with penalty"]
    assert without[0] > 0.9
    assert penalised[0] > 0.9
    assert penalised[4] > without[4] + 0.05


def test_custom_op(run):
    error, out = run("custom_op", "--noise", "0")
    assert "gradcheck: True" in out
    assert "gradgradcheck: True" in out
    assert error < 0.02


@pytest.mark.parametrize(
    ("name", "argument", "message"),
    [
        ("fit_with_scipy", "--strength=0", "--strength: must be positive, got 0"),
        ("image_stack", "--block=0", "--block: must be at least 1, got 0"),
        ("gradient_penalty", "--strength=-1", "--strength: must be positive, got -1"),
        ("custom_op", "--seed=-1", "--seed: must not be negative, got -1"),
        ("gradient_penalty", "--seed=-1", "--seed: must not be negative, got -1"),
        ("image_stack", "--seed=-1", "--seed: must not be negative, got -1"),
    ],
)
def test_bad_arguments(run, capsys, name, argument, message):
    with pytest.raises(SystemExit):
        run(name, argument)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["custom_op", "fit_with_scipy", "gradient_penalty", "image_stack"])
def test_output_is_checked_before_the_work(run, tmp_path, capsys, name):
    (tmp_path / "new").write_text("a file where the folder should be")
    with pytest.raises(SystemExit):
        run(name)
    out, err = capsys.readouterr()
    assert out == ""
    assert "argument --output: " in err
    assert str(tmp_path / "new") in err
