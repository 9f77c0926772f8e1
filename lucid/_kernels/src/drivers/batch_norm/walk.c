#include "walk.h"

#include <string.h>

#include "contract/half.h"

#define TILE 2048          /* elements of an operand unpacked at once */
#define CHUNK 16384        /* elements of a piece of one row */
#define COLUMN_CHUNK 65536 /* elements of a piece of columns */

#define STREAM_BYTES 4194304 /* smaller outputs stay in cache for whoever reads them next */
#define STAGE 4096           /* bytes of an output gathered in L1, so that full lines leave */

static const unsigned char item_size[] = {4, 8, 2, 2, 1, 1, 1, 2, 2, 4, 4, 8, 8};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Plan ---- */

/* `turned`: the plan walks the channels backwards. */
static void set_operand(lucid_walk *w, int k, const lucid_array *a, const lucid_plan *p,
                        int channel, int inner, int turned) {
    lucid_operand *o = &w->operand[k];
    o->base = a->data + p->offset[k];
    o->type = a->type;
    o->swap = a->swap;
    o->channel = channel < 0 ? 0 : p->stride[k][channel];
    if (turned) {
        o->base += (ptrdiff_t)(w->channels - 1) * o->channel;
        o->channel = -o->channel;
    }
    o->inner = inner < 0 ? 0 : p->stride[k][inner];
    int outers = 0;
    for (int i = 0; i < p->ndim; i++)
        if (i != channel && i != inner) o->outer[outers++] = p->stride[k][i];
    ptrdiff_t along = w->cols ? o->channel : o->inner;
    size_t steps = w->cols ? w->channels : w->length;
    o->direct = a->aligned && !a->swap && item_size[a->type] == w->size &&
                a->type <= LUCID_FLOAT64 && (steps == 1 || along == (ptrdiff_t)w->size);
}

void lucid_walk_plan(lucid_walk *w, const lucid_channels *of, const lucid_array *operands,
                     int inputs, int outputs) {
    const ptrdiff_t *strides[LUCID_OPERANDS];
    lucid_plan plan;
    int channel = -1, inner = -1;
    for (int k = 0; k < inputs + outputs; k++)
        strides[k] = operands[k].strides;
    lucid_plan_loops(&plan, inputs + outputs, of->ndim, of->shape, strides,
                     ~(UINT64_C(1) << of->axis));
    for (int i = 0; i < plan.ndim; i++) {
        if (plan.reduced[i]) inner = i;
        else channel = i;
    }
    w->kernels = of->kernels;
    w->inputs = inputs;
    w->operands = inputs + outputs;
    w->cols = channel >= 0 && channel == plan.ndim - 1;
    w->channels = channel < 0 ? 1 : (size_t)plan.length[channel];
    w->length = inner < 0 ? 1 : (size_t)plan.length[inner];
    w->size = operands[0].type == LUCID_FLOAT64 ? 8 : 4;
    w->wide = w->size == 4;
    w->outers = 0;
    size_t outer = 1;
    for (int i = 0; i < plan.ndim; i++)
        if (i != channel && i != inner)
            outer *= w->outer_length[w->outers++] = (size_t)plan.length[i];
    w->count = outer * w->length;
    w->chunk = CHUNK;
    if (w->cols) {
        w->chunk = COLUMN_CHUNK / w->channels / LUCID_CHAIN * LUCID_CHAIN;
        if (w->chunk == 0) w->chunk = LUCID_CHAIN;
    }
    w->chunks = (w->length + w->chunk - 1) / w->chunk;
    w->pieces = outer * w->chunks;
    w->stream = w->count * w->channels * w->size > STREAM_BYTES;
    for (int k = 0; k < w->operands; k++)
        set_operand(w, k, &operands[k], &plan, channel, inner, operands[0].strides[of->axis] < 0);
}

/* ---- One tile ---- */

/* Rows of `tile` that one stage holds, the step between them there, and whether the outputs of
 * neighbouring rows are neighbours in memory; 0 rows if it pays not. */
static size_t stage_rows(const lucid_walk *w, const lucid_tile *t, size_t *step, int *dense) {
    size_t bytes = t->n * w->size;
    int even = 1;
    *dense = 1;
    for (int k = 0; k < 2; k++)
        if (t->out[k] && t->out_step[k] != (ptrdiff_t)t->n) *dense = 0;
    if (t->out[0] && t->out[1] && t->out_step[0] != t->out_step[1]) even = 0;
    *step = bytes;
    if (!*dense) {
        ptrdiff_t first = t->out_step[t->out[0] ? 0 : 1] * (ptrdiff_t)w->size;
        *step = ((bytes + 63) & ~(size_t)63) + ((size_t)first & 63);
    }
    if (bytes > STAGE) return 1;
    if (!even || (!*dense && bytes < 256)) return 0;
    return STAGE / *step < t->rows ? STAGE / *step : t->rows;
}

/* An affine entry by way of L1: columns [from, to) of rows [row, row + rows). */
static void staged(const lucid_walk *w, lucid_channel_affine affine, const lucid_tile *t,
                   size_t row, size_t rows, size_t from, size_t to, size_t step, int dense,
                   const char *q, size_t pitch) {
    char stage[2][STAGE + 128] __attribute__((aligned(64)));
    char *place[2], *at[2];
    lucid_tile s = *t;
    ptrdiff_t size = (ptrdiff_t)w->size;
    s.rows = rows;
    s.n = to - from;
    s.stream = 0;
    for (int k = 0; k < 3; k++)
        if (s.in[k])
            s.in[k] =
                (const char *)s.in[k] + ((ptrdiff_t)row * s.in_step[k] + (ptrdiff_t)from) * size;
    for (int k = 0; k < 2; k++) {
        if (!s.out[k]) continue;
        place[k] = (char *)s.out[k] + ((ptrdiff_t)row * s.out_step[k] + (ptrdiff_t)from) * size;
        at[k] = stage[k] + ((uintptr_t)place[k] & 63);
        s.out[k] = at[k];
        s.out_step[k] = (ptrdiff_t)(step / w->size);
    }
    affine(&s, q, pitch);
    for (int k = 0; k < 2; k++) {
        if (!s.out[k]) continue;
        if (dense) {
            w->kernels->stream(place[k], at[k], rows * s.n * w->size);
            continue;
        }
        for (size_t r = 0; r < rows; r++)
            w->kernels->stream(place[k] + (ptrdiff_t)r * t->out_step[k] * size, at[k] + r * step,
                               s.n * w->size);
    }
}

static void affine_streaming(const lucid_walk *w, lucid_channel_affine affine, const lucid_tile *t,
                             const char *q, size_t pitch, size_t work) {
    size_t step, most = STAGE / w->size;
    int dense;
    size_t rows = stage_rows(w, t, &step, &dense);
    if (rows == 0) {
        affine(t, q, pitch);
        return;
    }
    for (size_t r = 0; r < t->rows; r += rows)
        for (size_t i = 0; i < t->n; i += most)
            staged(w, affine, t, r, least(rows, t->rows - r), i, least(i + most, t->n), step, dense,
                   w->cols ? q : q + r * work, pitch);
}

/* Does the entry send whole lines past the cache? Rows do if they are longer than a line, columns
 * if they begin at one. */
static int streams_itself(const lucid_walk *w, const lucid_tile *t, int wide) {
    if (wide) return 0;
    if (!w->cols) return t->n * w->size >= 64;
    uintptr_t bits = 0;
    for (int k = 0; k < 2; k++)
        if (t->out[k]) bits |= (uintptr_t)t->out[k] | (uintptr_t)t->out_step[k] * w->size;
    return bits % 64 == 0;
}

static void call(const lucid_walk *w, const lucid_pass *p, const lucid_tile *tile, size_t channel,
                 int wide) {
    const lucid_channel_entries *e = wide           ? &w->kernels->channel_wide
                                     : w->size == 4 ? &w->kernels->channel_f32
                                                    : &w->kernels->channel_f64;
    size_t work = wide ? 8 : w->size;
    const char *of_channel = (const char *)(wide ? (const void *)p->wide : p->narrow);
    of_channel += channel * work;
    if (p->kind == LUCID_AFFINE) {
        lucid_channel_affine affine = (w->cols ? e->affine_cols : e->affine_rows)[p->order];
        if (w->stream && !streams_itself(w, tile, wide))
            affine_streaming(w, affine, tile, of_channel, p->pitch, work);
        else affine(tile, of_channel, p->pitch);
        return;
    }
    size_t terms = p->order == 2 ? LUCID_TERMS : 2;
    double *sums = p->sums + channel * (w->cols ? 1 : terms * LUCID_LANES);
    (w->cols ? e->sums_cols : e->sums_rows)[p->order](tile, of_channel, sums, p->pitch);
}

static void start(const lucid_walk *w, const lucid_pass *p, const lucid_tile *t, size_t channel) {
    lucid_sums out = {p->sums + channel, p->sums + p->pitch + channel};
    const lucid_kernels *k = w->kernels;
    if (w->size == 4 && w->cols) k->f32.sum_cols(t->in[0], t->in_step[0], t->rows, t->n, out);
    else if (w->size == 4) k->f32.sum_rows(t->in[0], t->in_step[0], t->rows, t->n, 0, out);
    else if (w->cols) k->f64.sum_cols(t->in[0], t->in_step[0], t->rows, t->n, out);
    else k->f64.sum_rows(t->in[0], t->in_step[0], t->rows, t->n, 0, out);
}

/* Rows or columns [from, to) of a tile. */
static lucid_tile part(const lucid_walk *w, const lucid_tile *t, size_t from, size_t to) {
    lucid_tile s = *t;
    for (int k = 0; k < 3; k++)
        if (s.in[k])
            s.in[k] =
                (const char *)s.in[k] + (ptrdiff_t)(from * w->size) * (w->cols ? 1 : s.in_step[k]);
    for (int k = 0; k < 2; k++)
        if (s.out[k])
            s.out[k] =
                (char *)s.out[k] + (ptrdiff_t)(from * w->size) * (w->cols ? 1 : s.out_step[k]);
    if (w->cols) s.n = to - from;
    else s.rows = to - from;
    return s;
}

/* `channel` is the tile's first, counted from the walk's first. */
static void visit(const lucid_walk *w, const lucid_pass *p, const lucid_tile *t, size_t channel) {
    if (p->kind == LUCID_START) {
        start(w, p, t, channel);
        return;
    }
    if (!p->flags) {
        call(w, p, t, channel, 0);
        return;
    }
    size_t n = w->cols ? t->n : t->rows;
    const unsigned char *flags = p->flags + channel;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && flags[j] == flags[i]; j++) {}
        if (!flags[i] && p->only_flagged) continue;
        lucid_tile run = part(w, t, i, j);
        call(w, p, &run, channel + i, flags[i] && w->wide);
    }
}

/* ---- Operands that are not direct ---- */

/* n elements, `stride` bytes apart, as the type computed in memory. */
static void fetch(const lucid_walk *w, const lucid_operand *o, const char *from, ptrdiff_t stride,
                  size_t n, char *to) {
    lucid_unpack unpack = w->kernels->unpack[o->type];
    int is_double = o->type == LUCID_FLOAT64;
    if (is_double == (w->size == 8)) {
        unpack(from, stride, n, o->swap, to);
        return;
    }
    double buffer[128];
    for (size_t i = 0; i < n; i += 128) {
        size_t some = least(n - i, 128);
        unpack(from + (ptrdiff_t)i * stride, stride, some, o->swap, buffer);
        for (size_t k = 0; k < some; k++) {
            if (is_double) ((float *)to)[i + k] = (float)buffer[k];
            else ((double *)to)[i + k] = (double)((float *)buffer)[k];
        }
    }
}

typedef struct {
    size_t rows, n;
    ptrdiff_t row[LUCID_OPERANDS], column[LUCID_OPERANDS]; /* strides, bytes */
    char *at[LUCID_OPERANDS];
} region;

static void bind(const lucid_walk *w, const lucid_pass *p, lucid_tile *t,
                 char *const at[LUCID_OPERANDS], const ptrdiff_t step[LUCID_OPERANDS]) {
    ptrdiff_t size = (ptrdiff_t)w->size;
    t->stream = w->stream;
    for (int k = 0; k < 3; k++) {
        int i = p->input[k];
        t->ahead[k] = 0;
        t->in[k] = i < 0 ? NULL : at[i];
        t->in_step[k] = i < 0 ? 0 : step[i] / size;
    }
    for (int k = 0; k < 2; k++) {
        int i = p->output[k];
        t->out[k] = i < 0 ? NULL : at[i];
        t->out_step[k] = i < 0 ? 0 : step[i] / size;
    }
}

static int used(const lucid_pass *p, int operand) {
    for (int k = 0; k < 3; k++)
        if (p->input[k] == operand) return 1;
    return p->output[0] == operand || p->output[1] == operand;
}

/* A sub-tile through buffers; `row` and `column` say where it begins. */
static void through_buffers(const lucid_walk *w, const lucid_pass *p, const region *g, size_t row,
                            size_t column, size_t rows, size_t n) {
    double buffer[LUCID_OPERANDS][TILE];
    char *at[LUCID_OPERANDS], *place[LUCID_OPERANDS];
    ptrdiff_t step[LUCID_OPERANDS];
    lucid_tile t;
    t.rows = rows;
    t.n = n;
    for (int k = 0; k < w->operands; k++) {
        const lucid_operand *o = &w->operand[k];
        if (!used(p, k)) continue;
        place[k] = g->at[k] + (ptrdiff_t)row * g->row[k] + (ptrdiff_t)column * g->column[k];
        at[k] = o->direct ? place[k] : (char *)buffer[k];
        step[k] = o->direct ? g->row[k] : (ptrdiff_t)(n * w->size);
        if (o->direct || k >= w->inputs) continue;
        for (size_t r = 0; r < rows; r++)
            fetch(w, o, place[k] + (ptrdiff_t)r * g->row[k], g->column[k], n,
                  at[k] + (ptrdiff_t)r * step[k]);
    }
    bind(w, p, &t, at, step);
    visit(w, p, &t, w->cols ? column : row);
    for (int k = w->inputs; k < w->operands; k++)
        if (used(p, k) && !w->operand[k].direct)
            for (size_t r = 0; r < rows; r++)
                w->kernels->pack[w->operand[k].type](at[k] + (ptrdiff_t)r * step[k],
                                                     place[k] + (ptrdiff_t)r * g->row[k],
                                                     g->column[k], n);
}

static void in_sub_tiles(const lucid_walk *w, const lucid_pass *p, const region *g) {
    const size_t unit = LUCID_CHAIN * LUCID_LANES;
    size_t n = least(g->n, unit);
    if (!w->cols && g->rows < TILE / unit && g->n > unit)
        n = least(g->n, TILE / g->rows / unit * unit);
    size_t rows = TILE / n;
    if (w->cols) rows = rows / LUCID_CHAIN * LUCID_CHAIN;
    for (size_t r = 0; r < g->rows; r += rows)
        for (size_t c = 0; c < g->n; c += n)
            through_buffers(w, p, g, r, c, least(rows, g->rows - r), least(n, g->n - c));
}

/* ---- The walk ---- */

static const lucid_channel_entries *narrow_entries(const lucid_walk *w) {
    return w->size == 4 ? &w->kernels->channel_f32 : &w->kernels->channel_f64;
}

int lucid_walk_fuses(const lucid_walk *w, const lucid_pass *affine, const lucid_pass *sums) {
    int direct = 1;
    for (int k = 0; k < w->operands; k++)
        if (!w->operand[k].direct) direct = 0;
    return direct && !w->cols && w->stream && affine->order == sums->order &&
           narrow_entries(w)->fused_rows[affine->order] && affine->output[0] >= 0 &&
           least(w->length, w->chunk) * w->size >= 64 &&
           (w->length % w->chunk == 0 || w->length % w->chunk * w->size >= 64);
}

/* The piece after this one, in most cases: the processor's own prefetching stops at page ends and
 * does not know where the next row begins. */
static void look_ahead(const lucid_walk *w, const lucid_pass *p, lucid_tile *t, int back) {
    if (w->cols || w->pieces == 1) return;
    for (int k = 0; k < 3 && t->in[k]; k++) {
        const lucid_operand *o = &w->operand[p->input[k]];
        ptrdiff_t step =
            w->chunks > 1 ? (ptrdiff_t)w->chunk : o->outer[w->outers - 1] / (ptrdiff_t)w->size;
        t->ahead[k] = back ? -step : step;
    }
}

static void fused(const lucid_walk *w, const lucid_pass *p, const lucid_tile *tile, const region *g,
                  int back) {
    char *at[LUCID_OPERANDS];
    lucid_tile next;
    for (int k = 0; k < w->operands; k++)
        at[k] = g->at[k] + (ptrdiff_t)p->ahead * w->operand[k].channel;
    bind(w, p->next, &next, at, g->row);
    next.rows = p->next_channels;
    next.n = g->n;
    look_ahead(w, p->next, &next, back);
    narrow_entries(w)->fused_rows[p->order](tile, p->narrow, p->pitch, &next, p->next->narrow,
                                            p->next->sums);
}

static void piece(const lucid_walk *w, const lucid_pass *p, size_t first, size_t n, size_t index,
                  size_t limit, int back) {
    region g = {0};
    size_t outer = index / w->chunks, at = index % w->chunks * w->chunk;
    size_t length = least(least(w->length - at, w->chunk), limit);
    ptrdiff_t position[LUCID_MAX_NDIM];
    for (int i = w->outers - 1; i > 0; i--) {
        position[i] = (ptrdiff_t)(outer % w->outer_length[i]);
        outer /= w->outer_length[i];
    }
    position[0] = (ptrdiff_t)outer;
    g.rows = w->cols ? length : n;
    g.n = w->cols ? n : length;
    int direct = 1;
    for (int k = 0; k < w->operands; k++) {
        const lucid_operand *o = &w->operand[k];
        g.at[k] = o->base + (ptrdiff_t)first * o->channel + (ptrdiff_t)at * o->inner;
        for (int i = 0; i < w->outers; i++)
            g.at[k] += position[i] * o->outer[i];
        g.row[k] = w->cols ? o->inner : o->channel;
        g.column[k] = w->cols ? o->channel : o->inner;
        if (!o->direct && used(p, k)) direct = 0;
    }
    if (!direct) {
        in_sub_tiles(w, p, &g);
        return;
    }
    lucid_tile t;
    t.rows = g.rows;
    t.n = g.n;
    bind(w, p, &t, g.at, g.row);
    if (p->next) {
        fused(w, p, &t, &g, back);
        return;
    }
    if (p->kind == LUCID_SUM) look_ahead(w, p, &t, back);
    for (int k = 0; k < 3 && p->ahead; k++)
        if (t.in[k])
            t.ahead[k] = (ptrdiff_t)p->ahead * w->operand[p->input[k]].channel / (ptrdiff_t)w->size;
    visit(w, p, &t, 0);
}

void lucid_walk_run(const lucid_walk *w, const lucid_pass *p, size_t first, size_t n, size_t from,
                    size_t to, size_t limit) {
    for (size_t i = from; i < to; i++)
        piece(w, p, first, n, i, limit, 0);
    for (size_t i = from; i > to; i--)
        piece(w, p, first, n, i - 1, limit, 1);
    if (w->stream && p->kind == LUCID_AFFINE) LUCID_STREAM_END();
}

/* ---- Vectors ---- */

/* Of any alignment; compilers vectorise them where the stride is a constant. */
static inline void read_floats(const char *restrict from, ptrdiff_t stride, size_t n,
                               double *restrict to) {
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, from + (ptrdiff_t)i * stride, 4);
        to[i] = f;
    }
}

static inline void write_floats(char *restrict to, ptrdiff_t stride, size_t n,
                                const double *restrict from) {
    for (size_t i = 0; i < n; i++) {
        float f = (float)from[i];
        memcpy(to + (ptrdiff_t)i * stride, &f, 4);
    }
}

void lucid_vector_read(const lucid_kernels *kernels, lucid_vector v, size_t n, double absent,
                       double *out) {
    if (!v.data) {
        for (size_t i = 0; i < n; i++)
            out[i] = absent;
        return;
    }
    if (v.type == LUCID_FLOAT64) {
        kernels->unpack[v.type](v.data, v.stride, n, v.swap, out);
        return;
    }
    if (v.type == LUCID_FLOAT32 && !v.swap) {
        if (v.stride == 4) read_floats(v.data, 4, n, out);
        else read_floats(v.data, v.stride, n, out);
        return;
    }
    float buffer[64];
    for (size_t i = 0; i < n; i += 64) {
        size_t some = least(n - i, 64);
        kernels->unpack[v.type](v.data + (ptrdiff_t)i * v.stride, v.stride, some, v.swap, buffer);
        for (size_t k = 0; k < some; k++)
            out[i + k] = buffer[k];
    }
}

static void put(char *to, lucid_type type, int swap, double value) {
    uint64_t b = 0;
    float f = (float)value;
    size_t size = item_size[type];
    uint16_t half;
    if (type == LUCID_FLOAT64) {
        memcpy(to, &value, 8);
    } else if (type == LUCID_FLOAT32) {
        memcpy(to, &f, 4);
    } else {
        half = type == LUCID_FLOAT16 ? lucid_double_to_half(value) : lucid_double_to_bfloat(value);
        memcpy(to, &half, 2);
    }
    if (!swap) return;
    memcpy(&b, to, size);
    for (size_t i = 0; i < size; i++)
        to[i] = ((char *)&b)[size - 1 - i];
}

void lucid_vector_write(lucid_vector v, size_t n, const double *values) {
    if (v.type == LUCID_FLOAT32 && !v.swap) {
        if (v.stride == 4) write_floats(v.data, 4, n, values);
        else write_floats(v.data, v.stride, n, values);
        return;
    }
    for (size_t i = 0; i < n; i++)
        put(v.data + (ptrdiff_t)i * v.stride, v.type, v.swap, values[i]);
}
