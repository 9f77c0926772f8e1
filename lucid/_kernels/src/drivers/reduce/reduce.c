/* The driver of mean and variance.
 *
 * The loops of the plan are dealt out as follows. Kept loops, from the innermost outwards, form a
 * tile of at most LUCID_COLUMNS outputs; the first that does not fit is cut in chunks, and those
 * outside it are dealt to tasks. Where that leaves few tasks, one reduced loop is cut in parts,
 * each with a tile of its own, and the parts are merged in order. All of this follows from the
 * shape alone, never from the number of threads.
 *
 * A task walks its loops in memory order and hands the last two to a provider's entry: as rows
 * where the innermost loop is reduced, as columns where it is kept. */
#include "drivers/reduce.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "contract/half.h"
#include "contract/numerics.h"
#include "platform/parallel.h"
#include "transpose.h"

enum {
    TASK_ELEMENTS = 65536,  /* enough to be worth a task */
    PART_ELEMENTS = 131072, /* enough to be worth merging */
    MANY_TASKS = 64,        /* enough tasks for any machine */
    FEW_PARTS = 16,         /* as few as a reduced loop may give, if another gives more */
    PARTS_MEMORY = 262144,  /* bytes that the tiles of all parts may take */
    TALL = 1024,            /* rows of columns that are summed plainly */
    NARROW = 32,            /* columns that are too few to fill the registers */
    SMALL_TILE = 128,       /* outputs whose accumulators go on the stack */
    SHORT_ROW = 32,         /* a row that is */
    WIDENED = 16,           /* rows of them that are read as one */
};

typedef struct {
    ptrdiff_t length, x, out; /* steps in bytes */
    size_t tile;              /* step within the tile; 0 for a reduced loop */
    int reduced;
} loop;

typedef struct {
    const lucid_kernels *kernels;
    const lucid_reduction *r;
    loop memory[LUCID_MAX_NDIM], *loops; /* those inside a task, outermost first */
    int ndim, partner;                   /* the last two to be run: `partner` and ndim - 1 */
    loop outer[LUCID_MAX_NDIM];          /* those dealt to tasks */
    int nouter;
    int cut, parted; /* the kept loop in chunks, the reduced one in parts; -1 for none */
    ptrdiff_t chunk, part;
    size_t chunks, parts, tasks, tile;
    int wide;   /* entries for double, not float */
    int few;    /* elements: float ones are summed as exactly as double ones */
    int direct; /* they take x as it lies */
    ptrdiff_t itemsize;
    size_t fields;    /* of a tile: FIELDS, or 2 where only sums are wanted */
    double *partials; /* [task][part][fields][tile] */
    atomic_int nonfinite, failed;
} job;

enum { FIELDS = 6 };

static const ptrdiff_t itemsizes[LUCID_TYPES] = {4, 8, 2, 2, 1, 1, 1, 2, 2, 4, 4, 8, 8};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static int is_wide(lucid_type type) {
    return type == LUCID_FLOAT64 || type >= LUCID_INT32;
}

static lucid_moments fields(double *memory, size_t tile) {
    return (lucid_moments){{memory, memory + tile},
                           memory + 2 * tile,
                           memory + 3 * tile,
                           memory + 4 * tile,
                           memory + 5 * tile};
}

static lucid_moments shifted(lucid_moments a, size_t k) {
    return (lucid_moments){
        {a.sums.hi + k, a.sums.lo + k}, a.count + k, a.shift + k, a.mean + k, a.m2 + k};
}

/* ---- entries ------------------------------------------------------------------------------- */

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

/* Add output k of `b` to output i of `a`. */
static void merge(lucid_moments a, size_t i, lucid_moments b, size_t k, int variance) {
    a.sums.lo[i] += b.sums.lo[k];
    TWO_SUM(a.sums.hi[i], a.sums.lo[i], b.sums.hi[k]);
    if (!variance || b.count[k] == 0) return;
    double before = a.count[i], n = b.count[k], total = before + n;
    if (before == 0) a.shift[i] = b.shift[k];
    double delta = (b.shift[k] - a.shift[i]) + (b.mean[k] - a.mean[i]);
    a.mean[i] += delta * (n / total);
    a.m2[i] += b.m2[k] + delta * delta * (before * n / total);
    a.count[i] = total;
}

/* ---- unpacking ------------------------------------------------------------------------------ */

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

/* ---- the last two loops -----------------------------------------------------------------------
 */

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

/* ---- results ----------------------------------------------------------------------------------
 */

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

/* Write a task's results; 0 if any is infinite or NaN. */
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

/* ---- tasks ------------------------------------------------------------------------------------
 */

/* The loops of one task, in `loops` if they are its own, and where its x and its results begin. */
static const loop *place(const job *j, size_t task, size_t part, loop *loops, ptrdiff_t *x,
                         ptrdiff_t *out) {
    const int own = j->cut >= 0 || j->parted >= 0;
    *x = j->r->plan.offset[0];
    *out = j->r->plan.offset[1];
    if (own) memcpy(loops, j->loops, (size_t)j->ndim * sizeof *loops);
    if (j->cut >= 0) {
        loop *l = &loops[j->cut];
        ptrdiff_t first = (ptrdiff_t)(task % j->chunks) * j->chunk;
        task /= j->chunks;
        if (l->length - first < j->chunk) l->length -= first;
        else l->length = j->chunk;
        *x += first * l->x;
        *out += first * l->out;
    }
    for (int i = j->nouter - 1; i >= 0; i--) {
        ptrdiff_t at = (ptrdiff_t)(task % (size_t)j->outer[i].length);
        task /= (size_t)j->outer[i].length;
        *x += at * j->outer[i].x;
        *out += at * j->outer[i].out;
    }
    if (j->parted >= 0) {
        loop *l = &loops[j->parted];
        ptrdiff_t first = (ptrdiff_t)part * j->part;
        l->length = l->length - first < j->part ? l->length - first : j->part;
        *x += first * l->x;
    }
    return own ? loops : j->loops;
}

static void run_task(void *context, size_t index) {
    job *j = context;
    loop own_loops[LUCID_MAX_NDIM];
    ptrdiff_t x, out;
    size_t task = index / j->parts, part = index % j->parts;
    const loop *loops = place(j, task, part, own_loops, &x, &out);
    double memory[FIELDS * SMALL_TILE], *own = memory, *heap = NULL;
    if (j->partials) {
        own = j->partials + index * j->fields * j->tile;
    } else if (j->tile > SMALL_TILE) { /* stacks of other threads may be small */
        own = heap = malloc(j->fields * j->tile * sizeof *own);
        if (!heap) {
            atomic_store(&j->failed, 1);
            return;
        }
    }
    memset(own, 0, j->fields * j->tile * sizeof *own);
    lucid_moments tile = fields(own, j->tile);
    walk(j, loops, 0, j->r->x + x, tile);
    if (!j->partials && !finish(j, loops, 0, tile, out)) atomic_store(&j->nonfinite, 1);
    free(heap);
}

/* Merge the parts of one task, in order, into the first. */
static void merge_parts(void *context, size_t task) {
    job *j = context;
    loop memory[LUCID_MAX_NDIM];
    ptrdiff_t x, out;
    const loop *loops = place(j, task, 0, memory, &x, &out);
    double *own = j->partials + task * j->parts * j->fields * j->tile;
    lucid_moments first = fields(own, j->tile);
    for (size_t p = 1; p < j->parts; p++) {
        lucid_moments next = fields(own + p * j->fields * j->tile, j->tile);
        for (size_t k = 0; k < j->tile; k++)
            merge(first, k, next, k, j->r->variance != NULL);
    }
    if (!finish(j, loops, 0, first, out)) atomic_store(&j->nonfinite, 1);
}

static void set_loop(loop *l, const lucid_plan *p, int i, size_t tile) {
    l->length = p->length[i];
    l->x = p->stride[0][i];
    l->out = p->stride[1][i];
    l->tile = tile;
    l->reduced = p->reduced[i];
}

/* Tile, chunks and outer loops. */
static void deal_kept(job *j, const lucid_plan *p, size_t reduced) {
    loop *const end = j->memory + LUCID_MAX_NDIM, *first = end, *cut = NULL;
    int left = 0; /* reduced loops still further out */
    j->tile = j->chunks = j->tasks = 1;
    for (int i = 0; i < p->ndim; i++)
        left += p->reduced[i];
    for (int i = p->ndim - 1; i >= 0; i--) {
        if (p->reduced[i]) {
            left--;
            set_loop(--first, p, i, 0);
            continue;
        }
        size_t length = (size_t)p->length[i];
        if (cut) {
            set_loop(&j->outer[j->nouter++], p, i, 0);
            j->tasks *= length;
            continue;
        }
        int outermost = !left && first < end; /* may be cut without a walk being broken */
        size_t outputs = j->tile * length;
        set_loop(--first, p, i, j->tile);
        if (outputs > LUCID_COLUMNS || (outermost && outputs * reduced > TASK_ELEMENTS)) {
            size_t room = LUCID_COLUMNS / j->tile;
            if (outermost)
                room = least(room, TASK_ELEMENTS / least(TASK_ELEMENTS, j->tile * reduced));
            cut = first;
            j->chunk = (ptrdiff_t)room;
            j->chunks = (length + room - 1) / room;
            j->tasks *= j->chunks;
            j->tile *= room;
        } else {
            j->tile = outputs;
        }
    }
    j->loops = first;
    j->ndim = (int)(end - first);
    j->cut = cut ? (int)(cut - first) : -1;
    for (int i = 0; i < j->nouter / 2; i++) {
        loop l = j->outer[i];
        j->outer[i] = j->outer[j->nouter - 1 - i];
        j->outer[j->nouter - 1 - i] = l;
    }
}

/* Parts, where the tasks are few and large. */
static void deal_reduced(job *j, size_t reduced) {
    j->parts = 1;
    j->parted = -1;
    if (j->tile * reduced < 2 * PART_ELEMENTS) return;
    size_t want = (MANY_TASKS + j->tasks - 1) / j->tasks;
    want = least(want, j->tile * reduced / PART_ELEMENTS);
    want = least(want, PARTS_MEMORY / (j->tasks * j->tile * j->fields * sizeof(double)));
    if (want < 2) return;
    int best = -1; /* the outermost, unless it is too short */
    for (int i = 0; i < j->ndim; i++) {
        if (!j->loops[i].reduced) continue;
        if (best < 0 || j->loops[i].length > j->loops[best].length) best = i;
        if (j->loops[best].length >= FEW_PARTS) break;
    }
    size_t length = (size_t)j->loops[best].length;
    size_t part = (length + want - 1) / want;
    if (best == j->ndim - 1) part = (part + LUCID_BLOCK - 1) / LUCID_BLOCK * LUCID_BLOCK;
    j->part = (ptrdiff_t)part;
    j->parts = (length + part - 1) / part;
    j->parted = best;
}

static int takes_directly(const job *j) {
    const lucid_reduction *r = j->r;
    if (r->swap || r->type > LUCID_FLOAT64) return 0;
    ptrdiff_t bits = (ptrdiff_t)(uintptr_t)(r->x + r->plan.offset[0]);
    for (int i = 0; i < r->plan.ndim; i++)
        bits |= r->plan.stride[0][i];
    return bits % j->itemsize == 0 && j->loops[j->ndim - 1].x == j->itemsize;
}

/* The loop to run beside the innermost: its neighbour for rows, the nearest reduced one for
 * columns. */
static int find_partner(const job *j) {
    int i = j->ndim - 2;
    if (!j->loops[j->ndim - 1].reduced)
        while (i >= 0 && !j->loops[i].reduced)
            i--;
    return i;
}

int lucid_reduce(const lucid_kernels *kernels, const lucid_reduction *r) {
    job j;
    j.kernels = kernels;
    j.r = r;
    j.nouter = 0;
    j.fields = r->variance ? FIELDS : 2;
    j.partials = NULL;
    j.wide = is_wide(r->type);
    j.itemsize = itemsizes[r->type];
    atomic_init(&j.nonfinite, 0);
    atomic_init(&j.failed, 0);
    size_t reduced = 1, elements = 1;
    for (int i = 0; i < r->plan.ndim; i++) {
        if (r->plan.reduced[i]) reduced *= (size_t)r->plan.length[i];
        elements *= (size_t)r->plan.length[i];
    }
    deal_kept(&j, &r->plan, reduced);
    if (j.ndim == 0) {
        j.loops = j.memory;
        j.loops[0] = (loop){1, j.itemsize, 0, 0, 1};
        j.ndim = 1;
    }
    deal_reduced(&j, reduced);
    j.few = elements <= LUCID_FEW;
    j.partner = find_partner(&j);
    j.direct = takes_directly(&j);
    if (j.parts > 1) {
        j.partials = malloc(j.tasks * j.parts * j.fields * j.tile * sizeof(double));
        if (!j.partials) return LUCID_NO_MEMORY;
    }
    lucid_parallel(j.tasks * j.parts, elements, run_task, &j);
    if (j.parts > 1) {
        lucid_parallel(j.tasks, j.tasks * j.parts * j.tile, merge_parts, &j);
        free(j.partials);
    }
    if (atomic_load(&j.failed)) return LUCID_NO_MEMORY;
    return atomic_load(&j.nonfinite) ? LUCID_NONFINITE : LUCID_OK;
}

int lucid_mean_few(const lucid_kernels *kernels, const void *x, int wide, size_t outer, size_t n,
                   size_t inner, void *out) {
    const lucid_entries_f32 *f32 = &kernels->compensated;
    const lucid_entries_f64 *f64 = &kernels->f64;
    const float *f = x;
    const double *d = x;
    double hi[LUCID_FEW], lo[LUCID_FEW];
    lucid_sums sums = {hi, lo};
    size_t outputs = outer * inner;
    memset(hi, 0, outputs * sizeof *hi);
    memset(lo, 0, outputs * sizeof *lo);
    if (inner == 1) {
        if (wide) f64->sum_rows(d, (ptrdiff_t)n, outer, n, 0, sums);
        else f32->sum_rows(f, (ptrdiff_t)n, outer, n, 0, sums);
    } else {
        for (size_t i = 0; i < outer; i++, sums.hi += inner, sums.lo += inner) {
            if (wide) f64->sum_cols(d + i * n * inner, (ptrdiff_t)inner, n, inner, sums);
            else f32->sum_cols(f + i * n * inner, (ptrdiff_t)inner, n, inner, sums);
        }
    }
    int finite = wide ? f64->means(hi, lo, outputs, (double)n, out)
                      : f32->means(hi, lo, outputs, (double)n, out);
    return finite ? LUCID_OK : LUCID_NONFINITE;
}
