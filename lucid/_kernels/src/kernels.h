/* The provider table: the primitives that drivers are written over.
 *
 * Drivers (reduce.c, batch_norm.c) know layouts, threads and element types; entries know registers.
 * Every entry works on native, aligned elements whose innermost step is one element; whatever else
 * an array holds is unpacked into such a buffer first. The `simd` provider fills the whole table,
 * once per instruction set; another provider is a copy of it with entries replaced. */
#ifndef LUCID_KERNELS_H
#define LUCID_KERNELS_H

#include <stddef.h>

/* Element types, in the order of lucid_type_info. */
typedef enum {
    LUCID_FLOAT32,
    LUCID_FLOAT64,
    LUCID_FLOAT16,
    LUCID_BFLOAT16,
    LUCID_BOOL,
    LUCID_INT8,
    LUCID_UINT8,
    LUCID_INT16,
    LUCID_UINT16,
    LUCID_INT32,
    LUCID_UINT32,
    LUCID_INT64,
    LUCID_UINT64,
    LUCID_TYPES
} lucid_type;

/* The sums of one tile's outputs, hi + lo each, where |lo| is what hi could not hold. */
typedef struct {
    double *hi, *lo;
} lucid_sums;

/* Running moments of one tile's outputs. `mean` is measured from `shift`, which the first block
 * fixes, so that a constant has mean 0 and m2 0 exactly; `sums` are those of the values. */
typedef struct {
    lucid_sums sums;
    double *count, *shift, *mean, *m2;
} lucid_moments;

/* The entries for one element type T (float or double). Row r begins `step` elements after row
 * r - 1. In `rows` entries output r takes row r, or all rows the first output if `same`; in `cols`
 * entries output k takes column k. `n` is at most LUCID_BLOCK in rows, LUCID_COLUMNS in cols. */
#define LUCID_ENTRIES(T, NAME)                                                                \
    typedef struct {                                                                          \
        void (*sum_rows)(const T *x, ptrdiff_t step, size_t rows, size_t n, int same,         \
                         lucid_sums out);                                                     \
        void (*sum_cols)(const T *x, ptrdiff_t step, size_t rows, size_t n, lucid_sums out);  \
        void (*moments_rows)(const T *x, ptrdiff_t step, size_t rows, size_t n, int same,     \
                             lucid_moments out);                                              \
        void (*moments_cols)(const T *x, ptrdiff_t step, size_t rows, size_t n,               \
                             lucid_moments out);                                              \
    } NAME;

LUCID_ENTRIES(float, lucid_entries_f32)
LUCID_ENTRIES(double, lucid_entries_f64)

/* Unpack n elements that lie `stride` bytes apart, byte-swapped if `swap`, to float or double. */
typedef void (*lucid_unpack)(const char *x, ptrdiff_t stride, size_t n, int swap, void *out);

typedef struct {
    lucid_entries_f32 f32;
    lucid_entries_f64 f64;
    /* To float for types that float holds exactly, to double for the others. */
    lucid_unpack unpack[LUCID_TYPES];
} lucid_kernels;

#define LUCID_BLOCK 2048   /* elements of a row handled at once: 16 KB of doubles, half of L1 */
#define LUCID_COLUMNS 2048 /* outputs of a tile */

typedef struct {
    const char *isa;
    const lucid_kernels *kernels;
} lucid_simd;

/* The instruction sets compiled in that this processor runs, best first. */
size_t lucid_simd_available(lucid_simd out[8]);

#endif
