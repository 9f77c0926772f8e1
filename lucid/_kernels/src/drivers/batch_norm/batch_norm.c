#include "drivers/batch_norm.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "platform/parallel.h"
#include "schedule.h"
#include "vectors.h"

#define CHANNEL_BYTES 16777216 /* no part of a larger channel is still in cache */
#define FEW_CHANNELS 8         /* fewer are split for the threads */
#define STACK_DOUBLES 640      /* of vectors over the channels */

/* The choice depends on shapes alone, and so do the bits of the results. */
static int run(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t bytes = w->count * w->size * (size_t)w->inputs;
    int few = w->channels < FEW_CHANNELS && w->count * w->channels >= LUCID_PARALLEL_ELEMENTS;
    int large = w->cols ? bytes * least(w->channels, NARROW) > GROUP_BYTES : bytes > CHANNEL_BYTES;
    if (few || large) return lucid_run_blocks(j);
    return lucid_run_groups(j);
}

/* Vectors of doubles over the channels, on the stack if they are small. */
typedef struct {
    double stack[STACK_DOUBLES], *heap, *next;
    size_t n;
} vectors;

static int vectors_begin(vectors *v, size_t n, size_t count) {
    v->n = n;
    v->heap = NULL;
    v->next = v->stack;
    if (n * count <= STACK_DOUBLES) return 0;
    v->next = v->heap = malloc(n * count * sizeof(double));
    return v->heap ? 0 : -1;
}

static double *vectors_new(vectors *v) {
    double *p = v->next;
    v->next += v->n;
    return p;
}

static double *vectors_read(vectors *v, const lucid_channels *of, lucid_vector from,
                            double absent) {
    double *p = vectors_new(v);
    lucid_vector_read(of->kernels, from, v->n, absent, p);
    return p;
}

static size_t channel_count(const lucid_channels *of) {
    return (size_t)of->shape[of->axis];
}

static int is_empty(const lucid_channels *of) {
    for (int i = 0; i < of->ndim; i++)
        if (of->shape[i] == 0) return 1;
    return 0;
}

static void job_begin(job *j, int call) {
    memset(j, 0, offsetof(job, walk));
    j->call = call;
}

static lucid_pass pass_of(lucid_pass_kind kind, int order, int x, int g, int v, int y, int z) {
    lucid_pass p = {.kind = kind, .order = order, .input = {x, g, v}, .output = {y, z}};
    return p;
}

int lucid_batch_norm_forward(const lucid_channels *of, lucid_array x, lucid_vector weight,
                             lucid_vector bias, lucid_vector running_mean, lucid_vector running_var,
                             double momentum, double eps, lucid_array y, double *mean,
                             double *rstd) {
    job j;
    job_begin(&j, FORWARD);
    j.momentum = momentum;
    j.eps = eps;
    j.mean = mean;
    j.rstd = rstd;
    j.reduces = 1;
    size_t c = channel_count(of);
    vectors v;
    if (is_empty(of)) {
        for (size_t i = 0; i < c; i++) {
            mean[i] = 0;
            rstd[i] = 1 / sqrt(eps);
        }
        return 0;
    }
    if (vectors_begin(&v, c, 4)) return -1;
    j.weight = vectors_read(&v, of, weight, 1);
    j.bias = vectors_read(&v, of, bias, 0);
    if (running_mean.data) j.running_mean = vectors_read(&v, of, running_mean, 0);
    if (running_var.data) j.running_var = vectors_read(&v, of, running_var, 1);
    lucid_array operands[] = {x, y};
    lucid_walk_plan(&j.walk, of, operands, 1, 1);
    j.sum = pass_of(LUCID_SUM, 0, 0, -1, -1, -1, -1);
    j.affine = pass_of(LUCID_AFFINE, 0, 0, -1, -1, 1, -1);
    const double m = (double)j.walk.count;
    j.inverse = 1 / m;
    j.unbiased = m / (m - 1);
    int status = run(&j);
    if (status == 0) {
        if (j.running_mean) lucid_vector_write(running_mean, c, j.running_mean);
        if (j.running_var) lucid_vector_write(running_var, c, j.running_var);
    }
    free(v.heap);
    return status;
}

int lucid_batch_norm_inference(const lucid_channels *of, lucid_array x, lucid_vector weight,
                               lucid_vector bias, lucid_vector running_mean,
                               lucid_vector running_var, double eps, lucid_array y, double *mean,
                               double *rstd) {
    job j;
    job_begin(&j, INFERENCE);
    j.walk.kernels = of->kernels;
    j.eps = eps;
    j.mean = mean;
    j.rstd = rstd;
    size_t c = channel_count(of);
    vectors v;
    if (vectors_begin(&v, c, 4)) return -1;
    j.weight = vectors_read(&v, of, weight, 1);
    j.bias = vectors_read(&v, of, bias, 0);
    j.running_mean = vectors_read(&v, of, running_mean, 0);
    j.running_var = vectors_read(&v, of, running_var, 1);
    int status = 0;
    if (is_empty(of)) {
        double q[COEFFICIENTS];
        for (size_t i = 0; i < c; i++)
            solve_inference(&j, i, NULL, 0, 1, q);
    } else {
        lucid_array operands[] = {x, y};
        lucid_walk_plan(&j.walk, of, operands, 1, 1);
        j.affine = pass_of(LUCID_AFFINE, 0, 0, -1, -1, 1, -1);
        status = run(&j);
    }
    free(v.heap);
    return status;
}

static void write_zeros(const lucid_channels *of, lucid_vector v) {
    double zero = 0;
    for (size_t i = 0; v.data && i < channel_count(of); i++, v.data += v.stride)
        lucid_vector_write(v, 1, &zero);
}

int lucid_batch_norm_backward(const lucid_channels *of, lucid_array dy, lucid_array x,
                              lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                              int training, lucid_array dx, lucid_vector dweight,
                              lucid_vector dbias) {
    job j;
    job_begin(&j, BACKWARD);
    vectors v;
    if (is_empty(of)) {
        write_zeros(of, dweight);
        write_zeros(of, dbias);
        return 0;
    }
    if (vectors_begin(&v, channel_count(of), 5)) return -1;
    j.weight = vectors_read(&v, of, weight, 1);
    j.mean = vectors_read(&v, of, mean, 0);
    j.rstd = vectors_read(&v, of, rstd, 0);
    if (dweight.data) j.dweight = vectors_new(&v);
    if (dbias.data) j.dbias = vectors_new(&v);
    j.reduces = dweight.data || dbias.data || (training && dx.data);
    if (!j.reduces) { /* x is not read */
        lucid_array operands[] = {dy, dx};
        lucid_walk_plan(&j.walk, of, operands, 1, 1);
        j.affine = pass_of(LUCID_AFFINE, 0, 0, -1, -1, 1, -1);
    } else {
        lucid_array operands[] = {x, dy, dx};
        lucid_walk_plan(&j.walk, of, operands, 2, dx.data ? 1 : 0);
        int out = dx.data ? 2 : -1;
        j.sum = pass_of(LUCID_SUM, 1, 0, 1, -1, -1, -1);
        j.affine = training ? pass_of(LUCID_AFFINE, 1, 0, 1, -1, out, -1)
                            : pass_of(LUCID_AFFINE, 0, 1, -1, -1, out, -1);
    }
    j.inverse = training ? 1 / (double)j.walk.count : 0;
    int status = run(&j);
    if (status == 0) {
        if (j.dweight) lucid_vector_write(dweight, channel_count(of), j.dweight);
        if (j.dbias) lucid_vector_write(dbias, channel_count(of), j.dbias);
    }
    free(v.heap);
    return status;
}

static const double zero;

/* Zeros of the common shape. */
static lucid_array zeros(lucid_array like) {
    static const ptrdiff_t no_strides[LUCID_MAX_NDIM];
    lucid_type type = like.type == LUCID_FLOAT64 ? LUCID_FLOAT64 : LUCID_FLOAT32;
    return (lucid_array){(char *)&zero, no_strides, type, 0, 1};
}

static int all_zero(const double *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i] != 0) return 0;
    return 1;
}

/* One output of `order` from x, and g: its coefficients are in the job. */
static int combine(job *j, const lucid_channels *of, int order, lucid_array x, lucid_array g,
                   lucid_array out) {
    lucid_array operands[] = {x, order ? g : out, out};
    j->reduces = 0;
    lucid_walk_plan(&j->walk, of, operands, 1 + order, 1);
    j->affine = pass_of(LUCID_AFFINE, order, 0, order ? 1 : -1, -1, 1 + order, -1);
    return run(j);
}

/* Second order where the statistics are constants: to_dy = weight rstd v + w rstd (x - mean) + u,
 * to_x = w rstd dy, to_weight = rstd sum(v dy). What has no part in a result is not read, so that
 * no infinity in it becomes a NaN. */
static int constant_double_backward(job *j, const lucid_channels *of, lucid_array v, lucid_array dy,
                                    lucid_array x, lucid_array to_dy, lucid_array to_x,
                                    double *none) {
    const size_t c = channel_count(of);
    double *weight = j->weight, *mean = j->mean;
    const int moves = !all_zero(j->w, c); /* does dweight have a cotangent? */
    int status = 0;
    memset(none, 0, c * sizeof *none);
    j->call = CONSTANT;
    j->bias = none;
    if (status == 0 && to_x.data) {
        j->mean = none;
        j->weight = j->w;
        status = combine(j, of, 0, moves ? dy : zeros(x), dy, to_x);
    }
    j->bias = j->u;
    if (status == 0 && to_dy.data && moves) {
        j->mean = mean;
        j->weight = v.data ? weight : j->w;
        status = combine(j, of, v.data ? 1 : 0, x, v, to_dy);
    } else if (status == 0 && to_dy.data) {
        j->mean = none;
        j->weight = weight;
        status = combine(j, of, 0, v.data ? v : zeros(x), v, to_dy);
    }
    if (status == 0 && j->dweight) {
        lucid_array operands[] = {v.data ? v : zeros(x), dy};
        j->call = BACKWARD;
        j->reduces = 1;
        j->mean = none;
        lucid_walk_plan(&j->walk, of, operands, 2, 0);
        j->sum = pass_of(LUCID_SUM, 1, 0, 1, -1, -1, -1);
        j->affine = pass_of(LUCID_AFFINE, 0, 1, -1, -1, -1, -1);
        status = run(j);
    }
    return status;
}

/* The same where they are those of x. */
static int training_double_backward(job *j, const lucid_channels *of, lucid_array v, lucid_array dy,
                                    lucid_array x, lucid_array to_dy, lucid_array to_x) {
    lucid_array operands[LUCID_OPERANDS] = {x, dy, v.data ? v : zeros(x)};
    int outputs = 0, y = -1, z = -1;
    if (to_dy.data) operands[3 + outputs] = to_dy, y = 3 + outputs++;
    if (to_x.data) operands[3 + outputs] = to_x, z = 3 + outputs++;
    lucid_walk_plan(&j->walk, of, operands, 3, outputs);
    j->reduces = 1;
    j->sum = pass_of(LUCID_SUM, 2, 0, 1, 2, -1, -1);
    j->affine = pass_of(LUCID_AFFINE, 2, 0, 1, 2, y, z);
    j->inverse = 1 / (double)j->walk.count;
    return run(j);
}

int lucid_batch_norm_double_backward(const lucid_channels *of, lucid_array v, lucid_vector w,
                                     lucid_vector u, lucid_array dy, lucid_array x,
                                     lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                                     int training, lucid_array to_dy, lucid_array to_x,
                                     lucid_vector to_weight) {
    job j;
    job_begin(&j, DOUBLE_BACKWARD);
    vectors s;
    if (is_empty(of)) {
        write_zeros(of, to_weight);
        return 0;
    }
    if (vectors_begin(&s, channel_count(of), 7)) return -1;
    j.weight = vectors_read(&s, of, weight, 1);
    j.mean = vectors_read(&s, of, mean, 0);
    j.rstd = vectors_read(&s, of, rstd, 0);
    j.w = vectors_read(&s, of, w, 0);
    j.u = vectors_read(&s, of, u, 0);
    if (to_weight.data) j.dweight = vectors_new(&s);
    int status = training
                     ? training_double_backward(&j, of, v, dy, x, to_dy, to_x)
                     : constant_double_backward(&j, of, v, dy, x, to_dy, to_x, vectors_new(&s));
    if (status == 0 && j.dweight) lucid_vector_write(to_weight, channel_count(of), j.dweight);
    free(s.heap);
    return status;
}
