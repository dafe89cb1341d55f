// SPDX-License-Identifier: GPL-2.0
/*
 * The tool lock: where tasks wait for locks. It instruments the kernel's slow paths, which a task
 * enters when it does not get a lock at once, and loops that try a locked cmpxchg again.
 *
 * Inserted are calls of jifl_lock_begin at the entry of a slow path, of jifl_lock_end before the
 * slow path is left, and of jifl_lock_retry on the edge on which a cmpxchg has failed, if that edge
 * leads back to the cmpxchg. Nothing is inserted where a lock is taken at once, so that costs
 * nothing.
 *
 * Contexts: jifl_lock_init sleeps; jifl_lock_slow_at: any; the others run under the engine lock.
 */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/ksym.h"
#include "../../text/routine.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../tools.h"
#include "lock.h"

/*
 * Functions that wait. Each has the lock as its first argument. Compilers add a suffix to the names
 * of functions that they specialise. The slow paths of a semaphore and an rt_mutex are entered
 * after a try without waiting; for mutexes jifl_lock_begin checks that. The spinlock inside a
 * queued read-write lock or a semaphore has waits of its own.
 */
static const struct {
	const char *name;
	u8 type;
} names[] = {
	{ "native_queued_spin_lock_slowpath", JIFL_LOCK_SPIN },
	{ "__pv_queued_spin_lock_slowpath", JIFL_LOCK_SPIN },
	{ "queued_read_lock_slowpath", JIFL_LOCK_RWLOCK_READ },
	{ "queued_write_lock_slowpath", JIFL_LOCK_RWLOCK_WRITE },
	{ "__mutex_lock", JIFL_LOCK_MUTEX },
	{ "__ww_mutex_lock", JIFL_LOCK_MUTEX },
	{ "rwsem_down_read_slowpath", JIFL_LOCK_RWSEM_READ },
	{ "rwsem_down_write_slowpath", JIFL_LOCK_RWSEM_WRITE },
	{ "__down_common", JIFL_LOCK_SEMAPHORE },
	{ "__rt_mutex_slowlock_locked", JIFL_LOCK_RT_MUTEX },
	{ "percpu_rwsem_wait", JIFL_LOCK_PERCPU_RWSEM },
};

static const char * const suffixes[] = { "", ".constprop.0", ".isra.0", ".part.0" };

static struct jifl_lock_slow slows[ARRAY_SIZE(names)];
static unsigned int nslows;

/* Functions that do a locked cmpxchg for their caller: the caller counts as the one who retries. */
static const char * const helpers[] = { "lockref_", "refcount_", "rcuref_", "_atomic_dec_and_" };

static void jifl_lock_find_slow(const char *function, u8 type)
{
	char name[JIFL_SYMBOL_MAX];
	u64 start;

	start = jifl_ksym(function);
	if (!start)
		return;
	snprintf(name, sizeof(name), "%s.cold", function);
	slows[nslows] = (struct jifl_lock_slow){
		.start = start,
		.end = jifl_ksym_end(start),
		.cold = jifl_ksym(name),
		.type = type,
	};
	if (slows[nslows].cold)
		slows[nslows].cold_end = jifl_ksym_end(slows[nslows].cold);
	nslows++;
}

static int jifl_lock_init(void)
{
	char name[JIFL_SYMBOL_MAX];
	unsigned int i, j, before;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		before = nslows;
		for (j = 0; j < ARRAY_SIZE(suffixes) && nslows == before; j++) {
			snprintf(name, sizeof(name), "%s%s", names[i].name, suffixes[j]);
			jifl_lock_find_slow(name, names[i].type);
		}
	}
	jifl_lock_wait_init();
	return jifl_lock_table_init();
}

const struct jifl_lock_slow *jifl_lock_slow_at(u64 addr)
{
	unsigned int i;

	for (i = 0; i < nslows; i++)
		if ((addr >= slows[i].start && addr < slows[i].end) ||
		    (addr >= slows[i].cold && addr < slows[i].cold_end))
			return &slows[i];
	return NULL;
}

/* --- slow paths -------------------------------------------------------------------------- */

/* For the stack pointer how is ADDRESS: that accounts for what inserted code has pushed. */
static struct ir_fetch jifl_lock_fetch(enum ir_fetch_how how, u8 base)
{
	return (struct ir_fetch){ .how = how, .base = base, .index = IR_REG_NONE, .scale = 1 };
}

static struct ir_insert *jifl_lock_insert_call(struct ir_block *b, enum ir_place place, u16 at,
					       const void *fn, u8 nargs,
					       const struct jifl_lock_table *t)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	if (!ins)
		return NULL;
	ins->kind = IR_INSERT_CALL;
	ins->fn = (unsigned long)fn;
	ins->nargs = nargs;
	ins->args[0] = (unsigned long)t;
	return ins;
}

/* The further arguments of a call of jifl_lock_begin. */
static void jifl_lock_fill_begin(struct ir_insert *ins, const struct jifl_lock_slow *slow)
{
	ins->fetched = 1 << 1 | 1 << 2;
	ins->fetches[1] = jifl_lock_fetch(IR_FETCH_REG, IR_RDI);
	ins->fetches[2] = jifl_lock_fetch(IR_FETCH_ADDRESS, IR_RSP);
	ins->args[3] = (unsigned long)slow;
}

static void jifl_lock_insert_begin(struct ir_block *b, struct jifl_lock_table *t,
				   const struct jifl_lock_slow *slow)
{
	struct ir_insert *ins = jifl_lock_insert_call(b, IR_BEFORE, 0, jifl_lock_begin, 4, t);

	if (ins)
		jifl_lock_fill_begin(ins, slow);
}

/* The copy of a slow path that is a target begins behind its tracer's site. */
static void jifl_lock_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			    struct ir_insert *exit, u32 *nexit)
{
	const struct jifl_lock_slow *slow = jifl_lock_slow_at(aim->target->id);

	jifl_count_entry(aim, entry, nentry, exit, nexit);
	if (!jifl_target_skipped(aim->target) || !slow || aim->target->id != slow->start)
		return;
	entry[*nentry] = (struct ir_insert){
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)jifl_lock_begin,
		.nargs = 4,
		.args = { (unsigned long)aim->session->tool_data },
	};
	jifl_lock_fill_begin(&entry[(*nentry)++], slow);
}

/* Where the slow path returns, or jumps to another function, which returns in its place. */
static void jifl_lock_insert_end(struct ir_block *b, struct jifl_lock_table *t)
{
	struct jifl_way_out out;
	struct ir_insert *ins;

	jifl_routine_way_out(b, &out);
	if (out.kind == JIFL_STAYS)
		return;
	ins = jifl_lock_insert_call(b, out.place, b->ninsns - 1, jifl_lock_end, 2, t);
	if (!ins)
		return;
	ins->fetched = 1 << 1;
	ins->fetches[1] = jifl_lock_fetch(IR_FETCH_ADDRESS, IR_RSP);
}

/* --- retries ----------------------------------------------------------------------------- */

/* True for a cmp of rax, which has the value that cmpxchg found, with another register. */
static bool jifl_lock_compares_rax(const struct ir_insn *insn)
{
	struct ins_memory m;
	u16 reads, writes;

	if (insn->type != ins_compare || jifl_engine_memory(insn, &m, 1))
		return false;
	jifl_engine_uses(insn, &reads, &writes);
	return reads & 1u << IR_RAX && hweight16(reads) == 2;
}

enum { PREFIX_LOCK = 0xf0 };	/* SDM vol. 2, 2.1.1 */

/*
 * True if a byte is like a lock prefix. Most blocks have no such byte, and it takes long to find
 * out what an instruction does.
 */
static bool jifl_lock_may_lock(const struct ir_block *b)
{
	u32 i;

	for (i = 0; i < b->ninsns; i++)
		if (memchr(b->insns[i].bytes, PREFIX_LOCK, b->insns[i].len))
			return true;
	return false;
}

/*
 * The index of the locked cmpxchg whose outcome decides the branch that ends the block, or -1.
 * *written: the registers that have changed since the cmpxchg accessed its operand.
 */
static int jifl_lock_cmpxchg_of(const struct ir_block *b, u16 *written)
{
	const struct ir_insn *insn;
	bool compared = false;
	u16 reads, writes;
	int i;

	*written = 0;
	for (i = b->ninsns - 2; i >= 0; i--) {
		insn = &b->insns[i];
		if (insn->type == ins_nop)
			continue;
		jifl_engine_uses(insn, &reads, &writes);
		if (insn->type == ins_cmpxchg && jifl_engine_properties(insn) & INS_LOCKED) {
			*written |= writes;
			return i;
		}
		if (!compared && jifl_lock_compares_rax(insn))
			compared = true;
		else if (insn->type != ins_move || (compared && writes & 1u << IR_RAX))
			break;
		*written |= writes;
	}
	return -1;
}

/* Sets argument 1, the lock's address: 0 if its registers have changed. */
static void jifl_lock_fetch_operand(struct ir_insert *ins, const struct ir_insn *cmpxchg,
				    u16 written)
{
	struct ins_memory m;
	u16 needed = 0;

	ins->args[1] = 0;
	if (!jifl_engine_memory(cmpxchg, &m, 1) || m.segment != INS_SEGMENT_NONE)
		return;
	needed |= m.base < 16 ? 1u << m.base : 0;
	needed |= m.index < 16 ? 1u << m.index : 0;
	if (!needed) {
		ins->args[1] = m.disp;
		return;
	}
	if (needed & written || m.disp != (s32)m.disp)
		return;
	ins->fetched = 1 << 1;
	ins->fetches[1] = (struct ir_fetch){
		.how = IR_FETCH_ADDRESS,
		.base = m.base,
		.index = m.index,
		.scale = m.scale,
		.disp = m.disp,
	};
}

/* How many calls lie between the function that wants the cmpxchg and the one that executes it. */
static unsigned int jifl_lock_outer_of(u64 addr)
{
	char name[JIFL_SYMBOL_MAX];
	unsigned int i;

	jifl_ksym_name(addr, name, sizeof(name));
	for (i = 0; i < ARRAY_SIZE(helpers); i++)
		if (!strncmp(name, helpers[i], strlen(helpers[i])))
			return 1;
	return 0;
}

static void jifl_lock_insert_retry(struct ir_block *b, struct jifl_lock_table *t)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];
	const struct ir_insn *cmpxchg;
	struct ir_insert *ins;
	bool on_taken;
	u16 written;
	int at;

	/* Equal: exchanged. */
	if ((last->type != ins_je && last->type != ins_jne) || !jifl_lock_may_lock(b))
		return;
	at = jifl_lock_cmpxchg_of(b, &written);
	if (at < 0)
		return;
	cmpxchg = &b->insns[at];
	on_taken = last->type == ins_jne;
	if (!jifl_engine_reaches(on_taken ? last->target : b->next, cmpxchg->addr) &&
	    !JIFL_HOST_PLANTED(once_is_retry))
		return;
	ins = jifl_lock_insert_call(b, on_taken ? IR_TAKEN : IR_AFTER, b->ninsns - 1,
				    jifl_lock_retry, 4, t);
	if (!ins)
		return;
	jifl_lock_fetch_operand(ins, cmpxchg, written);
	ins->args[2] = cmpxchg->addr.v;
	ins->args[3] = jifl_lock_outer_of(cmpxchg->addr.v);
}

/* In a slow path no retries are counted: they are part of its wait. */
static void jifl_lock_instrument(struct ir_block *b, void *arg)
{
	const struct jifl_session *s = arg;
	struct jifl_lock_table *t = s->tool_data;
	const struct jifl_lock_slow *slow = jifl_lock_slow_at(b->addr.v);

	if (!slow) {
		jifl_lock_insert_retry(b, t);
		return;
	}
	if (b->addr.v == slow->start)
		jifl_lock_insert_begin(b, t, slow);
	jifl_lock_insert_end(b, t);
}

const struct jifl_tool jifl_tool_lock = {
	.name = "lock",
	.kind = JIFL_KIND_LOCK,
	.flags = JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_COUNTED,
	.shows_addresses = true,
	.init = jifl_lock_init,
	.table = &jifl_lock_answer,
	.instrument = jifl_lock_instrument,
	.open = jifl_lock_open,
	.close = jifl_lock_close,
	.entry = jifl_lock_entry,
};
