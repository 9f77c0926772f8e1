"""The two loops that every operation goes through: `record` builds the graph, `walk` goes back.

Compiled, since on small arrays they cost more than the arithmetic. What is rare is in the Python
modules beside this one.
"""
import itertools
from heapq import heappop, heappush

import numpy as np

from .._tensor import Tensor, constant
from .arrays import carries_gradient, check_devices, plain_numbers, tell_apart, wrap
from .context import Context, Output, already_freed, keep
from .gradients import accumulate, check, differentiate, miscounted, note
from .mode import Mode, _mode
from .schema import cast_inputs

cdef type ndarray = np.ndarray
cdef type tensor_type = Tensor
cdef type context_type = Context
cdef type output_type = Output
cdef object new_tensor = Tensor.__new__
cdef object count = itertools.count(1).__next__
cdef object float32 = np.dtype(np.float32), float64 = np.dtype(np.float64)
cdef frozenset no_arrays = frozenset(
    (np.ndarray, int, float, bool, tuple, str, slice, type(None), np.float64)
)
cdef object not_recorded = Mode(record=False), recorded = Mode(record=True)


cdef inline object wrapped(object array, tuple args, list arrays, object cls):
    """Make a result of `forward` a Tensor."""
    if type(array) is not ndarray or array.base is not None:
        return wrap(cls, array, args, arrays)
    for a in arrays:
        if a is array:
            return wrap(cls, array, args, arrays)
    y = new_tensor(tensor_type)
    y.data = array
    y.grad = y._edge = y._version = None
    return y


cdef inline bint has_gradient(object cls, object y, object result, object constants) except -1:
    dtype = y.data.dtype
    if dtype is not float32 and dtype is not float64 and not carries_gradient(cls, y):
        return False
    if constants:
        for a in constants:
            if a is result:
                return False
    return True


cdef inline int save(object ctx, tuple args, list arrays, object results, list outputs) except -1:
    """Replace the arrays that `forward` saved by Tensors that know their place in the graph.

    Inputs are kept as the Tensors they were. An output is kept apart from its Tensor, which refers
    to this node: a reference back would be a cycle.
    """
    cdef Py_ssize_t i
    cdef list saved = []
    version = 0
    for a in ctx._saved:
        if a is not None:
            if type(a) is not tensor_type:
                for i in range(len(arrays)):
                    if arrays[i] is a:
                        a = args[i]
                        break
                else:
                    a = keep(a, results, outputs)
            if isinstance(a, tensor_type):
                if a._version is not None:
                    version += a._version[0]
            elif type(a) is tuple:
                version += a[2][0]
            elif type(a) is ndarray:
                a = constant(a)
        saved.append(a)
    ctx._saved = saved
    ctx._version = version
    return 0


def record(cls, tuple args):
    """Run ``cls.forward`` and, if an input requires grad and recording is on, record it."""
    cdef Py_ssize_t i, n
    cdef bint recording, needed = False, alike = False, foreign = False
    cdef list arrays = [], edges = [], needs = [], outputs
    cdef object first = None, last = None
    mode = _mode.get()
    if mode.autocast is not None:
        args = cast_inputs(cls.schema_v1, *args)
    recording = mode.record and cls.schema_v1.produces_grad
    for i, a in enumerate(args):
        edge, data = None, a
        if isinstance(a, tensor_type):
            data = a.data
            if type(data) is not ndarray:
                foreign = alike = True  # MLX, or a subclass
            if recording:
                edge = a._edge
                if edge is not None:
                    needed = True
                    if edge is True:
                        edge = a
        elif type(a) is not ndarray:
            if type(a) not in no_arrays:
                foreign = True
            data = None
        arrays.append(a if data is None else data)
        edges.append(edge)
        needs.append(edge is not None)
        if data is None:
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
    ctx.function = cls
    ctx._saved = ctx._constants = ()
    ctx.needs_input_grad = tuple(needs)
    result = cls.forward(ctx, *arrays)
    if type(result) is not tuple and type(result) is not list:
        y = wrapped(result, args, arrays, cls)
        if not needed or not has_gradient(cls, y, result, ctx._constants):
            return y
        ctx.edges = edges
        ctx.seq = count()
        ctx.shape = y.data.shape
        ctx.dtype = y.data.dtype
        ctx.outputs = None
        ctx._version = 0
        if ctx._saved:
            save(ctx, args, arrays, (result,), [y])
        y._edge = ctx
        return y
    outputs = [wrapped(r, args, arrays, cls) for r in result]
    if needed:
        ctx.edges = edges
        ctx.seq = count()
        ctx.shape = ctx.dtype = None
        ctx.outputs = [
            (y.data.shape, y.data.dtype) if has_gradient(cls, y, r, ctx._constants) else None
            for r, y in zip(result, outputs)
        ]
        save(ctx, args, arrays, result, outputs)
        for i, y in enumerate(outputs):
            y._edge = ctx.output(i)
    return tuple(outputs)


cdef inline bint fits(object g, object like) except -1:
    """Whether `g` is a Tensor of the shape and dtype of `like`."""
    if not isinstance(g, tensor_type):
        return False
    data = g.data
    dtype, other = data.dtype, like.dtype
    return (dtype is other or dtype == other) and data.shape == like.shape


def walk(edges, grads, bint retain_graph, bint create_graph, targets=None, wanted=None,
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
    cdef bint fresh = False
    node = None
    previous = _mode.get()
    _mode.set(recorded if create_graph else not_recorded)
    try:
        while True:
            for edge, g in zip(edges, grads):
                if edge is None or g is None:
                    continue
                several = isinstance(edge, output_type)
                if not fits(g, edge if several or isinstance(edge, context_type) else edge.data):
                    check(node, g, edge)
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
                        if fresh and getattr(g.data, "base", None) is None:
                            owned.add(edge)
                        continue
                accumulate(store, slot, g, key, owned, create_graph)
            if not queue:
                return found, owned
            node = heappop(queue)[1]
            edges, grads = node.edges, waiting.pop(node)
            if targets is not None:
                note(node, grads, targets, found)
                if node not in onward:
                    edges = grads = ()
                    continue
            if edges is None:
                raise RuntimeError(already_freed(node))
            if targets is None and type(grads) is not list:
                grads = node.function.backward(node, grads)
            else:
                grads = differentiate(node, grads, onward)
            if type(grads) is not tuple:
                grads = tuple(grads) if type(grads) is list else (grads,)
            if len(grads) != len(edges):
                miscounted(node, grads)
            fresh = node.function.fresh_grads
            if not retain_graph:
                node.edges = node._saved = None
    finally:
        _mode.set(previous)
