/* SPDX-License-Identifier: GPL-2.0 */
/* The flight recorder: what its files share. */
#ifndef JIFL_HOST_FLIGHT_H
#define JIFL_HOST_FLIGHT_H

#include <linux/cache.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct jifl_file;

/* Memory that a recording is in. */
struct jifl_region {
	void *base;			/* NULL: none. The head is there */
	size_t size;
	u64 physical;			/* of memory that outlives the machine's restart; else 0 */
	size_t mapped;			/* bytes that are mapped of it: `size` may be fewer */
	bool requested;			/* it is this module's among the machine's resources */
};

/* What events ask on their way. It is written seldom. */
struct jifl_flight_state {
	u64 stop_mask;			/* these events stop it */
	s64 stop_errno;			/* a system call with this result does; 0: none */
	u64 after;			/* ticks that are recorded after that */
	struct jifl_flight_head *head;
};
extern struct jifl_flight_state jifl_flight_state __read_mostly;

/* --- region.c: the memory ------------------------------------------------------------------- */

/*
 * Makes a region of its own of that many records for each CPU, or takes the memory of that name
 * (uapi: jifl_flight.memory). Its head is written but for `magic`. 0; -ENOMEM, -ENXIO, -EEXIST,
 * -EINVAL. Sleeps.
 */
int jifl_region_open(struct jifl_region *region, const char *memory, u32 record_count,
		     const struct jifl_flight_event *events, u32 nevents);
/* Forgets the recording, and gives the memory back. Sleeps. */
void jifl_region_close(struct jifl_region *region);
/*
 * Maps what the memory of that name has. forget: it has none when this returns. 0; -ENXIO; -ENODATA
 * : it is no recording. Sleeps.
 */
int jifl_region_find(struct jifl_region *region, const char *memory, bool forget);
/* What the head has now outlives a reset. Any context. */
void jifl_region_flush_head(const struct jifl_flight_head *head);
/* The same of all of it. It may take a tenth of a second. Any context. */
void jifl_region_flush(const struct jifl_region *region);
/* Undoes that. Sleeps. */
void jifl_region_leave(struct jifl_region *region);

/* --- write.c: records --------------------------------------------------------------------- */

/* Leads CPUs to the region's rings; NULL: away. Nobody records. Sleeps. */
void jifl_flight_lead(const struct jifl_region *region);
/*
 * Records that event. Context: any, preemption off; a region is there until the event's hook is
 * gone.
 */
void jifl_flight_write(u32 event, u64 a, u64 b, u64 c, u64 d, u64 e);
/* It is to stop, for this reason, so many ticks from now. Any context. */
void jifl_flight_trip(enum jifl_flight_stop why, u32 event, u64 after);

/* --- event.c: what is recorded --------------------------------------------------------------- */

/* Finds the tracepoints of events. 0. At load. */
int jifl_flight_find_events(void);
/* The events, and how many there are. */
const struct jifl_flight_event *jifl_flight_events(u32 *n);
/* Are the results of system calls among these? */
bool jifl_flight_has_results(u64 mask);
/*
 * From now on these events are recorded, by number, as far as the kernel has them. Those: *mask. 0,
 * or what registering said; then none is. Sleeps.
 */
int jifl_flight_listen(u64 *mask);

/* --- request.c: who asks --------------------------------------------------------------------- */

int jifl_flight_init(void);
void jifl_flight_exit(void);
/* JIFL_IOC_FLIGHT; owner: the file. Sleeps. */
int jifl_flight_request(const void *owner, struct jifl_flight *req);
/* The file is closed. Sleeps. */
void jifl_flight_closes(const void *owner);

#endif
