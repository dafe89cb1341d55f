/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a session does, as sessions know it. Tools stand in rooms above session/, so a session is
 * given this structure by the room that makes it.
 */
#ifndef JIFL_HOST_TOOL_H
#define JIFL_HOST_TOOL_H

#include <linux/types.h>

struct ir_insert;
struct jifl_aim;
struct jifl_session;

struct jifl_tool {
	/*
	 * Makes what s needs, and sets s->instrument and its argument. 0; -EALREADY with
	 * *busy_session set when another session has the rings; -ENOMEM; -EINVAL. What was made
	 * before an error goes with close. Under jifl_session_mutex; sleeps.
	 */
	int (*open)(struct jifl_session *s, u64 *busy_session);
	/* Called when no inserted code of s is left. NULL: nothing was made. Sleeps. */
	void (*close)(struct jifl_session *s);
	/*
	 * Inserts at the entry and the exit of the aim's target: fills JIFL_ENTRY_INSERTS each at
	 * most. Under jifl_entry_lock.
	 */
	void (*entry)(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit);
};

#endif
