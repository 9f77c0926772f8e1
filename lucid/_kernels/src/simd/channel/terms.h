/* What channel entries compute of an element, and the sizes they compute it in. The macros read the
 * parameters of channel.h where they are used. */
#ifndef LUCID_CHANNEL_TERMS_H
#define LUCID_CHANNEL_TERMS_H

#define vw NAME(vw) /* a vector of WORK */
#define LOAD NAME(load)
#define STORE NAME(store)
#define DOUBLES NAME(doubles)
#define SET(s) ((WORK)(s) - (vw){0})

#define VW (VBYTES / (int)sizeof(WORK))
#define ND (LUCID_LANES / VD)
#define CHUNK (LUCID_CHAIN * LUCID_LANES)
#define LINE (64 / (int)sizeof(TYPE))
#define LINE_VECTORS (LINE / VW)
#define LEAD (4096 / (int)sizeof(TYPE)) /* elements from what is summed to what is asked for */
#define STREAMS (sizeof(TYPE) == sizeof(WORK)) /* can lines be stored past the cache? */

/* ---- Sums ---- */

#define TERMS(order) ((order) == 0 ? 2 : (order) == 1 ? 3 : LUCID_TERMS)

/* Vectors of lanes that are summed together: their sums are to stay in registers. */
#define TOGETHER(order) ((order) == 2 ? 2 : ND < 4 ? ND : 4)

/* As masks, the end of none to all of the lanes. */
static const int64_t last_lanes[2 * LUCID_LANES] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                                    0,  0,  0,  0,  0,  -1, -1, -1, -1, -1, -1,
                                                    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/* u += the terms of an element or a vector of elements, in double; PLUS adds two of these. */
#define ADD_TERMS(PLUS, u, d, g, v, order)  \
    do {                                    \
        if ((order) == 0) {                 \
            (u)[0] = PLUS((d), (u)[0]);     \
            (u)[1] += (d) * (d);            \
        } else {                            \
            (u)[0] = PLUS((g), (u)[0]);     \
            if ((order) == 1) {             \
                (u)[1] += (g) * (d);        \
                (u)[2] = PLUS((d), (u)[2]); \
            } else {                        \
                (u)[1] = PLUS((v), (u)[1]); \
                (u)[2] += (g) * (d);        \
                (u)[3] += (v) * (d);        \
                (u)[4] += (v) * (g);        \
            }                               \
        }                                   \
    } while (0)

/* ---- Affine ---- */

#define COEFFICIENTS(order) ((order) == 0 ? 3 : (order) == 1 ? 4 : 8)

/* Outputs of an element or a vector of elements. */
#define FIRST(x, g, v, q, order)                                         \
    ((order) == 0   ? ((x) - (q)[0]) * (q)[1] + (q)[2]                   \
     : (order) == 1 ? (q)[1] * (g) + ((q)[2] * ((x) - (q)[0]) + (q)[3])  \
                    : (q)[1] * (v) + ((q)[2] * ((x) - (q)[0]) + (q)[3]))
#define SECOND(x, g, v, q) (((q)[4] * (g) + (q)[5] * (v)) + ((q)[6] * ((x) - (q)[0]) + (q)[7]))

#endif
