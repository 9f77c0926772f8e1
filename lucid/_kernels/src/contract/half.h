/* float16 and bfloat16, in integer arithmetic: the same bits on every instruction set. */
#ifndef LUCID_HALF_H
#define LUCID_HALF_H

#include <stdint.h>
#include <string.h>

static inline float lucid_bits_to_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Exact. The significand is read as a float's, 112 binades too low, and scaled up. */
static inline float lucid_half_to_float(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float scaled = lucid_bits_to_float(magnitude) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &scaled, 4);
    if (magnitude >= 0x0f800000) bits = magnitude | 0x7f800000; /* inf, NaN */
    return lucid_bits_to_float(bits | sign);
}

static inline float lucid_bfloat_to_float(uint16_t b) {
    return lucid_bits_to_float((uint32_t)b << 16);
}

/* Round a double once, to nearest even, to a binary format of 16 bits with `fraction` stored
 * significand bits and largest exponent `emax`. */
static inline uint16_t lucid_round_16(double x, int fraction, int emax) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    uint64_t magnitude = bits & 0x7fffffffffffffff;
    uint16_t inf = (uint16_t)((2 * emax + 1) << fraction);
    if (magnitude > 0x7ff0000000000000) return (uint16_t)(sign | inf | 1 << (fraction - 1));
    int exponent = (int)(magnitude >> 52) - 1023;
    if (exponent > emax) return (uint16_t)(sign | inf);
    int drop = 52 - fraction; /* low bits of the significand that go */
    uint64_t significand = (magnitude & 0xfffffffffffff) | 0x10000000000000;
    uint64_t base = 0;
    if (exponent >= 1 - emax) {
        base = (uint64_t)(exponent + emax - 1) << fraction; /* the hidden bit adds the last 1 */
    } else {
        drop += 1 - emax - exponent; /* subnormal */
        if (drop > 53) return sign;
    }
    uint64_t kept = significand >> drop, rest = significand & ((UINT64_C(1) << drop) - 1);
    uint64_t half = UINT64_C(1) << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    return (uint16_t)(sign |
                      (base + kept)); /* a carry moves to the next exponent, at last to inf */
}

static inline uint16_t lucid_double_to_half(double x) {
    return lucid_round_16(x, 10, 15);
}

static inline uint16_t lucid_double_to_bfloat(double x) {
    return lucid_round_16(x, 7, 127);
}

static inline uint32_t lucid_float_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

/* The same from float, without branches, so that loops vectorise. */
static inline uint16_t lucid_float_to_half(float x) {
    uint32_t bits = lucid_float_to_bits(x), a = bits & 0x7fffffff;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    /* The last place of 0.5 is that of a subnormal half: the addition rounds. */
    uint32_t subnormal =
        lucid_float_to_bits(lucid_bits_to_float(a) + 0.5f) - lucid_float_to_bits(0.5f);
    uint32_t h = a < (113u << 23) ? subnormal : normal;
    h = a >= 0x477ff000 ? 0x7c00 : h; /* 65520 and more round to inf */
    h = a > 0x7f800000 ? 0x7e00 : h;
    return (uint16_t)((bits >> 16 & 0x8000) | h);
}

static inline uint16_t lucid_float_to_bfloat(float x) {
    uint32_t bits = lucid_float_to_bits(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

#endif
