"""What the build needs beside its extensions: how examples run, and the lists of rules."""

import shutil
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx_gallery.scrapers import figure_rst

import lucid

ORDER = ("fit_with_scipy", "image_stack", "custom_op", "gradient_penalty", "train_digits")


def by_subject(path):
    """Sort the gallery."""
    return ORDER.index(Path(path).stem)


def arguments(gallery_conf, script_vars):
    """Run each example as a user does, with a folder for its pictures."""
    return ["--output", f"output/{Path(script_vars['src_file']).stem}"]


def pictures(block, block_vars, gallery_conf):
    """Show the pictures that an example has written."""
    script, paths = Path(block_vars["src_file"]), []
    output = script.parent / "output"
    for picture in sorted((output / script.stem).glob("*.png")):
        paths.append(next(block_vars["image_path_iterator"]))
        shutil.move(picture, paths[-1])
    shutil.rmtree(output, ignore_errors=True)
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
