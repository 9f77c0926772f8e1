/* Bodies of the channel entries, over TYPE, WORK and SUMS (simd.c says what these are). */
#include "channel/terms.h"

#include "channel/vectors.h"
#include "channel/sums.h"
#include "channel/streaming.h"
#include "channel/affine.h"

#define SUM_ENTRIES(ORDER)                                                                         \
    static void NAME(sums_rows_##ORDER)(const lucid_tile *tile, const double *shift, double *sums, \
                                        size_t pitch) {                                            \
        (void)pitch;                                                                               \
        NAME(channel_sum_rows)(tile, shift, sums, ORDER);                                          \
    }                                                                                              \
    static void NAME(sums_cols_##ORDER)(const lucid_tile *tile, const double *shift, double *sums, \
                                        size_t pitch) {                                            \
        NAME(channel_sum_cols)(tile, shift, sums, pitch, ORDER);                                   \
    }

#define AFFINE_ENTRIES(ORDER)                                                                    \
    static void NAME(affine_rows_##ORDER)(const lucid_tile *tile, const void *q, size_t pitch) { \
        if (ORDER < 2 || !tile->out[1]) NAME(channel_affine_rows)(tile, q, pitch, ORDER, 1);     \
        else if (tile->out[0])                                                                   \
            NAME(channel_affine_rows)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 3);                 \
        else NAME(channel_affine_rows)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 2);                \
    }                                                                                            \
    static void NAME(affine_cols_##ORDER)(const lucid_tile *tile, const void *q, size_t pitch) { \
        if (ORDER < 2 || !tile->out[1]) NAME(channel_affine_cols)(tile, q, pitch, ORDER, 1);     \
        else if (tile->out[0])                                                                   \
            NAME(channel_affine_cols)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 3);                 \
        else NAME(channel_affine_cols)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 2);                \
    }

#define FUSED(ORDER)                                                                          \
    static void NAME(fused_rows_##ORDER)(const lucid_tile *tile, const void *q, size_t pitch, \
                                         const lucid_tile *next, const double *shift,         \
                                         double *sums) {                                      \
        NAME(stream_rows)(tile, q, pitch, ORDER, 1, next, shift, sums);                       \
    }

#if SUMS
SUM_ENTRIES(0)
SUM_ENTRIES(1)
SUM_ENTRIES(2)
FUSED(0)
FUSED(1)
#endif
AFFINE_ENTRIES(0)
AFFINE_ENTRIES(1)
AFFINE_ENTRIES(2)

#undef SUM_ENTRIES
#undef AFFINE_ENTRIES
#undef FUSED
#undef TYPE
#undef WORK
#undef SUMS
#undef NAME
