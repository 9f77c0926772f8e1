"""The provider table: who computes, with which instructions, on how many threads.

This module alone holds mutable C state: the active table and the thread limit.
"""
import contextlib
import importlib
import importlib.util
import os
import sys

cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.string cimport memset, strcpy

from lucid._kernels cimport kernels as table


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
    int lucid_mean_few(const lucid_kernels *kernels, const void *x, int wide, size_t outer,
                       size_t n, size_t inner, void *out)

cdef extern from "batch_norm.h" nogil:
    int lucid_batch_norm_forward(
        const lucid_channels *of, lucid_array x, lucid_vector weight, lucid_vector bias,
        lucid_vector running_mean, lucid_vector running_var, double momentum, double eps,
        lucid_array y, double *mean, double *rstd)
    int lucid_batch_norm_inference(
        const lucid_channels *of, lucid_array x, lucid_vector weight, lucid_vector bias,
        lucid_vector running_mean, lucid_vector running_var, double eps, lucid_array y,
        double *mean, double *rstd)
    int lucid_batch_norm_backward(
        const lucid_channels *of, lucid_array dy, lucid_array x, lucid_vector weight,
        lucid_vector mean, lucid_vector rstd, int training, lucid_array dx, lucid_vector dweight,
        lucid_vector dbias)
    int lucid_batch_norm_double_backward(
        const lucid_channels *of, lucid_array v, lucid_vector w, lucid_vector u, lucid_array dy,
        lucid_array x, lucid_vector weight, lucid_vector mean, lucid_vector rstd, int training,
        lucid_array to_dy, lucid_array to_x, lucid_vector to_weight)

cdef extern from "parallel.h" nogil:
    int lucid_num_threads()
    void lucid_set_num_threads(int n)
    void lucid_parallel_init(int cpus)

cdef extern from "memory.h" nogil:
    void *lucid_memory_take(size_t size)
    void lucid_memory_give(void *memory)
    void *lucid_memory_resize(void *memory, size_t size)
    void lucid_memory_clear()
    void lucid_memory_set_limit(size_t bytes)
    size_t lucid_memory_limit()
    size_t lucid_memory_cached()
    void lucid_memory_init(size_t limit)

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyDataMemAllocator:
        void *ctx
        void *(*malloc)(void *ctx, size_t size) noexcept nogil
        void *(*calloc)(void *ctx, size_t count, size_t size) noexcept nogil
        void *(*realloc)(void *ctx, void *memory, size_t size) noexcept nogil
        void (*free)(void *ctx, void *memory, size_t size) noexcept nogil
    ctypedef struct PyDataMem_Handler:
        char name[127]
        unsigned char version
        PyDataMemAllocator allocator
    object PyDataMem_SetHandler(object handler)
    object PyArray_NewFromDescr(type subtype, cnp.dtype descr, int nd, const cnp.npy_intp *dims,
                                const cnp.npy_intp *strides, void *data, int flags, object obj)
    object PyArray_EMPTY(int nd, cnp.npy_intp *dims, int typenum, int fortran)
    cnp.dtype PyArray_DescrFromType(int typenum)


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


cdef extern from *:
    """
    #if !defined(LUCID_ACCELERATE)
    #define LUCID_ACCELERATE ""
    #endif
    """
    const char *LUCID_ACCELERATE  # where it comes from: "framework", "shim" or nowhere


cdef lucid_simd[8] _simd
cdef size_t _simd_count = lucid_simd_available(_simd)
cdef const lucid_kernels *_active = NULL
_provider = None
_isa = None

# Modules of the other providers, and the tables that they have filled: a row for each, a column for
# each instruction set.
_MODULES = {"accelerate": "lucid._kernels._accelerate", "blas": "lucid._kernels._blas"}
cdef table.lucid_kernels[2][8] _filled
_is_filled = set()

ctypedef void (*provider_fill)(table.lucid_kernels *) noexcept nogil

# Primitives of the table, for show_config.
PRIMITIVES = ("sum_rows", "sum_cols", "moments_rows", "moments_cols", "means", "unpack",
              "channel_sums", "channel_affine", "pack", "rsqrt")


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


cdef int mean_few(const void *x, bint wide, size_t outer, size_t n, size_t inner,
                  void *out) noexcept nogil:
    return lucid_mean_few(_active, x, wide, outer, n, inner, out)


cdef int batch_norm_forward(lucid_channels *of, lucid_array x, lucid_vector weight,
                            lucid_vector bias, lucid_vector running_mean, lucid_vector running_var,
                            double momentum, double eps, lucid_array y, double *mean,
                            double *rstd) noexcept nogil:
    of.kernels = _active
    return lucid_batch_norm_forward(of, x, weight, bias, running_mean, running_var, momentum, eps,
                                    y, mean, rstd)


cdef int batch_norm_inference(lucid_channels *of, lucid_array x, lucid_vector weight,
                              lucid_vector bias, lucid_vector running_mean,
                              lucid_vector running_var, double eps, lucid_array y, double *mean,
                              double *rstd) noexcept nogil:
    of.kernels = _active
    return lucid_batch_norm_inference(of, x, weight, bias, running_mean, running_var, eps, y, mean,
                                      rstd)


cdef int batch_norm_backward(lucid_channels *of, lucid_array dy, lucid_array x, lucid_vector weight,
                             lucid_vector mean, lucid_vector rstd, int training, lucid_array dx,
                             lucid_vector dweight, lucid_vector dbias) noexcept nogil:
    of.kernels = _active
    return lucid_batch_norm_backward(of, dy, x, weight, mean, rstd, training, dx, dweight, dbias)


cdef int batch_norm_double_backward(lucid_channels *of, lucid_array v, lucid_vector w,
                                    lucid_vector u, lucid_array dy, lucid_array x,
                                    lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                                    int training, lucid_array to_dy, lucid_array to_x,
                                    lucid_vector to_weight) noexcept nogil:
    of.kernels = _active
    return lucid_batch_norm_double_backward(of, v, w, u, dy, x, weight, mean, rstd, training, to_dy,
                                            to_x, to_weight)


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
    providers = ["simd"]
    if importlib.util.find_spec("scipy") is not None:  # not imported before it is needed
        providers.append("blas")
    if LUCID_ACCELERATE != b"":
        providers.insert(0 if LUCID_ACCELERATE == b"framework" else len(providers), "accelerate")
    return {"providers": providers, "isas": [_simd[i].isa.decode() for i in range(_simd_count)]}


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
    cdef size_t which = known["isas"].index(isa)
    _active = _simd[which].kernels if provider == "simd" else filled(provider, which)
    _provider, _isa = provider, isa


cdef const lucid_kernels *filled(provider, size_t isa) except NULL:
    cdef table.lucid_kernels *own = &_filled[list(_MODULES).index(provider)][isa]
    if (provider, isa) not in _is_filled:
        module = importlib.import_module(_MODULES[provider])
        own[0] = (<const table.lucid_kernels *>_simd[isa].kernels)[0]
        (<provider_fill>PyCapsule_GetPointer(module.FILL, "lucid_provider_fill"))(own)
        _is_filled.add((provider, isa))
    return <const lucid_kernels *>own


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
    simd = <const table.lucid_kernels *>_simd[available()["isas"].index(_isa)].kernels
    own = <const table.lucid_kernels *>_active
    replaced = {
        "sum_rows": own.f32.sum_rows != simd.f32.sum_rows
        and own.f64.sum_rows != simd.f64.sum_rows,
        "sum_cols": own.f32.sum_cols != simd.f32.sum_cols
        and own.f64.sum_cols != simd.f64.sum_cols,
        "moments_rows": own.f32.moments_rows != simd.f32.moments_rows
        and own.f64.moments_rows != simd.f64.moments_rows,
        "moments_cols": own.f32.moments_cols != simd.f32.moments_cols
        and own.f64.moments_cols != simd.f64.moments_cols,
        "rsqrt": own.rsqrt != simd.rsqrt,
        "channel_sums": replaces_sums(&own.channel_f32, &simd.channel_f32)
        and replaces_sums(&own.channel_f64, &simd.channel_f64)
        and replaces_sums(&own.channel_wide, &simd.channel_wide),
        "channel_affine": replaces_affine(&own.channel_f32, &simd.channel_f32)
        and replaces_affine(&own.channel_f64, &simd.channel_f64)
        and replaces_affine(&own.channel_wide, &simd.channel_wide),
    }
    return {name: _provider if replaced.get(name) else "simd" for name in PRIMITIVES}


# Whether all entries of a kind differ: one that is shared would serve in another provider's name.
cdef bint replaces_sums(const table.lucid_channel_entries *own,
                        const table.lucid_channel_entries *simd):
    for order in range(3):
        if (own.sums_rows[order] == simd.sums_rows[order]
                or own.sums_cols[order] == simd.sums_cols[order]):
            return False
    return True


cdef bint replaces_affine(const table.lucid_channel_entries *own,
                          const table.lucid_channel_entries *simd):
    for order in range(3):
        if (own.affine_rows[order] == simd.affine_rows[order]
                or own.affine_cols[order] == simd.affine_cols[order]):
            return False
    return True


def compiler():
    """Name and version of the C compiler that built the kernels."""
    return LUCID_COMPILER.decode()


def _usable_cpus():
    """Processors this process may use: the least of affinity, cgroup quota, OMP_NUM_THREADS."""
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
        cpus = min(cpus, int(requested))
    return cpus


def get_num_threads():
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


# ---- memory of large results -----------------------------------------------------------------

# Below this many bytes the system's allocator keeps pages itself, and switching handlers costs
# more than it saves.
cdef enum:
    CACHED_BYTES = 1 << 20


cdef void *_malloc(void *ctx, size_t size) noexcept nogil:
    return lucid_memory_take(size)


cdef void *_calloc(void *ctx, size_t count, size_t size) noexcept nogil:
    cdef void *memory
    if size and count > <size_t>-1 // size:
        return NULL
    memory = lucid_memory_take(count * size)
    if memory != NULL:
        memset(memory, 0, count * size)
    return memory


cdef void *_realloc(void *ctx, void *memory, size_t size) noexcept nogil:
    return lucid_memory_resize(memory, size)


cdef void _free(void *ctx, void *memory, size_t size) noexcept nogil:
    lucid_memory_give(memory)


# NEP 49. Arrays keep the handler they were made with, for as long as they live.
cdef PyDataMem_Handler _handler
strcpy(_handler.name, b"lucid")
_handler.version = 1
_handler.allocator = PyDataMemAllocator(NULL, _malloc, _calloc, _realloc, _free)
cdef object _capsule = PyCapsule_New(&_handler, "mem_handler", NULL)


cdef cnp.npy_intp item_size(int type_num):
    return cnp.PyDataType_ELSIZE(PyArray_DescrFromType(type_num))


cdef object new_array(int nd, cnp.npy_intp *dims, cnp.npy_intp *strides, int type_num):
    cdef cnp.dtype descr
    cdef cnp.npy_intp size = 1
    cdef object before, array
    cdef int i
    for i in range(nd):
        size *= dims[i]
    if size * 8 < CACHED_BYTES and strides == NULL:  # whatever the type
        return PyArray_EMPTY(nd, dims, type_num, 0)
    descr = PyArray_DescrFromType(type_num)
    size *= cnp.PyDataType_ELSIZE(descr)
    Py_INCREF(descr)  # PyArray_NewFromDescr takes a reference
    if size < CACHED_BYTES:
        return PyArray_NewFromDescr(cnp.ndarray, descr, nd, dims, strides, NULL, 0, None)
    before = PyDataMem_SetHandler(_capsule)
    try:
        array = PyArray_NewFromDescr(cnp.ndarray, descr, nd, dims, strides, NULL, 0, None)
    finally:
        PyDataMem_SetHandler(before)
    return array


def clear_cache():
    """Give the memory kept for future results back to the system.

    Results of a megabyte or more return their memory to a cache when they are freed, so that a
    loop does not wait for fresh pages in each round.

    Examples
    --------
    >>> import lucid
    >>> lucid.clear_cache()
    >>> lucid.cache_info()["bytes"]
    0
    """
    with nogil:
        lucid_memory_clear()


def set_cache_limit(n_bytes):
    """Bound the memory kept for future results, in bytes; 0 keeps none.

    Parameters
    ----------
    n_bytes : int
        At least 0. At import it is 512 MiB, or an eighth of the machine's memory if that is less.

    Raises
    ------
    TypeError, ValueError
        `n_bytes` is not an integer, or negative.

    Examples
    --------
    >>> import lucid
    >>> before = lucid.cache_info()["limit"]
    >>> lucid.set_cache_limit(0)
    >>> lucid.set_cache_limit(before)
    """
    if isinstance(n_bytes, bool) or not hasattr(n_bytes, "__index__"):
        raise TypeError(f"set_cache_limit: n_bytes must be an integer, got {n_bytes!r}")
    n_bytes = n_bytes.__index__()
    if n_bytes < 0:
        raise ValueError(f"set_cache_limit: n_bytes must be at least 0, got {n_bytes}")
    cdef size_t limit = min(n_bytes, sys.maxsize)
    with nogil:
        lucid_memory_set_limit(limit)


def cache_info():
    """Bytes kept for future results, and their limit.

    Returns
    -------
    dict
        ``{"bytes": int, "limit": int}``.

    Examples
    --------
    >>> import lucid
    >>> info = lucid.cache_info()
    >>> info["bytes"] <= info["limit"]
    True
    """
    return {"bytes": lucid_memory_cached(), "limit": lucid_memory_limit()}


def _default_limit():
    limit = 512 << 20
    try:
        return min(limit, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8)
    except (AttributeError, OSError, ValueError):
        return limit


lucid_memory_init(_default_limit())
lucid_parallel_init(_usable_cpus())
activate()
