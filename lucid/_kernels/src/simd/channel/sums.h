/* Channel sums: a chunk of each row at a time, or strips of LUCID_CHAIN rows of columns. */

INLINE void NAME(sum_step)(const TYPE *x, const TYPE *g, const TYPE *v, vw k, vw (*u)[LUCID_TERMS],
                           const int order) {
    EACH(j, NV) {
        vw d = LOAD(x + j * VW) - k;
        vw a = order > 0 ? LOAD(g + j * VW) : d, b = order > 1 ? LOAD(v + j * VW) : d;
        ADD_TERMS(u[j], d, a, b, order);
    }
}

static const BITS NAME(last)[2 * LUCID_LANES] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                                 0,  0,  0,  0,  0,  -1, -1, -1, -1, -1, -1,
                                                 -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* The same for the last `keep` of LUCID_LANES elements alone. */
INLINE void NAME(sum_last)(const TYPE *x, const TYPE *g, const TYPE *v, size_t keep, vw k,
                           vw (*u)[LUCID_TERMS], const int order) {
    EACH(j, NV) {
        vb mask;
        memcpy(&mask, NAME(last) + keep + j * VW, sizeof mask);
        vw d = (vw)((vb)(LOAD(x + j * VW) - k) & mask);
        vw a = order > 0 ? (vw)((vb)LOAD(g + j * VW) & mask) : d;
        vw b = order > 1 ? (vw)((vb)LOAD(v + j * VW) & mask) : d;
        ADD_TERMS(u[j], d, a, b, order);
    }
}

INLINE void NAME(clear)(vw (*u)[LUCID_TERMS], const int order) {
    EACH(j, NV) EACH(t, TERMS(order)) u[j][t] = (vw){0};
}

INLINE void NAME(promote_all)(vd (*s)[ND], vw (*u)[LUCID_TERMS], const int order) {
    EACH(t, TERMS(order)) EACH(j, NV) NAME(promote)(s[t] + j * DOUBLES, u[j][t]);
}

INLINE void NAME(exact_step)(const TYPE *x, const TYPE *g, vd k, vd (*s)[ND]) {
    EACH(j, ND) {
        vd a = vd_widen((const float *)g + j * VD);
        s[0][j] += a;
        s[1][j] += a * (vd_widen((const float *)x + j * VD) - k);
    }
}

/* The same for the last `keep` of LUCID_LANES elements alone. */
INLINE void NAME(exact_last)(const TYPE *x, const TYPE *g, size_t keep, vw k, vd (*s)[ND]) {
    TYPE ends[2][LUCID_LANES];
    EACH(j, NV) {
        vb mask;
        memcpy(&mask, NAME(last) + keep + j * VW, sizeof mask);
        STORE(ends[0] + j * VW, (vw)(((vb)LOAD(x + j * VW) & mask) | ((vb)k & ~mask)));
        STORE(ends[1] + j * VW, (vw)((vb)LOAD(g + j * VW) & mask));
    }
    NAME(exact_step)(ends[0], ends[1], vd_set((double)k[0]), s);
}

INLINE void NAME(sum_chunk)(const TYPE *x, const TYPE *g, const TYPE *v, vw k, vd (*s)[ND],
                            const int order) {
    vw u[NV][LUCID_TERMS];
    if (EXACT(order)) {
        EACH(c, LUCID_CHAIN)
        NAME(exact_step)(x + c * LUCID_LANES, g + c * LUCID_LANES, vd_set((double)k[0]), s);
        return;
    }
    NAME(clear)(u, order);
    EACH(c, LUCID_CHAIN)
    NAME(sum_step)(x + c * LUCID_LANES, g + c * LUCID_LANES, v + c * LUCID_LANES, k, u, order);
    NAME(promote_all)(s, u, order);
}

/* Elements [i, n) of a row. A remainder is read again from LUCID_LANES elements before its end,
 * masked; a row that is shorter is copied to the end of a buffer first. */
INLINE void NAME(sum_rest)(const TYPE *x, const TYPE *g, const TYPE *v, size_t i, size_t n, vw k,
                           vd (*s)[ND], const int order) {
    vw u[NV][LUCID_TERMS];
    size_t rest = n % LUCID_LANES;
    for (; i + CHUNK <= n; i += CHUNK)
        NAME(sum_chunk)(x + i, g + i, v + i, k, s, order);
    if (i == n) return;
    NAME(clear)(u, order);
    for (; i + LUCID_LANES <= n; i += LUCID_LANES) {
        if (EXACT(order)) NAME(exact_step)(x + i, g + i, vd_set((double)k[0]), s);
        else NAME(sum_step)(x + i, g + i, v + i, k, u, order);
    }
    if (rest && n >= LUCID_LANES) {
        i = n - LUCID_LANES;
        if (EXACT(order)) NAME(exact_last)(x + i, g + i, rest, k, s);
        else NAME(sum_last)(x + i, g + i, v + i, rest, k, u, order);
    } else if (rest) {
        TYPE ends[3][LUCID_LANES] = {{0}};
        memcpy(ends[0] + LUCID_LANES - n, x, n * sizeof *x);
        if (order > 0) memcpy(ends[1] + LUCID_LANES - n, g, n * sizeof *g);
        if (order > 1) memcpy(ends[2] + LUCID_LANES - n, v, n * sizeof *v);
        if (EXACT(order)) NAME(exact_last)(ends[0], ends[1], rest, k, s);
        else NAME(sum_last)(ends[0], ends[1], ends[2], rest, k, u, order);
    }
    if (!EXACT(order)) NAME(promote_all)(s, u, order);
}

/* Ask for what follows elements [i, i + n) of row r later: elements of the same row as far as LEAD
 * ahead, then those of the row that is summed next. */
INLINE void NAME(fetch)(const lucid_tile *tile, size_t r, const TYPE *x, const TYPE *g,
                        const TYPE *v, ptrdiff_t i, ptrdiff_t n, const int order) {
    if (!tile->ahead[0]) return;
    const ptrdiff_t length = (ptrdiff_t)tile->n, lead = length < LEAD ? length : LEAD;
    const TYPE *at[3] = {x, g, v};
    ptrdiff_t next[3];
    EACH(k, order + 1) {
        ptrdiff_t step = tile->in_step[k];
        if (length == lead) next[k] = tile->ahead[k];
        else if (r + 1 < tile->rows) next[k] = step;
        else next[k] = tile->ahead[k] - (ptrdiff_t)r * step;
    }
    _Pragma("GCC unroll 8") for (ptrdiff_t q = i + lead; q < i + lead + n; q += LINE)
        EACH(k, order + 1)
            __builtin_prefetch(at[k] + (q < length ? q : q - length + next[k]), 0, 3);
}

INLINE void NAME(sums_load)(vd (*s)[ND], const double *sums, const int order) {
    EACH(t, TERMS(order)) EACH(j, ND) s[t][j] = vd_load(sums + t * LUCID_LANES + j * VD);
}

INLINE void NAME(sums_store)(double *sums, vd (*s)[ND], const int order) {
    EACH(t, TERMS(order)) EACH(j, ND) vd_store(sums + t * LUCID_LANES + j * VD, s[t][j]);
}

INLINE void NAME(channel_sum_rows)(const lucid_tile *tile, const WORK *shift, double *sums,
                                   const int order) {
    const TYPE *x = tile->in[0], *g = order > 0 ? tile->in[1] : x, *v = order > 1 ? tile->in[2] : x;
    for (size_t r = 0; r < tile->rows; r++, sums += TERMS(order) * LUCID_LANES) {
        vd s[LUCID_TERMS][ND];
        size_t i = 0;
        NAME(sums_load)(s, sums, order);
        for (; i + CHUNK <= tile->n; i += CHUNK) {
            NAME(fetch)(tile, r, x, g, v, (ptrdiff_t)i, CHUNK, order);
            NAME(sum_chunk)(x + i, g + i, v + i, SET(shift[r]), s, order);
        }
        NAME(fetch)(tile, r, x, g, v, (ptrdiff_t)i, (ptrdiff_t)(tile->n - i), order);
        NAME(sum_rest)(x, g, v, i, tile->n, SET(shift[r]), s, order);
        NAME(sums_store)(sums, s, order);
        x += tile->in_step[0];
        g += tile->in_step[order > 0 ? 1 : 0];
        v += tile->in_step[order > 1 ? 2 : 0];
    }
}

/* `rows` <= LUCID_CHAIN rows of columns. */
INLINE void NAME(channel_sum_strip)(const lucid_tile *tile, size_t first, const size_t rows,
                                    const WORK *shift, double *sums, size_t pitch,
                                    const int order) {
    const ptrdiff_t xs = tile->in_step[0], gs = tile->in_step[order > 0 ? 1 : 0],
                    vs = tile->in_step[order > 1 ? 2 : 0];
    const TYPE *x = (const TYPE *)tile->in[0] + (ptrdiff_t)first * xs;
    const TYPE *g = order > 0 ? (const TYPE *)tile->in[1] + (ptrdiff_t)first * gs : x;
    const TYPE *v = order > 1 ? (const TYPE *)tile->in[2] + (ptrdiff_t)first * vs : x;
    size_t n = tile->n, i = 0;
    for (; EXACT(order) && i + VD <= n; i += VD) {
        vd k = vd_widen((const float *)shift + i);
        vd a = vd_load(sums + i), b = vd_load(sums + pitch + i);
        if (rows == LUCID_CHAIN && i * sizeof *x % 64 == 0)
            _Pragma("GCC unroll 8") for (ptrdiff_t r = LUCID_CHAIN; r < 2 * LUCID_CHAIN; r++) {
                __builtin_prefetch(x + r * xs + i, 0, 3);
                __builtin_prefetch(g + r * gs + i, 0, 3);
            }
        _Pragma("GCC unroll 8") for (size_t r = 0; r < rows; r++) {
            vd c = vd_widen((const float *)(g + (ptrdiff_t)r * gs + i));
            a += c;
            b += c * (vd_widen((const float *)(x + (ptrdiff_t)r * xs + i)) - k);
        }
        vd_store(sums + i, a);
        vd_store(sums + pitch + i, b);
    }
    for (; !EXACT(order) && i + VW <= n; i += VW) {
        vw u[LUCID_TERMS], k = NAME(load_work)(shift + i);
        EACH(t, TERMS(order)) u[t] = (vw){0};
        if (rows == LUCID_CHAIN && i * sizeof *x % 64 == 0)
            _Pragma("GCC unroll 8") for (ptrdiff_t r = LUCID_CHAIN; r < 2 * LUCID_CHAIN; r++) {
                __builtin_prefetch(x + r * xs + i, 0, 3);
                if (order > 0) __builtin_prefetch(g + r * gs + i, 0, 3);
                if (order > 1) __builtin_prefetch(v + r * vs + i, 0, 3);
            }
        _Pragma("GCC unroll 8") for (size_t r = 0; r < rows; r++) {
            vw d = LOAD(x + (ptrdiff_t)r * xs + i) - k;
            vw a = order > 0 ? LOAD(g + (ptrdiff_t)r * gs + i) : d;
            vw b = order > 1 ? LOAD(v + (ptrdiff_t)r * vs + i) : d;
            ADD_TERMS(u, d, a, b, order);
        }
        EACH(t, TERMS(order)) {
            double *p = sums + t * pitch + i;
            vd s[DOUBLES];
            EACH(j, DOUBLES) s[j] = vd_load(p + j * VD);
            NAME(promote)(s, u[t]);
            EACH(j, DOUBLES) vd_store(p + j * VD, s[j]);
        }
    }
    for (; EXACT(order) && i < n; i++)
        for (size_t r = 0; r < rows; r++) {
            double a = g[(ptrdiff_t)r * gs + (ptrdiff_t)i];
            sums[i] += a;
            sums[pitch + i] += a * ((double)x[(ptrdiff_t)r * xs + (ptrdiff_t)i] - (double)shift[i]);
        }
    for (; i < n; i++) {
        WORK u[LUCID_TERMS] = {0};
        for (size_t r = 0; r < rows; r++) {
            WORK d = (WORK)x[(ptrdiff_t)r * xs + (ptrdiff_t)i] - shift[i];
            WORK a = order > 0 ? (WORK)g[(ptrdiff_t)r * gs + (ptrdiff_t)i] : d;
            WORK b = order > 1 ? (WORK)v[(ptrdiff_t)r * vs + (ptrdiff_t)i] : d;
            ADD_TERMS(u, d, a, b, order);
        }
        EACH(t, TERMS(order)) sums[t * pitch + i] += (double)u[t];
    }
}

INLINE void NAME(channel_sum_cols)(const lucid_tile *tile, const WORK *shift, double *sums,
                                   size_t pitch, const int order) {
    size_t r = 0;
    for (; r + LUCID_CHAIN <= tile->rows; r += LUCID_CHAIN)
        NAME(channel_sum_strip)(tile, r, LUCID_CHAIN, shift, sums, pitch, order);
    if (r < tile->rows) NAME(channel_sum_strip)(tile, r, tile->rows - r, shift, sums, pitch, order);
}
