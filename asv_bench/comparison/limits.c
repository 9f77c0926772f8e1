/* What memory allows: reading, copying and adding arrays, with ordinary and with streaming stores.
 *
 * peers.py compiles this with the system's compiler. `c` is aligned to 64 bytes and `bytes` is a
 * multiple of 1024.
 */
#include <stddef.h>
#include <string.h>
#if defined(__SSE2__) && !defined(__clang__)
#include <immintrin.h>
#endif

enum { AHEAD = 2048 }; /* the hardware's prefetch stops at the ends of pages */

typedef float vec __attribute__((vector_size(32)));
typedef float loose __attribute__((vector_size(32), aligned(4)));
typedef void limit(char *, const char *, const char *, size_t, int);
limit read_, copy, copy_stream, triad, triad_stream;

static inline void stream(vec *p, vec v) {
#if defined(__clang__)
    __builtin_nontemporal_store(v, p);
#elif defined(__AVX__)
    _mm256_stream_ps((float *)p, (__m256)v);
#elif defined(__SSE2__)
    union {
        vec whole;
        __m128 half[2];
    } u = {v};
    _mm_stream_ps((float *)p, u.half[0]);
    _mm_stream_ps((float *)p + 4, u.half[1]);
#else
    *p = v;
#endif
}

static inline void done(void) {
#if defined(__SSE2__) && !defined(__clang__)
    _mm_sfence();
#endif
    __asm__ volatile("" ::: "memory");
}

#define EACH_BLOCK(...)                                           \
    for (; repeats > 0; repeats--) {                              \
        for (size_t i = 0; i < bytes; i += 256) {                 \
            for (size_t j = 0; j < 256; j += 64)                  \
                __builtin_prefetch(a + i + j + AHEAD);            \
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) { \
                size_t k = i + 32 * (size_t)j;                    \
                __VA_ARGS__;                                      \
            }                                                     \
        }                                                         \
        done();                                                   \
    }

#define AT(p) (*(const loose *)((p) + k))

/* Four streams were 5 to 10 % faster than one. */
void read_(char *c, const char *a, const char *b, size_t bytes, int repeats) {
    vec sum[8] = {{0}};
    (void)b;
    for (; repeats > 0; repeats--) {
        for (size_t i = 0; i < bytes / 4; i += 256) {
            for (int s = 0; s < 4; s++) {
                const char *p = a + (size_t)s * (bytes / 4) + i;
                for (size_t j = 0; j < 256; j += 64)
                    __builtin_prefetch(p + j + AHEAD / 2);
                _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) sum[j] +=
                    *(const loose *)(p + 32 * j);
            }
        }
        done();
    }
    for (int j = 0; j < 8; j++)
        memcpy(c + 32 * j, &sum[j], 32);
}

void copy(char *c, const char *a, const char *b, size_t bytes, int repeats) {
    (void)b;
    for (; repeats > 0; repeats--) {
        memcpy(c, a, bytes);
        done();
    }
}

void copy_stream(char *c, const char *a, const char *b, size_t bytes, int repeats) {
    (void)b;
    EACH_BLOCK(stream((vec *)(c + k), AT(a)))
}

void triad(char *c, const char *a, const char *b, size_t bytes, int repeats) {
    EACH_BLOCK(*(vec *)(c + k) = AT(a) + AT(b))
}

void triad_stream(char *c, const char *a, const char *b, size_t bytes, int repeats) {
    EACH_BLOCK(stream((vec *)(c + k), AT(a) + AT(b)))
}
