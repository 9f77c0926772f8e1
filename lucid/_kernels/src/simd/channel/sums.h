/* Channel sums: a chunk of each row at a time, or strips of LUCID_CHAIN rows of columns. All are
 * taken in double, of deviations and products that are exact for floats: sums that cancel keep
 * their digits, and nothing leaves the range. */

/* `chain` times LUCID_LANES elements. */
INLINE void NAME(sum_chain)(const TYPE *x, const TYPE *g, const TYPE *v, vd k, vd (*s)[LUCID_TERMS],
                            const int order, const int chain) {
    EACH(part, ND / TOGETHER(order)) {
        const ptrdiff_t first = part * TOGETHER(order);
        EACH(c, chain) EACH(j, TOGETHER(order)) {
            const ptrdiff_t at = c * LUCID_LANES + (first + j) * VD;
            vd d = DOUBLES(x + at) - k;
            vd a = order > 0 ? DOUBLES(g + at) : d, b = order > 1 ? DOUBLES(v + at) : d;
            ADD_TERMS(vd_plus, s[first + j], d, a, b, order);
        }
    }
}

INLINE void NAME(sum_chunk)(const TYPE *x, const TYPE *g, const TYPE *v, vd k, vd (*s)[LUCID_TERMS],
                            const int order) {
    NAME(sum_chain)(x, g, v, k, s, order, LUCID_CHAIN);
}

/* The same for the last `keep` of LUCID_LANES elements alone. */
INLINE void NAME(sum_last)(const TYPE *x, const TYPE *g, const TYPE *v, size_t keep, vd k,
                           vd (*s)[LUCID_TERMS], const int order) {
    EACH(j, ND) {
        vl mask;
        memcpy(&mask, last_lanes + keep + j * VD, sizeof mask);
        vd d = (vd)((vl)(DOUBLES(x + j * VD) - k) & mask);
        vd a = order > 0 ? (vd)((vl)DOUBLES(g + j * VD) & mask) : d;
        vd b = order > 1 ? (vd)((vl)DOUBLES(v + j * VD) & mask) : d;
        ADD_TERMS(vd_plus, s[j], d, a, b, order);
    }
}

/* Elements [i, n) of a row. A remainder is read again from LUCID_LANES elements before its end,
 * masked; a row that is shorter is copied to the end of a buffer first. */
INLINE void NAME(sum_rest)(const TYPE *x, const TYPE *g, const TYPE *v, size_t i, size_t n, vd k,
                           vd (*s)[LUCID_TERMS], const int order) {
    size_t rest = n % LUCID_LANES;
    for (; i + CHUNK <= n; i += CHUNK)
        NAME(sum_chunk)(x + i, g + i, v + i, k, s, order);
    for (; i + LUCID_LANES <= n; i += LUCID_LANES)
        NAME(sum_chain)(x + i, g + i, v + i, k, s, order, 1);
    if (i == n) return;
    if (n >= LUCID_LANES) {
        i = n - LUCID_LANES;
        NAME(sum_last)(x + i, g + i, v + i, rest, k, s, order);
    } else {
        TYPE ends[3][LUCID_LANES] = {{0}};
        memcpy(ends[0] + LUCID_LANES - n, x, n * sizeof *x);
        if (order > 0) memcpy(ends[1] + LUCID_LANES - n, g, n * sizeof *g);
        if (order > 1) memcpy(ends[2] + LUCID_LANES - n, v, n * sizeof *v);
        NAME(sum_last)(ends[0], ends[1], ends[2], rest, k, s, order);
    }
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

INLINE void NAME(sums_load)(vd (*s)[LUCID_TERMS], const double *sums, const int order) {
    EACH(t, TERMS(order)) EACH(j, ND) s[j][t] = vd_load(sums + t * LUCID_LANES + j * VD);
}

INLINE void NAME(sums_store)(double *sums, vd (*s)[LUCID_TERMS], const int order) {
    EACH(t, TERMS(order)) EACH(j, ND) vd_store(sums + t * LUCID_LANES + j * VD, s[j][t]);
}

INLINE void NAME(channel_sum_rows)(const lucid_tile *tile, const double *shift, double *sums,
                                   const int order) {
    const TYPE *x = tile->in[0], *g = order > 0 ? tile->in[1] : x, *v = order > 1 ? tile->in[2] : x;
    for (size_t r = 0; r < tile->rows; r++, sums += TERMS(order) * LUCID_LANES) {
        vd s[ND][LUCID_TERMS], k = vd_set(shift[r]);
        size_t i = 0;
        NAME(sums_load)(s, sums, order);
        for (; i + CHUNK <= tile->n; i += CHUNK) {
            NAME(fetch)(tile, r, x, g, v, (ptrdiff_t)i, CHUNK, order);
            NAME(sum_chunk)(x + i, g + i, v + i, k, s, order);
        }
        NAME(fetch)(tile, r, x, g, v, (ptrdiff_t)i, (ptrdiff_t)(tile->n - i), order);
        NAME(sum_rest)(x, g, v, i, tile->n, k, s, order);
        NAME(sums_store)(sums, s, order);
        x += tile->in_step[0];
        g += tile->in_step[order > 0 ? 1 : 0];
        v += tile->in_step[order > 1 ? 2 : 0];
    }
}

/* `rows` <= LUCID_CHAIN rows of columns. */
INLINE void NAME(channel_sum_strip)(const lucid_tile *tile, size_t first, const size_t rows,
                                    const double *shift, double *sums, size_t pitch,
                                    const int order) {
    const ptrdiff_t xs = tile->in_step[0], gs = tile->in_step[order > 0 ? 1 : 0],
                    vs = tile->in_step[order > 1 ? 2 : 0];
    const TYPE *x = (const TYPE *)tile->in[0] + (ptrdiff_t)first * xs;
    const TYPE *g = order > 0 ? (const TYPE *)tile->in[1] + (ptrdiff_t)first * gs : x;
    const TYPE *v = order > 1 ? (const TYPE *)tile->in[2] + (ptrdiff_t)first * vs : x;
    size_t n = tile->n, i = 0;
    for (; i + VD <= n; i += VD) {
        vd s[LUCID_TERMS], k = vd_load(shift + i);
        EACH(t, TERMS(order)) s[t] = vd_load(sums + (size_t)t * pitch + i);
        if (rows == LUCID_CHAIN && i * sizeof *x % 64 == 0)
            _Pragma("GCC unroll 8") for (ptrdiff_t r = LUCID_CHAIN; r < 2 * LUCID_CHAIN; r++) {
                __builtin_prefetch(x + r * xs + i, 0, 3);
                if (order > 0) __builtin_prefetch(g + r * gs + i, 0, 3);
                if (order > 1) __builtin_prefetch(v + r * vs + i, 0, 3);
            }
        _Pragma("GCC unroll 8") for (size_t r = 0; r < rows; r++) {
            vd d = DOUBLES(x + (ptrdiff_t)r * xs + i) - k;
            vd a = order > 0 ? DOUBLES(g + (ptrdiff_t)r * gs + i) : d;
            vd b = order > 1 ? DOUBLES(v + (ptrdiff_t)r * vs + i) : d;
            ADD_TERMS(vd_plus, s, d, a, b, order);
        }
        EACH(t, TERMS(order)) vd_store(sums + (size_t)t * pitch + i, s[t]);
    }
    for (; i < n; i++) {
        double s[LUCID_TERMS];
        EACH(t, TERMS(order)) s[t] = sums[(size_t)t * pitch + i];
        for (size_t r = 0; r < rows; r++) {
            double d = (double)x[(ptrdiff_t)r * xs + (ptrdiff_t)i] - shift[i];
            double a = order > 0 ? (double)g[(ptrdiff_t)r * gs + (ptrdiff_t)i] : d;
            double b = order > 1 ? (double)v[(ptrdiff_t)r * vs + (ptrdiff_t)i] : d;
            ADD_TERMS(plus, s, d, a, b, order);
        }
        EACH(t, TERMS(order)) sums[(size_t)t * pitch + i] = s[t];
    }
}

INLINE void NAME(channel_sum_cols)(const lucid_tile *tile, const double *shift, double *sums,
                                   size_t pitch, const int order) {
    size_t r = 0;
    for (; r + LUCID_CHAIN <= tile->rows; r += LUCID_CHAIN)
        NAME(channel_sum_strip)(tile, r, LUCID_CHAIN, shift, sums, pitch, order);
    if (r < tile->rows) NAME(channel_sum_strip)(tile, r, tile->rows - r, shift, sums, pitch, order);
}
