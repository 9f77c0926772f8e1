# The entries of a provider, written over these operations on L1-sized blocks, which the module that
# includes this file defines with the calls of its library (`real` is float or double; `out` may be
# `x`; n is 1 to PART):
#
#     widen(const float *x, size_t n, double *out)
#     narrow(const double *x, size_t n, float *out)
#     largest(const double *x, size_t n)                   largest magnitude; anything if one is NaN
#     total(const double *x, size_t n)                     sum in any order
#     dot(const double *x, const double *y, size_t n)
#     difference(const double *x, const double *y, double *out, size_t n)          x - y
#     shift(const real *x, real c, real *out, size_t n)                            x + c
#     scale_shift(const real *x, real a, real c, real *out, size_t n)              a x + c
#     add_scaled(const real *x, real a, real *out, size_t n)                       out += a x
#     column_sums(const double *a, size_t rows, size_t n, double *out)
#     add_to_rows(const double *v, double sign, double *a, size_t rows, size_t n)  rows += sign v
#
# Sums are taken in double, whatever the order and the width that the library takes them in.
# Columns are turned to rows, block by block, where an operation has one scalar for a column.

cdef enum:
    PART = 512  # elements of a block: stacks may be small
    TALL = 64   # rows of a block of columns that is turned


# ---- sums --------------------------------------------------------------------------------------

# A power of two that splits doubles of at most this magnitude (Rump, Ogita and Oishi, 2008): with
# s = splitter, x = (s + x - s) + rest exactly, and all partial sums of 2048 of the first parts
# are multiples of 2**-53 s below s / 2, hence exact in any order. The rests are below 2**-53 s,
# their sum is off by less than 2**-71 times the largest x. 0 where s would overflow.
cdef inline double splitter(double magnitude) noexcept nogil:
    cdef int exponent = 0
    if not isfinite(magnitude):
        return 0
    frexp(magnitude, &exponent)
    return ldexp(1.0, exponent + 13) if exponent < 1011 else 0


# s + e = a + b, where s is a + b rounded.
cdef inline void two_sum(double a, double b, double *s, double *e) noexcept nogil:
    cdef double t = a + b
    cdef double z = t - a
    e[0] = (a - (t - z)) + (b - z)
    s[0] = t


# The sum of up to PART doubles, or of widened floats: these fill at most half a double.
cdef inline void block_sum(const double *x, size_t n, bint widened, double *hi,
                           double *lo) noexcept nogil:
    cdef double first[PART]
    cdef double rest[PART]
    cdef double s = 0 if widened else splitter(largest(x, n))
    if s == 0:
        hi[0] = total(x, n)
        lo[0] = 0
        return
    shift(x, s, &first[0], n)
    shift(&first[0], -s, &first[0], n)
    difference(x, first, rest, n)
    two_sum(total(first, n), total(rest, n), hi, lo)


cdef inline void accumulate(lucid_sums out, size_t k, double hi, double lo) noexcept nogil:
    cdef double e
    two_sum(out.hi[k], hi, &out.hi[k], &e)
    out.lo[k] += lo + e


# x as doubles: itself, or widened to `buffer`.
cdef inline const double *doubles(const real *x, size_t n, double *buffer) noexcept nogil:
    if real is double:
        return x
    else:
        widen(x, n, buffer)
        return buffer


# Both halves of 64-bit integers come in one row, of up to twice LUCID_BLOCK.
cdef void sum_rows(const real *x, ptrdiff_t step, size_t rows, size_t n, int same,
                   lucid_sums out) noexcept nogil:
    cdef double buffer[PART]
    cdef const real *block
    cdef double hi, lo
    cdef size_t r, i, some
    for r in range(rows):
        i = 0
        while i < n:
            block, some = x + <ptrdiff_t>r * step + <ptrdiff_t>i, min(<size_t>PART, n - i)
            block_sum(doubles(block, some, buffer), some, real is float, &hi, &lo)
            accumulate(out, 0 if same else r, hi, lo)
            i += PART


# The same split as in block_sum, with a splitter for each column.
cdef inline void split_column_sums(const double *x, size_t rows, size_t n, double *hi,
                                   double *lo) noexcept nogil:
    cdef double first[PART]
    cdef double rest[PART]
    cdef double s[PART]
    cdef double a
    cdef size_t r, k
    memset(s, 0, n * sizeof(double))
    for r in range(rows):
        for k in range(n):
            a = fabs(x[r * n + k])
            s[k] = a if a > s[k] else s[k]
    for k in range(n):
        s[k] = splitter(s[k])
    memcpy(first, x, rows * n * sizeof(double))
    add_to_rows(s, 1, first, rows, n)
    add_to_rows(s, -1, first, rows, n)
    difference(x, first, rest, rows * n)
    column_sums(first, rows, n, hi)
    column_sums(rest, rows, n, lo)
    for k in range(n):
        if s[k] == 0:  # not split; an infinite x less itself is no rest
            lo[k] = 0
        else:
            two_sum(hi[k], lo[k], &hi[k], &lo[k])


cdef void sum_cols(const real *x, ptrdiff_t step, size_t rows, size_t n,
                   lucid_sums out) noexcept nogil:
    cdef double block[PART]
    cdef double hi[PART]
    cdef double lo[PART]
    cdef size_t r, c, i, k, some, wide = min(n, <size_t>PART), tall = PART // wide
    c = 0
    while c < n:
        wide = min(wide, n - c)
        r = 0
        while r < rows:
            some = min(tall, rows - r)
            for i in range(some):
                if real is float:
                    widen(x + <ptrdiff_t>(r + i) * step + <ptrdiff_t>c, wide, block + i * wide)
                else:
                    memcpy(block + i * wide, x + <ptrdiff_t>(r + i) * step + <ptrdiff_t>c,
                           wide * sizeof(double))
            if real is float:
                column_sums(block, some, wide, hi)
                memset(lo, 0, wide * sizeof(double))
            else:
                split_column_sums(block, some, wide, hi, lo)
            for k in range(wide):
                accumulate(out, c + k, hi[k], lo[k])
            r += tall
        c += PART


# ---- moments -----------------------------------------------------------------------------------

# Chan, Golub and LeVeque (1979): merge a block, measured from nearly its mean, c; the sum of the
# deviations makes good what c is off.
cdef inline void merge_block(const double *x, size_t n, double c, lucid_moments out,
                             size_t k) noexcept nogil:
    cdef double d[PART]
    cdef double t, rest, m2, delta, count = <double>n, before = out.count[k]
    shift(x, -c, &d[0], n)
    t = total(d, n)
    rest = t / count
    m2 = dot(d, d, n) - t * rest
    if before == 0:
        out.shift[k] = c
    delta = (c - out.shift[k]) + (rest - out.mean[k])
    out.count[k] = before + count
    out.mean[k] += delta * (count / out.count[k])
    out.m2[k] += m2 + delta * delta * (before * count / out.count[k])


cdef void moments_rows(const real *x, ptrdiff_t step, size_t rows, size_t n, int same,
                       lucid_moments out) noexcept nogil:
    cdef double buffer[PART]
    cdef const double *block
    cdef double hi, lo
    cdef size_t r, i, k, some
    for r in range(rows):
        k = 0 if same else r
        i = 0
        while i < n:
            some = min(<size_t>PART, n - i)
            block = doubles(x + <ptrdiff_t>r * step + <ptrdiff_t>i, some, buffer)
            block_sum(block, some, real is float, &hi, &lo)
            accumulate(out.sums, k, hi, lo)
            merge_block(block, some, hi / <double>some, out, k)
            i += PART


# out[k, i] = x[i, k], and back.
cdef inline void turn(const real *x, ptrdiff_t step, size_t rows, size_t n,
                      number *out) noexcept nogil:
    cdef size_t i, k
    for i in range(rows):
        for k in range(n):
            out[k * rows + i] = x[<ptrdiff_t>i * step + <ptrdiff_t>k]


cdef inline void turn_back(const number *x, size_t rows, size_t n, real *out,
                           ptrdiff_t step) noexcept nogil:
    cdef size_t i, k
    for i in range(rows):
        for k in range(n):
            out[<ptrdiff_t>i * step + <ptrdiff_t>k] = <real>x[k * rows + i]


cdef void moments_cols(const real *x, ptrdiff_t step, size_t rows, size_t n,
                       lucid_moments out) noexcept nogil:
    cdef double block[PART]
    cdef size_t r, c, k, some, wide, tall = min(rows, <size_t>TALL), width = PART // tall
    sum_cols(x, step, rows, n, out.sums)
    r = 0
    while r < rows:
        some = min(tall, rows - r)
        c = 0
        while c < n:
            wide = min(width, n - c)
            turn(x + <ptrdiff_t>r * step + <ptrdiff_t>c, step, some, wide, &block[0])
            for k in range(wide):
                merge_block(block + k * some, some, total(block + k * some, some) / <double>some,
                            out, c + k)
            c += width
        r += tall


# ---- channel sums ------------------------------------------------------------------------------

# Operands that the entries of an order read: x; x and g; x, g and v.
cdef inline int order_of(const lucid_tile *tile) noexcept nogil:
    return 0 if tile.inputs[1] == NULL else 1 if tile.inputs[2] == NULL else 2


# Add the terms of n elements, `apart` from each other.
cdef inline void add_terms(const double *x, const double *g, const double *v, size_t n,
                           double about, int order, double *sums, size_t apart) noexcept nogil:
    cdef double d[PART]
    shift(x, -about, &d[0], n)
    if order == 0:
        sums[0] += total(d, n)
        sums[apart] += dot(d, d, n)
    elif order == 1:
        sums[0] += total(g, n)
        sums[apart] += dot(g, d, n)
        sums[2 * apart] += total(d, n)
    else:
        sums[0] += total(g, n)
        sums[apart] += total(v, n)
        sums[2 * apart] += dot(g, d, n)
        sums[3 * apart] += dot(v, d, n)
        sums[4 * apart] += dot(v, g, n)


# Everything goes to the first of a row's lanes.
cdef inline void channel_sums_rows(const real *x, const lucid_tile *tile, const double *about,
                                   double *sums) noexcept nogil:
    cdef double buffer[3][PART]
    cdef const real *rows[3]
    cdef const double *at[3]
    cdef int k, order = order_of(tile)
    cdef size_t r, i, n, terms = 2 if order == 0 else 3 if order == 1 else LUCID_TERMS
    for r in range(tile.rows):
        for k in range(order + 1):
            rows[k] = <const real *>tile.inputs[k] + <ptrdiff_t>r * tile.in_step[k]
        i = 0
        while i < tile.n:
            n = min(<size_t>PART, tile.n - i)
            for k in range(order + 1):
                at[k] = doubles(rows[k] + i, n, buffer[k])
            add_terms(at[0], at[1], at[2], n, about[r], order, sums + r * terms * LUCID_LANES,
                      LUCID_LANES)
            i += PART


cdef inline void channel_sums_cols(const real *x, const lucid_tile *tile, const double *about,
                                   double *sums, size_t pitch) noexcept nogil:
    cdef double block[3][PART]
    cdef int j, order = order_of(tile)
    cdef size_t r, c, k, some, wide
    cdef size_t tall = min(tile.rows, <size_t>TALL), width = PART // tall
    r = 0
    while r < tile.rows:
        some = min(tall, tile.rows - r)
        c = 0
        while c < tile.n:
            wide = min(width, tile.n - c)
            for j in range(order + 1):
                turn(<const real *>tile.inputs[j] + <ptrdiff_t>r * tile.in_step[j] + <ptrdiff_t>c,
                     tile.in_step[j], some, wide, &block[j][0])
            for k in range(wide):
                add_terms(block[0] + k * some, block[1] + k * some, block[2] + k * some, some,
                          about[c + k], order, sums + c + k, pitch)
            c += width
        r += tall


# ---- channel affine ----------------------------------------------------------------------------

# The outputs y and z of up to PART elements, where wanted.
cdef inline void combine(const number *x, const number *g, const number *v, number *y, number *z,
                         size_t n, const number *q, int order) noexcept nogil:
    cdef number d[PART]
    shift(x, -q[0], &d[0], n)
    if y != NULL:
        scale_shift(&d[0], q[1] if order == 0 else q[2], q[2] if order == 0 else q[3], y, n)
        if order > 0:
            add_scaled(g if order == 1 else v, q[1], y, n)
    if z != NULL:
        scale_shift(&d[0], q[6], q[7], z, n)
        add_scaled(v, q[5], z, n)
        add_scaled(g, q[4], z, n)


cdef inline void gather(const number *coefficients, size_t pitch, int order,
                        number *q) noexcept nogil:
    cdef int k
    for k in range(3 if order == 0 else 4 if order == 1 else 8):
        q[k] = coefficients[<size_t>k * pitch]


# n elements of the operands at `x`, through buffers where they are computed wider than kept.
cdef inline void affine_run(const real **x, real **out, size_t n, const number *q,
                            int order) noexcept nogil:
    cdef number read[3][PART]
    cdef number written[2][PART]
    cdef int k
    if real is float and number is double:
        for k in range(order + 1):
            widen(x[k], n, read[k])
        combine(&read[0][0], &read[1][0], &read[2][0], written[0] if out[0] != NULL else NULL,
                written[1] if out[1] != NULL else NULL, n, q, order)
        for k in range(2):
            if out[k] != NULL:
                narrow(written[k], n, out[k])
    elif real is number:
        combine(x[0], x[1], x[2], out[0], out[1], n, q, order)


cdef inline void channel_affine_rows(const real *_, const lucid_tile *tile,
                                     const number *coefficients, size_t pitch) noexcept nogil:
    cdef const real *x[3]
    cdef real *out[2]
    cdef number q[8]
    cdef int k, order = order_of(tile)
    cdef ptrdiff_t at
    cdef size_t r, i
    for r in range(tile.rows):
        gather(coefficients + r, pitch, order, q)
        i = 0
        while i < tile.n:
            for k in range(order + 1):
                at = <ptrdiff_t>r * tile.in_step[k] + <ptrdiff_t>i
                x[k] = <const real *>tile.inputs[k] + at
            for k in range(2):
                at = <ptrdiff_t>r * tile.out_step[k] + <ptrdiff_t>i
                out[k] = <real *>tile.out[k] + at if tile.out[k] != NULL else NULL
            affine_run(x, out, min(<size_t>PART, tile.n - i), q, order)
            i += PART


cdef inline void channel_affine_cols(const real *_, const lucid_tile *tile,
                                     const number *coefficients, size_t pitch) noexcept nogil:
    cdef number read[3][PART]
    cdef number written[2][PART]
    cdef number q[8]
    cdef int j, order = order_of(tile)
    cdef size_t r, c, k, some, wide
    cdef size_t tall = min(tile.rows, <size_t>TALL), width = PART // tall
    r = 0
    while r < tile.rows:
        some = min(tall, tile.rows - r)
        c = 0
        while c < tile.n:
            wide = min(width, tile.n - c)
            for j in range(order + 1):
                turn(<const real *>tile.inputs[j] + <ptrdiff_t>r * tile.in_step[j] + <ptrdiff_t>c,
                     tile.in_step[j], some, wide, &read[j][0])
            for k in range(wide):
                gather(coefficients + c + k, pitch, order, q)
                combine(read[0] + k * some, read[1] + k * some, read[2] + k * some,
                        written[0] + k * some if tile.out[0] != NULL else NULL,
                        written[1] + k * some if tile.out[1] != NULL else NULL, some, q, order)
            for j in range(2):
                if tile.out[j] != NULL:
                    turn_back(written[j], some, wide,
                              <real *>tile.out[j] + <ptrdiff_t>r * tile.out_step[j] + <ptrdiff_t>c,
                              tile.out_step[j])
            c += width
        r += tall


# ---- the table ---------------------------------------------------------------------------------

cdef void sums_rows_f32(const lucid_tile *tile, const double *about, double *sums,
                        size_t pitch) noexcept nogil:
    channel_sums_rows(<const float *>NULL, tile, about, sums)


cdef void sums_rows_f64(const lucid_tile *tile, const double *about, double *sums,
                        size_t pitch) noexcept nogil:
    channel_sums_rows(<const double *>NULL, tile, about, sums)


cdef void sums_cols_f32(const lucid_tile *tile, const double *about, double *sums,
                        size_t pitch) noexcept nogil:
    channel_sums_cols(<const float *>NULL, tile, about, sums, pitch)


cdef void sums_cols_f64(const lucid_tile *tile, const double *about, double *sums,
                        size_t pitch) noexcept nogil:
    channel_sums_cols(<const double *>NULL, tile, about, sums, pitch)


cdef void affine_rows_f32(const lucid_tile *tile, const void *q, size_t pitch) noexcept nogil:
    channel_affine_rows(<const float *>NULL, tile, <const float *>q, pitch)


cdef void affine_rows_f64(const lucid_tile *tile, const void *q, size_t pitch) noexcept nogil:
    channel_affine_rows(<const double *>NULL, tile, <const double *>q, pitch)


cdef void affine_rows_wide(const lucid_tile *tile, const void *q, size_t pitch) noexcept nogil:
    channel_affine_rows(<const float *>NULL, tile, <const double *>q, pitch)


cdef void affine_cols_f32(const lucid_tile *tile, const void *q, size_t pitch) noexcept nogil:
    channel_affine_cols(<const float *>NULL, tile, <const float *>q, pitch)


cdef void affine_cols_f64(const lucid_tile *tile, const void *q, size_t pitch) noexcept nogil:
    channel_affine_cols(<const double *>NULL, tile, <const double *>q, pitch)


cdef void affine_cols_wide(const lucid_tile *tile, const void *q, size_t pitch) noexcept nogil:
    channel_affine_cols(<const float *>NULL, tile, <const double *>q, pitch)


# Replace the entries of a simd table that this provider serves. Its fused entries would take sums
# and affine combinations away from these.
cdef void fill(lucid_kernels *table) noexcept nogil:
    cdef int order
    table.f32.sum_rows, table.f64.sum_rows = sum_rows[float], sum_rows[double]
    table.f32.sum_cols, table.f64.sum_cols = sum_cols[float], sum_cols[double]
    table.f32.moments_rows, table.f64.moments_rows = moments_rows[float], moments_rows[double]
    table.f32.moments_cols, table.f64.moments_cols = moments_cols[float], moments_cols[double]
    table.compensated = table.f32
    for order in range(3):
        table.channel_f32.sums_rows[order] = sums_rows_f32
        table.channel_f64.sums_rows[order] = sums_rows_f64
        table.channel_f32.sums_cols[order] = sums_cols_f32
        table.channel_f64.sums_cols[order] = sums_cols_f64
        table.channel_f32.affine_rows[order] = affine_rows_f32
        table.channel_f64.affine_rows[order] = affine_rows_f64
        table.channel_wide.affine_rows[order] = affine_rows_wide
        table.channel_f32.affine_cols[order] = affine_cols_f32
        table.channel_f64.affine_cols[order] = affine_cols_f64
        table.channel_wide.affine_cols[order] = affine_cols_wide
        table.channel_f32.fused_rows[order] = NULL
        table.channel_f64.fused_rows[order] = NULL
        table.channel_wide.fused_rows[order] = NULL
