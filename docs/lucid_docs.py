"""What the build needs beside its extensions: how examples run, and the lists of rules."""

import atexit
import shutil
import tempfile
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx_gallery.scrapers import figure_rst

import lucid

OUTPUT = Path(tempfile.mkdtemp(prefix="lucid-docs-"))
atexit.register(shutil.rmtree, OUTPUT, ignore_errors=True)

ORDER = ("fit_with_scipy", "image_stack", "custom_op", "gradient_penalty", "train_digits")


def by_subject(path):
    """Sort the gallery."""
    return ORDER.index(Path(path).stem)


def arguments(gallery_conf, script_vars):
    """Run each example as a user does, with a folder for its pictures."""
    return ["--output", str(OUTPUT / Path(script_vars["src_file"]).stem)]


def pictures(block, block_vars, gallery_conf):
    """Show the pictures that an example has written."""
    paths = []
    for source in sorted(OUTPUT.glob(f"{Path(block_vars['src_file']).stem}/*.png")):
        paths.append(next(block_vars["image_path_iterator"]))
        shutil.move(source, paths[-1])
    return figure_rst(paths, gallery_conf["src_dir"])


class Rules(Directive):
    """The NumPy functions that Tensors have a rule for, from lucid's own tables."""

    required_arguments = 1  # "ufuncs" or "functions"

    def run(self):
        table = getattr(lucid.ops, self.arguments[0].upper())
        paragraph = nodes.paragraph(classes=["lucid-rules"])
        for name in sorted({f.__name__ for f in table}):
            paragraph += [nodes.literal(name, name), nodes.Text(" ")]
        return [paragraph]


def setup(app):
    """Register the directive."""
    app.add_directive("lucid-rules", Rules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
