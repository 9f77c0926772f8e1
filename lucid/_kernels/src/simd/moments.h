/* Bodies of the sum and moment entries, over TYPE and COMPENSATED (simd.c says what these are).
 *
 * A block's first n & ~7 elements go to LANES lanes, so that 8 lanes (the widest vector) are the
 * unit of every instruction set; the rest is added one by one after the lanes are folded. */

#define LANES (COMPENSATED ? 16 : 32)
#define NL (LANES / VD)
/* Bytes to prefetch ahead: the hardware's own prefetch stops at page ends, and leaves a third of
 * the memory's speed unused where there is work to do on each line. */
#define AHEAD 4096

/* Columns whose block is read twice, from L2: 64 KB of floats, 128 KB of doubles. Squares of
 * doubles may all be rounded alike, so few are added in a row. */
#define STRIP (COMPENSATED ? 256 : 512)
#define STRIP_ELEMENTS 16384
#define TALLEST (COMPENSATED ? 128 : STRIP_ELEMENTS)

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

/* What a block's deviations are taken from: its mean, rounded to the digits of the element type (by
 * Veltkamp's splitting). So those of floats and their squares are exact in double. From a mean of
 * more digits, values of few have squares that share their last digits, and every sum would round
 * these alike. */
#define CENTRE(c, mean)                                                      \
    do {                                                                     \
        __typeof__(mean) c_product = (mean) * 0x20000001p0;                  \
        (c) = sizeof(TYPE) == 4 ? c_product - (c_product - (mean)) : (mean); \
    } while (0)

/* Chan, Golub and LeVeque (1979): merge a block of `n` values with mean c + rest and sum of squared
 * deviations `m2` into output k. c is the rounded mean; without the rest, the distance of two
 * blocks of nearly the same mean would be known to c's spacing only. A quotient, for a constant
 * whose c is one digit off to leave nothing. */
INLINE void NAME(merge)(lucid_moments o, size_t k, double n, double c, double rest, double m2) {
    double before = o.count[k];
    if (before == 0) o.shift[k] = c;
    double delta = (c - o.shift[k]) + (rest - o.mean[k]), total = before + n;
    o.mean[k] += delta * (n / total);
    o.m2[k] += m2 + delta * delta * (before * n / total);
    o.count[k] = total;
}

/* Sum of squared deviations of a block from `c`. */
INLINE double NAME(block_squares)(const TYPE *x, size_t n, double c) {
    double q = 0;
    size_t i = 0;
    if (n >= 8) {
        vd m = vd_set(c), s[16 / VD];
        EACH(j, 16 / VD) s[j] = (vd){0};
        for (; i + 16 <= n; i += 16)
            EACH(j, 16 / VD) {
                vd d = WIDEN(x + i + j * VD) - m;
                s[j] += d * d;
            }
        if (i + 8 <= n) {
            EACH(j, 8 / VD) {
                vd d = WIDEN(x + i + j * VD) - m;
                s[j] += d * d;
            }
            i += 8;
        }
        double a[8];
        EACH(j, 8 / VD) vd_store(a + j * VD, s[j] + s[j + 8 / VD]);
        for (int half = 4; half > 0; half /= 2)
            for (int k = 0; k < half; k++)
                a[k] += a[k + half];
        q = a[0];
    }
    for (; i < n; i++) {
        double d = (double)x[i] - c;
        q += d * d;
    }
    return q;
}

static void NAME(moments_rows)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n, int same,
                               lucid_moments out) {
    double count = (double)n;
    for (size_t r = 0; r < rows; r++, x += step) {
        double h, l;
        size_t k = same ? 0 : r;
        NAME(block_sum)(x, n, &h, &l);
        double c, mean = h / count;
        CENTRE(c, mean);
        double t = left(h, c, count) + l, rest = t / count;
        double q = NAME(block_squares)(x, n, c);
        out.sums.lo[k] += l;
        TWO_SUM(out.sums.hi[k], out.sums.lo[k], h);
        NAME(merge)(out, k, count, c, rest, q - t * rest);
    }
}

/* The second pass over N vectors of columns of a block, whose sums are hi + lo. */
INLINE void NAME(moments_vectors)(const TYPE *x, ptrdiff_t step, size_t rows, const double *hi,
                                  const double *lo, double before, lucid_moments out, const int N) {
    double n = (double)rows, total = before + n;
    vd count = vd_set(n), share = vd_set(n / total), both = vd_set(before * n / total), c[2], q[2];
    EACH(j, N) {
        vd mean = vd_load(hi + j * VD) / count;
        CENTRE(c[j], mean);
        q[j] = (vd){0};
    }
    for (size_t i = 0; i < rows; i++, x += step)
        EACH(j, N) {
            vd d = WIDEN(x + j * VD) - c[j];
            q[j] += d * d;
        }
    EACH(j, N) {
        size_t k = j * VD;
        vd h = vd_load(hi + k), l = COMPENSATED ? vd_load(lo + k) : (vd){0};
        vd t = vd_left(h, c[j], count) + l, rest = t / count;
        vd sh = vd_load(out.sums.hi + k), sl = vd_load(out.sums.lo + k) + l;
        TWO_SUM(sh, sl, h);
        vd_store(out.sums.hi + k, sh);
        vd_store(out.sums.lo + k, sl);
        vd shift = before == 0 ? c[j] : vd_load(out.shift + k), m = vd_load(out.mean + k);
        vd delta = (c[j] - shift) + (rest - m);
        vd_store(out.shift + k, shift);
        vd_store(out.mean + k, m + delta * share);
        vd_store(out.m2 + k, vd_load(out.m2 + k) + ((q[j] - t * rest) + delta * delta * both));
        vd_store(out.count + k, vd_set(total));
    }
}

INLINE lucid_moments NAME(columns_from)(lucid_moments out, size_t k) {
    return (lucid_moments){
        {out.sums.hi + k, out.sums.lo + k}, out.count + k, out.shift + k, out.mean + k, out.m2 + k};
}

/* One block of a strip of columns: two passes, the second over what the first left in L1. */
INLINE void NAME(moments_strip)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n,
                                lucid_moments out) {
    double hi[STRIP], lo[COMPENSATED ? STRIP : 1];
    memset(hi, 0, n * sizeof *hi);
    if (COMPENSATED) memset(lo, 0, n * sizeof *lo);
    NAME(sum_cols)(x, step, rows, n, (lucid_sums){hi, lo});
    double count = (double)rows, before = out.count[0];
    size_t k = 0;
    for (; k + 2 * VD <= n; k += 2 * VD)
        NAME(moments_vectors)(x + k, step, rows, hi + k, COMPENSATED ? lo + k : lo, before,
                              NAME(columns_from)(out, k), 2);
    for (; k + VD <= n; k += VD)
        NAME(moments_vectors)(x + k, step, rows, hi + k, COMPENSATED ? lo + k : lo, before,
                              NAME(columns_from)(out, k), 1);
    for (; k < n; k++) {
        double l = COMPENSATED ? lo[k] : 0, c, mean = hi[k] / count, q = 0;
        CENTRE(c, mean);
        for (size_t i = 0; i < rows; i++) {
            double d = (double)x[(ptrdiff_t)i * step + (ptrdiff_t)k] - c;
            q += d * d;
        }
        double t = left(hi[k], c, count) + l, rest = t / count;
        out.sums.lo[k] += l;
        TWO_SUM(out.sums.hi[k], out.sums.lo[k], hi[k]);
        NAME(merge)(out, k, count, c, rest, q - t * rest);
    }
}

/* All columns of a call have seen the same number of values. */
static void NAME(moments_cols)(const TYPE *x, ptrdiff_t step, size_t rows, size_t n,
                               lucid_moments out) {
    size_t strip = n < STRIP ? n : STRIP;
    size_t tall = STRIP_ELEMENTS / strip < TALLEST ? STRIP_ELEMENTS / strip : TALLEST;
    for (size_t r = 0; r < rows; r += tall, x += (ptrdiff_t)tall * step) {
        size_t some = rows - r < tall ? rows - r : tall;
        for (size_t k = 0; k < n; k += strip) {
            NAME(moments_strip)(x + k, step, some, n - k < strip ? n - k : strip,
                                NAME(columns_from)(out, k));
        }
    }
}

#undef LANES
#undef CENTRE
#undef STRIP
#undef STRIP_ELEMENTS
#undef TALLEST
#undef NL
#undef WIDEN
#undef ADD
#undef AHEAD
#undef TYPE
#undef COMPENSATED
#undef NAME
