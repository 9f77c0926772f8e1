/* The loops that Accelerate's documentation gives for the functions in use, and a count of the
 * calls to each. Sums run backwards: their order is not documented, and nothing may depend on it.
 */
#include <math.h>
#include <stddef.h>

#include "Accelerate/Accelerate.h"

#define EXPORT __attribute__((visibility("default")))

#define FUNCTIONS(F) \
    F(vDSP_vspdp)    \
    F(vDSP_vdpsp)    \
    F(vDSP_maxmgvD)  \
    F(vDSP_sveD)     \
    F(vDSP_svesqD)   \
    F(vDSP_dotprD)   \
    F(vDSP_vsubD)    \
    F(vDSP_vsadd)    \
    F(vDSP_vsaddD)   \
    F(vDSP_vsmsa)    \
    F(vDSP_vsmsaD)   \
    F(vDSP_vsma)     \
    F(vDSP_vsmaD)    \
    F(vvrsqrt)       \
    F(cblas_dgemv)   \
    F(cblas_dger)

#define NUMBER(f) NUMBER_##f,
#define NAME(f) #f " "
enum { FUNCTIONS(NUMBER) COUNT };

EXPORT size_t lucid_shim_calls[COUNT];

EXPORT const char *lucid_shim_names(void) {
    return FUNCTIONS(NAME);
}

#define CALLED(f) __atomic_fetch_add(&lucid_shim_calls[NUMBER_##f], 1, __ATOMIC_RELAXED)
#define EACH(n, N) for (vDSP_Stride n = 0, n##_end = (vDSP_Stride)(N); n < n##_end; n++)
#define EACH_BACK(n, N) for (vDSP_Stride n = (vDSP_Stride)(N) - 1; n >= 0; n--)

EXPORT void vDSP_vspdp(const float *A, vDSP_Stride IA, double *C, vDSP_Stride IC, vDSP_Length N) {
    CALLED(vDSP_vspdp);
    EACH(n, N) C[n * IC] = (double)A[n * IA];
}

EXPORT void vDSP_vdpsp(const double *A, vDSP_Stride IA, float *C, vDSP_Stride IC, vDSP_Length N) {
    CALLED(vDSP_vdpsp);
    EACH(n, N) C[n * IC] = (float)A[n * IA];
}

EXPORT void vDSP_maxmgvD(const double *A, vDSP_Stride IA, double *C, vDSP_Length N) {
    double most = 0;
    CALLED(vDSP_maxmgvD);
    EACH(n, N) if (most < fabs(A[n * IA])) most = fabs(A[n * IA]);
    *C = most;
}

EXPORT void vDSP_sveD(const double *A, vDSP_Stride IA, double *C, vDSP_Length N) {
    double sum = 0;
    CALLED(vDSP_sveD);
    EACH_BACK(n, N) sum += A[n * IA];
    *C = sum;
}

EXPORT void vDSP_svesqD(const double *A, vDSP_Stride IA, double *C, vDSP_Length N) {
    double sum = 0;
    CALLED(vDSP_svesqD);
    EACH_BACK(n, N) sum += A[n * IA] * A[n * IA];
    *C = sum;
}

EXPORT void vDSP_dotprD(const double *A, vDSP_Stride IA, const double *B, vDSP_Stride IB, double *C,
                        vDSP_Length N) {
    double sum = 0;
    CALLED(vDSP_dotprD);
    EACH_BACK(n, N) sum += A[n * IA] * B[n * IB];
    *C = sum;
}

EXPORT void vDSP_vsubD(const double *B, vDSP_Stride IB, const double *A, vDSP_Stride IA, double *C,
                       vDSP_Stride IC, vDSP_Length N) {
    CALLED(vDSP_vsubD);
    EACH(n, N) C[n * IC] = A[n * IA] - B[n * IB];
}

/* The float and the double form of a function. */
#define BOTH(TYPE, D)                                                                      \
    EXPORT void vDSP_vsadd##D(const TYPE *A, vDSP_Stride IA, const TYPE *B, TYPE *C,       \
                              vDSP_Stride IC, vDSP_Length N) {                             \
        CALLED(vDSP_vsadd##D);                                                             \
        EACH(n, N) C[n * IC] = A[n * IA] + B[0];                                           \
    }                                                                                      \
    EXPORT void vDSP_vsmsa##D(const TYPE *A, vDSP_Stride IA, const TYPE *B, const TYPE *C, \
                              TYPE *D_, vDSP_Stride ID, vDSP_Length N) {                   \
        CALLED(vDSP_vsmsa##D);                                                             \
        EACH(n, N) D_[n * ID] = A[n * IA] * B[0] + C[0];                                   \
    }                                                                                      \
    EXPORT void vDSP_vsma##D(const TYPE *A, vDSP_Stride IA, const TYPE *B, const TYPE *C,  \
                             vDSP_Stride IC, TYPE *D_, vDSP_Stride ID, vDSP_Length N) {    \
        CALLED(vDSP_vsma##D);                                                              \
        EACH(n, N) D_[n * ID] = A[n * IA] * B[0] + C[n * IC];                              \
    }

BOTH(float, )
BOTH(double, D)

EXPORT void vvrsqrt(double *y, const double *x, const int *n) {
    CALLED(vvrsqrt);
    EACH(i, *n) y[i] = 1 / sqrt(x[i]);
}

/* y = alpha op(A) x + beta y; y is not read where beta is 0. */
EXPORT void cblas_dgemv(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transposed, int M, int N,
                        double alpha, const double *A, int lda, const double *X, int incx,
                        double beta, double *Y, int incy) {
    CALLED(cblas_dgemv);
    int turned = (order == CblasRowMajor) != (transposed == CblasNoTrans);
    int outputs = transposed == CblasNoTrans ? M : N, terms = transposed == CblasNoTrans ? N : M;
    for (ptrdiff_t i = 0; i < outputs; i++) {
        double sum = 0;
        for (ptrdiff_t j = terms - 1; j >= 0; j--)
            sum += A[turned ? j * lda + i : i * lda + j] * X[j * incx];
        Y[i * incy] = beta == 0 ? alpha * sum : alpha * sum + beta * Y[i * incy];
    }
}

/* A += alpha x y'. */
EXPORT void cblas_dger(enum CBLAS_ORDER order, int M, int N, double alpha, const double *X,
                       int incx, const double *Y, int incy, double *A, int lda) {
    CALLED(cblas_dger);
    for (ptrdiff_t i = 0; i < M; i++)
        for (ptrdiff_t j = 0; j < N; j++)
            A[order == CblasRowMajor ? i * lda + j : j * lda + i] +=
                alpha * X[i * incx] * Y[j * incy];
}
