"""The slots of Python classes, read and written through their descriptors.

An attribute costs a search through the classes; the layer that records operations has dozens. The
caller has made sure that the object is an instance of the class.
"""


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        pass
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    object PyMember_GetOne(const char *o, PyMemberDef *slot)
    int PyMember_SetOne(char *o, PyMemberDef *slot, object value) except -1


cdef inline PyMemberDef *slot_of(type cls, str name) except NULL:
    """Return what says where instances of `cls`, and of its subclasses, keep an attribute."""
    return (<PyMemberDescrObject *><void *>cls.__dict__[name]).d_member


cdef inline object get(object o, PyMemberDef *slot):
    return PyMember_GetOne(<const char *><void *>o, slot)


cdef inline int put(object o, PyMemberDef *slot, object value) except -1:
    return PyMember_SetOne(<char *><void *>o, slot, value)
