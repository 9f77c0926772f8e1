/* The numerical contract.
 *
 * Bits: simd.c is compiled for each instruction set, with vectors as wide as its registers, but
 * every loop works in LANES logical lanes: element i of a block goes to lane i % LANES, lanes are
 * folded pairwise, and blocks are merged in an order that the shape alone fixes. Multiplications
 * and additions are never contracted (-ffp-contract=off). So each result has the same bits on SSE2,
 * AVX2, AVX-512 and NEON, and for any number of threads (of a NaN, sign and payload aside).
 *
 * Accuracy: float32 is summed in float64, at most 128 terms to a partial sum; float64, and float32
 * in small arrays, is summed with the error of each addition carried along (Knuth's TwoSum), so
 * that a block's sum is its exact sum rounded to 106 bits. A block's moments are its mean, as the
 * sum of a rounded mean and what that leaves, and the squared deviations from it: what two blocks
 * are apart is known to the last digit of that distance, not of their means. */
#ifndef LUCID_NUMERICS_H
#define LUCID_NUMERICS_H

/* Knuth's TwoSum: s + x = s' + e exactly. Overflow leaves s' as IEEE says, and e unusable. */
#define TWO_SUM(s, e, x)                              \
    do {                                              \
        __typeof__(s) ts_x = (x);                     \
        __typeof__(s) ts_t = (s) + ts_x;              \
        __typeof__(s) ts_z = ts_t - (s);              \
        (e) += ((s) - (ts_t - ts_z)) + (ts_x - ts_z); \
        (s) = ts_t;                                   \
    } while (0)

#endif
