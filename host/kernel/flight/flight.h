/* SPDX-License-Identifier: GPL-2.0 */
/* The flight recorder: what its files share. */
#ifndef JIFL_HOST_FLIGHT_H
#define JIFL_HOST_FLIGHT_H

#include <linux/cache.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct file;
struct jifl_file;

/* Memory that a recording is in. */
struct jifl_region {
	void *base;			/* NULL: none. The head is there */
	size_t size;
	u64 physical;			/* of memory that outlives the machine's restart; else 0 */
	size_t mapped;			/* bytes that are mapped of it: `size` may be fewer */
	bool requested;			/* it is this module's among the machine's resources */
};

/* Events of which others know: numbers in the table of event.c. */
#define JIFL_FLIGHT_ENTER	0
#define JIFL_FLIGHT_EXIT	1

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

/* --- image.c: where code lies --------------------------------------------------------------- */

/* Fills the region's table of images, and keeps it up to date until the second. Sleep. */
void jifl_flight_map(const struct jifl_region *region);
void jifl_flight_unmap(void);
/* At load, at the end. The first: 0. Sleep. */
int jifl_flight_map_init(void);
void jifl_flight_map_exit(void);

/* --- write.c: where records go; write.h writes them ----------------------------------------- */

/*
 * Leads CPUs to the region's rings. NULL: away, and nobody writes to the region any more when this
 * returns. Nobody is led by events yet, or any more. Sleeps.
 */
void jifl_flight_lead(const struct jifl_region *region);
/* Is any CPU led there? Any context. */
bool jifl_flight_leads_to(const struct jifl_region *region);

/* --- event.c: what is recorded --------------------------------------------------------------- */

/* Finds the tracepoints of events, and the calls of system calls. 0. At load. */
int jifl_flight_find_events(void);
/* The events, and how many there are. */
const struct jifl_flight_event *jifl_flight_events(u32 *n);
/*
 * From now on these events are recorded, by number, as far as the kernel has them. Those: *mask.
 * nmore: events of programs behind them. 0, or what registering said; then none is. Sleeps.
 */
int jifl_flight_listen(u64 *mask, u32 nmore);
/* Which recording runs, or ran last: from 1 on. Written by request.c, under its lock. */
extern u32 jifl_flight_recording;

/* --- request.c: who asks --------------------------------------------------------------------- */

int jifl_flight_init(void);
void jifl_flight_exit(void);
/* JIFL_IOC_FLIGHT; owner: the file, which `file` has opened. Sleeps. */
int jifl_flight_request(const void *owner, struct file *file, struct jifl_flight *req);
/* The file is closed. Sleeps. */
void jifl_flight_closes(const void *owner);
/* Shows it the recording, if there is one; no request is served meanwhile. Sleeps. */
void jifl_flight_show(void (*what)(const struct jifl_region *region));

/* --- suspend.c: a recording that has stopped, while the machine is suspended ------------------ */

/*
 * rests: nothing is recorded, whatever the time. Not any more: the recording in that region goes
 * on; NULL: it has ended. Process context, under request.c's lock; sleeps.
 */
void jifl_flight_rest(const struct jifl_region *region, bool rests);
/* Does it? As above. */
bool jifl_flight_is_resting(void);
void jifl_flight_suspend_init(void);
void jifl_flight_suspend_exit(void);

#endif
