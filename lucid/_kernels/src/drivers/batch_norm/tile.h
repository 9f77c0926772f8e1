/* One tile of a pass: which entries are called, on which of its channels, and whether its outputs
 * go by way of a stage. */
#ifndef LUCID_BATCH_NORM_TILE_H
#define LUCID_BATCH_NORM_TILE_H

#include "walk.h"

/* Those that compute in the element's own type. */
static inline const lucid_channel_entries *narrow_entries(const lucid_walk *w) {
    return w->size == 4 ? &w->kernels->channel_f32 : &w->kernels->channel_f64;
}

/* `channel` is the tile's first, counted from the walk's first. */
void lucid_tile_visit(const lucid_walk *w, const lucid_pass *p, const lucid_tile *t,
                      size_t channel);

#endif
