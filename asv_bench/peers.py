"""lucid beside NumPy, bottleneck, PyTorch, MLX and JAX, and beside what memory allows.

All that is installed runs in this one process, interleaved: in each round every library and every
limit is timed once, and medians over the rounds are shown. The limit of a mean is reading its
input, that of a forward pass a copy, of a backward pass a triad (two arrays read, one written), of
a step both, of a gradient penalty both twice; with ordinary or streaming stores, whichever is
faster for that size. Limits come from `comparison/limits.c`, built with the system's compiler
(`$CC` or cc); without one NumPy's copyto, add and dot stand in, and the table says so.

PyTorch's results are what its public calls give. NumPy, MLX and JAX have no batch norm over axis 1:
there it is the usual expression, compiled by the latter two. "lucid" reuses the memory of results
that the caller dropped, as in any loop; "lucid, cold" allocates each result anew
(``lucid.set_cache_limit(0)``). Times include dropping the result.

``peers.py --quick --seconds 2 --plot FILE`` draws README's chart; other examples are
``peers.py --threads 2 --json FILE`` and ``peers.py --cases 'backward|step' --libraries lucid``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import statistics
import subprocess
import sys
import time
import warnings
from functools import partial
from importlib import metadata
from itertools import repeat
from pathlib import Path

import numpy as np
from comparison.cases import CASES, Data
from comparison.libraries import installed
from comparison.limits import Limits
from comparison.show import plot, table

SLOW = 0.02


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
