/* What lucid uses of Apple's Accelerate, declared as its documentation does, to build and test the
 * provider where there is no such framework. It only stands in for the framework's header. */
#ifndef LUCID_SHIM_ACCELERATE_H
#define LUCID_SHIM_ACCELERATE_H

typedef unsigned long vDSP_Length;
typedef long vDSP_Stride;

/* Type conversion. */
void vDSP_vspdp(const float *__A, vDSP_Stride __IA, double *__C, vDSP_Stride __IC, vDSP_Length __N);
void vDSP_vdpsp(const double *__A, vDSP_Stride __IA, float *__C, vDSP_Stride __IC, vDSP_Length __N);

/* Reductions. */
void vDSP_maxmgvD(const double *__A, vDSP_Stride __IA, double *__C, vDSP_Length __N);
void vDSP_sveD(const double *__A, vDSP_Stride __IA, double *__C, vDSP_Length __N);
void vDSP_svesqD(const double *__A, vDSP_Stride __IA, double *__C, vDSP_Length __N);
void vDSP_dotprD(const double *__A, vDSP_Stride __IA, const double *__B, vDSP_Stride __IB,
                 double *__C, vDSP_Length __N);

/* Elementwise. */
void vDSP_vsubD(const double *__B, vDSP_Stride __IB, const double *__A, vDSP_Stride __IA,
                double *__C, vDSP_Stride __IC, vDSP_Length __N);
void vDSP_vsadd(const float *__A, vDSP_Stride __IA, const float *__B, float *__C, vDSP_Stride __IC,
                vDSP_Length __N);
void vDSP_vsaddD(const double *__A, vDSP_Stride __IA, const double *__B, double *__C,
                 vDSP_Stride __IC, vDSP_Length __N);
void vDSP_vsmsa(const float *__A, vDSP_Stride __IA, const float *__B, const float *__C, float *__D,
                vDSP_Stride __ID, vDSP_Length __N);
void vDSP_vsmsaD(const double *__A, vDSP_Stride __IA, const double *__B, const double *__C,
                 double *__D, vDSP_Stride __ID, vDSP_Length __N);
void vDSP_vsma(const float *__A, vDSP_Stride __IA, const float *__B, const float *__C,
               vDSP_Stride __IC, float *__D, vDSP_Stride __ID, vDSP_Length __N);
void vDSP_vsmaD(const double *__A, vDSP_Stride __IA, const double *__B, const double *__C,
                vDSP_Stride __IC, double *__D, vDSP_Stride __ID, vDSP_Length __N);

/* vForce. */
void vvrsqrt(double *y, const double *x, const int *n);

/* cblas, with the types of ACCELERATE_NEW_LAPACK. */
typedef int __LAPACK_int;
enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112, CblasConjTrans = 113 };

void cblas_dgemv(enum CBLAS_ORDER ORDER, enum CBLAS_TRANSPOSE TRANSA, __LAPACK_int M,
                 __LAPACK_int N, double ALPHA, const double *A, __LAPACK_int LDA, const double *X,
                 __LAPACK_int INCX, double BETA, double *Y, __LAPACK_int INCY);
void cblas_dger(enum CBLAS_ORDER ORDER, __LAPACK_int M, __LAPACK_int N, double ALPHA,
                const double *X, __LAPACK_int INCX, const double *Y, __LAPACK_int INCY, double *A,
                __LAPACK_int LDA);

#endif
