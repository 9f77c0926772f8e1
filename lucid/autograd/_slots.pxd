"""The slots of Python classes, read and written where they lie.

An attribute costs a search through the classes; the layer that records operations has dozens. The
caller has made sure that the object is an instance of the class.
"""
cimport cython
from cpython.ref cimport PyObject


cdef extern from *:
    """
    #include <structmember.h>

    static inline PyObject **lucid_slot(PyObject *o, PyMemberDef *slot) {
      return (PyObject **)((char *)o + slot->offset);
    }

    /* Without a GIL, Python's own functions make sure that no other thread is in the way. */
    static inline PyObject *lucid_get(PyObject *o, PyMemberDef *slot) {
    #ifndef Py_GIL_DISABLED
      PyObject *value = *lucid_slot(o, slot);
      if (value) return Py_NewRef(value);
    #endif
      return PyMember_GetOne((const char *)o, slot);
    }

    static inline int lucid_put(PyObject *o, PyMemberDef *slot, PyObject *value) {
    #ifndef Py_GIL_DISABLED
      PyObject **at = lucid_slot(o, slot), *old = *at;
      *at = Py_NewRef(value);
      Py_XDECREF(old);
      return 0;
    #else
      return PyMember_SetOne((char *)o, slot, value);
    #endif
    }

    /* Whether `value` has taken the place of `old`, of which the caller keeps a reference. */
    static inline int lucid_exchange(PyObject *o, PyMemberDef *slot, PyObject *old,
                                     PyObject *value) {
      PyObject **at = lucid_slot(o, slot);
      if (*at != old) return 0;
    #ifdef Py_GIL_DISABLED
      _Py_atomic_store_ptr_release(at, Py_NewRef(value));
    #else
      *at = Py_NewRef(value);
    #endif
      Py_DECREF(old);
      return 1;
    }
    """
    ctypedef struct PyMemberDef:
        pass
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    object get "lucid_get"(object o, PyMemberDef *slot)
    int put "lucid_put"(object o, PyMemberDef *slot, object value) except -1
    bint swap "lucid_exchange"(object o, PyMemberDef *slot, object old, object value) noexcept
    PyObject **at "lucid_slot"(object o, PyMemberDef *slot) noexcept


cdef inline PyMemberDef *slot_of(type cls, str name) except NULL:
    """Return what says where instances of `cls`, and of its subclasses, keep an attribute."""
    return (<PyMemberDescrObject *><void *>cls.__dict__[name]).d_member


cdef inline bint is_set(object o, PyMemberDef *slot) noexcept:
    return at(o, slot)[0] is not NULL


cdef inline bint exchange(object o, PyMemberDef *slot, object old, object value) noexcept:
    """Put `value` where `old` is; do nothing, and say so, if another thread was first.

    Nothing in between gives up the GIL; without one the object itself is locked, as Python does to
    write to a slot. Neither can be held by a thread that waits, or that a fork has left behind.
    """
    cdef bint done
    with cython.critical_section(o):
        done = swap(o, slot, old, value)
    return done
