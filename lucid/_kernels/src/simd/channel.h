/* Bodies of the channel entries over TYPE, the type in memory, WORK, the type computed in, and
 * BITS, the signed integer as wide as WORK; FUSE says whether to have the fused entries. */

#define EACH(j, N) _Pragma("GCC unroll 16") for (int j = 0, j##_end = (N); j < j##_end; j++)

#define vw NAME(vw)
#define vb NAME(vb)
typedef WORK vw __attribute__((vector_size(VBYTES)));
typedef BITS vb __attribute__((vector_size(VBYTES)));

#define VW (VBYTES / (int)sizeof(WORK))
#define NV (LUCID_LANES / VW)
#define ND (LUCID_LANES / VD)
#define DOUBLES (sizeof(WORK) == 4 ? 2 : 1) /* vectors of double that hold the elements of a vw */
#define SET(s) ((WORK)(s) - (vw){0})
#define LOAD NAME(load)
#define STORE NAME(store)

INLINE vw NAME(load)(const TYPE *p) {
    vw v;
    if (sizeof(TYPE) < sizeof(WORK)) {
        vd w = vd_widen((const float *)p);
        memcpy(&v, &w, sizeof v);
    } else {
        memcpy(&v, p, sizeof v);
    }
    return v;
}

INLINE void NAME(store)(TYPE *p, vw v) {
    if (sizeof(TYPE) < sizeof(WORK)) {
        vd w;
        memcpy(&w, &v, sizeof w);
        vd_narrow((float *)p, w);
    } else {
        memcpy(p, &v, sizeof v);
    }
}

INLINE vw NAME(load_work)(const WORK *p) {
    vw v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Add a vector to the DOUBLES vectors at s. */
INLINE void NAME(promote)(vd *s, vw u) {
    if (sizeof(WORK) == 4) {
        vf f;
        memcpy(&f, &u, sizeof f);
        s[0] += vf_low(f);
        s[1] += vf_high(f);
    } else {
        vd d;
        memcpy(&d, &u, sizeof d);
        s[0] += d;
    }
}

/* ---- Channel sums ---- */

#define TERMS(order) ((order) == 2 ? LUCID_TERMS : 2)

/* u += the terms of an element or a vector of elements. */
#define ADD_TERMS(u, d, g, v, order) \
    do {                             \
        if ((order) == 0) {          \
            (u)[0] += (d);           \
            (u)[1] += (d) * (d);     \
        } else {                     \
            (u)[0] += (g);           \
            if ((order) == 1) {      \
                (u)[1] += (g) * (d); \
            } else {                 \
                (u)[1] += (v);       \
                (u)[2] += (g) * (d); \
                (u)[3] += (v) * (d); \
                (u)[4] += (v) * (g); \
            }                        \
        }                            \
    } while (0)

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

#define CHUNK (LUCID_CHAIN * LUCID_LANES)

/* The sums of order 1 are gradients themselves, and may cancel: they are taken in double
 * throughout, for a tenth of the time of a backward pass. */
#define EXACT(order) ((order) == 1 && sizeof(WORK) == 4)

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

#define LINE (64 / (int)sizeof(TYPE))
#define LEAD (4096 / (int)sizeof(TYPE)) /* elements from what is summed to what is asked for */

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

/* ---- Channel affine ---- */

#define COEFFICIENTS(order) ((order) == 0 ? 3 : (order) == 1 ? 4 : 8)

/* Outputs of an element or a vector of elements. */
#define FIRST(x, g, v, q, order)                                         \
    ((order) == 0   ? ((x) - (q)[0]) * (q)[1] + (q)[2]                   \
     : (order) == 1 ? (q)[1] * (g) + ((q)[2] * ((x) - (q)[0]) + (q)[3])  \
                    : (q)[1] * (v) + ((q)[2] * ((x) - (q)[0]) + (q)[3]))
#define SECOND(x, g, v, q) (((q)[4] * (g) + (q)[5] * (v)) + ((q)[6] * ((x) - (q)[0]) + (q)[7]))

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

/* The same past the cache. Full lines are stored whole: the end of a row waits in `line` for the
 * beginning of the next if that follows in memory. Outputs lie alike to a line; n >= LINE. */
#define LINE_VECTORS (LINE / VW)
#define STREAMS (sizeof(TYPE) == sizeof(WORK))

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
                              const int which, const lucid_tile *next, const WORK *shift,
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
        vd s[LUCID_TERMS][ND];
        vw shifts = SET(with ? shift[r] : 0);
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
    return which != 3 || (((uintptr_t)tile->out[0] ^ (uintptr_t)tile->out[1]) & 63) == 0;
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

/* ---- The entries ---- */

#define ENTRIES(ORDER)                                                                           \
    static void NAME(sums_rows_##ORDER)(const lucid_tile *tile, const void *shift, double *sums, \
                                        size_t pitch) {                                          \
        (void)pitch;                                                                             \
        NAME(channel_sum_rows)(tile, shift, sums, ORDER);                                        \
    }                                                                                            \
    static void NAME(sums_cols_##ORDER)(const lucid_tile *tile, const void *shift, double *sums, \
                                        size_t pitch) {                                          \
        NAME(channel_sum_cols)(tile, shift, sums, pitch, ORDER);                                 \
    }                                                                                            \
    static void NAME(affine_rows_##ORDER)(const lucid_tile *tile, const void *q, size_t pitch) { \
        if (ORDER < 2 || !tile->out[1]) NAME(channel_affine_rows)(tile, q, pitch, ORDER, 1);     \
        else if (tile->out[0])                                                                   \
            NAME(channel_affine_rows)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 3);                 \
        else NAME(channel_affine_rows)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 2);                \
    }                                                                                            \
    static void NAME(affine_cols_##ORDER)(const lucid_tile *tile, const void *q, size_t pitch) { \
        if (ORDER < 2 || !tile->out[1]) NAME(channel_affine_cols)(tile, q, pitch, ORDER, 1);     \
        else if (tile->out[0])                                                                   \
            NAME(channel_affine_cols)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 3);                 \
        else NAME(channel_affine_cols)(tile, q, pitch, ORDER, ORDER < 2 ? 1 : 2);                \
    }

#define FUSED(ORDER)                                                                          \
    static void NAME(fused_rows_##ORDER)(const lucid_tile *tile, const void *q, size_t pitch, \
                                         const lucid_tile *next, const void *shift,           \
                                         double *sums) {                                      \
        NAME(stream_rows)(tile, q, pitch, ORDER, 1, next, shift, sums);                       \
    }

#if FUSE
FUSED(0)
FUSED(1)
#endif
ENTRIES(0)
ENTRIES(1)
ENTRIES(2)

#undef EACH
#undef vw
#undef vb
#undef VW
#undef NV
#undef ND
#undef DOUBLES
#undef SET
#undef LOAD
#undef STORE
#undef TERMS
#undef ADD_TERMS
#undef COEFFICIENTS
#undef FIRST
#undef SECOND
#undef CHUNK
#undef EXACT
#undef FUSED
#undef LINE
#undef LINE_VECTORS
#undef STREAMS
#undef LEAD
#undef ENTRIES
