/* Turning rows into columns: element i of row r goes to out[i * rows + r]. Row r begins `step` >= 0
 * elements after row r - 1. `out` has room for 4 columns if there are fewer. */
#ifndef LUCID_TRANSPOSE_H
#define LUCID_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#define LUCID_SHUFFLE(TYPE, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LUCID_SHUFFLE(TYPE, a, b, ...) __builtin_shuffle(a, b, (TYPE){__VA_ARGS__})
#endif

typedef float lucid_float4 __attribute__((vector_size(16)));
typedef int lucid_int4 __attribute__((vector_size(16)));
typedef double lucid_double2 __attribute__((vector_size(16)));
typedef long long lucid_long2 __attribute__((vector_size(16)));

static inline void turn_float4(const float *x, ptrdiff_t step, float *out, size_t pitch) {
    lucid_float4 a, b, c, d;
    memcpy(&a, x, 16);
    memcpy(&b, x + step, 16);
    memcpy(&c, x + 2 * step, 16);
    memcpy(&d, x + 3 * step, 16);
    lucid_float4 ab = LUCID_SHUFFLE(lucid_int4, a, b, 0, 4, 1, 5);
    lucid_float4 cd = LUCID_SHUFFLE(lucid_int4, c, d, 0, 4, 1, 5);
    lucid_float4 ef = LUCID_SHUFFLE(lucid_int4, a, b, 2, 6, 3, 7);
    lucid_float4 gh = LUCID_SHUFFLE(lucid_int4, c, d, 2, 6, 3, 7);
    a = LUCID_SHUFFLE(lucid_int4, ab, cd, 0, 1, 4, 5);
    b = LUCID_SHUFFLE(lucid_int4, ab, cd, 2, 3, 6, 7);
    c = LUCID_SHUFFLE(lucid_int4, ef, gh, 0, 1, 4, 5);
    d = LUCID_SHUFFLE(lucid_int4, ef, gh, 2, 3, 6, 7);
    memcpy(out, &a, 16);
    memcpy(out + pitch, &b, 16);
    memcpy(out + 2 * pitch, &c, 16);
    memcpy(out + 3 * pitch, &d, 16);
}

static inline void turn_double2(const double *x, ptrdiff_t step, double *out, size_t pitch) {
    lucid_double2 a, b;
    memcpy(&a, x, 16);
    memcpy(&b, x + step, 16);
    lucid_double2 c = LUCID_SHUFFLE(lucid_long2, a, b, 0, 2),
                  d = LUCID_SHUFFLE(lucid_long2, a, b, 1, 3);
    memcpy(out, &c, 16);
    memcpy(out + pitch, &d, 16);
}

enum { LUCID_TURN_AHEAD = 4096 }; /* bytes: the processor's own prefetching stops at page ends */

/* The last square of a row overlaps the one before it; where rows are shorter than a square, it
 * takes in what follows them in memory, as long as rows do. */
#define LUCID_TURN(TYPE, SIDE)                                                           \
    static inline void turn_##TYPE(const TYPE *x, ptrdiff_t step, size_t rows, size_t n, \
                                   TYPE *out) {                                          \
        size_t r = 0, needed = n >= SIDE ? SIDE : step > 0 ? 2 * SIDE : SIZE_MAX;        \
        for (; rows - r >= needed; r += SIDE, x += SIDE * step)                          \
            for (size_t i = 0; i < n; i += SIDE) {                                       \
                size_t k = i + SIDE <= n || n < SIDE ? i : n - SIDE;                     \
                __builtin_prefetch((const char *)(x + i * SIDE) + LUCID_TURN_AHEAD);     \
                turn_##TYPE##SIDE(x + k, step, out + k * rows + r, rows);                \
            }                                                                            \
        for (; r < rows; r++, x += step)                                                 \
            for (size_t i = 0; i < n; i++)                                               \
                out[i * rows + r] = x[i];                                                \
    }

LUCID_TURN(float, 4)
LUCID_TURN(double, 2)

/* Elements of `width` 4 or 8. */
static inline void turn(const void *x, ptrdiff_t step, size_t rows, size_t n, size_t width,
                        void *out) {
    if (width == 4) turn_float(x, step, rows, n, out);
    else turn_double(x, step, rows, n, out);
}

#endif
