/* Vectors of WORK, read from and written to TYPE. */

typedef WORK vw __attribute__((vector_size(VBYTES)));
typedef BITS vb __attribute__((vector_size(VBYTES)));

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
