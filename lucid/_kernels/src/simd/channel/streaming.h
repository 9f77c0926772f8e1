/* Channel affine of rows past the cache. Full lines are stored whole: the end of a row waits in
 * `line` for the beginning of the next if that follows in memory. Each row begins where the first
 * output's does in its line: lucid_tile_alike; n >= LINE. */

INLINE void NAME(put)(TYPE *p, vw v, const int past) {
    if (past && STREAMS) {
        vf f;
        memcpy(&f, &v, sizeof f);
        vf_stream((float *)(void *)p, f);
    } else {
        STORE(p, v);
    }
}

/* One line's worth of elements, to memory past the cache or to the line buffers. */
INLINE void NAME(affine_line)(const TYPE *x, const TYPE *g, const TYPE *v, TYPE *y, TYPE *z,
                              const vw *w, const int order, const int which, const int past) {
    EACH(j, LINE_VECTORS) {
        vw a = LOAD(x + j * VW), b = order > 0 ? LOAD(g + j * VW) : a;
        vw c = order > 1 ? LOAD(v + j * VW) : a;
        (void)c;
        if (which & 1) NAME(put)(y + j * VW, FIRST(a, b, c, w, order), past);
        if (which & 2) NAME(put)(z + j * VW, SECOND(a, b, c, w), past);
    }
}

INLINE void NAME(line_out)(TYPE *to, const TYPE *line) {
    EACH(j, LINE_VECTORS) NAME(put)(to + j * VW, LOAD(line + j * VW), 1);
}

/* Meanwhile, if `next`, the sums of its rows, as many as there are in `tile` or fewer, as long. */
INLINE void NAME(stream_rows)(const lucid_tile *tile, const WORK *q, size_t pitch, const int order,
                              const int which, const lucid_tile *next, const double *shift,
                              double *sums) {
    const TYPE *nx = next ? next->in[0] : NULL, *ng = next && order > 0 ? next->in[1] : nx;
    const TYPE *x = tile->in[0], *g = order > 0 ? tile->in[1] : x, *v = order > 1 ? tile->in[2] : x;
    TYPE *y = which & 1 ? tile->out[0] : tile->out[1], *z = tile->out[1];
    TYPE lines[2][3 * LINE] __attribute__((aligned(64)));
    TYPE *yl = lines[0] + LINE, *zl = lines[1] + LINE;
    const ptrdiff_t n = (ptrdiff_t)tile->n, ys = tile->out_step[which & 1 ? 0 : 1];
    const ptrdiff_t zs = tile->out_step[1];
    const int dense = ys == n && (which != 3 || zs == n);
    const int one = which == 2 ? 2 : 1; /* y is the only or the first output */
    for (size_t r = 0; r < tile->rows; r++) {
        vw w[8];
        EACH(k, COEFFICIENTS(order)) w[k] = SET(q[k * pitch + r]);
        ptrdiff_t i = 0, done = 0, phase = (ptrdiff_t)((uintptr_t)y % 64 / sizeof *y);
        const int with = next && r < next->rows;
        vd s[ND][LUCID_TERMS], shifts = vd_set(with ? shift[r] : 0);
        if (with) NAME(sums_load)(s, sums, order);
        if (phase) {
            i = LINE - phase;
            if (one == 2) NAME(affine_line)(x, g, v, NULL, yl + phase, w, order, 2, 0);
            else NAME(affine_line)(x, g, v, yl + phase, zl + phase, w, order, which, 0);
            if (r > 0 && dense) {
                NAME(line_out)(y - phase, yl);
                if (which == 3) NAME(line_out)(z - phase, zl);
            } else {
                memcpy(y, yl + phase, (size_t)i * sizeof *y);
                if (which == 3) memcpy(z, zl + phase, (size_t)i * sizeof *z);
            }
        }
        for (; with && i + CHUNK <= n; i += CHUNK, done += CHUNK) {
            EACH(k, CHUNK / LINE)
            NAME(affine_line)(x + i + k * LINE, g + i + k * LINE, v + i + k * LINE,
                              y + i + k * LINE, z, w, order, 1, 1);
            NAME(fetch)(next, r, nx, ng, ng, done, CHUNK, order);
            NAME(sum_chunk)(nx + done, ng + done, ng + done, shifts, s, order);
        }
        for (; i + LINE <= n; i += LINE) {
            EACH(k, order + 1)
            if (tile->ahead[k])
                __builtin_prefetch((k == 0 ? x : k == 1 ? g : v) + i + tile->ahead[k], 0, 2);
            if (one == 2) NAME(affine_line)(x + i, g + i, v + i, NULL, y + i, w, order, 2, 1);
            else NAME(affine_line)(x + i, g + i, v + i, y + i, z + i, w, order, which, 1);
        }
        if (i < n) {
            ptrdiff_t rest = n - i, from = n - LINE, at = rest - LINE;
            if (one == 2)
                NAME(affine_line)(x + from, g + from, v + from, NULL, yl + at, w, order, 2, 0);
            else
                NAME(affine_line)(x + from, g + from, v + from, yl + at, zl + at, w, order, which,
                                  0);
            if (!dense || r + 1 == tile->rows) {
                memcpy(y + i, yl, (size_t)rest * sizeof *y);
                if (which == 3) memcpy(z + i, zl, (size_t)rest * sizeof *z);
            }
        }
        if (with) {
            NAME(fetch)(next, r, nx, ng, ng, done, n - done, order);
            NAME(sum_rest)(nx, ng, ng, (size_t)done, (size_t)n, shifts, s, order);
            NAME(sums_store)(sums, s, order);
            sums += TERMS(order) * LUCID_LANES;
            nx += next->in_step[0];
            ng += next->in_step[order > 0 ? 1 : 0];
        }
        x += tile->in_step[0];
        g += tile->in_step[order > 0 ? 1 : 0];
        v += tile->in_step[order > 1 ? 2 : 0];
        y += ys;
        if (which == 3) z += zs;
    }
}

INLINE int NAME(can_stream)(const lucid_tile *tile, const int which) {
    if (!STREAMS || !tile->stream || tile->n < (size_t)LINE) return 0;
    return which != 3 || lucid_tile_alike(tile, sizeof(TYPE));
}
