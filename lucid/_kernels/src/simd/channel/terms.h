/* What channel entries compute of an element, and the sizes they compute it in. The macros read the
 * parameters of channel.h where they are used. */
#ifndef LUCID_CHANNEL_TERMS_H
#define LUCID_CHANNEL_TERMS_H

#define vw NAME(vw) /* a vector of WORK, and one of BITS */
#define vb NAME(vb)
#define LOAD NAME(load)
#define STORE NAME(store)
#define SET(s) ((WORK)(s) - (vw){0})

#define VW (VBYTES / (int)sizeof(WORK))
#define NV (LUCID_LANES / VW)
#define ND (LUCID_LANES / VD)
#define DOUBLES (sizeof(WORK) == 4 ? 2 : 1) /* vectors of double that hold the elements of a vw */
#define CHUNK (LUCID_CHAIN * LUCID_LANES)
#define LINE (64 / (int)sizeof(TYPE))
#define LINE_VECTORS (LINE / VW)
#define LEAD (4096 / (int)sizeof(TYPE)) /* elements from what is summed to what is asked for */
#define STREAMS (sizeof(TYPE) == sizeof(WORK)) /* can lines be stored past the cache? */

/* ---- Sums ---- */

#define TERMS(order) ((order) == 2 ? LUCID_TERMS : 2)

/* u += the terms of an element or a vector of elements. */
#define ADD_TERMS(u, d, g, v, order) \
    do {                             \
        if ((order) == 0) {          \
            (u)[0] += (d);           \
            (u)[1] += (d) * (d);     \
        } else {                     \
            (u)[0] += (g);           \
            if ((order) == 1) {      \
                (u)[1] += (g) * (d); \
            } else {                 \
                (u)[1] += (v);       \
                (u)[2] += (g) * (d); \
                (u)[3] += (v) * (d); \
                (u)[4] += (v) * (g); \
            }                        \
        }                            \
    } while (0)

/* The sums of order 1 are gradients themselves, and may cancel: they are taken in double
 * throughout, for a tenth of the time of a backward pass. */
#define EXACT(order) ((order) == 1 && sizeof(WORK) == 4)

/* ---- Affine ---- */

#define COEFFICIENTS(order) ((order) == 0 ? 3 : (order) == 1 ? 4 : 8)

/* Outputs of an element or a vector of elements. */
#define FIRST(x, g, v, q, order)                                         \
    ((order) == 0   ? ((x) - (q)[0]) * (q)[1] + (q)[2]                   \
     : (order) == 1 ? (q)[1] * (g) + ((q)[2] * ((x) - (q)[0]) + (q)[3])  \
                    : (q)[1] * (v) + ((q)[2] * ((x) - (q)[0]) + (q)[3]))
#define SECOND(x, g, v, q) (((q)[4] * (g) + (q)[5] * (v)) + ((q)[6] * ((x) - (q)[0]) + (q)[7]))

#endif
