/* Channel affine. */

/* n elements of one row, where q are its coefficients; `which` is a mask of the outputs. A
 * remainder of less than a vector is computed again with the elements before it. */
INLINE void NAME(affine_row)(const TYPE *x, const TYPE *g, const TYPE *v, TYPE *y, TYPE *z,
                             size_t n, const WORK *q, const int order, const int which) {
    if (n < (size_t)VW) {
        for (size_t i = 0; i < n; i++) {
            WORK a = (WORK)x[i], b = (WORK)g[i], c = (WORK)v[i];
            (void)c;
            if (which & 1) y[i] = (TYPE)(FIRST(a, b, c, q, order));
            if (which & 2) z[i] = (TYPE)(SECOND(a, b, c, q));
        }
        return;
    }
    vw w[8];
    EACH(k, COEFFICIENTS(order)) w[k] = SET(q[k]);
    for (size_t i = 0;; i += VW) {
        if (i + VW > n) {
            if (i == n) break;
            i = n - VW;
        }
        vw a = LOAD(x + i), b = order > 0 ? LOAD(g + i) : a, c = order > 1 ? LOAD(v + i) : a;
        (void)c;
        if (which & 1) STORE(y + i, FIRST(a, b, c, w, order));
        if (which & 2) STORE(z + i, SECOND(a, b, c, w));
    }
}

INLINE void NAME(channel_affine_rows)(const lucid_tile *tile, const WORK *q, size_t pitch,
                                      const int order, const int which) {
    const TYPE *x = tile->in[0], *g = order > 0 ? tile->in[1] : x, *v = order > 1 ? tile->in[2] : x;
    TYPE *y = tile->out[0], *z = tile->out[1];
    if (NAME(can_stream)(tile, which)) {
        NAME(stream_rows)(tile, q, pitch, order, which, NULL, NULL, NULL);
        return;
    }
    for (size_t r = 0; r < tile->rows; r++) {
        WORK c[8];
        EACH(k, COEFFICIENTS(order)) c[k] = q[k * pitch + r];
        NAME(affine_row)(x, g, v, y, z, tile->n, c, order, which);
        x += tile->in_step[0];
        g += tile->in_step[order > 0 ? 1 : 0];
        v += tile->in_step[order > 1 ? 2 : 0];
        if (which & 1) y += tile->out_step[0];
        if (which & 2) z += tile->out_step[1];
    }
}

/* A row of columns. (Rows taken together would share the loads of their coefficients, but walk
 * several pages at once: in cache that took half as long again.) */
INLINE void NAME(affine_columns)(const lucid_tile *tile, size_t row, const WORK *q, size_t pitch,
                                 const int order, const int which, const int past) {
    const ptrdiff_t at = (ptrdiff_t)row;
    const TYPE *x = (const TYPE *)tile->in[0] + at * tile->in_step[0];
    const TYPE *g = order > 0 ? (const TYPE *)tile->in[1] + at * tile->in_step[1] : x;
    const TYPE *v = order > 1 ? (const TYPE *)tile->in[2] + at * tile->in_step[2] : x;
    TYPE *y = which & 1 ? (TYPE *)tile->out[0] + at * tile->out_step[0] : NULL;
    TYPE *z = which & 2 ? (TYPE *)tile->out[1] + at * tile->out_step[1] : NULL;
    size_t n = tile->n, i = 0;
    for (; i + VW <= n; i += VW) {
        vw w[8];
        EACH(k, COEFFICIENTS(order)) w[k] = NAME(load_work)(q + k * pitch + i);
        vw a = LOAD(x + i), b = order > 0 ? LOAD(g + i) : a, c = order > 1 ? LOAD(v + i) : a;
        (void)c;
        if (which & 1) NAME(put)(y + i, FIRST(a, b, c, w, order), past);
        if (which & 2) NAME(put)(z + i, SECOND(a, b, c, w), past);
    }
    for (; i < n; i++) {
        WORK w[8], a = (WORK)x[i], b = (WORK)g[i], c = (WORK)v[i];
        (void)c;
        EACH(k, COEFFICIENTS(order)) w[k] = q[k * pitch + i];
        if (which & 1) y[i] = (TYPE)(FIRST(a, b, c, w, order));
        if (which & 2) z[i] = (TYPE)(SECOND(a, b, c, w));
    }
}

/* Does every row of the outputs begin at a line? */
INLINE int NAME(aligned)(const lucid_tile *tile) {
    uintptr_t bits = 0;
    for (int k = 0; k < 2; k++)
        if (tile->out[k])
            bits |= (uintptr_t)tile->out[k] | (uintptr_t)tile->out_step[k] * sizeof(TYPE);
    return bits % 64 == 0;
}

INLINE void NAME(affine_all_columns)(const lucid_tile *tile, const WORK *q, size_t pitch,
                                     const int order, const int which, const int past) {
    for (size_t r = 0; r < tile->rows; r++)
        NAME(affine_columns)(tile, r, q, pitch, order, which, past);
}

INLINE void NAME(channel_affine_cols)(const lucid_tile *tile, const WORK *q, size_t pitch,
                                      const int order, const int which) {
    if (NAME(can_stream)(tile, 1) && NAME(aligned)(tile))
        NAME(affine_all_columns)(tile, q, pitch, order, which, 1);
    else NAME(affine_all_columns)(tile, q, pitch, order, which, 0);
}
