// SPDX-License-Identifier: GPL-2.0
/*
 * Comparisons before the stubs' indirect jump: chooses the calls to compare, writes the code.
 *
 * In a kernel with retpolines an indirect jump is a retpoline, and the processor mispredicts each.
 * So the stubs compare the address to jump to with a few known addresses. If one is equal, they
 * leave by a direct branch:
 *
 *	cmp $address, %rax; je address		for each address; at most JIFL_CHAIN
 *	and $(JIFL_CHAIN_NOTES - 1), %ecx	ecx was the call's number
 *	incl %gs:jifl_chain_notes + 4(, %rcx, 8)
 *	mov %eax, %gs:jifl_chain_notes(, %rcx, 8)
 *	jmp *%rax, in the kernel's own form
 *
 * A call that reaches the end leaves a note. Each CPU has notes of its own, so CPUs write to no
 * shared memory. While a session runs, a work item reads the notes of all CPUs. The code then
 * compares a frequent call first, and no longer compares the call that was last. The work item runs
 * soon at the beginning and seldom later, so that text changes at most every second or so.
 *
 * 1. For each rax the code has the effect of its last jump, because a comparison leads to an
 *    address only if rax is that address. So the compared addresses may be out of date, or no
 *    longer be code: only the table says where a call goes.
 * 2. The code is never weaker than the kernel's against speculation. Its indirect jump has the
 *    kernel's form. Direct branches after comparisons are how x64_sys_call itself dispatches.
 * 3. The code is in one of JIFL_CHAINS places in the module's text (run/stubs.S). New code is
 *    written to a free place. Then a static call is changed to lead to this place. The kernel
 *    changes the static call as other live text: each CPU is told to synchronise before it reaches
 *    the new code.
 * 4. A place is free again when no task is left in it, which is so after a grace period of RCU
 *    tasks since the static call led away from it: the code does not sleep. If no place is free,
 *    the code stays as it is.
 * 5. A thread that is preempted in the code is in the module's text. So eviction treats it as
 *    inside (leave/evict.c).
 * 6. If the kernel uses endbr64, each address begins with one. The branches lead behind it, because
 *    they are direct.
 *
 * Context: the work item: process context. It reads notes without locks or atomic operations: they
 * are a guess.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <asm/cpufeature.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "../run/stubs.h"
#include "chain.h"
#include "entry.h"

/* Time between two readings of the notes. It doubles each time, from FIRST_MS to LAST_MS. */
#define FIRST_MS	10
#define LAST_MS		1280
/* A call is compared if it leaves at least this many notes per FIRST_MS. */
#define NOTES_MIN	8

/* run/stubs.S: only the last jump; notes and jump without comparisons; places for the code. */
extern char jifl_chain_plain[];
extern char jifl_chain_none[];
extern u8 jifl_chain_0[], jifl_chain_1[], jifl_chain_2[];

/* How many calls reached the end of the comparisons, and the last one's address. */
struct note {
	u32 address;
	u32 count;
};

static_assert(offsetof(struct note, count) == 4);
static_assert(sizeof(struct note) == 8);

/*
 * The stubs write the notes. Modules have little space for static per-CPU data, so calls whose
 * numbers have the same last bits share a note.
 */
DEFINE_PER_CPU(struct note [JIFL_CHAIN_NOTES], jifl_chain_notes);

/* Used by the work item only: its last sums over all CPUs. */
static struct note noted[JIFL_CHAIN_NOTES];

static struct place {
	struct rcu_head rcu;
	bool used;
} places[JIFL_CHAINS];

static struct {
	bool enabled;			/* the rest is for kernels with retpolines */
	u32 addresses[JIFL_CHAIN];	/* low halves, in the order of comparisons */
	unsigned int n;
	struct place *place;		/* of the code; NULL: no code */
	unsigned int ms;
} chain;

/* Addresses of the places (run/stubs.S). */
static u8 *const starts[JIFL_CHAINS] = { jifl_chain_0, jifl_chain_1, jifl_chain_2 };

static void learn(struct work_struct *work);
static DECLARE_DELAYED_WORK(learning, learn);

static void proto_chain(void)
{
}

/* The stubs jump to this static call; they do not call it. */
DEFINE_STATIC_CALL(jifl_entry_chain, proto_chain);

void jifl_chain_init(void)
{
	chain.enabled = jifl_imported(text_poke_copy) && boot_cpu_has(X86_FEATURE_RETPOLINE);
	static_call_update(jifl_entry_chain,
			   (void *)(chain.enabled ? jifl_chain_none : jifl_chain_plain));
}

void jifl_chain_exit(void)
{
	rcu_barrier_tasks();
}

/* --- the code ------------------------------------------------------------------------- */

static void put32(u8 *at, u32 value)
{
	memcpy(at, &value, sizeof(value));
}

/* Writes `cmp $compared, %rax; je to` to code. It will be executed at address at. */
static void compare(u8 *code, unsigned long at, u32 compared, u32 to)
{
	static const u8 cmp_rax[] = { 0x48, 0x3d }, je[] = { 0x0f, 0x84 };

	memcpy(code, cmp_rax, sizeof(cmp_rax));
	put32(code + 2, compared);
	memcpy(code + 6, je, sizeof(je));
	if (IS_ENABLED(CONFIG_X86_KERNEL_IBT))
		to += ENDBR_INSN_SIZE;
	put32(code + 8, to - (u32)at - JIFL_CHAIN_BYTES);
}

static void retire(struct rcu_head *rcu)
{
	WRITE_ONCE(container_of(rcu, struct place, rcu)->used, false);
}

/* From now on the stubs jump to code. place: the place that it is in, or NULL. */
static void lead_to(void *code, struct place *place)
{
	static_call_update(jifl_entry_chain, code);
	if (chain.place)
		call_rcu_tasks(&chain.place->rcu, retire);
	chain.place = place;
}

/* Has the stubs compare these addresses. Changes nothing if no place is free. */
static void rebuild(const u32 *addresses, unsigned int n)
{
	u8 code[JIFL_CHAIN * JIFL_CHAIN_BYTES];
	unsigned int i, at, p;
	u8 *start;

	for (p = 0; p < JIFL_CHAINS && READ_ONCE(places[p].used); p++)
		;
	if (p == JIFL_CHAINS)
		return;
	start = starts[p] + (JIFL_CHAIN - n) * JIFL_CHAIN_BYTES;
	for (i = 0; i < n; i++) {
		at = i * JIFL_CHAIN_BYTES;
		compare(code + at, (unsigned long)start + at, addresses[i],
			addresses[JIFL_HOST_PLANTED(chain_exchanged) ? (i + 1) % n : i]);
	}
	if (!jifl_import(text_poke_copy)(start, code, n * JIFL_CHAIN_BYTES))
		return;
	places[p].used = true;
	lead_to(start, &places[p]);
	memcpy(chain.addresses, addresses, n * sizeof(*addresses));
	chain.n = n;
}

/* --- which addresses ------------------------------------------------------------------- */

static bool has(const u32 *addresses, unsigned int n, u32 address)
{
	while (n--)
		if (addresses[n] == address)
			return true;
	return false;
}

/* Takes the notes from all CPUs. A shared note has the address of one of its calls. */
static void collect(void)
{
	struct note *notes;
	unsigned int i;
	int cpu;

	memset(noted, 0, sizeof(noted));
	for_each_possible_cpu(cpu) {
		notes = per_cpu(jifl_chain_notes, cpu);
		for (i = 0; i < JIFL_CHAIN_NOTES; i++) {
			if (!READ_ONCE(notes[i].count))
				continue;
			noted[i].count += READ_ONCE(notes[i].count);
			noted[i].address = READ_ONCE(notes[i].address);
			WRITE_ONCE(notes[i].count, 0);
		}
	}
}

/* Takes the most frequent noted address, if it has at least `least` notes; 0: none. */
static u32 take_most_frequent(u32 least)
{
	struct note *best = noted;
	unsigned int i;

	for (i = 1; i < JIFL_CHAIN_NOTES; i++)
		if (noted[i].count > best->count)
			best = &noted[i];
	if (best->count < least)
		return 0;
	best->count = 0;
	return best->address;
}

static void learn(struct work_struct *work)
{
	u32 addresses[JIFL_CHAIN], address;
	unsigned int n = 0, i;

	collect();
	while (n < JIFL_CHAIN) {
		address = take_most_frequent(NOTES_MIN * (chain.ms / FIRST_MS));
		if (!address)
			break;
		if (!has(addresses, n, address) && !has(chain.addresses, chain.n, address))
			addresses[n++] = address;
	}
	if (n) {
		for (i = 0; i < chain.n && n < JIFL_CHAIN; i++)
			addresses[n++] = chain.addresses[i];
		rebuild(addresses, n);
	}
	chain.ms = min(2 * chain.ms, (unsigned int)LAST_MS);
	schedule_delayed_work(&learning, msecs_to_jiffies(chain.ms));
}

void jifl_chain_start(void)
{
	if (!chain.enabled)
		return;
	chain.ms = FIRST_MS;
	schedule_delayed_work(&learning, msecs_to_jiffies(chain.ms));
}

void jifl_chain_stop(void)
{
	if (!chain.enabled)
		return;
	cancel_delayed_work_sync(&learning);
	lead_to(jifl_chain_none, NULL);
	chain.n = 0;
	collect();	/* the next session learns anew */
}
