"""The commands docs, bench and lint: spin has no names but its own for what it can run."""

import shlex
import sys

import click
from spin.cmds.util import run


def command(name, short_help):
    """Return a command that runs the Python modules that its configuration lists."""

    @click.command(name, short_help=short_help, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def call(arguments, modules):
        for module in modules:
            run([sys.executable, "-P", "-m", *shlex.split(module), *arguments])

    return call


docs = command("docs", "📖 Build the documentation")
bench = command("bench", "🏃 Run the benchmarks")
lint = command("lint", "🔦 Check style and types")
