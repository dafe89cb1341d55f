/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jifl_store.h: memory in which plugins keep and pass on their results. Included by jifl.h.
 *
 * Callbacks and analysis functions cannot allocate: they run with interrupts off, and the kernel's
 * code may hold any lock. So plugin_start makes what they need with the *_init functions below,
 * before it starts instrumenting. The variables are static variables of the plugin; their members
 * are not for the plugin. After plugin_stop, or a plugin_start that failed, JIFL frees all of it,
 * except a ring: the ring can be read until the plugin is started again or unloaded.
 *
 * If there is no room for more, that is counted, and one line of the log says so when the plugin
 * stops. So nothing is lost silently.
 *
 * All *_init: process context, between the beginning of plugin_start and the end of plugin_stop; in
 * callbacks of events, too. They sleep.
 * Errors: -EINVAL: NULL, or a size or number out of range; -EPERM: the plugin has not been started,
 * or this is not process context; -EBUSY: the variable was already initialised since the start;
 * -ENOMEM.
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
	atomic64_t refused;			/* how often there was no room */
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
 * A piece of the heap, zeroed, at a multiple of 16; NULL if there is no room, or size is 0. Single
 * pieces cannot be given back. Any context, takes no lock.
 */
#define heap_alloc(h, size)	jifl_heap_alloc(h, size)

/*
 * int heap_reset(heap_t *h)
 *
 * Takes all pieces back. Nothing may use a piece or ask for one meanwhile, so call it in a flush
 * callback, or while nothing is instrumented. Process context.
 * Errors: -EINVAL: h was not initialised.
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
 * size bytes for each CPU, zeroed. size may be any, while for DEFINE_PER_CPU all modules together
 * have 8 KiB.
 */
#define cpu_storage_init(s, size)	jifl_cpu_storage_init(&jifl_this_plugin, s, size)

/* The bytes of a CPU, 0 to nr_cpu_ids - 1. s was initialised. Any context. */
static inline void *cpu_storage_of(const cpu_storage_t *s, unsigned int cpu)
{
	return s->memory + cpu * s->stride;
}

/*
 * The bytes of the CPU on which this runs. s was initialised. Any context. A task that is moved to
 * another CPU meanwhile goes on with the bytes of the CPU that it has left. So a change that takes
 * more than one instruction, or is not made by this_cpu_add(), needs interrupts off
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

/* Called with the storage of a task that is gone, see task_storage_init(). */
typedef void (*task_gone)(void *data);

#define TASK_STORAGE_SIZE_MAX	4096

/*
 * int task_storage_init(task_storage_t *t, size_t size, unsigned int max, task_gone gone)
 *
 * size bytes, at most TASK_STORAGE_SIZE_MAX, for each of at most max tasks (threads) at a time; max
 * is 1 to 1048576. Each task_storage_t is a key. The kernel frees a task some time after its end;
 * the task's place becomes free then. Before that, gone is called for it once, unless it is NULL.
 * gone runs in any context, perhaps with interrupts off, and several CPUs call it at once. It may
 * do the same as analysis functions.
 */
#define task_storage_init(t, size, max, gone) \
	jifl_task_storage_init(&jifl_this_plugin, t, size, max, gone)

/*
 * void *task_storage(task_storage_t *t)
 *
 * The current task's storage, at a multiple of 16, zeroed at the task's first call; NULL if max
 * tasks have storage already. Any context but NMI; takes a lock only at a task's first call.
 */
#define task_storage(t)		jifl_task_storage(t)

/*
 * void *task_storage_of(task_storage_t *t, const struct task_struct *task)
 *
 * Another task's storage; NULL if it has none. Valid as long as the task exists. Any context but
 * NMI.
 */
#define task_storage_of(t, task) jifl_task_storage_of(t, task)

/*
 * int task_storage_drain(task_storage_t *t)
 *
 * Treats all tasks that have storage as gone: calls gone for each, and frees their places. So, if
 * plugin_stop calls it, gone has seen all storage once. Process context, while no instrumented code
 * uses t.
 * Errors: -EINVAL: t was not initialised.
 */
#define task_storage_drain(t)	jifl_task_storage_drain(&jifl_this_plugin, t)

/* How often there was no room. Any context. */
static inline u64 task_storage_refused(const task_storage_t *t)
{
	return atomic64_read(&t->store.refused);
}

/* --- a ring of records --------------------------------------------------------------------- */

/* About a record, beside its contents. */
struct ring_info {
	u64 ns;			/* CLOCK_MONOTONIC when it was put in */
	unsigned int cpu;	/* where */
};

/*
 * Writes a record as a line, for `jifl read`: at most size - 1 characters and a 0, like
 * scnprintf(line, size, ...). Process context, may sleep; no plugin is started or stopped
 * meanwhile.
 */
typedef void (*ring_show)(const void *record, const struct ring_info *info, char *line,
			  size_t size);

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
 * Room on each CPU for n records, 1 to 16777216, of size bytes, at most RING_RECORD_MAX. `jifl read
 * NAME` takes the records out in the order of their times, while the plugin is started and
 * afterwards. Each record becomes a line of at most RING_LINE_MAX characters. A plugin has at most
 * one ring (-EBUSY).
 */
#define ring_init(r, size, n, show) jifl_plugin_ring_init(&jifl_this_plugin, r, size, n, show)

/*
 * void ring_put(ring_t *r, const void *record)
 *
 * Copies a record into this CPU's ring, with the time. If the ring is full, the record is lost and
 * counted: `jifl read` says how many were. Any context but NMI; takes no lock, but has interrupts
 * off for a moment.
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
 * Room for at least n records, 1 to 16777216, of size bytes, at most QUEUE_RECORD_MAX: n is rounded
 * up to a power of two. All CPUs share the queue. Analysis functions and threads of the plugin can
 * put records in and take them out.
 */
#define jifl_queue_init(q, size, n)	jifl_plugin_queue_init(&jifl_this_plugin, q, size, n)

/*
 * bool jifl_enqueue(jifl_queue_t *q, record)
 *
 * Copies a record to the queue's end: the record itself, not what it points to. A record is a
 * pointer, a number or a structure, but no array. False: there is no room, which is counted; or,
 * after a line in the log, the record's size is not that of the queue's records. Any context; takes
 * no lock, but has interrupts off for a moment.
 */
#define jifl_enqueue(q, record) ({					\
	const typeof(record) jifl_record = (record);			\
	jifl_plugin_enqueue(&jifl_this_plugin, q, &jifl_record, sizeof(jifl_record)); })

/*
 * bool jifl_dequeue(jifl_queue_t *q, record *to)
 *
 * Takes the earliest record and copies it to *to. False: there is none; or, after a line in the
 * log, the size of *to is not that of the queue's records. Any context; takes no lock, but has
 * interrupts off for a moment. In NMI context jifl_enqueue and jifl_dequeue may also return false
 * if the NMI has interrupted one of them.
 */
#define jifl_dequeue(q, to)	jifl_plugin_dequeue(&jifl_this_plugin, q, to, sizeof(*(to)))

/* How often there was no room. Any context. */
static inline u64 jifl_queue_refused(const jifl_queue_t *q)
{
	return atomic64_read(&q->store.refused);
}

/* --- functions behind the names above: not for plugins -------------------------------- */

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
