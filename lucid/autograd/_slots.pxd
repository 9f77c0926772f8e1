"""The slots of Python classes, read and written where their instances keep them.

An attribute costs a search through the classes; the layer that records operations has dozens. The
caller has made sure that the object is an instance of the class.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member


cdef inline Py_ssize_t offset_of(type cls, str slot) except -1:
    """Where instances of `cls`, and of its subclasses, keep the value of one of its slots."""
    return (<PyMemberDescrObject *><void *>cls.__dict__[slot]).d_member.offset


cdef inline object get(object o, Py_ssize_t offset):
    cdef PyObject *value = (<PyObject **>(<char *><void *>o + offset))[0]
    return None if value is NULL else <object>value


cdef inline void put(object o, Py_ssize_t offset, object value) noexcept:
    cdef PyObject **place = <PyObject **>(<char *><void *>o + offset)
    cdef PyObject *old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject *>value
    Py_XDECREF(old)
