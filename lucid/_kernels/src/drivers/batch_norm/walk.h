/* Walking the channels of arrays tile by tile: all that batch normalization knows of memory. */
#ifndef LUCID_BATCH_NORM_WALK_H
#define LUCID_BATCH_NORM_WALK_H

#include "drivers/batch_norm.h"
#include "drivers/layout.h"

#define LUCID_GROUP 512 /* most channels whose sums are gathered at once */
#define LUCID_OPERANDS 5

/* Sums of a channel that an order takes. */
static inline size_t lucid_terms(int order) {
    return order == 0 ? 2 : order == 1 ? 3 : LUCID_TERMS;
}

static inline size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

typedef struct {
    char *base; /* of the first element that the loops visit */
    lucid_type type;
    int swap, direct; /* direct: entries may read or write it in place */
    ptrdiff_t channel, inner, outer[LUCID_MAX_NDIM]; /* strides, bytes */
} lucid_operand;

/* Loops: outer ones, then a piece of the inner one by a range of the channels, in the order
 * that `cols` says. Operands are the inputs, then the outputs. */
typedef struct {
    const lucid_kernels *kernels;
    int inputs, operands, cols, wide; /* wide: float32 elements computed as float64, else 0 */
    int outers;
    lucid_operand operand[LUCID_OPERANDS];
    size_t outer_length[LUCID_MAX_NDIM];
    size_t channels, length; /* of the inner loop */
    size_t count;            /* elements of a channel */
    size_t chunk, chunks, pieces;
    size_t size; /* of an element computed in memory: 4 or 8 */
    size_t tile; /* elements of a buffer of an operand that is not direct; 0: all are */
    int stream;  /* outputs go past the cache */
} lucid_walk;

typedef enum { LUCID_START, LUCID_SUM, LUCID_AFFINE } lucid_pass_kind;

/* What to do with each tile. Arrays over channels begin with the first channel of the walk. */
typedef struct lucid_pass {
    lucid_pass_kind kind;
    int order;
    int input[3], output[2];    /* operands that the entries are given, -1: none */
    const unsigned char *flags; /* channels to combine wide, or to sum again; NULL: none */
    int only_flagged;           /* leave out the others */
    const void *narrow;         /* coefficients in the element's own type */
    const double *wide;         /* coefficients, or shift */
    size_t pitch;               /* of coefficients, and of sums in cols */
    double *sums;
    char *buffers; /* lucid_walk_buffers bytes, of this thread alone */
    size_t ahead;  /* channels from those of the walk to those that are read next; 0: none */
    const struct lucid_pass *next; /* their sums, to be taken meanwhile; NULL: not */
    size_t next_channels;
} lucid_pass;

void lucid_walk_plan(lucid_walk *walk, const lucid_channels *of, const lucid_array *operands,
                     int inputs, int outputs);

/* Bytes of memory that a pass needs for operands that are not direct. */
size_t lucid_walk_buffers(const lucid_walk *walk);

/* Apply `pass` to channels [first, first + n) of pieces [from, to), backwards if to < from: then
 * the pieces are [to, from). `limit` bounds the inner loop. */
void lucid_walk_run(const lucid_walk *walk, const lucid_pass *pass, size_t first, size_t n,
                    size_t from, size_t to, size_t limit);

/* May an affine pass take the sums of the channels ahead meanwhile? */
int lucid_walk_fuses(const lucid_walk *walk, const lucid_pass *affine, const lucid_pass *sums);

#endif
