#include "layout.h"

static ptrdiff_t magnitude(ptrdiff_t stride) {
    return stride < 0 ? -stride : stride;
}

/* Does axis a lie outside axis b? Zero strides go outermost: they never help an inner loop. */
static int outside(ptrdiff_t a, ptrdiff_t b) {
    a = magnitude(a);
    b = magnitude(b);
    return (a == 0 && b != 0) || (b != 0 && a > b);
}

static void sort_axes(int n, int *axes, const ptrdiff_t *strides) {
    for (int i = 1; i < n; i++) {
        int axis = axes[i], j = i;
        for (; j > 0 && outside(strides[axis], strides[axes[j - 1]]); j--)
            axes[j] = axes[j - 1];
        axes[j] = axis;
    }
}

static int mergeable(const lucid_plan *p, int outer, int inner) {
    if (p->reduced[outer] != p->reduced[inner]) return 0;
    for (int op = 0; op < p->nop; op++)
        if (p->stride[op][outer] != p->stride[op][inner] * p->length[inner]) return 0;
    return 1;
}

void lucid_plan_loops(lucid_plan *p, int nop, int ndim, const ptrdiff_t *shape,
                      const ptrdiff_t *const *strides, uint64_t reduced) {
    int axes[LUCID_MAX_NDIM], n = 0;
    for (int axis = 0; axis < ndim; axis++)
        if (shape[axis] != 1) axes[n++] = axis;
    sort_axes(n, axes, strides[0]);

    p->nop = nop;
    for (int op = 0; op < nop; op++)
        p->offset[op] = 0;
    int last = -1;
    for (int i = 0; i < n; i++) {
        int axis = axes[i], loop = last + 1;
        int flip = strides[0][axis] < 0;
        p->length[loop] = shape[axis];
        p->reduced[loop] = (unsigned char)(reduced >> axis & 1);
        for (int op = 0; op < nop; op++) {
            ptrdiff_t s = strides[op][axis];
            if (flip) p->offset[op] += (shape[axis] - 1) * s;
            p->stride[op][loop] = flip ? -s : s;
        }
        if (last >= 0 && mergeable(p, last, loop)) {
            p->length[last] *= p->length[loop];
            for (int op = 0; op < nop; op++)
                p->stride[op][last] = p->stride[op][loop];
        } else {
            last = loop;
        }
    }
    p->ndim = last + 1;
}

void lucid_keep_order(int ndim, const ptrdiff_t *shape, const ptrdiff_t *like, ptrdiff_t itemsize,
                      ptrdiff_t *strides) {
    int axes[LUCID_MAX_NDIM];
    for (int axis = 0; axis < ndim; axis++)
        axes[axis] = axis;
    sort_axes(ndim, axes, like);
    ptrdiff_t step = itemsize;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[axes[i]] = step;
        if (shape[axes[i]] > 1) step *= shape[axes[i]];
    }
}
