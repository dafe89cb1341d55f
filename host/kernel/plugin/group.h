/* SPDX-License-Identifier: GPL-2.0 */
/* What group.c and group_member.c share: probes that were started at once. */
#ifndef JIFL_HOST_PLUGIN_GROUP_H
#define JIFL_HOST_PLUGIN_GROUP_H

#include "plugin.h"

struct jifl_probe_call;

enum jifl_member_state { JIFL_MEMBER_RUNS, JIFL_MEMBER_LIFTED, JIFL_MEMBER_STOPPED };

struct jifl_member {
	probe_t *probe;			/* NULL: it has been stopped */
	unsigned int order;		/* of the array */
	u8 state;			/* enum jifl_member_state */
	bool goes;			/* it is being lifted */
};

struct jifl_probe_group {
	struct list_head list;		/* in plugin->probes */
	struct list_head all;		/* in jifl_groups */
	struct jifl_session *session;
	bool doors;
	const struct jifl_probe_call **calls; /* by index in the session */
	u32 n, left;			/* members, and those that are not stopped */
	struct jifl_member members[];	/* in the order of addresses */
};

/* A group of these probes, which is not started. NULL without memory. */
struct jifl_probe_group *jifl_group_alloc(probe_t *probes, u32 n);
void jifl_group_free(struct jifl_probe_group *g);
/*
 * A session for it. doors: its functions have doors where they can. NULL, after a line in the log
 * if a probe is refused: *ret says why. Sleeps.
 */
struct jifl_session *jifl_group_session(struct jifl_probe_group *g, struct jifl_plugin *p,
					bool doors, int *ret);

#endif
