// SPDX-License-Identifier: GPL-2.0
/*
 * JIFL_IOC_FLIGHT: begins, reads and ends the recording, of which there is one. It belongs to the
 * module; without `keep` it ends with the file that has begun it.
 *
 * 1. Events come when the rings are there, and go before these. Nobody writes to memory that is
 *    given back (write.h, 5).
 * 2. A reader copies memory that is being written: records tell whether they are whole (write.h).
 * 3. At a panic the recording goes on. If the kernel comes to its notifiers the head says that
 *    there was one. With a crash kernel it mostly does not: that is started before them.
 * 4. Reading may wait for memory of the caller's. Who closes another file does not wait for that.
 * 5. An event of programs is added first, because programs have its number, and is not recorded
 *    yet. Then its session begins, then its file is held, and from then on it is recorded. If one
 *    of these fails, nothing has to be taken back: an event that nobody records stays in the table,
 *    and the same one is found there. If another recording has begun meanwhile, its number differs:
 *    the file is not held, and programs write nothing to that recording (event.c).
 *
 * Context: process, under jifl_flight_mutex; sleeps.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/pid.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/moment.h"
#include "../session/audit.h"
#include "../session/require.h"
#include "flight.h"
#include "line.h"
#include "trigger.h"

#define JIFL_FLIGHT_LEAST	64
#define JIFL_FLIGHT_MOST	(1u << 24)
/* Of after_ns: the product with any rate of a counter has room. */
#define JIFL_FLIGHT_AFTER_MOST	(24 * 3600 * (u64)NSEC_PER_SEC)
#define JIFL_FLIGHT_COPY_MOST	(1ull << 30)

static DEFINE_MUTEX(jifl_flight_mutex);
static struct jifl_region jifl_flight_region;
static const void *jifl_flight_owner;	/* NULL: it is kept */
/* The head, while the recording is whole: what a panic looks at. */
static struct jifl_flight_head *jifl_flight_alive;
static u32 jifl_flight_nmore;		/* events of programs */
static struct file *jifl_flight_held[JIFL_FLIGHT_HOLDS];

static struct jifl_flight_head *jifl_flight_head(void)
{
	return jifl_flight_region.base;
}

/* --- beginning and end ------------------------------------------------------------------------ */

static void jifl_flight_end(void)
{
	u64 nothing = 0;
	u32 i;

	WRITE_ONCE(jifl_flight_alive, NULL);
	jifl_flight_listen(&nothing, 0);
	jifl_flight_lines_end();
	jifl_flight_lead(NULL);
	jifl_flight_aim_away();
	jifl_flight_unmap();
	/* The last reference may be let go here: then the file is closed later, by this task. */
	for (i = 0; i < JIFL_FLIGHT_HOLDS && jifl_flight_held[i]; i++) {
		fput(jifl_flight_held[i]);
		jifl_flight_held[i] = NULL;
	}
	jifl_flight_nmore = 0;
	jifl_flight_rest(NULL, false);
	/* Writes to memory that was given back mostly do no harm that anybody sees at once. */
	if (jifl_flight_leads_to(&jifl_flight_region) ||
	    jifl_flight_lines_lead_to(jifl_flight_head()))
		pr_err("a processor still has the rings of a recording that ends\n");
	jifl_region_close(&jifl_flight_region);
	WRITE_ONCE(jifl_flight_owner, NULL);
}

static void jifl_flight_end_told(void)
{
	jifl_flight_end();
	pr_info("flight recording ended: by pid %d comm %s\n", task_tgid_nr(current),
		current->comm);
}

/* Events without which it cannot stop at what it is to stop at. */
static u64 jifl_flight_needs(const struct jifl_flight *req)
{
	u64 mask = req->stop_mask;

	if (req->stop_errno)
		mask |= 1ull << JIFL_FLIGHT_EXIT;
	if (req->slow_ns)
		mask |= 1ull << req->slow_from | 1ull << req->slow_to;
	return mask;
}

static bool jifl_flight_may_start(const struct jifl_flight *req)
{
	return req->record_count >= JIFL_FLIGHT_LEAST && req->record_count <= JIFL_FLIGHT_MOST &&
	       is_power_of_2(req->record_count) && req->keep <= 1 && req->stop_errno <= 0 &&
	       req->after_ns <= JIFL_FLIGHT_AFTER_MOST &&
	       req->slow_ns <= JIFL_FLIGHT_AFTER_MOST &&
	       req->slow_from < JIFL_FLIGHT_EVENTS_MAX && req->slow_to < JIFL_FLIGHT_EVENTS_MAX &&
	       req->slow_from_key <= JIFL_FLIGHT_KEY_CPU && req->slow_to_key <= JIFL_FLIGHT_KEY_CPU;
}

/* Opens the region, with all that is written to it before there are records. */
static int jifl_flight_open(struct jifl_flight *req)
{
	const struct jifl_flight_event *events;
	u32 nevents;
	int ret;

	events = jifl_flight_events(&nevents);
	ret = jifl_region_open(&jifl_flight_region, req->memory, req->record_count, events,
			       nevents);
	if (ret)
		return ret;
	ret = jifl_flight_aim(jifl_flight_head(), req);
	if (ret)
		jifl_region_close(&jifl_flight_region);
	else
		jifl_flight_map(&jifl_flight_region);
	return ret;
}

static int jifl_flight_start(const void *owner, struct jifl_flight *req)
{
	struct jifl_flight_head *head;
	int ret;

	if (!jifl_flight_may_start(req))
		return -EINVAL;
	if (jifl_flight_head())
		return -EBUSY;
	if (!jifl_moment_is_steady())
		return -ENODEV;
	ret = jifl_flight_open(req);
	if (ret)
		return ret;
	head = jifl_flight_head();
	WRITE_ONCE(jifl_flight_recording, jifl_flight_recording + 1);
	jifl_flight_lead(&jifl_flight_region);
	jifl_flight_lines_begin(jifl_flight_recording, head);
	WRITE_ONCE(jifl_flight_owner, req->keep ? NULL : owner);
	/* From here on it can be found. */
	memcpy(head->magic, JIFL_FLIGHT_MAGIC, sizeof(head->magic));
	ret = jifl_flight_listen(&req->mask, 0);
	/* What it is to stop at has to be among them. */
	if (!ret && (!req->mask || jifl_flight_needs(req) & ~req->mask))
		ret = -EINVAL;
	if (ret) {
		jifl_flight_end();
		return ret;
	}
	jifl_flight_aim_resume();
	head->mask = req->mask;
	jifl_region_flush_head(head);
	WRITE_ONCE(jifl_flight_alive, head);
	pr_info("flight recording started: by pid %d comm %s, %u records for each CPU%s\n",
		task_tgid_nr(current), current->comm, req->record_count,
		req->keep ? ", kept" : "");
	return 0;
}

/* --- what it has --------------------------------------------------------------------------- */

static int jifl_flight_copy(const struct jifl_region *region, struct jifl_flight *req)
{
	const u64 length = req->length;

	if (length > JIFL_FLIGHT_COPY_MOST || req->offset > region->size ||
	    length > region->size - req->offset)
		return -EINVAL;
	return copy_to_user(u64_to_user_ptr(req->buf), region->base + req->offset, length) ?
	       -EFAULT : 0;
}

static int jifl_flight_last(struct jifl_flight *req)
{
	struct jifl_region region = {};
	int ret;

	/* That of this boot is no other's. */
	if (jifl_flight_head() && jifl_flight_region.physical)
		return -EBUSY;
	ret = jifl_region_find(&region, req->memory, req->op == JIFL_FLIGHT_FORGET);
	if (!ret && req->op == JIFL_FLIGHT_LAST)
		ret = jifl_flight_copy(&region, req);
	jifl_region_leave(&region);
	return ret;
}

static int jifl_flight_tell_events(struct jifl_flight *req)
{
	u32 n;
	const struct jifl_flight_event *events = jifl_flight_events(&n);

	req->length = min_t(u64, req->length, n * sizeof(*events));
	return copy_to_user(u64_to_user_ptr(req->buf), events, req->length) ? -EFAULT : 0;
}

static int jifl_flight_set_mask(struct jifl_flight *req)
{
	struct jifl_flight_head *head = jifl_flight_head();
	int ret;

	jifl_flight_aim_pause();
	ret = jifl_flight_listen(&req->mask, jifl_flight_nmore);
	if (!ret)
		head->mask = req->mask;
	else	/* it goes on as it was */
		jifl_flight_listen(&head->mask, jifl_flight_nmore);
	jifl_flight_aim_resume();
	jifl_region_flush_head(head);
	return ret;
}

static int jifl_flight_thaw(void)
{
	struct jifl_flight_head *head = jifl_flight_head();

	jifl_flight_aim_pause();
	WRITE_ONCE(head->stop_why, JIFL_FLIGHT_RUNS);
	WRITE_ONCE(head->stop_at, U64_MAX);
	jifl_flight_rest(&jifl_flight_region, false);
	jifl_flight_aim_resume();
	jifl_region_flush_head(head);
	return 0;
}

/* One that rests has stopped, and its counter may have begun again since: suspend.c. */
static int jifl_flight_freeze(const struct jifl_flight *req)
{
	if (req->after_ns > JIFL_FLIGHT_AFTER_MOST)
		return -EINVAL;
	if (!jifl_flight_is_resting())
		jifl_flight_trip(JIFL_FLIGHT_AT_REQUEST, 0, jifl_flight_ticks(req->after_ns),
				 false);
	return 0;
}

/* The number of an event in the table; that behind the last one if it is not there. */
static u32 jifl_flight_find_event(const struct jifl_flight_event *event)
{
	const struct jifl_flight_head *head = jifl_flight_head();
	const struct jifl_flight_event *table = (const void *)head + head->events_at;
	u32 i = head->nevents - jifl_flight_nmore;

	while (i < head->nevents && memcmp(&table[i], event, sizeof(*event)))
		i++;
	return i;
}

/* Step 5. */
static int jifl_flight_add(struct jifl_flight *req)
{
	struct jifl_flight_head *head = jifl_flight_head();
	struct jifl_flight_event *table = (void *)head + head->events_at;
	struct jifl_flight_event event;

	if (req->length != sizeof(event))
		return -EINVAL;
	if (copy_from_user(&event, u64_to_user_ptr(req->buf), sizeof(event)))
		return -EFAULT;
	if (event.reserved)
		return -EINVAL;
	req->recording = jifl_flight_recording;
	req->added = jifl_flight_find_event(&event);
	if (req->added == JIFL_FLIGHT_EVENTS_MAX)
		return -ENOSPC;
	if (req->added == head->nevents) {
		table[req->added] = event;
		/* Who finds the number finds the event: stores are seen in their order. */
		smp_store_release(&head->nevents, req->added + 1);
		jifl_flight_nmore++;
		jifl_region_flush(&jifl_flight_region);
	}
	return 0;
}

/* From now on that event of programs is recorded. If it stops the recording, its first does. */
static int jifl_flight_record(u32 event, bool stops)
{
	struct jifl_flight_head *head = jifl_flight_head();
	u64 mask = head->mask | 1ull << event;
	int ret;

	if (stops)
		jifl_flight_aim_at(event, true);
	ret = jifl_flight_listen(&mask, jifl_flight_nmore);
	if (ret && stops)
		jifl_flight_aim_at(event, false);
	head->mask = mask;
	jifl_region_flush_head(head);
	return ret;
}

static int jifl_flight_hold(const void *owner, struct file *file, const struct jifl_flight *req)
{
	const struct jifl_flight_head *head = jifl_flight_head();
	u32 i = 0;
	int ret;

	/* The recording ends when its owner is closed: one that is held never is. */
	if (owner == jifl_flight_owner)
		return -EINVAL;
	if (req->recording != jifl_flight_recording)
		return -ESTALE;
	if (req->stop_mask > 1 || req->added >= head->nevents ||
	    req->added < head->nevents - jifl_flight_nmore)
		return -EINVAL;
	while (i < JIFL_FLIGHT_HOLDS && jifl_flight_held[i])
		i++;
	if (i == JIFL_FLIGHT_HOLDS)
		return -ENOSPC;
	ret = jifl_flight_record(req->added, req->stop_mask);
	/* The file's own reference, while it is asked, is enough for another one. */
	if (!ret)
		jifl_flight_held[i] = get_file(file);
	return ret;
}

/* Of a recording that runs. */
static int jifl_flight_running(const void *owner, struct file *file, struct jifl_flight *req)
{
	if (!jifl_flight_head())
		return -ENOENT;
	switch (req->op) {
	case JIFL_FLIGHT_END:
		jifl_flight_end_told();
		return 0;
	case JIFL_FLIGHT_COPY:
		return jifl_flight_copy(&jifl_flight_region, req);
	case JIFL_FLIGHT_MASK:
		return jifl_flight_set_mask(req);
	case JIFL_FLIGHT_FREEZE:
		return jifl_flight_freeze(req);
	case JIFL_FLIGHT_THAW:
		return jifl_flight_thaw();
	case JIFL_FLIGHT_HOLD:
		return jifl_flight_hold(owner, file, req);
	case JIFL_FLIGHT_ADD:
		return jifl_flight_add(req);
	default:
		return -EINVAL;
	}
}

static int jifl_flight_do(const void *owner, struct file *file, struct jifl_flight *req)
{
	switch (req->op) {
	case JIFL_FLIGHT_START:
		return jifl_flight_start(owner, req);
	case JIFL_FLIGHT_LAST:
	case JIFL_FLIGHT_FORGET:
		return jifl_flight_last(req);
	case JIFL_FLIGHT_EVENTS:
		return jifl_flight_tell_events(req);
	default:
		return jifl_flight_running(owner, file, req);
	}
}

int jifl_flight_request(const void *owner, struct file *file, struct jifl_flight *req)
{
	int ret = jifl_require_addresses();

	if (ret) {
		jifl_audit_refused("flight", ret);
		return ret;
	}
	if (req->reserved || (req->op != JIFL_FLIGHT_HOLD && req->recording) ||
	    req->slow_reserved[0] || req->slow_reserved[1] ||
	    strnlen(req->memory, sizeof(req->memory)) == sizeof(req->memory))
		return -EINVAL;
	if (mutex_lock_killable(&jifl_flight_mutex))
		return -EINTR;
	ret = jifl_flight_do(owner, file, req);
	mutex_unlock(&jifl_flight_mutex);
	return ret;
}

void jifl_flight_closes(const void *owner)
{
	/* Requests of this file alone make it the owner, and they are over. */
	if (READ_ONCE(jifl_flight_owner) != owner)
		return;
	mutex_lock(&jifl_flight_mutex);
	if (jifl_flight_head() && jifl_flight_owner == owner)
		jifl_flight_end_told();
	mutex_unlock(&jifl_flight_mutex);
}

void jifl_flight_show(void (*what)(const struct jifl_region *region))
{
	mutex_lock(&jifl_flight_mutex);
	if (jifl_flight_head())
		what(&jifl_flight_region);
	mutex_unlock(&jifl_flight_mutex);
}

/* --- load, end, panic ------------------------------------------------------------------------- */

/* Any context; other CPUs may be stopped. */
static int jifl_flight_panics(struct notifier_block *block, unsigned long event, void *text)
{
	struct jifl_flight_head *head = READ_ONCE(jifl_flight_alive);

	if (!head)
		return NOTIFY_DONE;
	if (READ_ONCE(head->stop_at) == U64_MAX)
		WRITE_ONCE(head->stop_why, JIFL_FLIGHT_AT_PANIC);
	jifl_region_flush(&jifl_flight_region);
	return NOTIFY_DONE;
}

static struct notifier_block jifl_flight_notifier = { .notifier_call = jifl_flight_panics };

int jifl_flight_init(void)
{
	int ret = jifl_flight_map_init();

	if (ret)
		return ret;
	atomic_notifier_chain_register(&panic_notifier_list, &jifl_flight_notifier);
	jifl_flight_suspend_init();
	return jifl_flight_find_events();
}

void jifl_flight_exit(void)
{
	jifl_flight_suspend_exit();
	atomic_notifier_chain_unregister(&panic_notifier_list, &jifl_flight_notifier);
	mutex_lock(&jifl_flight_mutex);
	if (jifl_flight_head())
		jifl_flight_end_told();
	mutex_unlock(&jifl_flight_mutex);
	jifl_flight_map_exit();
}
