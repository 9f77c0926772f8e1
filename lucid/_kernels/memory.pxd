cimport numpy as cnp

# Uninitialised arrays; large ones get their memory from the cache of memory.h, small ones from
# NumPy as usual. The first is in C order, the axes of the second lie in memory as those of an array
# of strides `like` do.
cdef object new_array(int nd, cnp.npy_intp *dims, int type_num)
cdef object new_ordered(int nd, cnp.npy_intp *dims, const cnp.npy_intp *like, int type_num)
