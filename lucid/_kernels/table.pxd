"""The provider table, for the modules that fill one."""
from libc.stddef cimport ptrdiff_t


cdef extern from "contract/kernels.h" nogil:
    enum:
        LUCID_BLOCK
        LUCID_COLUMNS
        LUCID_LANES
        LUCID_TERMS

    ctypedef struct lucid_sums:
        double *hi
        double *lo

    ctypedef struct lucid_moments:
        lucid_sums sums
        double *count
        double *shift
        double *mean
        double *m2

    ctypedef struct lucid_entries_f32:
        void (*sum_rows)(const float *x, ptrdiff_t step, size_t rows, size_t n, int same,
                         lucid_sums out) noexcept nogil
        void (*sum_cols)(const float *x, ptrdiff_t step, size_t rows, size_t n,
                         lucid_sums out) noexcept nogil
        void (*moments_rows)(const float *x, ptrdiff_t step, size_t rows, size_t n, int same,
                             lucid_moments out) noexcept nogil
        void (*moments_cols)(const float *x, ptrdiff_t step, size_t rows, size_t n,
                             lucid_moments out) noexcept nogil

    ctypedef struct lucid_entries_f64:
        void (*sum_rows)(const double *x, ptrdiff_t step, size_t rows, size_t n, int same,
                         lucid_sums out) noexcept nogil
        void (*sum_cols)(const double *x, ptrdiff_t step, size_t rows, size_t n,
                         lucid_sums out) noexcept nogil
        void (*moments_rows)(const double *x, ptrdiff_t step, size_t rows, size_t n, int same,
                             lucid_moments out) noexcept nogil
        void (*moments_cols)(const double *x, ptrdiff_t step, size_t rows, size_t n,
                             lucid_moments out) noexcept nogil

    ctypedef struct lucid_tile:
        const void *inputs "in"[3]
        void *out[2]
        ptrdiff_t in_step[3]
        ptrdiff_t out_step[2]
        size_t rows
        size_t n

    ctypedef void (*lucid_channel_sums)(const lucid_tile *tile, const double *shift, double *sums,
                                        size_t pitch) noexcept nogil
    ctypedef void (*lucid_channel_affine)(const lucid_tile *tile, const void *coefficients,
                                          size_t pitch) noexcept nogil
    ctypedef void (*lucid_channel_fused)(const lucid_tile *tile, const void *coefficients,
                                         size_t pitch, const lucid_tile *next, const double *shift,
                                         double *sums) noexcept nogil

    ctypedef struct lucid_channel_entries:
        lucid_channel_sums sums_rows[3]
        lucid_channel_sums sums_cols[3]
        lucid_channel_affine affine_rows[3]
        lucid_channel_affine affine_cols[3]
        lucid_channel_fused fused_rows[3]

    ctypedef struct lucid_kernels:
        lucid_entries_f32 f32
        lucid_entries_f32 compensated
        lucid_entries_f64 f64
        lucid_channel_entries channel_f32
        lucid_channel_entries channel_f64
        lucid_channel_entries channel_wide
        double (*rsqrt)(double x) noexcept nogil
