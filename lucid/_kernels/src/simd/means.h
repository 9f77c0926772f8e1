/* Bodies of the means entries: (hi + lo) / count, rounded. Where hi is infinite or NaN, lo is no
 * number. */

/* What a rounded mean c of h / count leaves: h - c count, exactly, for counts of at most 26 bits.
 * In two products of c's upper 26 bits and the others, as not every instruction set has fma. */
INLINE vd vd_left(vd h, vd c, vd count) {
    vd upper = (vd)((vl)c & (int64_t)-(1 << 27));
    return (h - upper * count) - (c - upper) * count;
}

INLINE double left(double h, double c, double count) {
    int64_t bits;
    double upper;
    memcpy(&bits, &c, 8);
    bits &= (int64_t)-(1 << 27);
    memcpy(&upper, &bits, 8);
    return (h - upper * count) - (c - upper) * count;
}

/* For float the quotient of the rounded sum is accurate enough. */
static int means_f32(const double *hi, const double *lo, size_t n, double count, float *out) {
    vd check = {0}, counts = vd_set(count);
    double last = 0;
    size_t k = 0;
    for (; k + VD <= n; k += VD) {
        vd h = vd_load(hi + k), l = vd_load(lo + k);
        l = (vd)((vl)l & (h - h == 0));
        vd_narrow(out + k, (h + l) / counts);
        check += vd_widen(out + k) * 0;
    }
    for (; k < n; k++) {
        out[k] = (float)((hi[k] - hi[k] == 0 ? hi[k] + lo[k] : hi[k]) / count);
        last += (double)out[k] * 0;
    }
    for (int j = 0; j < VD; j++)
        last += check[j];
    return last == 0;
}

/* For double one Newton step rounds the exact quotient but for rare ties. */
static int means_f64(const double *hi, const double *lo, size_t n, double count, double *out) {
    double check = 0;
    for (size_t k = 0; k < n; k++) {
        double q = hi[k] / count, rest = (fma(-q, count, hi[k]) + lo[k]) / count;
        out[k] = q - q == 0 ? q + rest : q;
        check += out[k] * 0;
    }
    return check == 0;
}
