// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What a request holds (fuzzer.h): as the ABI wants it, nearly so, and with bytes changed.
 */
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuzzer.h"

const struct request requests[] = {
	{ JIFL_IOC_INFO, sizeof(struct jifl_info) },
	{ JIFL_IOC_START, sizeof(struct jifl_start) },
	{ JIFL_IOC_STOP, sizeof(struct jifl_stop) },
	{ JIFL_IOC_STAT, sizeof(struct jifl_stat) },
	{ JIFL_IOC_STATUS, sizeof(struct jifl_status) },
	{ JIFL_IOC_SESSION, sizeof(struct jifl_session_info) },
	{ JIFL_IOC_DETACH, sizeof(struct jifl_detach) },
	{ JIFL_IOC_PLUGIN_CTL, sizeof(struct jifl_plugin_ctl) },
	{ JIFL_IOC_PLUGIN, sizeof(struct jifl_plugin_info) },
	{ JIFL_IOC_ROUTINE, sizeof(struct jifl_routine_info) },
	{ JIFL_IOC_BLOCK, sizeof(struct jifl_block) },
	{ JIFL_IOC_RECORDS, sizeof(struct jifl_records) },
	{ JIFL_IOC_TABLE, sizeof(struct jifl_table_read) },
	{ JIFL_IOC_PLUGIN_READ, sizeof(struct jifl_plugin_read) },
	{ JIFL_IOC_WARM, sizeof(struct jifl_warm) },
	{ JIFL_IOC_IRQ, sizeof(struct jifl_irq) },
	{ JIFL_IOC_HITS, sizeof(struct jifl_hit_read) },
};
const unsigned int nrequests = sizeof(requests) / sizeof(requests[0]);

/* System calls mostly; now and then one of them twice, or what is no target. */
static uint32_t fill_targets(struct fuzzer *f, struct jifl_target_spec *list, uint32_t n)
{
	int all = one_in(f, 8);
	uint32_t i;

	if (!all)
		n = below(f, 8);
	for (i = 0; i < n; i++) {
		memset(&list[i], 0, sizeof(list[i]));
		list[i].kind = one_in(f, 2000) ? odd_value(f) : JIFL_TARGET_SYSCALL;
		list[i].scope = one_in(f, 2000);
		list[i].id = all ? i : one_in(f, 16) ? odd_value(f) : below(f, 520);
		list[i].address = one_in(f, 2000);
		if (one_in(f, 2000))
			list[i].name[below(f, sizeof(list[i].name))] = 'x';
	}
	return n;
}

/* Conditions that nothing names, or that a changed byte may name. */
static void fill_conditions(struct fuzzer *f, struct jifl_start *s)
{
	static __thread struct jifl_condition list[4];
	unsigned int i;

	for (i = 0; i < 4; i++)
		list[i] = (struct jifl_condition){
			.callers = one_in(f, 16) ? odd_value(f) : below(f, 9),
			.values = one_in(f, 16) ? odd_value(f) : below(f, 9),
		};
	s->nconditions = one_in(f, 16) ? odd_value(f) : below(f, 5);
	s->conditions = one_in(f, 16) ? edge_value(f) : (uint64_t)(uintptr_t)list;
}

/* A session about system calls is refused with any. */
static void fill_under(struct fuzzer *f, struct jifl_start *s)
{
	static __thread struct jifl_target_spec list[8];

	fill_targets(f, list, 8);
	list[below(f, 4)].kind = JIFL_TARGET_FUNCTION;
	s->nunder = one_in(f, 4) ? odd_value(f) : 1 + below(f, 4);
	s->under = one_in(f, 4) ? edge_value(f) : (uint64_t)(uintptr_t)list;
}

/* Places in no function, as the targets are system calls, or where a changed byte finds one. */
static void fill_splices(struct fuzzer *f, struct jifl_start *s)
{
	static __thread struct jifl_splice list[4];
	unsigned int i;

	for (i = 0; i < 4; i++)
		list[i] = (struct jifl_splice){
			.address = one_in(f, 4) ? odd_value(f) :
				   0xffffffff81000000ull + i * below(f, 4096),
			.target = one_in(f, 16) ? odd_value(f) : below(f, 4),
			.where = one_in(f, 16) ? odd_value(f) : below(f, 3),
			.refused = one_in(f, 64),
			.action = one_in(f, 16) ? odd_value(f) : below(f, 5),
		};
	s->nsplices = one_in(f, 16) ? odd_value(f) : below(f, 5);
	s->splices = one_in(f, 16) ? edge_value(f) : (uint64_t)(uintptr_t)list;
}

/* Ops of any kind, with arguments that many of them take. */
static void fill_ops(struct fuzzer *f, struct jifl_op *ops, unsigned int n)
{
	static const uint8_t widths[] = { 0, 0, 0, 1, 2, 4, 8, 3 };
	unsigned int i;

	for (i = 0; i < n; i++)
		ops[i] = (struct jifl_op){
			.code = one_in(f, 64) ? odd_value(f) :
				one_in(f, 2) ? 1 + below(f, 26) : JIFL_OP_IF + below(f, 12),
			.width = widths[below(f, 8)],
			.flags = one_in(f, 32) ? odd_value(f) : below(f, 2),
			.reserved = one_in(f, 256),
			.arg = one_in(f, 2) ? 0 : one_in(f, 16) ? odd_value(f) : below(f, 70),
			.imm = one_in(f, 2) ? 0 : one_in(f, 16) ? odd_value(f) : below(f, 70),
		};
}

/* Programs, now and then right ones: a number, and an effect that takes it. */
static void fill_programs(struct fuzzer *f, struct jifl_start *s)
{
	static __thread struct jifl_action actions[4];
	static __thread struct jifl_op ops[64];
	static char strings[64];
	unsigned int i;

	fill_ops(f, ops, 64);
	for (i = 0; i + 1 < 64 && one_in(f, 2); i += 2) {
		ops[i] = (struct jifl_op){ .code = JIFL_OP_GET, .arg = below(f, 7) };
		ops[i + 1] = (struct jifl_op){ .code = one_in(f, 2) ? JIFL_OP_IF : JIFL_OP_OUT };
	}
	for (i = 0; i < 4; i++)
		actions[i] = (struct jifl_action){
			.from = one_in(f, 16) ? odd_value(f) : 2 * below(f, 8),
			.n = one_in(f, 16) ? odd_value(f) : 1 + below(f, 20),
			.bpf = one_in(f, 8) ? (int)below(f, 20) : -1,
			.reserved = one_in(f, 256),
		};
	s->nactions = one_in(f, 16) ? odd_value(f) : below(f, 5);
	s->actions = one_in(f, 16) ? edge_value(f) : (uint64_t)(uintptr_t)actions;
	s->nops = one_in(f, 16) ? odd_value(f) : 64;
	s->ops = one_in(f, 16) ? edge_value(f) : (uint64_t)(uintptr_t)ops;
	s->nstrings = one_in(f, 16) ? odd_value(f) : below(f, 64);
	s->strings = one_in(f, 16) ? edge_value(f) : (uint64_t)(uintptr_t)strings;
	s->ring = one_in(f, 16) ? odd_value(f) : below(f, 2) << 16;
}

/* Names of tracepoints, and what is an address or nearly one. */
static void fill_counters(struct fuzzer *f, struct jifl_start *s)
{
	static __thread struct jifl_counter list[JIFL_COUNTERS_MAX + 1];
	unsigned int i;

	for (i = 0; i <= JIFL_COUNTERS_MAX; i++) {
		memset(list[i].tracepoint, one_in(f, 16) ? 'x' : 0, sizeof(list[i].tracepoint));
		list[i].kind = one_in(f, 16) ? odd_value(f) : 1 + below(f, JIFL_COUNTER_KINDS);
		if (one_in(f, 16) || list[i].kind == JIFL_COUNTER_TRACEPOINT)
			strcpy(list[i].tracepoint, "sched_switch");
		list[i].type = one_in(f, 16) ? odd_value(f) : below(f, 10);
		list[i].value = one_in(f, 2) ? below(f, 200) : edge_value(f) - 8 * below(f, 2);
	}
	s->ncounters = one_in(f, 16) ? odd_value(f) : below(f, JIFL_COUNTERS_MAX + 2);
	s->counters = one_in(f, 16) ? edge_value(f) : (uint64_t)(uintptr_t)list;
}

static void fill_start(struct fuzzer *f, struct jifl_start *s)
{
	static __thread struct jifl_target_spec list[JIFL_NR_MAX];

	s->kind = below(f, 14);
	s->ntargets = fill_targets(f, list, JIFL_NR_MAX);
	s->targets = (uint64_t)(uintptr_t)list;
	if (one_in(f, 16))
		s->targets = edge_value(f);
	if (one_in(f, 16))
		s->ntargets = odd_value(f);
	if (one_in(f, 3)) {
		s->filters = below(f, 32);
		s->pid = one_in(f, 2) ? getpid() : (int)below(f, 40000);
		s->tgid = one_in(f, 2) ? getpid() : (int)below(f, 40000);
		s->cgroup = one_in(f, 2) ? 1 : odd_value(f);
		memset(s->comm, 'x', one_in(f, 2) ? 16 : 3);
	}
	if (one_in(f, 8))
		fill_conditions(f, s);
	if (s->kind == JIFL_KIND_TIMES || one_in(f, 64))
		fill_counters(f, s);
	if (s->kind == JIFL_KIND_PROBE || s->kind == JIFL_KIND_TIMES || one_in(f, 64))
		fill_splices(f, s);
	if (s->nsplices ? one_in(f, 2) : one_in(f, 64))
		fill_programs(f, s);
	if (one_in(f, 8))
		fill_under(f, s);
	if (one_in(f, 8))
		s->flags = below(f, 4);
	else if (one_in(f, 4))
		s->flags = 1u << (5 + below(f, 12));
}

/* Room that is enough for few blocks only, as aside has little. */
static void fill_block(struct fuzzer *f, struct jifl_block *block, void *aside)
{
	__u64 *places[] = { &block->src, &block->code, &block->segments };
	unsigned int i;

	block->index = one_in(f, 2) ? 0 : below(f, 100);
	block->session = one_in(f, 2) ? 0 : below(f, 100);
	block->src_len = below(f, ARENA_ASIDE);
	block->code_len = below(f, ARENA_ASIDE);
	block->nsegments = below(f, ARENA_ASIDE / sizeof(struct jifl_segment));
	block->reserved = one_in(f, 16);
	for (i = 0; i < 3; i++)
		*places[i] = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
}

static const char *plugin_name(struct fuzzer *f)
{
	static const char *const names[] = { "icount", "calltrace" };

	return one_in(f, 8) ? "nobody" : names[below(f, 2)];
}

static void fill_plugin_read(struct fuzzer *f, struct jifl_plugin_read *read)
{
	static char lines[4 * JIFL_PLUGIN_LINE_MAX];	/* all threads': nobody looks at it */

	strcpy(read->name, plugin_name(f));
	read->n = below(f, sizeof(lines));
	read->until = one_in(f, 2) ? 0 : odd_value(f);
	read->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)lines;
}

/*
 * Blocks that a session has counted, as they are or nearly so, and places in the kernel's text
 * where perhaps no instruction begins.
 */
static void fill_warm(struct fuzzer *f, struct jifl_warm *warm)
{
	static __thread struct jifl_warm_block blocks[8];
	struct jifl_count known[8];
	struct jifl_table_read counts = {
		.size = sizeof(counts), .table = JIFL_KIND_PROFILE, .entry = sizeof(known[0]),
		.n = 8, .buf = (uintptr_t)known, .from = below(f, 64),
	};
	unsigned int i;

	if (ioctl(file_of(f), JIFL_IOC_TABLE, &counts))
		counts.n = 0;
	for (i = 0; i < 8; i++) {
		blocks[i] = (struct jifl_warm_block){
			.orig = 0xffffffff81000000 + below(f, 1 << 24),
			.src_len = below(f, 40), .insns = below(f, 10),
		};
		if (i < counts.n)
			blocks[i] = (struct jifl_warm_block){
				.orig = known[i].orig + (one_in(f, 4) ? below(f, 8) : 0),
				.src_len = known[i].src_len, .insns = known[i].insns,
				.hash = one_in(f, 2) ? known[i].hash : 0,
			};
		if (one_in(f, 8))
			blocks[i].orig = odd_value(f);
	}
	warm->n = one_in(f, 16) ? JIFL_WARM_MAX + below(f, 2) : below(f, 9);
	warm->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)blocks;
}

/* One of the tables that there are, with its entries' size; now and then what is none. */
static void fill_table(struct fuzzer *f, struct jifl_table_read *read, void *aside)
{
	static const struct {
		uint32_t table, entry;
	} tables[] = {
		{ JIFL_KIND_PROFILE, sizeof(struct jifl_count) },
		{ JIFL_TABLE_KEYS, sizeof(struct jifl_key) },
		{ JIFL_KIND_LOCK, sizeof(struct jifl_lock) },
		{ JIFL_KIND_MEM, sizeof(struct jifl_access) },
		{ JIFL_KIND_PROBE, sizeof(struct jifl_hits) },
		{ JIFL_TABLE_GROUPS, sizeof(struct jifl_group) },
		{ JIFL_TABLE_STACKS, sizeof(struct jifl_frames) },
	};
	unsigned int which = below(f, sizeof(tables) / sizeof(tables[0]));

	read->table = one_in(f, 16) ? (uint32_t)odd_value(f) : tables[which].table;
	read->entry = one_in(f, 16) ? (uint32_t)odd_value(f) : tables[which].entry;
	read->from = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, which ? 5 : 50);
	/* No session here has the tables of programs, whose entries are larger than aside. */
	read->n = tables[which].entry > ARENA_ASIDE ? one_in(f, 2) :
		  below(f, ARENA_ASIDE / tables[which].entry + 1);
	if (tables[which].table == JIFL_KIND_MEM)
		read->cpu = one_in(f, 8) ? (uint32_t)odd_value(f) : below(f, 3);
	else
		read->cpu = one_in(f, 16);
	read->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
}

void fill(struct fuzzer *f, unsigned int which, void *buf, void *aside)
{
	struct jifl_stat *stat = buf;
	struct jifl_detach *detach = buf;
	struct jifl_plugin_ctl *ctl = buf;
	struct jifl_plugin_info *plugin = buf;
	struct jifl_routine_info *routine = buf;
	struct jifl_records *records = buf;
	struct jifl_irq *irq = buf;
	struct jifl_hit_read *hits = buf;

	memset(buf, 0, requests[which].size);
	switch (requests[which].cmd) {
	case JIFL_IOC_START:
		fill_start(f, buf);
		break;
	case JIFL_IOC_STAT:
		stat->target = below(f, 520);
		if (one_in(f, 2))
			stat->hist = one_in(f, 2) ? (uint64_t)(uintptr_t)aside : edge_value(f);
		break;
	case JIFL_IOC_DETACH:
		detach->id = one_in(f, 4) ? 0 : below(f, 100);
		break;
	case JIFL_IOC_PLUGIN_CTL:
		ctl->start = below(f, 2);
		strcpy(ctl->name, plugin_name(f));
		break;
	case JIFL_IOC_PLUGIN:
		plugin->index = below(f, 3);
		break;
	case JIFL_IOC_PLUGIN_READ:
		fill_plugin_read(f, buf);
		break;
	case JIFL_IOC_WARM:
		fill_warm(f, buf);
		break;
	case JIFL_IOC_IRQ:
		irq->irq = one_in(f, 4) ? odd_value(f) : below(f, 64);
		irq->action = below(f, 3);
		irq->reserved = one_in(f, 16);
		break;
	case JIFL_IOC_ROUTINE:
		routine->index = below(f, 3);
		break;
	case JIFL_IOC_BLOCK:
		fill_block(f, buf, aside);
		break;
	case JIFL_IOC_RECORDS:
		records->cpu = below(f, 3);
		records->n = below(f, ARENA_ASIDE / sizeof(struct jifl_record));
		records->reserved = one_in(f, 16);
		records->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	case JIFL_IOC_HITS:
		hits->cpu = below(f, 3);
		hits->bytes = below(f, ARENA_ASIDE);
		hits->reserved = one_in(f, 16);
		hits->buf = one_in(f, 8) ? edge_value(f) : (uint64_t)(uintptr_t)aside;
		break;
	case JIFL_IOC_TABLE:
		fill_table(f, buf, aside);
		break;
	}
	*(uint32_t *)buf = requests[which].size;
}

int mutate(struct fuzzer *f, unsigned int which, char *buf)
{
	unsigned int size = requests[which].size;
	uint32_t was = *(uint32_t *)buf;
	int n = 1 + below(f, 4);

	if (requests[which].cmd == JIFL_IOC_STAT)
		size = offsetof(struct jifl_stat, hist);
	if (requests[which].cmd == JIFL_IOC_BLOCK)
		size = offsetof(struct jifl_block, src_len);
	if (requests[which].cmd == JIFL_IOC_RECORDS)
		size = offsetof(struct jifl_records, n);
	if (requests[which].cmd == JIFL_IOC_HITS)
		size = offsetof(struct jifl_hit_read, bytes);
	if (requests[which].cmd == JIFL_IOC_TABLE)
		size = offsetof(struct jifl_table_read, n);
	if (requests[which].cmd == JIFL_IOC_PLUGIN_READ)
		size = offsetof(struct jifl_plugin_read, n);

	while (n--) {
		unsigned int at = below(f, size);
		uint64_t value = odd_value(f);

		if (one_in(f, 2) && at + 8 <= size)
			memcpy(buf + at, &value, 8);
		else
			buf[at] = value;
	}
	return *(uint32_t *)buf != was;
}
