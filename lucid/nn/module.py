"""Containers of parameters: `Module` and `Parameter`."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lucid._tensor import Tensor, dtype_name, is_floating, tensor

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import DTypeLike


class Parameter(Tensor):
    """A Tensor that a `Module` owns and an optimizer changes; it requires grad unless told not to.

    Parameters
    ----------
    data : array_like
        Copied.
    requires_grad : bool
        False freezes it.
    dtype : dtype_like, optional
        That of `data` by default.
    device : {"cpu", "gpu"}

    Examples
    --------
    >>> from lucid import nn
    >>> nn.Parameter([1.0, 2.0]).requires_grad
    True
    """

    def __init__(
        self,
        data: Any,
        requires_grad: bool = True,
        dtype: DTypeLike | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(tensor(data, dtype=dtype, device=device), requires_grad)


class LoadResult(NamedTuple):
    """What `Module.load_state_dict` left out: names of either side without a counterpart."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """Base class of layers: attributes that are Parameters, buffers or Modules make up its state.

    A subclass assigns them in ``__init__`` and computes in ``forward``. There is nothing to
    register but buffers (state that is no parameter), and no base ``__init__`` to call.

    Attributes
    ----------
    training : bool
        Whether the module is in training mode; set by `train` and `eval`.

    Examples
    --------
    >>> import numpy as np
    >>> from lucid import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         self.factor = nn.Parameter(np.float32(2))
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(np.arange(3, dtype=np.float32)).detach().numpy()
    array([0., 2., 4.], dtype=float32)
    """

    training = True
    _buffers: tuple[str, ...] = ()
    # Names that hold a Parameter or None; any other attribute may become one.
    _parameters: tuple[str, ...] = ()
    # Names that a checkpoint may lack even when loaded strictly.
    _optional_state: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; each subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless that would drop a part of the state in silence."""
        if value is not None:
            old = vars(self).get(name)
            if name in self._buffers:
                self._expect_buffer(name, value)
            elif isinstance(old, Parameter) or name in self._parameters:
                self._expect(name, "parameter", "Parameter", value, isinstance(value, Parameter))
            elif isinstance(old, Module):
                self._expect(name, "module", "Module", value, isinstance(value, Module))
            if isinstance(value, Module) and any(module is self for module in value.modules()):
                raise ValueError(f"{type(self).__name__}: {name} must not contain the module")
        super().__setattr__(name, value)

    def _expect(self, name: str, role: str, kind: str, value: Any, holds: bool) -> None:
        if not holds:
            raise TypeError(
                f"{type(self).__name__}: {role} {name} must be a {kind} or None, got "
                f"{type(value).__name__}"
            )

    def _expect_buffer(self, name: str, value: Any) -> None:
        self._expect(name, "buffer", "Tensor", value, _is_buffer(value))
        if value.requires_grad:
            raise RuntimeError(
                f"{type(self).__name__}: buffer {name} must not require grad; use detach(), or a "
                "Parameter"
            )

    def register_buffer(self, name: str, value: Tensor | None) -> None:
        """Make `value` an attribute that belongs to the state but is no parameter.

        Parameters
        ----------
        name : str
            Of the attribute, and in `state_dict`.
        value : Tensor or None
            None reserves the name: it is left out of the state until a Tensor is assigned. What
            requires grad is refused: it would be a parameter.
        """
        if value is not None:
            self._expect_buffer(name, value)
        if name not in self._buffers:
            self._buffers = (*self._buffers, name)
        setattr(self, name, value)

    # ------------------------------------------------------------------ what it is made of

    def _walk(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value._walk(f"{prefix}{name}.")

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters, then buffers, of each module in turn: the order of PyTorch's state dicts."""
        for prefix, module in self._walk():
            attributes = vars(module)
            for name, value in attributes.items():
                if isinstance(value, Parameter):
                    yield prefix + name, value
            for name in module._buffers:
                if attributes.get(name) is not None:
                    yield prefix + name, attributes[name]

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once, parents first."""
        return iter({id(m): m for _, m in self._walk()}.values())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield dotted name and `Parameter`; a shared one once, under its first name."""
        return _unique((k, t) for k, t in self._state() if isinstance(t, Parameter))

    def parameters(self) -> Iterator[Parameter]:
        """Yield each `Parameter` once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield dotted name and buffer; a shared one once, under its first name."""
        return _unique((k, t) for k, t in self._state() if not isinstance(t, Parameter))

    def buffers(self) -> Iterator[Tensor]:
        """Yield each buffer once."""
        return (b for _, b in self.named_buffers())

    # ------------------------------------------------------------------ modes, places, gradients

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and in all modules below.

        Parameters
        ----------
        mode : bool
            False for evaluation.

        Returns
        -------
        Module
            Itself.
        """
        if not isinstance(mode, (bool, np.bool_)):
            raise TypeError(f"{type(self).__name__}.train: mode must be a bool, got {mode!r}")
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: ``train(False)``."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for p in self.parameters():
            p.grad = None

    def to(self, device_or_dtype: DTypeLike) -> Self:
        """Move parameters and buffers to a device, or cast the floating ones to a dtype, in place.

        Parameters
        ----------
        device_or_dtype : {"cpu", "gpu"} or floating dtype

        Returns
        -------
        Module
            Itself; its Parameters stay the same objects.

        Raises
        ------
        TypeError
            If the dtype is not a floating one.

        Examples
        --------
        >>> from lucid import nn
        >>> nn.Linear(2, 3).to("float64").weight.dtype
        dtype('float64')
        """
        is_device = isinstance(device_or_dtype, str) and device_or_dtype in ("cpu", "gpu")
        name = dtype_name(device_or_dtype)  # bfloat16 may be unknown to NumPy
        if not is_device and not is_floating(name) and not _is_floating(np.dtype(device_or_dtype)):
            raise TypeError(
                f"{type(self).__name__}.to: parameters must have a floating dtype, "
                f"got {np.dtype(device_or_dtype)}"
            )
        moved = [
            (t, *(None if v is None else v.detach().to(device_or_dtype) for v in (t, t.grad)))
            for t in (*self.parameters(), *self.buffers())
            if is_device or is_floating(t.dtype) or _is_floating(_numpy_dtype(t.dtype))
        ]
        for t, value, gradient in moved:  # not before all of them could be converted
            t._replace(value.data)  # type: ignore[union-attr]
            t.grad = gradient  # type: ignore[union-attr]
        return self

    # ------------------------------------------------------------------ saving and loading

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of all parameters and buffers as arrays, by PyTorch's dotted names.

        Returns
        -------
        dict of str to ndarray
            On every device; ``safetensors.numpy.save_file`` and ``numpy.savez`` take it as it is.

        Examples
        --------
        >>> from lucid import nn
        >>> for name, array in nn.BatchNorm1d(3).state_dict().items():
        ...     print(name, array.shape, array.dtype)
        weight (3,) float32
        bias (3,) float32
        running_mean (3,) float32
        running_var (3,) float32
        num_batches_tracked () int64
        """
        return {name: _to_array(t) for name, t in self._state()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> LoadResult:
        """Copy arrays into the parameters and buffers of the same names.

        Parameters
        ----------
        state_dict : mapping of str to array_like
            Each array is cast to the dtype of its destination and shares no memory with it;
            PyTorch's Tensors will do, its Parameters too.
        strict : bool
            Whether a name of one side without a counterpart in the other is an error. A
            checkpoint without ``num_batches_tracked`` is accepted all the same.

        Returns
        -------
        LoadResult
            ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        ValueError
            Naming every missing, unexpected or misshapen entry, and every destination that can't
            be written; nothing was written then.
        RuntimeError
            If an entry is a Tensor that requires grad: use its ``detach()``.
        TypeError
            If `state_dict` is no mapping.

        Examples
        --------
        >>> from lucid import nn
        >>> nn.Linear(2, 2).load_state_dict({"weight": [[1, 2], [3, 4]]})
        Traceback (most recent call last):
            ...
        ValueError: Linear.load_state_dict: missing keys: bias
        """
        operation = f"{type(self).__name__}.load_state_dict"
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"{operation}: state_dict must be a mapping, got {type(state_dict).__name__}"
            )
        own = dict(self._state())
        optional = {
            prefix + name for prefix, module in self._walk() for name in module._optional_state
        }
        missing = [name for name in own if name not in state_dict and name not in optional]
        unexpected = [name for name in state_dict if name not in own]  # not always text
        problems = []
        if strict and missing:
            problems.append(f"missing keys: {', '.join(missing)}")
        if strict and unexpected:
            problems.append(f"unexpected keys: {', '.join(map(str, unexpected))}")
        for name in own:
            value = state_dict.get(name)
            if isinstance(value, Tensor) and value.requires_grad:
                raise RuntimeError(f"{operation}: {name} must not require grad; use detach()")
        arrays = {name: _to_array(state_dict[name]) for name in own if name in state_dict}
        for name, array in arrays.items():
            if array.shape != own[name].shape:
                problems.append(f"{name} must have shape {own[name].shape}, got {array.shape}")
            elif not np.can_cast(array.dtype, _numpy_dtype(own[name].dtype), "same_kind"):
                kinds = dtype_name(own[name].dtype), dtype_name(array.dtype)
                problems.append(f"{name} must cast to {kinds[0]}, got {kinds[1]}")
            elif not is_writable(own[name]):
                problems.append(f"{name} must be writable, it is read-only or a computed Tensor")
            else:
                # Before any is written: it may warn.
                arrays[name] = array.astype(_numpy_dtype(own[name].dtype))
        if problems:
            raise ValueError(f"{operation}: {'; '.join(problems)}")
        for name, array in arrays.items():
            own[name].copy_(array)
        return LoadResult(missing, unexpected)

    # ------------------------------------------------------------------ display

    def extra_repr(self) -> str:
        """Arguments to show in the repr; each subclass may define it."""
        return ""

    def __repr__(self) -> str:
        head = f"{type(self).__name__}({self.extra_repr()}"
        children = [
            f"  ({name}): " + repr(value).replace("\n", "\n  ")
            for name, value in vars(self).items()
            if isinstance(value, Module)
        ]
        return "\n".join([head, *children, ")"]) if children else f"{head})"


def _unique(named: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    seen = set()
    for name, value in named:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _is_floating(dtype: Any) -> bool:
    # Not `issubdtype`: bfloat16 is no subtype of np.floating.
    return np.can_cast(dtype, "f8", "same_kind") and not np.can_cast(dtype, "i8", "same_kind")


def _numpy_dtype(dtype: Any) -> Any:
    name = dtype_name(dtype)
    return np.float32 if name == "bfloat16" else dtype if isinstance(dtype, np.dtype) else name


def _is_buffer(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, Parameter)


def is_writable(tensor: Tensor) -> bool:
    """Whether `copy_` would write to `tensor`."""
    flags = getattr(tensor.data, "flags", None)  # MLX arrays have none
    return tensor.is_leaf and (flags is None or flags.writeable)


def _to_array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    elif hasattr(value, "detach"):  # PyTorch's, on any device and of types that NumPy lacks
        narrow = value.is_floating_point() and value.itemsize < 4
        value = (value.float() if narrow else value).numpy(force=True)
    return np.array(value, order="C")


def check_options(
    module: Module, device: str | None, dtype: DTypeLike | None, **sizes: int
) -> tuple[str, Any]:
    """Check what the constructors of layers share; return the device and dtype to use."""
    layer = type(module).__name__
    for name, size in sizes.items():
        if not hasattr(size, "__index__"):
            raise TypeError(f"{layer}: {name} must be an integer, got {size!r}")
        if operator.index(size) < 0:
            raise ValueError(f"{layer}: {name} must not be negative, got {size}")
    if device not in (None, "cpu", "gpu"):
        raise ValueError(f'{layer}: device must be "cpu" or "gpu", got {device!r}')
    dtype = np.float32 if dtype is None else dtype
    if not is_floating(dtype) and not _is_floating(np.dtype(dtype)):
        raise TypeError(f"{layer}: dtype must be a floating one, got {np.dtype(dtype)}")
    return device or "cpu", dtype
