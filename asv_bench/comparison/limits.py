"""The limits of memory: read, copy and triad."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np


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
