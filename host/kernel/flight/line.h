/* SPDX-License-Identifier: GPL-2.0 */
/* Records that inserted code writes itself (line.c). */
#ifndef JIFL_HOST_FLIGHT_LINE_H
#define JIFL_HOST_FLIGHT_LINE_H

#include <linux/types.h>

struct jifl_flight_head;

/* At load. */
void jifl_flight_lines_init(void);
/* Of this recording's events there may be cells; it has begun. Sleeps. */
void jifl_flight_lines_begin(u32 recording, const struct jifl_flight_head *head);
/* From now on inserted code records these events, as far as it may. Sleeps. */
void jifl_flight_lines_lead(u64 mask);
/* It records none of them, whatever it may; not any more. Sleeps. */
void jifl_flight_lines_rest(bool rests);
/* No cell leads there any more; nobody waits for who has asked one before. Sleeps. */
void jifl_flight_lines_end(void);
/* Does a cell lead there? Any context. */
bool jifl_flight_lines_lead_to(const struct jifl_flight_head *head);

#endif
