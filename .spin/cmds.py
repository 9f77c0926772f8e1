"""The commands that spin does not bring: docs, bench, lint."""

import sys

import click
from spin.cmds.util import run

PYTHON = (sys.executable, "-P", "-m")


@click.command()
@click.option("--output", default="build/docs", show_default=True)
def docs(output):
    """📖 Build the documentation; a warning is an error."""
    run([*PYTHON, "sphinx", "-W", "docs", output])


@click.command()
@click.option("--compare", metavar="BRANCH", help="Compare HEAD with this branch.")
@click.option("--bench", "-b", "patterns", multiple=True, metavar="REGEX", help="Only these.")
def bench(compare, patterns):
    """🏃 Run the benchmarks: quickly here and now, or properly against a branch."""
    command = ["run", "--quick", "--dry-run", "--python=same"]
    if compare:
        command = ["continuous", compare, "HEAD"]
    only = [argument for pattern in patterns for argument in ("--bench", pattern)]
    run([*PYTHON, "asv", "--config", "asv_bench/asv.conf.json", *command, *only])


@click.command()
def lint():
    """🔦 Check style and types; CI does so with the versions it pins."""
    run(["ruff", "check", "."])
    run(["ruff", "format", "--check", "."])
    run(["cython-lint", "lucid"])
    run([*PYTHON, "mypy"])
