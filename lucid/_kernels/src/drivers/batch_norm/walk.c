#include "walk.h"

#include "tile.h"

#define TILE 2048          /* elements of an operand unpacked at once */
#define CHUNK 16384        /* elements of a piece of one row */
#define COLUMN_CHUNK 65536 /* elements of a piece of columns */

#define STREAM_BYTES 4194304 /* smaller outputs stay in cache for whoever reads them next */

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
    o->direct = a->aligned && !a->swap && lucid_item_size(a->type) == w->size &&
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
    w->tile = 0;
    for (int k = 0; k < w->operands; k++)
        if (!w->operand[k].direct) w->tile = least(TILE, least(w->length, w->chunk) * w->channels);
}

size_t lucid_walk_buffers(const lucid_walk *w) {
    return w->tile * w->size * (size_t)w->operands;
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
    char *at[LUCID_OPERANDS], *place[LUCID_OPERANDS];
    ptrdiff_t step[LUCID_OPERANDS];
    lucid_tile t;
    t.rows = rows;
    t.n = n;
    for (int k = 0; k < w->operands; k++) {
        const lucid_operand *o = &w->operand[k];
        if (!used(p, k)) continue;
        place[k] = g->at[k] + (ptrdiff_t)row * g->row[k] + (ptrdiff_t)column * g->column[k];
        at[k] = o->direct ? place[k] : p->buffers + (size_t)k * w->tile * w->size;
        step[k] = o->direct ? g->row[k] : (ptrdiff_t)(n * w->size);
        if (o->direct || k >= w->inputs) continue;
        for (size_t r = 0; r < rows; r++)
            fetch(w, o, place[k] + (ptrdiff_t)r * g->row[k], g->column[k], n,
                  at[k] + (ptrdiff_t)r * step[k]);
    }
    bind(w, p, &t, at, step);
    for (int k = 0; k < 2; k++) /* a buffer is read again at once */
        if (p->output[k] >= 0 && !w->operand[p->output[k]].direct) t.stream = 0;
    lucid_tile_visit(w, p, &t, w->cols ? column : row);
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
    narrow_entries(w)->fused_rows[p->order](tile, p->narrow, p->pitch, &next, p->next->wide,
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
    lucid_tile_visit(w, p, &t, 0);
}

void lucid_walk_run(const lucid_walk *w, const lucid_pass *p, size_t first, size_t n, size_t from,
                    size_t to, size_t limit) {
    for (size_t i = from; i < to; i++)
        piece(w, p, first, n, i, limit, 0);
    for (size_t i = from; i > to; i--)
        piece(w, p, first, n, i - 1, limit, 1);
    if (w->stream && p->kind == LUCID_AFFINE) LUCID_STREAM_END();
}
