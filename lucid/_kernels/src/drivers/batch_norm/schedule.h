/* In which order the channels of a call are reduced, solved and combined, and on which threads. */
#ifndef LUCID_BATCH_NORM_SCHEDULE_H
#define LUCID_BATCH_NORM_SCHEDULE_H

#include "job.h"

#define GROUP_BYTES 524288 /* of a group of channels; two groups share L2 with what passes by */
#define NARROW 64          /* least columns of a group */

/* In groups of channels, each reduced, solved and written while in cache. Both return -1 if memory
 * ran out: then nothing but outputs may have been written. */
int lucid_run_groups(const job *j);

/* In blocks, parts of channels that are too large for the cache or too few for the threads. */
int lucid_run_blocks(const job *j);

#endif
