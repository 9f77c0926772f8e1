"""README holds word by word, where a test can read it."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_example(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == code.splitlines()[-1].split("# ")[1]
    assert len(code.splitlines()) == 12  # "In twelve lines"


def test_two_commands():
    (block,) = re.findall(r"## Two commands\n.*?```sh\n(.*?)```", README, re.DOTALL)
    commands = [line for line in block.splitlines() if line and not line.startswith("#")]
    assert len(commands) == 2
    script = re.search(r"(examples/\w+\.py) --output", commands[0])[1]
    assert (ROOT / script).exists()
    assert commands[1].endswith("-P -m pytest --doctest-modules --pyargs lucid tests")


def test_sizes():
    """The part to read in an afternoon, and the whole of it."""
    most, pattern, times = re.search(
        r"under ([\d,]+) lines,.*?`cat (.*?) \| wc -l`.*?is (\w+) times that", README, re.DOTALL
    ).groups()

    def lines(paths):
        return sum(len(path.read_bytes().splitlines()) for path in paths)

    part = lines(path for glob in pattern.split() for path in ROOT.glob(glob))
    most = int(most.replace(",", ""))
    assert most - 500 < part < most
    suffixes = {".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h"}
    whole = lines(p for p in (ROOT / "lucid").rglob("*") if p.suffix in suffixes)
    assert round(whole / part) == {"five": 5, "six": 6, "seven": 7, "eight": 8}[times]


def test_names_exist():
    """What the table and the text call; names without a module are those of the row's first."""
    (table,) = re.findall(r"\| to \| call \|\n\|.*?\n(.*?)\n\n", README, re.DOTALL)
    spaces = {"lucid": lucid, "nn": lucid.nn, "F": F}
    dotted = [n for n in re.findall(r"`([\w.]+)(?:\(|`)", README) if n.split(".")[0] in spaces]
    assert len(dotted) > 10
    for name in dotted:
        first, *rest = name.split(".")
        functools.reduce(getattr, rest, spaces[first])
    bare = set(re.findall(r"`(\w+)`", table))
    assert {"var", "mean_var", "Moments", "hvp", "Sequential"} <= bare
    for name in bare:
        assert any(hasattr(m, name) for m in (lucid, lucid.nn)), name
    assert all(hasattr(lucid.nn, f"BatchNorm{n}d") for n in (1, 2, 3))


@pytest.mark.parametrize(
    "glob",
    ["*.md", "docs/*.rst", "docs/*.py", "examples/*.*", ".ci/run", ".github/workflows/*.yml"],
)
def test_extras_and_the_name_of_the_distribution(glob):
    text = "".join(path.read_text("utf-8") for path in ROOT.glob(glob))
    assert text
    for name, extras in re.findall(r"""["' ](\.|lucid[\w-]*)\[([\w,]+)\]""", text):
        assert name in (".", PROJECT["name"])
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_self_references_name_the_distribution():
    for requirements in PROJECT["optional-dependencies"].values():
        for requirement in requirements:
            assert not re.match(r"lucid\b(?!-numpy\[)", requirement), requirement


def test_requirements():
    assert "Python ≥ 3.11" in README
    assert PROJECT["requires-python"] == ">=3.11"


def test_options_and_files_of_the_example():
    pytest.importorskip("sklearn")
    script = ROOT / "examples" / "train_digits.py"
    done = subprocess.run(
        [sys.executable, "-P", script, "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"--\w+", done.stdout)) - {"--help"}
    (text,) = re.findall(r"`examples/train_digits.py` (.*?)\n\n", README, re.DOTALL)
    assert options == set(re.findall(r"`(--\w+)", text)) - {"--help"}
    assert "`--device {cpu,gpu}`" in text
    assert "--device {cpu,gpu}" in done.stdout
    files = ast.literal_eval(re.search(r"^FILES = (.*)$", script.read_text("utf-8"), re.M)[1])
    assert set(re.findall(r"`DIR/([\w.]+)`", text)) == set(files)

    from sklearn.datasets import load_digits

    assert re.search(r"([\d,]+) real images", README)[1] == f"{len(load_digits().data):,}"


def test_passes_of_the_gpu_are_those_tested():
    tree = ast.parse((ROOT / "tests" / "test_mlx_lazy.py").read_text("utf-8"))
    (tested,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "PASSES"
    )
    columns = ("mean", "mean_var", "forward", "inference", "backward", "double backward")
    for i, row in enumerate(("eager, on MLX's CPU device", "compiled, on a GPU")):
        cells = re.search(rf"\| {row} \| (.*) \|", README)[1].split(" | ")
        assert cells == ["{} + {}".format(*tested[name][i]) for name in columns]


def test_errors_of_the_gpu(mx):
    """The sentence with a million values of N(1000, 1), and batch norm at mean 10,000."""
    rng = np.random.default_rng(0)
    x = rng.normal(1000, 1, 1_000_000).astype(np.float32)
    exact = x.astype(np.longdouble)
    mean, var = lucid.mean_var(mx.array(x))
    assert abs(mean.item() - exact.mean()) <= np.spacing(np.float32(1000))
    assert abs(var.item() / exact.var() - 1) <= 1e-6
    x = rng.normal(10_000, 1, (1000, 16)).astype(np.float32)
    exact = x.astype(np.longdouble)
    y = np.array(F.batch_norm(mx.array(x), None, None, training=True))
    expected = (exact - exact.mean(0)) / np.sqrt(exact.var(0) + 1e-5)
    assert np.abs(y - expected).max() <= 2e-6


def test_the_table_of_times_is_whole():
    """Each library of the table is named with its version, and each case has a time for lucid."""
    (table,) = re.findall(r"(\| float32 \|.*?)\n\n", README, re.DOTALL)
    head, _, *rows = table.splitlines()
    assert len(rows) == 10
    columns = head.count("|")
    for row in rows:
        assert row.count("|") == columns
        assert re.match(r"\| [^|]+ \| [\d.]+ (ms|µs) \|", row)


def test_links():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
