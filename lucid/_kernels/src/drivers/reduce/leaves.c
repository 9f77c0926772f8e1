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
    WIDE = 128,     /* columns that are unpacked at once: of more, few rows would fill a buffer */
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

/* How they are run. */
typedef struct {
    int short_rows, rows, same; /* columns if neither; `same`: all rows go to one output */
    size_t length, n;           /* of the partner, of the innermost */
    ptrdiff_t step, stride;
} leaf;

static leaf find_leaf(const job *j, const loop *loops) {
    const loop *inner = &loops[j->ndim - 1], *partner = &loops[j->partner];
    int alone = j->partner < 0, same = alone || partner->reduced;
    leaf l = {.rows = inner->reduced, .same = same, .n = (size_t)inner->length, .stride = inner->x};
    l.length = alone ? 1 : (size_t)partner->length;
    l.step = alone ? 0 : partner->x;
    l.short_rows = inner->reduced && !same && l.n < SHORT_ROW && l.length >= SHORT_ROW;
    return l;
}

static int is_dense(const leaf *l) {
    return l->step == (ptrdiff_t)l->n * l->stride;
}

static int widens(size_t rows, ptrdiff_t step, size_t n) {
    return n < NARROW && rows >= 4 * WIDENED && step == (ptrdiff_t)n;
}

/* Plain additions bound the error of float columns only while they are few. */
static int blocks(const job *j, size_t rows) {
    return rows > TALL && !j->wide && !j->r->variance;
}

static size_t native_cols_scratch(const job *j, ptrdiff_t step, size_t rows, size_t n) {
    if (!widens(rows, step, n)) return blocks(j, rows) ? 2 * n : 0;
    return (j->fields + (blocks(j, rows / WIDENED) ? 2 : 0)) * WIDENED * n;
}

/* Elements of the buffer of a leaf that needs one. */
static size_t buffered(const job *j, const leaf *l) {
    size_t halves = splits(j) ? 2 : 1;
    if (l->short_rows) return least(l->length, LUCID_BLOCK / l->n) * (l->n < 4 ? 4 : l->n) * halves;
    if (!l->rows) return splits(j) ? l->n * halves : least(l->length * l->n, LUCID_BLOCK);
    size_t most = least(l->n, LUCID_BLOCK);
    return least(l->length, LUCID_BLOCK / most) * most * halves;
}

size_t lucid_reduce_scratch(const job *j, const loop *loops) {
    leaf l = find_leaf(j, loops);
    size_t buffer = l.short_rows || !j->direct ? buffered(j, &l) : 0;
    if (l.short_rows) return is_dense(&l) && !j->direct ? 2 * buffer : buffer;
    if (l.rows || (!j->direct && splits(j))) return buffer;
    if (j->direct) return native_cols_scratch(j, l.step / j->itemsize, l.length, l.n);
    return buffer + native_cols_scratch(j, (ptrdiff_t)l.n, least(l.length, LUCID_BLOCK / l.n), l.n);
}

static void rows_leaf(const job *j, const leaf *l, const char *x, lucid_moments out,
                      double *buffer) {
    size_t n = l->n, most = least(n, LUCID_BLOCK), width = j->wide ? 8 : 4;
    size_t group = j->direct && n <= LUCID_BLOCK ? l->length : LUCID_BLOCK / most;
    for (size_t r = 0; r < l->length; r += group) {
        size_t some = least(l->length - r, group);
        lucid_moments o = l->same ? out : shifted(out, r);
        for (size_t b = 0; b < n; b += most) {
            size_t m = least(n - b, most);
            const char *p = x + (ptrdiff_t)r * l->step + (ptrdiff_t)b * l->stride;
            if (j->direct) {
                call_rows(j, p, l->step / j->itemsize, some, m, l->same, o);
                continue;
            }
            if (splits(j)) {
                for (size_t i = 0; i < some; i++, p += l->step) {
                    split_integers(j, p, l->stride, m, buffer);
                    call_rows(j, buffer, 0, 1, 2 * m, l->same, l->same ? o : shifted(o, i));
                }
                continue;
            }
            for (size_t i = 0; i < some; i++, p += l->step)
                unpack(j, p, l->stride, m, (char *)buffer + i * m * width);
            call_rows(j, buffer, (ptrdiff_t)m, some, m, l->same, o);
        }
    }
}

/* Tall columns of float are summed in blocks, as rows are. */
static void blocked_cols(const job *j, const float *x, ptrdiff_t step, size_t rows, size_t n,
                         lucid_moments out, double *scratch) {
    lucid_moments block = {{scratch, scratch + n}, NULL, NULL, NULL, NULL};
    for (size_t r = 0; r < rows; r += TALL, x += TALL * step) {
        memset(scratch, 0, 2 * n * sizeof *scratch);
        call_cols(j, x, step, least(rows - r, TALL), n, block);
        for (size_t k = 0; k < n; k++)
            merge(out, k, block, k, 0);
    }
}

/* Rows of a few columns that follow each other directly are read as rows WIDENED times as wide. */
static void widened_cols(const job *j, const char *x, size_t rows, size_t n, size_t width,
                         lucid_moments out, double *scratch) {
    size_t wide = WIDENED * n;
    memset(scratch, 0, j->fields * wide * sizeof *scratch);
    lucid_moments lanes = fields(scratch, wide);
    if (blocks(j, rows / WIDENED))
        blocked_cols(j, (const float *)x, (ptrdiff_t)wide, rows / WIDENED, wide, lanes,
                     scratch + j->fields * wide);
    else call_cols(j, x, (ptrdiff_t)wide, rows / WIDENED, wide, lanes);
    for (size_t i = 0; i < WIDENED; i++)
        for (size_t k = 0; k < n; k++)
            merge(out, k, lanes, i * n + k, j->r->variance != NULL);
    size_t done = rows / WIDENED * WIDENED;
    if (done < rows) call_cols(j, x + done * n * width, (ptrdiff_t)n, rows - done, n, out);
}

static void native_cols(const job *j, const char *x, ptrdiff_t step, size_t rows, size_t n,
                        lucid_moments out, double *scratch) {
    if (widens(rows, step, n)) widened_cols(j, x, rows, n, j->wide ? 8 : 4, out, scratch);
    else if (blocks(j, rows)) blocked_cols(j, (const float *)x, step, rows, n, out, scratch);
    else call_cols(j, x, step, rows, n, out);
}

static void cols_leaf(const job *j, const leaf *l, const char *x, lucid_moments out,
                      double *buffer) {
    size_t n = l->n, group = LUCID_BLOCK / n, width = j->wide ? 8 : 4;
    if (j->direct) {
        native_cols(j, x, l->step / j->itemsize, l->length, n, out, buffer);
        return;
    }
    double *scratch = buffer + buffered(j, l);
    for (size_t r = 0; r < l->length; r += group, x += (ptrdiff_t)group * l->step) {
        size_t some = least(l->length - r, group);
        if (splits(j)) {
            for (size_t i = 0; i < some; i++) {
                split_integers(j, x + (ptrdiff_t)i * l->step, l->stride, n, buffer);
                call_cols(j, buffer, (ptrdiff_t)n, 2, n, out);
            }
            continue;
        }
        if (is_dense(l)) unpack(j, x, l->stride, some * n, buffer);
        else
            for (size_t i = 0; i < some; i++)
                unpack(j, x + (ptrdiff_t)i * l->step, l->stride, n, (char *)buffer + i * n * width);
        native_cols(j, (const char *)buffer, (ptrdiff_t)n, some, n, out, scratch);
    }
}

/* Moments are merged block by block, so blocks had better be tall. */
static void wide_cols_leaf(const job *j, const leaf *l, const char *x, lucid_moments out,
                           double *buffer) {
    size_t strips = (l->n + WIDE - 1) / WIDE, wide = (l->n + strips - 1) / strips;
    for (size_t k = 0; k < l->n; k += wide) {
        leaf strip = *l;
        strip.n = least(l->n - k, wide);
        cols_leaf(j, &strip, x + (ptrdiff_t)k * l->stride, shifted(out, k), buffer);
    }
}

/* Rows too short to fill the registers: a buffer of them, turned into columns. */
static void short_rows_leaf(const job *j, const leaf *l, const char *x, lucid_moments out,
                            double *buffer) {
    double *native = buffer + buffered(j, l);
    size_t n = l->n, group = LUCID_BLOCK / n, width = j->wide ? 8 : 4;
    for (size_t r = 0; r < l->length; r += group, x += (ptrdiff_t)group * l->step) {
        size_t some = least(l->length - r, group), tall = n;
        if (splits(j)) {
            tall = 2 * n;
            for (size_t i = 0; i < n; i++)
                split_integers(j, x + (ptrdiff_t)i * l->stride, l->step, some,
                               buffer + 2 * i * some);
        } else if (j->direct) {
            turn(x, l->step / j->itemsize, some, n, width, buffer);
        } else if (is_dense(l)) {
            unpack(j, x, l->stride, some * n, native);
            turn((const char *)native, (ptrdiff_t)n, some, n, width, buffer);
        } else {
            for (size_t i = 0; i < n; i++)
                unpack(j, x + (ptrdiff_t)i * l->stride, l->step, some,
                       (char *)buffer + i * some * width);
        }
        call_cols(j, buffer, (ptrdiff_t)some, tall, some, shifted(out, r));
    }
}

static void run_leaf(const job *j, const leaf *l, const char *x, lucid_moments out,
                     double *scratch) {
    if (l->short_rows) short_rows_leaf(j, l, x, out, scratch);
    else if (l->rows) rows_leaf(j, l, x, out, scratch);
    else if (l->n > WIDE && j->r->variance && !j->direct) wide_cols_leaf(j, l, x, out, scratch);
    else cols_leaf(j, l, x, out, scratch);
}

/* Without recursion, whose depth would be the array's. */
void lucid_reduce_leaves(const job *j, const loop *loops, const char *x, lucid_moments out,
                         double *scratch) {
    const leaf l = find_leaf(j, loops);
    ptrdiff_t at[LUCID_MAX_NDIM];
    size_t k = 0;
    int last = j->ndim - 2, level;
    for (int i = 0; i <= last; i++)
        at[i] = 0;
    do {
        run_leaf(j, &l, x, shifted(out, k), scratch);
        for (level = last; level >= 0; level--) {
            if (level == j->partner) continue;
            const loop *o = &loops[level];
            x += o->x, k += o->tile;
            if (++at[level] < o->length) break;
            x -= o->length * o->x, k -= (size_t)o->length * o->tile;
            at[level] = 0;
        }
    } while (level >= 0);
}
