from libc.stdint cimport uint64_t


cdef class Node:
    # What `_graph` notes of saved Tensors and of leaves, to see whether they have changed.
    cdef uint64_t stamp, leaves
