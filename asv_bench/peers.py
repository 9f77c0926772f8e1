"""lucid beside NumPy, bottleneck, PyTorch, MLX and JAX, and beside what memory allows.

All that is installed runs in this one process, interleaved: in each round every library and every
limit is timed once, and medians over the rounds are shown. The limit of a mean is reading its
input, that of a forward pass a copy, of a backward pass a triad (two arrays read, one written), of
a step both, of a gradient penalty both twice; with ordinary or streaming stores, whichever is
faster for that size. Limits come from `limits.c`, built with the system's compiler (`$CC` or cc);
without one NumPy's copyto, add and dot stand in, and the table says so.

PyTorch's results are what its public calls give. NumPy, MLX and JAX have no batch norm over axis 1:
there it is the usual expression, compiled by the latter two. "lucid" reuses the memory of results
that the caller dropped, as in any loop; "lucid, cold" allocates each result anew
(``lucid.set_cache_limit(0)``). Times include dropping the result.

``peers.py --quick --seconds 2 --plot FILE`` draws README's chart; other examples are
``peers.py --threads 2 --json FILE`` and ``peers.py --cases 'backward|step' --libraries lucid``.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import math
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import repeat
from pathlib import Path

import numpy as np

EPS, MOMENTUM, SLOW = 1e-5, 0.1, 0.02


@dataclass(frozen=True)
class Case:
    """What to compute; `axis` is for means, `last` says channels-last memory."""

    kind: str
    shape: tuple[int, ...]
    axis: int | tuple[int, ...] | None = None
    dtype: str = "float32"
    last: bool = False
    quick: bool = False

    @property
    def name(self) -> str:
        """As shown in the table."""
        words = [self.kind, str(self.shape)]
        if self.kind == "mean":
            words.append("all" if self.axis is None else f"axis {self.axis}")
        words += ["float64"] * (self.dtype != "float32") + ["channels-last"] * self.last
        return " ".join(words)

    @property
    def nbytes(self) -> int:
        """Size of the input."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def limits(self) -> dict[str, int]:
        """How often each limit is to be paid; nothing where calls cost more than memory."""
        if self.nbytes < 100_000:
            return {}
        return {
            "mean": {"read": 1},
            "forward": {"copy": 1},
            "eval": {"copy": 1},
            "backward": {"triad": 1},
            "step": {"copy": 1, "triad": 1},
            "penalty": {"copy": 2, "triad": 2},
        }[self.kind]


IMAGES, SMALL = (32, 64, 56, 56), (8, 16)
SHAPES = [IMAGES, (64, 128, 28, 28), (32, 64, 112, 112), (8, 32, 16, 64, 64), (128, 256, 14, 14)]
CASES = [
    Case("mean", IMAGES, (0, 2, 3), quick=True),
    Case("mean", IMAGES, None),
    Case("mean", (100_000, 128), 0, quick=True),
    Case("mean", (25_000, 1_000), 1),
    Case("mean", IMAGES, (0, 2, 3), "float64"),
    Case("mean", IMAGES, None, "float64"),
    Case("mean", (100_000, 128), 0, "float64"),
    *(Case("forward", s, quick=s in (IMAGES, SHAPES[-1])) for s in [*SHAPES, (256, 512)]),
    Case("forward", IMAGES, last=True),
    Case("eval", IMAGES),
    *(Case("backward", s, quick=s == IMAGES) for s in [*SHAPES, (256, 512)]),
    Case("backward", IMAGES, last=True),
    Case("step", IMAGES, quick=True),
    Case("step", (128, 256, 14, 14)),
    Case("penalty", (32, 64, 28, 28), quick=True),
    Case("mean", SMALL, 0, quick=True),
    Case("forward", SMALL, quick=True),
    Case("step", SMALL, quick=True),
]


class Data:
    """The arrays of a case, the same for every library."""

    def __init__(self, case: Case):
        rng = np.random.default_rng(0)

        def random():
            shape = case.shape
            if case.last:
                shape = (shape[0], *shape[2:], shape[1])
            a = rng.standard_normal(shape, np.float32)
            return np.moveaxis(a, -1, 1) if case.last else a.astype(case.dtype, copy=False)

        channels = case.shape[1]
        self.case, self.x = case, random()
        self.axes = tuple(i for i in range(len(case.shape)) if i != 1)
        self.broadcast = tuple(channels if i == 1 else 1 for i in range(len(case.shape)))
        self.g = self.x if case.kind == "mean" else random()
        order = [a.transpose(0, *range(2, a.ndim), 1) if case.last else a for a in (self.x, self.g)]
        self.flat = [a.reshape(-1) for a in order]
        self.weight = rng.uniform(0.5, 1.5, channels).astype(np.float32)
        self.bias = rng.standard_normal(channels, np.float32)
        self.mean, self.var = np.zeros(channels, np.float32), np.ones(channels, np.float32)


# ---- the libraries -----------------------------------------------------------------------------
# A method per kind of case returns the call to time; one that is missing is not compared.


class Lucid:
    """The public calls on arrays, on Tensors where there is a gradient."""

    package = "lucid-numpy"

    def __init__(self, threads):
        import lucid
        import lucid.nn.functional as functional

        self.lucid, self.batch_norm = lucid, functional.batch_norm
        lucid.set_num_threads(threads)

    def mean(self, d):
        return partial(self.lucid.mean, d.x, d.case.axis)

    def _call(self, d, training):
        buffers = d.mean.copy(), d.var.copy()
        return partial(self.batch_norm, d.x, *buffers, d.weight, d.bias, training)

    def forward(self, d):
        return self._call(d, True)

    def eval(self, d):
        return self._call(d, False)

    def _leaves(self, d):
        return [self.lucid.tensor(a, requires_grad=True) for a in (d.x, d.weight, d.bias)]

    def _apply(self, d, x, weight, bias):
        return self.batch_norm(x, d.mean, d.var, weight, bias, True)

    def backward(self, d):
        leaves = self._leaves(d)
        y = self._apply(d, *leaves)
        return partial(self.lucid.grad, y, leaves, self.lucid.as_tensor(d.g), retain_graph=True)

    def step(self, d):
        leaves, g = self._leaves(d), self.lucid.as_tensor(d.g)
        return lambda: self.lucid.grad(self._apply(d, *leaves), leaves, g)

    def penalty(self, d):
        leaves, g = self._leaves(d), self.lucid.as_tensor(d.g)

        def run():
            y = self._apply(d, *leaves)
            (dx,) = self.lucid.grad(y, leaves[:1], g, create_graph=True)
            return self.lucid.grad((dx * dx).sum(), leaves[:2])

        return run


class NumPy:
    """NumPy's mean; the expressions a user would write for batch norm."""

    package = "numpy"

    def __init__(self, threads):
        pass

    def mean(self, d):
        return partial(np.mean, d.x, d.case.axis)

    def forward(self, d):
        weight, bias = d.weight.reshape(d.broadcast), d.bias.reshape(d.broadcast)
        count = d.x.size // d.x.shape[1]
        running_mean, running_var = d.mean.copy(), d.var.copy()

        def run():
            mean = d.x.mean(d.axes, keepdims=True)
            var = d.x.var(d.axes, keepdims=True)
            running_mean[:] += MOMENTUM * (mean.ravel() - running_mean)
            running_var[:] += MOMENTUM * (var.ravel() * (count / (count - 1)) - running_var)
            return (d.x - mean) / np.sqrt(var + EPS) * weight + bias

        return run

    def eval(self, d):
        weight, bias, mean, var = (
            a.reshape(d.broadcast) for a in (d.weight, d.bias, d.mean, d.var)
        )
        return lambda: (d.x - mean) / np.sqrt(var + EPS) * weight + bias

    def backward(self, d):
        weight = d.weight.reshape(d.broadcast)
        mean = d.x.mean(d.axes, keepdims=True)
        rstd = 1 / np.sqrt(d.x.var(d.axes, keepdims=True) + np.float32(EPS))
        count = d.x.size // d.x.shape[1]

        def run():
            normalized = (d.x - mean) * rstd
            dbias = d.g.sum(d.axes, keepdims=True)
            dweight = (d.g * normalized).sum(d.axes, keepdims=True)
            dx = weight * rstd * (d.g - dbias / count - normalized * (dweight / count))
            return dx, dweight.ravel(), dbias.ravel()

        return run


class Bottleneck:
    """`bottleneck.nanmean`, for one axis or all of them."""

    package = "bottleneck"

    def __init__(self, threads):
        import bottleneck

        self.nanmean = bottleneck.nanmean

    def mean(self, d):
        if not isinstance(d.case.axis, tuple):
            return partial(self.nanmean, d.x, d.case.axis)
        return None


class PyTorch:
    """The public calls of PyTorch on the CPU."""

    package = "torch"

    def __init__(self, threads):
        import torch

        self.torch = torch
        self.batch_norm = torch.nn.functional.batch_norm
        torch.set_num_threads(threads)

    def mean(self, d):
        return partial(self.torch.mean, self.torch.from_numpy(d.x), d.case.axis)

    def _arrays(self, d, *names):
        # Channels-last views keep their strides, which PyTorch recognises.
        return [self.torch.from_numpy(getattr(d, n)) for n in names]

    def _call(self, d, training):
        x, mean, var, w, b = self._arrays(d, "x", "mean", "var", "weight", "bias")
        return partial(self.batch_norm, x, mean.clone(), var.clone(), w, b, training)

    def forward(self, d):
        return self._call(d, True)

    def eval(self, d):
        return self._call(d, False)

    def _apply(self, d):
        mean, var, g = self._arrays(d, "mean", "var", "g")
        leaves = [a.clone().requires_grad_() for a in self._arrays(d, "x", "weight", "bias")]
        return lambda: self.batch_norm(leaves[0], mean, var, *leaves[1:], True), leaves, g

    def backward(self, d):
        apply, leaves, g = self._apply(d)
        return partial(self.torch.autograd.grad, apply(), leaves, g, retain_graph=True)

    def step(self, d):
        apply, leaves, g = self._apply(d)
        return lambda: self.torch.autograd.grad(apply(), leaves, g)

    def penalty(self, d):
        apply, leaves, g = self._apply(d)
        grad = self.torch.autograd.grad

        def run():
            (dx,) = grad(apply(), leaves[:1], g, create_graph=True)
            return grad((dx * dx).sum(), leaves[:2])

        return run


class _Compiled:
    """MLX and JAX: functional gradients of one compiled expression."""

    def _batch_norm(self, d):
        np_, axes, shape = self.module, d.axes, d.broadcast
        count = d.x.size // d.x.shape[1]
        if d.case.last:  # their arrays have no strides: the axes are reordered instead
            axes, shape = tuple(range(d.x.ndim - 1)), d.broadcast[:1] + d.broadcast[2:] + (-1,)

        def apply(x, weight, bias):
            mean = np_.mean(x, axis=axes, keepdims=True)
            var = np_.var(x, axis=axes, keepdims=True)
            y = (x - mean) / np_.sqrt(var + EPS)
            y = y * weight.reshape(shape) + bias.reshape(shape)
            return y, mean.reshape(-1), var.reshape(-1) * (count / (count - 1))

        return apply

    def _arrays(self, d, *names):
        arrays = [getattr(d, n) for n in names]
        if d.case.last:
            arrays = [np.moveaxis(a, 1, -1) if a.ndim > 1 else a for a in arrays]
        return [self.array(np.ascontiguousarray(a)) for a in arrays]

    def mean(self, d):
        if d.x.dtype == np.float64:
            return None  # not without changing global settings, or not at all
        axis, module = d.case.axis, self.module
        return self.call(lambda x: module.mean(x, axis=axis), self.array(d.x))

    def forward(self, d):
        apply = self._batch_norm(d)

        def run(x, weight, bias, running_mean, running_var):
            y, mean, var = apply(x, weight, bias)
            running_mean = running_mean + MOMENTUM * (mean - running_mean)
            return y, running_mean, running_var + MOMENTUM * (var - running_var)

        return self.call(run, *self._arrays(d, "x", "weight", "bias", "mean", "var"))

    def eval(self, d):
        np_, shape = self.module, d.broadcast

        def run(x, weight, bias, mean, var):
            weight, bias, mean, var = (a.reshape(shape) for a in (weight, bias, mean, var))
            return (x - mean) / np_.sqrt(var + EPS) * weight + bias

        return self.call(run, *self._arrays(d, "x", "weight", "bias", "mean", "var"))

    def step(self, d):
        apply, grad = self._batch_norm(d), self.grad
        x, weight, bias, g = self._arrays(d, "x", "weight", "bias", "g")
        gradient = grad(lambda x, w, b, g: (apply(x, w, b)[0] * g).sum(), (0, 1, 2))
        return self.call(gradient, x, weight, bias, g)

    def penalty(self, d):
        apply, grad = self._batch_norm(d), self.grad
        x, weight, bias, g = self._arrays(d, "x", "weight", "bias", "g")
        gradient = grad(lambda x, w, b, g: (apply(x, w, b)[0] * g).sum(), 0)
        penalty = grad(lambda x, w, b, g: (gradient(x, w, b, g) ** 2).sum(), (0, 1))
        return self.call(penalty, x, weight, bias, g)


class MLX(_Compiled):
    """MLX on its default device."""

    package = "mlx"

    def __init__(self, threads):
        import mlx.core as mx

        self.module, self.array, self.grad = mx, mx.array, mx.grad

    def call(self, function, *args):
        compiled, evaluate = self.module.compile(function), self.module.eval

        def run():
            result = compiled(*args)
            evaluate(result)
            return result

        return run


class JAX(_Compiled):
    """JAX on its default device."""

    package = "jax"

    def __init__(self, threads):
        # Read once, when JAX starts its threads.
        os.environ["NPROC"] = str(threads)
        flags = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
        os.environ["XLA_FLAGS"] = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), flags]))
        import jax

        self.jax, self.module, self.array, self.grad = jax, jax.numpy, jax.numpy.asarray, jax.grad

    def call(self, function, *args):
        compiled, wait = self.jax.jit(function), self.jax.block_until_ready
        return lambda: wait(compiled(*args))

    def backward(self, d):
        apply = self._batch_norm(d)
        x, weight, bias, g = self._arrays(d, "x", "weight", "bias", "g")
        pullback = self.jax.jit(lambda *leaves: self.jax.vjp(lambda *a: apply(*a)[0], *leaves)[1])
        return self.call(lambda pull, g: pull(g), pullback(x, weight, bias), g)


LIBRARIES = [Lucid, NumPy, Bottleneck, PyTorch, MLX, JAX]


def installed(names, threads):
    """Return the libraries that can be imported, by name."""
    found = {}
    for library in LIBRARIES:
        if names is None or library.__name__.lower() in names:
            try:
                found[library.__name__.replace("Lucid", "lucid")] = library(threads)
            except ImportError as error:
                print(f"{library.__name__}: {error}", file=sys.stderr)
    return found


# ---- the limits of memory ----------------------------------------------------------------------


class Limits:
    """Read, copy and triad over arrays of the size of a case."""

    ways: dict[str, tuple[str, ...]]

    def __init__(self, threads):
        self.threads, self.pool = threads, ThreadPoolExecutor(threads)
        self.library = self._build()
        self.compiled = self.library is not None
        self.ways = {"read": ("read",), "copy": ("copy",), "triad": ("triad",)}
        if self.compiled:
            self.ways = {
                "read": ("read_",),
                "copy": ("copy", "copy_stream"),
                "triad": ("triad", "triad_stream"),
            }

    @staticmethod
    def _build():
        source = Path(__file__).with_name("limits.c")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            target = Path(folder, "limits.so")
            for native in ("-march=native", "-mcpu=native", "-O3"):
                command = [*compiler, "-O3", native, "-w", "-shared", "-fPIC", "-o", target, source]
                try:
                    subprocess.run(command, check=True, capture_output=True)
                    return ctypes.CDLL(str(target))
                except (OSError, subprocess.CalledProcessError):
                    continue
        return None

    def calls(self, data):
        """Return the call of each way to pay, and how often it pays in one call.

        The arrays read are the libraries' own, so that none is nearer to the processor.
        """
        size = data.case.nbytes // 1024 // self.threads * 1024
        total = size * self.threads
        a, b = data.flat
        c = _aligned(a)
        arrays = c, a, b
        ways = [way for limit in data.case.limits for way in self.ways[limit]]
        if not self.compiled:
            one = {
                "read": partial(np.dot, a, a),
                "copy": partial(np.copyto, c, a),
                "triad": partial(np.add, a, b, out=c),
            }
            return {way: (one[way], 1) for way in ways}
        # Repeated inside, so that starting threads is not what is measured.
        repeats = 1 if self.threads == 1 else max(1, (256 << 20) // total)
        return {way: (partial(self._run, way, arrays, size, repeats), repeats) for way in ways}

    def _run(self, way, arrays, size, repeats):
        function = getattr(self.library, way)
        starts = [a.ctypes.data for a in arrays]

        def part(i):
            function(
                *(ctypes.c_void_p(s + i * size) for s in starts), ctypes.c_size_t(size), repeats
            )

        if self.threads == 1:
            part(0)
        else:
            list(self.pool.map(part, range(self.threads)))


def _aligned(like):
    a = np.empty(like.nbytes + 64, np.uint8)
    start = -a.ctypes.data % 64
    a = a[start : start + like.nbytes].view(like.dtype)
    a[:] = 0
    return a


# ---- measuring ---------------------------------------------------------------------------------


def _sample(case, result):
    """Return some elements of a result's first array."""
    a = result[0] if isinstance(result, (tuple, list)) else result
    a = np.asarray(a.detach() if hasattr(a, "detach") else a)
    if case.last and a.shape != case.shape:
        a = np.moveaxis(a, -1, 1)
    return a.ravel()[:: 1 if a.size < 10_000 else 997].copy(), a.shape


def _check(name, case, sample, reference):
    """Exit if a library computes something else: its time would say nothing."""
    (a, shape), (b, wanted) = sample, reference
    if shape != wanted or not np.allclose(a, b, rtol=0.01, atol=0.01 * np.abs(b).max()):
        raise SystemExit(f"{name} disagrees with {case.name}: {shape}, {a[:4]}; {wanted}, {b[:4]}")


def _calls(data, libraries, limits):
    """Return, by name, what to do before a sample, the call, and how often it does the work."""
    case, calls, reference = data.case, {}, None
    for name, library in libraries.items():
        call = getattr(library, case.kind, lambda d: None)(data)
        if call is not None:
            sample = _sample(case, call())
            reference = reference or sample
            _check(name, case, sample, reference)
            calls[name] = int, call, 1
    if "lucid" in calls and case.kind != "mean" and case.limits:
        lucid, call = libraries["lucid"].lucid, calls["lucid"][1]
        limit = lucid.cache_info()["limit"]
        calls["lucid"] = partial(lucid.set_cache_limit, limit), call, 1
        calls["lucid, cold"] = partial(lucid.set_cache_limit, 0), call, 1
    if case.limits:
        for way, (call, repeats) in limits.calls(data).items():
            calls[f"limit {way}"] = int, call, repeats
    return calls


def measure(case, libraries, limits, seconds):
    """Return the median seconds of each library and limit of a case.

    A sample is half a millisecond of calls, or one, after a call that is not timed: as in a loop
    over that library alone. A call of `SLOW` seconds gains nothing from one before it; only lucid,
    between whose samples the memory that it reuses was given back, does.
    """
    calls = _calls(Data(case), libraries, limits)
    samples = {name: [] for name in calls}
    numbers, spent = dict.fromkeys(calls, 1), dict.fromkeys(calls, 0.0)
    while min(spent.values()) < seconds:
        for name, (before, call, repeats) in calls.items():
            times, number = samples[name], numbers[name]
            if spent[name] >= seconds and len(times) >= 3:
                continue
            began = time.perf_counter()
            before()
            if not times or times[-1] < SLOW or name == "lucid":
                call()
            start = time.perf_counter()
            for _ in repeat(None, number):
                call()
            stop = time.perf_counter()
            times.append((stop - start) / number / repeats)
            spent[name] += stop - began
            numbers[name] = max(1, min(1000, round(5e-4 / (stop - start) * number)))
    if "lucid, cold" in calls:
        calls["lucid"][0]()
    # A first sample of one short call is mostly the clock's.
    return {n: statistics.median(t[numbers[n] > 1 and len(t) > 1 :]) for n, t in samples.items()}


def row(case, times, limits):
    """Return the row of a case for table, JSON and plot."""
    names = [n for n in times if not n.startswith("limit")]
    limit = sum(
        often * min(times[f"limit {way}"] for way in limits.ways[name])
        for name, often in case.limits.items()
    )
    return {
        "case": case.name,
        "bytes": case.nbytes,
        "limit": limit or None,
        "seconds": {n: times[n] for n in names},
        "share": {n: limit / times[n] for n in names} if limit else None,
        "limits": {n.removeprefix("limit "): t for n, t in times.items() if n not in names},
    }


def machine(libraries, limits, threads):
    """Return what has to be known of the run."""
    lucid = libraries.get("lucid")
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": _processor(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": threads,
        "limits": "compiled" if limits.compiled else "by NumPy: no C compiler",
        "versions": {n: metadata.version(library.package) for n, library in libraries.items()},
        "lucid": lucid and lucid.lucid.show_config(mode="dicts"),
    }


def _processor():
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


# ---- showing -----------------------------------------------------------------------------------


COLOURS = {
    "lucid": "#c8102e",
    "lucid, cold": "#f0a0a8",
    "PyTorch": "#5b6770",
    "NumPy": "#9ecae1",
    "Bottleneck": "#74c476",
    "MLX": "#b8a9d9",
    "JAX": "#e6b85c",
}


def columns(rows):
    """Return the names of all libraries in the rows, in order."""
    found = {n for r in rows for n in r["seconds"]}
    return [n for n in COLOURS if n in found]


def _time(seconds):
    if seconds is None:
        return ""
    for unit, scale in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000 or unit == "ms":
            return f"{seconds * scale:.3g} {unit}" if seconds * scale < 1000 else f"{seconds:.3g} s"
    return None


def table(rows):
    """Yield the lines of a Markdown table: time, and in brackets the share of the limit."""
    names = columns(rows)
    cells = [["case", "limit", *names]]
    for r in rows:
        line = [r["case"], _time(r["limit"])]
        for n in names:
            text = _time(r["seconds"].get(n))
            if text and r["share"]:
                text += f" ({r['share'][n]:.0%})"
            line.append(text)
        cells.append(line)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for i, line in enumerate(cells):
        padded = [c.ljust(w) if j == 0 else c.rjust(w)
                  for j, (c, w) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        yield "| " + " | ".join(padded) + " |"
        if i == 0:
            marks = ["-" * w if j == 0 else "-" * (w - 1) + ":" for j, w in enumerate(widths)]
            yield "| " + " | ".join(marks) + " |"


def plot(rows, about, path):
    """Write a bar chart of the shares of the limit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows if r["share"]]
    if not rows:
        raise SystemExit("--plot: no case among those measured has a limit")
    names = columns(rows)
    bars = sum(len(r["share"]) for r in rows)
    with plt.rc_context({"font.size": 9}):
        figure, axes = plt.subplots(figsize=(8.3, 1.1 + 0.115 * bars + 0.14 * len(rows)))
        place, ticks, low = 0.0, [], 1.0
        for r in rows:
            start = place
            for n in (n for n in names if n in r["share"]):
                share = 100 * r["share"][n]
                low = min(low, share)
                axes.barh(place, share, 1, color=COLOURS[n])
                if n == "lucid":
                    axes.annotate(
                        f"{share:.0f} %", (share, place), (-3, 0), textcoords="offset points",
                        va="center_baseline", ha="right", fontsize=8, weight="bold", color="white",
                    )  # fmt: skip
                place += 1
            ticks.append((start + place - 1) / 2)
            place += 1.2
        axes.set(
            xscale="log", xlim=(10 ** math.floor(math.log10(low)), 130), ylim=(place - 1.2, -1)
        )
        axes.set_yticks(ticks, [r["case"] for r in rows])
        axes.xaxis.set_major_formatter("{x:g} %")
        axes.axvline(100, color="black", linewidth=1)
        axes.set_xlabel("share of the limit that memory sets (log scale; longer is faster)")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[n]) for n in names]
        figure.legend(handles, names, loc="upper center", ncols=len(names), frameon=False)
        text = f"{about['processor']}, threads: {about['threads']}, {about['date']}"
        axes.set_title(text, fontsize=8, color="#555555", pad=4)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.28 / figure.get_figheight()))
        figure.savefig(path, dpi=200)


def main(argv=None):
    """Measure and show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1, help="of each library that has threads")
    parser.add_argument("--quick", action="store_true", help="fewer cases, within 40 s")
    parser.add_argument("--cases", type=re.compile, metavar="REGEX", help="only cases so named")
    parser.add_argument("--libraries", type=str.lower, nargs="+", metavar="NAME")
    parser.add_argument("--seconds", type=float, help="for each library in each case")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE", help="bar chart; needs Matplotlib")
    args = parser.parse_args(argv)
    seconds = args.seconds or (0.1 if args.quick else 1.5)
    cases = [c for c in CASES if c.quick or not args.quick]
    cases = [c for c in cases if args.cases is None or args.cases.search(c.name)]
    if not cases or args.threads < 1:
        parser.error("no such case" if args.threads > 0 else "--threads must be at least 1")
    warnings.simplefilter("ignore")  # the peers' own
    libraries, limits = installed(args.libraries, args.threads), Limits(args.threads)
    about = machine(libraries, limits, args.threads)
    versions = ", ".join(f"{n} {v}" for n, v in about["versions"].items())
    print(f"{about['processor']}, {about['system']}, {about['date']}, threads: {args.threads}")
    print(f"{versions}; limits: {about['limits']}\n", flush=True)
    rows = []
    for case in cases:
        if sys.stderr.isatty():
            print(f"\r\033[K{case.name}", end="", file=sys.stderr, flush=True)
        rows.append(row(case, measure(case, libraries, limits, seconds), limits))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    print(*table(rows), sep="\n")
    if args.json:
        Path(args.json).write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", "utf-8")
    if args.plot:
        plot(rows, about, args.plot)


if __name__ == "__main__":
    main()
