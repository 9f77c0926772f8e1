"""The provider table: who computes, with which instructions, on how many threads.

This module alone holds mutable C state: the active table and the thread limit.
"""
import contextlib
import os
import sys

cimport numpy as cnp


cnp.import_array()


cdef extern from "kernels.h" nogil:
    ctypedef struct lucid_simd:
        const char *isa
        const lucid_kernels *kernels
    size_t lucid_simd_available(lucid_simd *out)

cdef extern from "layout.h" nogil:
    void lucid_plan_loops(lucid_plan *plan, int nop, int ndim, const ptrdiff_t *shape,
                          const ptrdiff_t *const *strides, uint64_t reduced)
    void lucid_keep_order(int ndim, const ptrdiff_t *shape, const ptrdiff_t *like,
                          ptrdiff_t itemsize, ptrdiff_t *strides)

cdef extern from "reduce.h" nogil:
    int lucid_reduce(const lucid_kernels *kernels, const lucid_reduction *reduction)

cdef extern from "parallel.h" nogil:
    int lucid_num_threads()
    void lucid_set_num_threads(int n)
    void lucid_parallel_init(int cpus)


cdef extern from *:
    """
    #if defined(__clang__)
    #define LUCID_COMPILER "clang " __clang_version__
    #elif defined(__GNUC__)
    #define LUCID_COMPILER "gcc " __VERSION__
    #else
    #define LUCID_COMPILER "unknown"
    #endif
    """
    const char *LUCID_COMPILER


cdef lucid_simd[8] _simd
cdef size_t _simd_count = lucid_simd_available(_simd)
cdef const lucid_kernels *_active = NULL
_provider = None
_isa = None

# Primitives of the table, for show_config.
PRIMITIVES = ("sum_rows", "sum_cols", "moments_rows", "moments_cols", "unpack")


cdef void plan_loops(lucid_plan *plan, int nop, int ndim, const cnp.npy_intp *shape,
                     const cnp.npy_intp *const *strides, uint64_t reduced) noexcept nogil:
    lucid_plan_loops(plan, nop, ndim, <const ptrdiff_t *>shape,
                     <const ptrdiff_t *const *>strides, reduced)


cdef void keep_order(int ndim, const cnp.npy_intp *shape, const cnp.npy_intp *like,
                     cnp.npy_intp itemsize, cnp.npy_intp *strides) noexcept nogil:
    lucid_keep_order(ndim, <const ptrdiff_t *>shape, <const ptrdiff_t *>like, itemsize,
                     <ptrdiff_t *>strides)


cdef int reduce(const lucid_reduction *reduction) noexcept nogil:
    return lucid_reduce(_active, reduction)


# NumPy's type number of ml_dtypes' bfloat16, once seen.
cdef int _bfloat16 = -1


cdef int type_of(int type_num) noexcept:
    if type_num == cnp.NPY_FLOAT:
        return LUCID_FLOAT32
    if type_num == cnp.NPY_DOUBLE:
        return LUCID_FLOAT64
    if type_num == cnp.NPY_FLOAT16:
        return LUCID_FLOAT16
    if type_num == cnp.NPY_BOOL:
        return LUCID_BOOL
    if type_num == cnp.NPY_BYTE:
        return LUCID_INT8
    if type_num == cnp.NPY_UBYTE:
        return LUCID_UINT8
    if type_num == cnp.NPY_SHORT:
        return LUCID_INT16
    if type_num == cnp.NPY_USHORT:
        return LUCID_UINT16
    if type_num == cnp.NPY_INT:
        return LUCID_INT32
    if type_num == cnp.NPY_UINT:
        return LUCID_UINT32
    if type_num == cnp.NPY_LONG:
        return LUCID_INT64 if sizeof(long) == 8 else LUCID_INT32
    if type_num == cnp.NPY_ULONG:
        return LUCID_UINT64 if sizeof(long) == 8 else LUCID_UINT32
    if type_num == cnp.NPY_LONGLONG:
        return LUCID_INT64
    if type_num == cnp.NPY_ULONGLONG:
        return LUCID_UINT64
    if type_num == _bfloat16:
        return LUCID_BFLOAT16
    return -1


def takes(cnp.dtype dtype):
    """Whether the kernels take arrays of `dtype`: floats to 64 bits, integers and booleans.

    ml_dtypes' bfloat16 is recognised here, once it is loaded.
    """
    global _bfloat16
    if type_of(dtype.num) >= 0:
        return True
    module = sys.modules.get("ml_dtypes")
    if module is None or (<object>dtype).type is not module.bfloat16:
        return False
    _bfloat16 = dtype.num
    return True


def available():
    """Providers and instruction sets that can be chosen here, the preferred one first.

    Returns
    -------
    dict
        ``{"providers": [...], "isas": [...]}``.
    """
    return {"providers": ["simd"], "isas": [_simd[i].isa.decode() for i in range(_simd_count)]}


def active():
    """The provider and the instruction set in use.

    Returns
    -------
    tuple of str
    """
    return _provider, _isa


def activate(provider=None, isa=None):
    """Choose the provider and the instruction set of all later calls, in every thread.

    Parameters
    ----------
    provider, isa : str, optional
        Names from `available`; None keeps the choice made at import.

    Raises
    ------
    ImportError
        A name that is unknown or that this machine cannot run.
    """
    global _active, _provider, _isa
    known = available()
    provider = provider or os.environ.get("LUCID_PROVIDER") or known["providers"][0]
    if provider not in known["providers"]:
        raise ImportError(
            f"LUCID_PROVIDER: must be one of {known['providers']} on this machine, got {provider!r}"
        )
    isa = isa or os.environ.get("LUCID_ISA") or known["isas"][0]
    if isa not in known["isas"]:
        raise ImportError(f"LUCID_ISA: must be one of {known['isas']} on this machine, got {isa!r}")
    _active = _simd[known["isas"].index(isa)].kernels
    _provider, _isa = provider, isa


@contextlib.contextmanager
def using(provider=None, isa=None):
    """Context manager: `activate`, and restore on exit. For tests; it acts on every thread."""
    before = _provider, _isa
    activate(provider, isa)
    try:
        yield
    finally:
        activate(*before)


def entries():
    """Which provider serves each primitive of the table.

    Returns
    -------
    dict of str to str
    """
    return dict.fromkeys(PRIMITIVES, "simd")


def compiler():
    """Name and version of the C compiler that built the kernels."""
    return LUCID_COMPILER.decode()


def _usable_cpus():
    """Processors this process may use: its affinity, cut by a cgroup quota."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as f:
            quota, period = f.read().split()
        if quota != "max":
            cpus = min(cpus, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if requested.isdigit() and int(requested) > 0:
        cpus = int(requested)
    return cpus


def get_num_threads():
    """Threads that the next large call may use.

    The least of the limit set by `set_num_threads`, the processors this process may use (affinity,
    cgroup quota, ``OMP_NUM_THREADS``) and what the OpenMP runtime allows (which threadpoolctl sets).

    Returns
    -------
    int

    Examples
    --------
    >>> import lucid
    >>> lucid.get_num_threads() >= 1
    True
    """
    return lucid_num_threads()


def set_num_threads(n):
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
    lucid_set_num_threads(min(n, 1 << 20))


lucid_parallel_init(_usable_cpus())
activate()
