/* Blocks: parts of channels that are too large for the cache or too few for the threads. */
#include "schedule.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "platform/parallel.h"
#include "range.h"

#define BLOCKS 16 /* most parts that channels are split into */
#define BLOCK_ELEMENTS 32768

typedef struct {
    const job *j;
    const range *r;
    size_t blocks, width, tiles;
    double *partials; /* [block][term][channel] */
    int only_flagged;
    atomic_int failed; /* memory ran out */
} blocks;

static void block_range(const blocks *b, size_t index, size_t *at, size_t *n, size_t *from,
                        size_t *to) {
    size_t block = index / b->tiles, pieces = b->j->walk.pieces;
    *at = index % b->tiles * b->width;
    *n = least(b->width, b->r->n - *at);
    *from = pieces * block / b->blocks;
    *to = pieces * (block + 1) / b->blocks;
}

/* A pass of a task, with scratch for n channels. */
static void with_scratch(blocks *b, size_t n, void (*pass)(blocks *, size_t, const scratch *),
                         size_t index) {
    _Alignas(64) char small[SMALL_TASK];
    char *heap = NULL;
    size_t bytes = lucid_scratch_bytes(b->j, n);
    if (bytes > sizeof small) {
        heap = malloc(bytes);
        if (!heap) {
            atomic_store(&b->failed, 1);
            return;
        }
    }
    scratch s = lucid_scratch_at(b->j, n, heap ? heap : small);
    pass(b, index, &s);
    free(heap);
}

static void reduce(blocks *b, size_t index, const scratch *s) {
    const job *j = b->j;
    size_t at, n, from, to, terms = lucid_terms(j->sum.order);
    block_range(b, index, &at, &n, &from, &to);
    double *partial = b->partials + index / b->tiles * terms * b->r->n;
    lucid_pass p = lucid_range_sums(j, b->r, at, n, b->only_flagged, s);
    lucid_walk_run(&j->walk, &p, at, n, from, to, SIZE_MAX);
    lucid_range_fold(j, b->r, at, n, b->only_flagged, s, partial + at, b->r->n);
}

/* The last read are the first in cache. */
static void combine(blocks *b, size_t index, const scratch *s) {
    size_t at, n, from, to;
    block_range(b, b->blocks * b->tiles - 1 - index, &at, &n, &from, &to);
    lucid_pass p = lucid_range_affine(b->j, b->r, at, n, s);
    if (p.output[0] >= 0 || p.output[1] >= 0)
        lucid_walk_run(&b->j->walk, &p, at, n, to, from, SIZE_MAX);
}

static void shift(blocks *b, size_t index, const scratch *s) {
    (void)index;
    lucid_range_shift(b->j, b->r, s);
}

static void reduce_block(void *context, size_t index) {
    blocks *b = context;
    with_scratch(b, b->width, reduce, index);
}

static void combine_block(void *context, size_t index) {
    with_scratch(context, 0, combine, index);
}

static void reduce_blocks(blocks *b, size_t elements) {
    const range *r = b->r;
    size_t planes = lucid_terms(b->j->sum.order) * r->n;
    lucid_parallel(b->blocks * b->tiles, elements, reduce_block, b);
    for (size_t i = 0; i < planes; i++) {
        if (b->only_flagged && !r->flags[i % r->n]) continue;
        double total = 0;
        for (size_t k = 0; k < b->blocks; k++)
            total += b->partials[k * planes + i];
        r->totals[i] = total;
    }
}

int lucid_run_blocks(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t c = w->channels, elements = w->count * c, terms = lucid_terms(j->sum.order);
    blocks b = {.j = j, .width = lucid_range_limit(j)};
    b.blocks = least(least(BLOCKS, w->pieces), 1 + elements / BLOCK_ELEMENTS);
    b.tiles = (c + b.width - 1) / b.width;
    atomic_init(&b.failed, 0);
    size_t own = lucid_range_bytes(j, c);
    char *memory = malloc(own + b.blocks * terms * c * sizeof *b.partials);
    if (!memory) return -1;
    range r = lucid_range_at(j, 0, c, memory);
    b.partials = (double *)(memory + own);
    b.r = &r;
    if (j->reduces) {
        with_scratch(&b, 0, shift, 0);
        reduce_blocks(&b, elements);
    }
    if (lucid_range_solve(j, &r, 0)) {
        b.only_flagged = 1;
        reduce_blocks(&b, elements);
        lucid_range_solve(j, &r, 1);
    }
    lucid_parallel(b.blocks * b.tiles, elements, combine_block, &b);
    free(memory);
    return atomic_load(&b.failed) ? -1 : 0;
}
