/* The loops of one task, walked in memory order. The last two are handed to a provider's entry: as
 * rows where the innermost loop is reduced, as columns where it is kept. */
#include "job.h"

#include <stdint.h>
#include <string.h>

#include "transpose.h"

enum {
    TALL = 1024,    /* rows of columns that are summed plainly */
    NARROW = 32,    /* columns that are too few to fill the registers */
    SHORT_ROW = 32, /* a row that is */
    WIDENED = 16,   /* rows of them that are read as one */
};

/* ---- Entries ---- */

/* The entries for float: those of few elements cost more and keep more. */
static const lucid_entries_f32 *narrow(const job *j) {
    return j->few ? &j->kernels->compensated : &j->kernels->f32;
}

static void call_rows(const job *j, const void *x, ptrdiff_t step, size_t rows, size_t n, int same,
                      lucid_moments out) {
    const lucid_kernels *k = j->kernels;
    if (j->r->variance) {
        if (j->wide) k->f64.moments_rows(x, step, rows, n, same, out);
        else narrow(j)->moments_rows(x, step, rows, n, same, out);
    } else if (j->wide) {
        k->f64.sum_rows(x, step, rows, n, same, out.sums);
    } else {
        narrow(j)->sum_rows(x, step, rows, n, same, out.sums);
    }
}

static void call_cols(const job *j, const void *x, ptrdiff_t step, size_t rows, size_t n,
                      lucid_moments out) {
    const lucid_kernels *k = j->kernels;
    if (j->r->variance) {
        if (j->wide) k->f64.moments_cols(x, step, rows, n, out);
        else narrow(j)->moments_cols(x, step, rows, n, out);
    } else if (j->wide) {
        k->f64.sum_cols(x, step, rows, n, out.sums);
    } else {
        narrow(j)->sum_cols(x, step, rows, n, out.sums);
    }
}

/* ---- Unpacking ---- */

static int splits(const job *j) {
    return j->r->type >= LUCID_INT64 && !j->r->variance;
}

/* 64-bit integers as two exact doubles each: the high halves, then the low halves. */
static void split_integers(const job *j, const char *x, ptrdiff_t stride, size_t n, double *out) {
    for (size_t i = 0; i < n; i++, x += stride) {
        uint64_t bits;
        memcpy(&bits, x, 8);
        if (j->r->swap) bits = __builtin_bswap64(bits);
        double high =
            j->r->type == LUCID_INT64 ? (double)(int32_t)(bits >> 32) : (double)(bits >> 32);
        out[i] = high * 0x1p32;
        out[n + i] = (double)(bits & 0xffffffff);
    }
}

static void unpack(const job *j, const char *x, ptrdiff_t stride, size_t n, void *out) {
    j->kernels->unpack[j->r->type](x, stride, n, j->r->swap, out);
}

/* ---- The last two loops ---- */

static void rows_leaf(const job *j, const char *x, ptrdiff_t step, size_t rows, ptrdiff_t stride,
                      size_t n, int same, lucid_moments out) {
    _Alignas(64) double buffer[2 * LUCID_BLOCK];
    size_t most = n < LUCID_BLOCK ? n : LUCID_BLOCK;
    size_t group = j->direct && n <= LUCID_BLOCK ? rows : LUCID_BLOCK / most;
    size_t width = j->wide ? 8 : 4;
    for (size_t r = 0; r < rows; r += group) {
        size_t some = rows - r < group ? rows - r : group;
        lucid_moments o = same ? out : shifted(out, r);
        for (size_t b = 0; b < n; b += most) {
            size_t m = n - b < most ? n - b : most;
            const char *p = x + (ptrdiff_t)r * step + (ptrdiff_t)b * stride;
            if (j->direct) {
                call_rows(j, p, step / j->itemsize, some, m, same, o);
                continue;
            }
            if (splits(j)) {
                for (size_t i = 0; i < some; i++, p += step) {
                    split_integers(j, p, stride, m, buffer);
                    call_rows(j, buffer, 0, 1, 2 * m, same, same ? o : shifted(o, i));
                }
                continue;
            }
            for (size_t i = 0; i < some; i++, p += step)
                unpack(j, p, stride, m, (char *)buffer + i * m * width);
            call_rows(j, buffer, (ptrdiff_t)m, some, m, same, o);
        }
    }
}

/* Tall columns of float are summed in blocks, as rows are: plain additions bound the error only
 * while they are few. */
static void blocked_cols(const job *j, const float *x, ptrdiff_t step, size_t rows, size_t n,
                         lucid_moments out) {
    double hi[LUCID_COLUMNS], lo[LUCID_COLUMNS];
    lucid_moments block = {{hi, lo}, NULL, NULL, NULL, NULL};
    for (size_t r = 0; r < rows; r += TALL, x += TALL * step) {
        memset(hi, 0, n * sizeof *hi);
        memset(lo, 0, n * sizeof *lo);
        call_cols(j, x, step, least(rows - r, TALL), n, block);
        for (size_t k = 0; k < n; k++)
            merge(out, k, block, k, 0);
    }
}

/* Rows of a few columns that follow each other directly are read as rows WIDENED times as wide. */
static void widened_cols(const job *j, const char *x, size_t rows, size_t n, size_t width,
                         lucid_moments out) {
    double memory[FIELDS * WIDENED * NARROW];
    size_t wide = WIDENED * n;
    memset(memory, 0, FIELDS * wide * sizeof *memory);
    lucid_moments lanes = fields(memory, wide);
    if (rows / WIDENED > TALL && !j->wide && !j->r->variance)
        blocked_cols(j, (const float *)x, (ptrdiff_t)wide, rows / WIDENED, wide, lanes);
    else call_cols(j, x, (ptrdiff_t)wide, rows / WIDENED, wide, lanes);
    for (size_t i = 0; i < WIDENED; i++)
        for (size_t k = 0; k < n; k++)
            merge(out, k, lanes, i * n + k, j->r->variance != NULL);
    size_t done = rows / WIDENED * WIDENED;
    if (done < rows) call_cols(j, x + done * n * width, (ptrdiff_t)n, rows - done, n, out);
}

static void native_cols(const job *j, const char *x, ptrdiff_t step, size_t rows, size_t n,
                        lucid_moments out) {
    if (n < NARROW && rows >= 4 * WIDENED && step == (ptrdiff_t)n)
        widened_cols(j, x, rows, n, j->wide ? 8 : 4, out);
    else if (rows > TALL && !j->wide && !j->r->variance)
        blocked_cols(j, (const float *)x, step, rows, n, out);
    else call_cols(j, x, step, rows, n, out);
}

static void cols_leaf(const job *j, const char *x, ptrdiff_t step, size_t rows, ptrdiff_t stride,
                      size_t n, lucid_moments out) {
    if (j->direct) {
        native_cols(j, x, step / j->itemsize, rows, n, out);
        return;
    }
    _Alignas(64) double buffer[2 * LUCID_BLOCK];
    size_t group = LUCID_BLOCK / n, width = j->wide ? 8 : 4;
    for (size_t r = 0; r < rows; r += group, x += (ptrdiff_t)group * step) {
        size_t some = rows - r < group ? rows - r : group;
        if (splits(j)) {
            for (size_t i = 0; i < some; i++) {
                split_integers(j, x + (ptrdiff_t)i * step, stride, n, buffer);
                call_cols(j, buffer, (ptrdiff_t)n, 2, n, out);
            }
            continue;
        }
        if (step == (ptrdiff_t)n * stride) unpack(j, x, stride, some * n, buffer);
        else
            for (size_t i = 0; i < some; i++)
                unpack(j, x + (ptrdiff_t)i * step, stride, n, (char *)buffer + i * n * width);
        native_cols(j, (const char *)buffer, (ptrdiff_t)n, some, n, out);
    }
}

/* Rows too short to fill the registers: a buffer of them, turned into columns. */
static void short_rows_leaf(const job *j, const char *x, ptrdiff_t step, size_t rows,
                            ptrdiff_t stride, size_t n, lucid_moments out) {
    _Alignas(64) double buffer[2 * LUCID_BLOCK], native[LUCID_BLOCK];
    size_t group = LUCID_BLOCK / n, width = j->wide ? 8 : 4;
    for (size_t r = 0; r < rows; r += group, x += (ptrdiff_t)group * step) {
        size_t some = rows - r < group ? rows - r : group, tall = n;
        if (splits(j)) {
            tall = 2 * n;
            for (size_t i = 0; i < n; i++)
                split_integers(j, x + (ptrdiff_t)i * stride, step, some, buffer + 2 * i * some);
        } else if (j->direct) {
            turn(x, step / j->itemsize, some, n, width, buffer);
        } else if (step == (ptrdiff_t)n * stride) {
            unpack(j, x, stride, some * n, native);
            turn((const char *)native, (ptrdiff_t)n, some, n, width, buffer);
        } else {
            for (size_t i = 0; i < n; i++)
                unpack(j, x + (ptrdiff_t)i * stride, step, some, (char *)buffer + i * some * width);
        }
        call_cols(j, buffer, (ptrdiff_t)some, tall, some, shifted(out, r));
    }
}

static void walk(const job *j, const loop *loops, int level, const char *x, lucid_moments out) {
    if (level == j->partner) level++;
    const loop *inner = &loops[j->ndim - 1], *partner = &loops[j->partner];
    if (level < j->ndim - 1) {
        const loop *l = &loops[level];
        for (ptrdiff_t i = 0; i < l->length; i++)
            walk(j, loops, level + 1, x + i * l->x, shifted(out, (size_t)i * l->tile));
        return;
    }
    size_t n = (size_t)inner->length;
    int alone = j->partner < 0;
    size_t rows = alone ? 1 : (size_t)partner->length;
    ptrdiff_t step = alone ? 0 : partner->x;
    if (inner->reduced && n < SHORT_ROW && rows >= SHORT_ROW && !partner->reduced)
        short_rows_leaf(j, x, step, rows, inner->x, n, out);
    else if (inner->reduced)
        rows_leaf(j, x, step, rows, inner->x, n, alone || partner->reduced, out);
    else cols_leaf(j, x, step, rows, inner->x, n, out);
}

void lucid_reduce_leaves(const job *j, const loop *loops, const char *x, lucid_moments out) {
    walk(j, loops, 0, x, out);
}
