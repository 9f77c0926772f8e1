"""How NumPy's calls, operators and methods reach the rules of the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._tensor import Tensor, constant, is_mlx, on_device_of
from ..autograd.arrays import check_devices
from ..backends import namespace
from .reductions import refuse


def constant_rule(func: Any) -> Callable[..., Any]:
    """Return the rule of a function whose results carry no gradient: it sees plain arrays."""

    def rule(*args, **kwargs):
        refuse(func.__name__, out=kwargs.get("out"))
        args, kwargs = _plain(args), _plain(kwargs)
        return _wrapped(_on_device(func, args)(*args, **kwargs))

    return rule


def _on_device(func, args):
    """Return the function that stands for NumPy's on the device of its arguments."""
    arrays = [a for part in args for a in (part if part.__class__ in (tuple, list) else (part,))]
    for a in arrays:
        if a.__class__ is not np.ndarray and is_mlx(a):
            break
    else:
        return func
    check_devices(func.__name__, arrays)
    if func.__name__ in ("shape", "ndim", "size"):
        return func
    found = getattr(namespace(a), func.__name__, None)
    if found is None:
        raise TypeError(f"{func.__name__}: there is no rule for the gpu; use .to('cpu')")
    return found


def _plain(a: Any) -> Any:
    if isinstance(a, Tensor):
        return a.data
    if isinstance(a, (tuple, list)):
        return type(a)([_plain(x) for x in a])
    if isinstance(a, dict):
        return {k: _plain(x) for k, x in a.items()}
    return a


def _wrapped(a: Any) -> Any:
    if isinstance(a, (np.ndarray, np.generic)):
        return constant(np.asarray(a))
    if is_mlx(a):
        return constant(a)
    return tuple([_wrapped(x) for x in a]) if type(a) is tuple else a


def full_like(a, fill_value, *args, **kwargs):
    if isinstance(fill_value, Tensor):
        refuse("full_like", fill_value=fill_value if fill_value.requires_grad else None)
    return constant_rule(np.full_like)(a, fill_value, *args, **kwargs)


def install(
    ufuncs: dict[Any, Any],
    functions: dict[Any, Any],
    reductions: dict[Any, Any],
    of_scipy: dict[str, Any],
    methods: dict[Any, Any],
) -> None:
    """Bind the protocols, and the methods and operators, to `Tensor`."""

    def array_ufunc(self, ufunc, method, *inputs, **kwargs):
        rule = None
        if method == "__call__":
            rule = ufuncs.get(ufunc) or of_scipy.get(_scipy_name(ufunc))
        if self._data.__class__ is not np.ndarray:
            inputs = tuple([on_device_of(self, a) for a in inputs])
        if rule is not None and not kwargs:
            return rule(*inputs)
        refuse(ufunc.__name__, out=kwargs.pop("out", None))
        if method == "reduce" and ufunc in reductions:
            kwargs.setdefault("axis", 0)
            return reductions[ufunc](*inputs, **kwargs)
        if rule is None:
            raise _no_rule(ufunc, "" if method == "__call__" else "." + method)
        if kwargs.get("where") is True:
            del kwargs["where"]
        refuse(ufunc.__name__, **kwargs)
        return rule(*inputs)

    def array_function(self, func, types, args, kwargs):
        rule = functions.get(func)
        if rule is None:
            raise _no_rule(func)
        return rule(*args, **kwargs)

    Tensor.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
    Tensor.__array_function__ = array_function  # type: ignore[method-assign]
    for name, method in methods.items():
        setattr(Tensor, name, method)


def _scipy_name(ufunc) -> str:
    """Return the name of a ufunc of `scipy.special`, which is loaded if there is one; else ""."""
    name = ufunc.__name__
    return name if getattr(sys.modules.get("scipy.special"), name, None) is ufunc else ""


def _no_rule(func, method="") -> TypeError:
    name = getattr(func, "__qualname__", func.__name__)
    module = getattr(func, "__module__", None)
    if module is None:  # ufuncs don't know theirs
        known = (m for m in ("numpy", "scipy.special") if m in sys.modules)
        module = next((m for m in known if getattr(sys.modules[m], name, None) is func), "ufunc")
    return TypeError(
        f"{module}.{name}{method}: there is no rule for Tensors; write one as a "
        "lucid.autograd.Function, or pass arrays (t.detach().numpy()) if no gradient is needed"
    )
