/* The vectors of one instruction set, as wide as its registers, of floats (vf) and doubles (vd). */
#ifndef LUCID_VEC_H
#define LUCID_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VBYTES 64
#elif defined(__AVX2__)
#define VBYTES 32
#else
#define VBYTES 16
#endif

#define VF (VBYTES / 4) /* floats in a vector */
#define VD (VBYTES / 8) /* doubles in a vector */

#define INLINE static inline __attribute__((always_inline))

/* A loop that is always unrolled. */
#define EACH(j, N) _Pragma("GCC unroll 16") for (int j = 0, j##_end = (N); j < j##_end; j++)

typedef float vf __attribute__((vector_size(VBYTES)));
typedef double vd __attribute__((vector_size(VBYTES)));
typedef int64_t vl __attribute__((vector_size(VBYTES)));
typedef float vh __attribute__((vector_size(VBYTES / 2))); /* floats that widen to one vd */
/* The same at the alignment of their elements, and allowed to alias. */
typedef float vf_any __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef double vd_any __attribute__((vector_size(VBYTES), aligned(8), may_alias));
typedef float vh_any __attribute__((vector_size(VBYTES / 2), aligned(4), may_alias));

INLINE vd vd_load(const double *p) {
    return *(const vd_any *)p;
}
INLINE void vd_store(double *p, vd v) {
    *(vd_any *)p = v;
}
INLINE vd vd_set(double s) {
    return s - (vd){0};
}
/* a + b, where the units that add are the busy ones: on AMD's others do a multiplication by 1. */
INLINE vd vd_plus(vd a, vd b) {
#if defined(__AVX512F__)
    return (vd)_mm512_fmadd_pd((__m512d)a, _mm512_set1_pd(1), (__m512d)b);
#elif defined(__FMA__)
    return (vd)_mm256_fmadd_pd((__m256d)a, _mm256_set1_pd(1), (__m256d)b);
#else
    return a + b;
#endif
}
INLINE double plus(double a, double b) {
    return a + b;
}
INLINE vf vf_load(const float *p) {
    return *(const vf_any *)p;
}
INLINE void vf_store(float *p, vf v) {
    *(vf_any *)p = v;
}
INLINE vf vf_set(float s) {
    return s - (vf){0};
}
/* VD floats, widened. Compilers split the portable form, so x86 is spelled out. */
INLINE vd vd_widen(const float *p) {
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(_mm_loadu_ps(p));
#elif defined(__SSE2__)
    double two; /* floats; one load */
    memcpy(&two, p, sizeof two);
    return (vd)_mm_cvtps_pd(_mm_castpd_ps(_mm_set_sd(two)));
#else
    return __builtin_convertvector(*(const vh_any *)p, vd);
#endif
}

/* Rounded to VD floats. */
INLINE void vd_narrow(float *p, vd v) {
#if defined(__AVX512F__)
    _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)v));
#elif defined(__AVX2__)
    _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)v));
#else
    *(vh_any *)p = __builtin_convertvector(v, vh);
#endif
}

/* The first and the last VD floats of a vector, widened. */
INLINE vd vf_low(vf v) {
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
#elif defined(__SSE2__)
    return (vd)_mm_cvtps_pd((__m128)v);
#else
    vh h;
    memcpy(&h, &v, sizeof h);
    return __builtin_convertvector(h, vd);
#endif
}

INLINE vd vf_high(vf v) {
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#elif defined(__SSE2__)
    return (vd)_mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v));
#else
    vh h;
    memcpy(&h, (char *)&v + sizeof h, sizeof h);
    return __builtin_convertvector(h, vd);
#endif
}

/* Store past the cache, where the processor can; p is aligned to the vector. */
INLINE void vf_stream(float *p, vf v) {
#if VBYTES == 64
    _mm512_stream_ps(p, (__m512)v);
#elif VBYTES == 32
    _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
    _mm_stream_ps(p, (__m128)v);
#else
    vf_store(p, v);
#endif
}

#endif
