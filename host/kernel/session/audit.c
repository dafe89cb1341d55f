// SPDX-License-Identifier: GPL-2.0
/*
 * Who instruments this kernel: one line in its log for each session's start
 * and end, and for requests that were refused.
 *
 * Starts and ends are all written: each takes a privileged task and many
 * milliseconds, so they cannot flood, and a trail with gaps would be none.
 * Refusals cost nothing to provoke and are rate-limited; the log says how many
 * were left out. The log rather than the audit subsystem, as it is there on
 * every kernel and needs no daemon; journald and syslog keep it.
 *
 * Ids are those of the first namespaces. auid is who logged in (see
 * pam_loginuid), 4294967295 when nobody did. The command's name is the task's
 * own choice: it stands last, with what cannot be printed escaped, so it cannot
 * pass for another field or line.
 *
 * Process context.
 */
#include <linux/audit.h>
#include <linux/cred.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uidgid.h>

#include "../kernel.h"
#include "../call/tool.h"
#include "audit.h"
#include "session.h"

/* What the lines say of the current task. */
#define WHO_FORMAT	"pid %d uid %u auid %u comm %*pE"

struct jifl_who {
	char comm[TASK_COMM_LEN];
	pid_t pid;
	uid_t uid, auid;
};

static struct jifl_who who(void)
{
	struct jifl_who w = {
		.pid = task_tgid_nr(current),
		.uid = from_kuid(&init_user_ns, current_uid()),
		.auid = from_kuid(&init_user_ns, audit_get_loginuid(current)),
	};

	get_task_comm(w.comm, current);
	return w;
}

#define WHO_ARGS(w)	(w).pid, (w).uid, (w).auid, (int)strlen((w).comm), (w).comm

void jifl_audit_started(const struct jifl_session *s)
{
	const struct jifl_who w = who();

	pr_info("session %llu started: kind %s%s%s targets %u " WHO_FORMAT "\n", s->id,
		s->tool->name, s->tool->is_plugin ? " " : "", s->tool->is_plugin ? s->name : "",
		s->naims, WHO_ARGS(w));
}

void jifl_audit_ended(const struct jifl_session *s)
{
	const struct jifl_who w = who();

	pr_info("session %llu ended: by " WHO_FORMAT "\n", s->id, WHO_ARGS(w));
}

void jifl_audit_refused(const char *what, int err)
{
	const struct jifl_who w = who();

	pr_notice_ratelimited("refused: %s error %d " WHO_FORMAT "\n", what, -err, WHO_ARGS(w));
}
