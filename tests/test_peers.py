"""The comparison with peers runs, and compares like with like."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "asv_bench" / "peers.py"


def run(*options, **environment):
    command = [sys.executable, SCRIPT, "--seconds", "0.001", "--libraries", *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="needs Matplotlib")
def test_table_json_and_chart(tmp_path):
    result = run(
        *("lucid", "numpy", "bottleneck", "--cases", r"\((256, 512|8, 16)\)"),
        *("--json", tmp_path / "peers.json", "--plot", tmp_path / "peers.png"),
    )
    assert result.returncode == 0, result.stderr
    rows = json.loads((tmp_path / "peers.json").read_text())["rows"]
    lines = [line for line in result.stdout.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in lines[2:]] == [r["case"] for r in rows]
    assert [r["case"] for r in rows] == [
        "forward (256, 512)",
        "backward (256, 512)",
        "mean (8, 16) axis 0",
        "forward (8, 16)",
        "step (8, 16)",
    ]
    assert {"lucid", "lucid, cold", "NumPy"} <= set(rows[0]["share"])
    assert rows[2]["limit"] is None
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("compiler", ["cc", "no-such-compiler"])
def test_limits(tmp_path, threads, compiler):
    file = tmp_path / "peers.json"
    result = run("lucid", "--cases", r"\(256", "--threads", threads, "--json", file, CC=compiler)
    assert result.returncode == 0, result.stderr
    found = json.loads(file.read_text())
    assert found["threads"] == int(threads)
    assert compiler == "cc" or found["limits"].startswith("by NumPy")
    assert all(r["limit"] > 0 for r in found["rows"])


def test_a_wrong_result_stops_the_comparison():
    script = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import peers\n"
        "from comparison.libraries import NumPy\n"
        "NumPy.mean = lambda self, d: lambda: d.x.mean(d.case.axis) + 1\n"
        "peers.main(['--libraries', 'lucid', 'numpy', '--cases', 'mean .8, 16'])"
    )
    result = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert result.returncode == 1
    assert "NumPy disagrees with mean (8, 16) axis 0" in result.stderr
