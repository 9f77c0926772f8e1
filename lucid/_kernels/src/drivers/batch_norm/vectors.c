#include "vectors.h"

#include <stdint.h>
#include <string.h>

#include "contract/half.h"

/* Of any alignment; compilers vectorise them where the stride is a constant. */
static inline void read_floats(const char *restrict from, ptrdiff_t stride, size_t n,
                               double *restrict to) {
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, from + (ptrdiff_t)i * stride, 4);
        to[i] = f;
    }
}

static inline void write_floats(char *restrict to, ptrdiff_t stride, size_t n,
                                const double *restrict from) {
    for (size_t i = 0; i < n; i++) {
        float f = (float)from[i];
        memcpy(to + (ptrdiff_t)i * stride, &f, 4);
    }
}

void lucid_vector_read(const lucid_kernels *kernels, lucid_vector v, size_t n, double absent,
                       double *out) {
    if (!v.data) {
        for (size_t i = 0; i < n; i++)
            out[i] = absent;
        return;
    }
    if (v.type == LUCID_FLOAT64) {
        kernels->unpack[v.type](v.data, v.stride, n, v.swap, out);
        return;
    }
    if (v.type == LUCID_FLOAT32 && !v.swap) {
        if (v.stride == 4) read_floats(v.data, 4, n, out);
        else read_floats(v.data, v.stride, n, out);
        return;
    }
    float buffer[64];
    for (size_t i = 0; i < n; i += 64) {
        size_t some = n - i < 64 ? n - i : 64;
        kernels->unpack[v.type](v.data + (ptrdiff_t)i * v.stride, v.stride, some, v.swap, buffer);
        for (size_t k = 0; k < some; k++)
            out[i + k] = buffer[k];
    }
}

static void put(char *to, lucid_type type, int swap, double value) {
    uint64_t b = 0;
    float f = (float)value;
    size_t size = lucid_item_size(type);
    uint16_t half;
    if (type == LUCID_FLOAT64) {
        memcpy(to, &value, 8);
    } else if (type == LUCID_FLOAT32) {
        memcpy(to, &f, 4);
    } else {
        half = type == LUCID_FLOAT16 ? lucid_double_to_half(value) : lucid_double_to_bfloat(value);
        memcpy(to, &half, 2);
    }
    if (!swap) return;
    memcpy(&b, to, size);
    for (size_t i = 0; i < size; i++)
        to[i] = ((char *)&b)[size - 1 - i];
}

void lucid_vector_write(lucid_vector v, size_t n, const double *values) {
    if (v.type == LUCID_FLOAT32 && !v.swap) {
        if (v.stride == 4) write_floats(v.data, 4, n, values);
        else write_floats(v.data, v.stride, n, values);
        return;
    }
    for (size_t i = 0; i < n; i++)
        put(v.data + (ptrdiff_t)i * v.stride, v.type, v.swap, values[i]);
}
