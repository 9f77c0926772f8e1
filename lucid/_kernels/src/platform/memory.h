/* Memory of large results: aligned, and kept for the next one of its size.
 *
 * The first touch of a page costs more than all that a kernel does with it. Blocks that results
 * gave back stay in a cache, bounded in bytes, and are handed out again; the least recently used
 * leave first. Every function may be called from any thread, with or without the GIL. */
#ifndef LUCID_MEMORY_H
#define LUCID_MEMORY_H

#include <stddef.h>

/* At least `size` bytes, aligned to 64; NULL if there is no memory. */
void *lucid_memory_take(size_t size);
void lucid_memory_give(void *memory);
/* The same memory grown or shrunk; NULL, and the old one kept, if there is none. */
void *lucid_memory_resize(void *memory, size_t size);

/* Give all cached blocks back to the system. */
void lucid_memory_clear(void);
/* Set the bound of the cache, and cut it to that. */
void lucid_memory_set_limit(size_t bytes);
size_t lucid_memory_limit(void);
size_t lucid_memory_cached(void);

void lucid_memory_init(size_t limit);

#endif
