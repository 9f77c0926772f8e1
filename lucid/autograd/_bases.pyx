"""What two classes of this layer are built on, where Python has no means."""
from cpython.contextvars cimport PyContextVar_Set, get_value

cdef object mode = None, default = None


def bind(variable, default_mode):
    """Bind the variable that holds the mode, and the mode where there is no other outside."""
    global mode, default
    mode, default = variable, default_mode


cdef inline int leave() except -1:
    outer = get_value(mode).outer
    PyContextVar_Set(mode, default if outer is None else outer)
    return 0


cdef class Switch:
    """A context manager that changes the mode; subclasses say what to, in ``_changed``.

    It enters and leaves in one step each, which no signal can come between. Python runs signal
    handlers between the bytecodes of Python functions: an ``__enter__`` written in Python can be
    interrupted when it has changed the mode, and before the ``with`` that would put it back has
    begun. Where Python itself leaves a gap between the two (3.14 does), the switch of ``with
    no_grad():``, which is gone then, puts the mode back as it goes.
    """

    def __enter__(self):
        PyContextVar_Set(mode, self._changed(get_value(mode)))

    def __exit__(self, kind, error, trace):
        leave()

    def _call(self, func, args, kwargs):
        """Call a function in the changed mode."""
        PyContextVar_Set(mode, self._changed(get_value(mode)))
        try:
            return func(*args, **kwargs)
        finally:
            leave()

    def __dealloc__(self):
        if mode is not None and get_value(mode).switch == <size_t><void *>self:
            leave()


cdef class Node:
    """The fields of a `Context` that are no Python objects."""
