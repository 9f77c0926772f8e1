/* A range of channels: the passes that take and use its sums, and what follows from them. */
#ifndef LUCID_BATCH_NORM_RANGE_H
#define LUCID_BATCH_NORM_RANGE_H

#include "channel.h"

#define ROW_LANES 2560 /* sums of the channels of a pass, in lanes */

/* Arrays over the channels [first, first + n); planes lie `pitch` apart. */
typedef struct {
    size_t first, n, pitch;
    double *shift, *totals, *coefficients;
    float *narrow; /* the coefficients for float entries */
    unsigned char *flags;
} range;

/* Bytes of these arrays, and their places in so much memory. */
size_t lucid_range_bytes(const job *j, size_t n);
range lucid_range_at(const job *j, size_t first, size_t n, char *memory);

/* What a pass over channels needs of memory besides, of one thread alone. Stacks may be small: a
 * task has SMALL_TASK bytes of its own there, and asks for what it needs more. */
typedef struct {
    double *lanes;
    char *buffers;
} scratch;

enum { SMALL_TASK = 6144 };

/* Bytes of the scratch for n channels, and its places. */
size_t lucid_scratch_bytes(const job *j, size_t n);
scratch lucid_scratch_at(const job *j, size_t n, char *memory);

/* Near enough to each mean that few digits cancel. */
void lucid_range_shift(const job *j, const range *r, const scratch *s);

/* Channels whose sums one pass can take. */
size_t lucid_range_limit(const job *j);

/* The pass that takes the sums of channels [at, at + n) of the range, in the lanes of `s`, and what
 * brings them from there to totals[t * pitch + c]; of the flagged channels alone if
 * `only_flagged`. */
lucid_pass lucid_range_sums(const job *j, const range *r, size_t at, size_t n, int only_flagged,
                            const scratch *s);
void lucid_range_fold(const job *j, const range *r, size_t at, size_t n, int only_flagged,
                      const scratch *s, double *totals, size_t pitch);

/* Solve all channels; returns whether any must be reduced again, and flags these. Afterwards, or
 * `again` for those that were flagged, the flags say whose coefficients are extreme. */
int lucid_range_solve(const job *j, const range *r, int again);

/* The pass that makes the outputs of channels [at, at + n) of the range. */
lucid_pass lucid_range_affine(const job *j, const range *r, size_t at, size_t n, const scratch *s);

#endif
