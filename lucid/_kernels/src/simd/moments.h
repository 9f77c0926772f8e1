/* Bodies of the sum and moment entries, over TYPE and COMPENSATED (simd.c says what these are).
 *
 * A block's first n & ~7 elements go to LANES lanes, so that 8 lanes (the widest vector) are the
 * unit of every instruction set; the rest is added one by one after the lanes are folded. */

#define LANES (COMPENSATED ? 16 : 32)
#define NL (LANES / VD)
/* Bytes to prefetch ahead: the hardware's own prefetch stops at page ends, and leaves a third of
 * the memory's speed unused where there is work to do on each line. */
#define AHEAD 4096

#define STRIP                                                                                \
    512 /* columns whose block of 32 rows or more is read twice, from L2: 64 KB of floats */

#if COMPENSATED
#define ADD(s, e, x) TWO_SUM(s, e, x)
#else
#define ADD(s, e, x) ((s) += (x))
#endif
#define WIDEN NAME(widen)

INLINE vd NAME(widen)(const TYPE *p) {
    return sizeof *p == 4 ? vd_widen((const float *)p) : vd_load((const double *)p);
}

/* Fold the lanes of s (and e) pairwise: lane k with k + LANES / 2, and so on. */
INLINE void NAME(fold)(vd *s, vd *e, double *hi, double *lo) {
    (void)e;
    _Pragma("GCC unroll 4") for (int half = NL / 2; half * VD >= 8; half /= 2) EACH(j, half) {
#if COMPENSATED
        e[j] += e[j + half];
#endif
        ADD(s[j], e[j], s[j + half]);
    }
    double a[8], b[8];
    EACH(j, 8 / VD) {
        vd_store(a + j * VD, s[j]);
#if COMPENSATED
        vd_store(b + j * VD, e[j]);
#endif
    }
    for (int half = 4; half > 0; half /= 2)
        for (int k = 0; k < half; k++) {
#if COMPENSATED
            b[k] += b[k + half];
#endif
            ADD(a[k], b[k], a[k + half]);
        }
    *hi = a[0];
    *lo = COMPENSATED ? b[0] : 0.0;
}

/* The sum of n <= LUCID_BLOCK elements. */
INLINE void NAME(block_sum)(const TYPE *x, size_t n, double *hi, double *lo) {
    double h = 0, l = 0;
    size_t i = 0;
    if (n >= 8) {
        vd s[NL], e[NL];
        EACH(j, NL) s[j] = e[j] = (vd){0};
        for (; i + LANES <= n; i += LANES) {
            __builtin_prefetch((const char *)(x + i) + AHEAD);
            __builtin_prefetch((const char *)(x + i) + AHEAD + 64);
            EACH(j, NL) ADD(s[j], e[j], WIDEN(x + i + j * VD));
        }
        EACH(k, LANES / 8 - 1) if (i + 8 <= n) {
            EACH(j, 8 / VD) ADD(s[k * (8 / VD) + j], e[k * (8 / VD) + j], WIDEN(x + i + j * VD));
            i += 8;
        }
        NAME(fold)(s, e, &h, &l);
    }
    for (; i < n; i++)
        ADD(h, l, (double)x[i]);
    *hi = h;
    *lo = l;
}

static void NAME(sum_rows)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n, int same,
                           lucid_sums out) {
    for (size_t r = 0; r < rows; r++, x += step) {
        double h, l;
        size_t k = same ? 0 : r;
        NAME(block_sum)(x, n, &h, &l);
        out.lo[k] += l;
        TWO_SUM(out.hi[k], out.lo[k], h);
    }
}

/* Columns [0, N * VD) of some rows. */
INLINE void NAME(sum_strip)(const TYPE *x, ptrdiff_t step, size_t rows, ptrdiff_t ahead, double *hi,
                            double *lo, const int N) {
    (void)lo;
    vd s[8], e[8];
    EACH(j, N) {
        s[j] = vd_load(hi + j * VD);
        e[j] = COMPENSATED ? vd_load(lo + j * VD) : (vd){0};
    }
    for (size_t r = 0; r < rows; r++, x += step) {
        for (size_t line = 0; line < N * VD * sizeof *x; line += 64)
            __builtin_prefetch((const char *)x + line + ahead);
        EACH(j, N) ADD(s[j], e[j], WIDEN(x + j * VD));
    }
    EACH(j, N) {
        vd_store(hi + j * VD, s[j]);
        if (COMPENSATED) vd_store(lo + j * VD, e[j]);
    }
}

static void NAME(sum_cols)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n, lucid_sums out) {
    /* Strips of rows keep the walk nearly sequential; within one, accumulators stay in registers.
     * Long rows are left to the hardware's prefetch. */
    ptrdiff_t eight = 8 * step * (ptrdiff_t)sizeof *x;
    ptrdiff_t ahead = n * sizeof *x > AHEAD ? 0 : eight > AHEAD ? eight : AHEAD;
    for (size_t r = 0; r < rows; r += 8, x += 8 * step) {
        size_t some = rows - r < 8 ? rows - r : 8, k = 0;
        if (some == 8) {
            for (; k + 2 * VD <= n; k += 2 * VD)
                NAME(sum_strip)(x + k, step, 8, ahead, out.hi + k, out.lo + k, 2);
        } else {
            for (; k + 2 * VD <= n; k += 2 * VD)
                NAME(sum_strip)(x + k, step, some, ahead, out.hi + k, out.lo + k, 2);
        }
        for (; k < n; k++)
            for (size_t q = 0; q < some; q++)
                ADD(out.hi[k], out.lo[k], (double)x[(ptrdiff_t)q * step + (ptrdiff_t)k]);
    }
}

/* Chan, Golub and LeVeque (1979): merge a block of `n` values with mean c + rest and sum of squared
 * deviations `m2` into output k. The two terms stay apart: their sum would be rounded to c's
 * spacing. */
INLINE void NAME(merge)(lucid_moments o, size_t k, double n, double c, double rest, double m2) {
    double before = o.count[k];
    if (before == 0) o.shift[k] = c;
    double delta = (c - o.shift[k]) + (rest - o.mean[k]), total = before + n;
    o.mean[k] += delta * (n / total);
    o.m2[k] += m2 + delta * delta * (before * n / total);
    o.count[k] = total;
}

/* Sum of squared deviations of a block from `c`, and for double that of the deviations: c is only
 * the rounded mean. */
INLINE void NAME(block_deviations)(const TYPE *x, size_t n, double c, double *sum,
                                   double *squares) {
    double t = 0, q = 0;
    size_t i = 0;
    if (n >= 8) {
        vd m = vd_set(c), s[16 / VD], d1[16 / VD];
        EACH(j, 16 / VD) s[j] = d1[j] = (vd){0};
        for (; i + 16 <= n; i += 16)
            EACH(j, 16 / VD) {
                vd d = WIDEN(x + i + j * VD) - m;
                if (COMPENSATED) d1[j] += d;
                s[j] += d * d;
            }
        if (i + 8 <= n) {
            EACH(j, 8 / VD) {
                vd d = WIDEN(x + i + j * VD) - m;
                if (COMPENSATED) d1[j] += d;
                s[j] += d * d;
            }
            i += 8;
        }
        double a[8], b[8];
        EACH(j, 8 / VD) {
            vd_store(a + j * VD, s[j] + s[j + 8 / VD]);
            vd_store(b + j * VD, d1[j] + d1[j + 8 / VD]);
        }
        for (int half = 4; half > 0; half /= 2)
            for (int k = 0; k < half; k++) {
                a[k] += a[k + half];
                b[k] += b[k + half];
            }
        q = a[0];
        t = b[0];
    }
    for (; i < n; i++) {
        double d = (double)x[i] - c;
        t += d;
        q += d * d;
    }
    *sum = COMPENSATED ? t : 0.0;
    *squares = q;
}

static void NAME(moments_rows)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n, int same,
                               lucid_moments out) {
    double count = (double)n;
    for (size_t r = 0; r < rows; r++, x += step) {
        double h, l, t, q;
        size_t k = same ? 0 : r;
        NAME(block_sum)(x, n, &h, &l);
        double c = h / count;
        NAME(block_deviations)(x, n, c, &t, &q);
        out.sums.lo[k] += l;
        TWO_SUM(out.sums.hi[k], out.sums.lo[k], h);
        NAME(merge)(out, k, count, c, t / count, COMPENSATED ? q - t * (t / count) : q);
    }
}

/* One block of a strip of columns: two passes, the second over what the first left in L1. */
INLINE void NAME(moments_strip)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n,
                                lucid_moments out) {
    double hi[STRIP], lo[STRIP];
    memset(hi, 0, n * sizeof *hi);
    memset(lo, 0, n * sizeof *lo);
    NAME(sum_cols)(x, step, rows, n, (lucid_sums){hi, lo});
    double count = (double)rows, before = out.count[0], total = before + count;
    vd vcount = vd_set(count), share = vd_set(count / total), both = vd_set(before * count / total);
    size_t k = 0;
    for (; k + VD <= n; k += VD) {
        vd h = vd_load(hi + k), c = h / vcount, t = {0}, q = {0};
        const TYPE *p = x + k;
        for (size_t i = 0; i < rows; i++, p += step) {
            vd d = WIDEN(p) - c;
            if (COMPENSATED) t += d;
            q += d * d;
        }
        vd sh = vd_load(out.sums.hi + k), sl = vd_load(out.sums.lo + k) + vd_load(lo + k);
        TWO_SUM(sh, sl, h);
        vd_store(out.sums.hi + k, sh);
        vd_store(out.sums.lo + k, sl);
        vd rest = {0};
        if (COMPENSATED) {
            rest = t / vcount;
            q -= t * rest;
        }
        vd shift = before == 0 ? c : vd_load(out.shift + k), m = vd_load(out.mean + k);
        vd delta = (c - shift) + (rest - m);
        vd_store(out.shift + k, shift);
        vd_store(out.mean + k, m + delta * share);
        vd_store(out.m2 + k, vd_load(out.m2 + k) + (q + delta * delta * both));
        vd_store(out.count + k, vd_set(total));
    }
    for (; k < n; k++) {
        double c = hi[k] / count, t = 0, q = 0;
        for (size_t i = 0; i < rows; i++) {
            double d = (double)x[(ptrdiff_t)i * step + (ptrdiff_t)k] - c;
            t += d;
            q += d * d;
        }
        out.sums.lo[k] += lo[k];
        TWO_SUM(out.sums.hi[k], out.sums.lo[k], hi[k]);
        if (!COMPENSATED) t = 0;
        NAME(merge)(out, k, count, c, t / count, COMPENSATED ? q - t * (t / count) : q);
    }
}

/* All columns of a call have seen the same number of values. */
static void NAME(moments_cols)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n,
                               lucid_moments out) {
    size_t strip = n < STRIP ? n : STRIP;
    size_t tall = STRIP * 32 / strip;
    for (size_t r = 0; r < rows; r += tall, x += (ptrdiff_t)tall * step) {
        size_t some = rows - r < tall ? rows - r : tall;
        for (size_t k = 0; k < n; k += strip) {
            lucid_moments o = {{out.sums.hi + k, out.sums.lo + k},
                               out.count + k,
                               out.shift + k,
                               out.mean + k,
                               out.m2 + k};
            NAME(moments_strip)(x + k, step, some, n - k < strip ? n - k : strip, o);
        }
    }
}

#undef LANES
#undef STRIP
#undef NL
#undef WIDEN
#undef ADD
#undef AHEAD
#undef TYPE
#undef COMPENSATED
#undef NAME
