/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The requests of /dev/jifl that stand in files of their own. control.c has the table of requests,
 * and calls these under the file's lock, with the request's structure as arg. Each gives 0 or
 * -errno, and sleeps.
 */
#ifndef JIFL_HOST_REQUEST_H
#define JIFL_HOST_REQUEST_H

#include <linux/mutex.h>

struct jifl_session;

struct jifl_file {
	struct mutex lock;		/* outside jifl_session_mutex */
	struct jifl_session *session;	/* running or ended; NULL: never had one */
	struct file *file;		/* of which this is */
};

/* --- start.c --------------------------------------------------------------------------- */

int jifl_start_request(struct jifl_file *f, void *arg);

/* --- read.c ---------------------------------------------------------------------------- */

/* May the task see kernel addresses in an answer? 0, or -errno after one line in the log. */
int jifl_read_may_see(const char *what);

int jifl_read_stat(struct jifl_file *f, void *arg);
int jifl_read_records(struct jifl_file *f, void *arg);
int jifl_read_table(struct jifl_file *f, void *arg);
int jifl_read_hits(struct jifl_file *f, void *arg);
int jifl_read_warm(struct jifl_file *f, void *arg);

/* --- irq.c ----------------------------------------------------------------------------- */

int jifl_irq_request(struct jifl_file *f, void *arg);

#endif
