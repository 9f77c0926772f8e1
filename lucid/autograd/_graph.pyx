"""The loops that every operation goes through: `record` builds the graph, `walk` goes back, and
`gather` adds to the leaves.

Compiled, since on small arrays they cost more than the arithmetic. What is rare is in the Python
modules beside this one. `isinstance` of a variable of C type `type` looks at the object itself, not
at what it claims to be, so that slots are read only where they are.
"""
cimport numpy as cnp
from cpython.contextvars cimport PyContextVar_Set, get_value
from cpython.object cimport PyTypeObject
from libc.stdint cimport uint64_t

from lucid.autograd._bases cimport Node
from lucid.autograd._slots cimport PyMemberDef, exchange, get, is_set, put, slot_of

import itertools
from heapq import heappop, heappush

import numpy as np

from .._tensor import Tensor, as_tensor, constant, copied, is_mlx, schedule
from .arrays import (
    carries_gradient,
    check_devices,
    check_stays,
    plain_numbers,
    tell_apart,
    wrap,
)
from .context import Context, Output, already_freed, changed, keep
from .gradients import accumulate, check, check_total, filled, miscounted, note, sum_of
from .mode import Mode, _mode, _narrowed
from .schema import cast_inputs

cnp.import_array()


cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *cls, Py_ssize_t items)


cdef extern from "numpy/arrayobject.h":
    object PyArray_FromScalar(object scalar, void *dtype)


cdef PyMemberDef *DATA = slot_of(Tensor, "_data")
cdef PyMemberDef *GRAD = slot_of(Tensor, "grad")
cdef PyMemberDef *EDGE = slot_of(Tensor, "_edge")
cdef PyMemberDef *VERSION = slot_of(Tensor, "_version")
cdef PyMemberDef *REPLACED = slot_of(Tensor, "_replaced")
cdef PyMemberDef *FUNCTION = slot_of(Context, "function")
cdef PyMemberDef *EDGES = slot_of(Context, "edges")
cdef PyMemberDef *SAVED = slot_of(Context, "_saved")
cdef PyMemberDef *SEQ = slot_of(Context, "seq")
cdef PyMemberDef *CONSTANTS = slot_of(Context, "_constants")
cdef PyMemberDef *SHAPE = slot_of(Context, "shape")
cdef PyMemberDef *NEEDS = slot_of(Context, "_needs")
cdef PyMemberDef *DTYPE = slot_of(Context, "dtype")
cdef PyMemberDef *OUTPUTS = slot_of(Context, "outputs")

cdef type ndarray = np.ndarray
cdef type scalar_type = np.generic
cdef type tensor_type = Tensor
cdef type context_type = Context
cdef type output_type = Output
cdef object count = itertools.count(1).__next__
cdef object float32 = np.dtype(np.float32), float64 = np.dtype(np.float64)
cdef frozenset no_arrays = frozenset(
    (np.ndarray, int, float, bool, tuple, str, slice, type(None), np.float64)
)
cdef object not_recorded = Mode(record=False), recorded = Mode(record=True)


cdef inline object wrapped(object array, tuple args, list arrays, object cls):
    """Make a result of `forward` a Tensor."""
    if type(array) is ndarray:
        if cnp.PyArray_BASE(<cnp.ndarray>array) is not NULL:
            return wrap(cls, array, args, arrays)
        for a in arrays:
            if a is array:
                return wrap(cls, array, args, arrays)
    elif isinstance(array, scalar_type):
        array = PyArray_FromScalar(array, NULL)
    else:
        return wrap(cls, array, args, arrays)
    y = PyType_GenericAlloc(<PyTypeObject *>tensor_type, 0)
    put(y, DATA, array)
    put(y, GRAD, None)
    put(y, EDGE, None)
    put(y, VERSION, None)
    return y


cdef inline bint has_gradient(object ctx, object y, object result) except -1:
    """Whether `y`, made of `result`, is neither of a dtype without gradient nor marked constant."""
    dtype = get(y, DATA).dtype
    if dtype is not float32 and dtype is not float64 and not carries_gradient(ctx.function, y):
        return False
    for a in get(ctx, CONSTANTS):
        if a is result:
            return False
    return True


cdef class Data:
    """The stored array itself. Writing to it is not tracked; assigning another is, and `copy_`."""

    def __get__(self, tensor, cls):
        if isinstance(tensor, tensor_type):
            return get(tensor, DATA)
        return self

    def __set__(self, tensor, value):
        tensor._assign(value)


Tensor.data = Data()  # not a property, which would cost three times as much to read

cdef uint64_t MIX = 0x9E3779B97F4A7C15  # odd, its bits like random: 2**64 over the golden ratio


cdef inline uint64_t layout_of(object data) except? 0:
    """A number that tells shapes and types apart."""
    cdef uint64_t h
    cdef int i
    if type(data) is not ndarray:
        return <uint64_t>hash((data.shape, data.dtype))
    h = cnp.PyArray_TYPE(<cnp.ndarray>data)
    for i in range(cnp.PyArray_NDIM(<cnp.ndarray>data)):
        h = (h + 1) * MIX + <uint64_t>cnp.PyArray_DIMS(<cnp.ndarray>data)[i]
    return h


cdef inline uint64_t layout_of_leaves(list edges) except? 0:
    """A number that changes with the layout of the leaves among `edges`.

    Functions ask a leaf for the shape that it had in `forward`.
    """
    cdef uint64_t h = 0
    for edge in edges:
        if isinstance(edge, tensor_type):
            h = h * MIX + layout_of(get(edge, DATA))
    return h


cdef uint64_t stamp(saved) except? 0:
    """A number that changes when a Tensor among `saved` is written to, replaced or reshaped."""
    cdef uint64_t h = 0
    for a in saved:
        if type(a) is tuple:
            data, _, version = a
            h = h * MIX + layout_of(data) + <uint64_t>version[0]
        elif isinstance(a, tensor_type):
            h = h * MIX + layout_of(get(a, DATA))
            version = get(a, VERSION)
            if version is not None:
                h += <uint64_t>version[0]
            if is_set(a, REPLACED):
                h += MIX * <uint64_t>get(a, REPLACED)
    return h


cdef inline int save(object ctx, tuple args, list arrays, object results, list outputs) except -1:
    """Replace the arrays that `forward` saved by Tensors that know their place in the graph.

    Inputs are kept as the Tensors they were. An output is kept apart from its Tensor, which refers
    to this node: a reference back would be a cycle.
    """
    cdef Py_ssize_t i
    cdef list saved = []
    for a in get(ctx, SAVED):
        if a is not None:
            if type(a) is not tensor_type:
                for i in range(len(arrays)):
                    if arrays[i] is a:
                        a = args[i]
                        break
                else:
                    a = keep(a, results, outputs)
            if type(a) is not tuple and not isinstance(a, tensor_type):
                if type(a) is ndarray or is_mlx(a):
                    a = constant(a)
        saved.append(a)
    put(ctx, SAVED, saved)
    (<Node>ctx).stamp = stamp(saved)
    return 0


def saved_tensors(ctx):
    """The Tensors saved in `forward`.

    Raises
    ------
    RuntimeError
        If the graph has been freed, or a saved Tensor was changed since: by `copy_`, by assigning
        its `data`, or by reshaping that in place.
    """
    if not isinstance(ctx, context_type):
        raise TypeError(f"saved_tensors: must be those of a Context, got {type(ctx).__name__}")
    saved = get(ctx, SAVED)
    if saved is None:
        raise RuntimeError(already_freed(ctx))
    if stamp(saved) != (<Node>ctx).stamp:
        raise RuntimeError(changed(ctx))
    return tuple([ctx._restore(*a) if type(a) is tuple else a for a in saved])


cdef class NeedsInputGrad:
    """Which arguments of `forward` need a gradient; in `backward`, which of these are asked for."""

    def __get__(self, ctx, cls):
        if not isinstance(ctx, context_type):
            return self
        narrowed = get_value(_narrowed)
        if narrowed is not None and (<tuple>narrowed)[0] is ctx:
            return (<tuple>narrowed)[1]
        return get(ctx, NEEDS)


Context.saved_tensors = property(saved_tensors)
Context.needs_input_grad = NeedsInputGrad()


def record(cls, tuple args):
    """Run ``cls.forward`` and, if an input requires grad and recording is on, record it."""
    cdef Py_ssize_t i
    cdef bint recording, needed = False, alike = False, foreign = False
    cdef list arrays, edges, needs, outputs
    cdef object first = None, last = None
    mode = get_value(_mode)
    if mode.autocast is not None:
        args = cast_inputs(cls.schema_v1, *args)
    recording = mode.record and cls.schema_v1.produces_grad
    arrays, edges, needs = list(args), [None] * len(args), [False] * len(args)
    for i, a in enumerate(args):
        if isinstance(a, tensor_type):
            arrays[i] = data = get(a, DATA)
            if type(data) is not ndarray:
                foreign = alike = True  # MLX, or a subclass
            edge = get(a, EDGE)
            if edge is not None and recording:
                needed = needs[i] = True
                edges[i] = a if edge is True else edge
        elif type(a) is ndarray:
            data = a
        else:
            if type(a) not in no_arrays:
                foreign = True
            continue
        if first is None:
            first = data
        elif data is last:
            alike = alike or a is not args[i - 1]  # not for x * x
        elif data is first or i > 2:
            alike = True
        last = data
    if foreign and check_devices(cls.schema_v1.name, arrays):
        args, arrays = tuple(plain_numbers(args)), plain_numbers(arrays)
    if needed and alike:
        tell_apart(args, arrays)

    ctx = cls.context_class()
    if not isinstance(ctx, context_type):
        raise TypeError(f"{cls.__name__}.context_class: must be Context or a subclass of it")
    put(ctx, FUNCTION, cls)
    put(ctx, SAVED, ())
    put(ctx, CONSTANTS, ())
    put(ctx, NEEDS, tuple(needs))
    result = cls.forward(ctx, *arrays)
    if foreign and not cls.moves:
        check_stays(cls, result, arrays)
    if type(result) is not tuple and type(result) is not list:
        y = wrapped(result, args, arrays, cls)
        if not needed or not has_gradient(ctx, y, result):
            return y
        put(ctx, EDGES, edges)
        put(ctx, SEQ, count())
        put(ctx, SHAPE, get(y, DATA).shape)
        put(ctx, DTYPE, get(y, DATA).dtype)
        put(ctx, OUTPUTS, None)
        (<Node>ctx).leaves = layout_of_leaves(edges)
        if get(ctx, SAVED):
            save(ctx, args, arrays, (result,), [y])
        put(y, EDGE, ctx)
        return y
    outputs = [wrapped(r, args, arrays, cls) for r in result]
    if needed:
        put(ctx, EDGES, edges)
        put(ctx, SEQ, count())
        put(ctx, SHAPE, None)
        put(ctx, DTYPE, None)
        put(ctx, OUTPUTS, [
            (y._data.shape, y._data.dtype) if has_gradient(ctx, y, r) else None
            for r, y in zip(result, outputs)
        ])
        (<Node>ctx).leaves = layout_of_leaves(edges)
        save(ctx, args, arrays, result, outputs)
        for i, y in enumerate(outputs):
            put(y, EDGE, ctx.output(i))
    return tuple(outputs)


cdef inline bint same_shape(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef int i, ndim = cnp.PyArray_NDIM(a)
    if ndim != cnp.PyArray_NDIM(b):
        return False
    for i in range(ndim):
        if cnp.PyArray_DIMS(a)[i] != cnp.PyArray_DIMS(b)[i]:
            return False
    return True


cdef inline bint fits(object g, object like) except -1:
    """Whether `g` is a Tensor of the shape and dtype of `like`."""
    if not isinstance(g, tensor_type):
        return False
    data = get(g, DATA)
    if type(data) is ndarray and type(like) is ndarray:
        if not same_shape(<cnp.ndarray>data, <cnp.ndarray>like):
            return False
        if cnp.PyArray_DESCR(<cnp.ndarray>data) is cnp.PyArray_DESCR(<cnp.ndarray>like):
            return True
    dtype, other = data.dtype, like.dtype
    return (dtype is other or dtype == other) and data.shape == like.shape


cdef object differentiate(object node, object grads, object needs):
    """Call `backward`; `needs` are those of its gradients that are asked for, or None for all."""
    function = get(node, FUNCTION)
    all_of_them = needs is None or needs == get(node, NEEDS)
    if type(grads) is not list:
        if all_of_them:
            return function.backward(node, grads)
        grads = (grads,)
    elif function.materialize_grads:
        grads = filled(node, grads)
    if all_of_them:
        return function.backward(node, *grads)
    previous = get_value(_narrowed)
    PyContextVar_Set(_narrowed, (node, needs))
    try:
        return function.backward(node, *grads)
    finally:
        PyContextVar_Set(_narrowed, previous)


def walk(list edges, grads, bint retain_graph, bint create_graph, targets=None, wanted=None,
         onward=None):
    """Send `grads` along `edges` and on to the targets, or to all leaves if these are None.

    Nodes are numbered as they are created, so every node has a higher number than those it got its
    inputs from. Always taking the highest number among those waiting therefore visits a node only
    after everything computed from it: no counting of dependencies, and no recursion.

    Returns the gradients found and the set of those keys whose arrays nobody else holds.
    """
    cdef dict found = {}, waiting = {}
    cdef set owned = set()
    cdef list queue = []
    cdef bint fresh = False, several
    cdef Py_ssize_t i
    node = None
    previous = get_value(_mode)
    PyContextVar_Set(_mode, recorded if create_graph else not_recorded)
    try:
        while True:
            for i, edge in enumerate(edges):
                g = grads[i]
                if edge is None or g is None:
                    continue
                several = isinstance(edge, output_type)
                like = edge
                if not several and not isinstance(edge, context_type):
                    like = get(edge, DATA)
                if not fits(g, like):
                    check(node, g, like)
                if wanted is not None and (edge.node if several else edge) not in wanted:
                    continue
                store, slot, key = waiting, edge, edge
                if isinstance(edge, context_type):
                    if edge not in waiting:
                        waiting[edge] = g
                        heappush(queue, (-edge.seq, edge))
                        continue
                elif several:
                    if edge.node not in waiting:
                        waiting[edge.node] = [None] * len(edge.node.outputs)
                        heappush(queue, (-edge.node.seq, edge.node))
                    store, slot, key = waiting[edge.node], edge.index, edge[:2]
                    if store[slot] is None:
                        store[slot] = g
                        continue
                else:
                    store = found
                    if edge not in found:
                        found[edge] = g
                        if fresh and getattr(get(g, DATA), "base", None) is None:
                            owned.add(edge)
                        continue
                accumulate(store, slot, g, key, owned, create_graph)
            if not queue:
                return found, owned
            node = heappop(queue)[1]
            edges, grads = get(node, EDGES), waiting.pop(node)
            if targets is not None:
                if type(grads) is list or node in targets:
                    note(node, grads, targets, found)
                if node not in onward:
                    edges = []
                    continue
            if edges is None:
                raise RuntimeError(already_freed(node))
            if layout_of_leaves(edges) != (<Node>node).leaves:
                raise RuntimeError(changed(node))
            grads = differentiate(node, grads, None if onward is None else onward[node])
            if type(grads) is not tuple:
                grads = tuple(grads) if type(grads) is list else (grads,)
            if len(grads) != len(edges):
                miscounted(node, grads)
            fresh = get(node, FUNCTION).fresh_grads
            if not retain_graph:
                put(node, EDGES, None)
                put(node, SAVED, None)
    finally:
        PyContextVar_Set(_mode, previous)


cdef object total(object old, object g, bint owned, bint create_graph):
    """What the `.grad` of a leaf becomes: of arrays that nobody else writes to."""
    if old is None:
        if owned:
            return g
        return +g if create_graph else constant(copied(get(g, DATA)))
    if not isinstance(old, tensor_type):
        old = as_tensor(old)
    if type(get(old, DATA)) is not ndarray or not fits(old, get(g, DATA)):
        check_total(old, g)
    return old + g if create_graph else constant(sum_of(get(old, DATA), get(g, DATA)))


def gather(dict found, set owned, bint create_graph):
    """Add the gradients found by `walk` to the `.grad` of their leaves.

    Of those that other threads add at the same time none is lost: a sum takes the place of that
    `.grad` only which it was computed from, else it is computed anew. No lock is held meanwhile.
    """
    cdef list leaves = list(found), olds, totals
    cdef bint foreign
    cdef Py_ssize_t i
    while leaves:
        olds, totals, foreign = [], [], False
        for leaf in leaves:
            old, g = get(leaf, GRAD), found[leaf]
            olds.append(old)
            totals.append(total(old, g, leaf in owned, create_graph))
            foreign = foreign or type(get(g, DATA)) is not ndarray
        if foreign:  # before another thread can see them
            schedule(*[get(t, DATA) for t in totals])
        leaves = [
            leaf for i, leaf in enumerate(leaves) if not exchange(leaf, GRAD, olds[i], totals[i])
        ]
