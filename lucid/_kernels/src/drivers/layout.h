/* Loop plans: from shapes and strides to merged loops, without touching data.
 *
 * A plan orders the axes of operand 0 by stride, so that memory is walked forwards, drops axes of
 * length 1, turns negative strides round and merges neighbours that every operand steps through as
 * one. What is left is a short list of loops, outermost first, each marked reduced or kept. */
#ifndef LUCID_LAYOUT_H
#define LUCID_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define LUCID_MAX_NDIM 64
#define LUCID_MAX_OPERANDS 6

typedef struct {
    int ndim;
    int nop;
    ptrdiff_t length[LUCID_MAX_NDIM];
    ptrdiff_t stride[LUCID_MAX_OPERANDS][LUCID_MAX_NDIM]; /* bytes; stride[0] is never negative */
    ptrdiff_t offset[LUCID_MAX_OPERANDS]; /* bytes from an operand's first element to the loops' */
    unsigned char reduced[LUCID_MAX_NDIM];
} lucid_plan;

/* strides[op][axis] in bytes, 0 where an operand is broadcast; bit `axis` of `reduced` marks the
 * axes that are summed away. No length may be 0. */
void lucid_plan_loops(lucid_plan *plan, int nop, int ndim, const ptrdiff_t *shape,
                      const ptrdiff_t *const *strides, uint64_t reduced);

/* The strides in bytes of a new, dense array of `shape` whose axes lie in memory in the order in
 * which the axes of an array with `like` strides do (NumPy's order='K'). */
void lucid_keep_order(int ndim, const ptrdiff_t *shape, const ptrdiff_t *like, ptrdiff_t itemsize,
                      ptrdiff_t *strides);

#endif
