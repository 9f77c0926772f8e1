/* Runs the kernels over fixed data and prints a hash of all results for each instruction set that
 * the processor runs, best first. The contract says that they are the same everywhere. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/half.h"
#include "contract/kernels.h"
#include "drivers/batch_norm.h"
#include "drivers/layout.h"
#include "drivers/reduce.h"
#include "platform/parallel.h"

enum { MOST = 1 << 17, OUTPUTS = 4096 };

/* ---- data ---- */

static uint64_t state;

/* xorshift64*: the same on each machine, and as many bits as a double has. */
static double uniform(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (double)(state * UINT64_C(0x2545F4914F6CDD1D) >> 11) * 0x1p-53;
}

static void *array(lucid_type type, size_t n, double offset) {
    char *data = malloc(n * lucid_item_size(type));
    for (size_t i = 0; i < n; i++) {
        double x = 4 * uniform() - 2 + offset;
        float f = (float)x;
        uint16_t half = type == LUCID_FLOAT16 ? lucid_double_to_half(x) : lucid_double_to_bfloat(x);
        int64_t wide = (int64_t)(x * 0x1p40);
        int32_t narrow = (int32_t)(x * 0x1p20);
        int16_t small = (int16_t)(x * 1000);
        int8_t byte = (int8_t)(x * 8);
        size_t size = lucid_item_size(type);
        const void *from = size == 8   ? (const void *)&wide
                           : size == 4 ? (const void *)&narrow
                           : size == 2 ? (const void *)&small
                                       : (const void *)&byte;
        if (type == LUCID_FLOAT32) from = &f;
        if (type == LUCID_FLOAT64) from = &x;
        if (type == LUCID_FLOAT16 || type == LUCID_BFLOAT16) from = &half;
        memcpy(data + i * size, from, size);
    }
    return data;
}

/* ---- hash ---- */

static uint64_t hash;

/* Over the values, not over the bytes, whose order differs. */
static void add_bits(uint64_t bits) {
    hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
}

static void add(const void *data, lucid_type type, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t wide = 0;
        uint32_t word;
        uint16_t half;
        const char *at = (const char *)data + i * lucid_item_size(type);
        if (lucid_item_size(type) == 8) {
            memcpy(&wide, at, 8);
        } else if (lucid_item_size(type) == 4) {
            memcpy(&word, at, 4);
            wide = word;
        } else {
            memcpy(&half, at, 2);
            wide = half;
        }
        add_bits(wide);
    }
}

/* ---- the kernels ---- */

enum { DENSE, TURNED, SLICED, LAYOUTS };

/* Strides in bytes of a (n0, n1, n2) array: C order; the axes turned round; every other element. */
static void strides_of(int layout, const ptrdiff_t *shape, size_t size, ptrdiff_t *strides) {
    ptrdiff_t s = (ptrdiff_t)size * (layout == SLICED ? 2 : 1);
    if (layout == TURNED) { /* axis 1 innermost */
        strides[1] = s;
        strides[2] = s * shape[1];
        strides[0] = strides[2] * shape[2];
    } else {
        strides[2] = s;
        strides[1] = s * shape[2];
        strides[0] = strides[1] * shape[1];
    }
}

static void reduce(const lucid_kernels *kernels, const void *x, lucid_type type,
                   const ptrdiff_t *shape, int layout, uint64_t reduced, int variance) {
    ptrdiff_t strides[3], out[3], step = 8;
    const ptrdiff_t *both[] = {strides, out};
    double mean[OUTPUTS], var[OUTPUTS], count = 1, outputs = 1;
    strides_of(layout, shape, lucid_item_size(type), strides);
    for (int i = 2; i >= 0; i--) {
        out[i] = reduced >> i & 1 ? 0 : step;
        if (reduced >> i & 1) {
            count *= (double)shape[i];
        } else {
            step *= shape[i];
            outputs *= (double)shape[i];
        }
    }
    if (outputs > OUTPUTS) return;
    lucid_reduction r = {.x = x,
                         .type = type,
                         .mean = (char *)mean,
                         .result = LUCID_FLOAT64,
                         .count = count,
                         .divisor = count - 1};
    if (variance) r.variance = (char *)var;
    lucid_plan_loops(&r.plan, 2, 3, shape, both, reduced);
    if (lucid_reduce(kernels, &r) != LUCID_OK) abort();
    add(mean, LUCID_FLOAT64, (size_t)outputs);
    if (variance) add(var, LUCID_FLOAT64, (size_t)outputs);
}

static lucid_array dense(void *data, const ptrdiff_t *strides, lucid_type type) {
    return (lucid_array){data, strides, type, 0, 1};
}

static lucid_vector vector(double *data) {
    return (lucid_vector){(char *)data, 8, LUCID_FLOAT64, 0};
}

static void batch_norm(const lucid_kernels *kernels, lucid_type type, const ptrdiff_t *shape,
                       int layout, int training, double offset) {
    ptrdiff_t strides[3];
    size_t n = (size_t)(shape[0] * shape[1] * shape[2]), c = (size_t)shape[1];
    size_t room = n * (layout == SLICED ? 2 : 1), bytes = room * lucid_item_size(type);
    strides_of(layout, shape, lucid_item_size(type), strides);
    void *x = array(type, room, offset), *dy = array(type, room, 0), *v = array(type, room, 0);
    void *y = calloc(1, bytes), *z = calloc(1, bytes);
    double *weight = array(LUCID_FLOAT64, c, 1), *bias = array(LUCID_FLOAT64, c, 0);
    double *w = array(LUCID_FLOAT64, c, 0), *u = array(LUCID_FLOAT64, c, 0);
    double *mean = array(LUCID_FLOAT64, c, offset), *var = array(LUCID_FLOAT64, c, 9);
    double *batch_mean = calloc(c, 8), *rstd = calloc(c, 8), *to_c = calloc(2 * c, 8);
    lucid_channels of = {kernels, 3, 1, shape};
    int status;
    if (training)
        status = lucid_batch_norm_forward(&of, dense(x, strides, type), vector(weight),
                                          vector(bias), vector(mean), vector(var), 0.1, 1e-5,
                                          dense(y, strides, type), batch_mean, rstd);
    else
        status = lucid_batch_norm_inference(&of, dense(x, strides, type), vector(weight),
                                            vector(bias), vector(mean), vector(var), 1e-5,
                                            dense(y, strides, type), batch_mean, rstd);
    add(y, type, room), add(mean, LUCID_FLOAT64, c), add(var, LUCID_FLOAT64, c);
    add(batch_mean, LUCID_FLOAT64, c), add(rstd, LUCID_FLOAT64, c);
    status |= lucid_batch_norm_backward(&of, dense(dy, strides, type), dense(x, strides, type),
                                        vector(weight), vector(batch_mean), vector(rstd), training,
                                        dense(y, strides, type), vector(to_c), vector(to_c + c));
    add(y, type, room), add(to_c, LUCID_FLOAT64, 2 * c);
    status |= lucid_batch_norm_double_backward(
        &of, dense(v, strides, type), vector(w), vector(u), dense(dy, strides, type),
        dense(x, strides, type), vector(weight), vector(batch_mean), vector(rstd), training,
        dense(y, strides, type), dense(z, strides, type), vector(to_c));
    add(y, type, room), add(z, type, room), add(to_c, LUCID_FLOAT64, c);
    if (status) abort();
    void *all[] = {x, dy, v, y, z, weight, bias, w, u, mean, var, batch_mean, rstd, to_c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static uint64_t run(const lucid_kernels *kernels) {
    static const ptrdiff_t shapes[][3] = {{7, 11, 26},  {40, 3, 70},  {2, 5, 1000}, {1, 1, 20000},
                                          {300, 40, 1}, {3, 1030, 3}, {16, 8, 196}, {5, 2, 9}};
    hash = UINT64_C(0xcbf29ce484222325);
    state = 88172645463325252u;
    for (int type = 0; type < LUCID_TYPES; type++) {
        void *x = array((lucid_type)type, MOST, type == LUCID_FLOAT32 ? 1000 : 0.5);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                for (uint64_t reduced = 1; reduced < 8; reduced++)
                    for (int variance = 0; variance < 2; variance++)
                        reduce(kernels, x, (lucid_type)type, shapes[s], layout, reduced, variance);
                for (int training = 0; training < 2 && type <= LUCID_BFLOAT16; training++)
                    batch_norm(kernels, (lucid_type)type, shapes[s], layout, training, 3);
            }
        free(x);
    }
    /* Large enough for stores past the cache. */
    static const ptrdiff_t large[] = {24, 37, 1500};
    for (int layout = 0; layout < SLICED; layout++)
        batch_norm(kernels, LUCID_FLOAT32, large, layout, 1, 1e4);
    return hash;
}

int main(void) {
    lucid_simd simd[8];
    size_t n = lucid_simd_available(simd);
    lucid_parallel_init(1);
    for (size_t i = 0; i < n; i++)
        printf("%s %016" PRIx64 "\n", simd[i].isa, run(simd[i].kernels));
    return 0;
}
