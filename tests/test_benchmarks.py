"""No benchmark rots: each runs once, with every value of its parameters but not their product."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lucid

FOLDER = Path(__file__).parents[1] / "asv_bench" / "benchmarks"
KINDS = ("time_", "timeraw_", "track_", "peakmem_")
# Peers raise their own warnings.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def _benchmarks():
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        spec = importlib.util.spec_from_file_location(f"benchmarks_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, cls in vars(module).items():
            if inspect.isclass(cls) and not name.startswith("_"):
                for method in dir(cls):
                    if method.startswith(KINDS):
                        yield pytest.param(cls, method, id=f"{path.stem}.{name}.{method}")


def _combinations(cls):
    params = list(getattr(cls, "params", []))
    if params and not isinstance(params[0], (list, tuple)):
        params = [params]
    return [
        tuple(values[i % len(values)] for values in params)
        for i in range(max(map(len, params), default=1))
    ]


@pytest.fixture(autouse=True)
def _restored():
    threads, limit = lucid.get_num_threads(), lucid.cache_info()["limit"]
    yield
    lucid.set_num_threads(threads)
    lucid.set_cache_limit(limit)


@pytest.mark.parametrize(("cls", "method"), list(_benchmarks()))
def test_benchmark(cls, method):
    for values in _combinations(cls):
        benchmark = cls()
        try:
            getattr(benchmark, "setup", lambda *_: None)(*values)
        except NotImplementedError:  # a peer that is not installed
            continue
        result = getattr(benchmark, method)(*values)
        if method.startswith("timeraw_"):
            code, setup = result
            subprocess.run([sys.executable, "-P", "-c", f"{setup}\n{code}"], check=True)
        getattr(benchmark, "teardown", lambda *_: None)(*values)
