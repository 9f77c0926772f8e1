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

static inline size_t lucid_item_size(lucid_type type) {
    static const unsigned char sizes[LUCID_TYPES] = {4, 8, 2, 2, 1, 1, 1, 2, 2, 4, 4, 8, 8};
    return sizes[type];
}

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
 * entries output k takes column k. `n` is at most 2 LUCID_BLOCK in rows, LUCID_COLUMNS in cols. */
#define LUCID_ENTRIES(T, NAME)                                                               \
    typedef struct {                                                                         \
        void (*sum_rows)(const T *x, ptrdiff_t step, size_t rows, size_t n, int same,        \
                         lucid_sums out);                                                    \
        void (*sum_cols)(const T *x, ptrdiff_t step, size_t rows, size_t n, lucid_sums out); \
        void (*moments_rows)(const T *x, ptrdiff_t step, size_t rows, size_t n, int same,    \
                             lucid_moments out);                                             \
        void (*moments_cols)(const T *x, ptrdiff_t step, size_t rows, size_t n,              \
                             lucid_moments out);                                             \
        /* (hi + lo) / count, rounded to T; returns 0 if one is infinite or NaN. */          \
        int (*means)(const double *hi, const double *lo, size_t n, double count, T *out);    \
    } NAME;

LUCID_ENTRIES(float, lucid_entries_f32)
LUCID_ENTRIES(double, lucid_entries_f64)

/* A tile of a batch normalization: `rows` runs of n contiguous elements of each operand. Row r of
 * an operand begins `step` elements after row r - 1. In `rows` entries each row is a channel, in
 * `cols` entries each column is one. */
typedef struct {
    const void *in[3]; /* x, g, v; NULL from the first that an order does not read */
    void *out[2];      /* NULL if not wanted; never memory that is read */
    ptrdiff_t in_step[3], out_step[2];
    size_t rows, n;
    /* For affine entries. Elements from in[k] to what will be read later and may be fetched now, 0
     * if nothing; whether outputs may go past the cache. */
    ptrdiff_t ahead[3];
    int stream;
} lucid_tile;

/* Do the rows of both outputs begin alike in their lines of 64 bytes? */
static inline int lucid_tile_alike(const lucid_tile *t, size_t size) {
    size_t apart = (size_t)t->out[0] - (size_t)t->out[1];
    size_t drift = t->rows > 1 ? (size_t)(t->out_step[0] - t->out_step[1]) * size : 0;
    return (apart | drift) % 64 == 0;
}

#define LUCID_LANES 16 /* partial sums that a row's elements are dealt to */
#define LUCID_CHAIN 8  /* elements of a lane, or rows of columns, that are summed at once */
#define LUCID_TERMS 5  /* sums of order 2, the most */

/* Channel sums, added to `sums`, in double. With d = x - shift, order 0: d, d d; 1: g, g d, d; 2:
 * g, v, g d, v d, v g. In rows, sum t of channel c is sums[(c * terms + t) * LUCID_LANES + lane];
 * in cols, sums[t * pitch + c]. Lanes start afresh in each tile, so tiles are split at multiples of
 * LUCID_LANES elements of a row. */
typedef void (*lucid_channel_sums)(const lucid_tile *tile, const double *shift, double *sums,
                                   size_t pitch);

/* Channel affine. Coefficient k of channel c is coefficients[k * pitch + c]; with d = x - q0,
 * order 0: q1 d + q2; 1: q1 g + (q2 d + q3);
 * order 2: q1 v + (q2 d + q3) and (q4 g + q5 v) + (q6 d + q7). */
typedef void (*lucid_channel_affine)(const lucid_tile *tile, const void *coefficients,
                                     size_t pitch);

/* An affine entry of rows of at least a line with one output, past the cache, and meanwhile the
 * sums of as many rows, or fewer, of `next`: memory is read while it is written. */
typedef void (*lucid_channel_fused)(const lucid_tile *tile, const void *coefficients, size_t pitch,
                                    const lucid_tile *next, const double *shift, double *sums);

/* Entries by order; `fused_rows` may be missing. Coefficients have the type that affine entries
 * compute in. */
typedef struct {
    lucid_channel_sums sums_rows[3], sums_cols[3];
    lucid_channel_affine affine_rows[3], affine_cols[3];
    lucid_channel_fused fused_rows[3];
} lucid_channel_entries;

/* Copy bytes past the cache. The two addresses are equal modulo 64. LUCID_STREAM_END makes what
 * went past the cache visible to other threads. */
typedef void (*lucid_stream)(char *to, const char *from, size_t bytes);

/* Round n floats or doubles to elements that lie `stride` bytes apart. */
typedef void (*lucid_pack)(const void *values, char *out, ptrdiff_t stride, size_t n);

/* Unpack n elements that lie `stride` bytes apart, byte-swapped if `swap`, to float or double. */
typedef void (*lucid_unpack)(const char *x, ptrdiff_t stride, size_t n, int swap, void *out);

typedef struct {
    lucid_entries_f32 f32;
    lucid_entries_f32 compensated; /* slower, and exact to 106 bits: for small arrays */
    lucid_entries_f64 f64;
    /* To float for types that float holds exactly, to double for the others. */
    lucid_unpack unpack[LUCID_TYPES];
    /* float computed in float, double in double, and float computed in double, which has affine
     * entries alone. */
    lucid_channel_entries channel_f32, channel_f64, channel_wide;
    lucid_stream stream;
    lucid_pack pack[LUCID_BFLOAT16 + 1]; /* from double to float64, from float to the others */
    /* 1 / sqrt(x), of a channel's variance; may be missing: then it is computed in line. */
    double (*rsqrt)(double x);
} lucid_kernels;

#if defined(__SSE2__)
#include <emmintrin.h>
#define LUCID_STREAM_END() _mm_sfence()
#else
#define LUCID_STREAM_END() ((void)0)
#endif

#define LUCID_BLOCK 2048   /* elements of a row handled at once: 16 KB of doubles, half of L1 */
#define LUCID_COLUMNS 2048 /* outputs of a tile */

typedef struct {
    const char *isa;
    const lucid_kernels *kernels;
} lucid_simd;

/* The instruction sets compiled in that this processor runs, best first. */
size_t lucid_simd_available(lucid_simd out[8]);

#endif
