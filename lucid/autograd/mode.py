"""The mode of the current thread and async task: whether operations are recorded, and autocast."""

from __future__ import annotations

import copy
import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ._bases import Switch, bind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    _Call = TypeVar("_Call", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Mode:
    """Whether operations are recorded, and the dtype name that autocast computes in."""

    record: bool = True
    autocast: str | None = None
    outer: Mode | None = field(default=None, repr=False, compare=False)  # put back on exit
    switch: int = field(default=0, repr=False, compare=False)  # by its address: it may go

    def inside(self, switch: Switch, **changes: Any) -> Mode:
        """Return the mode that a switch changes this one to."""
        return replace(self, outer=self, switch=id(switch), **changes)


# One variable for both, since every operation reads them; a ContextVar is per thread and per task.
_DEFAULT = Mode()
_mode: ContextVar[Mode] = ContextVar("lucid_mode", default=_DEFAULT)
bind(_mode, _DEFAULT)

# A node, and which gradients its backward is asked for, while that runs: not kept in the node,
# which several threads may go through.
_narrowed: ContextVar[tuple[Any, tuple[bool, ...]] | None] = ContextVar("narrowed", default=None)


class ModeSwitch(Switch):
    """A context manager and decorator that changes the mode and puts it back.

    The mode itself knows the one outside it, so that threads and tasks may share a switch.
    """

    def __init__(self, *wrong: Any) -> None:
        if wrong:
            name = type(self).__name__
            raise TypeError(f"{name}: takes no arguments; to decorate a function, write @{name}()")

    def _changed(self, mode: Mode) -> Mode:
        raise NotImplementedError

    def __call__(self, func: _Call) -> _Call:
        """Decorate a function, generator function or coroutine function."""
        if inspect.isasyncgenfunction(func):
            raise TypeError(f"{type(self).__name__}: can't decorate an async generator function")
        if inspect.iscoroutinefunction(func):

            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with copy.copy(self):  # which goes, see `Switch`
                    return await func(*args, **kwargs)
        elif inspect.isgeneratorfunction(func):

            def wrapper(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
                return self._drive(func(*args, **kwargs))
        else:

            def wrapper(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
                return self._call(func, args, kwargs)

        result: Any = functools.wraps(func)(wrapper)
        return result

    def _drive(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        # The mode holds while the generator's body runs and is put back at each yield.
        resume, value = generator.send, None
        while True:
            try:
                result = self._call(resume, (value,), {})
            except StopIteration as stop:
                return stop.value
            try:
                value, resume = (yield result), generator.send
            except GeneratorExit:
                self._call(generator.close, (), {})
                raise
            except BaseException as error:
                value, resume = error, generator.throw


class no_grad(ModeSwitch):
    """Switch recording off: a context manager and decorator.

    The mode belongs to the current thread and async task.

    Examples
    --------
    >>> import lucid
    >>> x = lucid.tensor([1.0], requires_grad=True)
    >>> with lucid.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def _changed(self, mode: Mode) -> Mode:
        return mode.inside(self, record=False)


class enable_grad(ModeSwitch):
    """Switch recording on, inside `no_grad`: a context manager and decorator.

    Examples
    --------
    >>> import lucid
    >>> with lucid.no_grad(), lucid.enable_grad():
    ...     lucid.is_grad_enabled()
    True
    """

    def _changed(self, mode: Mode) -> Mode:
        return mode.inside(self, record=True)


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread and task.

    Returns
    -------
    bool

    Examples
    --------
    >>> import lucid
    >>> lucid.is_grad_enabled()
    True
    """
    return _mode.get().record
