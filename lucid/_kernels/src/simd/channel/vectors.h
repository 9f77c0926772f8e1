/* Vectors of WORK, read from and written to TYPE. */

typedef WORK vw __attribute__((vector_size(VBYTES)));

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

INLINE vd NAME(doubles)(const TYPE *p) {
    return sizeof(TYPE) == 4 ? vd_widen((const float *)p) : vd_load((const double *)p);
}
