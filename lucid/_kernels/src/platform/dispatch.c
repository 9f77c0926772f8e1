/* Which of the compiled instruction sets this processor runs. */
#include "contract/kernels.h"

#if defined(LUCID_X86)
extern const lucid_kernels lucid_kernels_baseline, lucid_kernels_v3, lucid_kernels_v4;

size_t lucid_simd_available(lucid_simd out[8]) {
    size_t n = 0;
    __builtin_cpu_init();
    int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (v4) out[n++] = (lucid_simd){"v4", &lucid_kernels_v4};
    if (v3) out[n++] = (lucid_simd){"v3", &lucid_kernels_v3};
    out[n++] = (lucid_simd){"baseline", &lucid_kernels_baseline};
    return n;
}
#elif defined(__aarch64__) || defined(_M_ARM64)
extern const lucid_kernels lucid_kernels_neon;

size_t lucid_simd_available(lucid_simd out[8]) {
    out[0] = (lucid_simd){"neon", &lucid_kernels_neon};
    return 1;
}
#else
extern const lucid_kernels lucid_kernels_baseline;

size_t lucid_simd_available(lucid_simd out[8]) {
    out[0] = (lucid_simd){"baseline", &lucid_kernels_baseline};
    return 1;
}
#endif
