/* Bodies of the pack entries: computed floats or doubles to elements of any stride. */

#define PACK(NAME, IN, OUT, VALUE)                                                \
    static void NAME(const void *values, char *out, ptrdiff_t stride, size_t n) { \
        const IN *v = values;                                                     \
        OUT b;                                                                    \
        if (stride == sizeof b) {                                                 \
            for (size_t i = 0; i < n; i++) {                                      \
                b = VALUE(v[i]);                                                  \
                memcpy(out + i * sizeof b, &b, sizeof b);                         \
            }                                                                     \
            return;                                                               \
        }                                                                         \
        for (size_t i = 0; i < n; i++, out += stride) {                           \
            b = VALUE(v[i]);                                                      \
            memcpy(out, &b, sizeof b);                                            \
        }                                                                         \
    }

#define SAME(v) (v)

PACK(pack_float32, float, float, SAME)
PACK(pack_float64, double, double, SAME)
PACK(pack_float16, float, uint16_t, lucid_float_to_half)
PACK(pack_bfloat16, float, uint16_t, lucid_float_to_bfloat)
