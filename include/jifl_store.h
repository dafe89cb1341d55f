/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jifl_store.h: where plugins keep what they find, and how they hand it on. Included by jifl.h.
 *
 * Callbacks and analysis functions cannot allocate: they run with interrupts off and with whatever
 * locks the kernel's code holds. What they need is made beforehand, by the *_init functions below,
 * which plugin_start calls before it starts instrumenting; the variables are static ones of the
 * plugin, whose members are not for it. All of it is freed when plugin_stop has returned, or a
 * plugin_start that failed, but for a ring, which can be read until the plugin is started again or
 * unloaded.
 *
 * Where there is no room for more, that is counted, and one line of the log says so when the
 * plugin stops: nothing is lost in silence.
 *
 * All *_init: process context, between the beginning of plugin_start and the end of plugin_stop;
 * in callbacks of events, too. Sleep. Errors: -EINVAL for sizes or numbers out of their range, or
 * NULL; -EPERM the plugin has not been started, or not in process context; -EBUSY it has been made
 * since the start; -ENOMEM.
 */
#ifndef _JIFL_STORE_H
#define _JIFL_STORE_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/smp.h>
#include <linux/types.h>

struct jifl_plugin;
struct jifl_store_type;

struct jifl_store {
	struct list_head list;			/* the plugin's */
	const struct jifl_store_type *type;	/* NULL: not made */
	atomic64_t refused;			/* for want of room */
};

/* --- a heap -------------------------------------------------------------------------- */

typedef struct jifl_heap {
	struct jifl_store store;
	char *memory;
	size_t size;
	atomic64_t used;
} heap_t;

/*
 * int heap_init(heap_t *h, size_t bytes)
 *
 * Memory for heap_alloc(), from which callbacks and analysis functions take pieces of any size.
 */
#define heap_init(h, bytes)	jifl_heap_init(&jifl_this_plugin, h, bytes)

/*
 * void *heap_alloc(heap_t *h, size_t size)
 *
 * A piece of it, zeroed, at a multiple of 16; NULL where there is no room, or size is 0. Pieces
 * are not given back one by one. Any context, takes no lock.
 */
#define heap_alloc(h, size)	jifl_heap_alloc(h, size)

/*
 * int heap_reset(heap_t *h)
 *
 * Takes all pieces back. For a callback of a flush, and where nothing is instrumented: nobody
 * may use one, or ask for one. Process context. Errors: -EINVAL it was not made.
 */
#define heap_reset(h)		jifl_heap_reset(&jifl_this_plugin, h)

/* Bytes that have been given away. Any context. */
static inline size_t heap_used(const heap_t *h)
{
	return atomic64_read(&h->used);
}

/* How often there was no room. Any context. */
static inline u64 heap_refused(const heap_t *h)
{
	return atomic64_read(&h->store.refused);
}

/* --- storage of each CPU --------------------------------------------------------------- */

typedef struct jifl_cpu_storage {
	struct jifl_store store;
	char *memory;
	size_t stride;			/* bytes from one CPU's to the next one's */
} cpu_storage_t;

/*
 * int cpu_storage_init(cpu_storage_t *s, size_t size)
 *
 * So many bytes for each CPU, zeroed, of any size: DEFINE_PER_CPU shares 8 KiB with all modules.
 */
#define cpu_storage_init(s, size)	jifl_cpu_storage_init(&jifl_this_plugin, s, size)

/* Those of a CPU, 0 to nr_cpu_ids - 1. Any context, of what has been made. */
static inline void *cpu_storage_of(const cpu_storage_t *s, unsigned int cpu)
{
	return s->memory + cpu * s->stride;
}

/*
 * Those of the CPU that this runs on. Any context, of what has been made. A task that is
 * moved meanwhile goes on with those of the CPU that it has left: what is changed by
 * more than one instruction, or is not this_cpu_add()'s, wants interrupts off
 * (local_irq_save) or atomics.
 */
static inline void *cpu_storage(const cpu_storage_t *s)
{
	return cpu_storage_of(s, raw_smp_processor_id());
}

/* --- storage of each task ---------------------------------------------------------------- */

struct jifl_task_table;

typedef struct jifl_task_storage {
	struct jifl_store store;
	struct jifl_task_table *table;
} task_storage_t;

/* Gets the storage of a task that is gone, see task_storage_init(). */
typedef void (*task_gone)(void *data);

#define TASK_STORAGE_SIZE_MAX	4096

/*
 * int task_storage_init(task_storage_t *t, size_t size, unsigned int max, task_gone gone)
 *
 * size bytes, at most TASK_STORAGE_SIZE_MAX, for each of at most max tasks (threads) at a time, 1
 * to 1048576. Each task_storage_t is a key. A task that has been freed by the kernel, some time
 * after its end, gives its place back; before that gone, unless it is NULL, is called for it,
 * once. gone runs in any context, perhaps with interrupts off, and several CPUs call it at once:
 * it may do what analysis functions may.
 */
#define task_storage_init(t, size, max, gone) \
	jifl_task_storage_init(&jifl_this_plugin, t, size, max, gone)

/*
 * void *task_storage(task_storage_t *t)
 *
 * The current task's, at a multiple of 16, zeroed when it is asked for first; NULL where max tasks
 * have theirs. Any context but NMI; takes no lock but at a task's first time.
 */
#define task_storage(t)		jifl_task_storage(t)

/*
 * void *task_storage_of(task_storage_t *t, const struct task_struct *task)
 *
 * That of another task, if it has any; else NULL. It is good as long as the task is. Any context
 * but NMI.
 */
#define task_storage_of(t, task) jifl_task_storage_of(t, task)

/*
 * int task_storage_drain(task_storage_t *t)
 *
 * All tasks that have storage are taken for gone: gone is called for each, and none has any more.
 * So, in plugin_stop, all that was ever stored has passed through it once. Process
 * context, when nothing is instrumented that uses it. Errors: -EINVAL it was not made.
 */
#define task_storage_drain(t)	jifl_task_storage_drain(&jifl_this_plugin, t)

/* How often there was no room. Any context. */
static inline u64 task_storage_refused(const task_storage_t *t)
{
	return atomic64_read(&t->store.refused);
}

/* --- a ring of records --------------------------------------------------------------------- */

/* What is known of a record beside what is in it. */
struct ring_info {
	u64 ns;			/* CLOCK_MONOTONIC when it was put in */
	unsigned int cpu;	/* where */
};

/*
 * Makes a line of a record, for `jifl read`: at most size - 1 characters, ended by a 0; as
 * scnprintf(line, size, ...) does. Process context, may sleep; plugins are not started or stopped
 * meanwhile.
 */
typedef void (*ring_show)(const void *record, const struct ring_info *info, char *line, size_t size);

struct jifl_ring_cpu;

typedef struct jifl_plugin_ring {
	struct jifl_store store;
	struct jifl_ring_cpu *cpus;
	char *memory;
	size_t size, stride;	/* of a record; from one to the next */
	u32 n;			/* of each CPU */
	ring_show show;
} ring_t;

#define RING_RECORD_MAX		4096
#define RING_LINE_MAX		1024

/*
 * int ring_init(ring_t *r, size_t size, unsigned int n, ring_show show)
 *
 * Room for n records, 1 to 16777216, of size bytes, at most RING_RECORD_MAX, on each CPU. What is
 * in it `jifl read NAME` takes out, while the plugin is started and afterwards, a line of at most
 * RING_LINE_MAX characters for each, in the order of their times. A plugin has one ring at most
 * (-EBUSY).
 */
#define ring_init(r, size, n, show) jifl_plugin_ring_init(&jifl_this_plugin, r, size, n, show)

/*
 * void ring_put(ring_t *r, const void *record)
 *
 * Copies a record into this CPU's ring, with the time. Where that is full, the record is lost, and
 * counted: `jifl read` says how many. Any context but NMI; takes no lock, but has interrupts off
 * for a moment.
 */
#define ring_put(r, record)	jifl_plugin_ring_put(r, record)

/* How many records have been lost. Any context. */
u64 jifl_plugin_ring_lost(const ring_t *r);
#define ring_lost(r)		jifl_plugin_ring_lost(r)

/* --- a queue ------------------------------------------------------------------------------- */

struct jifl_queue_ends;

typedef struct jifl_queue {
	struct jifl_store store;
	struct jifl_queue_ends *ends;
	char *memory;
	size_t size, stride;	/* of a record; from one to the next */
	u32 n;			/* a power of two */
} jifl_queue_t;

#define QUEUE_RECORD_MAX	4096

/*
 * int jifl_queue_init(jifl_queue_t *q, size_t size, unsigned int n)
 *
 * Room for at least n records, 1 to 16777216, of size bytes, at most QUEUE_RECORD_MAX, that all CPUs
 * share: the next power of two. What one puts in another takes, be it an analysis function or
 * a thread of the plugin's.
 */
#define jifl_queue_init(q, size, n)	jifl_plugin_queue_init(&jifl_this_plugin, q, size, n)

/*
 * bool jifl_enqueue(jifl_queue_t *q, record)
 *
 * Copies a record to its end: itself, not what it points to. It may be a pointer, a number or a
 * structure, but no array. False where there is no room, which is counted; and, after a line in the
 * log, where its size is not that of the queue's records. Any context; takes no lock, but has
 * interrupts off for a moment.
 */
#define jifl_enqueue(q, record) ({					\
	const typeof(record) jifl_record = (record);			\
	jifl_plugin_enqueue(&jifl_this_plugin, q, &jifl_record, sizeof(jifl_record)); })

/*
 * bool jifl_dequeue(jifl_queue_t *q, record *to)
 *
 * Copies the first record out to where `to` points, the one that was put in earliest; false where
 * there is none. Likewise. In NMI context either may say so too, where it has interrupted the other.
 */
#define jifl_dequeue(q, to)	jifl_plugin_dequeue(&jifl_this_plugin, q, to, sizeof(*(to)))

/* How often there was no room. Any context. */
static inline u64 jifl_queue_refused(const jifl_queue_t *q)
{
	return atomic64_read(&q->store.refused);
}

/* --- what stands behind the names above: not for plugins -------------------------------- */

int jifl_heap_init(struct jifl_plugin *p, heap_t *h, size_t bytes);
void *jifl_heap_alloc(heap_t *h, size_t size);
int jifl_heap_reset(struct jifl_plugin *p, heap_t *h);
int jifl_cpu_storage_init(struct jifl_plugin *p, cpu_storage_t *s, size_t size);
int jifl_task_storage_init(struct jifl_plugin *p, task_storage_t *t, size_t size, unsigned int max,
			   task_gone gone);
void *jifl_task_storage(task_storage_t *t);
void *jifl_task_storage_of(task_storage_t *t, const struct task_struct *task);
int jifl_task_storage_drain(struct jifl_plugin *p, task_storage_t *t);
int jifl_plugin_ring_init(struct jifl_plugin *p, ring_t *r, size_t size, unsigned int n,
			  ring_show show);
void jifl_plugin_ring_put(ring_t *r, const void *record);
int jifl_plugin_queue_init(struct jifl_plugin *p, jifl_queue_t *q, size_t size, unsigned int n);
bool jifl_plugin_enqueue(struct jifl_plugin *p, jifl_queue_t *q, const void *record, size_t size);
bool jifl_plugin_dequeue(struct jifl_plugin *p, jifl_queue_t *q, void *record, size_t size);

#endif /* _JIFL_STORE_H */
