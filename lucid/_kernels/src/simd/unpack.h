/* Bodies of the unpack entries: any stride, alignment and byte order to a native buffer. */

#define SWAP_1(v) (v)
#define SWAP_2(v) __builtin_bswap16(v)
#define SWAP_4(v) __builtin_bswap32(v)
#define SWAP_8(v) __builtin_bswap64(v)

/* BITS: unsigned type of the element's size; VALUE(bits): the converted element. The contiguous
 * native case is a loop of its own, which compilers vectorise. */
#define UNPACK(NAME, BITS, SIZE, OUT, VALUE)                                           \
    static void NAME(const char *x, ptrdiff_t stride, size_t n, int swap, void *out) { \
        OUT *restrict o = out;                                                         \
        BITS b;                                                                        \
        if (stride == SIZE && !swap) {                                                 \
            for (size_t i = 0; i < n; i++) {                                           \
                memcpy(&b, x + i * SIZE, SIZE);                                        \
                o[i] = VALUE(b);                                                       \
            }                                                                          \
            return;                                                                    \
        }                                                                              \
        for (size_t i = 0; i < n; i++, x += stride) {                                  \
            memcpy(&b, x, SIZE);                                                       \
            if (swap) b = SWAP_##SIZE(b);                                              \
            o[i] = VALUE(b);                                                           \
        }                                                                              \
    }

static inline double bits_to_double(uint64_t bits) {
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

#define AS_BOOL(b) ((float)((b) != 0))
#define AS_INT8(b) ((float)(int8_t)(b))
#define AS_UINT(b) ((float)(b))
#define AS_INT16(b) ((float)(int16_t)(b))
#define AS_INT32(b) ((double)(int32_t)(b))
#define AS_UINT32(b) ((double)(b))
#define AS_INT64(b) ((double)(int64_t)(b))
#define AS_UINT64(b) ((double)(b))

UNPACK(unpack_float32, uint32_t, 4, float, lucid_bits_to_float)
UNPACK(unpack_float64, uint64_t, 8, double, bits_to_double)
#if !defined(__F16C__)
UNPACK(unpack_float16, uint16_t, 2, float, lucid_half_to_float)
#else
/* The exact conversion, eight at a time. */
static void unpack_float16(const char *x, ptrdiff_t stride, size_t n, int swap, void *out) {
    float *restrict o = out;
    size_t i = 0;
    if (stride == 2 && !swap)
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + 2 * i))));
    for (; i < n; i++) {
        uint16_t b;
        memcpy(&b, x + (ptrdiff_t)i * stride, 2);
        o[i] = lucid_half_to_float(swap ? SWAP_2(b) : b);
    }
}
#endif
UNPACK(unpack_bfloat16, uint16_t, 2, float, lucid_bfloat_to_float)
UNPACK(unpack_bool, uint8_t, 1, float, AS_BOOL)
UNPACK(unpack_int8, uint8_t, 1, float, AS_INT8)
UNPACK(unpack_uint8, uint8_t, 1, float, AS_UINT)
UNPACK(unpack_int16, uint16_t, 2, float, AS_INT16)
UNPACK(unpack_uint16, uint16_t, 2, float, AS_UINT)
UNPACK(unpack_int32, uint32_t, 4, double, AS_INT32)
UNPACK(unpack_uint32, uint32_t, 4, double, AS_UINT32)
UNPACK(unpack_int64, uint64_t, 8, double, AS_INT64)
UNPACK(unpack_uint64, uint64_t, 8, double, AS_UINT64)
