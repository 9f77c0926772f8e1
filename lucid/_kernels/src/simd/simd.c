/* The `simd` provider for one instruction set: the table lucid_kernels_ISA, where ISA is LUCID_ISA.
 *
 * What is included below vec.h are bodies: they define static functions for this file alone. Those
 * with parameters are compiled once for each set of them and undefine them at their end:
 *
 *     body       entries                          parameters           made as
 *     means.h    means                                                 f32 f64
 *     pack.h     pack                                                  each type
 *     stream.h   stream
 *     unpack.h   unpack                                                each type
 *     moments.h  sum, moments: rows, cols         TYPE COMPENSATED     f32 compensated f64
 *     channel.h  sums, affine: rows, cols; fused  TYPE WORK SUMS       f32 f64 wide
 *
 * NAME(x) is what function x is made as. TYPE: the elements in memory. COMPENSATED: whether the
 * error of each addition is carried along. WORK: the type that affine entries compute in. SUMS:
 * whether there are others, which compute in double. */
#include <math.h>

#include "contract/half.h"
#include "contract/kernels.h"
#include "contract/numerics.h"
#include "vec.h"

#include "means.h"
#include "pack.h"
#include "stream.h"
#include "unpack.h"

#define NAME(x) x##_f32
#define TYPE float
#define COMPENSATED 0
#include "moments.h"

#define NAME(x) x##_compensated
#define TYPE float
#define COMPENSATED 1
#include "moments.h"

#define NAME(x) x##_f64
#define TYPE double
#define COMPENSATED 1
#include "moments.h"

#define NAME(x) x##_f32
#define TYPE float
#define WORK float
#define SUMS 1
#include "channel.h"

#define NAME(x) x##_f64
#define TYPE double
#define WORK double
#define SUMS 1
#include "channel.h"

#define NAME(x) x##_wide
#define TYPE float
#define WORK double
#define SUMS 0
#include "channel.h"

#define AFFINE(s)                                                             \
    .affine_rows = {affine_rows_0_##s, affine_rows_1_##s, affine_rows_2_##s}, \
    .affine_cols = {affine_cols_0_##s, affine_cols_1_##s, affine_cols_2_##s}

#define CHANNEL(s)                                                        \
    {                                                                     \
        .sums_rows = {sums_rows_0_##s, sums_rows_1_##s, sums_rows_2_##s}, \
        .sums_cols = {sums_cols_0_##s, sums_cols_1_##s, sums_cols_2_##s}, \
        AFFINE(s),                                                        \
        .fused_rows = {fused_rows_0_##s, fused_rows_1_##s},               \
    }

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

extern const lucid_kernels PASTE(lucid_kernels_, LUCID_ISA);

const lucid_kernels PASTE(lucid_kernels_, LUCID_ISA) = {
    .f32 = {sum_rows_f32, sum_cols_f32, moments_rows_f32, moments_cols_f32, means_f32},
    .compensated = {sum_rows_compensated, sum_cols_compensated, moments_rows_compensated,
                    moments_cols_compensated, means_f32},
    .f64 = {sum_rows_f64, sum_cols_f64, moments_rows_f64, moments_cols_f64, means_f64},
    .unpack = {unpack_float32, unpack_float64, unpack_float16, unpack_bfloat16, unpack_bool,
               unpack_int8, unpack_uint8, unpack_int16, unpack_uint16, unpack_int32, unpack_uint32,
               unpack_int64, unpack_uint64},
    .channel_f32 = CHANNEL(f32),
    .channel_f64 = CHANNEL(f64),
    .channel_wide = {AFFINE(wide)},
    .stream = stream,
    .pack = {pack_float32, pack_float64, pack_float16, pack_bfloat16},
};
