"""`import lucid` from a folder of sources, which hides the installed package, names the remedy."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import lucid

# What finds modules on the path: an editable install puts a finder of its own before them.
FINDERS = """\
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
sys.meta_path[:] = BuiltinImporter, FrozenImporter, PathFinder
"""
OURS = "ImportError: lucid: "
ENTRIES = [
    "import lucid",
    "import lucid.nn.functional as F",
    "from lucid import nn",
    "from lucid.ops import schemas",
    "from lucid.autograd import Function",
    "import lucid._config",
    "from lucid._kernels import mean",
    "try:\n    import lucid\nexcept ImportError:\n    import lucid",  # again, in a session
]


def run(code, folder, *options):
    return subprocess.run(
        [sys.executable, *options, "-c", FINDERS + code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A folder with the package's Python files, as in a checkout."""
    folder, package = tmp_path_factory.mktemp("checkout"), Path(lucid.__file__).parent
    for path in package.rglob("*.py"):
        copy = folder / "lucid" / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("code", ENTRIES)
def test_sources_say_what_to_do(sources, code):
    done = run(code, sources)
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith(OURS)
    assert str(sources / "lucid") in message
    assert "`python -P`" in message
    assert "`pip install .`" in message


def test_compiled_in_part_says_so_too(sources):
    """Python has one error for a module that is missing, another for a name of a package."""
    code = """
import types
class Anything:  # a function, or a class to build on
    __slots__ = ()
    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)
for name in {there}:
    sys.modules[name] = module = types.ModuleType(name)
    module.__getattr__ = lambda _: Anything
import lucid
"""
    there = []
    while (done := run(code.format(there=there), sources)).returncode:
        last = done.stderr.splitlines()[-1]
        assert last.startswith(OURS), done.stderr
        name = re.search(r"No module named '([\w.]+)'|import name '(\w+)' from .*?'([\w.]+)'", last)
        there.append(name[1] or f"{name[3]}.{name[2]}")
    assert {name.rpartition(".")[0] for name in there} >= {"lucid.autograd", "lucid._kernels"}


def test_another_module_that_is_missing_keeps_its_name(sources):
    done = run("sys.modules['numpy'] = None\nimport lucid", sources)
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError:")
    assert "numpy" in done.stderr.splitlines()[-1]


def test_version():
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == lucid.__version__ == metadata.version(project["name"])
    assert f"version: '{lucid.__version__}'" in (root / "meson.build").read_text("utf-8")
    assert f"version: {lucid.__version__}\n" in (root / "CITATION.cff").read_text("utf-8")
