/* Which loops of a plan are a tile, which are dealt to tasks, which is cut in parts.
 *
 * Kept loops, from the innermost outwards, form a tile of at most LUCID_COLUMNS outputs; the first
 * that does not fit is cut in chunks, and those outside it are dealt to tasks. Where that leaves
 * few tasks, one reduced loop is cut in parts, each with a tile of its own, and the parts are
 * merged in order. All of this follows from the shape alone, never from the number of threads. */
#include "job.h"

enum {
    TASK_ELEMENTS = 65536,  /* enough to be worth a task */
    PART_ELEMENTS = 131072, /* enough to be worth merging */
    MANY_TASKS = 64,        /* enough tasks for any machine */
    FEW_PARTS = 16,         /* as few as a reduced loop may give, if another gives more */
    PARTS_MEMORY = 262144,  /* bytes that the tiles of all parts may take */
};

static int is_wide(lucid_type type) {
    return type == LUCID_FLOAT64 || type >= LUCID_INT32;
}

static void set_loop(loop *l, const lucid_plan *p, int i, size_t tile) {
    l->length = p->length[i];
    l->x = p->stride[0][i];
    l->out = p->stride[1][i];
    l->tile = tile;
    l->reduced = p->reduced[i];
}

/* Tile, chunks and outer loops. */
static void deal_kept(job *j, const lucid_plan *p, size_t reduced) {
    loop *const end = j->outer + LUCID_MAX_NDIM, *first = end, *cut = NULL;
    int left = 0; /* reduced loops still further out */
    j->tile = j->chunks = j->tasks = 1;
    for (int i = 0; i < p->ndim; i++)
        left += p->reduced[i];
    for (int i = p->ndim - 1; i >= 0; i--) {
        if (p->reduced[i]) {
            left--;
            set_loop(--first, p, i, 0);
            continue;
        }
        size_t length = (size_t)p->length[i];
        if (cut) {
            set_loop(&j->outer[j->nouter++], p, i, 0);
            j->tasks *= length;
            continue;
        }
        int outermost = !left && first < end; /* may be cut without a walk being broken */
        size_t outputs = j->tile * length;
        set_loop(--first, p, i, j->tile);
        if (outputs > LUCID_COLUMNS || (outermost && outputs * reduced > TASK_ELEMENTS)) {
            size_t room = LUCID_COLUMNS / j->tile;
            if (outermost)
                room = least(room, TASK_ELEMENTS / least(TASK_ELEMENTS, j->tile * reduced));
            cut = first;
            j->chunk = (ptrdiff_t)room;
            j->chunks = (length + room - 1) / room;
            j->tasks *= j->chunks;
            j->tile *= room;
        } else {
            j->tile = outputs;
        }
    }
    j->loops = first;
    j->ndim = (int)(end - first);
    j->cut = cut ? (int)(cut - first) : -1;
    for (int i = 0; i < j->nouter / 2; i++) {
        loop l = j->outer[i];
        j->outer[i] = j->outer[j->nouter - 1 - i];
        j->outer[j->nouter - 1 - i] = l;
    }
}

/* Parts, where the tasks are few and large. */
static void deal_reduced(job *j, size_t reduced) {
    j->parts = 1;
    j->parted = -1;
    if (j->tile * reduced < 2 * PART_ELEMENTS) return;
    size_t want = (MANY_TASKS + j->tasks - 1) / j->tasks;
    want = least(want, j->tile * reduced / PART_ELEMENTS);
    want = least(want, PARTS_MEMORY / (j->tasks * j->tile * j->fields * sizeof(double)));
    if (want < 2) return;
    int best = -1; /* the outermost, unless it is too short */
    for (int i = 0; i < j->ndim; i++) {
        if (!j->loops[i].reduced) continue;
        if (best < 0 || j->loops[i].length > j->loops[best].length) best = i;
        if (j->loops[best].length >= FEW_PARTS) break;
    }
    size_t length = (size_t)j->loops[best].length;
    size_t part = (length + want - 1) / want;
    if (best == j->ndim - 1) part = (part + LUCID_BLOCK - 1) / LUCID_BLOCK * LUCID_BLOCK;
    j->part = (ptrdiff_t)part;
    j->parts = (length + part - 1) / part;
    j->parted = best;
}

static int takes_directly(const job *j) {
    const lucid_reduction *r = j->r;
    if (r->swap || r->type > LUCID_FLOAT64) return 0;
    ptrdiff_t bits = (ptrdiff_t)(uintptr_t)(r->x + r->plan.offset[0]);
    for (int i = 0; i < r->plan.ndim; i++)
        bits |= r->plan.stride[0][i];
    return bits % j->itemsize == 0 && j->loops[j->ndim - 1].x == j->itemsize;
}

/* The loop to run beside the innermost: its neighbour for rows, the nearest reduced one for
 * columns. */
static int find_partner(const job *j) {
    int i = j->ndim - 2;
    if (!j->loops[j->ndim - 1].reduced)
        while (i >= 0 && !j->loops[i].reduced)
            i--;
    return i;
}

void lucid_reduce_deal(job *j) {
    const lucid_plan *p = &j->r->plan;
    size_t reduced = 1;
    j->nouter = 0;
    j->elements = 1;
    j->wide = is_wide(j->r->type);
    j->itemsize = (ptrdiff_t)lucid_item_size(j->r->type);
    for (int i = 0; i < p->ndim; i++) {
        if (p->reduced[i]) reduced *= (size_t)p->length[i];
        j->elements *= (size_t)p->length[i];
    }
    deal_kept(j, p, reduced);
    if (j->ndim == 0) {
        j->loops = j->outer;
        j->loops[0] = (loop){1, j->itemsize, 0, 0, 1};
        j->ndim = 1;
    }
    deal_reduced(j, reduced);
    j->few = j->elements <= LUCID_FEW;
    j->partner = find_partner(j);
    j->direct = takes_directly(j);
}
