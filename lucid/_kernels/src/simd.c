/* The `simd` provider for one instruction set: the table LUCID_ISA_TABLE(isa). */
#include "half.h"
#include "kernels.h"
#include "vec.h"

#include "unpack.h"

#define TYPE float
#define COMPENSATED 0
#define NAME(x) x##_f32
#include "reduce_entries.h"
#undef TYPE
#undef COMPENSATED
#undef NAME

#define TYPE double
#define COMPENSATED 1
#define NAME(x) x##_f64
#include "reduce_entries.h"
#undef TYPE
#undef COMPENSATED
#undef NAME

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

extern const lucid_kernels PASTE(lucid_kernels_, LUCID_ISA);

const lucid_kernels PASTE(lucid_kernels_, LUCID_ISA) = {
    .f32 = {sum_rows_f32, sum_cols_f32, moments_rows_f32, moments_cols_f32},
    .f64 = {sum_rows_f64, sum_cols_f64, moments_rows_f64, moments_cols_f64},
    .unpack = {unpack_float32, unpack_float64, unpack_float16, unpack_bfloat16, unpack_bool,
               unpack_int8, unpack_uint8, unpack_int16, unpack_uint16, unpack_int32, unpack_uint32,
               unpack_int64, unpack_uint64},
};
