#include "tile.h"

#include <stdint.h>

#define STAGE 4096 /* bytes of an output gathered in L1, so that full lines leave */

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

/* Does the entry send whole lines past the cache? Rows do if they are longer than a line and those
 * of two outputs lie alike, columns if all begin at a line. */
static int streams_itself(const lucid_walk *w, const lucid_tile *t, int wide) {
    if (wide) return 0;
    if (!w->cols)
        return t->n * w->size >= 64 && (!t->out[0] || !t->out[1] || lucid_tile_alike(t, w->size));
    uintptr_t bits = 0;
    for (int k = 0; k < 2; k++)
        if (t->out[k]) bits |= (uintptr_t)t->out[k] | (uintptr_t)t->out_step[k] * w->size;
    return bits % 64 == 0;
}

static void call(const lucid_walk *w, const lucid_pass *p, const lucid_tile *tile, size_t channel,
                 int wide) {
    const lucid_channel_entries *e = narrow_entries(w);
    if (p->kind == LUCID_AFFINE) {
        if (wide) e = &w->kernels->channel_wide;
        size_t work = wide ? 8 : w->size;
        const char *of_channel = (const char *)(wide ? (const void *)p->wide : p->narrow);
        of_channel += channel * work;
        lucid_channel_affine affine = (w->cols ? e->affine_cols : e->affine_rows)[p->order];
        if (tile->stream && !streams_itself(w, tile, wide))
            affine_streaming(w, affine, tile, of_channel, p->pitch, work);
        else affine(tile, of_channel, p->pitch);
        return;
    }
    double *sums = p->sums + channel * (w->cols ? 1 : lucid_terms(p->order) * LUCID_LANES);
    (w->cols ? e->sums_cols : e->sums_rows)[p->order](tile, p->wide + channel, sums, p->pitch);
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

void lucid_tile_visit(const lucid_walk *w, const lucid_pass *p, const lucid_tile *t,
                      size_t channel) {
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
