#include "memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <malloc.h>
#else
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* In front of the memory handed out, of one cache line, so that alignment is kept. */
typedef struct block {
    size_t capacity;
    struct block *older, *newer;
} block;

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static block *newest, *oldest;
static size_t cached, limit;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void) {
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
#if !defined(_WIN32)
        sched_yield();
#endif
    }
}

static void unlock(void) {
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static void *system_take(size_t bytes) {
#if defined(_WIN32)
    return _aligned_malloc(bytes, ALIGNMENT);
#else
    void *memory = NULL;
    if (posix_memalign(&memory, bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT, bytes)) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* Fewer, larger faults on the first touch; a refusal changes nothing but speed. */
    if (bytes >= HUGE_PAGE) (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
#endif
}

static void system_give(block *list) {
    while (list) {
        block *next = list->older;
#if defined(_WIN32)
        _aligned_free(list);
#else
        free(list);
#endif
        list = next;
    }
}

static void unlink_block(block *b) {
    *(b->newer ? &b->newer->older : &newest) = b->older;
    *(b->older ? &b->older->newer : &oldest) = b->newer;
    cached -= b->capacity;
}

/* Take blocks out, oldest first, until at most `bytes` are cached; returns them as a list. */
static block *evict(size_t bytes) {
    block *out = NULL;
    while (cached > bytes) {
        block *b = oldest;
        unlink_block(b);
        b->older = out;
        out = b;
    }
    return out;
}

void *lucid_memory_take(size_t size) {
    if (size > SIZE_MAX - ALIGNMENT) return NULL;
    block *best = NULL;
    lock();
    /* The closest fit that wastes at most an eighth. */
    for (block *b = newest; b; b = b->older)
        if (b->capacity >= size && b->capacity - size <= size / 8 &&
            (!best || b->capacity < best->capacity))
            best = b;
    if (best) unlink_block(best);
    unlock();
    if (!best) {
        best = system_take(size + ALIGNMENT);
        if (!best) return NULL;
        best->capacity = size;
    }
    return (char *)best + ALIGNMENT;
}

void lucid_memory_give(void *memory) {
    if (!memory) return;
    block *b = (block *)((char *)memory - ALIGNMENT), *out;
    lock();
    if (b->capacity <= limit) {
        b->newer = NULL;
        b->older = newest;
        *(newest ? &newest->newer : &oldest) = b;
        newest = b;
        cached += b->capacity;
        out = evict(limit);
    } else {
        b->older = NULL;
        out = b;
    }
    unlock();
    system_give(out);
}

void *lucid_memory_resize(void *memory, size_t size) {
    if (!memory) return lucid_memory_take(size);
    size_t capacity = ((block *)((char *)memory - ALIGNMENT))->capacity;
    if (size <= capacity && size >= capacity / 2) return memory;
    void *moved = lucid_memory_take(size);
    if (!moved) return NULL;
    memcpy(moved, memory, size < capacity ? size : capacity);
    lucid_memory_give(memory);
    return moved;
}

void lucid_memory_set_limit(size_t bytes) {
    lock();
    limit = bytes;
    block *out = evict(bytes);
    unlock();
    system_give(out);
}

void lucid_memory_clear(void) {
    lock();
    block *out = evict(0);
    unlock();
    system_give(out);
}

size_t lucid_memory_limit(void) {
    lock();
    size_t bytes = limit;
    unlock();
    return bytes;
}

size_t lucid_memory_cached(void) {
    lock();
    size_t bytes = cached;
    unlock();
    return bytes;
}

void lucid_memory_init(size_t bytes) {
    static atomic_int ready = 0;
    lucid_memory_set_limit(bytes);
    if (atomic_exchange(&ready, 1)) return;
#if !defined(_WIN32)
    /* A child forked while another thread holds the lock must find it free. */
    pthread_atfork(lock, unlock, unlock);
#endif
}
