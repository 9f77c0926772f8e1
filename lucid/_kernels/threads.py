"""How many threads the kernels may use."""

from __future__ import annotations

import os
from typing import SupportsIndex

from . import provider


def _usable_cpus() -> int:
    """Processors this process may use: the least of affinity, cgroup quota, OMP_NUM_THREADS."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    cpus = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as f:
            quota, period = f.read().split()
        if quota != "max":
            cpus = min(cpus, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    # What is no number is for the OpenMP runtime to complain of.
    if requested.isdecimal() and int(requested) > 0:
        cpus = min(cpus, int(requested))
    return cpus


def get_num_threads() -> int:
    """Threads that the next large call may use.

    The least of the limit set by `set_num_threads`, the processors this process may use (affinity,
    cgroup quota, ``OMP_NUM_THREADS``) and what the OpenMP runtime allows, which threadpoolctl sets.

    Returns
    -------
    int

    Examples
    --------
    >>> import lucid
    >>> lucid.get_num_threads() >= 1
    True
    """
    return provider.num_threads()


def set_num_threads(n: SupportsIndex) -> None:
    """Limit the threads of the CPU kernels. Results do not depend on it, to the last bit.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    TypeError, ValueError
        `n` is not an integer, or less than 1.

    Examples
    --------
    >>> import lucid
    >>> before = lucid.get_num_threads()
    >>> lucid.set_num_threads(1)
    >>> lucid.get_num_threads()
    1
    >>> lucid.set_num_threads(before)
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"set_num_threads: n must be an integer, got {n!r}")
    n = n.__index__()
    if n < 1:
        raise ValueError(f"set_num_threads: n must be at least 1, got {n}")
    provider.limit_threads(min(n, 1 << 20))


provider.start_threads(_usable_cpus())
