"""The mode of the current thread and async task: whether operations are recorded, and autocast."""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    _Call = TypeVar("_Call", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Mode:
    """Whether operations are recorded, and the dtype name that autocast computes in."""

    record: bool = True
    autocast: str | None = None


# One variable for both, since every operation reads them; a ContextVar is per thread and per task.
_DEFAULT = Mode()
_mode: ContextVar[Mode] = ContextVar("lucid_mode", default=_DEFAULT)


class ModeSwitch:
    """A context manager and decorator that changes the mode and puts it back."""

    def __init__(self) -> None:
        self._previous: list[Mode] = []

    def _changed(self, mode: Mode) -> Mode:
        raise NotImplementedError

    def __enter__(self) -> None:
        previous = _mode.get()
        self._previous.append(previous)
        _mode.set(self._changed(previous))

    def __exit__(self, *exc_info: object) -> None:
        _mode.set(self._previous.pop())

    def __call__(self, func: _Call) -> _Call:
        """Decorate a function, generator function or coroutine function."""
        if inspect.isasyncgenfunction(func):
            raise TypeError(f"{type(self).__name__}: can't decorate an async generator function")
        if inspect.iscoroutinefunction(func):

            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self._copy():
                    return await func(*args, **kwargs)
        elif inspect.isgeneratorfunction(func):

            def wrapper(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
                return self._drive(func(*args, **kwargs))
        else:

            def wrapper(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
                with self._copy():
                    return func(*args, **kwargs)

        result: Any = functools.wraps(func)(wrapper)
        return result

    def _copy(self) -> ModeSwitch:
        # Calls may overlap (threads, tasks, recursion), hence a switch of its own for each.
        switch = type(self).__new__(type(self))
        switch.__dict__.update(self.__dict__, _previous=[])
        return switch

    def _drive(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        # The mode holds while the generator's body runs and is put back at each yield.
        switch, resume, value = self._copy(), generator.send, None
        while True:
            try:
                with switch:
                    result = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                value, resume = (yield result), generator.send
            except GeneratorExit:
                with switch:
                    generator.close()
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
        return replace(mode, record=False)


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
        return replace(mode, record=True)


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread and task.

    Examples
    --------
    >>> import lucid
    >>> lucid.is_grad_enabled()
    True
    """
    return _mode.get().record
