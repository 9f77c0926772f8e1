"""The Tensor: an array and its place in the graph.

Everything that computes (operators, NumPy functions, methods such as ``sum``) is bound from the
table in `lucid.ops`; `backward` is bound by `lucid.autograd.engine`.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ._bound import Bound
else:
    Bound = object

_FLOATING_NAMES = frozenset({"float16", "bfloat16", "float32", "float64"})


def dtype_name(dtype: Any) -> str:
    """Return the plain name of a NumPy or MLX dtype.

    >>> dtype_name(np.dtype("float16"))
    'float16'
    """
    return str(dtype).rpartition(".")[2]


def is_floating(dtype: Any) -> bool:
    """Whether arrays of this dtype, NumPy's or MLX's, can carry a gradient."""
    return getattr(dtype, "kind", None) == "f" or dtype_name(dtype) in _FLOATING_NAMES


def is_complex(dtype: Any) -> bool:
    """Whether a dtype, NumPy's or MLX's, is complex."""
    return getattr(dtype, "kind", None) == "c" or dtype_name(dtype).startswith("complex")


class Tensor(Bound):
    """An array that remembers how it was computed.

    Parameters
    ----------
    data : array_like
        Copied, keeping its memory order. `lucid.as_tensor` does not copy.
    requires_grad : bool
        Whether gradients are to be computed for this Tensor.

    Attributes
    ----------
    data : numpy.ndarray or mlx.core.array
        The stored array itself. Writing to it is not tracked; `copy_` is, and so is assigning
        another array to the attribute: a graph that saved this Tensor then raises in `backward`.
    grad : Tensor or None
        The gradient gathered by `backward`, for leaves only.

    Raises
    ------
    TypeError
        If `requires_grad` is set on data that is not real floating point, or if `data` is a
        Tensor that requires grad: `detach` it.

    Examples
    --------
    >>> import lucid
    >>> x = lucid.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """

    # _edge: None for a constant, True for a leaf that requires grad (a reference to itself would
    # be a cycle), else the node, or the output of a node, that computed this Tensor.
    # _version: None until a Tensor sharing this memory may be written, then a one-element list
    # shared by all of them.
    # _replaced: how often another array has been assigned to `data`; missing before the first.
    __slots__ = ("__weakref__", "_data", "_edge", "_replaced", "_version", "grad")
    data: Any  # bound by `lucid.autograd._graph`: the slot, and `_assign`
    grad: Tensor | None
    _data: Any
    _edge: Any
    _replaced: int
    _version: list[int] | None

    __hash__ = object.__hash__  # == is elementwise; as keys, Tensors are compared by identity

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        if isinstance(data, Tensor):
            if data._edge is not None:
                raise TypeError(
                    "tensor: data must not require grad, since a copy would lose its gradient; "
                    "use detach()"
                )
            data = data._data
        self._data = to_array(data, copy=True)
        self.grad = None
        self._version = None
        self._edge = None
        if requires_grad:
            self.requires_grad = True

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this Tensor; may be set on leaves.

        Those that require grad are in native byte order: setting it copies data of another.
        """
        return self._edge is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not self.is_leaf:
            raise RuntimeError(
                "requires_grad: may be set on leaves only, this Tensor was computed by "
                f"{self.grad_fn.name}; use detach()"
            )
        if value and not is_floating(self._data.dtype):
            name = dtype_name(self._data.dtype)
            raise TypeError(f"requires_grad: dtype must be real floating point, got {name}")
        if value:
            self._data = in_native_order(self._data)
        self._edge = True if value else None

    def _assign(self, value: Any) -> None:
        """Set `data`: whatever is wrong with the value is said here, and not by what uses it."""
        version = None
        if isinstance(value, Tensor):
            if value._edge is not None:
                raise RuntimeError("data: value must not require grad; use detach()")
            version, value = share_version(value), value._data
        elif isinstance(value, (np.ndarray, np.generic)):
            value = to_array(value, operation="data")
        elif not is_mlx(value):
            raise TypeError(
                f"data: value must be an array, got {type(value).__name__}; "
                "use copy_, or np.asarray"
            )
        old = self._data
        if type(value) is not type(old):
            device = "cpu" if isinstance(value, np.ndarray) else "gpu"
            raise TypeError(
                f"data: value must be on the device of the Tensor, {self.device}, got {device}; "
                "use to()"
            )
        if self._edge is not None:
            if not is_floating(value.dtype):
                raise TypeError(
                    "data: value must be real floating point while the Tensor requires grad, got "
                    f"{dtype_name(value.dtype)}"
                )
            value = in_native_order(value)
            if not self.is_leaf and (value.shape, value.dtype) != (old.shape, old.dtype):
                raise RuntimeError(
                    f"data: value must have the shape {old.shape} and dtype "
                    f"{dtype_name(old.dtype)} of a result of {self.grad_fn.name}, got "
                    f"{value.shape} and {dtype_name(value.dtype)}; use detach()"
                )
        self._replace(value, version)

    def _replace(self, array: Any, version: list[int] | None = None) -> None:
        """Store another array, which those of `version`, or none, share; graphs notice."""
        old = self._data
        if array is old:  # as after ``t.data += 1``
            if self._version is not None:
                self._version[0] += 1
        elif version is not None or is_mlx(array) or not np.may_share_memory(array, old):
            self._version = version
        self._replaced = getattr(self, "_replaced", 0) + 1
        self._data = array

    @property
    def grad_fn(self) -> Any:
        """The node that computed this Tensor, None for leaves."""
        edge = self._edge
        return None if edge is None or edge is True else edge.node

    @property
    def is_leaf(self) -> bool:
        """Whether this Tensor was made by the user, or outside the graph."""
        return self._edge is None or self._edge is True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self._data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self._data.dtype

    @property
    def device(self) -> str:
        """``"cpu"`` for NumPy memory, ``"gpu"`` for MLX arrays."""
        return "cpu" if isinstance(self._data, np.ndarray) else "gpu"

    def detach(self) -> Tensor:
        """Return a constant that shares this Tensor's memory."""
        result = constant(self._data)
        result._version = share_version(self)
        return result

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the array (for ``"gpu"`` a copy of it).

        Raises
        ------
        TypeError
            If the Tensor requires grad: ``t.detach().numpy()`` says that the gradient ends here.
        """
        return self.__array__()

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if self._edge is not None:
            raise TypeError(
                "numpy: a Tensor that requires grad can't become an array without losing its "
                "gradient; use detach(), or np.stack to join a list of Tensors"
            )
        if not isinstance(self._data, np.ndarray) and copy is False:
            raise ValueError("numpy: an array on the gpu can't become an ndarray without a copy")
        return np.array(to_numpy(self._data), dtype=dtype, copy=copy)

    def __mlx_array__(self) -> Any:
        # Asked for by MLX's operators and functions, which would lose the gradient.
        if self._edge is not None:
            raise TypeError(
                "mlx: a Tensor that requires grad can't become an mlx.core.array without losing "
                "its gradient; put it first (tensor * array), or use detach()"
            )
        if not is_mlx(self._data):
            raise TypeError("mlx: a Tensor on the cpu can't become an mlx.core.array; use to()")
        return self._data

    def item(self) -> float | int | bool:
        """Return the one element as a Python number."""
        return self._data.item()

    def copy_(self, array: Any) -> Tensor:
        """Overwrite the elements in place, broadcasting `array`; returns the Tensor.

        A graph that saved this Tensor, or a view of it, notices and raises in `backward`.

        Raises
        ------
        RuntimeError
            If the Tensor is not a leaf, or if a gradient would be lost.
        """
        if not self.is_leaf:
            raise RuntimeError(f"copy_: Tensor must be a leaf, got a result of {self.grad_fn.name}")
        if isinstance(array, Tensor):
            if array._edge is not None:
                raise RuntimeError("copy_: source must not require grad; use detach()")
            array = array._data
        if isinstance(self._data, np.ndarray):
            np.copyto(self._data, array, casting="same_kind")
        else:
            if not is_mlx(array):
                array = constant(to_array(array)).to("gpu", self._data.dtype).data
            broadcast_to = module_of(self._data).broadcast_to
            # Whole arrays are exchanged, dtype and all.
            self._data[...] = broadcast_to(array, self._data.shape).astype(self._data.dtype)
            schedule(self._data)
        share_version(self)[0] += 1
        return self

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def _number(self) -> float | int | bool:
        # NumPy and math convert in passing, so that the gradient would be lost unseen.
        if self._edge is not None:
            raise TypeError(
                "number: a Tensor that requires grad can't become a number without losing its "
                "gradient; use item(), or detach()"
            )
        return self._data.item()

    def __format__(self, spec: str) -> str:
        if self._data.ndim == 0 and spec:
            return format(self._data.item(), spec)
        return super().__format__(spec)

    def __index__(self) -> int:
        return operator.index(self._data if self.device == "cpu" else self._data.item())

    def __bool__(self) -> bool:
        return bool(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self._data)))

    def __repr__(self) -> str:
        text = np.array2string(to_numpy(self._data), separator=", ", prefix="tensor(")
        if dtype_name(self._data.dtype) not in ("float64", "int64", "bool"):
            text += f", dtype={dtype_name(self._data.dtype)}"
        if self.device != "cpu":
            text += f", device={self.device!r}"
        if self._edge is True:
            text += ", requires_grad=True"
        elif self._edge is not None:
            text += f", grad_fn=<{self.grad_fn.name}>"
        return f"tensor({text})"

    def __copy__(self) -> Tensor:
        rebuild, args, state = self.__reduce__()
        result = rebuild(*args)
        result._version = share_version(self)
        if state:
            result.__dict__.update(state)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise TypeError(
                f"copy: a Tensor computed by {self.grad_fn.name} can't be pickled or deep-copied, "
                "its graph would be lost; use detach()"
            )
        state = getattr(self, "__dict__", None)
        return _rebuild, (type(self), self._data, self._edge, self.grad), state


def _rebuild(cls: type[Tensor], data: Any, edge: Any, grad: Tensor | None) -> Tensor:
    result = cls.__new__(cls)
    result._data, result._edge, result.grad, result._version = to_array(data), edge, grad, None
    return result


def in_native_order(array: Any) -> Any:
    """Return the array, or a copy of it if its bytes are swapped: gradients are native."""
    if isinstance(array, np.ndarray) and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def refuse_tensors(data: Any, operation: str = "tensor") -> None:
    """Raise TypeError for a list or tuple with Tensors in it, at any depth.

    NumPy would take it apart and lose the gradients, or take numbers out of it one by one.
    """
    if isinstance(data, (list, tuple)):
        kinds = set(map(type, data))
        if any(issubclass(k, Tensor) for k in kinds):
            raise TypeError(
                f"{operation}: data must be an array, got a {type(data).__name__} of Tensors; "
                "join them by np.stack"
            )
        if any(issubclass(k, (list, tuple)) for k in kinds):
            for item in data:
                refuse_tensors(item, operation)


def to_array(data: Any, copy: bool | None = None, operation: str = "tensor") -> Any:
    """Return `data` as an array of its own kind: MLX arrays stay, all else goes to NumPy."""
    subclass = isinstance(data, np.ndarray) and type(data) is not np.ndarray
    if subclass and isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            f"{operation}: data must not be a masked array, since Tensors have no mask; use its "
            "filled(value)"
        )
    refuse_tensors(data, operation)
    if isinstance(data, (np.ndarray, np.generic)) or not is_mlx(data):
        return np.array(data, copy=copy, order="K")
    return data[...] if copy else data


def is_mlx(data: Any) -> bool:
    """Whether this is an MLX array."""
    return type(data).__name__ == "array" and type(data).__module__ == "mlx.core"


_LISTS = (list, tuple)
_NUMBERS_TOO = (*_LISTS, bool, int, float, np.generic)


def on_device_of(like: Any, value: Any, kinds: tuple[type, ...] = _LISTS) -> Any:
    """Return `value`, but a list as an array if `like` is on the gpu: a list is on no device.

    As a number does, it takes the dtype of what it meets, since not every gpu has its own.
    """
    like = like.data if isinstance(like, Tensor) else like
    if not isinstance(value, kinds) or not is_mlx(like):
        return value
    array, mx = to_array(value), module_of(like)
    if not is_floating(array.dtype):
        return mx.array(array)
    return mx.array(array, like.dtype if is_floating(like.dtype) else mx.float32)


def as_tensors(*values: Any) -> list[Tensor]:
    """Make Tensors of all, of lists and numbers where the others are."""
    for like in values:
        if is_mlx(like.data if isinstance(like, Tensor) else like):
            return [as_tensor(on_device_of(like, v, _NUMBERS_TOO)) for v in values]
    return [as_tensor(v) for v in values]


def copied(array: Any) -> Any:
    """Return the elements of now, whatever is written to `array` later."""
    # MLX replaces the array behind an object, so that another object is as good as a copy.
    return array.copy("K") if isinstance(array, np.ndarray) else array[...]


def to_numpy(array: Any) -> np.ndarray:
    """Return an ndarray as it is, and a copy of an MLX array: its views are writable."""
    if isinstance(array, np.ndarray):
        return array
    if dtype_name(array.dtype) != "bfloat16":
        return np.array(array)
    try:
        from ml_dtypes import bfloat16
    except ImportError as error:
        message = "numpy: bfloat16 needs ml_dtypes (pip install ml_dtypes), or astype('float32')"
        raise TypeError(message) from error
    return np.array(array.view(module_of(array).uint16)).view(bfloat16)


def module_of(array: Any) -> Any:
    """Return `numpy` or `mlx.core`, whichever the array is of."""
    return sys.modules[type(array).__module__] if is_mlx(array) else np


def schedule(*arrays: Any) -> None:
    """Let MLX compute these; others need no word.

    What is kept from step to step has to be: a lazy array refers to all that it is computed from,
    and can't be used from another thread. Nor can two threads read one that is being computed
    (MLX 0.32 may wait for ever): if there are other threads, it is waited for.
    """
    lazy = [a for a in arrays if is_mlx(a)]
    if lazy:
        mx = module_of(lazy[0])
        (mx.async_eval if threading.active_count() == 1 else mx.eval)(lazy)


def constant(array: Any) -> Tensor:
    """Wrap an array, without a copy, as a Tensor outside any graph."""
    result = Tensor.__new__(Tensor)
    result._data = array
    result.grad = result._edge = result._version = None
    return result


def share_version(tensor: Tensor) -> list[int]:
    """Return the write counter of the tensor's memory, to be shared with views of it."""
    if tensor._version is None:
        tensor._version = [0]
    return tensor._version


def tensor(
    data: Any, requires_grad: bool = False, dtype: DTypeLike | None = None, device: str = "cpu"
) -> Tensor:
    """Make a leaf Tensor from a copy of `data`.

    Parameters
    ----------
    data : array_like
        Copied, keeping its memory order.
    requires_grad : bool
        Whether gradients are to be computed for it.
    dtype : dtype, optional
        Convert to this dtype.
    device : {"cpu", "gpu"}
        Where the copy lives: NumPy memory or MLX.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import lucid
    >>> lucid.tensor([1, 2], requires_grad=True, dtype="float32")
    tensor([1., 2.], dtype=float32, requires_grad=True)
    """
    result = Tensor(data)
    if device != result.device:
        result = result.to(device, dtype)
    elif dtype is not None:
        result = result.astype(dtype)
    if requires_grad:
        result.requires_grad = True
    return result


def as_tensor(data: Any) -> Tensor:
    """Make `data` a Tensor without copying an array; Tensors are returned as they are.

    The array must not be changed until the gradients that depend on it have been computed.

    Parameters
    ----------
    data : array_like or Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> a = np.zeros(2)
    >>> lucid.as_tensor(a).data is a
    True
    """
    return data if isinstance(data, Tensor) else constant(to_array(data))
