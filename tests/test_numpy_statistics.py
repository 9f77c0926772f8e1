"""NumPy's own tests of mean, var and std, with lucid's functions in the place of NumPy's."""

import re
import subprocess
import sys
import textwrap

import pytest

SWAP = textwrap.dedent(
    """
    import numpy as np
    import lucid

    np.mean, np.var, np.std = lucid.mean, lucid.var, lucid.std

    def pytest_collection_modifyitems(items):
        # TestStats goes through functions that call the methods of arrays.
        for module in {item.module for item in items}:
            if hasattr(module, "_mean"):
                module._mean, module._var, module._std = lucid.mean, lucid.var, lucid.std
                module.TestStats.funcs = [lucid.mean, lucid.var, lucid.std]
    """
)


@pytest.mark.parametrize(
    ("module", "selection"),
    [
        ("test_multiarray.py", "TestStats"),
        ("test_numeric.py", "mean or var or std"),
    ],
)
def test_numpys_tests_pass(module, selection, tmp_path):
    (tmp_path / "swap.py").write_text(SWAP)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    import numpy._core.tests as tests

    command = [
        *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "swap", "-p", "no:cacheprovider"),
        *("-p", "no:hypothesispytest", "-c", str(tmp_path / "pytest.ini")),
        *("-k", selection, f"{tests.__path__[0]}/{module}"),
    ]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) >= 5
