"""Functions and their nodes: the only code that builds the graph.

`Function.apply` runs `forward` on raw arrays. If a gradient may be asked for, the `Context` that
`forward` was given becomes the node of the graph: the result refers to it, and it refers, through
`edges`, to the nodes (or leaves) its inputs came from. References only ever point from results to
inputs, so that a graph is freed as soon as its last result is.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from .._tensor import (
    Tensor,
    constant,
    dtype_name,
    in_native_order,
    is_complex,
    is_floating,
    is_mlx,
    share_version,
    to_array,
)
from .mode import _mode, no_grad
from .schema import AmpPolicy, OpSchema, cast_inputs

__all__ = ["AmpPolicy", "Context", "Function", "OpSchema", "cast_inputs", "once_differentiable"]


class Context:
    """What `forward` leaves for `backward`; also the node of the graph (``y.grad_fn``).

    Any attribute may be set on it in `forward` and read back in `backward` or on the node.
    Arrays set that way are constants to second-order gradients: inputs and outputs belong in
    `save_for_backward`.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_constants",
        "_saved",
        "_version",
        "dtype",
        "edges",
        "function",
        "needs_input_grad",
        "outputs",
        "seq",
        "shape",
    )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def node(self) -> Context:
        """Itself: the only output of a node with one output stands for the node."""
        return self

    @property
    def name(self) -> str:
        """The name of the node, such as ``"MeanBackward"``."""
        return self.function.node_name

    @property
    def schema_v1(self) -> OpSchema:
        """The schema of the Function."""
        return self.function.schema_v1

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """For each argument of `forward` a pair of node and output number.

        The node is None for constants and an `AccumulateGrad` for leaves.
        """
        return tuple(_next_function(e) for e in self.edges or ())

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def save_for_backward(self, *arrays: Any) -> None:
        """Save inputs, outputs or None for `backward`, which finds them in `saved_tensors`.

        Other arrays may be saved too, if they are integer or boolean, or if no second-order
        gradient will be asked for (that raises).
        """
        self._saved = arrays

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Say which of the arrays that `forward` returns are constants."""
        self._constants = outputs

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The Tensors saved in `forward`.

        Raises
        ------
        RuntimeError
            If the graph has been freed, or a saved Tensor was changed since by `copy_`.
        """
        if self._saved is None:
            raise RuntimeError(already_freed(self))
        tensors, version = [], 0
        for t in self._saved:
            if t.__class__ is tuple:
                t = self._restore(*t)
            if isinstance(t, Tensor) and t._version is not None:
                version += t._version[0]
            tensors.append(t)
        if version != self._version:
            raise RuntimeError(
                f"{self.name}: a Tensor saved for backward has been changed since by copy_"
            )
        return tuple(tensors)

    def _save(self, args: tuple, arrays: list, results: tuple, outputs: tuple) -> None:
        # Inputs are kept as the Tensors they were. An output is kept apart from its Tensor, which
        # refers to this node: a reference back would be a cycle.
        saved, version = [], 0
        for a in self._saved:
            if a is not None:
                if a.__class__ is not Tensor:
                    for i, x in enumerate(arrays):
                        if x is a:
                            a = args[i]
                            break
                    else:
                        a = _kept(a, results, outputs)
                if isinstance(a, Tensor):
                    if a._version is not None:
                        version += a._version[0]
                elif a.__class__ is tuple:
                    version += a[2][0]
                elif isinstance(a, ndarray) or is_mlx(a):
                    a = constant(a)
            saved.append(a)
        self._saved, self._version = saved, version

    def _restore(self, array: Any, index: int | None, version: list[int]) -> Tensor:
        t = constant(array)
        t._version = version
        if index is not None:
            t._edge = self if self.outputs is None else self._output(index)
        elif _mode.get().record:
            raise RuntimeError(
                f"{self.name}: no second-order gradient, since forward saved an array that is "
                "neither an input nor an output; save those, or mark backward with "
                "once_differentiable"
            )
        return t

    def _output(self, index: int) -> Output | None:
        meta = self.outputs[index]
        return None if meta is None else Output(self, index, *meta)


def _kept(a: Any, results: tuple, outputs: tuple) -> Any:
    """Return ``(array, index, version)`` of an output; the index of another array is None."""
    for i, r in enumerate(results):
        if r is a:
            return outputs[i].data, i, share_version(outputs[i])
    if isinstance(a, (int, float, Tensor)):
        return a
    a = to_array(a)
    return (a, None, [0]) if is_floating(a.dtype) else constant(a)


class Output(NamedTuple):
    """One of several outputs of a node."""

    node: Context
    index: int
    shape: tuple[int, ...]
    dtype: Any


class AccumulateGrad(NamedTuple):
    """Stands for a leaf in `Context.next_functions`."""

    variable: Tensor
    name: str = "AccumulateGrad"


def _next_function(edge):
    if edge is None:
        return (None, 0)
    if isinstance(edge, Tensor):
        return (AccumulateGrad(edge), 0)
    return (edge.node, getattr(edge, "index", 0))


def _find(array: Any, among: list) -> int | None:
    for i, a in enumerate(among):
        if a is array:
            return i
    return None


def already_freed(node: Context) -> str:
    return (
        f"{node.name}: the graph has been freed by an earlier backward; "
        "pass retain_graph=True to the earlier one to go through it again"
    )


def _check_takes_ctx(cls: type, name: str) -> None:
    method = cls.__dict__.get(name)
    code = getattr(inspect.unwrap(getattr(method, "__func__", method)), "__code__", None)
    if code is not None:
        position = isinstance(method, classmethod)
        names = code.co_varnames[: code.co_argcount]
        if names[position : position + 1] != ("ctx",) and not code.co_flags & inspect.CO_VARARGS:
            raise TypeError(
                f"{cls.__name__}.{name}: the first parameter must be ctx, got ({', '.join(names)})"
            )


_count = itertools.count(1).__next__
_new = Tensor.__new__
_NO_ARRAYS = frozenset((ndarray, int, float, bool, tuple, str, slice, type(None), np.float64))
_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def _wrap(cls: type, array: Any, args: tuple, arrays: list) -> Tensor:
    """Make a result of `forward` a Tensor that shares the write counter of its memory."""
    if array.__class__ is not ndarray:
        if isinstance(array, np.generic):
            return constant(np.asarray(array))
        if array is None or isinstance(array, (Tensor, str, dict, set)):
            raise TypeError(
                f"{cls.__name__}.forward: must return arrays, got {type(array).__name__}"
            )
        array = to_array(array)
    result = constant(array)
    owner = getattr(array, "base", None)  # MLX arrays have none
    if owner is not None or _find(array, arrays) is not None:
        owner = array if owner is None else owner
        for a in args:
            if isinstance(a, Tensor) and (a.data is owner or getattr(a.data, "base", 0) is owner):
                result._version = share_version(a)
    return result


def _carries_gradient(cls: type, result: Tensor) -> bool:
    dtype = result.data.dtype
    if dtype in _FLOATS:
        return True
    if is_complex(dtype):
        name = dtype_name(dtype)
        raise TypeError(f"{cls.schema_v1.name}: complex results have no gradient, got {name}")
    if not is_floating(dtype):
        return False
    result.data = in_native_order(result.data)
    return True


def check_devices(operation: str, arrays: Any) -> bool:
    """Raise TypeError if ndarrays and MLX arrays meet; say whether there are MLX arrays."""
    on_gpu = any(map(is_mlx, arrays))
    if on_gpu and any(isinstance(a, ndarray) for a in arrays):
        raise TypeError(f"{operation}: arguments must be on one device, got cpu and gpu; use to()")
    return on_gpu


def _check_stays(cls: type, result: Any, arrays: list) -> None:
    """Raise TypeError if NumPy's functions have taken MLX arrays to the cpu, as they do unasked."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    if any(isinstance(r, ndarray) for r in results) and any(map(is_mlx, arrays)):
        raise TypeError(
            f"{cls.__name__}.forward: must return arrays on the device of its arguments, gpu, got "
            "an ndarray; compute with mlx.core"
        )


def _plain_numbers(items: Any) -> list:
    # A NumPy scalar is on no device: as a Python number it takes the dtype of what it meets.
    return [a.item() if isinstance(a, np.generic) else a for a in items]


def _tell_apart(args: tuple, arrays: list) -> None:
    """Give distinct arguments distinct arrays: x, x.detach() and x.data share one."""
    seen = {}
    for i, a in enumerate(args):
        if hasattr(a, "dtype") and seen.setdefault(id(arrays[i]), a) is not a:
            arrays[i] = arrays[i][...]


def _finish_several(ctx, results, args, arrays, edges) -> tuple:
    """Make the results of `forward` Tensors; `edges` is None if they are not to be recorded."""
    cls, outputs, given = ctx.function, [], set(map(id, arrays))
    for r in results:
        if r.__class__ is ndarray and r.base is None and id(r) not in given:
            outputs.append(constant(r))
        else:
            outputs.append(_wrap(cls, r, args, arrays))
    if edges is not None:
        ctx.edges = edges
        ctx.seq = _count()
        ctx.shape = ctx.dtype = None
        ctx.outputs = [
            None
            if _find(r, ctx._constants) is not None or not _carries_gradient(cls, y)
            else (y.data.shape, y.data.dtype)
            for r, y in zip(results, outputs, strict=True)
        ]
        ctx._save(args, arrays, results, outputs)
        for i, y in enumerate(outputs):
            y._edge = ctx._output(i)
    return tuple(outputs)


class Function:
    """A differentiable operation.

    Subclasses define two static methods. ``forward(ctx, *args)`` gets arrays where `apply` was
    given Tensors, and returns an array or a tuple of arrays. ``backward(ctx, *grads)`` gets one
    Tensor for each output and returns one Tensor, or None, for each argument of `forward`. It
    computes with Tensors (NumPy's functions work on them), so that its own derivative is known.

    A node is created once, in `apply`, and consumed once, in backward, by one thread; independent
    graphs may run in parallel.

    Attributes
    ----------
    schema_v1 : OpSchema
        Name, version and autocast policy; Functions that give none get one of version 0.
    saves_input : bool
        Documents whether the graph keeps an input alive.
    materialize_grads : bool
        Whether `backward` gets zeros, or None, for outputs that no gradient reached.
    fresh_grads : bool
        Promise that `backward` returns arrays nobody else holds: the engine need not copy them.

    Examples
    --------
    A convolution by FFT. Its gradients are correlations, that is convolutions again, therefore
    it can be differentiated any number of times.

    >>> import numpy as np
    >>> import lucid
    >>> from scipy.signal import fftconvolve
    >>> class Convolve(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, w):
    ...         ctx.save_for_backward(x, w)
    ...         return fftconvolve(x, w, mode="full")
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         x, w = ctx.saved_tensors
    ...         dx = Convolve.apply(g, w[::-1])[len(w) - 1 : len(w) - 1 + len(x)]
    ...         dw = Convolve.apply(g, x[::-1])[len(x) - 1 : len(x) - 1 + len(w)]
    ...         return dx, dw
    >>> x = lucid.tensor(np.arange(4.0), requires_grad=True)
    >>> w = lucid.tensor([1.0, -2.0, 1.0], requires_grad=True)
    >>> y = Convolve.apply(x, w)
    >>> np.round(lucid.grad((y**2).sum(), w)[0], 6)
    tensor([  2., -24.,   2.])
    >>> lucid.autograd.gradgradcheck(Convolve.apply, (x, w))
    True
    """

    schema_v1: OpSchema = OpSchema("function")
    node_name: str = "FunctionBackward"
    saves_input: bool = True
    materialize_grads: bool = True
    fresh_grads: bool = False
    moves: bool = False  # to another device

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "node_name" not in cls.__dict__:
            cls.node_name = cls.__name__ + "Backward"
        if cls.schema_v1 is Function.schema_v1:
            cls.schema_v1 = OpSchema(cls.__name__, version=0)
        for name in ("forward", "backward"):
            _check_takes_ctx(cls, name)

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        """Compute the result from arrays."""
        raise NotImplementedError("Function.forward: must be defined by the subclass")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """Compute the gradients of the arguments from those of the results."""
        raise NotImplementedError(f"{ctx.name}: the Function defines no backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and, if an input requires grad and recording is on, record it.

        Parameters
        ----------
        *args
            Tensors, and anything else that `forward` takes.

        Returns
        -------
        Tensor or tuple of Tensor
        """
        mode = _mode.get()
        if mode.autocast is not None:
            args = cast_inputs(cls.schema_v1, *args)
        recording = mode.record and cls.schema_v1.produces_grad
        arrays, edges, needs = list(args), [None] * len(args), [False] * len(args)
        first = last = None
        record = alike = foreign = False
        for i, a in enumerate(args):
            if isinstance(a, Tensor):
                arrays[i] = data = a.data
                if data.__class__ is not ndarray:
                    foreign = alike = True  # MLX, or a subclass
                edge = a._edge
                if edge is not None and recording:
                    record = needs[i] = True
                    edges[i] = a if edge is True else edge
            elif a.__class__ is ndarray:
                data = a
            else:
                if a.__class__ not in _NO_ARRAYS:
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
            args, arrays = _plain_numbers(args), _plain_numbers(arrays)
        if record and alike:
            _tell_apart(args, arrays)

        ctx = Context()
        ctx.function = cls
        ctx._saved = ctx._constants = ()
        ctx.needs_input_grad = tuple(needs)
        result = cls.forward(ctx, *arrays)
        if foreign and not cls.moves:
            _check_stays(cls, result, arrays)
        if result.__class__ is tuple or result.__class__ is list:
            return _finish_several(ctx, result, args, arrays, edges if record else None)
        plain = result.__class__ is ndarray and result.base is None
        if plain and result is not first and result is not last:
            y = _new(Tensor)
            y.data = result
            y.grad = y._edge = y._version = None
        else:
            y = _wrap(cls, result, args, arrays)
        if not record:
            return y
        if y.data.dtype not in _FLOATS and not _carries_gradient(cls, y):
            return y
        if ctx._constants and _find(result, ctx._constants) is not None:
            return y
        ctx.edges = edges
        ctx.seq = _count()
        ctx.shape = y.data.shape
        ctx.dtype = y.data.dtype
        ctx.outputs = None
        ctx._version = 0
        if ctx._saved:
            ctx._save(args, arrays, (result,), (y,))
        y._edge = ctx
        return y


def _behind(edge):
    """Make up a Tensor that depends on what the edge leads to."""
    if edge is None or isinstance(edge, Tensor):
        return edge
    result = constant(np.empty(0))
    result._edge = edge
    return result


class _Opaque(Function):
    """Passes a gradient on, but has none itself: the result of a once-differentiable backward."""

    @staticmethod
    def forward(ctx, name, g, *depends_on):
        ctx.differentiated = name
        return g

    @staticmethod
    def backward(ctx, g):
        raise NotImplementedError(
            f"{ctx.differentiated}.backward is marked once_differentiable: "
            "it can't be differentiated itself"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` whose own derivative is not known.

    It runs without recording and may return arrays. Differentiating its result raises
    NotImplementedError, instead of giving a wrong answer.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> from scipy.special import gammaln, psi
    >>> class LogGamma(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return gammaln(x)
    ...
    ...     @staticmethod
    ...     @lucid.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g.data * psi(x.data)
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> LogGamma.apply(x).sum().backward()
    >>> np.round(x.grad, 4)
    tensor([-0.5772,  0.4228])
    """

    @functools.wraps(backward)
    def wrapper(ctx, *grads):
        record = _mode.get().record
        with no_grad():
            result = backward(ctx, *grads)
        several = isinstance(result, (tuple, list))
        results = [
            g if g is None or isinstance(g, Tensor) else constant(to_array(g))
            for g in (result if several else (result,))
        ]
        if record:
            name, inputs = ctx.function.__name__, map(_behind, ctx.edges)
            depends_on = (*grads, *(t for t in inputs if t is not None))
            results = [g if g is None else _Opaque.apply(name, g, *depends_on) for g in results]
        return tuple(results) if several else results[0]

    return wrapper
