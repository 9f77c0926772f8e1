"""Memory of large results: ndarrays whose pages come from, and return to, the cache of memory.c."""
import os
import sys

cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.string cimport memset, strcpy

from lucid._kernels cimport provider

cnp.import_array()


cdef extern from "platform/memory.h" nogil:
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


cdef object new_array(int nd, cnp.npy_intp *dims, int type_num):
    cdef cnp.npy_intp size = 8  # bytes of an element, whatever the type
    cdef int i
    for i in range(nd):
        size *= dims[i]
    if size < CACHED_BYTES:
        return PyArray_EMPTY(nd, dims, type_num, 0)
    return _from_cache(nd, dims, NULL, type_num)


cdef object new_ordered(int nd, cnp.npy_intp *dims, const cnp.npy_intp *like, int type_num):
    cdef cnp.npy_intp[64] strides
    provider.keep_order(nd, dims, like, cnp.PyDataType_ELSIZE(PyArray_DescrFromType(type_num)),
                        strides)
    return _from_cache(nd, dims, strides, type_num)


cdef object _from_cache(int nd, cnp.npy_intp *dims, cnp.npy_intp *strides, int type_num):
    """An array of a cached block, unless it is a small one."""
    cdef cnp.dtype descr = PyArray_DescrFromType(type_num)
    cdef cnp.npy_intp size = cnp.PyDataType_ELSIZE(descr)
    cdef object before
    cdef int i
    for i in range(nd):
        size *= dims[i]
    Py_INCREF(descr)  # PyArray_NewFromDescr takes a reference
    if size < CACHED_BYTES:
        return PyArray_NewFromDescr(cnp.ndarray, descr, nd, dims, strides, NULL, 0, None)
    before = PyDataMem_SetHandler(_capsule)
    try:
        return PyArray_NewFromDescr(cnp.ndarray, descr, nd, dims, strides, NULL, 0, None)
    finally:
        PyDataMem_SetHandler(before)


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
