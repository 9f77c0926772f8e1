"""What the build needs beside its extensions: how examples run, the lists of rules, what the API
reference says beyond the docstrings, and links to sources and to other projects' pages."""

import ast
import inspect
import re
import shutil
import sys
from pathlib import Path

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.util import logging
from sphinx_gallery.scrapers import figure_rst

import lucid

ROOT = Path(__file__).parents[1]
ORDER = ("fit_with_scipy", "image_stack", "custom_op", "gradient_penalty", "train_digits")
log = logging.getLogger(__name__)


# ---- the gallery


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
    return figure_rst(paths, gallery_conf["src_dir"], described(script.stem) if paths else "")


def described(example):
    """What the picture of an example shows: its function that draws it says so."""
    tree = ast.parse((ROOT / "examples" / f"{example}.py").read_text("utf-8"))
    (plot,) = (f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == "plot")
    what = ast.get_docstring(plot).partition("\n")[0].removeprefix("Draw ").rstrip(".")
    return what[0].upper() + what[1:]


def describe_thumbnails(app, doctree):
    """Give the gallery's thumbnails, which come without, the descriptions of their pictures."""
    for image in doctree.findall(nodes.image):
        if found := re.search(r"/thumb/sphx_glr_(\w+)_thumb\.png", image["uri"]):
            image["alt"] = described(found[1])


# ---- the table of rules


class Rules(Directive):
    """The NumPy functions that Tensors have a rule for, from lucid's own tables."""

    required_arguments = 1  # "ufuncs" or "functions"

    def run(self):
        table = getattr(lucid.ops, self.arguments[0].upper())
        paragraph = nodes.paragraph(classes=["lucid-rules"])
        for name in sorted({f.__name__ for f in table}):
            paragraph += [nodes.literal(name, name), nodes.Text(" ")]
        return [paragraph]


# ---- the API reference

RELATED = {
    "lucid.mean": "lucid.mean_var lucid.Moments numpy.mean",
    "lucid.var": "lucid.std lucid.mean_var lucid.Moments numpy.var",
    "lucid.std": "lucid.var lucid.mean_var lucid.Moments numpy.std",
    "lucid.mean_var": "lucid.mean lucid.var lucid.Moments",
    "lucid.Moments": "lucid.mean_var lucid.var",
    "lucid.Tensor": "lucid.tensor lucid.as_tensor lucid.nn.Parameter",
    "lucid.tensor": "lucid.as_tensor lucid.Tensor",
    "lucid.as_tensor": "lucid.tensor lucid.Tensor.detach",
    "lucid.grad": "lucid.Tensor.backward lucid.value_and_grad lucid.hvp",
    "lucid.value_and_grad": "lucid.hvp lucid.grad scipy.optimize.minimize",
    "lucid.hvp": "lucid.value_and_grad lucid.grad scipy.optimize.minimize",
    "lucid.no_grad": "lucid.enable_grad lucid.is_grad_enabled lucid.Tensor.detach",
    "lucid.enable_grad": "lucid.no_grad lucid.is_grad_enabled",
    "lucid.is_grad_enabled": "lucid.no_grad lucid.enable_grad",
    "lucid.show_config": "lucid.get_num_threads lucid.cache_info",
    "lucid.get_num_threads": "lucid.set_num_threads lucid.show_config",
    "lucid.set_num_threads": "lucid.get_num_threads lucid.show_config",
    "lucid.cache_info": "lucid.set_cache_limit lucid.clear_cache",
    "lucid.clear_cache": "lucid.set_cache_limit lucid.cache_info",
    "lucid.set_cache_limit": "lucid.clear_cache lucid.cache_info",
    "lucid.autograd.Function": "lucid.autograd.Context lucid.autograd.gradcheck "
    "lucid.autograd.once_differentiable",
    "lucid.autograd.Context": "lucid.autograd.Function",
    "lucid.autograd.once_differentiable": "lucid.autograd.Function",
    "lucid.autograd.gradcheck": "lucid.autograd.gradgradcheck lucid.autograd.Function",
    "lucid.autograd.gradgradcheck": "lucid.autograd.gradcheck",
    "lucid.autograd.GradcheckError": "lucid.autograd.gradcheck lucid.autograd.gradgradcheck",
    "lucid.autograd.OpSchema": "lucid.ops.schemas lucid.autograd.AmpPolicy lucid.autocast",
    "lucid.autograd.AmpPolicy": "lucid.autocast lucid.autograd.OpSchema",
    "lucid.autocast": "lucid.autograd.AmpPolicy lucid.amp.cast_inputs",
    "lucid.amp.cast_inputs": "lucid.autocast lucid.autograd.OpSchema",
    "lucid.nn.BatchNorm1d": "lucid.nn.BatchNorm2d lucid.nn.BatchNorm3d "
    "lucid.nn.functional.batch_norm",
    "lucid.nn.BatchNorm2d": "lucid.nn.BatchNorm1d lucid.nn.BatchNorm3d "
    "lucid.nn.functional.batch_norm",
    "lucid.nn.BatchNorm3d": "lucid.nn.BatchNorm1d lucid.nn.BatchNorm2d "
    "lucid.nn.functional.batch_norm",
    "lucid.nn.Linear": "lucid.nn.functional.linear lucid.nn.Sequential",
    "lucid.nn.ReLU": "lucid.nn.functional.relu lucid.nn.Sequential",
    "lucid.nn.Sequential": "lucid.nn.Module lucid.nn.Linear",
    "lucid.nn.Module": "lucid.nn.Parameter lucid.nn.Sequential",
    "lucid.nn.Parameter": "lucid.nn.Module lucid.Tensor",
    "lucid.nn.functional.batch_norm": "lucid.nn.BatchNorm1d lucid.nn.BatchNorm2d "
    "lucid.nn.BatchNorm3d lucid.mean_var",
    "lucid.nn.functional.linear": "lucid.nn.Linear",
    "lucid.nn.functional.relu": "lucid.nn.ReLU",
    "lucid.nn.functional.softmax": "lucid.nn.functional.log_softmax "
    "lucid.nn.functional.cross_entropy",
    "lucid.nn.functional.log_softmax": "lucid.nn.functional.softmax "
    "lucid.nn.functional.cross_entropy",
    "lucid.nn.functional.cross_entropy": "lucid.nn.functional.log_softmax "
    "lucid.nn.functional.mse_loss",
    "lucid.nn.functional.mse_loss": "lucid.nn.functional.cross_entropy",
    "lucid.ops.schemas": "lucid.autograd.OpSchema lucid.autocast",
    "lucid.backends.Backend": "lucid.backends.backend_of",
    "lucid.backends.backend_of": "lucid.backends.namespace lucid.backends.Backend",
    "lucid.backends.namespace": "lucid.backends.backend_of",
}


def see_also(app, what, name, obj, options, lines):
    """Point from each entry to its relatives, between what it does and the notes on it."""
    if name not in RELATED:
        return
    links = ", ".join(
        f"`{'' if r.startswith(('numpy', 'scipy')) else '~'}{r}`" for r in RELATED[name].split()
    )
    rubrics = (i for i, line in enumerate(lines) if line.startswith(".. rubric:: "))
    at = next(rubrics, len(lines))
    lines[at:at] = ["", f".. seealso:: {links}", ""]


def signature_of_method(app, what, name, obj, options, signature, return_annotation):
    """Give the methods of Tensor the arguments of their rule, or of NumPy's function."""
    if not name.startswith("lucid.Tensor.") or signature != "(*args, **kwargs)":
        return None
    for function in (
        inspect.getclosurevars(obj).nonlocals.get("rule", obj),
        getattr(np, name.rpartition(".")[2]),
    ):
        first, *others = inspect.signature(function).parameters.values()
        if first.kind is not first.VAR_POSITIONAL:
            return str(inspect.Signature(others)), return_annotation
    return None


# ---- links


def source(app, module):
    """Show the Cython of a compiled module on its [source] page."""
    path = ROOT / f"{module.replace('.', '/')}.pyx"
    if not module.startswith("lucid.") or not path.exists():
        return None
    code = path.read_text("utf-8")
    starts = [
        (found[1], number)
        for number, line in enumerate(code.splitlines(), 1)
        if (found := re.match(r"(?:def|class|cdef class) (\w+)", line))
    ]
    ends = [start - 1 for _, start in starts[1:]] + [code.count("\n")]
    return code, {
        name: ("def", start, end) for (name, start), end in zip(starts, ends, strict=True)
    }


def unknown(app, env, node, contnode):
    """Refuse a reference to another project's object that docs/inventories/ does not know."""
    target = node.get("reftarget", "")
    projects = {*app.config.intersphinx_mapping, *sys.stdlib_module_names}
    known = any(target in names for names in env.intersphinx_inventory.values())
    if "." in target and target.partition(".")[0] in projects and not known:
        log.warning("%s: not in docs/inventories", target, location=node)


def setup(app):
    """Register all of it."""
    app.add_directive("lucid-rules", Rules)
    app.connect("doctree-read", describe_thumbnails)
    app.connect("autodoc-process-docstring", see_also, priority=900)  # after numpydoc
    app.connect("autodoc-process-signature", signature_of_method, priority=900)
    app.connect("viewcode-find-source", source)
    app.connect("missing-reference", unknown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
