/* From a task's tile to the mean and the variance, rounded to the result's type. */
#include "job.h"

#include <math.h>

#include "contract/half.h"

/* Round to the result's type; 0 if one is then infinite or NaN. */
static int put_run(char *out, ptrdiff_t step, lucid_type type, const double *value, size_t n) {
    const uint16_t exponent = type == LUCID_FLOAT16 ? 0x7c00 : 0x7f80;
    double check = 0;
    int finite = 1;
    for (size_t k = 0; k < n; k++, out += step) {
        if (type == LUCID_FLOAT32) {
            check += (*(float *)out = (float)value[k]) * 0;
        } else if (type == LUCID_FLOAT64) {
            check += (*(double *)out = value[k]) * 0;
        } else {
            uint16_t h = type == LUCID_FLOAT16 ? lucid_double_to_half(value[k])
                                               : lucid_double_to_bfloat(value[k]);
            *(uint16_t *)out = h;
            finite &= (h & exponent) != exponent;
        }
    }
    return finite && check == 0;
}

/* n outputs of the tile, `tile` apart, to `at` bytes into the results, `step` apart. */
static int finish_run(const job *j, lucid_moments a, size_t tile, ptrdiff_t at, ptrdiff_t step,
                      size_t n) {
    const lucid_reduction *r = j->r;
    enum { WIDTH = 64 };
    double hi[WIDTH], lo[WIDTH], value[WIDTH];
    int finite = 1;
    if (r->mean && !r->variance && tile == 1) { /* straight to the result */
        char *to = r->mean + at;
        if (step == 4 && r->result == LUCID_FLOAT32)
            return j->kernels->f32.means(a.sums.hi, a.sums.lo, n, r->count, (float *)to);
        if (step == 8 && r->result == LUCID_FLOAT64)
            return j->kernels->f64.means(a.sums.hi, a.sums.lo, n, r->count, (double *)to);
    }
    for (size_t i = 0; i < n; i += WIDTH, at += WIDTH * step, a = shifted(a, WIDTH * tile)) {
        size_t some = n - i < WIDTH ? n - i : WIDTH;
        if (r->mean) {
            for (size_t k = 0; k < some; k++) {
                hi[k] = a.sums.hi[k * tile];
                lo[k] = a.sums.lo[k * tile];
            }
            j->kernels->f64.means(hi, lo, some, r->count, value);
            finite &= put_run(r->mean + at, step, r->result, value, some);
        }
        if (r->variance) {
            for (size_t k = 0; k < some; k++) {
                value[k] = a.m2[k * tile] / r->divisor;
                if (r->root) value[k] = sqrt(value[k]);
            }
            finite &= put_run(r->variance + at, step, r->result, value, some);
        }
    }
    return finite;
}

static int finish(const job *j, const loop *loops, int level, lucid_moments a, ptrdiff_t at) {
    while (level < j->ndim && loops[level].reduced)
        level++;
    if (level == j->ndim) return finish_run(j, a, 1, at, 0, 1);
    const loop *l = &loops[level];
    int inner = level + 1, finite = 1;
    while (inner < j->ndim && loops[inner].reduced)
        inner++;
    if (inner == j->ndim) return finish_run(j, a, l->tile, at, l->out, (size_t)l->length);
    for (ptrdiff_t i = 0; i < l->length; i++)
        finite &= finish(j, loops, inner, shifted(a, (size_t)i * l->tile), at + i * l->out);
    return finite;
}

int lucid_reduce_results(const job *j, const loop *loops, lucid_moments tile, ptrdiff_t at) {
    return finish(j, loops, 0, tile, at);
}
