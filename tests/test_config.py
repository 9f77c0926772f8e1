"""Configuration: what show_config says, the environment, and the number of threads."""

import os
import subprocess
import sys

import numpy as np
import pytest
import threadpoolctl

import lucid
from lucid._kernels import provider as table


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


def test_show_config_says_what_runs(isa, capsys):
    config = lucid.show_config(mode="dicts")
    assert {"provider", "isa", "threads", "available", "entries"} <= config.keys()
    assert config["isa"] == isa
    assert config["provider"] in config["available"]["providers"]
    assert config["isa"] in config["available"]["isas"]
    assert set(config["entries"].values()) <= {*config["available"]["providers"], "simd"}
    assert config["numpy"] == np.__version__
    assert lucid.show_config() is None
    printed = capsys.readouterr().out
    for key in config:
        assert f"{key}:" in printed
    with pytest.raises(ValueError, match=r"show_config: mode must be .* got 'json'"):
        lucid.show_config("json")


def test_environment_chooses_the_instruction_set():
    for isa in table.available()["isas"]:
        out = run("import lucid; print(lucid.show_config('dicts')['isa'])", LUCID_ISA=isa)
        assert out.stdout == f"{isa}\n", out.stderr


@pytest.mark.parametrize("variable", ["LUCID_ISA", "LUCID_PROVIDER"])
def test_unknown_names_raise_import_error_with_those_available(variable):
    out = run("import lucid", **{variable: "nonesuch"})
    assert out.returncode != 0
    assert f"ImportError: {variable}: must be one of" in out.stderr
    known = table.available()["isas" if variable == "LUCID_ISA" else "providers"]
    assert all(repr(name) in out.stderr for name in known)


def test_import_loads_neither_scipy_nor_mlx():
    code = "import sys, lucid; print([m for m in ('scipy', 'mlx', 'torch') if m in sys.modules])"
    assert run(code).stdout == "[]\n"


def test_threads_are_limited_by_the_runtime_and_the_environment(threads):
    usable = lucid.get_num_threads()
    threads(1)
    assert lucid.get_num_threads() == 1
    threads(10_000)
    assert lucid.get_num_threads() >= usable
    out = run("import lucid; print(lucid.get_num_threads())", OMP_NUM_THREADS="1")
    assert out.stdout == "1\n"
    if "openmp" in {pool["user_api"] for pool in threadpoolctl.threadpool_info()}:
        with threadpoolctl.threadpool_limits(1, user_api="openmp"):
            assert lucid.get_num_threads() == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_threads_follow_the_affinity():
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "import lucid; print(lucid.get_num_threads())"
    )
    assert run(code).stdout == "1\n"


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (-2, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_bad_thread_counts(value, error):
    before = lucid.get_num_threads()
    with pytest.raises(error, match=r"set_num_threads: n must be"):
        lucid.set_num_threads(value)
    assert lucid.get_num_threads() == before
