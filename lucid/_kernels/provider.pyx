"""The provider table: who computes, and with which instructions.

The C library is linked into this module alone, so that its state, the active table and the thread
limit, exists once. Other modules reach the drivers by the functions that `provider.pxd` declares.
"""
import contextlib
import importlib
import importlib.util
import os
import sys

cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer

from lucid._kernels cimport table


cdef extern from "contract/kernels.h" nogil:
    ctypedef struct lucid_simd:
        const char *isa
        const lucid_kernels *kernels
    size_t lucid_simd_available(lucid_simd *out)

cdef extern from "drivers/layout.h" nogil:
    void lucid_plan_loops(lucid_plan *plan, int nop, int ndim, const ptrdiff_t *shape,
                          const ptrdiff_t *const *strides, uint64_t reduced)
    void lucid_keep_order(int ndim, const ptrdiff_t *shape, const ptrdiff_t *like,
                          ptrdiff_t itemsize, ptrdiff_t *strides)

cdef extern from "drivers/reduce.h" nogil:
    int lucid_reduce(const lucid_kernels *kernels, const lucid_reduction *reduction)
    int lucid_mean_few(const lucid_kernels *kernels, const void *x, int wide, size_t outer,
                       size_t n, size_t inner, void *out)

cdef extern from "drivers/batch_norm.h" nogil:
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

cdef extern from "platform/parallel.h" nogil:
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
        and replaces_sums(&own.channel_f64, &simd.channel_f64),
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


# ---- threads, for threads.py ---------------------------------------------------------------------


def num_threads():
    """Threads that the next large call may use."""
    return lucid_num_threads()


def limit_threads(int n):
    """Set the limit of threads, at least 1."""
    lucid_set_num_threads(n)


def start_threads(int cpus):
    """Say how many processors there are; call it once, before anything is computed."""
    lucid_parallel_init(cpus)


activate()
